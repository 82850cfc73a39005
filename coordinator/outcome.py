"""What a handler gives back when a bare response is not enough: records to write, replies to send, events to tell."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol


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
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    value_version: int | None = None  # None: the one that Kafka writes


class CommitRecord:
    """An OffsetCommit record in a lighter form, since nearly all are that; `committed` is what the store keeps."""

    __slots__ = ("committed", "group", "headers", "partition", "topic")

    def __init__(
        self, group: str, topic: str, partition: int, committed: Any, headers: tuple[tuple[bytes, bytes | None], ...]
    ) -> None:
        self.group = group
        self.topic = topic
        self.partition = partition
        self.committed = committed
        self.headers = headers


class Reply(NamedTuple):
    call: Call
    response: Any


class Outcome:
    """Records, and the replies that leave when they are durable (at once if there are none)."""

    __slots__ = ("at_once", "events", "records", "replies")

    def __init__(self, records: Iterable[Record | CommitRecord] = (), replies: Iterable[Reply] = ()) -> None:
        self.records: list[Record | CommitRecord] = list(records)
        self.replies: list[Reply] = list(replies)
        self.at_once: list[Reply] = []  # replies that do not rest on the records
        self.events: list[Any] = []  # for the host's log and metrics

    def reply(self, call: Call, response: Any) -> None:
        self.replies.append(Reply(call, response))

    def reply_at_once(self, call: Call, response: Any) -> None:
        self.at_once.append(Reply(call, response))


class _Parked:
    def __repr__(self) -> str:
        return "PARKED"


PARKED = _Parked()  # not yet: the call was kept and is answered by somebody else's Outcome
