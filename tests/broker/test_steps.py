"""Long requests: they are handled in steps, and the others are answered in between."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from gc import collect
from pathlib import Path
from queue import SimpleQueue
from struct import pack, unpack
from threading import Thread, current_thread, main_thread
from time import time_ns
from weakref import ref

import pytest
import pytest_asyncio

from kohort.broker.broker import Broker
from kohort.broker.call import Call
from kohort.broker.config import load_config
from kohort.broker.server import Server
from kohort.broker.steps import (
    ELEMENTS_AT_ONCE,
    MAX_READ_ELEMENTS,
    SLICE_NS,
    TURN_NS,
    Done,
    LongRequest,
    LongRequests,
    Pause,
    Steps,
    Turns,
    WaitingSteps,
    all_steps,
    take_steps,
)
from kohort.client.client import Client
from kohort.client.errors import ClientError
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.codec import request_encoder, response_encoder
from kohort.protocol.headers import request_header
from kohort.protocol.messages.api_versions import ApiVersionsRequest
from kohort.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.protocol.record_batch import build_batch
from kohort.protocol.wire import MAX_ELEMENTS_PER_REQUEST, Message
from kohort.storage.disk import RealDisk
from tests.clients.kohort import KohortProcess

Handler = Callable[[Broker, FindCoordinatorRequest, Call], WaitingSteps[FindCoordinatorResponse]]
VERSION = 2  # of FindCoordinator: its answer has an error code at the top


def a_server(folder: Path) -> Server:
    settings = [f"log.dirs={folder}", "listeners=PLAINTEXT://127.0.0.1:0"]
    return Server(Broker(load_config(overrides=settings), RealDisk()))


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    made = a_server(tmp_path)
    await made.start()
    yield made
    await made.stop()


@pytest_asyncio.fixture
async def connect(server: Server) -> AsyncIterator[Connect]:
    peers: list[Peer] = []

    async def open_connection() -> Peer:
        peers.append(Peer(*await asyncio.open_connection(*server.addresses[0])))
        return peers[-1]

    yield open_connection
    for peer in peers:
        await peer.hang_up()


class Peer:
    """A client whose requests and answers are sent and awaited one by one."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, key: ApiKey, version: int, correlation_id: int, request: Message) -> None:
        encoded = request_encoder(key, version)(request)
        body = request_header(key, version, correlation_id, "peer")
        body += b"".join(encoded) if isinstance(encoded, list) else encoded
        self._writer.write(pack(">i", len(body)) + body)

    def find_coordinator(self, correlation_id: int = 1) -> None:
        self.send(ApiKey.FIND_COORDINATOR, VERSION, correlation_id, FindCoordinatorRequest("g"))

    async def answer(self) -> tuple[int, bytes]:
        """The correlation id, and the rest."""
        (length,) = unpack(">i", await self._reader.readexactly(4))
        frame = await self._reader.readexactly(length)
        return unpack(">i", frame[:4])[0], frame[4:]

    async def api_versions(self) -> None:
        self.send(ApiKey.API_VERSIONS, 0, 77, ApiVersionsRequest())
        assert (await self.answer())[0] == 77

    async def hang_up(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


Connect = Callable[[], Awaitable[Peer]]


def serve(server: Server, handler: Handler) -> None:
    """Let the server answer FindCoordinator with this handler."""
    server.broker.apis.route(ApiKey.FIND_COORDINATOR, VERSION).handler = handler  # type: ignore[assignment]


class Endless:
    """A handler that takes steps until it is told to stop."""

    def __init__(self) -> None:
        self.may_end = False
        self.was_closed = asyncio.Event()

    def handle(self, broker: Broker, request: FindCoordinatorRequest, call: Call) -> Steps[FindCoordinatorResponse]:
        try:
            while not self.may_end:
                yield
        except GeneratorExit:
            self.was_closed.set()
            raise
        return FindCoordinatorResponse(0, 0, None, 5, "here", 9)


ANSWER = response_encoder(ApiKey.FIND_COORDINATOR, VERSION)(FindCoordinatorResponse(0, 0, None, 5, "here", 9))


@pytest.mark.asyncio
async def test_others_are_answered_while_a_long_request_goes_on(server: Server, connect: Connect) -> None:
    endless = Endless()
    serve(server, endless.handle)
    peer, bystander = await connect(), await connect()
    peer.find_coordinator()
    for _ in range(5):
        await bystander.api_versions()
    endless.may_end = True
    assert await peer.answer() == (1, ANSWER)


@pytest.mark.asyncio
async def test_two_long_requests_both_go_on(server: Server, connect: Connect) -> None:
    first, second = Endless(), Endless()
    handlers = iter((first.handle, second.handle))
    serve(server, lambda *arguments: next(handlers)(*arguments))
    one, two = await connect(), await connect()
    one.find_coordinator(1)
    await one_more_turn(connect)
    two.find_coordinator(2)
    await one_more_turn(connect)
    second.may_end = True
    assert await two.answer() == (2, ANSWER)
    first.may_end = True
    assert await one.answer() == (1, ANSWER)


async def one_more_turn(connect: Connect) -> None:
    """Let the server read and handle what was sent so far."""
    bystander = await connect()
    await bystander.api_versions()


@pytest.mark.asyncio
async def test_requests_behind_a_long_one_wait_for_it(server: Server, connect: Connect) -> None:
    endless = Endless()
    serve(server, endless.handle)
    peer = await connect()
    peer.find_coordinator(1)
    peer.send(ApiKey.API_VERSIONS, 0, 2, ApiVersionsRequest())
    await one_more_turn(connect)
    endless.may_end = True
    assert [(await peer.answer())[0] for _ in range(2)] == [1, 2]


@pytest.mark.asyncio
async def test_a_long_request_ends_when_its_client_hangs_up(server: Server, connect: Connect) -> None:
    endless = Endless()
    serve(server, endless.handle)
    peer = await connect()
    peer.find_coordinator()
    await one_more_turn(connect)
    await peer.hang_up()
    await endless.was_closed.wait()


@pytest.mark.asyncio
async def test_a_stop_ends_long_requests_without_a_word(
    server: Server, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    endless = Endless()
    serve(server, endless.handle)
    (await connect()).find_coordinator()
    await one_more_turn(connect)
    server.long_requests.stop()
    await one_more_turn(connect)
    assert endless.was_closed.is_set()
    assert not caplog.records


@pytest.mark.asyncio
async def test_a_change_that_is_being_saved_is_in_force_before_the_logs_are_closed(tmp_path: Path) -> None:
    server = a_server(tmp_path)
    await server.start()
    catalog = server.broker.catalog
    topic = catalog.create("t", 1, {})
    topic.partitions[0].log.append(build_batch([(None, b"v")], timestamp=0), now=0)
    assert (tmp_path / "t-0").exists()
    server.broker._topic_saver._post = lambda done: None  # the event loop has no turn for it any more
    next(catalog.making(catalog.deletion_of([topic])))
    await server.stop()
    assert catalog.get("t") is None
    assert not [each.name for each in tmp_path.iterdir() if each.name.startswith("t-")]


@pytest.mark.asyncio
async def test_a_late_step_that_fails_is_an_error_for_the_client_alone(
    server: Server, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    def handle(broker: Broker, request: FindCoordinatorRequest, call: Call) -> Steps[FindCoordinatorResponse]:
        while not may_fail:
            yield
        raise RuntimeError("a step that fails")

    may_fail: list[bool] = []
    serve(server, handle)
    peer = await connect()
    peer.find_coordinator()
    await one_more_turn(connect)
    may_fail.append(True)
    correlation_id, body = await peer.answer()
    assert (correlation_id, unpack(">h", body[4:6])[0]) == (1, -1)  # behind the throttle time: UNKNOWN_SERVER_ERROR
    assert "a step that fails" in caplog.text
    await peer.api_versions()


def watch_encoding(server: Server) -> list[Thread]:
    """The threads that encode answers of FindCoordinator from here on."""
    route = server.broker.apis.route(ApiKey.FIND_COORDINATOR, VERSION)
    encode = route.encode
    threads = []

    def watched_encode(response: Message) -> bytes:
        threads.append(current_thread())
        body: bytes = encode(response)
        return body

    route.encode = watched_encode
    return threads


@pytest.mark.asyncio
async def test_the_answer_to_a_long_request_is_encoded_by_a_thread(server: Server, connect: Connect) -> None:
    endless = Endless()
    serve(server, endless.handle)
    threads = watch_encoding(server)
    peer = await connect()
    peer.find_coordinator()
    await one_more_turn(connect)
    endless.may_end = True
    assert await peer.answer() == (1, ANSWER)
    assert threads
    assert main_thread() not in threads


@pytest.mark.asyncio
async def test_a_request_that_only_waited_is_answered_without_the_thread(server: Server, connect: Connect) -> None:
    waits = Pause()

    def handle(broker: Broker, request: FindCoordinatorRequest, call: Call) -> WaitingSteps[FindCoordinatorResponse]:
        yield waits
        yield waits  # which is over
        return FindCoordinatorResponse(0, 0, None, 5, "here", 9)

    serve(server, handle)
    threads = watch_encoding(server)
    peer = await connect()
    peer.find_coordinator()
    peer.send(ApiKey.API_VERSIONS, 0, 2, ApiVersionsRequest())
    await one_more_turn(connect)
    waits.end()
    assert await peer.answer() == (1, ANSWER)
    assert (await peer.answer())[0] == 2
    assert threads == [main_thread()]
    assert server.long_requests.elements == 0


@pytest.mark.asyncio
async def test_one_that_takes_long_after_it_has_waited_is_a_long_request(server: Server, connect: Connect) -> None:
    waits, endless = Pause(), Endless()

    def handle(broker: Broker, request: FindCoordinatorRequest, call: Call) -> WaitingSteps[FindCoordinatorResponse]:
        yield waits
        return (yield from endless.handle(broker, request, call))

    serve(server, handle)
    threads = watch_encoding(server)
    peer = await connect()
    peer.find_coordinator()
    await one_more_turn(connect)
    waits.end()
    await one_more_turn(connect)
    endless.may_end = True
    assert await peer.answer() == (1, ANSWER)
    assert threads
    assert main_thread() not in threads


@pytest.mark.asyncio
async def test_a_step_that_holds_the_event_loop_is_told_with_api_and_client(
    server: Server, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    peer = await connect()
    await peer.api_versions()
    call = Call(next(iter(server._connections)), server.broker.apis.route(ApiKey.FETCH, 12), "c")
    with caplog.at_level(logging.WARNING):
        server.measure_step(call, 100_000_000)
        assert not caplog.records
        server.measure_step(call, 250_000_000)
    assert "a step of Fetch v12 of 127.0.0.1:" in caplog.text
    assert "(client id 'peer') held the event loop for 250 ms" in caplog.text


@pytest.mark.asyncio
async def test_a_long_produce_is_finished_without_its_client(server: Server, connect: Connect) -> None:
    """A producer with acks=0 may close its connection as soon as it has sent everything."""
    topic = server.broker.catalog.create("t", 60, {})
    long = build_batch([(b"key", bytes([number % 256]) * 2000) for number in range(400)], timestamp=time_ns() // 10**6)
    data = [PartitionProduceData(index, long) for index in range(len(topic.partitions))]
    peer = await connect()
    peer.send(ApiKey.PRODUCE, 9, 1, ProduceRequest(None, 0, 1000, [TopicProduceData("t", partition_data=data)]))
    await peer.hang_up()
    while topic.partitions[-1].log.log_end_offset < 400:
        await one_more_turn(connect)
    assert {partition.log.log_end_offset for partition in topic.partitions} == {400}


# --- requests with many elements, at a real process


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KohortProcess]:
    with KohortProcess(tmp_path_factory.mktemp("broker"), kohort_http_port="0") as process:
        yield process


def names(count: int) -> DeleteGroupsRequest:
    return DeleteGroupsRequest([f"group-{number}" for number in range(count)])


@pytest.mark.parametrize("count", [ELEMENTS_AT_ONCE, ELEMENTS_AT_ONCE + 1, 20_000])
def test_a_request_with_many_elements_is_answered_in_full(broker: KohortProcess, count: int) -> None:
    with Client(broker.address) as client:
        answer: DeleteGroupsResponse = client.send(ApiKey.DELETE_GROUPS, names(count), 2)
        expected = [DeletableGroupResult(f"group-{number}", 69) for number in range(count)]
        assert sorted(answer.results, key=_number) == expected


def _number(result: DeletableGroupResult) -> int:
    return int(result.group_id.removeprefix("group-"))


def test_a_request_with_too_many_elements_closes_the_connection_with_a_word(broker: KohortProcess) -> None:
    with Client(broker.address) as client:
        with pytest.raises(ClientError, match="closed the connection"):
            client.send(ApiKey.DELETE_GROUPS, names(MAX_ELEMENTS_PER_REQUEST + 1), 2)
        assert "more than 100000 elements and tagged fields in one request" in broker.log_tail()


def test_many_requests_that_come_together_are_all_answered_in_order(broker: KohortProcess) -> None:
    """More than are handled before others get their turn."""
    count = 5_000
    with Client(broker.address) as client:
        body = request_encoder(ApiKey.API_VERSIONS, 0)(ApiVersionsRequest())
        frames = [request_header(ApiKey.API_VERSIONS, 0, number, "c") + body for number in range(count)]
        client.send_raw(b"".join(pack(">i", len(frame)) + frame for frame in frames))
        assert [unpack(">i", client.receive_frame()[:4])[0] for _ in range(count)] == list(range(count))


# --- without a server


def counting(upto: int) -> Steps[int]:
    for _ in range(upto):
        yield
    return upto


def test_steps_are_taken_until_the_time_is_over() -> None:
    assert take_steps(counting(10), for_ns=0) is None
    done = take_steps(counting(10), for_ns=10**12)
    assert isinstance(done, Done)
    assert done.response == 10
    assert all_steps(counting(100_000)) == 100_000


class FakeSender:
    def __init__(self) -> None:
        self.is_closed = False
        self.elements = 0


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> tuple[LongRequests, list[int]]:
    """Long requests, and which of them were given to the thread that reads them."""
    made = LongRequests(lambda work: None, lambda work: None, lambda call, took: None)
    begun: list[int] = []
    monkeypatch.setattr(made, "in_thread", lambda decode, finished, failed: begun.append(decode()))
    return made, begun


def read_all(long_requests: LongRequests, senders: list[FakeSender]) -> None:
    for number, sender in enumerate(senders):
        long_requests.read(sender, 100_000, partial(int, number), lambda request: None, lambda problem: None)


def test_long_requests_are_read_while_there_is_room_for_their_elements(reading: tuple[LongRequests, list[int]]) -> None:
    long_requests, begun = reading
    senders = [FakeSender() for _ in range(7)]
    read_all(long_requests, senders)
    assert long_requests.elements == MAX_READ_ELEMENTS == 500_000
    assert begun == [0, 1, 2, 3, 4]
    long_requests.leave(senders[2])
    assert begun == [0, 1, 2, 3, 4, 5]
    for sender in senders:
        long_requests.leave(sender)
    assert begun == [0, 1, 2, 3, 4, 5, 6]
    assert long_requests.elements == 0


def test_the_request_of_a_client_that_hung_up_is_not_read(reading: tuple[LongRequests, list[int]]) -> None:
    long_requests, begun = reading
    senders = [FakeSender() for _ in range(7)]
    read_all(long_requests, senders)
    long_requests.leave(senders[5])
    long_requests.leave(senders[0])
    assert begun == [0, 1, 2, 3, 4, 6]


def test_while_memory_is_short_a_long_request_is_finished_before_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0]
    monkeypatch.setattr("kohort.broker.steps.monotonic_ns", lambda: now[0])
    monkeypatch.setattr("kohort.broker.steps.MAX_ELEMENTS", 15_000)
    called: list[Callable[[], object]] = []
    long_requests = LongRequests(called.append, called.append, lambda call, took: None)
    taken: list[str] = []

    def slices(name: str) -> Steps[str]:
        for _ in range(3):
            taken.append(name)
            now[0] += SLICE_NS
            yield
        return name

    for name in "abcd":
        sender = FakeSender()
        done: Callable[[object], None] = partial(lambda sender, _: long_requests.leave(sender), sender)
        long_requests.add(LongRequest(sender, Here(), slices(name), done, done))  # type: ignore[arg-type]
    while called:
        called.pop()()
    assert "".join(taken) == "abc" + "cc" + "ddd" + "aa" + "bb"


@pytest.mark.asyncio
async def test_nothing_is_counted_when_all_long_requests_are_answered(server: Server, connect: Connect) -> None:
    peers = [await connect() for _ in range(8)]
    for peer in peers:
        peer.send(ApiKey.DELETE_GROUPS, 2, 1, names(20_000))
    await peers[7].hang_up()
    for peer in peers[:7]:
        assert (await peer.answer())[0] == 1
    while server.long_requests.elements:  # the server may not know yet that the last client hung up
        await one_more_turn(connect)


def test_a_request_whose_failure_fails_does_not_stop_the_others() -> None:
    called: list[Callable[[], object]] = []
    long_requests = LongRequests(called.append, called.append, lambda call, took: None)
    answers: list[object] = []

    def fails() -> Steps[FindCoordinatorResponse]:
        yield
        raise RuntimeError("a step")

    def answer_failure(problem: Exception) -> None:
        raise RuntimeError("the answer") from problem

    call = Here()
    sender = FakeSender()
    long_requests.add(LongRequest(sender, call, fails(), answers.append, answer_failure))  # type: ignore[arg-type]
    long_requests.add(LongRequest(sender, call, counting(3), answers.append, answers.append))  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="the answer"):
        called.pop()()
    called.pop()()
    assert answers == [3]


def test_all_connections_share_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not fit into it is done in the next one, in the order in which it came."""
    now = [0]
    monkeypatch.setattr("kohort.broker.steps.monotonic_ns", lambda: now[0])
    called: list[Callable[[], object]] = []
    turns = Turns(called.append)
    done: list[str] = []

    def work(name: str) -> Callable[[], None]:
        def go_on() -> None:
            done.append(name)
            now[0] += TURN_NS // 2

        return go_on

    assert turns.ends_ns() == TURN_NS
    now[0] = TURN_NS
    assert turns.ends_ns() == TURN_NS  # the same for whoever comes next
    for name in "abcde":
        turns.wait(work(name))
    told = []
    while called:
        assert len(called) == 1
        called.pop()()
        told.append("".join(done))
    assert told == ["ab", "abcd", "abcde", "abcde"]


@pytest.mark.asyncio
async def test_many_connections_that_send_many_requests_do_not_take_the_whole_turn(
    server: Server, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them are answered in order, and a bystander in between."""
    monkeypatch.setattr("kohort.broker.steps.TURN_NS", 200_000)
    peers = [await connect() for _ in range(20)]
    for peer in peers:
        for number in range(300):
            peer.send(ApiKey.API_VERSIONS, 0, number, ApiVersionsRequest())
    await (await connect()).api_versions()
    for peer in peers:
        assert [(await peer.answer())[0] for _ in range(300)] == list(range(300))


class Here:
    """As much of a call as a turn looks at."""

    is_gone = is_long = False


def test_the_thread_drops_its_work_when_it_is_done() -> None:
    """A request of many megabytes must not stay in memory until the next one comes."""
    posted: SimpleQueue[Callable[[], object]] = SimpleQueue()
    long_requests = LongRequests(posted.put, posted.put, lambda call, took: None)

    class Large:
        pass

    large = Large()
    watched = ref(large)
    results: list[int] = []

    def use(large: Large = large) -> int:
        return len(vars(large))

    long_requests.in_thread(use, results.append, lambda problem: None)
    del large, use
    posted.get(timeout=30)()
    long_requests.stop()
    collect()
    assert results == [0]
    assert watched() is None
