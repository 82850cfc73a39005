"""`kohort groups delete-offsets`: delete what a group has committed for topics that it no longer consumes."""

from __future__ import annotations

import argparse
import json

from kohort.broker.commands.common import option
from kohort.broker.commands.places import must_exist, named_partitions, parse_place
from kohort.broker.terminal import complain, table
from kohort.client import ask
from kohort.client.answers import error_name, why
from kohort.client.cluster import Cluster


def add_delete_offsets_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group", metavar="GROUP", help="the group that has committed them")
    parser.add_argument(
        "--topic", action="append", type=option(parse_place), required=True, metavar="TOPIC[:0,1,2]",
        help="all partitions of a topic, or only these; may be given several times",
    )  # fmt: skip


def delete_offsets(cluster: Cluster, options: argparse.Namespace) -> int:
    ask.wait_for_coordinator(cluster, options.group)
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
