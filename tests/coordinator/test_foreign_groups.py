"""Groups of newer protocols in logs that a real Kafka wrote: kept, shown, and not touched without need."""

from pathlib import Path
from typing import Any

import pytest

from kohort.coordinator.partitioner import partition_of
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.log_records import OFFSET_COMMIT, encode_value
from kohort.protocol.messages.log_offset_commit import OffsetCommitValue
from kohort.protocol.record_batch import build_batch
from tests.coordinator.members import Member, commit, delete_offsets, errors_of, fetch, stable
from tests.coordinator.support import START, FakeTopics, Host
from tests.coordinator.test_kafka_archives import ARCHIVES, load

A_YEAR_MS = 365 * 86_400_000
EMPTY, WITH_MEMBERS, SHARED = "modern-two", "modern-live", "share-one"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return load(ARCHIVES[0], tmp_path)[0]


def shown(host: Host, **filters: Any) -> dict[str, tuple[str, str, str]]:
    return {
        each.group_id: (each.protocol_type, each.group_state, each.group_type) for each in host.list_groups(**filters)
    }


@pytest.mark.parametrize("archive", ARCHIVES)
def test_every_group_is_listed_with_the_type_and_state_that_kafka_showed(archive: str, tmp_path: Path) -> None:
    host, state, _ = load(archive, tmp_path)
    theirs = {each["group"]: (each["protocol_type"], each["state"], each["type"]) for each in state["groups"]}
    assert shown(host) == theirs


def test_filters_find_them_by_type_and_state(host: Host) -> None:
    assert set(shown(host, types=["Share"])) == {SHARED}
    assert set(shown(host, types=["consumer"], states=["stable"])) == {WITH_MEMBERS, "modern-regex", "txn-modern"}
    assert WITH_MEMBERS not in shown(host, types=["classic"])


def test_nothing_of_them_expires_and_no_record_is_written_about_them(host: Host) -> None:
    before = {group: fetch(host, group) for group in shown(host, types=["share"])}
    records = {group: len(host.log_of(group)) for group in before}
    host.advance(A_YEAR_MS)
    host.expire_offsets()
    assert {group: fetch(host, group) for group in before} == before
    for group, count in records.items():
        new = host.log_of(group)[count:]
        assert not [record for record in new if group.encode() in (record.key or b"")], group


def test_nobody_joins_them_with_join_group(host: Host) -> None:
    assert Member(host, SHARED).ask_to_join().error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert SHARED in shown(host, types=["share"])


def test_an_empty_consumer_group_makes_room_for_a_classic_one(host: Host) -> None:
    offsets = fetch(host, EMPTY)
    (member,) = stable(host, "a", group_id=EMPTY)
    assert shown(host)[EMPTY] == ("consumer", "Stable", "classic")
    assert fetch(host, EMPTY) == offsets
    host.crash()
    assert shown(host)[EMPTY] == ("consumer", "Stable", "classic")
    assert member.heartbeat() is ErrorCode.NONE


def test_commits_by_nobody_go_to_an_empty_consumer_group_only(host: Host) -> None:
    place = ("orders", 0)
    assert errors_of(commit(host, EMPTY, {place: 77}))[place] is ErrorCode.NONE
    assert errors_of(commit(host, WITH_MEMBERS, {place: 77}))[place] is ErrorCode.UNKNOWN_MEMBER_ID
    assert errors_of(commit(host, SHARED, {place: 77}))[place] is ErrorCode.GROUP_ID_NOT_FOUND
    host.crash()
    assert fetch(host, EMPTY)[place] == 77
    assert shown(host)[EMPTY][2] == "consumer"


def test_offsets_are_deleted_only_while_nobody_consumes(host: Host) -> None:
    assert delete_offsets(host, SHARED, ("orders", 0)).error is ErrorCode.GROUP_ID_NOT_FOUND
    (refused,) = delete_offsets(host, WITH_MEMBERS, ("orders", 0)).answer.topics[0].partitions
    assert refused.error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    place = next(iter(fetch(host, EMPTY)))
    (done,) = delete_offsets(host, EMPTY, place).answer.topics[0].partitions
    assert done.error_code == ErrorCode.NONE
    assert place not in fetch(host, EMPTY)


def test_a_streams_group_is_kept_too() -> None:
    host = Host(topics=FakeTopics(orders=12), load=False)
    group = b"\0\x05gamma"
    records = [
        (b"\0\1" + group + b"\0\x06orders" + bytes(4), offset_value(55)),
        (b"\0\x11" + group, b"\0\0anything"),
        (b"\0\x13" + group + b"\0\1m", b"\0\0anything"),
    ]
    host.disk.batches[partition_of("gamma", 50)] = [build_batch(records, timestamp=START)]
    host.load()
    assert shown(host) == {"gamma": ("streams", "Unknown", "streams")}
    assert fetch(host, "gamma") == {("orders", 0): 55}
    assert Member(host, "gamma").ask_to_join().error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    host.advance(A_YEAR_MS)
    host.expire_offsets()
    assert fetch(host, "gamma") == {("orders", 0): 55}
    assert host.delete("gamma") == {"gamma": ErrorCode.NON_EMPTY_GROUP}


def test_a_group_whose_log_changes_its_kind_without_tombstones_is_of_the_newer_kind_and_can_be_deleted() -> None:
    host = Host(topics=FakeTopics(orders=12), load=False)
    group = b"\0\x05gamma"
    epoch = b"\0\0\0\0\0\1\0"
    records = [(b"\0\x11" + group, b"\0\0anything"), (b"\0\3" + group, epoch), (b"\0\x11" + group, None)]
    host.disk.batches[partition_of("gamma", 50)] = [build_batch(records, timestamp=START)]
    host.load()
    assert shown(host) == {"gamma": ("consumer", "Empty", "consumer")}
    assert host.delete("gamma") == {"gamma": ErrorCode.NONE}
    assert shown(host) == {}


def offset_value(offset: int) -> bytes:
    return encode_value(OFFSET_COMMIT, OffsetCommitValue(offset, -1, "", START))


def test_an_empty_consumer_group_is_deleted_with_all_its_records(host: Host) -> None:
    assert host.delete(EMPTY, WITH_MEMBERS, SHARED) == {
        EMPTY: ErrorCode.NONE,
        WITH_MEMBERS: ErrorCode.NON_EMPTY_GROUP,
        SHARED: ErrorCode.NONE,
    }
    for _ in range(2):
        assert EMPTY not in shown(host)
        assert fetch(host, EMPTY) == {}
        assert WITH_MEMBERS in shown(host)
        assert SHARED not in shown(host)
        host.crash()
