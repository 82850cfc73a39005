"""`kohort why`: explain the rebalances of a group: who caused them, who was slow, what stood still, what to change."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from bisect import bisect_right
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING

from kohort.broker.commands.common import REFUSED, WRONG_COMMAND_LINE, add_cluster, option
from kohort.broker.terminal import complain, in_plain_words
from kohort.client.errors import ClientError, WrongSettings
from kohort.printable import printable_json
from kohort.times import parse_moment_ms

if TYPE_CHECKING:
    from kohort.broker.why.source import Found, Source
    from kohort.history.explain import Explanation

EPILOG = """\
  kohort why billing kohort-data                     from a data folder, a copy of one, or a recording
  kohort why billing --bootstrap-server kafka:9092   from a cluster; the user needs READ on __consumer_offsets
  kohort why billing --at 2026-11-16T06:30 --json

It only reads. The log of a Kohort says what began a rebalance. That of a Kafka does not: there it is inferred from what
has changed and from when members committed last, and marked so.
"""
DEFAULT_LAST = 3
KEPT = 1_000  # rebalances that are remembered, for what only several of them show
SHOW_AFTER_S = 1.0
INDENT = 11
MIN_WIDTH = 40
CLEAR = "\r\x1b[K"
BOLD, DIM, CYAN, RESET = "\x1b[1m", "\x1b[2m", "\x1b[36m", "\x1b[0m"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("group", metavar="GROUP")
    parser.add_argument(
        "path",
        nargs="*",
        metavar="DIR",
        help="log folders: of a Kohort, of a Kafka, or a recording (default: ask a cluster)",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--last", type=option(_count), metavar="N", help=f"the last N rebalances (default: {DEFAULT_LAST})"
    )
    which.add_argument(
        "--at", type=option(_moment), metavar="TIME",
        help="the rebalance that was going on then, or else the last one before: 2026-11-16T06:30 (UTC), or 2h (ago)",
    )  # fmt: skip
    add_cluster(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def run(options: argparse.Namespace) -> int:
    from kohort.broker.why.source import CannotRead

    if options.path and (options.bootstrap_server or options.command_config):
        complain("why: name log folders or --bootstrap-server, not both")
        return WRONG_COMMAND_LINE
    if not options.path and _has_logs(options.group):
        complain(
            f"why: {options.group} is a folder with logs; name a group before it: kohort why GROUP {options.group}"
        )
        return WRONG_COMMAND_LINE
    try:
        return _from_folders(options) if options.path else _from_cluster(options)
    except WrongSettings as problem:
        complain(str(problem))
        return WRONG_COMMAND_LINE
    except (ClientError, CannotRead) as problem:
        complain(str(problem))
    except OSError as problem:
        complain(in_plain_words(problem))
    except UnicodeEncodeError:
        complain("a name that is not UTF-8 cannot be one of Kafka's")
        return WRONG_COMMAND_LINE
    return REFUSED


def _has_logs(path: str) -> bool:
    """Whether somebody has forgotten the group, and named only a folder."""
    try:
        return any(name.startswith("__consumer_offsets-") for name in os.listdir(path))
    except (OSError, ValueError):
        return False


def _from_folders(options: argparse.Namespace) -> int:
    from kohort.broker.why.folders import Folders

    return _why(Folders(options.path), options)


def _from_cluster(options: argparse.Namespace) -> int:
    from kohort.broker.why.cluster import ClusterLog
    from kohort.client.cluster import Cluster
    from kohort.client.settings import load_settings

    with Cluster(settings=load_settings(options.bootstrap_server, options.command_config, os.environ)) as cluster:
        return _why(ClusterLog(cluster), options)


def _why(source: Source, options: argparse.Namespace) -> int:
    from kohort.broker.why.source import read_history

    progress = Progress()
    try:
        found = read_history(source, options.group, max(KEPT, options.last or 0), progress)
        is_known = found.history.is_known
        if not is_known:
            _complain_of_unknown(source, options.group)
            return REFUSED
    finally:
        progress.end()
    _complain_of_damage(found)
    explanations = _chosen(found, options)
    if options.json:
        _print_json(explanations)
    else:
        _print(found, explanations, options)
    return 0


def _chosen(found: Found, options: argparse.Namespace) -> list[Explanation]:
    from kohort.history.explain import explain

    rebalances = list(found.history.rebalances)
    if options.at is None:
        wanted = rebalances[-(options.last or DEFAULT_LAST) :]
    else:
        begins = [rebalance.begin_ms or rebalance.time_ms for rebalance in rebalances]
        index = bisect_right(begins, options.at) - 1
        wanted = rebalances[index : index + 1] if index >= 0 else []
    ids = {id(rebalance) for rebalance in wanted}
    return explain(found.history, lambda rebalance: id(rebalance) in ids)


# --- what people see


def _print(found: Found, explanations: list[Explanation], options: argparse.Namespace) -> None:
    from kohort.history.text import lines_of, title_of
    from kohort.history.words import moment, shown

    history = found.history
    if not explanations:
        print(_nothing(found, options))
        return
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    bold, dim, cyan, reset = (BOLD, DIM, CYAN, RESET) if colour else ("", "", "", "")
    for number, explanation in enumerate(explanations):
        if number:
            print()
        print(f"{bold}{title_of(explanation)}{reset}")
        for line in lines_of(explanation):
            shade = dim if line.label in ("cost", "instead", "note") else ""
            for row, text in enumerate(_rows(line.text)):
                print(f"  {cyan}{'' if row else line.label:<9}{reset}{shade}{text}{reset if shade else ''}")
    if any(explanation.is_inferred for explanation in explanations) and options.at is None:
        print(
            f"\n{dim}Inferred: the log of {shown(history.group_id)} does not say what began a rebalance, as that of a"
            f" Kohort does. It begins at {moment(history.first_ms or 0)}.{reset}"
        )


def _rows(text: str) -> list[str]:
    """On a terminal, lines are broken between words."""
    if not sys.stdout.isatty():
        return [text]
    return wrap(text, max(MIN_WIDTH, get_terminal_size().columns - INDENT)) or [""]


def _nothing(found: Found, options: argparse.Namespace) -> str:
    from kohort.history.words import moment, shown

    history = found.history
    name = shown(history.group_id)
    if options.at is not None and history.rebalances:
        begins = moment(history.first_ms or 0)
        return f"Group {name} had no rebalance before {moment(options.at)}; in this log it begins at {begins}."
    if history.group_type is None:
        return f"Group {name} has committed offsets, and no record of a rebalance: it assigns partitions itself."
    return f"Group {name} has had no rebalance in this log, which begins at {moment(history.first_ms or 0)}."


def _print_json(explanations: list[Explanation]) -> None:
    from kohort.history.as_json import as_json

    text = json.dumps([as_json(explanation) for explanation in explanations], indent=2, ensure_ascii=False)
    print(printable_json(text))


def _complain_of_unknown(source: Source, group_id: str) -> None:
    from kohort.broker.why.lookalikes import lookalikes
    from kohort.history.words import shown

    near, count = lookalikes(group_id, source.group_ids())
    group_id = shown(group_id)
    if near:
        complain(f"there is no group {group_id} in the log; did you mean {', '.join(map(shown, near))}?")
    elif count:
        complain(f"there is no group {group_id} in the log, and none of its {count} groups looks like it")
    else:
        complain(f"there is no group {group_id} in the log: it has no groups at all")


def _complain_of_damage(found: Found) -> None:
    if found.damaged_batches or found.unreadable_records:
        complain(
            f"{found.damaged_batches} damaged batches and {found.unreadable_records} unreadable records were passed"
            " over; `kohort dump` shows them"
        )


class Progress:
    """One line on a terminal, once it has taken a second."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._shown_at = 0.0

    def show(self, done_bytes: int, total_bytes: int) -> None:
        now = time.monotonic()
        if now - self._began < SHOW_AFTER_S or now - self._shown_at < SHOW_AFTER_S / 5 or not sys.stderr.isatty():
            return
        self._shown_at = now
        share = 100 * done_bytes // max(total_bytes, 1)
        print(f"{CLEAR}reading the log: {share} %", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._shown_at:
            print(CLEAR, end="", file=sys.stderr, flush=True)


# --- the command line


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= 100_000:
        raise ValueError(f"{text!r} is no number of rebalances: write 1 to 100000")
    return int(text)


def _moment(text: str) -> int:
    return parse_moment_ms(text, time.time_ns() // 1_000_000)
