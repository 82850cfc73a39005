"""OffsetCommit: first each partition by itself, then one verdict of the group for all the rest."""

import pytest

from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.coordinator.members import (
    Member,
    commit,
    errors_of,
    fetch,
    fetched,
    joined,
    send_fetch,
    stable,
    static_members,
)
from tests.coordinator.support import Host

NONE = ErrorCode.NONE
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
ILLEGAL = ErrorCode.ILLEGAL_GENERATION
VERSIONS = range(2, 11)
PLACE = ("orders", 0)


def error_of(host: Host, group_id: str = "g", **how: object) -> ErrorCode:
    return errors_of(commit(host, group_id, {PLACE: 5}, **how))[PLACE]  # type: ignore[arg-type]


# --- before the group is looked at


@pytest.mark.parametrize("version", range(2, 10))
def test_unknown_topics_and_partitions_fail_alone(version: int) -> None:
    host = Host()
    call = commit(host, "g", {PLACE: 1, ("orders", 12): 1, ("orders", -1): 1, ("ghost", 0): 1}, version=version)
    assert errors_of(call) == {("orders", 12): 3, ("orders", -1): 3, ("ghost", 0): 3, PLACE: 0}
    assert fetch(host, "g") == {PLACE: 1}


def test_version_10_names_topics_by_id_and_an_unknown_id_fails_alone() -> None:
    host = Host()
    call = commit(host, "g", {PLACE: 1, ("ghost", 0): 1, ("orders", 12): 1}, version=10, topic_ids={"ghost": b"?" * 16})
    by_id = {
        (topic.topic_id, p.partition_index): p.error_code for topic in call.answer.topics for p in topic.partitions
    }
    orders = host.topics.topic_id("orders")
    assert by_id == {(b"?" * 16, 0): ErrorCode.UNKNOWN_TOPIC_ID, (orders, 12): 3, (orders, 0): 0}
    assert fetch(host, "g") == {PLACE: 1}


def test_in_the_answer_what_was_refused_stands_first_as_in_kafka() -> None:
    # Measured on Kafka 4.3.1.
    host = Host()
    call = commit(host, "g", {PLACE: 1, ("orders", 99): 1, ("orders", 1): 1, ("ghost", 0): 1, ("payments", 0): 1})
    assert list(errors_of(call)) == [("orders", 99), PLACE, ("orders", 1), ("ghost", 0), ("payments", 0)]
    names = [topic.name for topic in call.answer.topics]
    assert names == ["orders", "ghost", "payments"]


@pytest.mark.parametrize("version", range(2, 10))
def test_if_nothing_is_left_the_group_is_not_asked_and_not_made(version: int) -> None:
    host = Host()
    call = commit(host, "g", {("ghost", 0): 1}, version=version, generation=7, member_id="stranger")
    assert errors_of(call) == {("ghost", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert host.list_groups() == []


def test_a_commit_of_nothing_is_answered_with_nothing() -> None:
    host = Host()
    assert list(host.ask(OffsetCommitRequest("g"), 9).topics) == []
    empty = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("orders")])
    assert list(host.ask(empty, 9).topics) == []
    assert host.list_groups() == []


# --- groups that do not exist


@pytest.mark.parametrize("version", VERSIONS)
def test_a_commit_of_nobody_makes_a_simple_group(version: int) -> None:
    host = Host()
    assert error_of(host, version=version) is NONE
    (listed,) = host.list_groups()
    assert (listed.group_id, listed.protocol_type, listed.group_state) == ("g", "", "Empty")
    assert [kind for kind, _, _ in host.records_of("g")] == [1]  # no record of its own


def test_the_empty_group_id_is_allowed() -> None:
    host = Host()
    assert error_of(host, "") is NONE
    assert fetch(host, "") == {PLACE: 5}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_generation_in_an_unknown_group_is_an_error(version: int) -> None:
    error = error_of(Host(), version=version, generation=0, member_id="m")
    assert error is (ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ILLEGAL)


# --- classic groups


@pytest.mark.parametrize("version", VERSIONS)
def test_an_empty_group_takes_commits_without_a_generation_even_with_a_member_id(version: int) -> None:
    host = Host()
    (a,) = stable(host, "a")
    a.leave()
    assert error_of(host, version=version) is NONE
    assert error_of(host, version=version, member_id="anybody") is NONE


def test_an_empty_group_knows_no_generation() -> None:
    host = Host()
    (a,) = stable(host, "a")
    a.leave()
    assert error_of(host, generation=5, member_id=a.member_id) is UNKNOWN
    assert error_of(host, generation=5) is UNKNOWN


@pytest.mark.parametrize("version", VERSIONS)
def test_a_member_commits_in_its_generation(version: int) -> None:
    host = Host()
    (a,) = stable(host, "a")
    assert a.commit({PLACE: 5}, version=version) is NONE
    assert a.commit({PLACE: 6}, version=version, generation=0) is ILLEGAL
    assert a.commit({PLACE: 6}, version=version, generation=2) is ILLEGAL
    assert a.commit({PLACE: 6}, version=version, generation=-1) is ILLEGAL
    a.member_id = "stranger"
    assert a.commit({PLACE: 6}, version=version) is UNKNOWN
    assert fetch(host, "g") == {PLACE: 5}


@pytest.mark.parametrize("version", VERSIONS)
def test_nobody_in_particular_cannot_commit_while_there_are_members(version: int) -> None:
    host = Host()
    stable(host, "a")
    assert error_of(host, version=version) is UNKNOWN


def test_a_pending_id_cannot_commit() -> None:
    host = Host()
    stable(host, "a")
    pending = Member(host)
    pending.member_id = pending.ask_to_join().answer.member_id
    assert error_of(host, member_id=pending.member_id, generation=1) is UNKNOWN


@pytest.mark.parametrize("version", range(7, 11))
def test_instances_are_checked(version: int) -> None:
    host = Host()
    one, two = static_members(host, "one", "two")
    assert one.commit({PLACE: 5}, version=version) is NONE
    one.instance_id = "two"
    assert one.commit({PLACE: 5}, version=version) is ErrorCode.FENCED_INSTANCE_ID
    one.instance_id = "ghost"
    assert one.commit({PLACE: 5}, version=version) is UNKNOWN
    assert error_of(host, version=version, instance_id="ghost") is UNKNOWN
    assert error_of(host, version=version, instance_id="two") is ErrorCode.FENCED_INSTANCE_ID
    assert two.commit({PLACE: 6}, version=version) is NONE


def test_while_the_leader_assigns_there_is_a_rebalance_in_progress() -> None:
    host = Host()
    a, _ = joined(host, "a", "b")
    assert a.commit({PLACE: 5}) is ErrorCode.REBALANCE_IN_PROGRESS
    assert a.commit({PLACE: 5}, generation=0) is ILLEGAL  # told first
    assert error_of(host) is UNKNOWN
    assert fetch(host, "g") == {}


def test_during_the_join_phase_the_old_generation_can_still_commit() -> None:
    host = Host()
    a, b = stable(host, "a", "b")
    a.join()
    assert b.commit({PLACE: 5}) is NONE
    assert error_of(host) is UNKNOWN
    assert fetch(host, "g") == {PLACE: 5}


# --- what is stored


def test_metadata_is_measured_in_utf_16_code_units() -> None:
    host = Host()
    assert errors_of(commit(host, "g", {PLACE: 1}, metadata="é" * 4096))[PLACE] is NONE
    assert errors_of(commit(host, "g", {PLACE: 2}, metadata="é" * 4097))[PLACE] is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert errors_of(commit(host, "g", {PLACE: 3}, metadata="\U0001f600" * 2048))[PLACE] is NONE
    assert errors_of(commit(host, "g", {PLACE: 4}, metadata="\U0001f600" * 2048 + "x"))[PLACE] == 12
    assert fetch(host, "g") == {PLACE: 3}


def test_metadata_that_is_too_long_fails_alone() -> None:
    host = Host(offset_metadata_max_bytes=4)
    rows = [
        OffsetCommitRequestPartition(0, 1, -1, "12345"),
        OffsetCommitRequestPartition(1, 2, -1, "1234"),
    ]
    request = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("orders", partitions=rows)])
    assert errors_of(host.send(request, 9)) == {PLACE: ErrorCode.OFFSET_METADATA_TOO_LARGE, ("orders", 1): NONE}
    assert fetch(host, "g") == {("orders", 1): 2}


def test_null_metadata_is_stored_as_empty() -> None:
    host = Host()
    commit(host, "g", {PLACE: 1}, metadata=None)
    assert fetched(send_fetch(host, "g"))[PLACE].metadata == ""


@pytest.mark.parametrize("offset", [-5, -1, 0, 2**63 - 1])
def test_the_offset_itself_is_not_checked(offset: int) -> None:
    host = Host()
    commit(host, "g", {PLACE: offset})
    assert fetch(host, "g") == {PLACE: offset}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_leader_epoch_is_kept_from_version_6_on(version: int) -> None:
    host = Host()
    commit(host, "g", {PLACE: 1}, version=version, leader_epoch=7, metadata="note")
    stored = fetched(send_fetch(host, "g"))[PLACE]
    assert (stored.committed_leader_epoch, stored.metadata) == (7 if version >= 6 else -1, "note")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_record_is_kafkas_with_the_brokers_clock_and_the_topic_id(version: int) -> None:
    host = Host()
    host.advance(1_234)
    commit(host, "g", {PLACE: 5}, version=version)
    ((kind, key, value),) = host.records_of("g")
    assert (kind, key.group, key.topic, key.partition) == (1, "g", "orders", 0)
    assert (value.offset, value.commit_timestamp, value.expire_timestamp) == (5, host.now, -1)
    assert value.topic_id == host.topics.topic_id("orders")
    assert host.log_of("g")[0].value[:2] == b"\x00\x04"  # type: ignore[index]


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize("retention_time_ms", [0, 1, 60_000, -2])
def test_a_retention_time_is_stored_as_an_expiry_with_value_version_1(version: int, retention_time_ms: int) -> None:
    host = Host()
    commit(host, "g", {PLACE: 5}, version=version, retention_time_ms=retention_time_ms)
    ((_, _, value),) = host.records_of("g")
    assert value.expire_timestamp == host.now + retention_time_ms
    assert host.log_of("g")[0].value[:2] == b"\x00\x01"  # type: ignore[index]


def test_a_retention_time_that_means_forever_is_no_date_in_the_past() -> None:
    host = Host()
    assert errors_of(commit(host, "g", {PLACE: 5}, version=3, retention_time_ms=2**63 - 1)) == {PLACE: NONE}
    assert host.records_of("g")[0][2].expire_timestamp == 2**63 - 1
    host.advance(100 * 365 * 86_400_000)
    host.expire_offsets()
    assert fetch(host, "g") == {PLACE: 5}


@pytest.mark.parametrize("version", [2, 3, 4])
def test_no_retention_time_is_the_default(version: int) -> None:
    host = Host()
    commit(host, "g", {PLACE: 5}, version=version, retention_time_ms=-1)
    assert host.records_of("g")[0][2].expire_timestamp == -1


def test_the_answer_waits_for_the_disk() -> None:
    host = Host()
    host.disk.is_slow = True
    call = commit(host, "g", {PLACE: 5})
    assert not call.is_answered
    host.disk_catches_up()
    assert errors_of(call) == {PLACE: NONE}


def test_commits_of_one_turn_share_a_batch_and_the_later_one_wins() -> None:
    host = Host()
    host.disk.is_slow = True
    for n in range(3):
        commit(host, "g", {PLACE: n, ("orders", n + 1): n})
    host.disk_catches_up()
    host.crash()
    assert fetch(host, "g") == {PLACE: 2, ("orders", 1): 0, ("orders", 2): 1, ("orders", 3): 2}


def test_who_committed_stands_in_the_record_headers_unless_turned_off() -> None:
    host = Host()
    (a,) = stable(host, "a")
    a.commit({PLACE: 5})
    assert dict(host.log_of("g")[-1].headers) == {
        b"kohort.member": a.member_id.encode(),
        b"kohort.generation": b"1",
    }
    host = Host(audit_headers=False)
    commit(host, "g", {PLACE: 5})
    assert host.log_of("g")[-1].headers == ()
