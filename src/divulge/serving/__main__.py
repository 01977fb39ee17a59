"""`python -m divulge.serving NETWORK.npz` serves a network and prints its address on one line."""

import sys

from divulge.serving.own import main

if __name__ == "__main__":
    sys.exit(main())
