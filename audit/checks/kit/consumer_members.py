"""Members of consumer groups (KIP-848) and what they subscribe to, at any place of the log.

A member is there from its first record of type 5 until that record's tombstone. Its topics are those that it names, and
those that match its regular expression by the last record of type 16 before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kohort.audit.checks.kit.check import Row
from kohort.audit.derive.patterns import subscription
from kohort.audit.derive.records import MEMBER, PatternRecord

COLUMNS = [
    "group_id", "log_offset", "record_time", "tombstone", "member_id", "instance_id", "client_id", "subscribed_topics",
    "subscribed_regex",
]  # fmt: skip
FOREVER = 2**63 - 1
Topics = frozenset[str] | None  # None: the log does not say


class ConsumerMembers:
    def __init__(self, members: pa.Table, patterns: Mapping[str, Sequence[PatternRecord]]) -> None:
        """`members`: rows of member_assignments."""
        self._patterns = patterns
        self._rows: dict[str, list[Row]] = {}
        of_members = members.filter(pc.equal(members["record_type"], MEMBER)).select(COLUMNS)
        for row in of_members.sort_by("log_offset").to_pylist():
            self._rows.setdefault(row["group_id"], []).append(row)

    @cached_property
    def clients(self) -> dict[tuple[str, str], str]:
        """Group and member id -> the instance id, or else the client id. The last record of a member decides."""
        named = (row for rows in self._rows.values() for row in rows if not row["tombstone"])
        return {(row["group_id"], row["member_id"]): row["instance_id"] or row["client_id"] or "" for row in named}

    def at(self, group_id: str, log_offset: int = FOREVER) -> dict[str, Topics]:
        """The members at this log offset, and what each of them subscribes to."""
        return next(self.at_each(group_id, [log_offset])).all()

    def at_each(self, group_id: str, log_offsets: Iterable[int]) -> Iterator[There]:
        """The same for many log offsets in rising order. It is one object, which changes with each step."""
        there = There({}, {})
        records = iter(sorted([*self._rows.get(group_id, ()), *self._patterns.get(group_id, ())], key=_log_offset))
        record = next(records, None)
        for log_offset in log_offsets:
            while record is not None and _log_offset(record) <= log_offset:
                there.apply(record)
                record = next(records, None)
            yield there

    def emptied(self) -> Iterator[Row]:
        """The records after which a group has no members any more."""
        for rows in self._rows.values():
            there: set[str] = set()
            for row in rows:
                if not row["tombstone"]:
                    there.add(row["member_id"])
                elif row["member_id"] in there:
                    there.remove(row["member_id"])
                    if not there:
                        yield row


class There(NamedTuple):
    """The members of a group at a place of the log."""

    rows: dict[str, Row]  # by member id
    resolved: dict[str, frozenset[str]]  # expression -> topics

    def apply(self, record: Row | PatternRecord) -> None:
        if isinstance(record, PatternRecord):
            self.resolved[record.pattern] = record.topics
        elif record["tombstone"]:
            self.rows.pop(record["member_id"], None)
        else:
            self.rows[record["member_id"]] = record

    def topics_of(self, member_id: str) -> Topics:
        """None also if the member is not there."""
        row = self.rows.get(member_id)
        if row is None or row["subscribed_topics"] is None:
            return None
        return subscription(frozenset(row["subscribed_topics"]), row["subscribed_regex"], self.resolved)

    def all(self) -> dict[str, Topics]:
        return {member_id: self.topics_of(member_id) for member_id in self.rows}


def _log_offset(record: Row | PatternRecord) -> int:
    return int(record.log_offset if isinstance(record, PatternRecord) else record["log_offset"])
