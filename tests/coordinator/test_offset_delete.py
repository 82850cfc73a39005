"""OffsetDelete: offsets of topics that the group does not consume."""

import pytest

from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from tests.coordinator.members import (
    Member,
    commit,
    delete_offsets,
    errors_of,
    fetch,
    joined,
    protocols,
    stable,
)
from tests.coordinator.support import Host
from tests.group_requests import subscription

NONE = ErrorCode.NONE
SUBSCRIBED = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
ORDERS, PAYMENTS = ("orders", 0), ("payments", 0)


def test_an_empty_group_id_is_invalid_and_an_unknown_group_not_found() -> None:
    host = Host()
    assert delete_offsets(host, "", ORDERS).answer == OffsetDeleteResponse(ErrorCode.INVALID_GROUP_ID, 0, [])
    assert delete_offsets(host, "g", ORDERS).answer == OffsetDeleteResponse(ErrorCode.GROUP_ID_NOT_FOUND, 0, [])
    # Measured on Kafka 4.3.1: also if there is nothing that exists to be deleted
    assert delete_offsets(host, "g", ("ghost", 0)).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert host.ask(OffsetDeleteRequest("g", []), 0).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_unknown_topics_and_partitions_fail_alone_and_stand_first() -> None:
    host = Host()
    commit(host, "g", {ORDERS: 1, ("orders", 1): 2})
    call = delete_offsets(host, "g", ORDERS, ("orders", 77), ("ghost", 0), ("orders", 1), PAYMENTS)
    # The order was measured on Kafka 4.3.1.
    assert list(errors_of(call).items()) == [
        (("orders", 77), 3),
        (ORDERS, 0),
        (("orders", 1), 0),
        (("ghost", 0), 3),
        (PAYMENTS, 0),
    ]
    assert fetch(host, "g") == {}


def test_only_offsets_that_exist_get_a_tombstone() -> None:
    host = Host()
    commit(host, "g", {ORDERS: 1})
    delete_offsets(host, "g", ORDERS, ("orders", 1), PAYMENTS)
    assert [(kind, key.topic, key.partition, value) for kind, key, value in host.records_of("g")[1:]] == [
        (1, "orders", 0, None)
    ]
    host.crash()
    assert fetch(host, "g") == {}


def test_a_topic_that_is_named_twice_is_answered_in_full() -> None:
    host = Host()
    commit(host, "g", {("orders", 0): 1, ("orders", 1): 1})
    asked = [(name, OffsetDeleteRequestPartition(index)) for name, index in (("no", 0), ("no", 1), ("orders", 99))]
    asked += [("orders", OffsetDeleteRequestPartition(index)) for index in (0, 98, 1)]
    call = host.send(OffsetDeleteRequest("g", [OffsetDeleteRequestTopic(name, [row]) for name, row in asked]))
    assert [(t.name, [(p.partition_index, p.error_code) for p in t.partitions]) for t in call.answer.topics] == [
        ("no", [(0, 3), (1, 3)]),
        ("orders", [(99, 3), (98, 3), (0, 0), (1, 0)]),
    ]


def test_what_somebody_else_is_deleting_is_not_said_to_be_gone_before_it_is() -> None:
    host = Host()
    commit(host, "g", {("orders", 0): 1})
    host.disk.is_slow = True
    first, second = delete_offsets(host, "g", ("orders", 0)), delete_offsets(host, "g", ("orders", 0))
    assert (first.is_answered, second.is_answered) == (False, False)
    host.disk_fails()
    assert (first.error, second.error) == (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR)
    host.load()
    assert fetch(host, "g") == {("orders", 0): 1}


def test_the_answer_waits_for_the_disk() -> None:
    host = Host()
    commit(host, "g", {ORDERS: 1})
    host.disk.is_slow = True
    call = delete_offsets(host, "g", ORDERS)
    assert not call.is_answered
    host.disk_catches_up()
    assert call.error is NONE


def test_topics_that_the_group_consumes_are_refused() -> None:
    host = Host()
    (a,) = stable(host, "a")
    a.commit({ORDERS: 1, PAYMENTS: 2})
    assert errors_of(delete_offsets(host, "g", ORDERS, PAYMENTS)) == {ORDERS: SUBSCRIBED, PAYMENTS: NONE}
    assert fetch(host, "g") == {ORDERS: 1}


def test_everyones_subscription_counts() -> None:
    host = Host()
    a = Member(host, name="a")
    b = Member(host, name="b", protocols=protocols("range", metadata=subscription("payments")))
    a.join()
    b.join()
    host.advance(6_000)
    assert set(errors_of(delete_offsets(host, "g", ORDERS, PAYMENTS)).values()) == {SUBSCRIBED}


def test_an_empty_group_consumes_nothing() -> None:
    host = Host()
    (a,) = stable(host, "a")
    a.commit({ORDERS: 1})
    a.leave()
    assert errors_of(delete_offsets(host, "g", ORDERS)) == {ORDERS: NONE}


def test_a_group_with_members_that_are_no_consumers_is_not_empty() -> None:
    host = Host()
    worker = Member(host, protocol_type="connect", protocols=[("compatible", b"")])
    worker.join()
    for _ in range(3):  # PreparingRebalance, CompletingRebalance, Stable
        answer = delete_offsets(host, "g", ORDERS, ("ghost", 0)).answer
        assert answer == OffsetDeleteResponse(ErrorCode.NON_EMPTY_GROUP, 0, [])
        host.advance(3_000)
        worker.learn().sync({})
    worker.leave()
    assert delete_offsets(host, "g", ORDERS).error is NONE


def test_before_a_first_protocol_is_chosen_a_consumer_group_consumes_everything() -> None:
    # Measured on Kafka 4.3.1.
    host = Host()
    Member(host).join()
    assert host.state("g") == "PreparingRebalance"
    assert set(errors_of(delete_offsets(host, "g", ORDERS, PAYMENTS)).values()) == {SUBSCRIBED}


def test_in_a_later_join_phase_the_last_subscription_counts() -> None:
    # Measured on Kafka 4.3.1: that of the empty group is empty.
    host = Host()
    (a,) = joined(host, "a")
    assert errors_of(delete_offsets(host, "g", ORDERS, PAYMENTS)) == {ORDERS: SUBSCRIBED, PAYMENTS: NONE}
    a.leave()
    Member(host).join()
    assert host.state("g") == "PreparingRebalance"
    assert set(errors_of(delete_offsets(host, "g", ORDERS, PAYMENTS)).values()) == {NONE}


@pytest.mark.parametrize(
    ("metadata", "consumed"),
    [
        (subscription("orders", version=3), [ORDERS]),  # without the fields that version 3 adds
        (subscription("orders", version=-2), [ORDERS]),
        (subscription("orders", version=99), [ORDERS]),
        (subscription("orders")[:-2], [ORDERS, PAYMENTS]),
        (b"", [ORDERS, PAYMENTS]),
        (b"\x00", [ORDERS, PAYMENTS]),
    ],
)
def test_a_subscription_is_read_as_version_0_and_what_ends_early_means_everything(
    metadata: bytes, consumed: list[tuple[str, int]]
) -> None:
    # Measured on Kafka 4.3.1.
    host = Host()
    joined(host, "a", protocols=[("range", metadata)])
    errors = errors_of(delete_offsets(host, "g", ORDERS, PAYMENTS))
    assert [place for place, error in errors.items() if error] == consumed


def test_after_a_restart_the_subscription_is_known_from_the_log() -> None:
    host = Host()
    (a,) = stable(host, "a")
    a.commit({PAYMENTS: 2})
    host.crash()
    assert errors_of(delete_offsets(host, "g", ORDERS, PAYMENTS)) == {ORDERS: SUBSCRIBED, PAYMENTS: NONE}
