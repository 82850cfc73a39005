"""The coordinator with a host made for tests: time is a number, the disk a list of batches.

    host = Host()                      a runtime with 50 empty shards, at time 0 of its own
    call = host.send(request)          through the codec of the version, as a client would; call.answer when it came
    host.advance(3_000)                deadlines come due one by one, each at its own time
    host.disk.is_slow = True           nothing is durable until host.disk_catches_up(), or host.disk_fails()
    host.crash()                       memory is gone; a new runtime loads what the disk holds

Requests and answers go through the real codecs, so that a field that a version does not have is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random
from types import GeneratorType
from typing import Any, cast

from kohort.broker import groups
from kohort.broker.api_table import RECURRING, ApiTable
from kohort.broker.clock import NS_PER_MS, Clock
from kohort.broker.recurring import MAX_BYTES, Recurring, remember
from kohort.broker.steps import Pause
from kohort.broker.transactions.txn_offset_commit import txn_offset_commit
from kohort.coordinator.admin.delete_groups import DELETE_GROUPS
from kohort.coordinator.api import (
    Api,
    Asked,
    EveryShard,
    GroupApi,
    Request,
    Response,
    Row,
    SeveralGroups,
    Steps,
)
from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.config import GroupConfig
from kohort.coordinator.group import Pulse
from kohort.coordinator.group_runtime import GroupRuntime
from kohort.coordinator.outcome import PARKED, Parked
from kohort.coordinator.shard import Shard, Status, Write
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.api_keys import APIS, ApiKey
from kohort.protocol.codec import request_decoder, request_encoder, response_decoder, response_encoder
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.log_records import decode_key, decode_value
from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.protocol.messages.delete_groups import DeleteGroupsRequest
from kohort.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.list_groups import ListedGroup, ListGroupsRequest
from kohort.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kohort.protocol.record_batch import Record, parse_header, read_records, verify_crc

START = 1_700_000_000_000


def delete_groups(broker: Any, request: DeleteGroupsRequest, call: Any) -> Any:
    """As broker/share/delete_groups.py, for groups without states elsewhere."""
    return broker.coordinator.submit_several(DELETE_GROUPS, request, call)


SERVED = {
    ApiKey.JOIN_GROUP: groups.join_group,
    ApiKey.SYNC_GROUP: groups.sync_group,
    ApiKey.HEARTBEAT: groups.heartbeat,
    ApiKey.LEAVE_GROUP: groups.leave_group,
    ApiKey.OFFSET_COMMIT: groups.offset_commit,
    ApiKey.OFFSET_FETCH: groups.offset_fetch,
    ApiKey.OFFSET_DELETE: groups.offset_delete,
    ApiKey.DESCRIBE_GROUPS: groups.describe_groups,
    ApiKey.LIST_GROUPS: groups.list_groups,
    ApiKey.DELETE_GROUPS: delete_groups,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: groups.consumer_group_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: groups.consumer_group_describe,
    ApiKey.SHARE_GROUP_HEARTBEAT: groups.share_group_heartbeat,
    ApiKey.SHARE_GROUP_DESCRIBE: groups.share_group_describe,
    ApiKey.TXN_OFFSET_COMMIT: txn_offset_commit,
}
HEARTBEATS = (HeartbeatRequest, ConsumerGroupHeartbeatRequest, ShareGroupHeartbeatRequest)
ROUTES = ApiTable()
KEY_OF_NAME = {api.name: api.key for api in APIS.values()}


class Call:
    """A request of a test, and its answer once it has come."""

    def __init__(self, host: Host, api_key: int, version: int, client_id: str, request: Any = None) -> None:
        self.host = host
        self.request = request
        self.api_key = api_key
        self.version = version
        self.client_id = client_id
        self.client_host = "/10.0.0.7"
        self.now = host.now
        self.steady_ms = host.steady_ms
        self.api: Api[Any, Any, Any]
        self.is_long = host.handles_long
        self.answered_at: int | None = None
        self._answer: Any = None

    def reply(self, response: Any) -> None:
        assert self.answered_at is None, f"a second answer: {response!r}, after {self._answer!r}"
        self.answered_at = self.host.now
        raw: Any = response.encoded or response_encoder(self.api_key, self.version)(response)
        self._answer = response_decoder(self.api_key, self.version)(raw if type(raw) is bytes else b"".join(raw))
        if self.host.on_reply is not None:
            self.host.on_reply(self)

    @property
    def is_answered(self) -> bool:
        return self.answered_at is not None

    @property
    def answer(self) -> Any:
        assert self.is_answered, "not answered yet"
        return self._answer

    @property
    def error(self) -> ErrorCode:
        return ErrorCode(self.answer.error_code)


class FakeTopics:
    """Names, ids and partition counts."""

    def __init__(self, **partition_counts: int) -> None:
        self._ids: dict[str, bytes] = {}
        self._counts: dict[str, int] = {}
        self._made = 0
        self.version = self.created_version = 0
        for name, count in partition_counts.items():
            self.create(name, count)

    def create(self, name: str, count: int, topic_id: bytes | None = None) -> bytes:
        self._made += 1
        self.version += 1
        self._ids[name] = topic_id or self._made.to_bytes(16, "big")
        self._counts[name] = count
        self.created_version = self.version
        return self._ids[name]

    def grow(self, name: str, count: int) -> None:
        self.version += 1
        self._counts[name] = count

    def names(self) -> list[str]:
        return list(self._ids)

    def delete(self, name: str) -> bytes:
        del self._counts[name]
        self.version += 1
        return self._ids.pop(name)

    def topic_id(self, name: str) -> bytes | None:
        return self._ids.get(name)

    def name_of(self, topic_id: bytes) -> str | None:
        return next((name for name, known in self._ids.items() if known == topic_id), None)

    def partition_count(self, name: str) -> int:
        return self._counts.get(name, 0)


class Transactions:
    """The transaction coordinator, as far as a commit of offsets sees it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, int, list[tuple[str, int]], bool]] = []
        self.answer: ErrorCode | None = ErrorCode.NONE  # None: it takes its time, until the test calls `waiting`
        self.waiting: list[Callable[[ErrorCode], None]] = []

    def verify_or_add(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Sequence[tuple[str, int]],
        *, add: bool, done: Callable[[ErrorCode], None],
    ) -> None:  # fmt: skip
        self.asked.append((transactional_id, producer_id, producer_epoch, list(partitions), add))
        if self.answer is None:
            self.waiting.append(done)
        else:
            done(self.answer)


class Disk:
    """What is durable, per partition; and, while it is slow, the writes that are on their way."""

    def __init__(self) -> None:
        self.batches: dict[int, list[bytes]] = {}
        self.on_the_way: list[Write[ShardState]] = []
        self.is_slow = False
        self.is_busy = False  # slow, and not even taking what is ready: it gathers in the runtime
        self.too_large: list[int] = []  # sizes of batches that a real log would have refused

    def keep(self, write: Write[ShardState]) -> None:
        log = self.batches.setdefault(write.shard.partition, [])
        for batch in write.batches:
            if len(batch) > write.shard.state.config.max_message_bytes:
                self.too_large.append(len(batch))
            verify_crc(batch, 0, parse_header(batch))
            assert parse_header(batch).base_offset == self.end_offset(write.shard.partition)
            log.append(batch)

    def end_offset(self, partition: int) -> int:
        log = self.batches.get(partition)
        return parse_header(log[-1]).next_offset if log else 0


class Host:
    """See the module."""

    def __init__(
        self, *, seed: int = 1, partition_count: int = 50, topics: FakeTopics | None = None, load: bool = True,
        knows_again: bool = True, **settings: Any,
    ) -> None:  # fmt: skip
        self.knows_again = knows_again
        self._recurring: dict[tuple[int, int], Recurring] = {}
        self._pulses: dict[bytes, tuple[Pulse, Any]] = {}  # by what was sent; with the answer
        self.steady_ms = 5_000_000  # far from wall time: a time of the wrong kind shows
        self._wall_offset_ms = START - self.steady_ms
        self.disk = Disk()
        self.topics = topics or FakeTopics(orders=12, payments=4)
        self.config = GroupConfig(**settings)
        self.random = Random(seed)
        self.partition_count = partition_count
        self.events: list[Any] = []
        self.open_calls: list[Call] = []
        self.on_reply: Callable[[Call], None] | None = None
        self.does_pieces_at_once = True  # else a test calls runtime.go_on
        self.handles_long = False  # as if each request had very many elements
        self.transactions = Transactions()
        self.runtime = self._new_runtime()
        if load:
            self.load()

    @property
    def coordinator(self) -> Host:
        """What broker.groups asks a broker for: this object is all of the broker that it needs."""
        return self

    @property
    def catalog(self) -> FakeTopics:
        return self.topics

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.now * NS_PER_MS, lambda: self.steady_ms * NS_PER_MS)

    @property
    def now(self) -> int:
        """Wall time."""
        return self.steady_ms + self._wall_offset_ms

    @now.setter
    def now(self, wall_ms: int) -> None:
        self._wall_offset_ms = wall_ms - self.steady_ms

    def _new_runtime(self) -> GroupRuntime:
        return GroupRuntime(self.config, self.topics, self.random, self.partition_count)

    # --- requests

    def send(self, request: Any, version: int | None = None, client_id: str = "client") -> Call:
        api = APIS[KEY_OF_NAME[type(request).__name__.removesuffix("Request")]]
        version = api.max_version if version is None else version
        raw = request_encoder(api.key, version)(request)
        joined = raw if type(raw) is bytes else b"".join(raw)
        request = self._read(api.key, version, joined)
        call = Call(self, api.key, version, client_id, request)
        self.open_calls.append(call)
        beaten = client_id.encode() + b" %d %d " % (api.key, version) + joined
        response = self._beat(beaten) or self._serve(request, call)
        if response is not PARKED:
            call.reply(response)
            if isinstance(request, HEARTBEATS) and not response.error_code and (pulse := self.runtime.pulse(request)):
                self._pulses[beaten] = pulse, response
        self.settle()
        return call

    def _beat(self, raw: bytes) -> Any:
        """As a connection does with a heartbeat like the one before; but we remember all that ever beat."""
        pulse, response = self._pulses.get(raw, (None, None)) if self.knows_again else (None, None)
        return response if pulse is not None and pulse.beats(self.steady_ms) else None

    def _serve(self, request: Any, call: Call) -> Any:
        broker: Any = self
        served: Any = SERVED[ApiKey(call.api_key)]
        response = served(broker, request, call)
        if isinstance(response, GeneratorType):
            response = self._take_steps(response, call)
        return response

    def _take_steps(self, steps: Any, call: Call) -> Any:
        """PARKED if the handler waits for something before its last step."""
        try:
            while True:
                waits_for = next(steps)
                if isinstance(waits_for, Pause) and not waits_for.is_over:
                    waits_for.then(lambda: self._go_on(steps, call))
                    return PARKED
        except StopIteration as end:
            return end.value

    def _go_on(self, steps: Any, call: Call) -> None:
        response = self._take_steps(steps, call)
        if response is not PARKED:
            call.reply(response)
        self.settle()

    def _read(self, api_key: int, version: int, raw: bytes) -> Any:
        """As a connection does, which has one request in progress at a time and knows again what recurs."""
        if not self.knows_again or self.open_calls or len(raw) > MAX_BYTES or api_key not in RECURRING:
            return request_decoder(api_key, version)(raw)
        known = self._recurring.get((api_key, version))
        route, nobody = ROUTES.route(api_key, version), cast(Any, None)
        rest = b"\xff\xff" + b"\0" * route.flexible + raw  # without client id
        if known is None or not (rest == known.rest or known.reads(rest)):
            request = request_decoder(api_key, version)(raw)
            self._recurring[api_key, version] = remember(known, route, nobody, rest, request)
            return request
        return known.request

    def ask(self, request: Any, version: int | None = None) -> Any:
        return self.send(request, version).answer

    # The calls of broker.groups.

    def submit(
        self, group_id: str, api: GroupApi[Request, Response], request: Request, call: Call
    ) -> Response | Parked:
        return self.runtime.submit(group_id, api, request, call)

    def submit_in_steps(
        self, group_id: str, api: GroupApi[Request, Response], request: Request, call: Call
    ) -> Steps[Response | Parked]:
        return self.runtime.submit_in_steps(group_id, api, request, call)

    def submit_several(
        self, several: SeveralGroups[Request, Response, Asked, Row], request: Request, call: Call
    ) -> Steps[Response | Parked]:
        return self.runtime.submit_several(several, request, call)

    def submit_everywhere(
        self, everywhere: EveryShard[Request, Response], request: Request, call: Call
    ) -> Steps[Response | Parked]:
        return self.runtime.submit_everywhere(everywhere, request, call)

    # --- the disk

    def settle(self) -> None:
        """Until nothing moves any more: replies leave, and a disk that is not slow writes at once."""
        while True:
            for call, response in self.runtime.take_replies():
                call.reply(response)
            while self.does_pieces_at_once and self.runtime.go_on(self.steady_ms, self.now):
                pass
            if self.runtime.replies:
                continue
            if not self.runtime.dirty or self.disk.is_busy:
                break
            self.disk.on_the_way += self.take_writes()
            if not self.disk.is_slow:
                self._write_all()
        events, self.runtime.events = self.runtime.events, []
        self.events += events
        self.open_calls = [call for call in self.open_calls if not call.is_answered]

    def take_writes(self) -> list[Write[ShardState]]:
        return self.runtime.take_writes(self.steady_ms, self.now)

    def _write_all(self) -> None:
        while self.disk.on_the_way:
            self.write_one()

    def write_one(self) -> None:
        write = self.disk.on_the_way.pop(0)
        self.disk.keep(write)
        self.runtime.written(write, self.steady_ms)

    def disk_catches_up(self) -> None:
        self.disk.is_slow = self.disk.is_busy = False
        self._write_all()
        self.settle()

    def disk_fails(self, error: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        """Nothing of what is on the way gets there; the shards concerned are loading from now on."""
        writes, self.disk.on_the_way = self.disk.on_the_way, []
        assert writes, "nothing is being written"
        for write in writes:
            self.runtime.write_failed(write, error)
        self.disk.is_slow = False
        self.settle()

    # --- restart

    def load(self) -> None:
        """Every shard that is not active replays its log."""
        for shard in self.runtime.shards:
            if shard.status is not Status.ACTIVE:
                self.load_shard(shard)
        self.settle()

    def load_shard(self, shard: Shard[ShardState]) -> None:
        for batch in self.disk.batches.get(shard.partition, []):
            list(shard.load_chunk(batch, len(batch)))
        list(self.runtime.loaded(shard, self.steady_ms, self.now))

    def crash(self, *, load: bool = True) -> None:
        """kill -9: what was on the way is lost, and so is every connection."""
        self.disk.on_the_way = []
        self.open_calls = []
        self._recurring.clear()
        self._pulses.clear()
        self.runtime = self._new_runtime()
        if load:
            self.load()

    # --- time

    def advance(self, ms: int) -> None:
        target = self.steady_ms + ms
        while (deadline := self.runtime.next_deadline(self.steady_ms)) is not None and deadline <= target:
            self.steady_ms = max(self.steady_ms, deadline)
            self.runtime.expire(self.steady_ms, self.now)
            self.settle()
        self.steady_ms = target

    def set_clock(self, by_ms: int) -> None:
        """Somebody sets the machine's wall clock: no time has passed."""
        self._wall_offset_ms += by_ms

    def expire_offsets(self) -> None:
        for shard in self.runtime.shards:
            self.runtime.expire_offsets(shard)
        self.settle()

    def delete_topic(self, name: str) -> None:
        self.runtime.topics_deleted([(name, self.topics.delete(name))])
        self.settle()

    # --- looking

    def shard_of(self, group_id: str) -> Shard[ShardState]:
        return self.runtime.shard_of(group_id)

    def state_of(self, group_id: str) -> ShardState:
        return self.shard_of(group_id).state

    def classic(self, group_id: str) -> ClassicGroup:
        group = self.state_of(group_id).groups[group_id]
        assert isinstance(group, ClassicGroup)
        return group

    def describe(self, group_id: str, version: int | None = None) -> DescribedGroup:
        described: DescribedGroup = self.ask(DescribeGroupsRequest([group_id]), version).groups[0]
        return described

    def state(self, group_id: str) -> str:
        return self.describe(group_id).group_state

    def list_groups(self, states: Iterable[str] = (), types: Iterable[str] = (), version: int = 5) -> list[ListedGroup]:
        answer = self.ask(ListGroupsRequest(list(states), list(types)), version)
        assert answer.error_code == 0
        return list(answer.groups)

    def delete(self, *group_ids: str, version: int = 2) -> dict[str, ErrorCode]:
        answer = self.ask(DeleteGroupsRequest(list(group_ids)), version)
        return {result.group_id: ErrorCode(result.error_code) for result in answer.results}

    def log_of(self, group_id: str) -> list[Record]:
        """The durable records of the group's partition."""
        batches = self.disk.batches.get(self.shard_of(group_id).partition, [])
        return [record for batch in batches for record in read_records(batch)]

    def records_of(self, group_id: str) -> list[tuple[int, Any, Any]]:
        """(type, key, value) of the durable records of one group; the value of a tombstone is None."""
        found = []
        for record in self.log_of(group_id):
            assert record.key is not None
            kind, key = decode_key(record.key)
            if key.group == group_id:
                found.append((kind, key, None if record.value is None else decode_value(kind, record.value)))
        return found
