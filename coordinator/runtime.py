"""All shards of a coordinator, seen by the host: requests in, batches to write, replies to send, deadlines to keep.

The host calls, and then takes what has become ready:

    answer = runtime.submit(key, HEARTBEAT, request, call)                 # a response, or PARKED
    for call, response in runtime.take_replies(): call.reply(response)
    for write in runtime.take_writes(now, wall): append write.batches, then runtime.written(...) or write_failed(...)
    runtime.next_deadline(now), runtime.expire(now, wall)
    runtime.go_on(now, wall)                                               # while runtime.busy

`now` is the host's steady clock in milliseconds; each shard makes its own time of it (shard_clock.py). The key of what
a request is about decides which shard is asked: the id of a group, for the group coordinator (group_runtime.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, cast

from kohort.coordinator.api import Answer, Api, Asked, Everywhere, Request, Response, Row, Several, Steps
from kohort.coordinator.config import MAX_REMEMBERED_ID
from kohort.coordinator.events import Event
from kohort.coordinator.outcome import (
    PARKED,
    AtomicRecords,
    Call,
    CommitRecords,
    InPieces,
    LogEntry,
    MarkerRecord,
    OffsetTombstones,
    Outcome,
    PackedRecords,
    Parked,
    PlannedCommit,
    Reply,
    StepOutcome,
    StepRecords,
    TransactionalCommit,
)
from kohort.coordinator.partitioner import partition_of
from kohort.coordinator.pieces import PIECE
from kohort.coordinator.record_codec import MAX_BATCH_BYTES, batches
from kohort.coordinator.shard import S, Shard, Status, Write
from kohort.coordinator.shard_clock import NEVER
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.record_batch import BATCH_HEADER_BYTES
from kohort.protocol.wire import Message

logger = logging.getLogger(__name__)

__all__ = ["Runtime", "Write"]

ACTIVE = Status.ACTIVE
MAX_CACHED_KEYS = 100_000
EXPIRATIONS_IN_STEP = 100  # operations of all shards together: a few milliseconds
COMMITS = (PlannedCommit, CommitRecords, TransactionalCommit, MarkerRecord, OffsetTombstones)
MAX_ANSWER_BYTES = 16_000_000  # of an answer about several keys; the first of them is in it, whatever its size


class Runtime(Generic[S]):
    def __init__(self, new_shard: Callable[[int], Shard[S]], partition_count: int, max_message_bytes: int) -> None:
        """`new_shard` makes the empty shard of a partition; `max_message_bytes`: the log takes no larger batch."""
        self._new_shard = new_shard
        self.shards = [new_shard(partition) for partition in range(partition_count)]
        self._max_batch_bytes = _batch_bytes(max_message_bytes)
        self.events: list[Event] = []
        self.replies: list[Reply] = []  # ready to leave
        self.dirty: dict[int, Shard[S]] = {}  # shards with something to write
        self.changed: dict[int, Shard[S]] = {}  # shards whose next deadline may have changed
        self.busy: dict[int, Shard[S]] = {}  # shards with something to do in pieces
        self.piece_size = 0  # records of pieces that the host has not taken yet
        self.notes_news = False  # whether a write shall say that it has something else than commits
        self.known_shards: dict[str, Shard[S]] = {}  # by key: Java's hash costs more than a heartbeat

    def shard_of(self, key: str) -> Shard[S]:
        shard = self.known_shards.get(key)
        if shard is None:
            shard = self.shards[partition_of(key, len(self.shards))]
            if len(key) <= MAX_REMEMBERED_ID:
                if len(self.known_shards) >= MAX_CACHED_KEYS:
                    self.known_shards.clear()
                self.known_shards[key] = shard
        return shard

    def shard_of_rare(self, key: str) -> Shard[S]:
        """The same without remembering the key: one request could drive keys that are in use out of the cache."""
        return self.known_shards.get(key) or self.shards[partition_of(key, len(self.shards))]

    # --- requests

    def submit(self, key: str, api: Api[S, Request, Response], request: Request, call: Call) -> Response | Parked:
        """A request about one key."""
        return self.ask(self.shard_of(key), api, request, call)

    def ask(self, shard: Shard[S], api: Api[S, Request, Response], request: Request, call: Call) -> Response | Parked:
        state = shard.state
        clock = state.clock
        clock.steady_ms = call.steady_ms  # as clock.set, without a call
        clock.wall = call.now
        call.api = api
        if shard.status is not ACTIVE:
            return api.unavailable(state, request, call, shard.status.error)
        result = api.handle(state, request, call)
        if isinstance(result, Outcome):
            self.apply(shard, result)
            return PARKED
        if isinstance(result, StepOutcome):
            return self._apply_step(shard, result)
        if isinstance(result, InPieces) or shard.unwritten or shard.in_flight:
            return self._finish(shard, api, call, result)
        if state.purgatory.changed:
            self.changed[shard.partition] = shard
        return result

    def _finish(
        self, shard: Shard[S], api: Api[S, Request, Response], call: Call, result: Answer[Response]
    ) -> Response | Parked:
        if isinstance(result, Outcome):
            self.apply(shard, result)
            return PARKED
        if isinstance(result, StepOutcome):
            return self._apply_step(shard, result)
        if isinstance(result, InPieces):
            self._begin(shard, result)
            return PARKED
        if shard.state.purgatory.changed:
            self.changed[shard.partition] = shard
        if (shard.unwritten or shard.in_flight) and api.waits_for_writes and not isinstance(result, Parked):
            return self._answer_after_writes(shard, call, result)
        return result

    # --- long requests

    def submit_in_steps(
        self, key: str, api: Api[S, Request, Response], request: Request, call: Call
    ) -> Steps[Response | Parked]:
        """A long request about one key."""
        return self._ask_in_steps(self.shard_of(key), api, request, call)

    def _ask_in_steps(
        self, shard: Shard[S], api: Api[S, Request, Response], request: Request, call: Call
    ) -> Steps[Response | Parked]:
        if api.steps is None:
            return self.ask(shard, api, request, call)
        call.api = api
        error = _problem(shard)
        steps = api.steps(shard.state, request, call, error)
        while True:
            shard.state.clock.set(call.steady_ms, call.now)
            try:
                next(steps)
            except StopIteration as end:
                result: Answer[Response] = end.value
                break
            yield
            if error is None and (error := _problem(shard)) is not None:
                steps = api.steps(shard.state, request, call, error)
        if error is not None:
            return cast("Response", result)
        return self._finish(shard, api, call, result)

    def submit_several(
        self, several: Several[S, Request, Response, Asked, Row], request: Request, call: Call
    ) -> Steps[Response | Parked]:
        """A request about several keys: each of their shards answers its part, and the last one completes it."""
        entries: list[Asked] = []  # a list, because the entries of a long request are decoded anew by each loop
        by_partition: dict[int, list[int]] = {}
        known: set[Asked] = set()
        for entry in several.entries(request):
            if several.answers_once:
                if entry in known:
                    continue
                known.add(entry)
            shard = self.shard_of_rare(several.key(entry))
            by_partition.setdefault(shard.partition, []).append(len(entries))
            entries.append(entry)
            yield

        def whole(answers: Sequence[Response]) -> Response:
            rows = cast("list[Row]", [None] * len(entries))  # all are set: each entry has a row in one of the parts
            for indexes, answer in zip(by_partition.values(), answers, strict=True):
                for index, row in zip(indexes, several.rows(answer), strict=True):
                    rows[index] = row
            return several.whole(rows)

        gathering = Gathering(call, len(by_partition), whole)
        room = Room(MAX_ANSWER_BYTES)
        for partition, indexes in by_partition.items():
            part, part_call = several.part(request, [entries[index] for index in indexes]), gathering.part()
            if partition >= len(self.shards):  # the topic was created anew, with fewer partitions
                answer: Response | Parked = several.api.unavailable(
                    self.shards[0].state, part, part_call, ErrorCode.NOT_COORDINATOR
                )
            elif several.row is None:
                answer = self.ask(self.shards[partition], several.api, part, part_call)
            else:
                answer = yield from self._rows(self.shards[partition], several, part, part_call, room)
            if not isinstance(answer, Parked):
                part_call.response = answer
            yield
        return gathering.complete_now()

    def _rows(
        self,
        shard: Shard[S],
        several: Several[S, Request, Response, Asked, Row],
        request: Request,
        call: Call,
        room: Room,
    ) -> Steps[Response | Parked]:
        """The part of one shard. When the answer is large enough, the keys that are left are told to come again."""
        assert several.row is not None
        call.api = several.api
        rows: list[Row] = []
        for entry in several.entries(request):
            error = _problem(shard) or room.problem
            row = yield from several.row(shard.state, request, entry, call, error)
            room.left -= several.row_bytes(row)
            rows.append(row)
            yield
        response = several.whole(rows)
        if (error := _problem(shard)) is not None:
            return several.api.failed(response, call.version, error)
        return self._finish(shard, several.api, call, response)

    def submit_everywhere(
        self, everywhere: Everywhere[S, Request, Response], request: Request, call: Call
    ) -> Steps[Response | Parked]:
        """A request about all shards."""
        request = yield from everywhere.short(request)
        shards = self.shards
        gathering = Gathering(call, len(shards), everywhere.whole)
        for shard in shards:
            part_call = gathering.part()
            answer = yield from self._ask_in_steps(shard, everywhere.api, request, part_call)
            if not isinstance(answer, Parked):
                part_call.response = answer
            yield
        return gathering.complete_now()

    def apply(self, shard: Shard[S], out: Outcome) -> None:
        if out.at_once:
            self.replies += out.at_once
        if out.records:
            shard.apply(out)
            self.dirty[shard.partition] = shard
        else:
            self.replies += out.replies
            self.events += out.events
        if shard.state.purgatory.changed:
            self.changed[shard.partition] = shard
        for job in out.jobs:
            self._begin(shard, job, at_once=False)

    def _apply_step(self, shard: Shard[S], out: StepOutcome) -> Parked:
        """As `apply`."""
        shard.apply_step(out)
        self.dirty[shard.partition] = shard
        if shard.state.purgatory.changed:
            self.changed[shard.partition] = shard
        return PARKED

    # --- what is done in pieces

    def _begin(self, shard: Shard[S], job: InPieces, *, at_once: bool = True) -> None:
        """`at_once`: do the first piece now; mostly it is the only one."""
        shard.jobs.append(job)
        self.busy[shard.partition] = shard
        if at_once and len(shard.jobs) == 1 and self.piece_size < PIECE:
            self._do_piece(shard)
            if shard.jobs and self.piece_size < PIECE:
                self._do_piece(shard)

    def go_on(self, now: int, wall: int) -> bool:
        """Do a piece of what is done in pieces. False: there is nothing to do before the disk takes the last piece."""
        if self.piece_size >= PIECE:
            return False
        for partition, shard in self.busy.items():
            if shard.status is ACTIVE:
                del self.busy[partition]
                self.busy[partition] = shard  # behind the other shards, whose turn is next
                shard.state.clock.set(now, wall)
                self._do_piece(shard)
                return True
        return False

    def _do_piece(self, shard: Shard[S]) -> None:
        job = shard.jobs[0]
        out = next(job.pieces, None)
        if out is not None:
            self.piece_size += sum(map(_size, out.records))
            self.apply(shard, out)
            return
        shard.jobs.pop(0)
        if not shard.jobs:
            del self.busy[shard.partition]
        shard.forgot_topics()
        if job.call is not None and job.response is not None:
            if shard.has_pending_writes:
                self._answer_after_writes(shard, job.call, job.response)
            else:
                self.replies.append((job.call, job.response))

    def _answer_after_writes(self, shard: Shard[S], call: Call, response: Message) -> Parked:
        """The response may rest on records that are not durable yet: it waits for the newest of them."""
        waiting = shard.waiting if shard.unwritten else shard.in_flight[-1].replies
        waiting.append((call, response))
        return PARKED

    def take_replies(self) -> list[Reply]:
        replies, self.replies = self.replies, []
        return replies

    # --- writing

    def limit_batches(self, max_message_bytes: int) -> None:
        """The log takes batches up to this size from now on."""
        self._max_batch_bytes = _batch_bytes(max_message_bytes)

    @property
    def unwritten_count(self) -> int:
        """How many entries wait to be written."""
        return sum([len(shard.unwritten) for shard in self.dirty.values()])

    def take_writes(self, now: int, wall: int) -> list[Write[S]]:
        dirty, self.dirty = self.dirty, {}
        self.piece_size = 0
        return [self._take(shard, now, wall) for shard in dirty.values()]

    def _take(self, shard: Shard[S], now: int, wall: int) -> Write[S]:
        entries, shard.unwritten = shard.unwritten, []
        replies, shard.waiting = shard.waiting, []
        events, shard.events = shard.events, []
        first_offset = shard.first_unwritten
        write = Write(shard, first_offset, now, replies, events)
        if not shard.in_flight:
            shard.state.clock.write_begins(now)
        shard.in_flight.append(write)
        if self.notes_news:
            write.has_news = not all(type(entry) in COMMITS for entry in entries)
        try:
            write.batches = batches(entries, first_offset, wall, self._max_batch_bytes, shard.types)
        except Exception as problem:
            # Do not raise: the callers of this shard must be told, and other shards have writes in the same turn.
            logger.exception("records of shard %d cannot be packed; this is a bug", shard.partition)
            write.problem = problem
        return write

    def written(self, write: Write[S], now: int) -> None:
        """What the write held is durable: its replies may leave."""
        shard = write.shard
        if write not in shard.in_flight:
            return  # the shard has failed meanwhile, and its callers were told
        shard.in_flight.remove(write)
        if write is shard.stalled:
            self._goes_on(shard)
        clock = shard.state.clock
        if not shard.in_flight and now < clock.stops_at:
            clock.stops_at = NEVER  # as write_ends, without a call
        elif clock.write_ends(now, shard.in_flight[0].begun if shard.in_flight else None):
            self.changed[shard.partition] = shard  # its time goes on, and deadlines come nearer again
        self.replies += write.replies
        self.events += write.events
        if shard.gone_topics:
            shard.forgot_topics()

    def write_failed(self, write: Write[S], error: ErrorCode) -> None:
        """The shard's memory is ahead of its log: tell all callers to come again, and load the shard from its log."""
        shard = write.shard
        if write in shard.in_flight:  # else an earlier write of the same shard has failed before
            self.start_over(shard, error)

    def start_over(self, shard: Shard[S], error: ErrorCode = ErrorCode.NOT_COORDINATOR) -> Shard[S]:
        """A fresh shard takes the place of this one, and has to be loaded."""
        self._abandon(shard, error)
        fresh = self.shards[shard.partition] = self._new_shard(shard.partition)
        fresh.gone_topics = shard.gone_topics
        self.known_shards.clear()
        return fresh

    # --- a full disk

    def stall(self, write: Write[S], error: ErrorCode) -> None:
        """The disk has no room for the write: its records wait, and the shard takes no requests until they are written.

        All callers that wait are told to come again. Nothing has to be loaded: the records are still in memory, and are
        written when there is room.
        """
        shard = write.shard
        shard.status, shard.stalled = Status.STALLED, write
        for replies in (write.replies, shard.waiting):
            self.replies += [(call, call.api.failed(response, call.version, error)) for call, response in replies]
            replies.clear()
        self.dirty.pop(shard.partition, None)

    def _goes_on(self, shard: Shard[S]) -> None:
        shard.status, shard.stalled = ACTIVE, None
        self.changed[shard.partition] = shard
        if shard.unwritten:
            self.dirty[shard.partition] = shard
        if shard.gone_topics:
            self._begin(shard, InPieces(shard.forget_topics(shard.gone_topics)))

    def _abandon(self, shard: Shard[S], error: ErrorCode) -> None:
        self.replies += shard.abandon(error)
        self.dirty.pop(shard.partition, None)
        self.busy.pop(shard.partition, None)
        self.changed.pop(shard.partition, None)

    def forget_everything(self, partition_count: int) -> None:
        """The whole log was deleted: begin with empty shards, which have to be loaded."""
        for shard in self.shards:
            self._abandon(shard, ErrorCode.NOT_COORDINATOR)
        self.shards = [self._new_shard(partition) for partition in range(partition_count)]
        self.known_shards.clear()

    def loaded(self, shard: Shard[S], now: int, wall: int) -> Iterator[None]:
        """The shard's log is replayed. After the last step it is served."""
        shard.state.clock.set(now, wall)
        shard.state.clock.loaded_wall = wall
        out = yield from shard.begin()
        self.apply(shard, out)
        if shard.gone_topics:
            self._begin(shard, InPieces(shard.forget_topics(shard.gone_topics)))

    # --- topics

    def topics_deleted(self, topics: list[tuple[str, bytes]], *, at_once: bool = True) -> None:
        """Delete what the shards keep about deleted topics, which are given by name and id.

        A shard that is being loaded, or whose tombstones the disk refuses, deletes it later. Otherwise a new topic of
        the same name could have what was of the old one.
        """
        for shard in self.shards:
            shard.gone_topics = shard.gone_topics + topics
            if shard.status is ACTIVE:
                self._begin(shard, InPieces(shard.forget_topics(topics)), at_once=at_once)

    # --- time

    def new_deadline(self, now: int) -> int | None:
        """The earliest deadline of the shards that changed since this was last asked."""
        changed, self.changed = self.changed, {}
        return _earliest(changed.values(), now)

    def next_deadline(self, now: int) -> int | None:
        return _earliest(self.shards, now)

    def expire(self, now: int, wall: int) -> None:
        """Expire operations whose deadline has come: so few at a time that requests can be served in between."""
        left = EXPIRATIONS_IN_STEP
        for shard in self.shards:
            if shard.status is ACTIVE:
                state = shard.state
                state.clock.set(now, wall)
                while left and (out := state.purgatory.expire(state.clock.now)) is not None:
                    left -= 1
                    self.apply(shard, out)

    def begin_later(self, shard: Shard[S], job: InPieces) -> None:
        """Do something in pieces that nobody waits for."""
        self._begin(shard, job, at_once=False)


def _size(entry: LogEntry) -> int:
    """How many records the entry of a piece is."""
    if isinstance(entry, OffsetTombstones):
        return len(entry.indexes)
    if isinstance(entry, AtomicRecords):
        return len(entry.records)
    if isinstance(entry, StepRecords):
        return len(entry.fields)
    return entry.count if isinstance(entry, PackedRecords) else 1


def _batch_bytes(max_message_bytes: int) -> int:
    """How many bytes of records a batch may have."""
    return min(MAX_BATCH_BYTES, max_message_bytes - BATCH_HEADER_BYTES)


def _earliest(shards: Iterable[Shard[S]], now: int) -> int | None:
    earliest = None
    for shard in shards:
        purgatory = shard.state.purgatory
        purgatory.changed = False
        if shard.status is not ACTIVE:
            continue  # its deadlines count again when it is active
        deadline = purgatory.next_deadline()
        if deadline is not None:
            at = shard.state.clock.on_steady_clock(deadline, now)
            if at is not None and (earliest is None or at < earliest):
                earliest = at
    return earliest


def _problem(shard: Shard[S]) -> ErrorCode | None:
    """Why the shard cannot be asked now. While a long request is handled, the shard may fail."""
    if shard.is_abandoned:
        return ErrorCode.NOT_COORDINATOR
    return None if shard.status is ACTIVE else shard.status.error


class Room:
    """How many bytes an answer may still have."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left

    @property
    def problem(self) -> ErrorCode | None:
        """Clients ask again on this error, for what they have not got."""
        return None if self.left > 0 else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class PartCall:
    """One shard's part of a call that concerns several shards."""

    __slots__ = ("_gathering", "_whole", "api", "client_id", "now", "response", "steady_ms", "version")

    def __init__(self, whole: Call, gathering: Gathering[Any]) -> None:
        self._whole = whole
        self._gathering = gathering
        self.version = whole.version
        self.client_id = whole.client_id
        self.now = whole.now
        self.steady_ms = whole.steady_ms
        self.api: Api[Any, Any, Any]
        self.response: Message | None = None  # until this shard has answered

    @property
    def client_host(self) -> str:
        return self._whole.client_host

    def reply(self, response: Message) -> None:
        self.response = response
        self._gathering.complete_later()


class Gathering(Generic[Response]):
    """The parts of an answer that several shards give."""

    __slots__ = ("_call", "_part_count", "_parts", "_whole")

    def __init__(self, call: Call, part_count: int, whole: Callable[[Sequence[Response]], Response]) -> None:
        self._call = call
        self._part_count = part_count
        self._parts: list[PartCall] = []
        self._whole = whole

    def part(self) -> PartCall:
        """The call for the next part."""
        part = PartCall(self._call, self)
        self._parts.append(part)
        return part

    def complete_now(self) -> Response | Parked:
        """The answer if every shard has given its part."""
        answers = [part.response for part in self._parts if part.response is not None]
        if len(answers) != self._part_count:
            return PARKED
        self._parts.clear()  # parts refer to this object; clearing avoids a reference cycle around a large answer
        return self._whole(cast("list[Response]", answers))

    def complete_later(self) -> None:
        """A shard has given its part; answer the call if that was the last one."""
        answer = self.complete_now()
        if not isinstance(answer, Parked):
            self._call.reply(answer)
