"""Which assignor a group uses: the one that most members like best, of those that all of them know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from kohort.coordinator.classic.member import Member
from kohort.coordinator.partitioner import java_hash


def choose_protocol(members: Sequence[Member], known_by: Mapping[str, int]) -> str:
    """`known_by`: how many of the members list each protocol."""
    count = len(members)
    votes = Counter(next(name for name, _ in member.protocols if known_by.get(name) == count) for member in members)
    most = max(votes.values())
    return min((name for name, count in votes.items() if count == most), key=_java_hash_map_bucket)


def _java_hash_map_bucket(name: str) -> tuple[int, str]:
    """Kafka breaks a tie by the order of a Java HashMap of 16 buckets; within a bucket the name decides."""
    h = java_hash(name) & 0xFFFFFFFF
    return (h ^ h >> 16) & 15, name
