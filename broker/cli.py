"""The command `kohort`: finds the command's module in broker/commands/ and runs it.

Only that module is imported: `kohort serve` must start quickly, and needs nothing of the others. The audit is a package
of its own that the broker knows by name only.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from errno import ENOSPC
from importlib import import_module
from io import TextIOWrapper
from types import ModuleType
from typing import NoReturn

from kohort.broker.terminal import in_plain_words

COMMANDS = {
    "serve": "start the broker",
    "groups": "list, describe and delete groups, reset and delete their offsets",
    "transactions": "list, describe and abort transactions, find those that nobody ends",
    "topics": "list, create, describe and delete topics",
    "why": "explain the rebalances of a group: who caused them, and what to change",
    "ui": "show groups in a browser: who owns what, lag, every rebalance; of a cluster or a folder",
    "record": "copy a cluster's log of consumer offsets into a folder, and follow it",
    "dump": "show what is in a log folder, as kafka-dump-log does",
    "audit": "find out from a log of consumer offsets who owned what, and what went wrong",
    "completion": "print a script that completes these commands in bash, zsh or fish",
}
ELSEWHERE = {"audit": "kohort.audit.cli"}
WRONG_COMMAND_LINE = 2

USAGE = (
    "usage: kohort COMMAND ...\n\nA Kafka group coordinator in Python. `kohort COMMAND --help` says more.\n\n"
    + "\n".join(f"  {name:<12} {about}" for name, about in COMMANDS.items())
    + "\n\n  --version   print the version\n  --help      print this"
)

Run = Callable[[argparse.Namespace], int]


class CommandParser(argparse.ArgumentParser):
    """Tells what is wrong in one line, without the ten lines of usage that argparse prints first."""

    def error(self, message: str) -> NoReturn:
        self.exit(WRONG_COMMAND_LINE, f"{self.prog}: {message}\n`{self.prog} --help` shows what it takes.\n")


def main(arguments: Sequence[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else list(arguments)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names may have letters that the terminal cannot show
    try:
        status = _run(given)
        if sys.stdout is not None:  # None: the process was started without standard output
            sys.stdout.flush()  # a full disk raises here, where it can still be reported
        return status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of the output, `head` for instance, has seen enough
        _discard_output()
        return 0
    except OSError as problem:
        if problem.errno != ENOSPC:
            raise
        _discard_output()
        print(f"kohort: {in_plain_words(problem)}", file=sys.stderr)
        return 1


def _run(given: Sequence[str]) -> int:
    if not given or given[0] not in COMMANDS:
        return _no_command(given[0] if given else None)
    gc.disable()  # imports leave no garbage, and looking for it would take a tenth of their time
    try:
        run, options = parse(given)
    finally:
        gc.enable()
    return run(options)


def _no_command(word: str | None) -> int:
    """Answer a command line that does not start with a command."""
    if word in ("-h", "--help", "help"):
        print(USAGE)
        return 0
    if word in ("-V", "--version"):
        from importlib.metadata import version

        print(f"kohort {version('kohort')}")
        return 0
    if word is None:
        print(USAGE, file=sys.stderr)
    else:
        print(f"kohort: there is no command {word!r}{_did_you_mean(word)}\n\n{USAGE}", file=sys.stderr)
    return WRONG_COMMAND_LINE


def _did_you_mean(word: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word, COMMANDS, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _discard_output() -> None:
    """Send what is still buffered to /dev/null, so that Python does not fail with it once more when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def parse(given: Sequence[str]) -> tuple[Run, argparse.Namespace]:
    """The function that runs the command line, and the options for it."""
    words, rest = list(given[:1]), list(given[1:])
    actions = actions_of(load(words))
    if rest and rest[0] in actions:
        words.append(rest.pop(0))
    module = load(words)
    parser = parser_for(words)
    options, unknown = parser.parse_known_args(rest)
    if unknown:
        getattr(options, "parser", parser).error(f"unrecognized arguments: {' '.join(unknown)}")
    run: Run = getattr(options, "run", None) or module.run
    return run, options


def load(words: Sequence[str]) -> ModuleType:
    """The module of a command; or of an action of it, if the actions have modules of their own."""
    command = import_module(ELSEWHERE.get(words[0], f"kohort.broker.commands.{words[0]}"))
    return command if len(words) == 1 else import_module(actions_of(command)[words[1]])


def actions_of(command: ModuleType) -> Mapping[str, str]:
    """The modules of a command's actions, by the actions' names."""
    found: Mapping[str, str] = getattr(command, "ACTIONS", {})
    return found


def parser_for(words: Sequence[str]) -> CommandParser:
    """The parser of a command or an action. Its description is the first line of the module, without its name."""
    module = load(words)
    about = (module.__doc__ or "").partition("\n")[0].partition(": ")[2]
    parser = CommandParser(prog=f"kohort {' '.join(words)}", description=f"{about[:1].upper()}{about[1:]}")
    module.add_arguments(parser)
    return parser
