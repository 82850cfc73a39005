"""What must hold of consumer groups (KIP-848), after each event.

`Watch` compares the coordinator with its clients: who holds what, and who was removed with good reason. `check_group`
looks at one group: what is derived from its records agrees with them, and nobody is forgotten by the clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.member import Member
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.member import STABLE, STATIC_LEAVE_EPOCH, UNREVOKED, ConsumerMember
from kohort.coordinator.group import Group
from kohort.coordinator.shard import Shard, Status
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.coordinator.support import Call
from tests.simulation.world import COME_AGAIN, consumer_groups

if TYPE_CHECKING:
    from tests.simulation.consumer_client import Consumer, Holds, Place, Sent
    from tests.simulation.consumer_world import ConsumerWorld

Key = tuple[str, str]  # group id, member id
AnyMember = ConsumerMember | Member
NO_GENERATION = (-1, 0)  # the first generation of a group is 0


class Seen:
    """A member, as it was seen after the last event."""

    __slots__ = ("first", "is_loaded", "member", "since", "unrevoked_since")

    def __init__(self, member: AnyMember, now: int, is_loaded: bool) -> None:
        self.first = self.member = member
        self.since = now  # in this group object; a load begins anew
        self.is_loaded = is_loaded  # else it has joined
        self.unrevoked_since = now


class Watch:
    def __init__(self, world: ConsumerWorld) -> None:
        self._world = world
        self._heard: dict[Key, int] = {}  # when the last heartbeat was sent that was not refused
        self._progress: dict[Key, int] = {}  # when a classic member last joined, or got its assignment
        self._synced: dict[Key, int] = {}  # the generation in which a classic member last got its assignment
        self._generations: dict[str, tuple[int, int]] = {}  # of classic groups, and since when
        self._left: set[Key] = set()  # members that have sent a last heartbeat
        self.removals: Counter[Key] = Counter()
        self._gone: set[Key] = set()  # members that the coordinator has removed with good reason
        self._shards: dict[str, Shard[ShardState]] = {}  # of a group; another object: it was loaded again
        self._groups: dict[str, tuple[ConsumerGroup, int, int]] = {}  # with its epochs
        self._seen: dict[Key, Seen] = {}
        self._echoes: list[tuple[Call, bool]] = []  # old heartbeats, and whether they have changed anything
        self._last_check = world.host.steady_ms  # when the event that is looked at began

    # --- what clients do

    def leaves(self, client: Consumer, epoch: int) -> None:
        self._left.add((client.group_id, client.member_id))

    def hears(self, key: Key, at: int) -> None:
        """A classic member has sent a sign of life at that time."""
        self._heard[key] = max(at, self._heard.get(key, 0))

    def has_progressed(self, key: Key, at: int) -> None:
        """A classic member has joined or got its assignment, and has asked for that at that time."""
        self._progress[key] = max(at, self._progress.get(key, 0))

    def has_synced(self, key: Key, generation: int) -> None:
        self._synced[key] = generation

    def is_gone(self, client: Consumer) -> bool:
        return (client.group_id, client.member_id) in self._gone

    def picture(self, group_id: str) -> Any:
        """Equal if nothing has happened to the group."""
        group = self._world.host.state_of(group_id).groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            return (group,)
        return group, group.epoch, group.assignment_epoch, dict(group.members), dict(group.targets)

    def is_answered(self, client: Consumer, call: Call, sent: Sent) -> None:
        key = client.group_id, call.request.member_id or call.answer.member_id
        if call.error is ErrorCode.NONE:
            assert call.request.member_epoch <= 0 or not sent.was_gone, f"a heartbeat of {key}, which is removed"
            if call.request.member_epoch >= 0:
                self._heard[key] = max(sent.at, self._heard.get(key, 0))
        elif call.error not in COME_AGAIN and key[1] and sent.removals == self.removals[key]:
            # The answer may wait for a target; a member that is removed meanwhile is told so.
            assert not sent.has_changed, f"a refused heartbeat of {key} has changed the group: {call.error.name}"

    def expect_refusal(self, client: Consumer, request: ConsumerGroupHeartbeatRequest, version: int) -> None:
        before = self.picture(client.group_id)
        call = self._world.host.send(request, version, client.name)
        has_changed = self.picture(client.group_id) != before
        self._echoes.append((call, has_changed))
        self._world.hang_up(call)

    def _check_echoes(self) -> None:
        answered = [(call, has_changed) for call, has_changed in self._echoes if call.is_answered]
        self._echoes = [echo for echo in self._echoes if not echo[0].is_answered]
        for call, has_changed in answered:
            assert call.error is not ErrorCode.NONE, f"an old heartbeat is taken: epoch {call.request.member_epoch}"
            assert not has_changed or call.error in COME_AGAIN, "an old heartbeat has changed the group"

    # --- after each event

    def check(self) -> None:
        self._check_echoes()
        for shard in self._world.host.runtime.shards:
            if shard.status is Status.ACTIVE:
                for group in consumer_groups(shard.state):
                    check_group(shard, group, is_unfinished=self._world.is_unfinished(group))
        for group_id in self._world.groups:
            shard = self._world.host.shard_of(group_id)
            if shard.status is Status.ACTIVE:
                self._check_members(shard, group_id)
                self._check_holders(shard, group_id)
        self._last_check = self._world.host.steady_ms

    def _check_epochs(self, group: ConsumerGroup) -> None:
        last = self._groups.get(group.group_id)
        if last is not None and last[0] is group:
            assert group.epoch >= last[1], f"the epoch of {group.group_id} falls"
            assert group.assignment_epoch >= last[2], f"the assignment epoch of {group.group_id} falls"
        self._groups[group.group_id] = group, group.epoch, group.assignment_epoch

    def _check_members(self, shard: Shard[ShardState], group_id: str) -> None:
        """Epochs rise, and nobody is removed without a reason."""
        group = shard.state.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            self._check_epochs(group)
        now = self._world.host.steady_ms
        members = members_of(group)
        is_reloaded = self._shards.get(group_id) is not shard
        self._shards[group_id] = shard
        for key in [key for key in self._seen if key[0] == group_id and key[1] not in members]:
            seen = self._seen.pop(key)
            if is_reloaded and key not in self._left:
                continue  # whether the client was told of it shows in `_check_holders`
            self._check_removal(key, seen, now)
        if isinstance(group, ClassicGroup) and self._generations.get(group_id, NO_GENERATION)[0] != group.generation:
            self._generations[group_id] = group.generation, self._last_check
        for member_id, member in members.items():
            self._see((group_id, member_id), member, self._last_check, begins_anew=is_reloaded)

    def _see(self, key: Key, member: AnyMember, now: int, *, begins_anew: bool) -> None:
        seen = self._seen.get(key)
        if seen is None or begins_anew:
            self._seen[key] = Seen(member, now, begins_anew)
            self._gone.discard(key)
        else:
            if _way(seen.member) != _way(member):
                seen.unrevoked_since = now
            seen.member = member

    def _check_removal(self, key: Key, seen: Seen, now: int) -> None:
        world = self._world
        silent_since = max(seen.since, self._heard.get(key, 0))
        session_ms = world.host.state_of(key[0]).consumer_settings(key[0]).session_timeout_ms
        if isinstance(seen.member, ConsumerMember) and seen.member.classic is None:
            has_reason = self._has_reason(seen.member, seen, now)
            has_reason = has_reason or (world.processes_take_over and not self._is_used(key))
        else:
            has_reason, session_ms = self._has_classic_reason(key, seen, now), session_timeout_of(seen.member)
        has_reason = has_reason or key in self._left or now >= silent_since + session_ms
        assert has_reason, f"{key} is removed, though it was heard {now - silent_since} ms ago"
        self._left.discard(key)
        self._gone.add(key)
        self.removals[key] += 1
        for client in world.clients:
            if (client.group_id, client.member_id) == key:
                client.told_epoch = 0

    def _has_reason(self, member: ConsumerMember, seen: Seen, now: int) -> bool:
        """A static member that left comes back under another id. Others may be too slow to give up partitions."""
        is_late = member.state == UNREVOKED and now >= seen.unrevoked_since + member.rebalance_timeout_ms
        return is_late or member.epoch == STATIC_LEAVE_EPOCH

    def _is_used(self, key: Key) -> bool:
        return any((client.group_id, client.member_id) == key for client in self._world.clients)

    def _has_classic_reason(self, key: Key, seen: Seen, now: int) -> bool:
        """It may be too slow to join again. A process that has ended is no concern: a new one may take its place."""
        progress = max(seen.since, self._progress.get(key, 0))
        latest = now - seen.member.rebalance_timeout_ms
        return not self._is_used(key) or progress <= latest or self._is_late(key, seen, latest)

    def _is_late(self, key: Key, seen: Seen, latest: int) -> bool:
        """In a classic group the time for SyncGroup runs from the beginning of the generation, whoever joins again.

        In a consumer group that was loaded, partitions must be given up until a rebalance timeout after the load, as in
        Kafka, although nobody watches that of classic members otherwise.
        """
        if isinstance(seen.member, Member):
            generation, since = self._generations.get(
                key[0], NO_GENERATION
            )  # before the event that has removed the member
            return since <= latest and self._synced.get(key, -1) < generation
        is_unrevoked = seen.member.state == UNREVOKED and seen.member.epoch == epoch_of(seen.first)
        return seen.is_loaded and is_unrevoked and seen.since <= latest

    def _check_holders(self, shard: Shard[ShardState], group_id: str) -> None:
        group = shard.state.groups.get(group_id)
        members = members_of(group)
        holders: dict[Place, str] = {}
        for client in self._world.clients:
            if client.group_id != group_id or not client.holds or client.is_stray or self.is_gone(client):
                continue
            member = members.get(client.member_id)
            assert member is not None, f"{client.member_id} holds {told(client.holds)}, and nobody has removed it"
            if has_missed(group, client):
                continue
            forgotten = client.holds - held(member) if isinstance(member, ConsumerMember) else None
            assert not forgotten, f"{client.member_id} holds {told(forgotten)}, and the coordinator has forgotten it"
            for place in sorted(client.holds):
                other = holders.setdefault(place, client.member_id)
                assert other == client.member_id, f"{told({place})} is held by {other} and {client.member_id}"

    def others_holding(self, client: Consumer, place: Place) -> list[str]:
        group = self._world.host.state_of(client.group_id).groups.get(client.group_id)
        return [
            other.member_id
            for other in self._world.clients
            if other is not client
            and other.group_id == client.group_id
            and place in other.holds
            and not other.is_stray
            and not self.is_gone(other)
            and not has_missed(group, other)
        ]


def members_of(group: Group | None) -> Mapping[str, AnyMember]:
    return group.members if isinstance(group, (ConsumerGroup, ClassicGroup)) else {}


def has_missed(group: Group | None, client: Consumer) -> bool:
    """A static member may miss a generation. Then it does not know yet that it has lost something."""
    return isinstance(group, ClassicGroup) and client.epoch != group.generation


def epoch_of(member: AnyMember) -> int | None:
    return member.epoch if isinstance(member, ConsumerMember) else None


def session_timeout_of(member: AnyMember) -> int:
    if isinstance(member, ConsumerMember):
        assert member.classic is not None
        return member.classic.session_timeout_ms
    return member.session_timeout_ms


def _way(member: AnyMember) -> Any:
    """How far the member has come. Whatever else changes gives it no more time to give up partitions."""
    if isinstance(member, Member):
        return None
    return member.epoch, member.state, member.assigned, member.pending_revocation


def held(member: ConsumerMember) -> Holds:
    """What the coordinator believes that the member holds."""
    return frozenset(
        (topic_id, partition)
        for partitions in (member.assigned, member.pending_revocation)
        for topic_id, owned in partitions.items()
        for partition in owned
    )


def told(places: Any) -> list[str]:
    return [f"{topic_id[-1]}-{partition}" for topic_id, partition in sorted(places)]


# --- one group


def check_group(shard: Shard[ShardState], group: ConsumerGroup, *, is_unfinished: bool) -> None:
    """`is_unfinished`: there may be partitions without an owner, see migrating_world.py."""
    check_derived(group)
    check_deadlines(shard, group)
    check_targets(shard, group, is_unfinished)


def check_derived(group: ConsumerGroup) -> None:
    """What is derived from members agrees with them."""
    members = group.members.values()
    assert group.assignment_epoch <= group.epoch, (group.assignment_epoch, group.epoch)
    holders: Counter[Place] = Counter(place for member in members for place in held(member))
    twice = [place for place, count in holders.items() if count > 1]
    assert not twice, f"{told(twice)} of {group.group_id} are with two members"
    counted = {(topic_id, n) for topic_id, partitions in group._holders.items() for n in partitions}
    assert counted >= set(holders), "a partition that is held counts as free"
    assert counted <= set(holders), "a partition that nobody holds counts as held"
    assert {m.instance_id: m.member_id for m in members if m.instance_id} == group.static_members
    names = Counter(name for member in members for name in member.topic_names)
    assert names == Counter(group.subscriptions.names)
    assert Counter(m.topic_regex for m in members if m.topic_regex) == Counter(group.subscriptions.regexes)
    unused = set(group.subscriptions.resolved) - set(group.subscriptions.regexes)
    assert not unused, f"{group.group_id} keeps {unused}, which nobody uses"
    matched = Counter(topic for found in group.subscriptions.resolved.values() for topic in found.topics)
    assert matched == Counter(group.subscriptions.matched)
    is_stable = all(m.state == STABLE and m.epoch == group.assignment_epoch for m in members)
    assert group.all_reconciled() == is_stable
    assert set(group.targets) <= set(group.members), "a target of nobody"


def check_deadlines(shard: Shard[ShardState], group: ConsumerGroup) -> None:
    """Each member has a session, and a time until which it must have given up partitions, if it has to."""
    purgatory = shard.state.purgatory
    assert set(group.sessions) <= set(group.members), group.sessions
    assert set(group.rebalance_timeouts) <= set(group.members), group.rebalance_timeouts
    for member_id, member in group.members.items():
        # In a large group that was just converted, sessions begin piece by piece.
        has_session = purgatory.is_watched(("session", group.group_id, member_id)) or shard.jobs
        assert has_session, f"{member_id} has no session"
        must_revoke = member.state == UNREVOKED and member.epoch != STATIC_LEAVE_EPOCH and member.classic is None
        if must_revoke:
            assert purgatory.is_watched(("revocation", group.group_id, member_id)), f"{member_id} may take for ever"


def check_targets(shard: Shard[ShardState], group: ConsumerGroup, is_unfinished: bool) -> None:
    """The targets of an epoch in force share out all partitions among those that want them, each once."""
    topics, subscriptions = shard.state.topics, group.subscriptions
    if group.epoch != group.assignment_epoch or not group.members:
        return
    if subscriptions.metadata_hash(shard.state) != group.metadata_hash:
        return  # topics have changed, and the next heartbeat will see that
    given = Counter(
        (topic_id, n) for target in group.targets.values() for topic_id, owned in target.items() for n in owned
    )
    twice = [place for place, count in given.items() if count > 1]
    assert not twice, f"{told(twice)} of {group.group_id} are in two targets"
    for member in () if is_unfinished else group.members.values():
        wanted = {
            (topic_id, n)
            for name in subscriptions.topics_of(member)
            if (topic_id := topics.topic_id(name)) is not None
            for n in range(topics.partition_count(name))
        }
        missing = wanted - set(given)
        assert not missing, f"{told(missing)} of {group.group_id} are in no target of epoch {group.assignment_epoch}"
