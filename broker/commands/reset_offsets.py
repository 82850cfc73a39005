"""`kohort groups reset-offsets`: where a group will go on, with Kafka's options. It only shows, until --execute."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from time import time

from kohort.broker import group_client
from kohort.broker.client import Client, ClientError
from kohort.broker.commands.offsets_file import read_offsets, write_offsets
from kohort.broker.commands.places import must_be_known, must_exist, named_partitions
from kohort.broker.group_client import EARLIEST, LATEST, TopicPartition
from kohort.broker.terminal import complain, table

Offsets = dict[TopicPartition, int]

_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.ASCII | re.IGNORECASE)


def add_reset_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group")
    about = parser.add_argument_group("which partitions (default: all that have a committed offset)")
    scope = about.add_mutually_exclusive_group()
    scope.add_argument("--topic", action="append", default=[], metavar="TOPIC[:0,1,2]")
    scope.add_argument("--all-topics", action="store_true", help="all that have a committed offset")
    about = parser.add_argument_group("where to")
    target = about.add_mutually_exclusive_group(required=True)
    target.add_argument("--to-earliest", action="store_true")
    target.add_argument("--to-latest", action="store_true")
    target.add_argument("--to-current", action="store_true", help="what is committed; the end where nothing is")
    target.add_argument("--to-offset", type=int, metavar="N")
    target.add_argument("--shift-by", type=int, metavar="N", help="forward, or back if negative")
    target.add_argument("--to-datetime", metavar="YYYY-MM-DDTHH:mm:SS.sss", help="UTC unless it names a zone")
    target.add_argument("--by-duration", metavar="PnDTnHnMnS", help="back from now")
    target.add_argument("--from-file", metavar="FILE", help="as --export writes it, for the partitions that it names")
    doing = parser.add_mutually_exclusive_group()
    doing.add_argument("--execute", action="store_true", help="do it")
    doing.add_argument("--dry-run", action="store_true", help="only show it, which is the default")
    parser.add_argument("--export", action="store_true", help="show it as CSV: topic,partition,offset")


def reset_offsets(client: Client, options: argparse.Namespace) -> int:
    if options.from_file is not None and (options.topic or options.all_topics):
        raise ClientError("--from-file names the partitions itself: leave --topic and --all-topics away")
    wanted = None if options.from_file is None else read_offsets(options.from_file, options.group)
    _refuse_if_in_use(client, options.group)
    committed = group_client.committed_offsets(client, options.group)
    places = _scope(client, options, committed) if wanted is None else list(wanted)
    must_exist(client, places)
    starts, ends = (group_client.offsets_at(client, places, which) for which in (EARLIEST, LATEST))
    must_be_known(places, starts)
    must_be_known(places, ends)
    new = dict(wanted or _targets(client, options, places, committed, starts, ends))
    if not options.to_current:  # that is a copy of what is there, to be kept as it is
        new = {place: _within(place, offset, starts[place], ends[place]) for place, offset in new.items()}
    if options.execute:
        group_client.commit(client, options.group, new)
    _show(options, committed, new)
    if not options.execute and not options.json:
        complain("nothing is changed yet; --execute does it")
    return 0


def _refuse_if_in_use(client: Client, group_id: str) -> None:
    group, group_type = group_client.describe(client, group_id)
    if group_type not in (group_client.CLASSIC, group_client.CONSUMER):
        raise ClientError(f"{group_id} is a {group_type} group: it has no offsets that could be reset here")
    if group.group_state not in ("Empty", group_client.DEAD):
        raise ClientError(f"group {group_id} is {group.group_state}: stop its members first")


def _scope(client: Client, options: argparse.Namespace, committed: Offsets) -> list[TopicPartition]:
    if options.topic:
        return named_partitions(client, options.topic)
    if not committed:
        raise ClientError(f"group {options.group} has no committed offsets; name a --topic")
    return sorted(committed)


def _targets(
    client: Client,
    options: argparse.Namespace,
    places: list[TopicPartition],
    committed: Offsets,
    starts: Offsets,
    ends: Offsets,
) -> Mapping[TopicPartition, int]:
    if options.to_earliest:
        return starts
    if options.to_latest:
        return ends
    if options.to_offset is not None:
        return dict.fromkeys(places, options.to_offset)
    if options.to_current or options.shift_by is not None:
        return _shifted(places, committed, ends, options.shift_by or 0)
    found = group_client.offsets_at(client, places, _timestamp(options))
    must_be_known(places, found)
    # No record that late: the end, as Kafka's tool does.
    return {place: found[place] if found[place] >= 0 else ends[place] for place in places}


def _shifted(places: list[TopicPartition], committed: Offsets, ends: Offsets, by: int) -> Offsets:
    missing = [f"{topic}-{partition}" for topic, partition in places if (topic, partition) not in committed]
    if missing and by:
        raise ClientError(f"no committed offset to shift: {', '.join(missing)}")
    return {place: committed.get(place, ends[place]) + by for place in places}


def _timestamp(options: argparse.Namespace) -> int:
    """In milliseconds. Never below zero: there ListOffsets has words of its own, -1 for the end among them, and no
    record is older."""
    if options.by_duration is not None:
        return int(max(0.0, time() - _seconds(options.by_duration)) * 1000)
    try:
        moment = datetime.fromisoformat(options.to_datetime)
    except ValueError:
        raise ClientError(f"--to-datetime {options.to_datetime}: must look like 2026-11-16T12:00:00.000") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0, int(moment.timestamp() * 1000))


def _seconds(duration: str) -> float:
    found = _DURATION.fullmatch(duration)
    if found is None or not any(found.groups()):
        raise ClientError(f"--by-duration {duration}: must look like P1DT2H30M")
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return days * 86400 + hours * 3600 + minutes * 60 + seconds


def _within(place: TopicPartition, offset: int, start: int, end: int) -> int:
    """An offset that the partition has, as Kafka's tool chooses it, and like that tool not in silence."""
    if start <= offset <= end:
        return offset
    nearest = start if offset < start else end
    complain(f"{place[0]}-{place[1]} has the offsets {start} to {end}: {nearest} instead of {offset}")
    return nearest


def _show(options: argparse.Namespace, committed: Offsets, new: Offsets) -> None:
    if options.export:
        write_offsets(new)
        return
    rows = [(options.group, topic, partition, committed.get((topic, partition)), offset)
            for (topic, partition), offset in sorted(new.items())]  # fmt: skip
    if options.json:
        heads = ("group", "topic", "partition", "current_offset", "new_offset")
        print(json.dumps([dict(zip(heads, row, strict=True)) for row in rows], indent=2))
    else:
        print(table(("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "NEW-OFFSET"), rows))
