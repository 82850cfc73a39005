"""OffsetFetch: where to go on, in the shape of each version."""

import pytest

from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tests.coordinator.members import commit, fetch, fetched, joined, send_fetch, stable
from tests.coordinator.support import Host

VERSIONS = range(1, 11)
BY_NAME = range(1, 10)
PLACE = ("orders", 0)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_unknown_group_is_no_error(version: int) -> None:
    host = Host()
    (answer,) = fetched(send_fetch(host, "ghost", [PLACE], version=version)).values()
    assert (answer.committed_offset, answer.committed_leader_epoch) == (-1, -1)
    assert (answer.metadata, answer.error_code) == ("", 0)
    if version >= 2:
        assert fetch(host, "ghost", version=version) == {}
    assert host.list_groups() == []


@pytest.mark.parametrize("version", VERSIONS)
def test_what_was_committed_comes_back(version: int) -> None:
    host = Host()
    commit(host, "g", {PLACE: 5}, leader_epoch=3, metadata="note")
    (answer,) = fetched(send_fetch(host, "g", [PLACE], version=version)).values()
    assert (answer.committed_offset, answer.metadata, answer.error_code) == (5, "note", 0)
    assert answer.committed_leader_epoch == (3 if version >= 5 else -1)


def test_the_empty_group_id_is_allowed() -> None:
    host = Host()
    commit(host, "", {PLACE: 5})
    assert fetch(host, "", [PLACE]) == {PLACE: 5}


@pytest.mark.parametrize("version", BY_NAME)
def test_unknown_topics_and_partitions_are_no_errors(version: int) -> None:
    host = Host()
    commit(host, "g", {PLACE: 5})
    places = [PLACE, ("orders", 99), ("ghost", 0)]
    answers = fetched(send_fetch(host, "g", places, version=version))
    assert {place: (each.committed_offset, each.error_code) for place, each in answers.items()} == {
        PLACE: (5, 0),
        ("orders", 99): (-1, 0),
        ("ghost", 0): (-1, 0),
    }


def test_in_version_10_an_unknown_topic_id_is_an_error_of_its_partitions() -> None:
    host = Host()
    commit(host, "g", {PLACE: 5})
    call = send_fetch(host, "g", [PLACE, ("ghost", 4)], version=10, topic_ids={"ghost": b"?" * 16})
    (known, unknown) = call.answer.groups[0].topics
    assert (known.topic_id, known.partitions[0].committed_offset) == (host.topics.topic_id("orders"), 5)
    assert (unknown.topic_id, unknown.partitions[0].error_code) == (b"?" * 16, ErrorCode.UNKNOWN_TOPIC_ID)
    assert unknown.partitions[0].committed_offset == -1


def test_in_version_10_an_offset_of_an_earlier_topic_of_that_name_is_absent() -> None:
    host = Host()
    commit(host, "g", {PLACE: 5})
    host.topics.delete("orders")
    host.topics.create("orders", 12)
    assert fetch(host, "g", [PLACE], version=10) == {PLACE: -1}
    assert fetch(host, "g", [PLACE], version=9) == {PLACE: 5}


def test_in_version_10_all_topics_leaves_out_those_without_an_id() -> None:
    host = Host()
    commit(host, "g", {PLACE: 5, ("payments", 1): 6})
    host.topics.delete("payments")
    assert fetch(host, "g", version=10) == {PLACE: 5}
    assert fetch(host, "g", version=9) == {PLACE: 5, ("payments", 1): 6}


@pytest.mark.parametrize("version", range(2, 11))
def test_null_asks_for_all_topics_and_an_empty_list_for_none(version: int) -> None:
    host = Host()
    commit(host, "g", {PLACE: 5, ("payments", 1): 6})
    assert fetch(host, "g", version=version) == {PLACE: 5, ("payments", 1): 6}
    assert fetch(host, "g", [], version=version) == {}


@pytest.mark.parametrize("version", range(8, 11))
def test_several_groups_are_answered_in_the_order_of_the_request(version: int) -> None:
    host = Host()
    commit(host, "one", {PLACE: 1})
    commit(host, "two", {("payments", 2): 2})
    groups = [OffsetFetchRequestGroup(group, topics=None) for group in ("two", "ghost", "one")]
    answer = host.ask(OffsetFetchRequest(groups=groups), version)
    assert [group.group_id for group in answer.groups] == ["two", "ghost", "one"]
    offsets = [[p.committed_offset for t in group.topics for p in t.partitions] for group in answer.groups]
    assert offsets == [[2], [], [1]]


@pytest.mark.parametrize("version", [9, 10])
def test_classic_groups_do_not_look_at_member_id_and_epoch(version: int) -> None:
    host = Host()
    (a,) = stable(host, "a")
    a.commit({PLACE: 5})
    assert fetch(host, "g", [PLACE], version=version, member_id="stranger", member_epoch=77) == {PLACE: 5}


def test_offsets_can_be_fetched_in_every_state() -> None:
    host = Host()
    commit(host, "g", {PLACE: 5})
    assert fetch(host, "g") == {PLACE: 5}  # Empty
    a, b = joined(host, "a", "b")
    assert fetch(host, "g") == {PLACE: 5}  # CompletingRebalance
    a.sync({})
    b.sync()
    assert fetch(host, "g") == {PLACE: 5}  # Stable
    a.join()
    assert fetch(host, "g") == {PLACE: 5}  # PreparingRebalance


@pytest.mark.parametrize("require_stable", [True, False])
def test_a_commit_that_is_being_written_is_waited_for(require_stable: bool) -> None:
    host = Host()
    host.disk.is_slow = True
    commit(host, "g", {PLACE: 5})
    call = send_fetch(host, "g", [PLACE], require_stable=require_stable)
    assert not call.is_answered
    host.disk_catches_up()
    assert fetched(call)[PLACE].committed_offset == 5


def test_a_fetch_of_groups_in_several_partitions_waits_for_all_of_them() -> None:
    host = Host()
    host.disk.is_slow = True
    commit(host, "g1", {PLACE: 1})
    commit(host, "g2", {PLACE: 2})
    asked = [OffsetFetchRequestTopics("orders", partition_indexes=[0])]
    call = host.send(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(g, topics=asked) for g in ("g1", "g2")]), 9)
    host.write_one()
    host.settle()
    assert not call.is_answered
    host.disk_catches_up()
    assert [group.topics[0].partitions[0].committed_offset for group in call.answer.groups] == [1, 2]
