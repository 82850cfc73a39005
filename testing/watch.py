"""Each request passes here: its time is that of the test's clock, it is written down, and faults are applied to it.

A broker in a test has other routes and other connections than one in production: `WatchedApis` wraps each handler, and
`WatchedConnection` sees each answer. Production's own code has no branch for it. Requests that recur are decoded each
time, so that each of them is seen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import count
from time import monotonic
from types import GeneratorType
from typing import TYPE_CHECKING, Any, NamedTuple

from kohort.broker.api_table import ApiTable, Route
from kohort.broker.call import NO_ANSWER, PARKED, NoAnswer, Parked
from kohort.broker.connection import Connection
from kohort.coordinator.events import News, Reconciled
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.codec import response_decoder
from kohort.protocol.errors_in import errors_in
from kohort.protocol.messages.fetch import FetchRequest
from kohort.protocol.messages.share_fetch import ShareFetchRequest
from kohort.protocol.wire import NO_UUID, Message
from kohort.testing.names import error_name
from kohort.testing.views import Commit, Rebalance, Request

if TYPE_CHECKING:
    from kohort.broker.api_table import Handler
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call
    from kohort.broker.server import Server
    from kohort.broker.steps import Answer, WaitingSteps
    from kohort.testing.clock import TestTime
    from kohort.testing.faults import Fault

OWN_CLIENT = "kohort.testing"  # the client id of the kit itself: its requests are not written down, and never fail
MAX_KEPT = 100_000  # requests and commits
MAX_TOPICS = 100  # of a request; the others are not written down


class Asked(NamedTuple):
    """A request, and how it would be handled."""

    handler: Handler
    broker: Broker
    request: Message
    call: Call


class Seen:
    """A request in progress, or answered."""

    __slots__ = (
        "answered_at", "api", "began", "call", "client_id", "commits", "errors", "fault", "faults", "group",
        "member_id", "number", "peer", "time_ms", "topics", "version",
    )  # fmt: skip

    def __init__(
        self, number: int, call: Call, group: str | None, member_id: str | None, topics: tuple[str, ...]
    ) -> None:
        self.number = number
        self.call: Call | None = call  # None: answered
        self.api = call.route.name
        self.version = call.version
        self.client_id = call.client_id
        self.peer = call.connection.peer
        self.group = group
        self.member_id = member_id
        self.topics = topics
        self.time_ms = call.now
        self.began = monotonic()
        self.answered_at: float | None = None
        self.errors: tuple[str, ...] | None = None
        self.fault: str | None = None
        self.faults: list[Fault] = []  # those that change the answer
        self.commits: list[Commit] = []  # what an OffsetCommit asks for

    def view(self) -> Request:
        host, port = self.peer
        duration_ms = None if self.answered_at is None else (self.answered_at - self.began) * 1000
        return Request(
            self.number, self.api, self.version, self.client_id, host, port, self.group, self.member_id,
            self.topics, self.time_ms, self.errors, duration_ms, self.fault,
        )  # fmt: skip


class Watch:
    """What has happened so far, and what shall go wrong. It belongs to the broker's event loop."""

    def __init__(self, time: TestTime, max_fetch_wait_ms: int) -> None:
        self._time = time
        self._max_fetch_wait_ms = max_fetch_wait_ms
        self._numbers = count(1)
        self.requests: deque[Seen] = deque(maxlen=MAX_KEPT)
        self.commits: deque[Commit] = deque(maxlen=MAX_KEPT)
        self.rebalances: list[Rebalance] = []
        self.faults: list[Fault] = []
        self.on_heard: Callable[[str, WatchedConnection, float], object] = lambda member, connection, at: None  # noqa: ARG005
        self.on_change: Callable[[], object] = lambda: None

    # --- requests

    def handle(
        self, handler: Handler, broker: Broker, request: Message, call: Call
    ) -> Answer | Parked | WaitingSteps[Answer]:
        call.now, call.steady_ms = self._time.now_ms(), self._time.steady_ms()
        connection = call.connection
        assert isinstance(connection, WatchedConnection)
        if isinstance(request, FetchRequest | ShareFetchRequest):
            request.max_wait_ms = min(request.max_wait_ms, self._max_fetch_wait_ms)
        if call.client_id == OWN_CLIENT:
            connection.seen = None
            return handler(broker, request, call)
        seen = Seen(next(self._numbers), call, *_subject(broker, request))
        self.requests.append(seen)
        connection.seen = seen
        if call.route.api_key == ApiKey.OFFSET_COMMIT:
            seen.commits = _commits(broker, request, seen)
        for fault in [fault for fault in self.faults if fault.matches(seen)]:
            answer = fault.meets(seen, Asked(handler, broker, request, call))
            if answer is not None:
                return answer
        self._heard(seen, connection)
        return handler(broker, request, call)

    def _heard(self, seen: Seen, connection: WatchedConnection) -> None:
        if seen.member_id:
            self.on_heard(seen.member_id, connection, monotonic())

    def go_on(self, seen: Seen, asked: Asked) -> None:
        """Handle a request that a fault has parked."""
        handler, broker, request, call = asked
        call.now, call.steady_ms = self._time.now_ms(), self._time.steady_ms()
        assert isinstance(call.connection, WatchedConnection)
        self._heard(seen, call.connection)
        try:
            answer = handler(broker, request, call)
        except Exception as problem:
            call.fail(problem)
            return
        if isinstance(answer, GeneratorType):
            call.reply_in_steps(answer)
        elif not isinstance(answer, Parked):
            call.connection.answer_parked(call, answer)

    def answered(self, seen: Seen, connection: WatchedConnection, response: Message | NoAnswer) -> None:
        seen.answered_at = monotonic()
        seen.call = None
        if response is NO_ANSWER or isinstance(response, NoAnswer):
            seen.errors = ()
        else:
            seen.errors = tuple(dict.fromkeys(map(error_name, errors_in(response))))
            if member_id := getattr(response, "member_id", None):
                seen.member_id = seen.member_id or member_id
                self.on_heard(member_id, connection, seen.began)
            if seen.commits:
                self.commits += _accepted(seen.commits, response)
                seen.commits = []
        self.on_change()

    def rebalanced(self, event: News) -> None:
        clients = ("", "")
        if isinstance(event, Reconciled):
            generation, clients = event.epoch, (event.trigger_client, event.slowest_client)
        else:
            generation = event.generation
        told = event.group, generation, event.cause, event.trigger, event.slowest, event.duration_ms
        self.rebalances.append(Rebalance(*told, event.members, event.moved, self._time.now_ms(), *clients))
        self.on_change()


class WatchedApis(ApiTable):
    def __init__(self, watch: Watch, handlers: dict[ApiKey, str]) -> None:
        super().__init__(handlers)
        self._watch = watch

    def _find(self, api_key: int, version: int) -> Route:
        if api_key in self._handlers:
            # Before the route is made: a route whose handler is imported later changes its handler, and is not watched.
            import_module(self._handlers[ApiKey(api_key)].partition(":")[0])
        route = super()._find(api_key, version)
        handler, watch = route.handler, self._watch

        def watched(broker: Broker, request: Message, call: Call) -> Answer | Parked | WaitingSteps[Answer]:
            return watch.handle(handler, broker, request, call)

        route.handler = watched
        route.recurs = False
        return route


class WatchedConnection(Connection):
    __slots__ = ("_watch", "seen")

    def __init__(self, server: Server, listener_index: int, watch: Watch) -> None:
        super().__init__(server, listener_index)
        self._watch = watch
        self.seen: Seen | None = None  # the request in progress

    def _answer(self, call: Call, route: Route, response: Any) -> None:
        seen = self.seen
        if seen is None or seen.call is not call:
            super()._answer(call, route, response)
            return
        if response is not NO_ANSWER and response.encoded is not None:
            response = response_decoder(route.api_key, route.version)(response.encoded, 0)
        self._watch.answered(seen, self, response)
        for fault in seen.faults:
            response = fault.change(response)
        self.seen = None
        super()._answer(call, route, response)
        for fault in seen.faults:
            fault.after(self)

    def answer_long(self, call: Call, response: Message | NoAnswer) -> None:
        """Encode on the event loop: `_answer` has to see the response."""
        self.answer_parked(call, response)

    def fall_silent(self) -> None:
        """Read nothing more, and answer nothing more, as if the network had gone."""
        self._choked = True
        self._transport.pause_reading()

    def close_after_answer(self) -> None:
        self._write_gathered()
        self.finish()


# --- what a request is about


def _subject(broker: Broker, request: Message) -> tuple[str | None, str | None, tuple[str, ...]]:
    """Its group, the member that sent it, and its topics."""
    group = getattr(request, "group_id", None) or None
    member_id = getattr(request, "member_id", None) or None
    groups = getattr(request, "groups", None)
    if group is None and groups:
        first = next(iter(groups))
        group = first if isinstance(first, str) else getattr(first, "group_id", None)
        member_id = getattr(first, "member_id", None) or None
        topics = getattr(first, "topics", None)
    else:
        topics = getattr(request, "topics", None) or getattr(request, "topic_data", None)
    if group is None and getattr(request, "key_type", None) == 0:  # FindCoordinator
        keys = getattr(request, "coordinator_keys", None) or (getattr(request, "key", None),)
        group = next(iter(keys), None)
    if member_id is None and group is not None and (members := getattr(request, "members", None)):  # LeaveGroup
        member_id = getattr(next(iter(members)), "member_id", None) or None
    names = getattr(request, "subscribed_topic_names", None) or ()
    return group, member_id, (*_topics(broker, topics), *list(names)[:MAX_TOPICS])


def _topics(broker: Broker, topics: Any) -> Iterator[str]:
    for number, topic in enumerate(topics or ()):
        if number == MAX_TOPICS:
            return
        if isinstance(topic, str):
            yield topic
        else:
            yield _topic_name(broker, topic)


def _topic_name(broker: Broker, topic: Any) -> str:
    name = getattr(topic, "name", None) or getattr(topic, "topic", None)
    topic_id = getattr(topic, "topic_id", NO_UUID)
    return name or broker.catalog.name_of(topic_id) or topic_id.hex()


def _commits(broker: Broker, request: Any, seen: Seen) -> list[Commit]:
    return [
        Commit(
            request.group_id, _topic_name(broker, topic), row.partition_index, row.committed_offset,
            row.committed_metadata or "", request.member_id, request.generation_id_or_member_epoch, seen.client_id,
            seen.time_ms,
        )
        for topic in request.topics
        for row in topic.partitions
    ]  # fmt: skip


def _accepted(commits: list[Commit], response: Any) -> list[Commit]:
    """Those that the answer to the OffsetCommit accepts. It has a row for each, in the same order."""
    rows = [row for topic in response.topics for row in topic.partitions]
    return [commit for commit, row in zip(commits, rows, strict=False) if not row.error_code]


__all__ = ["OWN_CLIENT", "PARKED", "Seen", "Watch", "WatchedApis", "WatchedConnection"]
