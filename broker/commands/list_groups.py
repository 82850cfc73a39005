"""`kohort groups list`: all groups with state, members and lag; once, or again and again (--watch)."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from time import sleep, strftime
from typing import TextIO

from kohort.broker.terminal import table
from kohort.client.cluster import Cluster
from kohort.client.errors import ConnectionLost
from kohort.client.overview import GroupLine, overview

HEADS = ("GROUP", "TYPE", "PROTOCOL", "STATE", "#MEMBERS", "LAG")
STATE, LAG = HEADS.index("STATE"), HEADS.index("LAG")
WATCH_S = 2.0
HOME, CLEAR_LINE, CLEAR_REST = "\x1b[H", "\x1b[K", "\x1b[J"
WHOLE_SCREEN, SCREEN_BACK = "\x1b[?1049h", "\x1b[?1049l"  # the screen that is there comes back at the end
DIM, GREEN, YELLOW, RED, BOLD = "2", "32", "33", "31", "1"
COLOURS = {"Stable": GREEN, "Empty": DIM, "Dead": RED}  # in all other states a group is on its way to Stable


def add_list_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--sort", choices=("group", "lag", "members"), default="group", help="what comes first (default: by name)"
    )
    parser.add_argument(
        "--watch", nargs="?", type=seconds, const=WATCH_S, metavar="SECONDS",
        help="show it again every 2 s, or so many seconds, until Ctrl-C",
    )  # fmt: skip


def seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0.1 <= found <= 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 0.1 on")
    return found


def list_groups(cluster: Cluster, options: argparse.Namespace) -> int:
    if options.watch is None:
        print(_shown(overview(cluster, options.state), options, _has_colour(sys.stdout, os.environ)))
        return 0
    return _watch(cluster, options)


def _watch(cluster: Cluster, options: argparse.Namespace) -> int:
    """A cluster that does not answer for a while is asked again."""
    on_screen = sys.stdout.isatty() and not options.json
    lines: list[GroupLine] = []
    if on_screen:
        print(WHOLE_SCREEN, end="")
    try:
        while True:
            trouble = ""
            try:
                lines = overview(cluster, options.state)
            except ConnectionLost as problem:
                trouble = str(problem)
            if on_screen:
                _draw(lines, trouble, options)
            elif trouble:
                print(f"kohort: {trouble}", file=sys.stderr, flush=True)
            else:
                print(_shown(lines, options, False), flush=True)
            sleep(options.watch)
    except KeyboardInterrupt:
        return 0
    finally:
        if on_screen:
            print(SCREEN_BACK, end="", flush=True)


def _draw(lines: Sequence[GroupLine], trouble: str, options: argparse.Namespace) -> None:
    """As many lines as the terminal has; what is longer than a line of it is cut off by the terminal."""
    room = shutil.get_terminal_size().lines - 2
    told = trouble or f"{len(lines):,} groups at {strftime('%H:%M:%S')}"
    drawn = _shown(lines, options, _has_colour(sys.stdout, os.environ)).split("\n")
    if len(drawn) > room:
        drawn = [*drawn[: room - 1], f"... and {len(drawn) - room + 1:,} more"]
    text = "".join(f"{line}{CLEAR_LINE}\n" for line in [told, *drawn])
    print(f"{HOME}{text}{CLEAR_REST}", end="", flush=True)


def _shown(lines: Sequence[GroupLine], options: argparse.Namespace, has_colour: bool) -> str:
    if options.sort != "group":
        lines = sorted(lines, key=lambda line: -(getattr(line, options.sort) or 0))
    if options.json:
        return json.dumps([line._asdict() for line in lines], indent=None if options.watch else 2)
    return table(HEADS, lines, _painted if has_colour else None)


def _painted(row: int, column: int, cell: str) -> str:
    """The cell, which is already as wide as its column, in its colour."""
    word = cell.strip()
    if row == 0:
        code = BOLD
    elif column == STATE:
        code = COLOURS.get(word, YELLOW)
    elif column == LAG and word not in ("-", "0"):
        code = BOLD
    else:
        return cell
    return f"\x1b[{code}m{cell}\x1b[0m"


def _has_colour(out: TextIO, environment: Mapping[str, str]) -> bool:
    """See https://no-color.org."""
    return out.isatty() and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"
