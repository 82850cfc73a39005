"""`kohort groups delete-offsets`: delete what a group has committed for topics that it no longer consumes.

Of a share group the start offsets, of whole topics: with the next member the group begins anew there.
"""

from __future__ import annotations

import argparse
import json

from kohort.broker.commands.common import option
from kohort.broker.commands.places import must_exist, named_partitions, parse_place
from kohort.broker.terminal import complain, table
from kohort.client import ask, share_offsets
from kohort.client.answers import error_name, why
from kohort.client.cluster import Cluster
from kohort.client.errors import ClientError


def add_delete_offsets_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group", metavar="GROUP", help="the group that has committed them")
    parser.add_argument(
        "--topic", action="append", type=option(parse_place), required=True, metavar="TOPIC[:0,1,2]",
        help="all partitions of a topic, or only these; may be given several times",
    )  # fmt: skip


def delete_offsets(cluster: Cluster, options: argparse.Namespace) -> int:
    _, group_type = ask.describe(cluster, options.group)
    if group_type == ask.SHARE:
        return _delete_start_offsets(cluster, options)
    places = named_partitions(cluster, options.topic)
    must_exist(cluster, places)
    errors = ask.delete_offsets(cluster, options.group, places)
    if options.json:
        names = ("topic", "partition", "error")
        rows = [(*place, error_name(code)) for place, code in errors.items()]
        print(json.dumps([dict(zip(names, row, strict=True)) for row in rows], indent=2))
    elif deleted := [place for place, code in errors.items() if not code]:
        print(table(("DELETED-TOPIC", "PARTITION"), deleted))
    for (topic, partition), code in errors.items():
        if code:
            complain(f"{topic}-{partition}: {why(code)}")
    return 1 if any(errors.values()) else 0


def _delete_start_offsets(cluster: Cluster, options: argparse.Namespace) -> int:
    for topic, partitions in options.topic:
        if partitions is not None:
            raise ClientError(
                f"{options.group} is a share group: its offsets of {topic} go together, name no partitions"
            )
    errors = share_offsets.delete(cluster, options.group, [topic for topic, _ in options.topic])
    if options.json:
        print(json.dumps([{"topic": topic, "error": error_name(code)} for topic, code in errors.items()], indent=2))
    elif deleted := [(topic,) for topic, code in errors.items() if not code]:
        print(table(("DELETED-TOPIC",), deleted))
    for topic, code in errors.items():
        if code:
            complain(f"{topic}: {why(code)}")
    return 1 if any(errors.values()) else 0
