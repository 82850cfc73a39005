"""`kohort transactions`: list, describe and abort transactions, find those that nobody ends; on any cluster."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from time import time
from typing import Any

from kohort.broker.commands.common import add_action, option, with_cluster
from kohort.broker.commands.places import must_exist, named_partitions, parse_place
from kohort.broker.terminal import complain, table
from kohort.client import transactions
from kohort.client.answers import why
from kohort.client.cluster import Cluster, TopicPartition
from kohort.printable import printable
from kohort.protocol.error_codes import ErrorCode
from kohort.times import parse_duration_ms

LIST_HEADS = ("TRANSACTIONAL-ID", "COORDINATOR", "PRODUCER-ID", "STATE")
PARTITION_HEADS = ("TOPIC", "PARTITION", "FIRST-OFFSET", "STABLE-OFFSET", "LOG-END-OFFSET")
HANGING_HEADS = (
    "TOPIC", "PARTITION", "FIRST-OFFSET", "PRODUCER-ID", "EPOCH", "LAST-WRITTEN", "TRANSACTIONAL-ID",
)  # fmt: skip
OPEN = (transactions.ONGOING, *transactions.PREPARED)
USUAL_MAX_TIMEOUT = "15m"  # transaction.max.timeout.ms: the coordinator ends every transaction before that


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    listed = add_action(actions, "list", "list all transactional ids, with producer and state", with_cluster(_list))
    listed.add_argument(
        "--state", action="extend", type=option(_states), default=[], metavar="STATE[,STATE]",
        help="only ids in one of these states: " + ", ".join(transactions.STATES),
    )  # fmt: skip
    listed.add_argument(
        "--open-for", type=option(parse_duration_ms), metavar="DURATION",
        help="only ids whose transaction began longer ago than this: 90s, 2h, P1DT2H",
    )  # fmt: skip
    listed.add_argument("--pattern", metavar="REGEX", help="only ids that this regular expression matches as a whole")
    described = add_action(
        actions, "describe", "show state, producer, age and partitions of transactions", with_cluster(_describe)
    )
    described.add_argument("id", nargs="*", metavar="TRANSACTIONAL-ID", help="default: all that have a transaction now")
    _add_abort(add_action(actions, "abort", "abort open transactions", _abort))
    hanging = add_action(
        actions, "find-hanging", "find open transactions that no coordinator is going to end", with_cluster(_hanging)
    )
    hanging.add_argument(
        "--topic", action="append", type=option(parse_place), default=[], metavar="TOPIC[:0,1,2]",
        help="all partitions of a topic, or only these; may be given several times (default: all topics)",
    )  # fmt: skip
    hanging.add_argument(
        "--older-than", type=option(parse_duration_ms), default=USUAL_MAX_TIMEOUT, metavar="DURATION",
        help="to which nothing was written for so long (default: 15m, which no transaction may take longer)",
    )  # fmt: skip


def _add_abort(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s (TRANSACTIONAL-ID ... | --topic TOPIC:PARTITION --first-offset N) [--json]"
    parser.add_argument("id", nargs="*", metavar="TRANSACTIONAL-ID", help="whose open transaction is aborted")
    hanging = parser.add_argument_group("a transaction that no coordinator is going to end, as find-hanging shows it")
    hanging.add_argument("--topic", type=option(parse_place), metavar="TOPIC:PARTITION", help="the partition")
    hanging.add_argument("--first-offset", type=int, metavar="N", help="where it begins in this partition")
    parser.set_defaults(wrong=parser.error)


def _states(text: str) -> list[str]:
    known = {state.lower(): state for state in transactions.STATES}
    states = [state.strip() for state in text.split(",")]
    for state in states:
        if state.lower() not in known:
            *others, last = transactions.STATES
            raise ValueError(f"{state!r} is not a state: transactions are {', '.join(others)} or {last}")
    return [known[state.lower()] for state in states]


# --- list


def _list(cluster: Cluster, options: argparse.Namespace) -> int:
    states = options.state or (OPEN if options.open_for is not None else ())  # brokers count those that ended, too
    found = transactions.list_transactions(cluster, states, open_for_ms=options.open_for, pattern=options.pattern)
    if options.json:
        print(json.dumps([each._asdict() for each in found], indent=2))
    else:
        print(table(LIST_HEADS, found))
    return 0


# --- describe


def _describe(cluster: Cluster, options: argparse.Namespace) -> int:
    names = options.id or [each.transactional_id for each in transactions.list_transactions(cluster, OPEN)]
    described = transactions.describe(cluster, names)
    missing = [each.told for each in described if each.told.error_code]
    shown = [_description(cluster, each) for each in described if not each.told.error_code]
    if options.json:
        print(json.dumps(shown, indent=2))
    elif not names:
        complain("there are no open transactions")
    else:
        for one in shown:
            _print_transaction(one)
    for each in missing:
        complain(f"{each.transactional_id}: {why(each.error_code)}")
    return 1 if missing else 0


def _description(cluster: Cluster, each: transactions.Described) -> dict[str, Any]:
    told = each.told
    is_open = told.transaction_state in OPEN
    return {
        "transactional_id": told.transactional_id,
        "coordinator": each.coordinator,
        "state": told.transaction_state,
        "producer_id": told.producer_id,
        "epoch": told.producer_epoch,
        "timeout_ms": told.transaction_timeout_ms,
        "started": _time(told.transaction_start_time_ms) if is_open else None,
        "open_for_ms": max(0, _now_ms() - told.transaction_start_time_ms) if is_open else None,
        "partitions": [row._asdict() for row in transactions.partition_rows(cluster, each)],
    }


def _print_transaction(shown: dict[str, Any]) -> None:
    words = [
        f"{shown['transactional_id']}: {shown['state']}",
        f"producer {shown['producer_id']} in epoch {shown['epoch']}",
        f"timeout {_seconds(shown['timeout_ms'])}",
    ]
    if shown["started"] is not None:
        words.append(f"open for {_seconds(shown['open_for_ms'])}, since {shown['started']}")
    print(printable(", ".join(words)))
    if shown["partitions"]:
        print(table(PARTITION_HEADS, [tuple(row.values()) for row in shown["partitions"]]))
    print()


def _now_ms() -> int:
    return round(time() * 1000)


def _time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _seconds(duration_ms: int) -> str:
    return f"{duration_ms / 1000:.15g} s"


# --- abort


def _abort(options: argparse.Namespace) -> int:
    is_hanging = options.topic is not None or options.first_offset is not None
    if bool(options.id) == is_hanging:
        options.wrong("name transactional ids, or else --topic and --first-offset")
    if is_hanging and (options.topic is None or options.first_offset is None):
        options.wrong("--topic and --first-offset belong together")
    if is_hanging and len(options.topic.partitions or ()) != 1:
        options.wrong("--topic names one partition here, as in --topic orders:0")
    return with_cluster(_abort_hanging if is_hanging else _abort_open)(options)


def _abort_open(cluster: Cluster, options: argparse.Namespace) -> int:
    return _report([(name, transactions.abort(cluster, name)) for name in dict.fromkeys(options.id)], options)


def _abort_hanging(cluster: Cluster, options: argparse.Namespace) -> int:
    (place,) = _partitions(cluster, [options.topic])
    problem = transactions.abort_hanging(cluster, place, options.first_offset)
    return _report([(f"{place[0]}-{place[1]} from offset {options.first_offset}", problem)], options)


def _report(results: Sequence[tuple[str, str | None]], options: argparse.Namespace) -> int:
    if options.json:
        print(json.dumps([{"transaction": name, "problem": problem} for name, problem in results]))
    for name, problem in results:
        if problem is not None:
            complain(f"{name}: {problem}")
        elif not options.json:
            print(printable(f"aborted {name}"))
    return 1 if any(problem is not None for _, problem in results) else 0


# --- find-hanging


def _hanging(cluster: Cluster, options: argparse.Namespace) -> int:
    places = _partitions(cluster, options.topic) if options.topic else _all_partitions(cluster)
    found = transactions.find_hanging(cluster, places, options.older_than)
    if options.json:
        print(json.dumps([each._asdict() for each in found], indent=2))
    elif not found:
        complain("there are no hanging transactions")
    else:
        print(table(HANGING_HEADS, [_hanging_row(each) for each in found]))
    return 0


def _hanging_row(each: transactions.Hanging) -> tuple[object, ...]:
    return (
        each.topic, each.partition, each.first_offset, each.producer_id, each.producer_epoch,
        _time(each.last_written_ms), each.transactional_id,
    )  # fmt: skip


def _partitions(cluster: Cluster, named: Sequence[Any]) -> list[TopicPartition]:
    places = named_partitions(cluster, named)
    must_exist(cluster, places)
    return places


def _all_partitions(cluster: Cluster) -> list[TopicPartition]:
    """Of the topics that the user may see."""
    return [
        (topic.name or "", each.partition_index)
        for topic in cluster.metadata(None).topics
        if topic.error_code == ErrorCode.NONE
        for each in topic.partitions
    ]
