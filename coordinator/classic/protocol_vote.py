"""Which assignor a group uses: the one that most members like best, of those that all of them know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kohort.coordinator.classic.member import Member
from kohort.coordinator.partitioner import java_hash


def candidates(members: Iterable[Member]) -> set[str]:
    """Names that every member lists."""
    found: set[str] | None = None
    for member in members:
        names = {name for name, _ in member.protocols}
        found = names if found is None else found & names
    return found or set()


def choose_protocol(members: Iterable[Member]) -> str:
    members = list(members)
    known = candidates(members)
    votes = Counter(next(name for name, _ in member.protocols if name in known) for member in members)
    most = max(votes.values())
    return min((name for name, count in votes.items() if count == most), key=_java_hash_map_bucket)


def _java_hash_map_bucket(name: str) -> tuple[int, str]:
    """Kafka breaks a tie by the order of a Java HashMap of 16 buckets; within a bucket the name decides."""
    h = java_hash(name) & 0xFFFFFFFF
    return (h ^ h >> 16) & 15, name
