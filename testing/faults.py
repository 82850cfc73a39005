"""What can go wrong on purpose. A fault is in force until its `with` block ends, `times` are over, or `stop` is called.

    with kafka.fail("OffsetCommit", error="REBALANCE_IN_PROGRESS", times=1, group="billing"):
        ...
    fault = kafka.delay("Fetch", seconds=2, client_id="billing-1")     # in force until fault.stop()

A fault concerns the requests that match all that it was given: `api`, `group`, `client_id`, `topic`. A request with
several topics matches if one of them does, and is treated as a whole. `fault.hits` counts the requests that it met.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

from kohort.broker.call import NO_ANSWER, NoAnswer
from kohort.coordinator.outcome import PARKED, Parked
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.testing.errors import error_answer, with_error
from kohort.testing.names import api_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kohort.broker.connection import Connection
    from kohort.protocol.wire import Message
    from kohort.testing.host import Host
    from kohort.testing.watch import Asked, Seen, WatchedConnection

GROUP_APIS = (
    "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch", "OffsetDelete",
    "DescribeGroups", "DeleteGroups", "ConsumerGroupHeartbeat", "ConsumerGroupDescribe", "ShareGroupHeartbeat",
    "ShareGroupDescribe",
)  # fmt: skip


class Filter:
    """Which requests a fault concerns, and how many of them. None: all."""

    def __init__(
        self,
        api: str | Iterable[str] | None,
        group: str | None,
        client_id: str | None,
        topic: str | None,
        times: int | None,
    ) -> None:
        if times is not None and times < 1:
            raise ValueError(f"times={times}: a fault that never happens")
        names = [api] if isinstance(api, str) else api
        self.apis = None if names is None else frozenset(_checked(each) for each in names)
        self.group = group
        self.client_id = client_id
        self.topic = topic
        self.times = times

    def matches(self, seen: Seen) -> bool:
        return (
            (self.apis is None or seen.api in self.apis)
            and (self.group is None or seen.group == self.group)
            and (self.client_id is None or seen.client_id == self.client_id)
            and (self.topic is None or self.topic in seen.topics)
        )

    def __str__(self) -> str:
        told = {
            "api": None if self.apis is None else ", ".join(sorted(self.apis)), "group": self.group,
            "client_id": self.client_id, "topic": self.topic, "times": self.times,
        }  # fmt: skip
        return ", ".join(f"{name}={value}" for name, value in told.items() if value is not None) or "all requests"


def _checked(name: str) -> str:
    api_key(name)
    return name


class Fault:
    """Something that goes wrong. Each kind overrides what it does: instead of the handler, or with its answer."""

    what = ""

    def __init__(self, host: Host, wanted: Filter) -> None:
        self._host = host
        self._wanted = wanted
        self.hits = 0

    # --- what a test does

    def begin(self) -> Self:
        """Put the fault into force. `Broker` has done that already."""
        self._host.run(lambda: self._host.watch.faults.append(self))
        return self

    def stop(self) -> None:
        """End the fault. Requests that it has met stay as they are."""
        if self._host.is_running:
            self._host.run(self._end)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def wait_until_hit(self, times: int = 1, timeout: float = 10.0) -> None:
        """Wait until the fault has met so many requests."""
        if not self._host.wait_for(lambda: self.hits >= times, timeout):
            raise TimeoutError(f"{self!r} met {self.hits} requests in {timeout:g} s, not {times}")

    def __repr__(self) -> str:
        return f"<{self.what}: {self._wanted}>"

    # --- on the broker's loop

    def _end(self) -> None:
        if self in self._host.watch.faults:
            self._host.watch.faults.remove(self)

    def matches(self, seen: Seen) -> bool:
        return self._wanted.matches(seen)

    def meets(self, seen: Seen, asked: Asked) -> Message | NoAnswer | Parked | None:
        """Count the request, and answer it instead of its handler. None: the handler shall answer."""
        self.hits += 1
        if self.hits == self._wanted.times:
            self._end()
        seen.fault = self.what
        self._host.watch.on_change()
        return self.instead(seen, asked)

    def instead(self, seen: Seen, asked: Asked) -> Message | NoAnswer | Parked | None:
        """What happens before the handler. Without an answer the handler is called, and then `change`."""
        seen.faults.append(self)
        return None

    def change(self, response: Message | NoAnswer) -> Message | NoAnswer:
        """The answer that is sent instead of the handler's."""
        return response

    def after(self, connection: WatchedConnection) -> None:
        """The answer was sent."""


class Fail(Fault):
    """The answer says an error. The request is not handled."""

    def __init__(self, host: Host, wanted: Filter, error: ErrorCode) -> None:
        super().__init__(host, wanted)
        self._error = error
        self.what = f"answered {error.name}"

    def instead(self, seen: Seen, asked: Asked) -> Message | NoAnswer | Parked | None:
        if asked.call.route.api_key == ApiKey.METADATA:  # its answer has the brokers, without which clients are lost
            seen.faults.append(self)
            return None
        return error_answer(asked.call.route, asked.request, self._error)

    def change(self, response: Message | NoAnswer) -> Message | NoAnswer:
        return response if isinstance(response, NoAnswer) else with_error(response, self._error)


class Delay(Fault):
    """The request waits, in real time, before it is handled; so do those behind it on its connection."""

    def __init__(self, host: Host, wanted: Filter, seconds: float) -> None:
        super().__init__(host, wanted)
        self._seconds = seconds
        self.what = f"delayed by {seconds:g} s"

    def instead(self, seen: Seen, asked: Asked) -> Message | NoAnswer | Parked | None:
        asked.broker.call_later(self._seconds, lambda: self._host.watch.go_on(seen, asked))
        return PARKED


class Drop(Fault):
    """The request is not handled and not answered, nor is anything behind it on its connection."""

    what = "dropped"

    def __init__(self, host: Host, wanted: Filter) -> None:
        super().__init__(host, wanted)
        self._silent: list[Connection] = []

    def instead(self, seen: Seen, asked: Asked) -> Message | NoAnswer | Parked | None:
        self._silent.append(asked.call.connection)
        return PARKED

    def stop(self) -> None:
        """End the fault. Connections that it has silenced are closed, so that their clients come back at once."""
        super().stop()
        if self._host.is_running:
            self._host.run(self._cut_silent)

    def _cut_silent(self) -> None:
        for connection in self._silent:
            if not connection.is_closed:
                connection.cut()


class LoseAnswer(Fault):
    """The request is handled, and its answer is lost. The connection closes, or falls silent."""

    def __init__(self, host: Host, wanted: Filter, *, close: bool) -> None:
        super().__init__(host, wanted)
        self._closes = close
        self.what = "handled, and the answer lost"

    def change(self, response: Message | NoAnswer) -> Message | NoAnswer:
        return NO_ANSWER

    def after(self, connection: WatchedConnection) -> None:
        if self._closes:
            connection.cut()
        else:
            connection.fall_silent()


class CloseBefore(Fault):
    """The connection is closed, and the request is not handled."""

    what = "connection closed before it was handled"

    def instead(self, seen: Seen, asked: Asked) -> Message | NoAnswer | Parked | None:
        asked.call.connection.cut()
        return PARKED


class CloseAfter(Fault):
    """The request is handled and answered, and then the connection is closed."""

    what = "connection closed after the answer"

    def after(self, connection: WatchedConnection) -> None:
        connection.close_after_answer()


class Throttle(Fault):
    """The answer asks the client to wait before its next request."""

    def __init__(self, host: Host, wanted: Filter, milliseconds: int) -> None:
        super().__init__(host, wanted)
        self._milliseconds = milliseconds
        self.what = f"throttled by {milliseconds} ms"

    def change(self, response: Message | NoAnswer) -> Message | NoAnswer:
        if not isinstance(response, NoAnswer) and "throttle_time_ms" in response.__slots__:
            setattr(response, "throttle_time_ms", self._milliseconds)  # noqa: B010 - only some messages have it
        return response
