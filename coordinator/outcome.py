"""What a handler gives back when a bare response is not enough: records to write, replies to send, events to tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from kohort.coordinator.events import Event
from kohort.protocol.messages.offset_commit import OffsetCommitRequestPartition
from kohort.protocol.messages.txn_offset_commit import TxnOffsetCommitRequestPartition
from kohort.protocol.txn_marker import TxnMarker
from kohort.protocol.wire import Message

if TYPE_CHECKING:
    from kohort.coordinator.api import Api
    from kohort.coordinator.commit_template import CommitTemplate

Headers = tuple[tuple[bytes, bytes | None], ...]
CommitRow: TypeAlias = OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition


class Call(Protocol):
    """A request in progress, as the host hands it in; a parked one is kept and answered later."""

    version: int
    client_id: str
    now: int  # wall time, milliseconds since 1970
    steady_ms: int  # the host's steady clock
    api: Api[Any, Any, Any]  # the runtime sets it

    @property
    def client_host(self) -> str: ...

    def reply(self, response: Message) -> None:
        """Answer a parked request. For the host: handlers put replies into their Outcome."""
        ...


class Record(NamedTuple):
    """One record for the shard's log."""

    type: int  # of the key, see protocol.log_records
    key: Message
    value: Message | None  # None: a tombstone
    headers: Headers = ()
    value_version: int | None = None  # None: the one that Kafka writes


class AtomicRecords:
    """Records that are replayed together or not at all: they stand in one batch, which a log has whole or not."""

    __slots__ = ("records",)

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = records


class PackedRecords:
    """The records that make another group of a group. They were packed, and replayed into the new group, beforehand.

    They stand in one batch, as AtomicRecords do. Its first record is the first of them; others may follow.
    """

    __slots__ = ("count", "packed", "size_bytes")

    def __init__(self) -> None:
        self.packed: list[bytes] = []
        self.count = 0
        self.size_bytes = 0


class StepRecords:
    """What one heartbeat changes in a consumer group, as one object. It is packed at once, and replayed in one call.

    The records stand in one batch, as AtomicRecords do, and have the same bytes. `fields` are the records without their
    lengths and offset deltas: see encode_fields in protocol/record_batch.py.
    """

    __slots__ = ("fields", "replay")

    def __init__(self, fields: list[bytes], replay: Callable[[], None]) -> None:
        self.fields = fields
        self.replay = replay


class CommitRecords:
    """The OffsetCommit records of one commit to one topic, as one object: nearly all records are of this kind."""

    __slots__ = ("expires", "group", "headers", "is_plain", "now", "rows", "topic", "topic_id")

    def __init__(
        self, group: str, topic: str, topic_id: bytes, rows: Sequence[CommitRow], is_plain: bool,
        now: int, headers: bytes, expires: int = -1,
    ) -> None:  # fmt: skip
        self.group = group
        self.topic = topic
        self.topic_id = topic_id
        self.rows = rows
        self.is_plain = is_plain  # none has metadata
        self.now = now
        self.headers = headers  # packed: a member's commits in one generation share theirs
        self.expires = expires  # -1: as the broker's retention says


class TransactionalCommit:
    """The records of one commit in a transaction. They are a batch of their own, which has the producer's id and epoch.

    The records are packed beforehand, because the commit is refused if they do not fit into one batch.
    """

    __slots__ = ("count", "packed", "parts", "producer_epoch", "producer_id")

    def __init__(
        self, producer_id: int, producer_epoch: int, parts: Sequence[CommitRecords], packed: bytes, count: int
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.parts = parts  # one for each topic
        self.packed = packed
        self.count = count


class MarkerRecord:
    """The marker that ends a producer's transaction: a control batch of its own."""

    __slots__ = ("marker",)

    def __init__(self, marker: TxnMarker) -> None:
        self.marker = marker


class OffsetTombstones:
    """The records that delete offsets of one group in one topic, as one object: a group can have a million offsets."""

    __slots__ = ("group", "indexes", "topic")

    def __init__(self, group: str, topic: str, indexes: Sequence[int]) -> None:
        self.group = group
        self.topic = topic
        self.indexes = indexes


class CommitColumns:
    """The part of a recurring commit to one topic that stays the same; the last three have a value per partition."""

    __slots__ = ("epochs", "indexes", "metadata", "topic", "topic_id")

    def __init__(
        self, topic: str, topic_id: bytes, indexes: tuple[int, ...], epochs: tuple[int, ...], metadata: tuple[str, ...]
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.indexes = indexes
        self.epochs = epochs
        self.metadata = metadata


class PlannedCommit:
    """The OffsetCommit records of a commit that recurs: its offsets and the time are all that is new."""

    __slots__ = ("columns", "group", "now", "offsets", "template")

    def __init__(
        self, group: str, columns: Sequence[CommitColumns], template: CommitTemplate, offsets: tuple[int, ...], now: int
    ) -> None:
        self.group = group
        self.columns = columns
        self.template = template
        self.offsets = offsets
        self.now = now


LogEntry = (
    Record | CommitRecords | PlannedCommit | AtomicRecords | StepRecords | PackedRecords | OffsetTombstones
    | TransactionalCommit | MarkerRecord
)  # fmt: skip


Reply: TypeAlias = tuple[Call, Message]  # a plain tuple: every answer that waits is one


class Outcome:
    """Records, and the replies that leave when they are durable (at once if there are none)."""

    __slots__ = ("at_once", "events", "jobs", "records", "replies")

    def __init__(self, records: list[LogEntry] | None = None, replies: list[Reply] | None = None) -> None:
        """The lists are taken over, not copied."""
        self.records = [] if records is None else records
        self.replies = [] if replies is None else replies
        self.at_once: list[Reply] = []  # replies that do not rest on the records
        self.events: list[Event] = []  # to tell when the records are durable
        self.jobs: Sequence[InPieces] = ()  # to begin once the records are replayed

    def reply(self, call: Call, response: Message) -> None:
        self.replies.append((call, response))

    def reply_at_once(self, call: Call, response: Message) -> None:
        self.at_once.append((call, response))


class StepOutcome:
    """As an Outcome with one StepRecords and one reply. While a group converges, nearly all are of this kind."""

    __slots__ = ("reply", "step")

    def __init__(self, step: StepRecords, reply: Reply) -> None:
        self.step = step
        self.reply = reply

    def outcome(self) -> Outcome:
        return Outcome([self.step], [self.reply])


class InPieces:
    """The result of a handler that has too much to do at once. The answer leaves when all pieces are durable.

    Each piece is applied before the next one is asked for; requests may come in between. `response` is read at the end,
    so the pieces may still change it.
    """

    __slots__ = ("call", "pieces", "response")

    def __init__(self, pieces: Iterator[Outcome], call: Call | None = None, response: Message | None = None) -> None:
        self.pieces = pieces
        self.call = call
        self.response = response

    def becomes(self, answer: Message | Outcome | StepOutcome | Parked | InPieces) -> Iterator[Outcome]:
        """Finish with the answer of a handler that was called after the pieces before: these are its pieces."""
        if isinstance(answer, InPieces):
            for out in answer.pieces:
                self.call = answer.call  # None: `out` has the reply; if the shard fails now, it must not reply twice
                yield out
            self.call, self.response = answer.call, answer.response
        elif isinstance(answer, Outcome):
            self.call = None  # the Outcome has the reply
            yield answer
        elif isinstance(answer, StepOutcome):
            self.call = None  # as above
            yield answer.outcome()
        elif isinstance(answer, Parked):
            self.call = None
        else:
            self.response = answer


class Parked:
    def __repr__(self) -> str:
        return "PARKED"


PARKED = Parked()  # the call was kept, and a later Outcome answers it
