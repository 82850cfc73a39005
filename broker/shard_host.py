"""Runs a coordinator inside the broker: its log, its clock, its replies.

The coordinator is pure. This module writes its batches to the log and calls it when a deadline has come. Requests of
one turn of the loop share their batches: `submit` only marks the turn as due, `_turn` writes. By default a reply waits
until its batch is synced: all that arrives while the disk works is written and synced together when the disk is done.
With kohort.offsets.sync.before.reply=false a reply waits for the page cache only, as Kafka does.

While a group converges, each of its members sends a heartbeat that has something to be written. Such requests gather:
the turn is put off as long as each pass of the event loop brings more of them (`_gather`).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Generic

from kohort.broker.clock import Clock
from kohort.broker.shard_loading import ShardLoader
from kohort.broker.shard_log import ShardLog
from kohort.broker.topics.catalog import Topic
from kohort.coordinator.api import Api, Asked, Everywhere, Request, Response, Row, Several, Steps
from kohort.coordinator.events import Event
from kohort.coordinator.outcome import PARKED, Call, Outcome, Parked, Reply
from kohort.coordinator.runtime import Runtime
from kohort.coordinator.shard import S, Shard, Write
from kohort.protocol.error_codes import ErrorCode
from kohort.storage.errors import OutOfSpace

if TYPE_CHECKING:
    from kohort.broker.broker import Broker, Cancellable

logger = logging.getLogger(__name__)

STOOD_STILL_MS = 500
ONE_TURN_S = 0.001  # with 0 the timer would ring before the sockets are read
# While appends wait for the disk, new records are held back, and then written and synced together. But not for longer
# than this: a write that takes long stops the clock of its shard, so records must become a write in time.
MAX_HOLD_S = 0.5
MAX_GATHER_MS = 2
REPLIES_AT_ONCE = 300  # some 5 ms; a group of thousands of members is answered in several turns of the event loop


class ShardHost(Generic[S]):
    def __init__(self, broker: Broker, clock: Clock, log: ShardLog, runtime: Runtime[S]) -> None:
        self._broker = broker
        self._clock = clock
        self.log = log
        self.runtime = runtime
        broker.catalog.on_new_settings.append(self._take_new_settings)
        self._loader = ShardLoader(broker, clock, log, runtime, self.loaded, self._after)
        self._turn_is_due = False
        self._gathered = 0  # entries that waited to be written when `_gather` looked last
        self._gather_until = 0  # on the steady clock
        self.is_stopped = False
        self._goes_on = False  # `_go_on` is due
        self._in_turn = False
        self._turn_began = 0  # on the steady clock
        self._unfinished_appends = 0
        self._turns = 0
        self._watches_appends = False
        self._delivering = False
        self._undelivered: deque[Reply] = deque()  # replies for which there was no time in this turn
        self._timer: Cancellable | None = None
        self._timer_deadline: int | None = None

    # --- start

    def start(self) -> None:
        """Load what the log holds: small logs at once, large ones in steps between requests."""
        self._loader.load(self.runtime.shards, may_wait=True)
        self._after()

    def _take_new_settings(self) -> None:
        """Settings of topics or of the broker were changed: tell the coordinator those that it uses."""
        self.runtime.limit_batches(self.log.max_batch_bytes)

    @property
    def is_busy(self) -> bool:
        """Whether something is on its way to the disk, or is being done in pieces."""
        return bool(self._turn_is_due or self._goes_on or self._unfinished_appends or self.runtime.dirty)

    def loaded(self, shard: Shard[S]) -> None:
        """The log of this shard was read, and it is served from now on."""

    def wrote(self, write: Write[S]) -> None:
        """What the write holds, which is not commits alone, is durable now."""

    def tell(self, event: Event) -> None:
        """Something that was reported by the coordinator is durable now."""

    # --- requests

    def owner_of(self, key: str) -> int | None:
        """The node that coordinates the group, or whatever has this key; None: nobody does at the moment."""
        return self.log.owner(self.runtime.shard_of(key).partition)

    def submit(self, key: str, api: Api[S, Request, Response], request: Request, call: Call) -> Response | Parked:
        runtime = self.runtime
        answer = runtime.ask(runtime.known_shards.get(key) or runtime.shard_of(key), api, request, call)
        waits = answer is PARKED and not (self._turn_is_due or self._unfinished_appends)
        if waits or runtime.replies or runtime.events or (runtime.changed and not self._turn_is_due):
            self._after(api.gathers)  # usually there is nothing to do, and asking is cheaper than the call
        return answer

    def submit_in_steps(
        self, key: str, api: Api[S, Request, Response], request: Request, call: Call
    ) -> Steps[Response | Parked]:
        return self._in_steps(self.runtime.submit_in_steps(key, api, request, call), call)

    def submit_several(
        self, several: Several[S, Request, Response, Asked, Row], request: Request, call: Call
    ) -> Steps[Response | Parked]:
        return self._in_steps(self.runtime.submit_several(several, request, call), call)

    def submit_everywhere(
        self, everywhere: Everywhere[S, Request, Response], request: Request, call: Call
    ) -> Steps[Response | Parked]:
        return self._in_steps(self.runtime.submit_everywhere(everywhere, request, call), call)

    def _in_steps(self, steps: Steps[Response | Parked], call: Call) -> Steps[Response | Parked]:
        """Take the steps. Records and replies of a step are written and sent right after it, not after the last one."""
        while True:
            call.now, call.steady_ms = self._clock.now_ms(), self._clock.steady_ms()
            try:
                next(steps)
            except StopIteration as end:
                self._after()
                answer: Response | Parked = end.value
                return answer
            if self.runtime.dirty or self.runtime.replies:
                self._after()
            yield

    def apply(self, shard: Shard[S], out: Outcome) -> None:
        self.runtime.apply(shard, out)
        self._after()

    def _after(self, gathers: bool = False) -> None:
        """To be called after every call into the runtime: plan the writes, send the replies, set the timer."""
        runtime = self.runtime
        if runtime.dirty and not (self._turn_is_due or self._unfinished_appends):
            self._turn_is_due = True
            self._broker.call_soon(self._begin_to_gather if gathers else self._turn)
        if runtime.replies or runtime.events:
            self._deliver()
        if runtime.changed:
            self._arm(runtime.new_deadline(self._clock.steady_ms()))
        if runtime.busy and not self._goes_on:
            self._goes_on = True
            self._broker.call_soon(self._go_on)

    def _go_on(self) -> None:
        """Do one piece of the long work. Work that waits for the disk goes on after the next write."""
        self._goes_on = False
        if not self.is_stopped and self.runtime.go_on(self._clock.steady_ms(), self._clock.now_ms()):
            self._after()

    def _deliver(self) -> None:
        """Send the replies. Sending one can start the client's next request; the loop below sends its replies too."""
        if self._delivering:
            return
        self._delivering = True
        try:
            while replies := self.runtime.take_replies():
                if self.runtime.events:
                    self._tell()  # the log line of a rebalance comes before its members are told
                if self._undelivered or len(replies) > REPLIES_AT_ONCE:
                    self._deliver_later(replies)
                else:
                    _send_all(replies)
        finally:
            self._delivering = False
        if self.runtime.events:
            self._tell()

    def _deliver_later(self, replies: list[Reply]) -> None:
        if not self._undelivered:
            self._broker.call_soon(self._deliver_some)
        self._undelivered += replies

    def _deliver_some(self) -> None:
        """Send some of the replies that were too many for one turn of the event loop."""
        count = min(REPLIES_AT_ONCE, len(self._undelivered))
        self._delivering = True
        try:
            _send_all([self._undelivered.popleft() for _ in range(count)])
        finally:
            self._delivering = False
            if self._undelivered:
                self._broker.call_soon(self._deliver_some)
        self._deliver()

    def _tell(self) -> None:
        events, self.runtime.events = self.runtime.events, []
        for event in events:
            self.tell(event)

    # --- time

    def _arm(self, deadline: int | None) -> None:
        """Wake up at `deadline` of the steady clock, unless the timer is set for an earlier time."""
        if deadline is None or (self._timer_deadline is not None and self._timer_deadline <= deadline):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_deadline = deadline
        delay_s = max(0, deadline - self._clock.steady_ms()) / 1000
        self._timer = self._broker.call_later_by_clock(delay_s, self._time_is_up)

    def _time_is_up(self) -> None:
        assert self._timer_deadline is not None
        if self._clock.steady_ms() - self._timer_deadline >= STOOD_STILL_MS:
            # The whole process stood still, as in a debugger. First read what members have sent meanwhile.
            self._timer = self._broker.call_later(ONE_TURN_S, self._expire)
        else:
            self._expire()

    def _expire(self) -> None:
        self._timer = self._timer_deadline = None
        try:
            self.runtime.expire(self._clock.steady_ms(), self._clock.now_ms())
        finally:  # even after an exception: other groups have deadlines too
            self._after()
            self._arm(self.runtime.next_deadline(self._clock.steady_ms()))

    # --- topics

    def topics_deleted(self, topics: list[Topic]) -> None:
        """Forget what is about deleted topics. If the topic of the log itself was deleted, forget everything."""
        if any(topic.name == self.log.topic for topic in topics):
            for shard in self.runtime.shards:
                self.log.release(shard.partition)
            self._begin_anew()
        else:
            self.runtime.topics_deleted([(topic.name, topic.id) for topic in topics])
        self._after()

    def topic_created(self) -> None:
        """A client has created the topic of the log, maybe with another number of partitions than we would have."""
        if self.log.partition_count != len(self.runtime.shards):
            self._begin_anew()
            self._after()

    def _begin_anew(self) -> None:
        """The log was deleted or created anew, and is empty: begin with empty shards."""
        self.runtime.forget_everything(self.log.partition_count)
        self._loader.load(self.runtime.shards)

    # --- writing

    def _begin_to_gather(self) -> None:
        self._gathered = 0
        self._gather_until = self._clock.steady_ms() + MAX_GATHER_MS
        self._gather()

    def _gather(self) -> None:
        """Let the sockets be read once more, unless the last time brought nothing to be written."""
        count = self.runtime.unwritten_count
        if count > self._gathered and self._clock.steady_ms() < self._gather_until:
            self._gathered = count
            self._broker.call_soon(self._gather)
        else:
            self._turn()

    def _turn(self) -> None:
        self._turn_is_due = False
        if self.is_stopped:
            return
        self._turns += 1
        self._in_turn = True
        try:
            self._append_writes()
        finally:
            self._in_turn = False
        if self._unfinished_appends and not self._watches_appends:
            self._watch_appends()
        self._after()

    def _append_writes(self) -> None:
        wall = self._clock.now_ms()
        self._turn_began = self._clock.steady_ms()
        writes = []
        for write in self.runtime.take_writes(self._turn_began, wall):
            if write.problem is None:
                writes.append(write)
            else:
                # A retriable error would make the client send the same request, and that would fail the shard again.
                self._failed(write, write.problem, ErrorCode.UNKNOWN_SERVER_ERROR)
        self._unfinished_appends += len(writes)
        self.log.append(writes, wall, self._written)

    def _written(self, writes: Sequence[Write[S]], problem: Exception | None) -> None:
        self._unfinished_appends -= len(writes)
        now = self._turn_began if self._in_turn else self._clock.steady_ms()
        has_failed_before = bool(self._loader.delays)
        for write in writes:
            if problem is not None:
                self._failed(write, problem)
            elif not write.shard.is_abandoned:
                self.runtime.written(write, now)
                if write.has_news:
                    self.wrote(write)
                if has_failed_before:
                    self._loader.delays.works(write.partition)
        if not self._in_turn:  # a turn calls _after at its end
            self._after()

    def _watch_appends(self) -> None:
        """Look again later whether the appends of this turn are done: see MAX_HOLD_S."""
        self._watches_appends = True
        self._broker.call_later(MAX_HOLD_S, partial(self._hold_no_longer, self._turns))

    def _hold_no_longer(self, turn: int) -> None:
        self._watches_appends = False
        if turn == self._turns and self._unfinished_appends and self.runtime.dirty and not self._turn_is_due:
            self._turn()
        elif self._unfinished_appends:
            self._watch_appends()

    def _failed(self, write: Write[S], problem: Exception, error: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        """The log refused a write: tell everyone to come again, and load the shard from its log."""
        partition = write.partition
        if write.shard.is_abandoned:
            return
        if isinstance(problem, OutOfSpace):
            self._wait_for_room(write, problem)
            return
        logger.error("writing to %s-%d failed, loading it again: %s", self.log.topic, partition, problem)
        self.log.release(partition)
        self.runtime.write_failed(write, error)
        self._loader.load_later(self.runtime.shards[partition])

    def _wait_for_room(self, write: Write[S], problem: OutOfSpace) -> None:
        """Nothing was appended, and the log is sound: the same write is tried again until there is room."""
        if write.shard.stalled is None:
            logger.error("%s-%d waits for room on the disk: %s", self.log.topic, write.partition, problem)
        self.runtime.stall(write, ErrorCode.NOT_COORDINATOR)
        self._broker.call_later(self._loader.delays.next(write.partition), partial(self._append_again, write))

    def _append_again(self, write: Write[S]) -> None:
        if not (write.shard.is_abandoned or self.is_stopped):
            self._unfinished_appends += 1
            self.log.append([write], self._clock.now_ms(), self._written)

    def stop(self) -> None:
        """Write what is due, and nothing afterwards: the logs are closed next, at the offsets that they have then.

        Parked members see their connections close, and come back after the restart.
        """
        if self.runtime.dirty:
            self._turn()
        self.is_stopped = True


def _send_all(replies: list[Reply]) -> None:
    for call, response in replies:
        try:
            call.reply(response)
        except Exception:  # go on: the other replies of this list must be sent
            logger.exception("a reply could not be delivered; this is a bug")
