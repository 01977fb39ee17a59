"""Pure numerics, a folder a mathematical problem."""
