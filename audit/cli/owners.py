"""`kohort audit owners`: who owned each partition of a group at a moment, since when, with which committed offset."""

from __future__ import annotations

import argparse
import json
from datetime import datetime
from typing import TYPE_CHECKING

from kohort.audit.cli.common import COULD_NOT_RUN, add_command_config, complain, is_installed
from kohort.audit.moments import in_words, moment
from kohort.audit.result import AuditError
from kohort.printable import printable

if TYPE_CHECKING:
    from kohort.audit.owners.time_machine import Owner

HEADS = ("topic", "partition", "owner", "client", "host", "since", "generation", "committed", "at")
MAX_COLUMN = 200  # a name of 32 kB does not make every line as long


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", nargs="*", metavar="PATH", help="log folders or a cluster, as for kohort audit")
    parser.add_argument("--out", metavar="DIR", help="instead: the tables that kohort audit --out keeps")
    parser.add_argument("--group", required=True, metavar="G")
    parser.add_argument("--at", required=True, type=moment, metavar="TIME", help="2026-11-16T06:30 (UTC), or 2h (ago)")
    add_command_config(parser)
    parser.add_argument("--json", action="store_true", help="for machines")


def run(options: argparse.Namespace) -> int:
    if not is_installed():
        return COULD_NOT_RUN
    from kohort.audit.owners.group_history import from_folders, from_store

    if bool(options.path) == bool(options.out):
        complain("owners: name log folders or --out, one of them")
        return COULD_NOT_RUN
    problems: list[str] = []
    try:
        if options.out:
            machine = from_store(options.out, options.group)
        else:
            machine, problems = from_folders(options.path, options.group, options.command_config)
    except AuditError as problem:
        complain(problem)
        return COULD_NOT_RUN
    for line in problems:
        complain(line)
    owners = machine.at(options.at)
    if options.json:
        print(json.dumps([owner._asdict() for owner in owners], default=in_words, indent=2))
    elif owners:
        _print(owners)
    elif machine.is_of_streams:
        print(
            printable(
                f"{options.group} is a streams group: its members have tasks of a topology, which kohort dump and the"
                " table member_assignments of kohort audit show. Which partitions these read is not worked out."
            )
        )
    elif machine.begins is None:
        complain(f"there is no group {options.group} in {'these tables' if options.out else 'the log'}")
        return COULD_NOT_RUN
    else:
        print(printable(_nobody(options, machine.begins)))
    return COULD_NOT_RUN if problems else 0


def _nobody(options: argparse.Namespace, begins: datetime) -> str:
    told = f"Nobody of group {options.group} owned anything at {in_words(options.at)}"
    return f"{told}; its history here begins at {in_words(begins)}."


def _print(owners: list[Owner]) -> None:
    rows = [
        [
            owner.topic, str(owner.partition), owner.member_id or "nobody", owner.client_id or "-",
            owner.client_host or "-", in_words(owner.since), _text(owner.generation), _text(owner.offset),
            in_words(owner.committed),
        ]
        for owner in owners
    ]  # fmt: skip
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [min(max(map(len, column)), MAX_COLUMN) for column in zip(HEADS, *rows, strict=True)]
    for row in (HEADS, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _text(number: int | None) -> str:
    return "-" if number is None else str(number)
