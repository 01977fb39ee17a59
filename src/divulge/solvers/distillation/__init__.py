"""A network trained on the answers of another one."""
