"""What the commands that talk to a cluster have in common: where it is, --json, and errors of one line."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from kohort.broker.terminal import complain
from kohort.client.cluster import Cluster
from kohort.client.errors import ClientError, WrongSettings
from kohort.client.settings import load_settings, parse_addresses

if TYPE_CHECKING:
    Actions = argparse._SubParsersAction[argparse.ArgumentParser]

Action = Callable[[Cluster, argparse.Namespace], int]
Parsed = TypeVar("Parsed")

REFUSED = 1
WRONG_COMMAND_LINE = 2


def add_action(
    actions: Actions, name: str, about: str, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    """A parser for one action of a command, with the options that all actions have."""
    parser = actions.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
    add_cluster(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")
    parser.set_defaults(run=run, parser=parser)  # cli.py names the action when it reports unknown arguments
    return parser


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """The options that say where the cluster is and how to log in."""
    parser.add_argument(
        "--bootstrap-server", type=option(_addresses), metavar="HOST:PORT[,...]",
        help="brokers of the cluster (default: $KOHORT_BOOTSTRAP_SERVER, bootstrap.servers in FILE, or localhost:9092)",
    )  # fmt: skip
    parser.add_argument(
        "--command-config", metavar="FILE",
        help="client.properties, as Kafka's tools take it: TLS, SASL (default: $KOHORT_COMMAND_CONFIG)",
    )  # fmt: skip


def option(parse: Callable[[str], Parsed]) -> Callable[[str], Parsed]:
    """For argparse: if `parse` raises a ValueError, its text is what the user sees. The exit status is then 2."""

    def parse_or_explain(text: str) -> Parsed:
        try:
            return parse(text)
        except ValueError as problem:
            raise argparse.ArgumentTypeError(str(problem)) from None

    return parse_or_explain


def _addresses(text: str) -> str:
    return ",".join(parse_addresses(text))


def with_cluster(action: Action) -> Callable[[argparse.Namespace], int]:
    """Run `action` on the cluster. An error between client and cluster becomes one line for people."""

    def run(options: argparse.Namespace) -> int:
        try:
            settings = load_settings(options.bootstrap_server, options.command_config, os.environ)
            with Cluster(settings=settings) as cluster:
                return action(cluster, options)
        except WrongSettings as problem:
            complain(str(problem))
            return WRONG_COMMAND_LINE
        except ClientError as problem:
            complain(str(problem))
            return REFUSED
        except UnicodeEncodeError:
            # Python gives the program bytes that are not UTF-8 as lone surrogates, which no request can hold.
            complain("a name that is not UTF-8 cannot be one of Kafka's")
            return WRONG_COMMAND_LINE

    return run
