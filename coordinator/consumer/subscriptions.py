"""Which topics the members of a group want, by name and by regular expression, and how many of them want each."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, NamedTuple

from kohort.coordinator.topic_hash import group_hash

if TYPE_CHECKING:
    from kohort.coordinator.consumer.member import ConsumerMember
    from kohort.coordinator.shard_state import ShardState


class ResolvedRegex(NamedTuple):
    """The topics that match a regular expression."""

    topics: tuple[str, ...]  # sorted
    version: int  # of the topics that were looked at
    timestamp: int  # wall time


class Subscriptions:
    __slots__ = ("matched", "names", "regexes", "resolved")

    def __init__(self) -> None:
        self.names: dict[str, int] = {}  # topic: count of members that name it
        self.regexes: dict[str, int] = {}  # regular expression: count of members
        self.resolved: dict[str, ResolvedRegex] = {}
        self.matched: dict[str, int] = {}  # topic: count of resolved regular expressions that match it

    def copy(self) -> Subscriptions:
        copied = Subscriptions()
        copied.names, copied.regexes = dict(self.names), dict(self.regexes)
        copied.resolved, copied.matched = dict(self.resolved), dict(self.matched)
        return copied

    def change(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        """A member joins (`old` is None), leaves (`new` is None) or wants something else."""
        old_names, new_names = old.topic_names if old else (), new.topic_names if new else ()
        if old_names != new_names:
            _count(self.names, old_names, -1)
            _count(self.names, new_names, 1)
        old_regex, new_regex = old.topic_regex if old else "", new.topic_regex if new else ""
        if old_regex != new_regex:
            _count(self.regexes, (old_regex,) if old_regex else (), -1)
            _count(self.regexes, (new_regex,) if new_regex else (), 1)

    def resolve(self, regex: str, topics: ResolvedRegex | None) -> None:
        """None: forget what the regular expression matches."""
        if (before := self.resolved.pop(regex, None)) is not None:
            _count(self.matched, before.topics, -1)
        if topics is not None:
            self.resolved[regex] = topics
            _count(self.matched, topics.topics, 1)

    def forget_unused(self) -> list[str]:
        """Forget the topics of regular expressions that no member uses any more. Returns these expressions."""
        unused = [regex for regex in self.resolved if regex not in self.regexes]
        for regex in unused:
            self.resolve(regex, None)
        return unused

    def includes(self, topic: str) -> bool:
        return topic in self.names or topic in self.matched

    def has_topics_of(self, other: Subscriptions) -> bool:
        """Whether both are for the same topics, whoever wants them."""
        return self.names.keys() == other.names.keys() and self.matched.keys() == other.matched.keys()

    def topics_of(self, member: ConsumerMember) -> Collection[str]:
        """What the member wants. A regular expression that is not resolved yet matches nothing."""
        found = self.resolved.get(member.topic_regex or "")
        if found is None:
            return member.topic_names
        if not member.topic_names:
            return found.topics
        named = frozenset(member.topic_names)
        return (*member.topic_names, *(topic for topic in found.topics if topic not in named))

    def are_equal(self, member_count: int) -> bool:
        """Whether all members want the same topics: by the same names, or by one regular expression."""
        if not self.regexes:
            return all(count == member_count for count in self.names.values())
        if next(iter(self.regexes.values())) != member_count:
            return False
        return not self.names and all(count == 1 for count in self.matched.values())

    def metadata_hash(self, shard: ShardState) -> int:
        """Changes if a subscribed topic is created, deleted, grows, or has another id."""
        topics = {*self.names, *self.matched}
        return group_hash(shard.topics, sorted(topics), shard.config.rack)


def _count(counts: dict[str, int], keys: Iterable[str], by: int) -> None:
    for key in keys:
        count = counts.get(key, 0) + by
        if count > 0:
            counts[key] = count
        else:
            counts.pop(key, None)
