"""What a handler gives back when a bare response is not enough: records to write, replies to send, events to tell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

Headers = tuple[tuple[bytes, bytes | None], ...]


class Call(Protocol):
    """A request in progress, as the host hands it in; a parked one is kept and answered later."""

    version: int
    client_id: str
    now: int  # milliseconds

    @property
    def client_host(self) -> str: ...


class Record(NamedTuple):
    """One record for the shard's log."""

    type: int  # of the key, see protocol.log_records
    key: Any
    value: Any | None  # None: a tombstone
    headers: Headers = ()
    value_version: int | None = None  # None: the one that Kafka writes


class CommitRecords:
    """The OffsetCommit records of one commit to one topic, in a lighter form, since nearly all records are that.

    `rows` are those of the request: partition_index, committed_offset, committed_leader_epoch, committed_metadata.
    """

    __slots__ = ("group", "headers", "is_plain", "now", "rows", "topic", "topic_id")

    def __init__(
        self, group: str, topic: str, topic_id: bytes, rows: Sequence[Any], is_plain: bool, now: int, headers: bytes
    ) -> None:
        self.group = group
        self.topic = topic
        self.topic_id = topic_id
        self.rows = rows
        self.is_plain = is_plain  # none has metadata
        self.now = now
        self.headers = headers  # packed: a member's commits in one generation share theirs


class CommitColumns:
    """What recurs of a commit to one topic; a value per partition in the last three."""

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
    """The OffsetCommit records of a commit that recurs, and its reply: all that is new are its offsets and the time.

    A handler returns it instead of an Outcome; `plan` is a coordinator.offsets.recurring_commit.CommitPlan.
    """

    __slots__ = ("call", "now", "offsets", "plan")

    def __init__(self, plan: Any, offsets: tuple[int, ...], call: Call) -> None:
        self.plan = plan
        self.offsets = offsets
        self.now = call.now
        self.call = call


LogEntry = Record | CommitRecords | PlannedCommit


class Reply(NamedTuple):
    call: Call
    response: Any


class Outcome:
    """Records, and the replies that leave when they are durable (at once if there are none)."""

    __slots__ = ("at_once", "events", "records", "replies")

    def __init__(self, records: Iterable[LogEntry] = (), replies: Iterable[Reply] = ()) -> None:
        self.records: list[LogEntry] = list(records)
        self.replies: list[Reply] = list(replies)
        self.at_once: list[Reply] = []  # replies that do not rest on the records
        self.events: list[Any] = []  # for the host's log and metrics

    def reply(self, call: Call, response: Any) -> None:
        self.replies.append(Reply(call, response))

    def reply_at_once(self, call: Call, response: Any) -> None:
        self.at_once.append(Reply(call, response))


class Parked:
    def __repr__(self) -> str:
        return "PARKED"


PARKED = Parked()  # not yet: the call was kept and is answered by somebody else's Outcome
