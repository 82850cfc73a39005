"""Share groups in the test kit: a real member, its records, their locks, and time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, ShareConsumer

from kohort.audit.checks.kit import baseline
from kohort.testing import Broker
from kohort.testing.check import CheckFailed
from kohort.testing.group import Group
from tests.testing.workers import Worker

SETTINGS: dict[str, str | int | float | bool] = {"num.partitions": 1}
ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT
KEEP = None  # say nothing until `go_on`: the record stays acquired, and the client may not poll meanwhile

Says = Callable[[Any], AcknowledgeType | None]


class ShareWorker(Worker):
    """A member of share group `packers` that reads `orders`. `says`: what it does with a record."""

    def __init__(self, kafka: Broker, client_id: str, says: Says = lambda _: ACCEPT) -> None:
        super().__init__(client_id)
        self._servers = kafka.bootstrap_servers
        self.says = says
        self.got: list[tuple[int, int]] = []  # offset and number of the delivery
        self._kept: list[Any] = []

    def _make(self) -> ShareConsumer:
        settings = {
            "bootstrap.servers": self._servers, "group.id": "packers", "client.id": self.client_id, "log_level": 0,
            "share.acknowledgement.mode": "explicit",
        }  # fmt: skip
        made = ShareConsumer(settings)
        made.subscribe(["orders"])
        return made

    def _poll(self) -> None:
        if self._kept:
            time.sleep(0.01)
            return
        for message in self.consumer.poll(0.05):
            if message.error() is None:
                self.got.append((message.offset(), message.delivery_count()))
                if (kind := self.says(message)) is KEEP:
                    self._kept.append(message)
                else:
                    self.consumer.acknowledge(message, kind)
        self.consumer.commit_async()

    def go_on(self) -> None:
        """Accept what was kept, be it too late or not."""

        def accept(consumer: ShareConsumer) -> None:
            for message in self._kept:
                consumer.acknowledge(message, ACCEPT)
            self._kept.clear()

        self.do(accept)


@pytest.fixture
def kafka() -> Iterator[Broker]:
    with Broker(SETTINGS) as broker:
        broker.create_topic("orders")
        yield broker


@contextmanager
def working(*members: ShareWorker) -> Iterator[None]:
    for member in members:
        member.start()
    try:
        yield
    finally:
        for member in members:
            member.stop()


@contextmanager
def packers(kafka: Broker, *members: ShareWorker) -> Iterator[None]:
    """Members that have their partition and have begun to read at its end."""
    with working(*members):
        kafka.group("packers").wait_until(
            "Stable", members=len(members),
            matches=lambda group: len(group.start_offsets) == 1 and all(each.assignment for each in group.members),
            timeout=20,
        )  # fmt: skip
        yield


def test_a_test_sees_members_deliveries_and_start_offsets_of_a_share_group(kafka: Broker) -> None:
    member = ShareWorker(kafka, "m-1", lambda message: KEEP if message.offset() == 2 else ACCEPT)
    with packers(kafka, member):
        for number in range(3):
            kafka.produce("orders", b"order %d" % number)
        group = kafka.group("packers")
        group.wait_until(matches=lambda seen: seen.start_offsets == {("orders", 0): 2}, timeout=20)
        group.wait_until(matches=lambda seen: [each.state for each in seen.deliveries] == ["acquired"], timeout=20)
        assert (group.type, group.state, group.committed) == ("share", "Stable", {})
        (only,) = group.members
        assert (only.client_id, only.assignment) == ("m-1", (("orders", 0),))
        kept = [each for each in group.deliveries if each.state == "acquired"]
        assert [(each.first_offset, each.last_offset, each.deliveries, each.member_id) for each in kept] == [
            (2, 2, 1, only.member_id)
        ]
        assert group.lag == {("orders", 0): 1}
        assert "orders-0 2 to 2: acquired by" in str(group)


def test_a_lock_expires_when_the_test_says_so_and_the_record_comes_again(kafka: Broker) -> None:
    member = ShareWorker(kafka, "m-1", lambda message: KEEP if message.delivery_count() == 1 else ACCEPT)
    with packers(kafka, member):
        kafka.produce("orders", b"order")
        group = kafka.group("packers")
        group.wait_until(matches=lambda seen: [each.state for each in seen.deliveries] == ["acquired"], timeout=20)
        assert group.expire_locks("somebody else") == 0
        assert group.expire_locks(group.members[0].member_id) == 1
        assert [(each.state, each.member_id) for each in group.deliveries] == [("available", None)]
        member.go_on()
        group.wait_until(matches=lambda seen: seen.start_offsets == {("orders", 0): 1}, timeout=20)
    assert member.got == [(0, 1), (0, 2)]


def test_locks_expire_as_time_passes_and_living_members_stay(kafka: Broker) -> None:
    member = ShareWorker(kafka, "m-1", lambda message: KEEP if message.delivery_count() < 3 else ACCEPT)
    with packers(kafka, member):
        kafka.produce("orders", b"order")
        group = kafka.group("packers")
        for delivery in (1, 2):
            group.wait_until(matches=partial(is_kept, delivery=delivery), timeout=20)
            kafka.clock.advance(minutes=2)  # the lock is 30 s long, the session of the member 45 s
            member.go_on()
        group.wait_until(matches=lambda seen: seen.start_offsets == {("orders", 0): 1}, timeout=20)
        assert [each.client_id for each in group.members] == ["m-1"]
    assert member.got == [(0, 1), (0, 2), (0, 3)]


def test_a_member_that_is_removed_gives_its_partition_to_the_others(kafka: Broker) -> None:
    one, other = ShareWorker(kafka, "m-1"), ShareWorker(kafka, "m-2")
    with packers(kafka, one, other):
        group = kafka.group("packers")
        before = group.generation
        first = next(each for each in group.members if each.client_id == "m-1")
        group.evict(first.member_id)
        group.wait_until(matches=lambda seen: first.member_id not in {each.member_id for each in seen.members})
        group.rebalance()
        assert before is not None
        group.wait_until(matches=lambda seen: (seen.generation or 0) >= before + 2, timeout=20)


def test_the_audit_finds_what_members_of_a_share_group_did_wrong(kafka: Broker) -> None:
    """A record that nobody can process, and a member that is slower than its locks."""

    def says(message: Any) -> AcknowledgeType | None:
        if message.offset() == 1:
            return RELEASE
        return KEEP if message.offset() == 0 and message.delivery_count() < 5 else ACCEPT

    member = ShareWorker(kafka, "m-1", says)
    with packers(kafka, member):
        group = kafka.group("packers")
        for number in range(3):
            kafka.produce("orders", b"order %d" % number)
        for delivery in range(1, 5):
            group.wait_until(matches=partial(is_kept, delivery=delivery), timeout=20)
            kafka.clock.advance(minutes=4)
            member.go_on()
        group.wait_until(matches=lambda seen: seen.start_offsets == {("orders", 0): 3}, timeout=20)
    with pytest.raises(CheckFailed) as failed:
        kafka.check(
            checks=["poison_record", "lock_timeouts", "share_stall"],
            thresholds={"lock_timeouts.timeouts": 3, "lock_timeouts.minutes": 20, "share_stall.updates": 3},
        )
    found = {finding.check: finding for finding in failed.value.findings}
    assert set(found) == {"poison_record", "lock_timeouts", "share_stall"}
    assert "offset 1 was given up after 5 deliveries; came back by release (" in found["poison_record"].message
    assert {found[check].topic for check in found} == {"orders"}
    assert "__share_group_state-" in str(found["lock_timeouts"])
    assert "locks expired 4 times" in found["lock_timeouts"].message
    assert "the start offset stood still at 0" in found["share_stall"].message


def is_kept(group: Group, delivery: int) -> bool:
    return any(
        each.state == "acquired" and each.first_offset == 0 and each.deliveries == delivery for each in group.deliveries
    )


def test_an_audit_with_a_baseline_asks_the_broker_about_share_groups_as_well(kafka: Broker) -> None:
    with packers(kafka, ShareWorker(kafka, "m-1")):
        answers = baseline.ask(kafka.bootstrap_servers)
    assert answers.groups == {"packers": baseline.GroupAnswer("share", "Stable", {}, None)}


def test_members_that_do_their_work_are_not_blamed(kafka: Broker) -> None:
    """One is stopped and started again in between, as in a rolling restart; then nothing happens for a day."""
    first, second = ShareWorker(kafka, "m-1"), ShareWorker(kafka, "m-2")
    group = kafka.group("packers")
    with packers(kafka, first):
        with working(second):
            group.wait_until("Stable", members=2, timeout=20)
            for number in range(20):
                kafka.produce("orders", b"order %d" % number)
            group.wait_until(matches=lambda seen: seen.start_offsets == {("orders", 0): 20}, timeout=20)
        group.wait_until("Stable", members=1, timeout=20)
        kafka.clock.advance(days=1)
    assert kafka.check().findings == ()
