"""`kohort groups reset-offsets`: set the offsets from which a group will go on, with the options of Kafka's tool.

These are committed offsets, or the start offsets of a share group. Without --execute it only shows what it would do.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from time import time

from kohort.broker.commands.common import option
from kohort.broker.commands.offsets_file import read_offsets, write_offsets
from kohort.broker.commands.places import must_be_known, must_exist, named_partitions, parse_place
from kohort.broker.terminal import complain, table
from kohort.client import ask, share_offsets
from kohort.client.ask import EARLIEST, LATEST
from kohort.client.cluster import Cluster, TopicPartition
from kohort.client.errors import ClientError
from kohort.times import parse_duration_ms, parse_time_ms

Offsets = dict[TopicPartition, int]


def add_reset_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s GROUP WHERE-TO [--topic TOPIC[:0,1,2]] [--share] [--execute] [--export] [--json]"
    parser.description = "Set the offsets from which a group will go on. Without --execute, show what would be set."
    parser.add_argument("group", metavar="GROUP", help="it must have no members")
    parser.add_argument(
        "--share",
        action="store_true",
        help="it is a share group, or becomes one; to say so before its first member comes",
    )
    about = parser.add_argument_group("which partitions (default: all that have an offset)")
    scope = about.add_mutually_exclusive_group()
    scope.add_argument(
        "--topic", action="append", type=option(parse_place), default=[], metavar="TOPIC[:0,1,2]",
        help="all partitions of a topic, or only these; may be given several times",
    )  # fmt: skip
    scope.add_argument("--all-topics", action="store_true", help="all that have an offset")
    about = parser.add_argument_group("WHERE-TO, one of")
    target = about.add_mutually_exclusive_group(required=True)
    target.add_argument("--to-earliest", action="store_true", help="the first record")
    target.add_argument("--to-latest", action="store_true", help="behind the last record")
    target.add_argument("--to-current", action="store_true", help="what the group has; the end where it has nothing")
    target.add_argument("--to-offset", type=int, metavar="N", help="this offset")
    target.add_argument("--shift-by", type=int, metavar="N", help="forward, or back if negative")
    target.add_argument(
        "--to-datetime", type=option(parse_time_ms), metavar="YYYY-MM-DDTHH:mm:SS.sss",
        help="the first record that is not older than this time; UTC unless it names a zone",
    )  # fmt: skip
    target.add_argument(
        "--by-duration", type=option(parse_duration_ms), metavar="DURATION",
        help="the first record that is not older than this: 2h, 1d12h, P1DT2H",
    )  # fmt: skip
    target.add_argument("--from-file", metavar="FILE", help="as --export writes it, for the partitions that it names")
    doing = parser.add_mutually_exclusive_group()
    doing.add_argument("--execute", action="store_true", help="do it")
    doing.add_argument("--dry-run", action="store_true", help="only show it, which is the default")
    parser.add_argument("--export", action="store_true", help="show it as CSV: topic,partition,offset")
    parser.set_defaults(wrong=parser.error)


def check_reset_options(options: argparse.Namespace) -> None:
    """Refuse what argparse cannot: an option that belongs to one group and excludes those of another."""
    if options.from_file is not None and (options.topic or options.all_topics):
        options.wrong("--from-file names the partitions itself: leave --topic and --all-topics away")


def reset_offsets(cluster: Cluster, options: argparse.Namespace) -> int:
    wanted = None if options.from_file is None else read_offsets(options.from_file, options.group)
    is_share = _is_share_group(cluster, options)
    committed = (share_offsets.start_offsets if is_share else ask.committed_offsets)(cluster, options.group)
    places = _scope(cluster, options, committed, is_share=is_share) if wanted is None else list(wanted)
    must_exist(cluster, places)
    starts, ends = (ask.offsets_at(cluster, places, which) for which in (EARLIEST, LATEST))
    must_be_known(places, starts)
    must_be_known(places, ends)
    new = dict(wanted or _targets(cluster, options, places, committed, starts, ends))
    if not options.to_current:  # --to-current copies committed offsets, even those that are out of range
        new = {place: _within(place, offset, starts[place], ends[place]) for place, offset in new.items()}
    if options.execute:
        (share_offsets.alter if is_share else ask.commit)(cluster, options.group, new)
    _show(options, committed, new)
    if not options.execute and not options.json:
        complain("nothing is changed yet; --execute does it")
    return 0


def _is_share_group(cluster: Cluster, options: argparse.Namespace) -> bool:
    """Or whether it will be one. Refuses groups that have members."""
    group_id = options.group
    group, group_type = ask.describe(cluster, group_id)
    if group.group_state == ask.DEAD and options.share:
        group_type = ask.SHARE
    if group_type not in (ask.CLASSIC, ask.CONSUMER, ask.SHARE):
        raise ClientError(f"{group_id} is a {group_type} group: it has no offsets that could be reset here")
    if options.share and group_type != ask.SHARE:
        raise ClientError(f"{group_id} is a {group_type} group, not a share group")
    if group.group_state not in ("Empty", ask.DEAD):
        raise ClientError(f"group {group_id} is {group.group_state}: stop its members first")
    return group_type == ask.SHARE


def _scope(
    cluster: Cluster, options: argparse.Namespace, committed: Offsets, *, is_share: bool
) -> list[TopicPartition]:
    if options.topic:
        return named_partitions(cluster, options.topic)
    if not committed:
        kind = "start" if is_share else "committed"
        raise ClientError(f"group {options.group} has no {kind} offsets; name a --topic")
    return sorted(committed)


def _targets(
    cluster: Cluster,
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
    found = ask.offsets_at(cluster, places, _timestamp(options))
    must_be_known(places, found)
    # Where no record is so late, the offset is the end of the log, as with Kafka's tool.
    return {place: found[place] if found[place] >= 0 else ends[place] for place in places}


def _shifted(places: list[TopicPartition], committed: Offsets, ends: Offsets, by: int) -> Offsets:
    missing = [f"{topic}-{partition}" for topic, partition in places if (topic, partition) not in committed]
    if missing and by:
        raise ClientError(f"no offset to shift: {', '.join(missing)}")
    return {place: committed.get(place, ends[place]) + by for place in places}


def _timestamp(options: argparse.Namespace) -> int:
    """In milliseconds, and never below zero: no record is older, and ListOffsets gives negative times another meaning
    (-1 is the end of the log)."""
    wanted: int = options.to_datetime if options.by_duration is None else int(time() * 1000) - options.by_duration
    return max(0, wanted)


def _within(place: TopicPartition, offset: int, start: int, end: int) -> int:
    """The nearest offset that the partition has. Like Kafka's tool, say so if that is not the offset asked for."""
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
