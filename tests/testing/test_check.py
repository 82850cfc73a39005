"""`kafka.check()`: the audit's rules over what a test has left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from kohort.testing import Broker
from kohort.testing.check import CheckFailed
from kohort.testing.names import UnknownName
from tests.testing.workers import ConfluentWorker, working


def commit(kafka: Broker, *offsets: int, group: str = "billing") -> None:
    """As a consumer that assigns itself its partitions."""
    with closing(Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group})) as consumer:
        for offset in offsets:
            consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)


@pytest.fixture
def kafka() -> Iterator[Broker]:
    with Broker() as broker:
        broker.create_topic("orders")
        broker.produce("orders", *[b"order"] * 5)
        yield broker


def test_nothing_is_found_in_a_broker_without_groups(kafka: Broker) -> None:
    assert kafka.check().findings == ()


def test_a_consumer_that_does_everything_right_passes(kafka: Broker) -> None:
    commit(kafka, 1, 2, 5)
    assert kafka.check().records > 0


def test_findings_fail_the_test_and_are_told(kafka: Broker) -> None:
    commit(kafka, 3, 1)
    with pytest.raises(CheckFailed, match="1 commit went back, at most by 2 records") as failed:
        kafka.check()
    (finding,) = failed.value.findings
    assert (finding.check, finding.group, finding.topic, finding.partition) == ("offset_rewind", "billing", "orders", 0)
    assert isinstance(failed.value, AssertionError)


def test_a_test_chooses_what_fails_it(kafka: Broker) -> None:
    commit(kafka, 3, 1)
    assert kafka.check(ignore="offset_rewind").findings == ()
    assert kafka.check(group="shipping").findings == ()
    assert kafka.check(thresholds={"offset_rewind.records": 3}).findings == ()
    assert [each.check for each in kafka.check(fail_on="critical").findings] == ["offset_rewind"]
    with pytest.raises(UnknownName, match="there is no severity 'bad'"):
        kafka.check(fail_on="bad")
    with pytest.raises(ValueError, match="there is no check 'rewinds'"):
        kafka.check(checks=["rewinds"])


def test_an_offset_beyond_the_end_is_found(kafka: Broker) -> None:
    commit(kafka, 9)
    with pytest.raises(CheckFailed, match="offset 9 is committed; orders-0 ends at 5"):
        kafka.check()


def test_what_was_left_before_a_restart_counts(tmp_path: Path) -> None:
    with Broker(data=tmp_path / "data") as kafka:
        kafka.produce("orders", *[b"order"] * 5)
        commit(kafka, 3)
        kafka.restart()
        commit(kafka, 1)
        with pytest.raises(CheckFailed, match="offset_rewind"):
            kafka.check()


def test_a_commit_for_a_partition_of_another_member_is_found() -> None:
    with Broker() as kafka:
        kafka.create_topic("orders", partitions=2)
        one, other = ConfluentWorker(kafka, "one"), ConfluentWorker(kafka, "other")
        with working(one, other):
            group = kafka.group("billing").wait_until("Stable", members=2, timeout=20)
            names = {each.member_id: each.client_id for each in group.members}
            (partition,) = [number for (_, number), owner in group.owners.items() if names[owner] == "other"]
            one.commit(0, partition)
        with pytest.raises(CheckFailed, match="commit_by_non_owner"):
            kafka.check()


def test_a_storm_of_rebalances_is_found_unless_it_was_made_by_chaos() -> None:
    with Broker() as kafka:
        kafka.create_topic("orders")
        with working(ConfluentWorker(kafka, "worker")):
            group = kafka.group("billing")
            for number in range(1, 18):
                group.wait_until("Stable", rebalances=number, timeout=20)
                group.rebalance()
            with pytest.raises(CheckFailed, match="rebalance_storm"):
                kafka.check()
            kafka.chaos(1).stop()
            kafka.check()
