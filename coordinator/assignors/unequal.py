"""The sticky assignment of a group whose members subscribe to different topics.

1. Every member keeps the partitions it had, if it still subscribes to their topics.
2. Free partitions go to the subscriber with the fewest partitions; topics with the fewest subscribers come first.
3. While a member has at least two partitions more than another subscriber of the topic, one of them moves to that
   subscriber: first among the partitions that were free, then among all.
4. If step 3 did not make the assignment more even, it is undone.

Two partitions of one topic never swap owners: if one has moved from B to A, and another one should move from A to B,
the first one moves back instead.
"""

from __future__ import annotations

from collections.abc import Sequence

from kohort.coordinator.assignors.group_spec import Assignment, GroupSpec, Partition


def balance_unequal(group: GroupSpec, owned: Assignment) -> Assignment:
    state = _State(group)
    lost = state.keep(owned)
    fresh = not any(state.assigned.values())
    free = [partition for partition in state.ordered if partition not in state.owner]
    for partition in free:
        state.give(partition, state.least_loaded(partition[0]))
    before = {member: list(partitions) for member, partitions in state.assigned.items()}
    if not lost:
        state.even_out(free)
    moved = state.even_out(state.ordered)
    if moved and not fresh and state.unevenness(state.assigned) >= state.unevenness(before):
        return before
    return state.assigned


class _State:
    """The assignment while it is worked out."""

    def __init__(self, group: GroupSpec) -> None:
        members = sorted(group.subscriptions)
        self.subscriptions = group.subscriptions
        self.subscribers = {
            topic: [member for member in members if topic in group.subscriptions[member]] for topic in group.topics()
        }
        self.ordered: list[Partition] = [
            (topic, number)
            for topic in sorted(self.subscribers, key=lambda name: (len(self.subscribers[name]), name))
            for number in range(group.partitions[topic])
        ]
        self.assigned: Assignment = {member: [] for member in members}
        self.owner: dict[Partition, str] = {}
        self.moves: dict[str, dict[Partition, tuple[str, str]]] = {topic: {} for topic in self.subscribers}
        self._least_loaded: dict[str, str] = {}  # by topic; forgotten when any partition is given

    def keep(self, owned: Assignment) -> bool:
        """Give every member what it had and still subscribes to. True: a member had a partition it may not keep."""
        lost = False
        for member, partitions in owned.items():
            for partition in partitions:
                if partition[0] in self.subscriptions[member]:
                    self.give(partition, member)
                else:
                    lost = True
        return lost

    def give(self, partition: Partition, member: str) -> None:
        self.assigned[member].append(partition)
        self.owner[partition] = member
        self._least_loaded.clear()

    def load(self, member: str) -> int:
        return len(self.assigned[member])

    def least_loaded(self, topic: str) -> str:
        if topic not in self._least_loaded:
            self._least_loaded[topic] = min(self.subscribers[topic], key=self.load)  # the first by name among equals
        return self._least_loaded[topic]

    def is_even(self) -> bool:
        """Whether no subscriber could take a partition from a member that has at least two more."""
        owners = {(topic, member) for (topic, _), member in self.owner.items()}
        return all(self.load(member) <= self.load(self.least_loaded(topic)) + 1 for topic, member in owners)

    def even_out(self, candidates: Sequence[Partition]) -> bool:
        """Move candidates, in as many rounds as it takes, until none needs to move. True: at least one has moved."""
        moved = False
        again = not self.is_even()
        while again:
            again = False
            for partition in candidates:
                taker = self.least_loaded(partition[0])
                if self.load(self.owner[partition]) > self.load(taker) + 1:
                    self._move(self._instead_of(partition, taker), taker)
                    if self.is_even():
                        return True
                    again = moved = True
        return moved

    def _instead_of(self, partition: Partition, taker: str) -> Partition:
        """A partition of the same topic that came from the taker to this giver, if there is one: it goes back."""
        moves = self.moves[partition[0]]
        giver = moves[partition][0] if partition in moves else self.owner[partition]
        return next((other for other, move in moves.items() if move == (taker, giver)), partition)

    def _move(self, partition: Partition, taker: str) -> None:
        giver = self.owner[partition]
        origin, _ = self.moves[partition[0]].pop(partition, (giver, taker))
        if origin != taker:
            self.moves[partition[0]][partition] = (origin, taker)
        self.assigned[giver].remove(partition)
        self.give(partition, taker)

    def unevenness(self, assigned: Assignment) -> int:
        """The sum of the differences in load over all pairs of members that share a topic with another member."""
        sharing = {member for members in self.subscribers.values() if len(members) > 1 for member in members}
        loads = sorted(len(assigned[member]) for member in sharing)
        return sum((2 * rank - len(loads) + 1) * load for rank, load in enumerate(loads))
