"""Offsets as CSV, as Kafka's tool exports and imports them: topic,partition,offset, or with the group in front."""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping

from kohort.client.cluster import TopicPartition
from kohort.client.errors import ClientError


def read_offsets(path: str, group: str) -> dict[TopicPartition, int]:
    """The offsets of `group`. If a line starts with a group, as in an export of several, another group's is skipped."""
    found: dict[TopicPartition, int] = {}
    line = 0
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:  # spreadsheets put a byte order mark in front
            for row in (rows := csv.reader(file)):
                line = rows.line_num
                if not row or (len(row) == 4 and row[0] != group):
                    continue
                topic, partition, offset = row[1:] if len(row) == 4 else row
                found[topic, int(partition)] = int(offset)
    except OSError as problem:
        raise ClientError(f"{path}: {problem.strerror}") from None
    except (ValueError, csv.Error):
        raise ClientError(f"{path}, line {line}: must be topic,partition,offset") from None
    if not found:
        raise ClientError(f"{path} has no offsets for group {group}")
    return found


def write_offsets(offsets: Mapping[TopicPartition, int]) -> None:
    rows = csv.writer(sys.stdout, lineterminator="\n")
    rows.writerows((*place, offset) for place, offset in sorted(offsets.items()))
