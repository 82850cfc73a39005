"""What the commands that talk to a broker share: its address, --json, and errors in one line."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from kohort.broker.client import Client, ClientError
from kohort.broker.terminal import complain

Action = Callable[[Client, argparse.Namespace], int]


def broker_options() -> argparse.ArgumentParser:
    """A parent for the parsers of such commands."""
    options = argparse.ArgumentParser(add_help=False)
    options.add_argument("--bootstrap-server", default="localhost:9092", metavar="HOST:PORT")
    options.add_argument("--json", action="store_true", help="for machines")
    return options


def with_broker(action: Action) -> Callable[[argparse.Namespace], int]:
    """Runs `action` with a connection; what goes wrong between us and the broker is one line for people."""

    def run(options: argparse.Namespace) -> int:
        try:
            with Client(options.bootstrap_server) as client:
                return action(client, options)
        except ClientError as problem:
            complain(str(problem))
            return 1
        except UnicodeEncodeError:  # bytes that are no letters come from the shell as halves of surrogate pairs
            complain("a name that is not UTF-8 cannot be one of Kafka's")
            return 1

    return run
