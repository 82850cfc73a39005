"""Which members are alive when the clock is advanced, and how long `advance` waits for them.

A member is alive if its connection is open and it was heard from not long ago, in real time: within three of its own
heartbeat intervals, and three seconds at least. In the time that `advance` adds, such a member would have sent its
heartbeats: so its session starts anew at each deadline. A member whose connection is closed, or that is silent, stays
as it was, and its session expires.

A rebalance has a deadline, too. Members that are alive would have rejoined before it. They cannot be hurried, because
their timers are real: `advance` waits for them, from their next heartbeat on for PATIENCE_S at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from time import monotonic
from typing import TYPE_CHECKING

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.state import COMPLETING_REBALANCE, PREPARING_REBALANCE, STABLE
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.group import Group
from kohort.coordinator.shard import Shard, Status
from kohort.coordinator.shard_state import ShardState
from kohort.coordinator.share.group import ShareGroup

if TYPE_CHECKING:
    from kohort.coordinator.purgatory import Key
    from kohort.testing.host import Host
    from kohort.testing.watch import WatchedConnection

SILENT_S = 3.0
INTERVALS = 3
PATIENCE_S = 3.0
SETTLE_S = 5.0
PAUSE_S = 0.002
SESSION = "session"  # the first word of a session's key in the purgatory


class Pulse:
    """When a member was heard from, in real time, and over which connection."""

    __slots__ = ("connection", "interval_s", "last")

    def __init__(self, connection: WatchedConnection, at: float) -> None:
        self.connection = connection
        self.last = at
        self.interval_s = 0.0  # the longest time between two requests; it shrinks with each request

    def heard(self, connection: WatchedConnection, at: float) -> None:
        self.interval_s = max(self.interval_s * 0.8, at - self.last)
        self.connection = connection
        self.last = at

    def is_alive(self) -> bool:
        silent_s = monotonic() - self.last
        return not self.connection.is_closed and silent_s < max(SILENT_S, INTERVALS * self.interval_s)


class Liveness:
    def __init__(self, host: Host) -> None:
        self._host = host
        self._pulses: dict[str, Pulse] = {}  # by member id

    def heard(self, member_id: str, connection: WatchedConnection, at: float) -> None:
        known = self._pulses.get(member_id)
        if known is None:
            self._pulses[member_id] = Pulse(connection, at)
        else:
            known.heard(connection, at)

    def is_alive(self, member_id: str) -> bool:
        pulse = self._pulses.get(member_id)
        return pulse is not None and pulse.is_alive()

    def heard_since(self, member_id: str, at: float) -> bool:
        pulse = self._pulses.get(member_id)
        return pulse is not None and pulse.last >= at

    # --- time passes

    async def advance(self, until_ns: int) -> None:
        """Let the clock pass from deadline to deadline until it shows `until_ns`."""
        time = self._host.time
        while True:
            await self._settle()
            step_ns = self._next_deadline_ns()
            if step_ns is None or step_ns > until_ns:
                break
            if await self._wait_for_the_living(step_ns):
                continue  # something has happened: the next deadline may be another one
            self._step_to(max(step_ns, time.steady_ns()))
        self._step_to(max(until_ns, time.steady_ns()))
        await self._settle()

    def _step_to(self, at_ns: int) -> None:
        time = self._host.time
        time.move_to(at_ns)
        self._hear_the_living()
        self._host.broker.coordinator.expire_now()
        time.run_due()

    def _next_deadline_ns(self) -> int | None:
        """Of the groups; the sessions of members that are alive do not count, because they will be moved."""
        return min((at for at, _, key in self._deadlines() if not self._is_session_of_living(key)), default=None)

    def _deadlines(self) -> Iterator[tuple[int, Shard[ShardState], Key]]:
        """(when on the steady clock, in nanoseconds, shard, key in its purgatory) of all that is waited for."""
        steady_ms = self._host.time.steady_ms()
        for shard in self._shards():
            for deadline, key in shard.state.purgatory.deadlines():
                at_ms = shard.state.clock.on_steady_clock(deadline, steady_ms)
                if at_ms is not None:
                    yield at_ms * 1_000_000, shard, key

    def _is_session_of_living(self, key: Key) -> bool:
        return key[0] == SESSION and self.is_alive(key[2])

    def _hear_the_living(self) -> None:
        """Members that are alive have just been heard from."""
        time = self._host.time
        for shard in self._shards():
            shard.state.clock.set(time.steady_ms(), time.now_ms())
            for group in shard.state.groups.values():
                for member_id in _member_ids(group):
                    if self.is_alive(member_id):
                        _hear(shard, group, member_id)

    async def _settle(self) -> None:
        """Let what has begun reach the disk and the clients: time must not pass while a write is in flight."""
        until = monotonic() + SETTLE_S
        turns = 0
        while monotonic() < until:
            await asyncio.sleep(0 if turns < 20 else PAUSE_S)
            turns += 1
            if turns > 2 and not any(coordinator.is_busy for coordinator in self._host.broker.coordinators()):
                return

    async def _wait_for_the_living(self, deadline_ns: int) -> bool:
        """Before the deadline of a rebalance passes, let members that are alive do their part. True: one did."""
        began = monotonic()
        first = awaited = self._awaited(deadline_ns)
        told_at: dict[tuple[str, str], float] = {}
        while awaited:
            now = monotonic()
            for each in awaited:
                if each not in told_at and self.heard_since(each[1], began):
                    told_at[each] = now
            if all(now - told_at.get(each, now) > PATIENCE_S for each in awaited):
                return False
            await asyncio.sleep(PAUSE_S)
            awaited = self._awaited(deadline_ns)
            if awaited != first:
                return True
        return False

    def _awaited(self, deadline_ns: int) -> set[tuple[str, str]]:
        """(group, member) of members that are alive, and that a deadline until then waits for."""
        found: set[tuple[str, str]] = set()
        for at_ns, shard, key in self._deadlines():
            if key[0] != SESSION and at_ns <= deadline_ns:
                group = shard.state.groups.get(key[1])
                found |= {(key[1], each) for each in _awaited_by(group, key) if self.is_alive(each)}
        return found

    def _shards(self) -> list[Shard[ShardState]]:
        runtime = self._host.broker.coordinator.runtime
        return [shard for shard in runtime.shards if shard.status is Status.ACTIVE and len(shard.state.purgatory)]


def _member_ids(group: Group) -> list[str]:
    return list(group.members) if isinstance(group, ClassicGroup | ConsumerGroup | ShareGroup) else []


def _hear(shard: Shard[ShardState], group: Group, member_id: str) -> None:
    if isinstance(group, ClassicGroup):
        member = group.members[member_id]
        if member.session.watched_until and not member.is_new:
            member.session.heard()
    elif isinstance(group, ConsumerGroup) and (session := group.sessions.get(member_id)) is not None:
        classic = group.members[member_id].classic
        settings = shard.state.consumer_settings(group.group_id)
        session.heard(settings.session_timeout_ms if classic is None else classic.session_timeout_ms)
    elif isinstance(group, ShareGroup) and member_id in group.sessions:
        group.heard_from(shard.state, member_id)


def _awaited_by(group: Group | None, key: Key) -> list[str]:
    """The members that the operation under this key waits for."""
    if isinstance(group, ClassicGroup):
        if group.state is PREPARING_REBALANCE:
            return [member.member_id for member in group.members.values() if member.awaiting_join is None]
        # The group is Stable when the leader has sent its SyncGroup; those of the others may still be on their way.
        return list(group.pending_syncs) if group.state in (COMPLETING_REBALANCE, STABLE) else []
    return [key[2]] if isinstance(group, ConsumerGroup) and len(key) > 2 else []
