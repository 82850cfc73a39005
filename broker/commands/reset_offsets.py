"""`kohort groups reset-offsets`: where a group will go on, with Kafka's options. It only shows, until --execute."""

from __future__ import annotations

import argparse
import csv
import json
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from time import time

from broker import group_client
from broker.client import Client, ClientError
from broker.group_client import EARLIEST, LATEST, TopicPartition
from broker.terminal import table

_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")


def add_reset_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group")
    scope = parser.add_argument_group("which partitions (default: all that have a committed offset)")
    scope.add_argument("--topic", action="append", default=[], metavar="TOPIC[:0,1,2]")
    scope.add_argument("--all-topics", action="store_true", help="all topics with a committed offset")
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--to-earliest", action="store_true")
    target.add_argument("--to-latest", action="store_true")
    target.add_argument("--to-current", action="store_true", help="the committed offset, to export it")
    target.add_argument("--to-offset", type=int, metavar="N")
    target.add_argument("--shift-by", type=int, metavar="N", help="forward, or back if negative")
    target.add_argument("--to-datetime", metavar="YYYY-MM-DDTHH:mm:SS.sss", help="UTC unless it names a zone")
    target.add_argument("--by-duration", metavar="PnDTnHnMnS", help="back from now")
    target.add_argument("--from-file", metavar="FILE", help="CSV: topic,partition,offset")
    parser.add_argument("--execute", action="store_true", help="do it; otherwise it is only shown")


def reset_offsets(client: Client, options: argparse.Namespace) -> int:
    group_client.wait_for_coordinator(client, options.group)
    group = group_client.describe(client, options.group)
    if group.group_state not in ("Empty", "Dead"):
        raise ClientError(f"group {options.group} is {group.group_state}: stop its members first")
    committed = group_client.committed_offsets(client, options.group)
    wanted = _from_file(options.from_file) if options.from_file else None
    places = list(wanted) if wanted is not None else _scope(client, options, committed)
    if not places:
        raise ClientError(f"group {options.group} has no committed offsets; name a --topic")
    starts = group_client.offsets_at(client, places, EARLIEST)
    ends = group_client.offsets_at(client, places, LATEST)
    for topic, partition in places:
        if (topic, partition) not in ends:
            raise ClientError(f"{topic}-{partition} does not exist")
    target = wanted if wanted is not None else _targets(client, options, places, committed, starts, ends)
    new = {place: min(max(offset, starts[place]), ends[place]) for place, offset in target.items()}
    _show(options, committed, new)
    if options.execute:
        group_client.commit(client, options.group, new)
    elif not options.json:
        print("not changed yet: add --execute", file=sys.stderr)
    return 0


def _scope(client: Client, options: argparse.Namespace, committed: dict[TopicPartition, int]) -> list[TopicPartition]:
    if not options.topic:
        return sorted(committed)
    places = []
    for text in options.topic:
        topic, colon, indexes = text.partition(":")
        counts = group_client.partition_counts(client, [topic])
        if topic not in counts:
            raise ClientError(f"there is no topic {topic}")
        try:
            chosen = [int(index) for index in indexes.split(",")] if colon else range(counts[topic])
        except ValueError:
            raise ClientError(f"--topic {text}: partitions are numbers with commas, as in {topic}:0,1") from None
        places += [(topic, index) for index in chosen]
    return places


def _targets(
    client: Client,
    options: argparse.Namespace,
    places: list[TopicPartition],
    committed: dict[TopicPartition, int],
    starts: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
) -> dict[TopicPartition, int]:
    if options.to_earliest:
        return starts
    if options.to_latest:
        return ends
    if options.to_offset is not None:
        return dict.fromkeys(places, options.to_offset)
    if options.to_current or options.shift_by is not None:
        return _shifted(places, committed, ends, options.shift_by or 0)
    timestamp = _timestamp(options, time)
    found = group_client.offsets_at(client, places, timestamp)
    # No record that late: the end, as Kafka's tool does.
    return {place: found[place] if found.get(place, -1) >= 0 else ends[place] for place in places}


def _shifted(
    places: list[TopicPartition], committed: dict[TopicPartition, int], ends: dict[TopicPartition, int], by: int
) -> dict[TopicPartition, int]:
    missing = [f"{topic}-{partition}" for topic, partition in places if (topic, partition) not in committed]
    if missing and by:
        raise ClientError(f"no committed offset to shift: {', '.join(missing)}")
    return {place: committed.get(place, ends[place]) + by for place in places}


def _timestamp(options: argparse.Namespace, clock: Callable[[], float]) -> int:
    if options.by_duration:
        found = _DURATION.fullmatch(options.by_duration)
        if found is None or not any(found.groups()):
            raise ClientError(f"--by-duration {options.by_duration}: must look like P1DT2H30M")
        days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
        return int((clock() - (days * 86400 + hours * 3600 + minutes * 60 + seconds)) * 1000)
    try:
        moment = datetime.fromisoformat(options.to_datetime)
    except ValueError:
        raise ClientError(f"--to-datetime {options.to_datetime}: must look like 2026-11-16T12:00:00.000") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def _from_file(path: str) -> dict[TopicPartition, int]:
    """Kafka's own CSV: topic,partition,offset, with or without the group in front."""
    found: dict[TopicPartition, int] = {}
    try:
        with open(path, newline="", encoding="utf-8") as file:
            for row in filter(None, csv.reader(file)):
                topic, partition, offset = row[-3:]
                found[topic, int(partition)] = int(offset)
    except OSError as problem:
        raise ClientError(f"{path}: {problem.strerror}") from None
    except ValueError:
        raise ClientError(f"{path}: every line must be topic,partition,offset") from None
    return found


def _show(options: argparse.Namespace, committed: dict[TopicPartition, int], new: dict[TopicPartition, int]) -> None:
    rows = [(options.group, topic, partition, committed.get((topic, partition)), offset)
            for (topic, partition), offset in sorted(new.items())]  # fmt: skip
    if options.json:
        heads = ("group", "topic", "partition", "current_offset", "new_offset")
        print(json.dumps([dict(zip(heads, row, strict=True)) for row in rows], indent=2))
    else:
        print(table(("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "NEW-OFFSET"), rows))
