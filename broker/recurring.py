"""Requests that a client sends again and again are decoded once, and recognized by their bytes after that.

The heartbeats of a member, and the OffsetFetch requests of a monitor, have the same bytes each time. The commits of a
member differ in their offsets alone. A connection keeps the last request of each such kind, an API in one version.
While a group of KIP-848 converges, its members say something new each time; only who they are stays the same.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from kohort.coordinator.offsets.recurring_commit import RecurringCommit
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.codec import request_encoder
from kohort.protocol.consumer_group_beat import heartbeat, names_end, read_usual
from kohort.protocol.headers import CLIENT_ID_AT, body_at, is_flexible, pack_framed_kind, read_tail
from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.offset_commit import OffsetCommitRequest
from kohort.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kohort.protocol.stencil import Stencil, places_of_change

if TYPE_CHECKING:
    from kohort.broker.api_table import Route
    from kohort.broker.call import Call
    from kohort.broker.metrics import ApiMetrics
    from kohort.coordinator.group import Pulse
    from kohort.protocol.wire import Message

_int32 = Struct(">i").pack

MAX_BYTES = 2048  # larger requests are not remembered; a commit of 100 partitions is


class Recurring:
    """The last request of one kind. `rest` are its bytes behind the correlation id."""

    __slots__ = ("call", "request", "rest", "route")

    def __init__(self, route: Route, call: Call, rest: bytes, request: Message) -> None:
        self.route = route
        self.call = call  # used again for the next request, which comes after this one was answered
        self.rest = rest
        self.request = request

    def reads(self, rest: bytes) -> bool:  # noqa: ARG002
        """If `rest` differs from the remembered bytes only in what may change, put that into `request`: True."""
        return False


Heartbeat = HeartbeatRequest | ConsumerGroupHeartbeatRequest | ShareGroupHeartbeatRequest


class RecurringHeartbeats(Recurring):
    """Heartbeats. `start` are the bytes before the correlation id; `before`, the id and `after` are the answer."""

    __slots__ = ("after", "before", "metrics", "pulse", "start")

    request: Heartbeat

    def __init__(self, route: Route, call: Call, rest: bytes, request: Heartbeat) -> None:
        self.route = route  # as Recurring, without a call
        self.call = call
        self.rest = rest
        self.request = request
        self.start: bytes
        self.before: bytes
        self.after: bytes
        self.pulse: Pulse
        self.metrics: ApiMetrics | None  # counts them, if somebody wants to know

    def begin(self, pulse: Pulse, response: Message, metrics: ApiMetrics | None) -> None:
        """A heartbeat was answered without an error: as long as the pulse beats, each is answered like that one."""
        self.after = b"\0" * self.route.tagged + (response.encoded or bytes(self.route.encode(response)))
        self.before = _int32(4 + len(self.after))
        self.start = pack_framed_kind(CLIENT_ID_AT + len(self.rest), self.route.api_key, self.route.version)
        self.pulse = pulse
        self.metrics = metrics


class RecurringConsumerHeartbeats(RecurringHeartbeats):
    """Heartbeats of KIP-848. While its group converges, a member names another epoch or other partitions each time."""

    __slots__ = ("_names", "_size")

    request: ConsumerGroupHeartbeatRequest

    def __init__(self, route: Route, call: Call, rest: bytes, request: ConsumerGroupHeartbeatRequest) -> None:
        self.route = route  # as RecurringHeartbeats, without a call
        self.call = call
        self.rest = rest
        self.request = request
        self._size = 0  # of the names below; 0: they were not looked for yet

    def reads(self, rest: bytes) -> bool:
        """Whether `rest` is a usual heartbeat of the same member: then it is the one that is remembered."""
        size = self._size or self._find_names()
        if rest[:size] != self._names or len(rest) > MAX_BYTES:
            return False
        said = read_usual(rest[size:], self.route.version)
        if said is None:
            return False
        self.rest = rest
        self.request = heartbeat(self.request.group_id, self.request.member_id, said)
        return True

    def _find_names(self) -> int:
        """The bytes up to the epoch, which all heartbeats of a member have: client, group and member."""
        rest = self.rest
        size = names_end(rest, body_at(rest, 0))
        if size < 0:
            size = len(rest)  # so no other heartbeat counts as one of the same member
        self._size, self._names = size, rest[:size]
        return size


class RecurringCommits(Recurring):
    """Commits. The second commit to the same partitions makes a stencil, which reads all later ones."""

    __slots__ = ("_last", "_recurring", "_stencil")

    request: OffsetCommitRequest

    def __init__(
        self, route: Route, call: Call, rest: bytes, request: OffsetCommitRequest, before: RecurringCommits | None
    ) -> None:
        super().__init__(route, call, b"", request)
        self._last = rest
        self._stencil: Stencil | None = None
        self._recurring: RecurringCommit  # the request, from the moment that there is a stencil
        if before is not None and len(before._last) == len(rest) and _are_alike(before.request, request):
            stencil = _stencil(rest, request, route.version)
            if stencil is not None and stencil.read(before._last) is not None:
                self._stencil = stencil
                self.request = self._recurring = RecurringCommit(request)

    def reads(self, rest: bytes) -> bool:
        if self._stencil is None:
            return False
        offsets = self._stencil.read(rest)
        if offsets is None:
            return False
        self._recurring.offsets = offsets
        return True


def remember(known: Recurring | None, route: Route, call: Call, rest: bytes, request: Message) -> Recurring:
    """Remember a request that was decoded. `known` is the request of the same kind that was remembered before."""
    # isinstance() of three classes at once takes ten times as long.
    if type(request) is ConsumerGroupHeartbeatRequest:
        return RecurringConsumerHeartbeats(route, call, rest, request)
    if type(request) is HeartbeatRequest:
        return RecurringHeartbeats(route, call, rest, request)
    if isinstance(request, OffsetCommitRequest):
        assert known is None or isinstance(known, RecurringCommits)
        return RecurringCommits(route, call, rest, request, known)
    if isinstance(request, ShareGroupHeartbeatRequest):
        return RecurringHeartbeats(route, call, rest, request)
    return Recurring(route, call, rest, request)


def _are_alike(one: OffsetCommitRequest, other: OffsetCommitRequest) -> bool:
    """Whether both commit the same except for the offsets. Kafka Streams' do not: they have a time in the metadata."""
    return _all_but_offsets(one) == _all_but_offsets(other)


def _all_but_offsets(request: OffsetCommitRequest) -> tuple[object, ...]:
    rows = [
        (topic.name, topic.topic_id, row.partition_index, row.committed_leader_epoch, row.committed_metadata)
        for topic in request.topics
        for row in topic.partitions
    ]
    return request.group_id, request.generation_id_or_member_epoch, request.member_id, rows


def _stencil(rest: bytes, request: OffsetCommitRequest, version: int) -> Stencil | None:
    """A stencil that reads the offsets of a commit.

    The places of the offsets are known from encoding the request ourselves. None: the client encoded it differently.
    """
    rows = [row for topic in request.topics for row in topic.partitions]
    offsets = [row.committed_offset for row in rows]
    encode = request_encoder(ApiKey.OFFSET_COMMIT, version)

    def encoded(values: list[int]) -> bytes:
        for row, value in zip(rows, values, strict=True):
            row.committed_offset = value
        return bytes(encode(request))

    low, high, body = encoded([0] * len(rows)), encoded([-1] * len(rows)), encoded(offsets)
    _, start = read_tail(rest, 0, is_flexible(ApiKey.OFFSET_COMMIT, version))
    if rest[start:] != body:  # there are bytes behind the request, or the client wrote a number longer than necessary
        return None
    return Stencil(rest, [start + place for place in places_of_change(low, high)])
