"""A group as a test sees it, and what a test can do to it. All kinds of groups look alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kohort.client.ask import assigned_partitions
from kohort.coordinator.classic.delayed_join import drop_member, rebalance_or_go_on
from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.records import group_epoch_record
from kohort.coordinator.consumer.removal import remove_members
from kohort.coordinator.group import Group as AnyGroup
from kohort.coordinator.outcome import Outcome
from kohort.coordinator.rebalance import begin_rebalance
from kohort.coordinator.share.group import ShareGroup
from kohort.coordinator.share.records import group_epoch_record as share_epoch_record
from kohort.coordinator.share.removal import remove_member
from kohort.testing import share
from kohort.testing.names import UnknownName, did_you_mean
from kohort.testing.off_loop import off_loop
from kohort.testing.views import Delivery, Member, Rebalance, TopicPartition

if TYPE_CHECKING:
    from kohort.coordinator.assignors.server_side import Target
    from kohort.coordinator.consumer.member import Partitions
    from kohort.coordinator.offset_store import CommittedOffset
    from kohort.coordinator.shard import Shard
    from kohort.coordinator.shard_state import ShardState
    from kohort.testing.host import Host

DEAD = "Dead"
STATES = ("PreparingRebalance", "CompletingRebalance", "Stable", DEAD, "Empty", "Assigning", "Reconciling")


class UnknownGroup(LookupError):
    """There is no group of this name."""


class UnknownMember(LookupError):
    """The group has no member of this id."""


class Group:
    """`kafka.group("billing")`. The group need not exist: then it is Dead, as for Kafka, and has no members."""

    def __init__(self, host: Host, group_id: str) -> None:
        self._host = host
        self.group_id = group_id

    # --- looking

    @property
    def state(self) -> str:
        """As Kafka names it: Stable, Empty, PreparingRebalance, ..., and Dead if there is no such group."""
        return self._host.run(self._state)

    @property
    def type(self) -> str | None:
        """classic, consumer, ..., and None if there is no such group."""
        return self._host.run(lambda: None if (found := self._found()) is None else found.type)

    @property
    def generation(self) -> int | None:
        """The generation of a classic group, the epoch of the others."""
        return self._host.run(self._generation)

    @property
    def members(self) -> list[Member]:
        """In the order in which they joined."""
        return self._host.run(self._members)

    @property
    def owners(self) -> dict[TopicPartition, str]:
        """Which member has which partition. In a share group several have it: one of them."""
        return {place: member.member_id for member in self.members for place in member.assignment}

    @property
    def committed(self) -> dict[TopicPartition, int]:
        """The committed offset of each partition that has one."""
        return self._host.run(self._committed)

    @property
    def pending(self) -> dict[TopicPartition, int]:
        """Offsets that were committed in transactions which are still open."""
        return self._host.run(self._pending)

    @property
    def lag(self) -> dict[TopicPartition, int]:
        """How many offsets the group is behind the end, for each partition that has a committed offset. Of a share
        group: how many records are not finished, for each partition that its members read."""
        return self._host.run(self._lag)

    @property
    def deliveries(self) -> list[Delivery]:
        """Share groups: the records from the start offset on that were delivered, as long as somebody reads them."""
        return self._host.run(self._deliveries)

    @property
    def start_offsets(self) -> dict[TopicPartition, int]:
        """Share groups: everything before this offset is finished."""
        return self._host.run(self._start_offsets)

    @property
    def rebalances(self) -> list[Rebalance]:
        """The rebalances that have ended, the oldest first."""
        watch = self._host.watch
        return self._host.run(lambda: [each for each in watch.rebalances if each.group == self.group_id])

    # --- waiting

    def wait_until(
        self,
        state: str | None = None,
        *,
        members: int | None = None,
        committed: dict[TopicPartition, int] | None = None,
        rebalances: int | None = None,
        matches: Callable[[Group], bool] | None = None,
        timeout: float = 10.0,
    ) -> Group:
        """Wait until all of this holds; TimeoutError says what was seen instead.

        Args:
            members: so many, each of which has been told its partitions if `state` is Stable.
            committed: these offsets are committed, or later ones.
            rebalances: at least so many have ended.
            matches: what else must hold; called on the broker's thread, with this group. It must not wait.
        """
        if state is not None and state not in STATES:
            raise UnknownName(f"Kafka has no group state {state!r}{did_you_mean(state, STATES)}")

        def look() -> bool:
            return (
                (state is None or self._state() == state)
                and (members is None or len(self._members()) == members)
                and (
                    rebalances is None
                    or sum(e.group == self.group_id for e in self._host.watch.rebalances) >= rebalances
                )
                and (committed is None or self._has_committed(committed))
                and (matches is None or matches(Seen(self._host, self.group_id)))
            )

        if not self._host.wait_for(look, timeout):
            wanted = {"state": state, "members": members, "committed": committed, "rebalances": rebalances}
            told = ", ".join(f"{name}={value!r}" for name, value in wanted.items() if value is not None)
            raise TimeoutError(
                f"group {self.group_id!r} did not reach {told or 'what was wanted'} in {timeout:g} s: {self}"
            )
        return self

    async def wait_until_async(
        self,
        state: str | None = None,
        *,
        members: int | None = None,
        committed: dict[TopicPartition, int] | None = None,
        rebalances: int | None = None,
        matches: Callable[[Group], bool] | None = None,
        timeout: float = 10.0,
    ) -> Group:
        """`wait_until` for a test whose clients run on the event loop of this thread."""

        def wait() -> Group:
            return self.wait_until(
                state, members=members, committed=committed, rebalances=rebalances, matches=matches, timeout=timeout
            )

        return await off_loop(wait)

    # --- making things happen

    def expire(self, member: str | Member) -> None:
        """End the session of this member now, as if it had been silent. It learns that with its next request."""
        self._host.run(lambda: self._change(lambda _, group, out: self._expire(group, _id_of(member), out)))

    def expire_locks(self, member: str | Member | None = None) -> int:
        """Share groups: end the locks of the records that a member has, or all members, as if their time had passed.

        Returns how many records come back. The clock stays as it is; `kafka.clock.advance` lets locks expire, too.
        """
        member_id = None if member is None else _id_of(member)
        expired = self._host.run(lambda: share.expire_locks(self._host.broker, self.group_id, member_id))
        self._host.run(self._host.watch.on_change)
        return expired

    def evict(self, member: str | Member, reason: str = "evicted by the test") -> None:
        """Remove this member, as an administrator does."""
        self._host.run(
            lambda: self._change(lambda shard, group, out: self._evict(shard, group, _id_of(member), reason, out))
        )

    def rebalance(self, reason: str = "asked for by the test") -> None:
        """Make the group rebalance: members of a classic group rejoin, the others get a new epoch."""
        self._host.run(lambda: self._change(lambda shard, group, out: _rebalance(shard, group, reason, out)))

    def _change(self, change: Callable[[ShardState, AnyGroup, Outcome], None]) -> None:
        """Change the group as a handler would: with an outcome, whose records are written before its replies leave."""
        group, shard, time = self._found(), self._shard(), self._host.time
        if group is None:
            raise UnknownGroup(f"there is no group {self.group_id!r}{did_you_mean(self.group_id, self._others())}")
        shard.state.clock.set(time.steady_ms(), time.now_ms())
        out = Outcome()
        change(shard.state, group, out)
        self._host.broker.coordinator.apply(shard, out)

    def _others(self) -> list[str]:
        return [name for shard in self._host.broker.coordinator.runtime.shards for name in shard.state.groups]

    def _expire(self, group: AnyGroup, member_id: str, out: Outcome) -> None:
        self._need_member(group, member_id)
        if isinstance(group, ClassicGroup):
            group.members[member_id].session.end(out)
        elif isinstance(group, ConsumerGroup | ShareGroup):
            session = group.sessions[member_id]
            session.stop()
            session.deadline = 0
            session.expire(out)

    def _evict(self, shard: ShardState, group: AnyGroup, member_id: str, reason: str, out: Outcome) -> None:
        self._need_member(group, member_id)
        if isinstance(group, ClassicGroup):
            drop_member(group, group.members[member_id], out)
            rebalance_or_go_on(shard, group, f"member left: {reason}", member_id, out)
        elif isinstance(group, ConsumerGroup):
            remove_members(shard, group, [member_id], f"member left: {reason}", out)
        elif isinstance(group, ShareGroup):
            remove_member(shard, group, member_id, f"member left: {reason}", out)

    def _need_member(self, group: AnyGroup, member_id: str) -> None:
        known = list(group.members) if isinstance(group, ClassicGroup | ConsumerGroup | ShareGroup) else []
        if member_id not in known:
            told = ", ".join(known) or "nobody"
            raise UnknownMember(f"group {self.group_id!r} has no member {member_id!r}; its members are {told}")

    def __str__(self) -> str:
        return self._host.run(self._told)

    def __repr__(self) -> str:
        return f"Group({self.group_id!r})"

    # --- on the broker's loop

    def _shard(self) -> Shard[ShardState]:
        return self._host.broker.coordinator.runtime.shard_of(self.group_id)

    def _found(self) -> AnyGroup | None:
        return self._shard().state.groups.get(self.group_id)

    def _state(self) -> str:
        found = self._found()
        return DEAD if found is None else found.state_name

    def _generation(self) -> int | None:
        found = self._found()
        if isinstance(found, ClassicGroup):
            return found.generation
        return found.epoch if isinstance(found, ConsumerGroup | ShareGroup) else None

    def _members(self) -> list[Member]:
        found = self._found()
        if isinstance(found, ClassicGroup):
            return [
                Member(
                    each.member_id, each.client_id, each.client_host.removeprefix("/"), each.instance_id,
                    tuple(assigned_partitions(each.assignment)), is_waiting=each.waits_for_answer,
                )
                for each in found.members.values()
            ]  # fmt: skip
        if isinstance(found, ConsumerGroup | ShareGroup):
            return [
                Member(
                    each.member_id, each.client_id, each.client_host.removeprefix("/"), each.instance_id,
                    self._places(each.assigned), each.epoch, self._places(found.target_of(each.member_id)),
                )
                for each in found.members.values()
            ]  # fmt: skip
        return []

    def _deliveries(self) -> list[Delivery]:
        return share.deliveries_of(self._host.broker, self.group_id)

    def _start_offsets(self) -> dict[TopicPartition, int]:
        return share.start_offsets_of(self._host.broker, self.group_id)

    def _places(self, partitions: Partitions | Target) -> tuple[TopicPartition, ...]:
        name_of = self._host.broker.catalog.name_of
        return tuple(
            sorted((name_of(topic) or topic.hex(), each) for topic, found in partitions.items() for each in found)
        )

    def _committed(self) -> dict[TopicPartition, int]:
        by_topic = self._shard().state.offsets_of(self.group_id)
        found = {(topic, number): each.offset for topic, rows in by_topic.items() for number, each in rows.items()}
        return dict(sorted(found.items()))

    def _pending(self) -> dict[TopicPartition, int]:
        """If several transactions have an offset of the same partition: that of the newest commit."""
        newest: dict[TopicPartition, CommittedOffset] = {}
        for producer in self._shard().state.offsets.pending.open.values():
            for topic, rows in producer.pending.get(self.group_id, {}).items():
                for number, each in rows.items():
                    known = newest.get((topic, number))
                    if known is None or known.log_offset < each.log_offset:
                        newest[topic, number] = each
        return {place: each.offset for place, each in sorted(newest.items())}

    def _has_committed(self, wanted: dict[TopicPartition, int]) -> bool:
        committed = self._committed()
        return all(committed.get(place, -1) >= offset for place, offset in wanted.items())

    def _lag(self) -> dict[TopicPartition, int]:
        if isinstance(self._found(), ShareGroup):
            return share.lag_of(self._host.broker, self.group_id)
        found = {}
        for (topic, number), offset in self._committed().items():
            partition = self._host.broker.catalog.partition(topic, number)
            if partition is not None:
                found[topic, number] = max(0, partition.high_watermark - offset)
        return found

    def _told(self) -> str:
        """The group in a few lines, for the text of an error."""
        members = self._members()
        lines = [f"it is {self._state()}, generation {self._generation()}, with {len(members)} members"]
        for member in members:
            places = ", ".join(f"{topic}-{number}" for topic, number in member.assignment) or "nothing"
            lines.append(f"    {member.member_id} ({member.client_id}) has {places}{' and waits' * member.is_waiting}")
        if committed := self._committed():
            lines.append("    committed: " + ", ".join(f"{t}-{n}: {offset}" for (t, n), offset in committed.items()))
        for each in self._deliveries()[:20]:
            who = f" by {each.member_id}" if each.member_id else ""
            lines.append(
                f"    {each.topic}-{each.partition} {each.first_offset} to {each.last_offset}: {each.state}{who},"
                f" delivered {each.deliveries} times"
            )
        ended = [each for each in self._host.watch.rebalances if each.group == self.group_id]
        lines += [f"    rebalance {each.generation}: {each.cause} ({each.who})" for each in ended[-5:]]
        return "\n".join(lines)


def _id_of(member: str | Member) -> str:
    return member if isinstance(member, str) else member.member_id


def _rebalance(shard: ShardState, group: AnyGroup, reason: str, out: Outcome) -> None:
    if isinstance(group, ClassicGroup) and group.members:
        rebalance_or_go_on(shard, group, reason, "test", out)
    elif isinstance(group, ConsumerGroup) and group.members:
        headers = begin_rebalance(shard, group, reason, "test", "")
        out.records.append(group_epoch_record(group.group_id, group.epoch + 1, group.metadata_hash, headers))
    elif isinstance(group, ShareGroup) and group.members:
        headers = begin_rebalance(shard, group, reason, "test", "")
        out.records.append(share_epoch_record(group.group_id, group.epoch + 1, group.metadata_hash, headers))


class Seen(Group):
    """The same group for somebody who is on the broker's loop already."""

    @property
    def state(self) -> str:
        return self._state()

    @property
    def generation(self) -> int | None:
        return self._generation()

    @property
    def members(self) -> list[Member]:
        return self._members()

    @property
    def committed(self) -> dict[TopicPartition, int]:
        return self._committed()

    @property
    def lag(self) -> dict[TopicPartition, int]:
        return self._lag()

    @property
    def deliveries(self) -> list[Delivery]:
        return self._deliveries()

    @property
    def start_offsets(self) -> dict[TopicPartition, int]:
        return self._start_offsets()

    def expire(self, member: str | Member) -> None:
        self._change(lambda _, group, out: self._expire(group, _id_of(member), out))

    def rebalance(self, reason: str = "asked for by the test") -> None:
        self._change(lambda shard, group, out: _rebalance(shard, group, reason, out))

    def __str__(self) -> str:
        return self._told()
