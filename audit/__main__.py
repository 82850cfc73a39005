"""`kohort audit` without the command `kohort`: `python -m kohort.audit ...`, or this file for spark-submit."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from typing import Any

from kohort.audit import cli

INTERRUPTED = 130


def main() -> int:
    words, given = ["kohort", "audit"], sys.argv[1:]
    module: Any = cli
    if given and given[0] in cli.ACTIONS:
        words.append(given.pop(0))
        module = import_module(cli.ACTIONS[words[-1]])
    parser = argparse.ArgumentParser(prog=" ".join(words), description=module.__doc__.partition("\n")[0])
    module.add_arguments(parser)
    try:
        return int(module.run(parser.parse_args(given)))
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
