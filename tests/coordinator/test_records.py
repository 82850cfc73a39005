"""What is written when, and that its bytes are Kafka's."""

import pytest

from kohort.coordinator.classic.group import empty_group_record
from kohort.coordinator.offsets.offset_commit import OFFSET_COMMIT_API
from kohort.coordinator.outcome import Outcome, Record
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.log_records import GROUP_METADATA, OFFSET_COMMIT, decode_value, encode_key, encode_value
from kohort.protocol.messages.log_group_metadata import GroupMetadataKey, GroupMetadataValue
from kohort.protocol.messages.log_offset_commit import OffsetCommitKey, OffsetCommitValue
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.record_batch import parse_header
from tests.coordinator.members import (
    Member,
    assign,
    commit,
    fetch,
    fetched,
    joined,
    leave,
    send_fetch,
    stable,
    static_members,
)
from tests.coordinator.support import Call, FakeTopics, Host

ORDERS_TOPIC_ID = bytes.fromhex("944f443a5527482dbf59f9460759c28e")

# From the files of a live Kafka 4.3.1. The batch has leader epoch 2 at bytes 12 to 15; the CRC does not cover it.
GOLDEN_BATCH = bytes.fromhex(
    "0000000000000008 00000075 00000002 02 3b5cb45a 0000 00000000 000001a1e1d047ad 000001a1e1d047ad"
    "ffffffffffffffff ffff 00000000 00000001"
    "8401 00 00 00 24 0001 0006 6f7264657273 0002 7433 00000000"
    "54 0004 0000000000000005 ffffffff 01 000001a1e1d047ab 01 00 10 944f443a5527482dbf59f9460759c28e 00"
)
COMMITTED_AT, WRITTEN_AT = 0x01A1E1D047AB, 0x01A1E1D047AD
NEVER_JOINED = bytes.fromhex("0003 0000 00000000 ffff ffff 000001a1e1d2fa48 00000000")
EMPTIED = bytes.fromhex("0003 0008 636f6e73756d6572 00000003 ffff ffff 000001a1e1d352cf 00000000")
WITH_EXPIRY = bytes.fromhex("0001 0000000000000009 0001 6d 000001a1e1cb4edf 000001a1e1cb4ee0")
TRANSACTIONAL = bytes.fromhex("0004 00000000000000c8 ffffffff 03746d 000001a1e1cd1a24 00")


class OneTopic(FakeTopics):
    def create(self, name: str, count: int, topic_id: bytes | None = ORDERS_TOPIC_ID) -> bytes:
        return super().create(name, count, topic_id)


# --- golden bytes


def test_a_commit_is_the_batch_that_kafka_wrote() -> None:
    host = Host(topics=OneTopic(t3=1), audit_headers=False)
    shard = host.shard_of("orders")
    shard.next_offset = 8
    host.now = COMMITTED_AT
    partition = OffsetCommitRequestPartition(0, 5, -1, "")
    request = OffsetCommitRequest("orders", topics=[OffsetCommitRequestTopic("t3", partitions=[partition])])
    host.submit("orders", OFFSET_COMMIT_API, request, Call(host, ApiKey.OFFSET_COMMIT, 9, "client"))
    (write,) = host.runtime.take_writes(host.steady_ms, WRITTEN_AT)
    (batch,) = write.batches
    assert (shard.partition, write.first_offset) == (31, 8)
    assert batch[:12] + GOLDEN_BATCH[12:16] + batch[16:] == GOLDEN_BATCH


def test_that_batch_replayed_gives_what_was_committed() -> None:
    host = Host(topics=OneTopic(t3=1), load=False)
    host.disk.batches[31] = [GOLDEN_BATCH]
    host.load()
    assert host.shard_of("orders").next_offset == 9
    assert fetch(host, "orders") == {("t3", 0): 5}
    assert fetch(host, "orders", version=10) == {("t3", 0): 5}
    offset = host.state_of("orders").offsets.get("orders", "t3", 0)
    assert offset is not None
    assert (offset.commit_timestamp, offset.topic_id, offset.log_offset) == (COMMITTED_AT, ORDERS_TOPIC_ID, 8)


def test_a_never_joined_group_has_kafkas_bytes() -> None:
    record = empty_group_record("g", 0x01A1E1D2FA48)
    assert encode_value(record.type, record.value) == NEVER_JOINED


def test_an_emptied_group_has_kafkas_bytes() -> None:
    host = Host()
    (a,) = stable(host, "a")
    a.join()
    a.learn().sync({})
    host.advance(0x01A1E1D352CF - host.now - 1)
    (a,) = joined_again(host, a)
    host.now = 0x01A1E1D352CF
    leave(host, "g", (a.member_id, None))
    value = host.log_of("g")[-1].value
    assert value is not None
    emptied = bytearray(EMPTIED)
    emptied[12:16] = value[12:16]  # the generation
    assert value == bytes(emptied)


def joined_again(host: Host, member: Member) -> list[Member]:
    """Its session was over long ago."""
    member.member_id, member.generation = "", -1
    member.join()
    host.advance(3_000)
    return [member.learn()]


@pytest.mark.parametrize("raw", [NEVER_JOINED, EMPTIED], ids=["never joined", "emptied"])
def test_group_values_of_kafka_are_read_and_written_alike(raw: bytes) -> None:
    value: GroupMetadataValue = decode_value(GROUP_METADATA, raw)
    assert encode_value(GROUP_METADATA, value) == raw
    record = Record(GROUP_METADATA, GroupMetadataKey("g"), value)
    host = Host()
    shard = host.shard_of("g")
    host.runtime.apply(shard, Outcome([record]))
    host.settle()
    assert (host.state("g"), host.classic("g").generation) == ("Empty", value.generation)


def test_offset_values_of_kafka_are_read_and_written_alike() -> None:
    expiring: OffsetCommitValue = decode_value(OFFSET_COMMIT, WITH_EXPIRY)
    assert (expiring.offset, expiring.metadata, expiring.expire_timestamp) == (9, "m", 0x01A1E1CB4EE0)
    assert encode_value(OFFSET_COMMIT, expiring, 1) == WITH_EXPIRY
    pending: OffsetCommitValue = decode_value(OFFSET_COMMIT, TRANSACTIONAL)
    assert (pending.offset, pending.metadata) == (200, "tm")
    assert encode_value(OFFSET_COMMIT, pending) == TRANSACTIONAL


def test_a_commit_with_a_retention_time_has_kafkas_bytes() -> None:
    host = Host(audit_headers=False)
    host.now = 0x01A1E1CB4EDF
    commit(host, "g", {("orders", 0): 9}, version=2, retention_time_ms=1, metadata="m")
    assert host.log_of("g")[0].value == WITH_EXPIRY


def test_keys_are_the_type_and_its_fields() -> None:
    assert encode_key(OFFSET_COMMIT, OffsetCommitKey("orders", "t3", 0)) == bytes.fromhex(
        "0001 0006 6f7264657273 0002 7433 00000000"
    )
    assert encode_key(GROUP_METADATA, GroupMetadataKey("orders")) == bytes.fromhex("0002 0006 6f7264657273")


# --- what is written when


def test_the_leaders_assignment_is_written_with_everything_that_a_restart_needs() -> None:
    host = Host()
    members = [
        Member(host, name="a", protocols=[("range", b"ra"), ("sticky", b"sa")], session_timeout_ms=7_000),
        Member(host, name="b", instance_id="desk", protocols=[("range", b"rb")], rebalance_timeout_ms=9_000),
    ]
    for member in members:
        member.join()
    host.advance(6_000)
    end_of_join_phase = host.now
    host.advance(100)
    a, b = (member.learn() for member in members)
    a.sync({a.member_id: b"one", b.member_id: b"two"})
    kind, key, value = host.records_of("g")[-1]
    assert (kind, key.group) == (2, "g")
    assert (value.protocol_type, value.generation, value.protocol) == ("consumer", 1, "range")
    # Kafka writes the assignment before the group is Stable: the time is that of CompletingRebalance.
    assert (value.leader, value.current_state_timestamp) == (a.member_id, end_of_join_phase)
    first, second = value.members
    assert (first.member_id, first.group_instance_id, first.client_id) == (a.member_id, None, "a")
    assert (first.client_host, first.rebalance_timeout, first.session_timeout) == ("/10.0.0.7", 30_000, 7_000)
    assert (first.subscription, first.assignment) == (b"ra", b"one")
    assert (second.group_instance_id, second.rebalance_timeout) == ("desk", 9_000)
    assert (second.subscription, second.assignment) == (b"rb", b"two")
    assert host.log_of("g")[-1].value[:2] == b"\x00\x03"  # type: ignore[index]


def test_heartbeats_pending_ids_timers_and_the_end_of_a_join_phase_write_nothing() -> None:
    host = Host()
    a, b = stable(host, "a", "b")
    before = len(host.log_of("g"))
    a.heartbeat()
    Member(host).ask_to_join()
    a.join()
    b.join()
    fetch(host, "g")
    host.describe("g")
    host.advance(9_000)
    assert len(host.log_of("g")) == before


def test_the_records_of_one_operation_lie_in_one_batch() -> None:
    host = Host()
    commit(host, "g", {("orders", n): n for n in range(12)})
    (batch,) = host.disk.batches[host.shard_of("g").partition]
    header = parse_header(batch)
    assert (header.record_count, header.base_sequence, header.producer_id) == (12, 0, -1)
    assert (header.is_transactional, header.is_control, header.compression) == (False, False, 0)


def test_operations_that_do_not_fit_into_one_batch_together_are_split() -> None:
    host = Host(topics=FakeTopics(orders=1_000))
    host.disk.is_busy = True
    for start in range(0, 1_000, 100):
        commit(host, "g", {("orders", n): n for n in range(start, start + 100)}, metadata="m" * 4_000)
    host.disk_catches_up()
    batches = host.disk.batches[host.shard_of("g").partition]
    assert len(batches) > 1
    assert all(len(batch) < 1_048_588 for batch in batches)
    host.crash()
    assert len(fetched(send_fetch(host, "g"))) == 1_000


def test_many_who_go_at_once_do_not_make_a_record_that_no_log_takes() -> None:
    host = Host()
    joined(host, *[f"{number} {'c' * 32_000}" for number in range(40)], session_timeout_ms=100_000)
    host.advance(30_000)  # nobody sends SyncGroup: all of them are the reason why the group is empty
    assert host.state("g") == "Empty"
    assert all(len(batch) < 1_048_588 for batch in host.disk.batches[host.shard_of("g").partition])


def test_the_cause_of_a_generation_stands_in_the_record_headers_unless_turned_off() -> None:
    host = Host()
    a, _ = stable(host, "a", "b")
    started = host.now
    a.leave()
    headers = dict(host.log_of("g")[-1].headers)
    assert headers[b"kohort.cause"] == b"member joined"
    host.advance(10_000)  # b's session is over: the group becomes empty
    headers = dict(host.log_of("g")[-1].headers)
    assert headers == {
        b"kohort.coordinator.start.ms": b"1700000000000",
        b"kohort.join.start.ms": b"%d" % started,
        b"kohort.cause": b"member left",
        b"kohort.trigger": a.member_id.encode(),
    }
    host = Host(audit_headers=False)
    stable(host, "a")
    assert [record.headers for record in host.log_of("g")] == [(), ()]


@pytest.mark.parametrize("audit_headers", [True, False])
def test_headers_do_not_change_what_is_loaded(audit_headers: bool) -> None:
    host = Host(audit_headers=audit_headers)
    a, _ = static_members(host, "one", "two")
    a.commit({("orders", 0): 1})
    before = host.describe("g")
    host.crash()
    assert host.describe("g") == before


# --- what is told about a rebalance


def test_each_rebalance_is_told_with_its_cause_and_the_slowest_member() -> None:
    host = Host()
    a, b = stable(host, "a", "b")
    newcomer = Member(host, name="c")
    newcomer.join()
    host.advance(500)
    b.join()
    host.advance(700)
    a.join()
    host.advance(50)
    a.learn().sync(assign([a, b.learn(), newcomer.learn()]))
    first, second = host.events
    assert (first.generation, first.cause, first.trigger, first.members) == (1, "member joined", a.member_id, 2)
    assert (second.group, second.generation, second.members) == ("g", 2, 3)
    assert (second.cause, second.trigger) == ("member joined", newcomer.member_id)
    assert (second.slowest, second.duration_ms) == (a.member_id, 1_250)


def test_a_rebalance_is_told_when_its_record_is_durable_and_never_if_the_disk_refuses_it() -> None:
    host = Host()
    (a,) = joined(host, "a")
    host.disk.is_slow = True
    a.sync(assign([a]))
    assert host.events == []
    host.disk_fails()
    assert host.events == []
    host.load()
    (b,) = joined(host, "b")
    host.disk.is_slow = True
    b.sync(assign([b]))
    host.disk_catches_up()
    assert [event.members for event in host.events] == [1]


def test_that_nobody_is_left_is_told_too() -> None:
    host = Host()
    (a,) = stable(host, "a")
    leave(host, "g", (a.member_id, None), reason="done")
    told = host.events[-1]
    assert (told.generation, told.cause, told.trigger) == (2, "member left: done", a.member_id)
    assert (told.members, told.slowest) == (0, "")


def test_causes_are_named() -> None:
    host = Host()
    a, b = stable(host, "a", "b")
    a.join()
    b.join()
    a.learn().sync({})
    b.learn().sync()
    assert (host.events[-1].cause, host.events[-1].trigger) == ("leader rejoined", a.member_id)
    leave(host, "g", (b.member_id, None), reason="scaling down")
    a.join()
    a.learn().sync({})
    assert (host.events[-1].cause, host.events[-1].trigger) == ("member left: scaling down", b.member_id)
    c, d = joined(host, "c", "d", group_id="h")
    c.sync(assign([c, d]))
    d.sync()
    host.advance(9_000)
    c.heartbeat()
    host.advance(1_000)
    c.join()
    c.learn().sync({})
    assert (host.events[-1].cause, host.events[-1].trigger) == ("session expired", d.member_id)
