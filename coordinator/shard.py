"""One partition of a coordinator's log: state, the batch that is open, and how the log becomes state.

This is what all coordinators have in common. Each of them says how its records become state, in a class of its own:
`replay` at least, and what else of the last section it needs. The group coordinator's is group_shard.py.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator, Sequence
from enum import Enum
from typing import Generic, TypeVar

from kohort.coordinator.events import Event
from kohort.coordinator.outcome import AtomicRecords, InPieces, LogEntry, Outcome, Record, Reply, StepOutcome
from kohort.coordinator.state import State
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.record_batch import scan_records
from kohort.protocol.record_types import RecordTypes, UnknownRecord
from kohort.protocol.wire import Message

logger = logging.getLogger(__name__)

RECORDS_IN_STEP = 500  # of a replay: a step takes a few milliseconds
USUAL_RECORD_BYTES = 100  # a longer record counts as several

S = TypeVar("S", bound=State)


class Status(Enum):
    NOT_OWNED = "not owned"  # another node coordinates what is in the shard, or nobody does
    LOADING = "loading"
    ACTIVE = "active"
    STALLED = "stalled"  # the disk is full: records wait for room
    FAILED = "failed"  # its log cannot be read: somebody has to repair it

    @property
    def error(self) -> ErrorCode:
        """What requests to a shard of this status are answered with."""
        comes_back = self in (Status.LOADING, Status.STALLED)
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if comes_back else ErrorCode.NOT_COORDINATOR


class Write(Generic[S]):
    """Batches of one shard for its log, replies that wait for them, and events to tell when they are durable."""

    __slots__ = (
        "batches",
        "begun",
        "epoch",
        "events",
        "first_offset",
        "has_news",
        "partition",
        "problem",
        "replies",
        "shard",
    )

    def __init__(
        self, shard: Shard[S], first_offset: int, begun: int, replies: list[Reply], events: list[Event]
    ) -> None:
        self.shard = shard
        self.partition = shard.partition
        self.epoch = shard.epoch
        self.begun = begun  # on the steady clock
        self.first_offset = first_offset
        self.batches: list[bytes] = []
        self.problem: Exception | None = None  # why there are no batches: a bug, and the write has failed
        self.replies = replies
        self.events = events
        self.has_news = False  # something else than commits, if the host wants to know: see Runtime.notes_news


class Shard(Generic[S]):
    types: RecordTypes  # of its log

    def __init__(self, state: S) -> None:
        self.state = state
        self.partition = state.partition
        self.status = Status.LOADING
        self.is_abandoned = False  # a fresh object has taken its place, because a write failed or the log was deleted
        self.epoch = 0  # of our ownership of the log; the host sets it
        self.next_offset = 0  # of the log
        self.unwritten: list[LogEntry] = []
        self.first_unwritten = 0  # log offset of the first of them
        self.waiting: list[Reply] = []  # for `unwritten`
        self.events: list[Event] = []  # for `unwritten`
        self.in_flight: list[Write[S]] = []  # handed to the host, oldest first
        self.stalled: Write[S] | None = None  # the one of them that the disk has no room for
        self.jobs: list[InPieces] = []  # the first of them is in progress
        self.gone_topics: list[tuple[str, bytes]] = []  # deleted topics that the log may still say something about
        self.skipped_types: set[int] = set()
        self.unreadable_count = 0  # records that were skipped while the log was loaded
        self.first_unreadable: tuple[int, str] | None = None  # its offset, and what is wrong

    # --- live

    def apply(self, out: Outcome) -> None:
        """Replay the records and put them into the open batch, with the replies and events that wait for them."""
        if not self.unwritten:
            self.first_unwritten = self.next_offset
        self.replay_entries(out.records)
        self.unwritten += out.records
        self.waiting += out.replies
        self.events += out.events

    def apply_step(self, out: StepOutcome) -> None:
        """As `apply`."""
        step = out.step
        if not self.unwritten:
            self.first_unwritten = self.next_offset
        step.replay()
        self.next_offset += len(step.fields)
        self.unwritten.append(step)
        self.waiting.append(out.reply)

    @property
    def has_pending_writes(self) -> bool:
        return bool(self.unwritten) or bool(self.in_flight)

    def forgot_topics(self) -> None:
        """Forget deleted topics once the tombstones of all that was about them are durable."""
        if not self.jobs and not self.has_pending_writes:
            self.gone_topics = []

    def begin(self) -> Generator[None, None, Outcome]:
        """The log is replayed. At the end requests are served."""
        if self.first_unreadable is not None:
            skipped = "%d records of shard %d cannot be read and were skipped, the first at offset %d: %s"
            logger.error(skipped, self.unreadable_count, self.partition, *self.first_unreadable)
        out = Outcome()
        yield from self.on_loaded(out)
        self.status = Status.ACTIVE
        return out

    def abandon(self, error: ErrorCode) -> list[Reply]:
        """Another object takes the place of this shard. Everyone who waits for an answer is told to come again."""
        self.is_abandoned = True
        waiting = [reply for write in self.in_flight for reply in write.replies] + self.waiting
        self.in_flight, self.waiting, self.unwritten = [], [], []
        out = Outcome()
        waiting += [(job.call, job.response) for job in self.jobs if job.call is not None and job.response is not None]
        self.jobs = []
        for call, response in waiting:
            out.reply_at_once(call, call.api.failed(response, call.version, error))
        self.on_abandoned(error, out)
        return out.at_once

    def fail(self, problem: Exception) -> None:
        self.status = Status.FAILED
        number = self.partition
        logger.error("shard %d cannot be loaded, %s-%d is not served: %s", number, self.types.topic, number, problem)

    # --- loading

    def load_chunk(self, chunk: bytes, size: int) -> Iterator[None]:
        """Replay whole batches of the log, as many as a chunk of it holds, and give way after some records."""
        in_step = 0
        for header, offset, _, raw_key, raw_value, _ in scan_records(chunk, 0, size, with_headers=False):
            in_step += 1 if raw_value is None else 1 + len(raw_value) // USUAL_RECORD_BYTES
            if in_step > RECORDS_IN_STEP:
                in_step = 0
                yield
            try:
                if raw_key is not None and not header.is_control:
                    self._load(raw_key, raw_value, offset)
            except MalformedMessage as problem:
                self.skip(offset, problem)
            self.next_offset = offset + 1

    def _load(self, raw_key: bytes, raw_value: bytes | None, offset: int) -> None:
        record_type, key = self.types.decode_key(raw_key)
        if isinstance(key, UnknownRecord):
            self.skip_type(record_type)
        else:
            value = None if raw_value is None else self.types.decode_value(record_type, raw_value)
            self.replay(record_type, key, value, offset)

    def skip(self, offset: int, problem: MalformedMessage) -> None:
        """Skip a record that cannot be read. It stays in the log, and all else in the shard is served."""
        self.unreadable_count += 1
        if self.first_unreadable is None:
            self.first_unreadable = offset, str(problem)

    def skip_type(self, record_type: int) -> None:
        if record_type not in self.skipped_types:
            self.skipped_types.add(record_type)
            logger.warning("skipping records of unknown type %d in shard %d", record_type, self.partition)

    # --- what each coordinator says for itself

    def replay_entries(self, entries: Sequence[LogEntry]) -> None:
        """Replay what a handler has returned, and count `next_offset` up."""
        for entry in entries:
            for record in entry.records if isinstance(entry, AtomicRecords) else (entry,):
                assert isinstance(record, Record), record
                self.replay(record.type, record.key, record.value, self.next_offset)
                self.next_offset += 1

    def replay(self, record_type: int, key: Message, value: Message | None, log_offset: int) -> None:
        """A record changes the state. Live and at a restart, nothing else does."""
        raise NotImplementedError

    def on_loaded(self, out: Outcome) -> Iterator[None]:
        """Begin what the loaded state needs, for instance deadlines."""
        return iter(())

    def on_abandoned(self, error: ErrorCode, out: Outcome) -> None:
        """Tell those who wait inside the state to come again."""

    def forget_topics(self, topics: Sequence[tuple[str, bytes]]) -> Iterator[Outcome]:
        """Delete what is about topics that were deleted, which are given by name and id."""
        return iter(())
