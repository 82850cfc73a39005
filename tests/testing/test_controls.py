"""What a test makes happen to a group, with members of two libraries and of both protocols."""

from __future__ import annotations

import pytest

from kohort.testing import Broker
from kohort.testing.check import CheckFailed
from kohort.testing.group import UnknownGroup, UnknownMember
from tests.testing.workers import KINDS, ConfluentWorker, PythonWorker, Worker, working

both = pytest.mark.parametrize("kind", KINDS)
every = pytest.mark.parametrize("member", ["confluent", "kafka-python", "KIP-848"])


def a_worker(kafka: Broker, member: str, client_id: str) -> Worker:
    if member == "kafka-python":
        return PythonWorker(kafka, client_id)
    return ConfluentWorker(kafka, client_id, group_protocol="classic" if member == "confluent" else "consumer")


@every
def test_an_expired_member_is_gone_and_comes_back_as_another(kafka: Broker, member: str) -> None:
    with working(a_worker(kafka, member, "worker")):
        group = kafka.group("billing").wait_until("Stable", members=1)
        before = group.members[0].member_id
        seen = len(group.rebalances)
        group.expire(before)
        group.wait_until("Stable", members=1, rebalances=seen + 1)
        assert "session expired" in [each.cause for each in group.rebalances] + [group.rebalances[-1].cause]
        if member != "KIP-848":  # such a member keeps its id
            group.wait_until("Stable", members=1, matches=lambda found: found.members[0].member_id != before)


@every
def test_an_evicted_member_is_gone_and_the_others_take_its_partitions(kafka: Broker, member: str) -> None:
    with working(a_worker(kafka, member, "one"), a_worker(kafka, member, "other")):
        group = kafka.group("billing").wait_until("Stable", members=2)
        gone = group.members[0].member_id
        group.evict(gone, reason="too slow")
        group.wait_until("Stable", matches=lambda found: len(set(found.owners)) == 4, timeout=20)
        if member != "KIP-848":  # such a member comes back with its id
            assert gone not in set(group.owners.values())


@every
def test_a_group_rebalances_when_it_is_told_to(kafka: Broker, member: str) -> None:
    with working(a_worker(kafka, member, "worker")):
        group = kafka.group("billing").wait_until("Stable", members=1)
        before = group.generation
        assert before is not None
        group.rebalance("just so")
        group.wait_until("Stable", members=1, matches=lambda found: (found.generation or 0) > before)
        group.wait_until("Stable", rebalances=2)
    assert "just so" in [each.cause for each in group.rebalances]


@every
def test_whoever_began_a_rebalance_is_named_as_people_know_it(kafka: Broker, member: str) -> None:
    with working(a_worker(kafka, member, "worker")):
        group = kafka.group("billing").wait_until("Stable", members=1, rebalances=1)
    first = group.rebalances[0]
    assert first.who.startswith("worker")
    assert first.who in str(group)
    if member == "KIP-848":  # whose member ids are random
        assert (first.trigger_client, first.slowest_client) == ("worker", "worker")


@both
def test_members_come_back_after_a_restart_and_after_a_crash(kafka: Broker, kind: type[Worker]) -> None:
    worker = ConfluentWorker(kafka, "worker") if kind is ConfluentWorker else PythonWorker(kafka, "worker")
    with working(worker):
        group = kafka.group("billing").wait_until("Stable", members=1)
        worker.commit(2)
        for stop in (kafka.restart, kafka.crash):
            stop()
            kafka.wait_for_request(
                "Heartbeat", client_id="worker", times=len(kafka.requests("Heartbeat")) + 1, timeout=30
            )
            group.wait_until("Stable", members=1, timeout=30)
            assert group.committed == {("orders", 0): 2}


@both
def test_members_read_what_the_test_produces(kafka: Broker, kind: type[Worker]) -> None:
    worker = ConfluentWorker(kafka, "worker") if kind is ConfluentWorker else PythonWorker(kafka, "worker")
    with working(worker):
        assert kafka.produce("orders", b"1", b"2", key=b"7", headers={"shop": b"Bern"}, partition=3) == 0
        worker.reads(2)
        assert worker.values == [b"1", b"2"]


@both
def test_commits_of_members_are_judged(kafka: Broker, kind: type[Worker]) -> None:
    kafka.produce("orders", *[b"order"] * 5)
    worker = ConfluentWorker(kafka, "worker") if kind is ConfluentWorker else PythonWorker(kafka, "worker")
    with working(worker):
        kafka.group("billing").wait_until("Stable", members=1)
        worker.commit(4)
        kafka.check()
        worker.commit(1)
    with pytest.raises(CheckFailed, match="1 commit went back, at most by 3 records"):
        kafka.check()


@both
def test_a_member_that_gets_no_answers_is_replaced(kafka: Broker, kind: type[Worker]) -> None:
    make = ConfluentWorker if kind is ConfluentWorker else PythonWorker
    one = make(kafka, "one", session_timeout_ms=3000)
    other = make(kafka, "other", session_timeout_ms=3000)
    with working(one, other):
        group = kafka.group("billing").wait_until("Stable", members=2)
        with kafka.stop_answering(client_id="one"):
            group.wait_until("Stable", members=1, timeout=40)
            assert {each.client_id for each in group.members} == {"other"}
            assert len(group.owners) == 4
        group.wait_until("Stable", members=2, timeout=30)


def test_groups_and_members_that_do_not_exist_are_refused(kafka: Broker) -> None:
    with working(ConfluentWorker(kafka, "worker")):
        kafka.group("billing").wait_until("Stable", members=1)
        with pytest.raises(UnknownGroup, match="did you mean billing"):
            kafka.group("biling").rebalance()
        with pytest.raises(UnknownMember, match="its members are worker-"):
            kafka.group("billing").expire("nobody")
