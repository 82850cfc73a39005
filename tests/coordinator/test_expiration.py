"""Which offsets expire, counted from when; groups that are left with nothing; topics that are deleted (KIP-211)."""

from typing import Any

import pytest

from kohort.protocol.error_codes import ErrorCode
from tests.coordinator.members import Member, commit, fetch, joined, protocols, stable
from tests.coordinator.support import Host
from tests.group_requests import subscription

RETENTION_MS = 604_800_000  # seven days
ORDERS, PAYMENTS = ("orders", 0), ("payments", 0)


def wait(host: Host, ms: int, *alive: Member) -> None:
    """With `alive`: in steps in which they heartbeat."""
    target = host.now + ms
    while alive and host.now < target - 9_000_000:
        host.advance(9_000_000)
        for member in alive:
            assert member.heartbeat() is ErrorCode.NONE
    host.advance(target - host.now)


LONG: dict[str, Any] = {"session_timeout_ms": 10_000_000}


@pytest.fixture
def host() -> Host:
    return Host(max_session_timeout_ms=100_000_000)


def test_offsets_of_a_simple_group_expire_each_after_its_own_commit(host: Host) -> None:
    commit(host, "g", {ORDERS: 1})
    host.advance(1_000)
    commit(host, "g", {PAYMENTS: 2})
    host.advance(RETENTION_MS - 1_001)
    host.expire_offsets()
    assert fetch(host, "g") == {ORDERS: 1, PAYMENTS: 2}
    host.advance(1)
    host.expire_offsets()
    assert fetch(host, "g") == {PAYMENTS: 2}
    assert host.state("g") == "Empty"
    host.advance(1_000)
    host.expire_offsets()
    assert host.list_groups() == []


def test_offsets_of_an_emptied_group_expire_counted_from_when_it_became_empty(host: Host) -> None:
    (a,) = stable(host, "a", **LONG)
    a.commit({ORDERS: 1})
    wait(host, RETENTION_MS, a)
    a.leave()
    host.advance(RETENTION_MS - 1)
    host.expire_offsets()
    assert fetch(host, "g") == {ORDERS: 1}
    host.advance(1)
    host.expire_offsets()
    assert host.list_groups() == []


def test_that_time_survives_a_restart(host: Host) -> None:
    (a,) = stable(host, "a")
    a.commit({ORDERS: 1})
    a.leave()
    host.advance(RETENTION_MS - 1)
    host.crash()
    host.expire_offsets()
    assert fetch(host, "g") == {ORDERS: 1}
    host.advance(1)
    host.expire_offsets()
    assert host.list_groups() == []


def test_if_that_time_is_unknown_each_commit_counts(host: Host) -> None:
    (a,) = stable(host, "a")
    a.commit({ORDERS: 1})
    a.leave()
    host.classic("g").state_timestamp = -1  # as a value of version 0 or 1 leaves it
    host.advance(RETENTION_MS)
    host.expire_offsets()
    assert host.list_groups() == []


def test_of_stable_consumers_only_topics_that_nobody_subscribes_expire(host: Host) -> None:
    (a,) = stable(host, "a", **LONG)
    a.commit({ORDERS: 1, PAYMENTS: 2})
    wait(host, RETENTION_MS, a)
    host.expire_offsets()
    assert fetch(host, "g") == {ORDERS: 1}
    assert a.heartbeat() is ErrorCode.NONE


def test_of_consumers_whose_subscription_is_unknown_nothing_expires(host: Host) -> None:
    (a,) = stable(host, "a", protocols=[("range", b"?")], **LONG)
    a.commit({ORDERS: 1, PAYMENTS: 2})
    wait(host, RETENTION_MS, a)
    host.expire_offsets()
    assert fetch(host, "g") == {ORDERS: 1, PAYMENTS: 2}


def test_of_other_types_nothing_expires_while_there_are_members(host: Host) -> None:
    (a,) = stable(host, "a", protocol_type="connect", protocols=[("compatible", b"")], **LONG)
    a.commit({ORDERS: 1})
    wait(host, RETENTION_MS, a)
    host.expire_offsets()
    assert fetch(host, "g") == {ORDERS: 1}


def test_during_a_rebalance_nothing_expires(host: Host) -> None:
    a, b = stable(host, "a", "b", rebalance_timeout_ms=2_000_000_000, **LONG)
    a.commit({ORDERS: 1, PAYMENTS: 2})
    wait(host, RETENTION_MS, a, b)
    a.join()
    host.expire_offsets()  # PreparingRebalance
    assert fetch(host, "g") == {ORDERS: 1, PAYMENTS: 2}
    b.join()
    host.expire_offsets()  # CompletingRebalance
    assert fetch(host, "g") == {ORDERS: 1, PAYMENTS: 2}
    a.learn().sync({})
    host.expire_offsets()
    assert fetch(host, "g") == {ORDERS: 1}


def test_an_explicit_expiry_beats_everything(host: Host) -> None:
    commit(host, "g", {ORDERS: 1}, version=2, retention_time_ms=1_000)
    commit(host, "g", {PAYMENTS: 2}, version=2, retention_time_ms=RETENTION_MS * 2)
    host.advance(999)
    host.expire_offsets()
    assert fetch(host, "g") == {ORDERS: 1, PAYMENTS: 2}
    host.advance(1)
    host.expire_offsets()
    assert fetch(host, "g") == {PAYMENTS: 2}
    host.advance(RETENTION_MS * 2 - 1_001)
    host.expire_offsets()
    assert fetch(host, "g") == {PAYMENTS: 2}
    host.advance(1)
    host.expire_offsets()
    assert host.list_groups() == []


def test_the_retention_is_a_setting() -> None:
    host = Host(offsets_retention_ms=5_000)
    commit(host, "g", {ORDERS: 1})
    host.advance(5_000)
    host.expire_offsets()
    assert host.list_groups() == []


def test_an_empty_group_without_offsets_disappears_at_the_next_check(host: Host) -> None:
    (a,) = stable(host, "a")
    a.leave()
    host.expire_offsets()
    assert host.list_groups() == []
    assert host.records_of("g")[-1][::2] == (2, None)
    host.crash()
    assert host.list_groups() == []


def test_also_one_that_has_only_handed_out_ids(host: Host) -> None:
    # As Kafka does: whoever holds such an id is unknown afterwards, and comes again.
    member = Member(host)
    member.member_id = member.ask_to_join().answer.member_id
    host.expire_offsets()
    assert host.list_groups() == []
    assert member.ask_to_join().error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_with_members_stays_without_offsets(host: Host) -> None:
    stable(host, "a")
    host.expire_offsets()
    assert host.state("g") == "Stable"


def test_offset_tombstones_come_before_the_groups(host: Host) -> None:
    (a,) = stable(host, "a")
    a.commit({ORDERS: 1, PAYMENTS: 2})
    a.leave()
    host.advance(RETENTION_MS)
    host.expire_offsets()
    assert [(kind, value) for kind, _, value in host.records_of("g")[-3:]] == [(1, None), (1, None), (2, None)]


def test_expired_offsets_stay_gone_after_a_restart(host: Host) -> None:
    commit(host, "g", {ORDERS: 1})
    host.advance(RETENTION_MS)
    commit(host, "g", {PAYMENTS: 1})
    host.expire_offsets()
    host.crash()
    assert fetch(host, "g") == {PAYMENTS: 1}


def test_a_member_that_changes_its_subscription_lets_the_old_topics_offsets_expire(host: Host) -> None:
    (a,) = stable(host, "a", **LONG)
    a.commit({ORDERS: 1, PAYMENTS: 2})
    a.protocols = protocols("range", metadata=subscription("payments"))
    a.join()
    a.learn().sync({})
    wait(host, RETENTION_MS, a)
    host.expire_offsets()
    assert fetch(host, "g") == {PAYMENTS: 2}


# --- topics


def test_deleting_a_topic_forgets_its_offsets_in_all_groups_at_once(host: Host) -> None:
    commit(host, "one", {ORDERS: 1, PAYMENTS: 2})
    (a,) = stable(host, "a", group_id="two")
    a.commit({ORDERS: 3})
    host.delete_topic("orders")
    assert fetch(host, "one") == {PAYMENTS: 2}
    assert fetch(host, "two") == {}
    host.crash()
    assert fetch(host, "one") == {PAYMENTS: 2}
    assert host.state("two") == "Stable"


def test_an_offset_of_another_topic_of_that_name_stays(host: Host) -> None:
    commit(host, "g", {ORDERS: 1})
    host.topics.delete("orders")
    host.topics.create("orders", 12)
    host.delete_topic("orders")
    assert fetch(host, "g") == {ORDERS: 1}


def test_an_offset_without_a_topic_id_goes_with_the_name(host: Host) -> None:
    commit(host, "g", {ORDERS: 1}, version=2, retention_time_ms=1_000_000)  # value version 1 has no id
    host.delete_topic("orders")
    assert fetch(host, "g") == {}


def test_a_topic_deleted_while_a_shard_is_loading_is_forgotten_there_too(host: Host) -> None:
    commit(host, "g", {ORDERS: 1, PAYMENTS: 2})
    host.crash(load=False)
    host.delete_topic("orders")
    host.topics.create("orders", 12)
    host.delete_topic("orders")
    host.topics.create("orders", 12)
    host.load()
    assert fetch(host, "g") == {PAYMENTS: 2}
    commit(host, "g", {ORDERS: 3})
    host.crash()
    assert fetch(host, "g") == {ORDERS: 3, PAYMENTS: 2}


def test_a_topic_whose_tombstones_the_disk_refuses_is_forgotten_when_the_shard_is_back(host: Host) -> None:
    commit(host, "g", {ORDERS: 1, PAYMENTS: 2})
    host.disk.is_slow = True
    host.delete_topic("orders")
    host.disk_fails()
    host.topics.create("orders", 12)
    host.load()
    assert fetch(host, "g") == {PAYMENTS: 2}
    host.crash()
    assert fetch(host, "g") == {PAYMENTS: 2}


def test_a_deleted_topic_is_not_remembered_longer_than_needed(host: Host) -> None:
    commit(host, "g", {ORDERS: 1})
    host.delete_topic("orders")
    host.crash(load=False)
    host.delete_topic("payments")
    host.load()
    assert [shard.gone_topics for shard in host.runtime.shards] == [[] for _ in host.runtime.shards]


def test_joining_members_are_not_disturbed_by_the_check(host: Host) -> None:
    joined(host, "a", "b")
    host.expire_offsets()
    assert host.state("g") == "CompletingRebalance"
