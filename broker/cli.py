"""The command `kohort`: finds the command's module in broker/commands/ and runs it.

Only that module is imported: `kohort serve` must be quick, and needs nothing of the others. The audit is a package of
its own that the broker knows by name only.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from errno import ENOSPC
from importlib import import_module
from io import TextIOWrapper
from typing import Any

COMMANDS = {
    "serve": "start the broker",
    "groups": "list, describe and delete groups, reset and delete their offsets",
    "topics": "list, create, describe and delete topics",
    "dump": "show what is in a log folder, as kafka-dump-log does",
    "audit": "find out from a log of consumer offsets who owned what, and what went wrong",
}
ELSEWHERE = {"audit": "kohort.audit.cli"}

USAGE = (
    "usage: kohort COMMAND ...\n\nA Kafka group coordinator in Python. `kohort COMMAND --help` says more.\n\n"
    + "\n".join(f"  {name:<8} {about}" for name, about in COMMANDS.items())
)


def main(arguments: Sequence[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else list(arguments)
    if not given or given[0] not in COMMANDS:
        asked = bool(given) and given[0] in ("-h", "--help", "help")
        print(USAGE, file=sys.stdout if asked else sys.stderr)
        return 0 if asked else 2
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names may have letters that the terminal has not
    try:
        run, options = parse(given)
        status = int(run(options))
        if sys.stdout is not None:  # it was closed before we came
            sys.stdout.flush()  # here a full disk can still be told
        return status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output, `head` for instance, has seen enough
        _forget_output()
        return 0
    except OSError as problem:
        if problem.errno != ENOSPC:
            raise
        _forget_output()
        print(f"kohort: {problem}", file=sys.stderr)
        return 1


def _forget_output() -> None:
    """What is still buffered, so that Python does not try again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def parse(given: Sequence[str]) -> tuple[Any, argparse.Namespace]:
    """What to run, and with which options. A command may have actions in files of their own."""
    words, rest = list(given[:1]), list(given[1:])
    module: Any = import_module(ELSEWHERE.get(given[0], f"kohort.broker.commands.{given[0]}"))
    actions = getattr(module, "ACTIONS", {})
    if rest and rest[0] in actions:
        words.append(rest.pop(0))
        module = import_module(actions[words[1]])
    parser = argparse.ArgumentParser(prog=f"kohort {' '.join(words)}", description=module.__doc__.partition("\n")[0])
    module.add_arguments(parser)
    options = parser.parse_args(rest)
    return getattr(options, "run", None) or module.run, options
