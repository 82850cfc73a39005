"""Restart: what comes back from the log, what does not, and what is said meanwhile."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from kohort.coordinator.shard import RECORDS_IN_STEP, Status
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.log_records import GROUP_METADATA, LEGACY_OFFSET_COMMIT, RECORD_TYPES, encode_key, encode_value
from kohort.protocol.messages.delete_groups import DeleteGroupsRequest
from kohort.protocol.messages.describe_groups import DescribeGroupsRequest
from kohort.protocol.messages.list_groups import ListGroupsRequest
from kohort.protocol.messages.log_group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kohort.protocol.messages.log_legacy_offset_commit import LegacyOffsetCommitKey, LegacyOffsetCommitValue
from kohort.protocol.record_batch import build_batch
from tests.coordinator.members import (
    Member,
    commit,
    delete_offsets,
    errors_of,
    fetch,
    joined,
    leave,
    protocols,
    send_fetch,
    stable,
)
from tests.coordinator.support import START, FakeTopics, Host
from tests.group_requests import subscription

NONE = ErrorCode.NONE
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def mutated(random: Random, value: bytes) -> bytes:
    data = bytearray(value)
    for _ in range(random.randrange(4)):
        data[random.randrange(2, len(data))] = random.choice((0, 1, 127, 128, 255, random.randrange(256)))
    return bytes(data[: random.choice((len(data), random.randrange(len(data) + 1)))])


def host_with(*records: tuple[bytes, bytes | None], group_id: str = "g") -> Host:
    """A host whose log of the group's partition holds these records, loaded."""
    host = Host(load=False)
    host.disk.batches[host.shard_of(group_id).partition] = [build_batch(records, timestamp=START)]
    host.load()
    return host


def group_record(value: GroupMetadataValue | None, version: int = 3) -> tuple[bytes, bytes | None]:
    return encode_key(GROUP_METADATA, GroupMetadataKey("g")), None if value is None else encode_value(
        GROUP_METADATA, value, version
    )


def a_value(*members: MemberMetadata, generation: int = 4, protocol: str = "range") -> GroupMetadataValue:
    leader = members[0].member_id if members else None
    return GroupMetadataValue("consumer", generation, protocol if members else None, leader, START - 5_000, members)


def a_member(name: str = "m1", metadata: bytes = subscription("orders"), **how: Any) -> MemberMetadata:
    fields: dict[str, Any] = {"rebalance_timeout": 30_000, "session_timeout": 10_000, "assignment": b"mine"} | how
    return MemberMetadata(name, client_id="c", client_host="/h", subscription=metadata, **fields)


# --- what comes back


def test_a_stable_group_comes_back_with_members_generation_assignments_and_offsets() -> None:
    host = Host()
    a, b = stable(host, "a", "b")
    a.commit({("orders", 3): 33})
    before = host.describe("g")
    host.crash()
    assert host.describe("g") == before
    assert fetch(host, "g") == {("orders", 3): 33}
    assert (a.heartbeat(), b.heartbeat()) == (NONE, NONE)
    assert a.commit({("orders", 3): 34}) is NONE
    assert b.sync().answer.assignment == b"for b"


def test_members_get_a_whole_session_to_report_after_a_restart() -> None:
    host = Host()
    a, b = stable(host, "a", "b")
    host.advance(9_000)
    host.crash()
    host.advance(9_999)
    assert a.heartbeat() is NONE
    host.advance(1)
    assert b.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert a.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_first_generation_that_was_not_assigned_yet_is_lost() -> None:
    host = Host()
    a, b = joined(host, "a", "b")
    host.crash()
    assert host.state("g") == "Empty"
    assert (a.heartbeat(), b.sync().error) == (25, 25)


def test_a_rebalance_in_progress_is_forgotten_and_the_last_generation_is_back() -> None:
    host = Host()
    a, b = stable(host, "a", "b")
    Member(host, name="c").join()
    assert a.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    host.crash()
    assert host.state("g") == "Stable"
    assert (a.heartbeat(), b.heartbeat()) == (NONE, NONE)
    assert [each.member_assignment for each in host.describe("g").members] == [b"for a", b"for b"]


def test_a_second_generation_that_was_not_assigned_yet_is_forgotten() -> None:
    host = Host()
    a, b = stable(host, "a", "b")
    a.join()
    b.join()
    assert a.learn().generation == 2
    host.crash()
    assert a.heartbeat() is ErrorCode.ILLEGAL_GENERATION
    assert a.heartbeat(1) is NONE


def test_pending_ids_are_lost() -> None:
    host = Host()
    pending = Member(host)
    pending.member_id = pending.ask_to_join().answer.member_id
    host.crash()
    assert pending.ask_to_join().error is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_emptied_group_comes_back_empty_with_its_generation() -> None:
    host = Host()
    (a,) = stable(host, "a")
    a.leave()
    host.crash()
    assert host.state("g") == "Empty"
    (again,) = joined(host, "b")
    assert again.generation == 3


def test_a_deleted_group_stays_deleted() -> None:
    host = Host()
    (a,) = stable(host, "a")
    a.commit({("orders", 0): 1})
    a.leave()
    assert host.delete("g") == {"g": NONE}
    host.crash()
    assert host.list_groups() == []
    assert fetch(host, "g") == {}


def test_replaying_twice_gives_the_same_state() -> None:
    host = Host()
    a, b = stable(host, "a", "b")
    a.commit({("orders", 3): 33})
    b.leave()
    host.crash()
    once = host.describe("g")
    shard = host.shard_of("g")
    for batch in host.disk.batches[shard.partition]:
        list(shard.load_chunk(batch, len(batch)))
    assert host.describe("g") == once
    assert fetch(host, "g") == {("orders", 3): 33}


def test_a_batch_with_many_records_is_replayed_in_many_steps() -> None:
    host = Host(topics=FakeTopics(orders=5_000), partition_count=1)
    commit(host, "g", {("orders", index): index for index in range(5_000)})
    (batch,) = host.disk.batches[0]
    host.crash(load=False)
    shard = host.runtime.shards[0]
    assert sum(1 for _ in shard.load_chunk(batch, len(batch))) >= 5_000 // RECORDS_IN_STEP - 1
    assert shard.state.offsets.count() == 5_000


def test_the_last_record_of_a_group_wins_in_every_field() -> None:
    first = a_value(a_member(session_timeout=6_000), generation=4)
    changed = a_member(metadata=subscription("payments"), session_timeout=20_000, assignment=b"other")
    host = host_with(group_record(first), group_record(a_value(changed, generation=5, protocol="sticky")))
    described = host.describe("g")
    assert described.protocol_data == "sticky"
    assert described.members[0].member_metadata == subscription("payments")
    assert described.members[0].member_assignment == b"other"
    member = Member(host, name="c")
    member.member_id, member.generation = "m1", 5
    host.advance(19_999)
    assert member.heartbeat() is NONE


def test_a_tombstone_removes_the_group() -> None:
    host = host_with(group_record(a_value(a_member())), group_record(None))
    assert host.describe("g", 5).group_state == "Dead"


def test_loaded_members_know_only_the_chosen_protocol() -> None:
    host = host_with(group_record(a_value(a_member())))
    newcomer = Member(host, protocols=protocols("sticky"))
    assert newcomer.ask_to_join().error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_the_group_value_is_read(version: int) -> None:
    host = host_with(group_record(a_value(a_member(rebalance_timeout=40_000 if version else -1)), version))
    group = host.classic("g")
    (member,) = group.members.values()
    assert (group.generation, group.leader_id, host.state("g")) == (4, "m1", "Stable")
    assert member.rebalance_timeout_ms == (40_000 if version else member.session_timeout_ms)
    assert group.state_timestamp == (START - 5_000 if version >= 2 else -1)


def test_an_empty_protocol_type_means_none() -> None:
    host = host_with(group_record(GroupMetadataValue("", 0, None, None, START, [])))
    assert host.classic("g").protocol_type is None


def test_an_offset_of_an_unknown_group_makes_a_simple_group() -> None:
    host = Host()
    commit(host, "g", {("orders", 1): 11})
    host.crash()
    (listed,) = host.list_groups()
    assert (listed.group_id, listed.protocol_type, listed.group_state) == ("g", "", "Empty")
    assert fetch(host, "g") == {("orders", 1): 11}


def test_offsets_from_before_kafka_0_9_are_read() -> None:
    key = encode_key(LEGACY_OFFSET_COMMIT, LegacyOffsetCommitKey("g", "orders", 2))
    host = host_with((key, encode_value(LEGACY_OFFSET_COMMIT, LegacyOffsetCommitValue(22, "old", START))))
    assert fetch(host, "g") == {("orders", 2): 22}
    host = host_with((key, encode_value(LEGACY_OFFSET_COMMIT, LegacyOffsetCommitValue(22, "old", START))), (key, None))
    assert fetch(host, "g") == {}


def test_offsets_of_a_group_that_the_log_says_is_gone_are_not_shown() -> None:
    host = Host()
    commit(host, "g", {("orders", 1): 11})
    partition = host.shard_of("g").partition
    end = host.disk.end_offset(partition)
    host.disk.batches[partition].append(build_batch([group_record(None)], timestamp=START, base_offset=end))
    host.crash()
    assert fetch(host, "g", [("orders", 1)]) == {("orders", 1): -1}
    assert fetch(host, "g") == {}


def test_records_of_unknown_types_are_passed_over() -> None:
    host = host_with((b"\x00\x63what", b"ever"), group_record(a_value(a_member())))
    assert host.state("g") == "Stable"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (encode_key(GROUP_METADATA, GroupMetadataKey("g")), b"\x00\x09from the future"),
        (encode_key(GROUP_METADATA, GroupMetadataKey("g")), b""),
        (b"\x00\x01\x00\x40half a key", b"\x00\x03"),
        (b"\x00", b"value"),
        (b"", None),
    ],
)
def test_a_record_that_cannot_be_read_is_skipped_and_told_of(
    key: bytes, value: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    good = group_record(a_value(a_member()))
    host = host_with(good, (key, value), (key, value), group_record(a_value(a_member(), generation=7)))
    assert host.state("g") == "Stable"
    assert host.classic("g").generation == 7
    assert host.shard_of("g").unreadable_count == 2
    (told,) = [record.getMessage() for record in caplog.records if "cannot be read" in record.getMessage()]
    assert f"2 records of shard {host.shard_of('g').partition}" in told
    assert "the first at offset 1:" in told


def test_whatever_bytes_a_log_holds_they_do_not_stop_it_from_being_loaded() -> None:
    random = Random(1)
    good = [group_record(a_value(a_member(), generation=n)) for n in range(5)]
    for kind in RECORD_TYPES:
        for _ in range(300):
            key, value = random.choice(good)
            key = kind.to_bytes(2, "big") + random.choice((key[2:], random.randbytes(random.randrange(20))))
            value = mutated(random, value or b"")
            host = host_with(*good, (key, value), (key, None))
            host.advance(20_000)
            host.list_groups()


def test_new_records_go_behind_what_was_loaded() -> None:
    host = Host()
    (a,) = stable(host, "a")
    host.crash()
    a.commit({("orders", 0): 1})  # Disk.keep compares the offsets
    assert host.disk.end_offset(host.shard_of("g").partition) == 3


# --- over capacity


def test_a_group_above_the_limit_is_asked_to_rejoin_and_the_first_ones_win() -> None:
    host = Host()
    a, b, c = stable(host, "a", "b", "c")
    host.config = replace(host.config, max_size=2)
    host.crash()
    assert host.state("g") == "PreparingRebalance"
    assert [member.heartbeat() for member in (a, b, c)] == [27, 27, 27]
    assert not c.join().is_answered
    assert not a.join().is_answered
    refused = b.join()
    assert (refused.error, refused.answer.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    # Kafka 4.3.1 does not notice that nobody is missing any more: the join phase lasts its whole time (measured).
    host.advance(29_999)
    assert host.state("g") == "PreparingRebalance"
    host.advance(1)
    assert host.state("g") == "CompletingRebalance"
    assert {each.client_id for each in host.describe("g").members} == {"a", "c"}


def test_a_group_at_the_limit_carries_on() -> None:
    host = Host()
    stable(host, "a", "b")
    host.config = replace(host.config, max_size=2)
    host.crash()
    assert host.state("g") == "Stable"


# --- while it loads


@pytest.fixture
def loading() -> Host:
    host = Host()
    stable(host, "a")
    commit(host, "simple", {("orders", 0): 1})
    host.crash(load=False)
    return host


def test_while_loading_a_heartbeat_succeeds_blindly(loading: Host) -> None:
    assert Member(loading).heartbeat(77) is NONE
    assert Member(loading, "").heartbeat(77) is ErrorCode.INVALID_GROUP_ID


def test_while_loading_the_other_apis_say_so(loading: Host) -> None:
    member = Member(loading)
    member.member_id = "somebody"
    join = member.ask_to_join()
    assert (join.error, join.answer.member_id, join.answer.generation_id) == (LOADING, "", -1)
    assert member.sync(protocol_name="range").error is LOADING
    gone = leave(loading, "g", ("somebody", None))
    assert (gone.error, list(gone.answer.members)) == (LOADING, [])
    assert member.commit({("orders", 0): 1}, generation=1) is LOADING
    assert delete_offsets(loading, "g", ("orders", 0)).error is LOADING
    assert loading.describe("g").error_code == LOADING
    assert loading.delete("g") == {"g": LOADING}
    assert loading.ask(ListGroupsRequest()).error_code == LOADING


def test_while_loading_an_offset_fetch_says_so_where_its_version_has_a_place_for_it(loading: Host) -> None:
    (partition,) = send_fetch(loading, "g", [("orders", 0)], version=1).answer.topics[0].partitions
    assert (partition.error_code, partition.committed_offset) == (LOADING, -1)
    for version in range(2, 8):
        assert send_fetch(loading, "g", [("orders", 0)], version=version).error is LOADING
    for version in range(8, 11):
        (group,) = send_fetch(loading, "g", [("orders", 0)], version=version).answer.groups
        assert (group.group_id, group.error_code, list(group.topics)) == ("g", LOADING, [])


def test_what_is_wrong_with_the_request_itself_is_told_first(loading: Host) -> None:
    assert Member(loading, "").ask_to_join().error is ErrorCode.INVALID_GROUP_ID
    assert Member(loading, session_timeout_ms=1).ask_to_join().error is ErrorCode.INVALID_SESSION_TIMEOUT
    assert Member(loading, "").sync(protocol_name="range").error is ErrorCode.INVALID_GROUP_ID
    assert Member(loading).sync(protocol_name=None).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert leave(loading, "", ("m", None)).error is ErrorCode.INVALID_GROUP_ID
    assert delete_offsets(loading, "", ("orders", 0)).error is ErrorCode.INVALID_GROUP_ID
    call = commit(loading, "g", {("orders", 0): 1, ("ghost", 0): 1, ("orders", 99): 1})
    assert errors_of(call) == {("orders", 99): 3, ("ghost", 0): 3, ("orders", 0): LOADING}


def test_one_loading_partition_is_enough_for_list_groups_to_say_so(loading: Host) -> None:
    for shard in loading.runtime.shards:
        if shard.partition != 7:
            loading.load_shard(shard)
    assert loading.ask(ListGroupsRequest()).error_code == LOADING
    loading.load_shard(loading.runtime.shards[7])
    assert {each.group_id for each in loading.list_groups()} == {"g", "simple"}


def test_a_group_in_another_partition_is_served_meanwhile(loading: Host) -> None:
    loading.load_shard(loading.shard_of("simple"))
    loading.settle()
    assert fetch(loading, "simple") == {("orders", 0): 1}
    answer = loading.ask(DescribeGroupsRequest(["simple", "g"]))
    assert {each.group_id: each.error_code for each in answer.groups} == {"simple": 0, "g": LOADING}
    answer = loading.ask(DeleteGroupsRequest(["simple", "g"]))
    assert {each.group_id: each.error_code for each in answer.results} == {"simple": 0, "g": LOADING}


def test_a_shard_that_cannot_be_read_is_not_coordinated_here() -> None:
    host = Host()
    (a,) = stable(host, "a")
    shard = host.shard_of("g")
    shard.fail(MalformedMessage("rotten"))
    assert shard.status is Status.FAILED
    assert a.heartbeat() is ErrorCode.NOT_COORDINATOR
    assert a.ask_to_join().error is ErrorCode.NOT_COORDINATOR
    assert a.commit({("orders", 0): 1}) is ErrorCode.NOT_COORDINATOR
    assert host.list_groups() == []  # what is not owned is left out
