"""How one member comes nearer to its target assignment.

A member first gives up what it shall not have any more, and only then goes on to the next epoch. A partition that
another member still holds is not given to it. So a member is in one of three states:

    UNREVOKED    it stays in its epoch until it reports that it has given up the partitions pending revocation
    UNRELEASED   it is in the new epoch, and waits for partitions that others hold
    STABLE       it is in the new epoch, and has all of its target
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from kohort.coordinator.assignors.server_side import Target, TopicId
from kohort.coordinator.consumer.member import (
    NOTHING,
    STABLE,
    UNRELEASED,
    UNREVOKED,
    ConsumerMember,
    Partitions,
)
from kohort.protocol.messages.consumer_group_heartbeat import TopicPartitions

Owned = Sequence[TopicPartitions] | None  # the partitions that the member says it has; None: it says nothing

KNOWN_STATES = (STABLE, UNREVOKED, UNRELEASED)


def first_share(
    member: ConsumerMember,
    epoch: int,
    target: Target,
    wants: Collection[TopicId | None],
    free_partitions: Callable[[TopicId, Sequence[int]], Sequence[int]],
) -> ConsumerMember:
    """What Reconciliation makes of a member that has nothing, nor has to give up anything: as members that join."""
    added: dict[TopicId, dict[int, int]] = {}
    must_wait = False
    for topic_id, partitions in target.items():
        if topic_id in wants:
            free = free_partitions(topic_id, partitions)
            must_wait |= len(free) < len(partitions)
            if free:
                added[topic_id] = dict.fromkeys(free, epoch)
    return member.moved_on(epoch, member.epoch, UNRELEASED if must_wait else STABLE, added, NOTHING)


class Reconciliation:
    """A member and its target. `is_held` tells whether any member holds a partition. `wants`: the subscribed topics."""

    __slots__ = ("_epoch", "_is_held", "_member", "_owned", "_target", "_wants")

    def __init__(
        self,
        member: ConsumerMember,
        epoch: int,
        target: Target,
        wants: Collection[TopicId | None],
        is_held: Callable[[TopicId, int], bool],
        owned: Owned,
    ) -> None:
        self._member = member
        self._epoch = epoch
        self._target = target
        self._wants = wants
        self._is_held = is_held
        self._owned = owned

    def next(self, *, subscription_changed: bool) -> ConsumerMember | None:
        """The member as it is now; None: its state is one that only a newer Kafka knows, and it must rejoin."""
        member = self._member
        if member.state == STABLE:
            if member.epoch != self._epoch:
                return self._advance()
            return self._give_up_unwanted() if subscription_changed else member
        if member.state == UNREVOKED and self._owns_any(member.pending_revocation):
            return self._give_up_unwanted() if subscription_changed else member
        if member.state not in KNOWN_STATES and (self._owned is None or self._owned):
            return None
        return self._advance()

    def _advance(self) -> ConsumerMember:
        kept, revoked, added, must_wait = self._compare_with_target()
        member = self._member
        if revoked and self._owns_any(revoked):
            return member.moved_on(member.epoch, member.epoch, UNREVOKED, kept, revoked)
        for topic_id, partitions in added.items():
            got = dict.fromkeys(partitions, self._epoch)
            kept[topic_id] = {**kept[topic_id], **got} if topic_id in kept else got
        return member.moved_on(self._epoch, member.epoch, UNRELEASED if must_wait else STABLE, kept, NOTHING)

    def _compare_with_target(
        self,
    ) -> tuple[dict[TopicId, Mapping[int, int]], dict[TopicId, Mapping[int, int]], dict[TopicId, list[int]], bool]:
        """What the member keeps, what it must give up, what it can have now, and whether it must wait for more."""
        assigned, mine = self._member.assigned, self._member.pending_revocation
        kept: dict[TopicId, Mapping[int, int]] = {}
        revoked: dict[TopicId, Mapping[int, int]] = {}
        added: dict[TopicId, list[int]] = {}
        must_wait = False
        for topic_id in (*self._target, *(each for each in assigned if each not in self._target)):
            missing = self._target.get(topic_id, ()) if topic_id in self._wants else ()
            if has := assigned.get(topic_id):
                target = frozenset(missing)
                if has.keys() == target:  # mostly a topic stays as it is, or goes as a whole
                    kept[topic_id] = has
                    continue
                if not target:
                    revoked[topic_id] = has
                    continue
                if stays := {partition: since for partition, since in has.items() if partition in target}:
                    kept[topic_id] = stays
                if goes := {partition: since for partition, since in has.items() if partition not in target}:
                    revoked[topic_id] = goes
                if len(stays) == len(target):
                    continue
                missing = [each for each in missing if each not in has]
            free = [each for each in missing if each in mine.get(topic_id, ()) or not self._is_held(topic_id, each)]
            must_wait |= len(free) < len(missing)
            if free:
                added[topic_id] = free
        return kept, revoked, added, must_wait

    def _give_up_unwanted(self) -> ConsumerMember:
        """The subscription has changed, and the target has not yet: give up the topics that are not wanted any more."""
        member = self._member
        unwanted = [topic_id for topic_id in member.assigned if topic_id not in self._wants]
        if not unwanted:
            return member
        kept = {topic_id: owned for topic_id, owned in member.assigned.items() if topic_id in self._wants}
        pending = dict(member.pending_revocation)
        for topic_id in unwanted:
            pending[topic_id] = {**pending.get(topic_id, {}), **member.assigned[topic_id]}
        if self._owns_any(pending):
            return member.moved_on(member.epoch, member.epoch, UNREVOKED, kept, pending)
        return member.moved_on(member.epoch, member.epoch, member.state, kept, member.pending_revocation)

    def _owns_any(self, partitions: Partitions) -> bool:
        """Whether the member says that it has one of these partitions. True as well if it says nothing."""
        if self._owned is None:
            return True
        return any(
            partition in partitions.get(topic.topic_id, ()) for topic in self._owned for partition in topic.partitions
        )
