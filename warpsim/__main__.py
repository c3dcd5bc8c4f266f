"""`python -m warpsim`."""

import sys

from warpsim.cli import main

if __name__ == "__main__":
    sys.exit(main())
