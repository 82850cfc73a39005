"""What the commands that talk to a broker have in common: its address, --json, and errors of one line."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from kohort.broker.terminal import complain
from kohort.client.client import Client, ClientError, parse_address

if TYPE_CHECKING:
    Actions = argparse._SubParsersAction[argparse.ArgumentParser]

Action = Callable[[Client, argparse.Namespace], int]
Parsed = TypeVar("Parsed")

REFUSED = 1
WRONG_COMMAND_LINE = 2


def add_action(
    actions: Actions, name: str, about: str, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    """A parser for one action of a command, with the options that all actions have."""
    parser = actions.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
    parser.add_argument(
        "--bootstrap-server", type=option(_address), default="localhost:9092", metavar="HOST:PORT",
        help="where the broker is (default: localhost:9092)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")
    parser.set_defaults(run=run, parser=parser)  # cli.py names the action when it reports unknown arguments
    return parser


def option(parse: Callable[[str], Parsed]) -> Callable[[str], Parsed]:
    """For argparse: if `parse` raises a ValueError, its text is what the user sees. The exit status is then 2."""

    def parse_or_explain(text: str) -> Parsed:
        try:
            return parse(text)
        except ValueError as problem:
            raise argparse.ArgumentTypeError(str(problem)) from None

    return parse_or_explain


def _address(text: str) -> str:
    parse_address(text)
    return text


def with_broker(action: Action) -> Callable[[argparse.Namespace], int]:
    """Run `action` with a connection to the broker. An error between client and broker becomes one line for people."""

    def run(options: argparse.Namespace) -> int:
        try:
            with Client(options.bootstrap_server) as client:
                return action(client, options)
        except ClientError as problem:
            complain(str(problem))
            return REFUSED
        except UnicodeEncodeError:
            # Python gives the program bytes that are not UTF-8 as lone surrogates, which no request can hold.
            complain("a name that is not UTF-8 cannot be one of Kafka's")
            return WRONG_COMMAND_LINE

    return run
