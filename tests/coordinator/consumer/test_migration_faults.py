"""A conversion is in the log as a whole or not at all, whatever happens to the disk."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.group import Group as AnyGroup
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.record_batch import Record, build_batch, read_records
from tests.coordinator.consumer.migrants import ClassicMember, a_classic_group, a_mixed_group, settle, share
from tests.coordinator.consumer.words import Answer, Group, a_group
from tests.coordinator.members import NONE, fetch
from tests.coordinator.support import Host

FAILED = ErrorCode.NOT_COORDINATOR
REBALANCE = ErrorCode.REBALANCE_IN_PROGRESS


def the_group(group: Group) -> AnyGroup:
    return group.host.state_of(group.group_id).groups[group.group_id]


def upgraded() -> Group:
    group, _ = a_classic_group("a", "b", partitions=6)
    group.join("new")
    return group


def downgraded() -> Group:
    group, _ = a_mixed_group("a", "b", partitions=6)
    group.leave("new")
    return group


def downgraded_by_a_static_member() -> Group:
    group = a_group(partitions=4)
    group.join("new", instance_id="one")
    ClassicMember(group, "one", instance_id="one").join()
    return group


def rolled_over_and_back() -> Group:
    group, (a, b) = a_classic_group("a", "b", partitions=6)
    group.join("c")
    settle(group, [a, b], "c")
    a.leave()
    settle(group, [b], "c")
    group.leave("c")
    assert b.heartbeat(group.host.classic(group.group_id).generation) is REBALANCE
    b.say()
    b.join()
    share([b], 6)
    group.join("d")
    return group


@pytest.mark.parametrize("story", [upgraded, downgraded, downgraded_by_a_static_member, rolled_over_and_back])
def test_a_log_that_ends_after_any_batch_holds_a_whole_group(story: Callable[[], Group]) -> None:
    group = story()
    partition = group.host.shard_of(group.group_id).partition
    batches = list(group.host.disk.batches[partition])
    kinds = []
    for count in range(len(batches) + 1):
        host = Host(topics=group.host.topics, load=False)
        host.disk.batches[partition] = batches[:count]
        host.load()
        kinds.append(check_whole(host, group.group_id))
    assert {ClassicGroup, ConsumerGroup} <= set(kinds)


def check_whole(host: Host, group_id: str) -> type | None:
    """The group that was loaded: no member or partition of it is half there."""
    group = host.state_of(group_id).groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        assert group.assignment_epoch <= group.epoch
        holders: dict[tuple[bytes, int], str] = {}
        for member_id, member in group.members.items():
            assert member_id in group.targets, "every member has a target"
            assert member.client_id, "every member has said who it is"
            assert 0 <= member.epoch <= group.epoch
            for owned in (member.assigned, member.pending_revocation):
                for topic_id, partitions in owned.items():
                    for partition in partitions:
                        assert holders.setdefault((topic_id, partition), member_id) == member_id
    elif isinstance(group, ClassicGroup):
        assert group.state_name in ("Empty", "Stable")
        for each in group.members.values():
            assert each.metadata(group.protocol_name)
    return type(group) if group is not None else None


@pytest.mark.parametrize("with_tombstones", [True, False])
@pytest.mark.parametrize("story", [upgraded, downgraded, downgraded_by_a_static_member, rolled_over_and_back])
def test_a_compacted_log_holds_the_same_group(story: Callable[[], Group], with_tombstones: bool) -> None:
    """The last record of each key is left; tombstones go some time later."""
    group = story()
    partition = group.host.shard_of(group.group_id).partition
    group.host.crash()
    latest: dict[bytes | None, Record] = {}
    for batch in group.host.disk.batches[partition]:
        for record in read_records(batch):
            latest.pop(record.key, None)
            latest[record.key] = record
    left = [(each.key, each.value) for each in latest.values() if with_tombstones or each.value is not None]
    host = Host(topics=group.host.topics, load=False)
    host.disk.batches[partition] = [build_batch(left, timestamp=host.now)]
    host.load()
    assert described(host, group.group_id) == described(group.host, group.group_id)


def described(host: Host, group_id: str) -> tuple[str, str]:
    """By both APIs, of which one says that the group is not one of its kind."""
    return repr(Group(host, group_id).describe()), repr(host.describe(group_id))


def test_an_upgrade_that_is_not_written_leaves_the_classic_group() -> None:
    group, (a, b) = a_classic_group("a", "b")
    assert a.commit({("orders", 0): 5}) is NONE
    group.host.disk.is_slow = True
    call = group.send("new", 0, {}, subscribed_topic_names=["orders"], rebalance_timeout_ms=60_000)
    assert isinstance(the_group(group), ConsumerGroup)
    assert not call.is_answered
    group.host.disk_fails()
    assert call.error is FAILED
    group.host.load()
    assert isinstance(the_group(group), ClassicGroup)
    assert (a.heartbeat(), b.heartbeat()) == (NONE, NONE)
    assert fetch(group.host, group.group_id) == {("orders", 0): 5}
    assert isinstance(group.join("new"), Answer)


def test_joins_that_were_parked_are_told_to_look_for_their_coordinator_when_an_upgrade_is_not_written() -> None:
    group, (a, _) = a_classic_group("a", "b")
    parked = a.ask_to_join()
    group.host.disk.is_slow = True
    group.send("new", 0, {}, subscribed_topic_names=["orders"], rebalance_timeout_ms=60_000)
    assert not parked.is_answered
    group.host.disk_fails()
    assert parked.error is FAILED


def test_a_downgrade_that_is_not_written_leaves_the_consumer_group() -> None:
    group, (a,) = a_mixed_group("a")
    group.host.disk.is_slow = True
    call = group.send("new", -1)
    assert isinstance(the_group(group), ClassicGroup)
    waiting = a.send_heartbeat()
    group.host.disk_fails()
    assert (call.error, waiting.error) == (FAILED, FAILED)
    group.host.load()
    assert isinstance(the_group(group), ConsumerGroup)
    assert group.beat("new", 2) == Answer(2, None)
    assert a.heartbeat() is NONE


def test_a_static_downgrade_that_is_not_written_leaves_the_consumer_group() -> None:
    group = a_group(partitions=4)
    group.join("new", instance_id="one")
    group.host.disk.is_slow = True
    call = ClassicMember(group, "one", instance_id="one").join()
    group.host.disk_fails()
    assert call.error is FAILED
    group.host.load()
    assert group.beat("new", 2, instance_id="one") == Answer(2, None)


def test_a_session_that_ends_in_a_downgrade_that_is_not_written_ends_again() -> None:
    group, (a,) = a_mixed_group("a")
    group.host.disk.is_slow = True
    for _ in range(9):
        group.host.advance(5_000)
        a.send_heartbeat()
    assert isinstance(the_group(group), ClassicGroup)
    group.host.disk_fails()
    group.host.load()
    assert isinstance(the_group(group), ConsumerGroup)
    for _ in range(9):
        group.host.advance(5_000)
        a.heartbeat()
    assert isinstance(the_group(group), ClassicGroup)


def test_the_answer_to_a_join_that_changes_nothing_waits_for_what_it_rests_on() -> None:
    group = a_group(partitions=4)
    group.join("new")
    group.host.advance(1_000)
    a = ClassicMember(group, "a")
    a.member_id = "a"
    group.host.disk.is_slow = True
    first = a.ask_to_join()
    second = a.ask_to_join()
    assert not second.is_answered
    group.host.disk_catches_up()
    assert (first.error, second.error) == (NONE, NONE)
    assert second.answer.generation_id == 3


def test_a_migrating_group_goes_on_after_a_crash() -> None:
    group, (a, b) = a_classic_group("a", "b", partitions=6)
    group.join("new")
    a.rejoin()
    group.host.crash()
    assert group.describe().group_state == "Reconciling"
    settle(group, [a, b], "new")


def test_a_group_that_was_downgraded_goes_on_after_a_crash() -> None:
    group, (a,) = a_mixed_group("a")
    group.leave("new")
    group.host.crash()
    assert group.host.state(group.group_id) == "Stable"  # nobody remembers the rebalance that had begun
    assert a.heartbeat() is NONE
    a.say()
    assert a.join().answer.generation_id == 3
