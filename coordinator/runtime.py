"""All shards, seen by the host: requests in, batches to write, replies to send, deadlines to keep.

The host calls, and then takes what has become ready:

    answer = runtime.submit(group_id, handler, request, call)      # a response, or PARKED
    for reply in runtime.take_replies(): ...
    for write in runtime.take_writes(): append write.batches, then runtime.written(write) or runtime.write_failed(...)
    runtime.next_deadline(), runtime.expire(now)
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from random import Random
from typing import Any

from kohort.coordinator.classic import session
from kohort.coordinator.classic.session import Pulse, find_pulse
from kohort.coordinator.config import MAX_REMEMBERED_ID, GroupConfig
from kohort.coordinator.failures import failed_response, unavailable_response
from kohort.coordinator.offsets.expiration import forget_topics
from kohort.coordinator.outcome import PARKED, Call, Outcome, PlannedCommit, Reply
from kohort.coordinator.partitioner import partition_of
from kohort.coordinator.record_codec import MAX_BATCH_BYTES, batches
from kohort.coordinator.shard import Shard, Status, Write
from kohort.coordinator.shard_state import ShardState, Topics
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.join_group import JoinGroupRequest
from kohort.protocol.record_batch import BATCH_HEADER_BYTES

logger = logging.getLogger(__name__)

__all__ = ["Handler", "Runtime", "Write"]

Handler = Callable[[ShardState, Any, Call], Any]

ACTIVE = Status.ACTIVE
STALL_MS = 1_000  # a write that takes longer stops the clock of its shard
MAX_CACHED_GROUPS = 100_000


class Runtime:
    def __init__(self, config: GroupConfig, topics: Topics, random: Random, partition_count: int) -> None:
        self.config = config
        self._topics = topics
        self._random = random
        self.shards = [Shard(self._new_state(partition)) for partition in range(partition_count)]
        self._max_batch_bytes = min(MAX_BATCH_BYTES, config.max_message_bytes - BATCH_HEADER_BYTES)
        self.events: list[Any] = []
        self.replies: list[Reply] = []  # ready to leave
        self.dirty: dict[int, Shard] = {}  # shards with something to write
        self.changed: dict[int, Shard] = {}  # shards whose next deadline may be another one
        self._shard_of: dict[str, Shard] = {}  # Java's hash of a long id costs more than the rest of a heartbeat

    def _new_state(self, partition: int) -> ShardState:
        return ShardState(partition, self.config, self._topics, self._random)

    def shard_of(self, group_id: str) -> Shard:
        shard = self._shard_of.get(group_id)
        if shard is None:
            shard = self.shards[partition_of(group_id, len(self.shards))]
            if len(group_id) <= MAX_REMEMBERED_ID:
                if len(self._shard_of) >= MAX_CACHED_GROUPS:
                    self._shard_of.clear()
                self._shard_of[group_id] = shard
        return shard

    # --- requests

    def submit(self, group_id: str, handler: Handler, request: Any, call: Call) -> Any:
        shard = self._shard_of.get(group_id) or self.shard_of(group_id)
        state = shard.state
        if shard.status is not ACTIVE:
            return unavailable_response(state, request, call, shard.status)
        result = handler(state, request, call)
        if state.purgatory.changed:
            self.changed[shard.partition] = shard
        if type(result) is PlannedCommit:
            shard.commit_planned(result)
            self.dirty[shard.partition] = shard
            return PARKED
        if type(result) is Outcome:
            self.commit(shard, result)
            return PARKED
        if (shard.unwritten or shard.in_flight) and type(request) is not JoinGroupRequest and result is not PARKED:
            # What it says may rest on records that are not durable yet. A JoinGroup's answer never does, and Kafka
            # too hands out member ids without waiting.
            return self.answer_after_writes(shard, call, result)
        return result

    def pulse(self, request: HeartbeatRequest) -> Pulse | None:
        """Of the member whose heartbeat was answered. From now on only what happens to its group concerns it."""
        shard = self.shard_of(request.group_id)
        if shard.status is not ACTIVE or shard.unwritten or shard.in_flight:
            return None
        return find_pulse(
            shard.state, request.group_id, request.member_id, request.group_instance_id, request.generation_id
        )

    def commit(self, shard: Shard, out: Outcome) -> None:
        self.replies += shard.commit(out)
        if not out.records:
            self.events += out.events
        if shard.unwritten:
            self.dirty[shard.partition] = shard
        if shard.state.purgatory.changed:
            self.changed[shard.partition] = shard

    def answer_after_writes(self, shard: Shard, call: Call, response: Any) -> Any:
        """A read that may have seen what is not durable yet waits for it."""
        if shard.unwritten:
            shard.waiting.append(Reply(call, response))
        elif shard.in_flight:
            shard.in_flight[-1].replies.append(Reply(call, response))
        else:
            return response
        return PARKED

    def take_replies(self) -> list[Reply]:
        replies, self.replies = self.replies, []
        return replies

    # --- writing

    def take_writes(self, now: int) -> list[Write]:
        dirty, self.dirty = self.dirty, {}
        return [self._take(shard, now) for shard in dirty.values()]

    def _take(self, shard: Shard, now: int) -> Write:
        records, shard.unwritten = shard.unwritten, []
        replies, shard.waiting = shard.waiting, []
        events, shard.events = shard.events, []
        first_offset = shard.first_unwritten
        write = Write(shard, first_offset, now, replies, events)
        shard.in_flight.append(write)
        try:
            write.batches = batches(records, first_offset, now, self._max_batch_bytes)
        except Exception as problem:
            # Those who wait have to be told, and other shards have their own writes in this turn.
            logger.exception("records of shard %d cannot be packed; this is a bug", shard.partition)
            write.problem = problem
        return write

    def written(self, write: Write) -> None:
        """What the write held is durable: its replies may leave."""
        shard = write.shard
        if write in shard.in_flight:  # else the shard has failed meanwhile, and everyone was told
            shard.in_flight.remove(write)
            self.replies += write.replies
            self.events += write.events
            if shard.gone_topics and not shard.has_pending_writes:
                shard.gone_topics = []

    def write_failed(self, write: Write, error: ErrorCode) -> None:
        """The shard's memory is ahead of its log: tell everyone to come again, and start over from the log."""
        shard = write.shard
        if write in shard.in_flight:  # else an earlier write of the same shard has failed before
            self._turn_away(shard, error)
            fresh = self.shards[shard.partition] = Shard(self._new_state(shard.partition))
            fresh.gone_topics = shard.gone_topics
            self._shard_of.clear()

    def _turn_away(self, shard: Shard, error: ErrorCode) -> None:
        """Another takes the place of this shard. Everyone who waits for an answer of it is told to come again."""
        shard.state.is_abandoned = True
        waiting = [reply for each in shard.in_flight for reply in each.replies] + shard.waiting
        shard.in_flight, shard.waiting, shard.unwritten = [], [], []
        self.replies += [Reply(r.call, failed_response(r.response, r.call.version, error)) for r in waiting]
        for group in shard.state.groups.values():
            for member in group.members.values():
                for call, kind in ((member.awaiting_join, "join"), (member.awaiting_sync, "sync")):
                    if call is not None:
                        self.replies.append(Reply(call, failed_response(kind, call.version, error)))
        self.dirty.pop(shard.partition, None)

    def forget_everything(self, partition_count: int) -> None:
        """The log is gone as a whole, and another one will begin."""
        for shard in self.shards:
            self._turn_away(shard, ErrorCode.NOT_COORDINATOR)
        self.shards = [Shard(self._new_state(partition)) for partition in range(partition_count)]
        self.changed.clear()
        self._shard_of.clear()

    # --- topics

    def topics_deleted(self, topics: list[tuple[str, bytes]]) -> None:
        """Offsets of a topic, given by name and id, go with it.

        A shard that is being loaded, or whose tombstones the disk refuses, makes up for it later: whoever creates a
        topic of that name would find the old offsets otherwise.
        """
        for shard in self.shards:
            if shard.status is ACTIVE:
                out = forget_topics(shard.state, topics)
                self.commit(shard, out)
                if not out.records:
                    continue
            shard.gone_topics = shard.gone_topics + topics

    # --- time

    def new_deadline(self) -> int | None:
        """The earliest deadline of the shards that changed since this was last asked."""
        earliest = None
        for shard in self.changed.values():
            shard.state.purgatory.changed = False
            deadline = shard.state.purgatory.next_deadline()
            if deadline is not None and (earliest is None or deadline < earliest):
                earliest = deadline
        self.changed.clear()
        return earliest

    def next_deadline(self) -> int | None:
        deadlines = (shard.state.purgatory.next_deadline() for shard in self.shards)
        return min((each for each in deadlines if each is not None), default=None)

    def clock_moved(self, by_ms: int) -> None:
        """What is `now` from now on is another time than it was. What waits does not wait longer or shorter by that."""
        for shard in self.shards:
            _move_deadlines(shard.state, by_ms)
            for group in shard.state.groups.values():
                group.join_phase_started += by_ms
                for member in group.members.values():
                    member.joined_at += by_ms

    def expire(self, now: int) -> None:
        for shard in self.shards:
            if shard.status is ACTIVE and not self._is_held_up(shard, now):
                while (out := shard.state.purgatory.expire(now)) is not None:
                    self.commit(shard, out)

    def _is_held_up(self, shard: Shard, now: int) -> bool:
        """Members that wait for an answer that waits for the disk cannot be heard: then their time stands still."""
        if not shard.in_flight or now - shard.in_flight[0].begun < STALL_MS:
            return False
        deadline = shard.state.purgatory.next_deadline()
        if deadline is not None and deadline <= now:
            stood_still = now - max(shard.in_flight[0].begun, shard.deadlines_moved_at)
            _move_deadlines(shard.state, max(stood_still, now - deadline + STALL_MS))
            shard.deadlines_moved_at = now
        return True


def _move_deadlines(shard: ShardState, by_ms: int) -> None:
    shard.purgatory.clock_moved(by_ms)
    for group in shard.groups.values():
        for member in group.members.values():
            session.move_deadline(member, by_ms)
