"""A Broker without sockets: requests go in as bytes, answers come out, and time passes when the test says so."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from types import GeneratorType
from typing import Any

from kohort.broker.broker import Broker
from kohort.broker.call import NO_ANSWER, PARKED, Call
from kohort.broker.clock import Clock
from kohort.broker.config import load_config
from kohort.broker.flusher import Flusher
from kohort.broker.sending import read_parts
from kohort.broker.steps import Pause, Steps, WaitingSteps, all_steps
from kohort.broker.topics.catalog import Topic
from kohort.protocol.codec import request_encoder, response_decoder
from kohort.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from kohort.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from kohort.protocol.record_batch import Record, build_batch, scan_records
from kohort.protocol.wire import NO_UUID
from kohort.storage.disk import Disk, RealDisk

START_MS = 1_800_000_000_000
POST_TIMEOUT_S = 30


class Timer:
    def __init__(self, work: Callable[[], object]) -> None:
        self.work: Callable[[], object] | None = work

    def cancel(self) -> None:
        self.work = None


class FakeConnection:
    """A client's connection, as far as a call needs one."""

    peer = ("127.0.0.1", 50_000)
    client_host = "/127.0.0.1"
    listener_index = 0
    last_active = 0.0

    def __init__(self) -> None:
        self.is_closed = False
        self.closed_because: str | None = None
        self.answers: list[Any] = []
        self.kept: dict[str, Callable[[], object]] = {}
        self.problems: list[Exception] = []

    def answer_parked(self, call: Call, response: Any) -> None:
        self.answers.append(through_the_wire(call.route, response))

    answer_long = answer_parked

    def answer_in_steps(self, call: Call, steps: Steps[Any]) -> None:
        self.answer_parked(call, all_steps(steps))

    def fail_parked(self, call: Call, problem: Exception) -> None:
        self.problems.append(problem)

    def close(self, reason: str) -> None:
        self.is_closed, self.closed_because = True, reason
        for drop in list(self.kept.values()):
            drop()


def through_the_wire(route: Any, response: Any) -> Any:
    body = response.encoded or route.encode(response)
    data = read_parts(body) if isinstance(body, list) else body
    return response_decoder(route.api_key, route.version)(data, 0)


class BrokerBox:
    def __init__(self, folder: Path | str, disk: Disk | None = None, **overrides: str) -> None:
        settings = [f"{name.replace('_', '.')}={value}" for name, value in overrides.items()]
        self.disk = disk or RealDisk()
        self.now = START_MS
        self._is_over = False
        self.clock = Clock(lambda: self.now * 1_000_000, lambda: (self.now - START_MS + 5_000) * 1_000_000)
        self._timers: list[tuple[int, int, Timer]] = []
        self._numbers = count()
        self._posted: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self.broker = Broker(load_config(overrides=[f"log.dirs={folder}", *settings]), self.disk, self.clock)
        self.broker.call_later = self.broker.call_later_by_clock = self._call_later
        self.broker.call_soon = lambda work: self._call_later(0, work)
        self.broker.open(self.now)
        self.broker.flusher = Flusher(self.disk, self._posted.put, clock_ms=lambda: self.now)

    def close(self) -> None:
        """A clean stop, unless the box was closed or has crashed before."""
        if self._is_over:
            return
        self._is_over = True
        self.broker.flusher.stop()
        self.broker.catalog.close()
        self.broker.logs.close(self.now)

    def crash(self) -> None:
        self._is_over = True
        self.broker.catalog.close()
        self.broker.logs.abandon()

    # --- time

    def _call_later(self, seconds: float, work: Callable[[], object]) -> Timer:
        timer = Timer(work)
        heapq.heappush(self._timers, (self.now + round(seconds * 1000), next(self._numbers), timer))
        return timer

    def pass_time(self, ms: int = 0) -> None:
        """Let time go by, and what is due happen."""
        end = self.now + ms
        while self._timers and self._timers[0][0] <= end:
            self.now, _, timer = heapq.heappop(self._timers)
            if timer.work is not None:
                timer.work()
        self.now = end

    def run_posted(self) -> None:
        """Wait for another thread to post something, and run it."""
        self._posted.get(timeout=POST_TIMEOUT_S)()

    def take_all(self, steps: WaitingSteps[Any]) -> Any:
        """Take all steps of a request. Time goes by while it waits for something."""
        while True:
            try:
                waits_for = next(steps)
            except StopIteration as end:
                return end.value
            while isinstance(waits_for, Pause) and not waits_for.is_over:
                if self._timers and self._posted.empty():
                    self.pass_time(max(self._timers[0][0] - self.now, 0))
                else:
                    self.run_posted()

    # --- requests

    def topic(self, name: str = "t", partitions: int = 1, **configs: str) -> Topic:
        return self.broker.catalog.create(
            name, partitions, {key.replace("_", "."): value for key, value in configs.items()}
        )

    def send(
        self, api_key: int, request: Any, version: int, *, client_id: str = "test", client: FakeConnection | None = None
    ) -> Any:
        """The answer; PARKED or NO_ANSWER if there is none (yet). A parked one ends up in `client.answers`."""
        route = self.broker.apis.route(api_key, version)
        body = request_encoder(api_key, version)(request)
        decoded = route.decode(b"".join(body) if isinstance(body, list) else body, 0)
        call = Call(client or FakeConnection(), route, client_id)  # type: ignore[arg-type]
        call.correlation_id, call.now, call.steady_ms = 1, self.clock.now_ms(), self.clock.steady_ms()
        response = route.handler(self.broker, decoded, call)
        if isinstance(response, GeneratorType):
            response = self.take_all(response)
        return response if response in (PARKED, NO_ANSWER) else through_the_wire(route, response)

    def produce(
        self, records: bytes | None, topic: str = "t", partition: int = 0, *, version: int = 12, acks: int = -1,
        topic_id: bytes = NO_UUID, client_id: str = "test", client: FakeConnection | None = None,
        transactional_id: str | None = None,
    ) -> Any:  # fmt: skip
        data = [TopicProduceData(topic, topic_id, [PartitionProduceData(partition, records)])]
        request = ProduceRequest(transactional_id, acks, 1000, data)
        response = self.send(0, request, version, client_id=client_id, client=client)
        if response in (PARKED, NO_ANSWER):
            return response
        answer: PartitionProduceResponse = response.responses[0].partition_responses[0]
        return answer

    def append(self, *values: bytes, topic: str = "t", partition: int = 0) -> int:
        """Produce records without keys at the present time; the offset of the first."""
        batch = build_batch([(None, value) for value in values], timestamp=self.now)
        answer = self.produce(batch, topic, partition)
        assert answer.error_code == 0, answer
        offset: int = answer.base_offset
        return offset

    def fetch(
        self, offset: int, topic: str = "t", partition: int = 0, *, max_bytes: int = 1 << 20, version: int = 12,
        **fields: Any,
    ) -> PartitionData:  # fmt: skip
        """What one partition answers to a fetch without a session that does not wait."""
        wanted = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=max_bytes)
        request = FetchRequest(session_epoch=-1, topics=[FetchTopic(topic, partitions=[wanted])], **fields)
        answer: PartitionData = self.send(1, request, version).responses[0].partitions[0]
        return answer

    def read_all(self, topic: str = "t", partition: int = 0) -> list[Record]:
        log = self.broker.catalog.get(topic).partitions[partition].log  # type: ignore[union-attr]
        records: list[Record] = []
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            data = bytes(self.fetch(offset, topic, partition).records or b"")
            records += [Record(*each[1:]) for each in scan_records(data) if each[1] >= offset]
            offset = records[-1].offset + 1
        return records
