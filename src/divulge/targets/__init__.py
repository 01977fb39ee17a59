"""What is attacked: models in memory, in files and behind addresses, read without running their code."""
