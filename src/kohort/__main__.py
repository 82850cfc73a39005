"""`python -m kohort`: the same as the command `kohort`."""

from __future__ import annotations

import sys

from kohort.broker.cli import main

if __name__ == "__main__":
    sys.exit(main())
