"""simple (KIP-932), for share groups: a partition may have several members, and none stays without one.

If there are more members than partitions, each partition is shared by `sharing` members: as many as are needed so that
nobody goes away empty. So there are `sharing * partitions` places to give away, and each member gets the same number of
them, or one more. Members keep what they had as far as that allows.

    all members want the same topics   one round over all partitions
    they want different topics         one round for each topic, over the members that want it

A round takes places from members that have too many, and from partitions with too many members. Then it gives the free
places to members that have too few, in turn. The results are Kafka's, and so are its oddities: a member can be one
short if the only places left are of partitions that it has already, and a topic that nobody wants any more stays in the
targets of groups with different subscriptions. Members never see that, because a target is cut to what they want.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from kohort.coordinator.api import Steps, in_slices
from kohort.coordinator.assignors.java_order import (
    USUAL_CAPACITY,
    JavaMap,
    JavaNumbers,
    capacity_for,
    hash_of_uuid,
)
from kohort.coordinator.assignors.server_side import (
    TOPICS_IN_STEP,
    Assigning,
    Draft,
    Subscriber,
    Targets,
    TopicId,
    as_many_steps,
    in_java_order_in_steps,
)

Place = tuple[TopicId, int]  # a topic and one of its partitions

PLACES_IN_STEP = 20
_UINT32 = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class SharingGroup:
    members: Mapping[str, Subscriber]  # in the order in which Kafka goes through them
    assignable: Mapping[TopicId, Sequence[int]]  # partitions of the topics that members want
    has_equal_subscriptions: bool


def assign_simply(group: SharingGroup) -> Assigning:
    if not group.members:
        return {}
    drafts = _Drafts(group)
    yield from drafts.look()
    if group.has_equal_subscriptions:
        topics = next(iter(group.members.values())).topics
        if not topics:
            return {}
        yield from drafts.keep_only(frozenset(topics))
        places = [(topic, partition) for topic in topics for partition in group.assignable[topic]]
        yield from as_many_steps(len(topics) + len(places))
        yield from _Round(drafts, topics, range(len(group.members)), places, _hash_of_place).share_out()
        return (yield from drafts.targets())
    wanted_by = yield from _subscribers(group)
    if not wanted_by:
        return {}
    for topic, subscribers in wanted_by.items():
        places = [(topic, partition) for partition in group.assignable[topic]]
        yield from as_many_steps(len(subscribers) + len(places))
        yield from _Round(drafts, (topic,), subscribers, places, _hash_of_partition).share_out()
    return (yield from drafts.targets())


def _subscribers(group: SharingGroup) -> Steps[dict[TopicId, list[int]]]:
    """The members that want each topic, by their ranks. The topics come in the order of a HashSet."""
    found: JavaMap[TopicId, list[int]] = JavaMap(hash_of_uuid)
    for rank, member in enumerate(group.members.values()):
        for some in in_slices(member.topics, TOPICS_IN_STEP):
            for topic in some:
                if topic not in found.entries:
                    found.put(topic, [])
                found.entries[topic].append(rank)
            yield
    in_order = yield from found.keys_in_steps()
    yield from as_many_steps(len(in_order))
    return {topic: found.entries[topic] for topic in in_order}


def _hash_of_place(place: Place) -> int:
    return (31 * hash_of_uuid(place[0]) + place[1]) & _UINT32


def _hash_of_partition(place: Place) -> int:
    return place[1]


class _Drafts:
    """The targets of all members, by their ranks. Only those that change are copied."""

    def __init__(self, group: SharingGroup) -> None:
        self._members = group.members
        self.before: list[dict[TopicId, list[int]]] = []
        self.had: dict[TopicId, list[int]] = {}  # the ranks of the members that had partitions of a topic
        self._targets = [member.target for member in group.members.values()]
        self._drafts: dict[int, Draft] = {}

    def look(self) -> Steps[None]:
        """What the members had before."""
        for rank, target in enumerate(self._targets):
            before = yield from in_java_order_in_steps(target)
            self.before.append(dict(before))
            for topic, _ in before:
                self.had.setdefault(topic, []).append(rank)
            yield from as_many_steps(len(before))
            yield

    def of(self, rank: int) -> Steps[Draft]:
        draft = self._drafts.get(rank)
        if draft is None:
            draft = self._drafts[rank] = yield from Draft.in_steps(self._targets[rank])
        return draft

    def keep_only(self, topics: Collection[TopicId]) -> Steps[None]:
        for rank, target in enumerate(self.before):
            for some in in_slices(target, TOPICS_IN_STEP):
                for topic in some:
                    if topic not in topics:
                        (yield from self.of(rank)).remove_topic(topic)
                yield

    def targets(self) -> Assigning:
        targets: Targets = {}
        for rank, member_id in enumerate(self._members):
            draft = self._drafts.get(rank)
            targets[member_id] = self._targets[rank] if draft is None else (yield from draft.target_in_steps())
            yield
        return targets


class _Round:
    """Shares out `places` among `subscribers`. All members may have had places of these topics before."""

    def __init__(
        self,
        drafts: _Drafts,
        topics: Iterable[TopicId],
        subscribers: Sequence[int],
        places: Sequence[Place],
        hash_of: Callable[[Place], int],
    ) -> None:
        self._drafts = drafts
        self._topics = frozenset(topics)
        self._subscribers = subscribers
        self._places = places
        self._hash_of = hash_of
        self._sharing = -(-len(subscribers) // len(places)) if places else 0
        self._quota = self._quotas()
        self._members: JavaMap[Place, JavaNumbers] = JavaMap(hash_of, _capacity_for_keys(len(places)))
        self._has: dict[int, JavaMap[Place, None]] = {}  # the places of each member that has any

    def _quotas(self) -> dict[int, int]:
        """How many places each subscriber shall have."""
        share = self._sharing * len(self._places) / len(self._subscribers)
        limits = [ceil(share * count) for count in range(len(self._subscribers) + 1)]
        return {rank: limits[at + 1] - limits[at] for at, rank in enumerate(self._subscribers)}

    def share_out(self) -> Generator[None]:
        yield from as_many_steps(10 * len(self._subscribers))  # for their quotas
        yield from self._look()
        yield from self._take_from_members()
        yield from self._take_from_places()
        for some in in_slices(self._places, PLACES_IN_STEP):
            for place in some:
                self._members.compute_if_absent(place, _nobody)
            yield
        yield from self._give()

    def _look(self) -> Generator[None]:
        """Who has what."""
        before = self._drafts.before
        had = self._drafts.had
        # Usually a round is about all topics; if it is about one, only those are looked at that had partitions of it.
        ranks: Iterable[int] = range(len(before)) if len(self._topics) > 1 else had.get(next(iter(self._topics)), ())
        for rank in ranks:
            for some in in_slices(before[rank].items(), TOPICS_IN_STEP):
                for topic, partitions in some:
                    if topic in self._topics:
                        yield from self._saw(rank, topic, partitions)
                yield

    def _saw(self, rank: int, topic: TopicId, partitions: Sequence[int]) -> Generator[None]:
        for some in in_slices(partitions, PLACES_IN_STEP):
            for partition in some:
                self._members.compute_if_absent((topic, partition), _nobody).add(rank)
                self._got(rank, (topic, partition))
            if len(some) == PLACES_IN_STEP:
                yield

    def _take_from_members(self) -> Generator[None]:
        for rank, has in self._has.items():
            in_order = yield from has.keys_in_steps()
            for place in in_order[: max(len(has.entries) - self._quota.get(rank, 0), 0)]:
                yield from self._take(rank, place)
                yield
            yield

    def _take_from_places(self) -> Generator[None]:
        for place in (yield from self._members.keys_in_steps()):
            members = self._members.entries[place]
            for rank in members.ordered()[: max(len(members) - self._sharing, 0)]:
                yield from self._take(rank, place)
            yield

    def _give(self) -> Generator[None]:
        """Each place is given to the next members in turn that do not have it yet."""
        waiting = [rank for rank in self._subscribers if self._count(rank) < self._quota[rank]]
        waiting.sort()
        at, was_given = 0, False  # the member whose turn it is; whether anybody got anything in this turn
        for place in (yield from self._members.keys_in_steps()):
            members = self._members.entries[place]
            missing = self._sharing - len(members)
            while missing > 0 and waiting:
                if at == len(waiting):
                    if not was_given:
                        break  # those who wait have the place already
                    at, was_given = 0, False
                rank = waiting[at]
                at += 1
                if rank in members:
                    continue
                # As in Kafka `members` stays as it was: a member whose turn comes again gets the place again.
                (yield from self._drafts.of(rank)).add(*place, USUAL_CAPACITY)
                self._got(rank, place)
                missing, was_given = missing - 1, True
                if self._count(rank) >= self._quota[rank]:
                    at -= 1
                    del waiting[at]
            if not waiting:
                return
            yield

    def _count(self, rank: int) -> int:
        has = self._has.get(rank)
        return 0 if has is None else len(has.entries)

    def _got(self, rank: int, place: Place) -> None:
        has = self._has.get(rank)
        if has is None:
            has = self._has[rank] = JavaMap(self._hash_of)
        has.put(place, None)

    def _take(self, rank: int, place: Place) -> Steps[None]:
        (yield from self._drafts.of(rank)).take(*place)
        self._members.entries[place].remove(rank)
        self._has[rank].remove(place)


def _nobody() -> JavaNumbers:
    return JavaNumbers((), USUAL_CAPACITY)


def _capacity_for_keys(count: int) -> int:
    return capacity_for(int((count + 1) / 0.75) + 1)
