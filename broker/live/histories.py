"""The histories of all groups, and how much is kept of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from kohort.broker.live.group import GroupHistory, Person, Place

MAX_PAST: Final = 300_000  # times that somebody had a partition, of all groups: some 50 MB
MAX_PAST_OF_GROUP: Final = 30_000
MAX_PLACES: Final = 250_000  # partitions with owners, of all groups: some 100 MB
MAX_COMMITS: Final = 500_000  # partitions with commits, of all groups: some 120 MB
MAX_GROUPS: Final = 200_000
MAX_UNKNOWN_TOPICS: Final = 10_000

NameOf = Callable[[bytes], str | None]  # the name of a topic, by its id
Listener = Callable[[GroupHistory], object]


class Histories:
    def __init__(self, name_of: NameOf | None = None) -> None:
        """`name_of`: who knows names of topics; otherwise they are learned from commits, or told by `learn`."""
        self._name_of = name_of
        self._names: dict[bytes, str] = {}
        self.unknown_topics: set[bytes] = set()
        self.groups: OrderedDict[str, GroupHistory] = OrderedDict()  # the one that changed last stands last
        self.on_change: list[Listener] = []  # called for everything but commits
        self.past = self.places = self.commits = 0  # of all groups
        self.ignored_commits = 0  # of partitions for which there was no room

    # --- topics

    def topic(self, topic_id: bytes) -> str:
        """The topic's name, or what stands for it until its name is known."""
        name = self._names.get(topic_id) if self._name_of is None else self._name_of(topic_id)
        if name is None:
            if len(self.unknown_topics) < MAX_UNKNOWN_TOPICS:
                self.unknown_topics.add(topic_id)
            return _stand_in(topic_id)
        return name

    def learn(self, topic_id: bytes, name: str) -> None:
        if topic_id in self._names or self._name_of is not None:
            return
        self._names[topic_id] = name
        if topic_id in self.unknown_topics:
            self.unknown_topics.discard(topic_id)
            for group in self.groups.values():
                group.rename(_stand_in(topic_id), name)

    # --- groups

    def get(self, group_id: str) -> GroupHistory | None:
        return self.groups.get(group_id)

    def of(self, group_id: str) -> GroupHistory:
        group = self.groups.get(group_id)
        if group is None:
            if len(self.groups) >= MAX_GROUPS:
                self.remove(next(iter(self.groups)))
            group = self.groups[group_id] = GroupHistory(group_id)
        return group

    def remove(self, group_id: str) -> None:
        group = self.groups.pop(group_id, None)
        if group is not None:
            self.past -= len(group.past)
            self.places -= _places(group)
            self.commits -= len(group.commits)

    def changed(self, group: GroupHistory) -> None:
        group.version += 1
        self.groups.move_to_end(group.group_id)
        for listener in self.on_change:
            listener(group)

    # --- changes that take room

    def assign(self, group: GroupHistory, person: Person, places: frozenset[Place], at_ms: int) -> int:
        past, known = len(group.past), _places(group)
        if group.is_kept and self.places + len(places - person.places) > MAX_PLACES:
            group.forget_owners()
        moved = group.assign(person, places, at_ms)
        self._count(group, past, known)
        return moved

    def leaves(self, group: GroupHistory, member_id: str, at_ms: int) -> Person | None:
        past, known = len(group.past), _places(group)
        person = group.leaves(member_id, at_ms)
        self._count(group, past, known)
        return person

    def ends(self, group: GroupHistory, at_ms: int) -> None:
        past, known = len(group.past), _places(group)
        group.ends(at_ms)
        self._count(group, past, known)

    def _count(self, group: GroupHistory, past: int, places: int) -> None:
        self.places += _places(group) - places
        while len(group.past) > MAX_PAST_OF_GROUP:
            group.past.popleft()
        self.past += len(group.past) - past
        if self.past > MAX_PAST:
            self._make_room()

    def _make_room(self) -> None:
        """Forget half of what the groups did that did nothing for the longest time."""
        for group in list(self.groups.values()):
            for _ in range((len(group.past) + 1) // 2):
                group.past.popleft()
                self.past -= 1
            if self.past <= MAX_PAST * 3 // 4:
                return

    def committed(self, group: GroupHistory, place: Place, offset: int, at_ms: int) -> None:
        if place not in group.commits:
            if self.commits >= MAX_COMMITS:
                self.ignored_commits += 1
                return
            self.commits += 1
        group.committed(place, offset, at_ms)

    def forget_commit(self, group: GroupHistory, place: Place) -> None:
        if group.commits.pop(place, None) is not None:
            self.commits -= 1


def _stand_in(topic_id: bytes) -> str:
    return f"topic {topic_id.hex()}"


def _places(group: GroupHistory) -> int:
    return len(group.held) + len(group.unowned)
