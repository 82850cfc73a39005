"""The sticky assignment where members want different topics.

Everybody keeps what it had and still wants. What is free goes, topics with the fewest subscribers first, to the
subscriber with the least. Then partitions move from members with more to subscribers with at least two less, until none
can: first only such as were free, then any. If that made nothing more even, it is undone. A partition of a topic is not
moved from A to B while another of that topic moves from B to A: the other one goes back instead.
"""

from __future__ import annotations

from collections.abc import Sequence

from kohort.audit.assignors.group import Assignment, Group, Partition


def balance_unequal(group: Group, owned: Assignment) -> Assignment:
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
    """Who has what, while it is worked out."""

    def __init__(self, group: Group) -> None:
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
        self._least_loaded: dict[str, str] = {}  # known until something is given

    def keep(self, owned: Assignment) -> bool:
        """Whether somebody had a partition of a topic that it no longer wants."""
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
            self._least_loaded[topic] = min(self.subscribers[topic], key=self.load)  # of equals the first by name
        return self._least_loaded[topic]

    def is_even(self) -> bool:
        """Nobody could get a partition from a member that has at least two more."""
        owners = {(topic, member) for (topic, _), member in self.owner.items()}
        return all(self.load(member) <= self.load(self.least_loaded(topic)) + 1 for topic, member in owners)

    def even_out(self, candidates: Sequence[Partition]) -> bool:
        """Whether anything moved. Looks at all candidates again and again, until nothing needs to move."""
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
        """Rather one that came from the taker than a swap of two partitions of one topic."""
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
        """Sum of the differences in load over all pairs of the members that share a topic with somebody."""
        sharing = {member for members in self.subscribers.values() if len(members) > 1 for member in members}
        loads = sorted(len(assigned[member]) for member in sharing)
        return sum((2 * rank - len(loads) + 1) * load for rank, load in enumerate(loads))
