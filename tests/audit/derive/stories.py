"""Records of one group in few words, each at the next log offset and a second after the one before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kohort.audit.derive.records import (
    CLASSIC_GENERATION,
    CURRENT,
    GROUP_EPOCH,
    MEMBER,
    PATTERN,
    TARGET,
    TARGET_EPOCH,
    GroupLog,
    GroupRecord,
    Member,
    MemberRecord,
    PatternRecord,
    Place,
)

SECOND = 1000


def places(text: str) -> list[Place]:
    """ "a0 a1 b0": partitions 0 and 1 of topic a, partition 0 of topic b."""
    return [(word[0], int(word[1:])) for word in text.split()]


def member(
    name: str, assigned: str | None = "", *, static: str | None = None, topics: str | None = "a",
    pattern: str | None = None,
) -> Member:  # fmt: skip
    """`topics` is a letter per topic; None: the log does not say."""
    wanted = None if topics is None else frozenset(topics)
    got = None if assigned is None else places(assigned)
    return Member(name, static, f"client-{name}", "/10.0.0.1", 60_000, wanted, got, pattern=pattern)


class Story:
    def __init__(self) -> None:
        self.log: GroupLog = []
        self._number = 0
        self._at_once_from: int | None = None

    def _next(self) -> tuple[int, int]:
        return len(self.log), (len(self.log) if self._at_once_from is None else self._at_once_from) * SECOND

    def at_once(self) -> Story:
        """All that follows has the same time, until `later`: one batch."""
        self._at_once_from = len(self.log)
        return self

    def later(self) -> Story:
        self._at_once_from = None
        return self

    # --- classic

    def generation(self, *members: Member, number: int | None = None, **fields: Any) -> Story:
        self._number = self._number + 1 if number is None else number
        self.log.append(
            GroupRecord(CLASSIC_GENERATION, *self._next(), generation=self._number, members=members, **fields)
        )
        return self

    def generation_of(self, **assigned: str) -> Story:
        return self.generation(*[member(name, partitions) for name, partitions in assigned.items()])

    def classic_tombstone(self) -> Story:
        self.log.append(GroupRecord(CLASSIC_GENERATION, *self._next(), tombstone=True))
        return self

    # --- consumer groups

    def epoch(self, number: int, **fields: Any) -> Story:
        self.log.append(GroupRecord(GROUP_EPOCH, *self._next(), generation=number, **fields))
        return self

    def deleted(self) -> Story:
        self.log.append(GroupRecord(GROUP_EPOCH, *self._next(), tombstone=True))
        return self

    def known(self, who: Member, assignor: str | None = None) -> Story:
        self.log.append(MemberRecord(MEMBER, *self._next(), who, server_assignor=assignor))
        return self

    def target(self, number: int, assigned: Mapping[str, str]) -> Story:
        for name, partitions in assigned.items():
            self.log.append(MemberRecord(TARGET, *self._next(), member(name, partitions)))
        self.log.append(GroupRecord(TARGET_EPOCH, *self._next(), generation=number))
        return self

    def current(self, name: str, epoch: int, assigned: str, revoking: str = "", *, state: int = 0) -> Story:
        record = MemberRecord(
            CURRENT, *self._next(), member(name, assigned), generation=epoch, revoking=places(revoking),
            state=1 if revoking else state,
        )  # fmt: skip
        self.log.append(record)
        return self

    def matches(self, pattern: str, topics: str | None) -> Story:
        """`topics` is a letter per topic; None: a tombstone."""
        self.log.append(PatternRecord(PATTERN, *self._next(), pattern, frozenset(topics or ""), topics is None))
        return self

    def no_target(self) -> Story:
        self.log.append(GroupRecord(TARGET_EPOCH, *self._next(), tombstone=True))
        return self

    def gone(self, name: str, record_types: Iterable[int] = (CURRENT, TARGET, MEMBER)) -> Story:
        for record_type in record_types:
            self.log.append(MemberRecord(record_type, *self._next(), Member(name), tombstone=True))
        return self
