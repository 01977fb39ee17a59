"""A plug-in that ends the program."""

import sys

sys.exit(3)
