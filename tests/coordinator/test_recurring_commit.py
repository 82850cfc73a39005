"""Commits that recur go by a plan. Whatever happens around them, they leave and say what `offset_commit` does."""

from __future__ import annotations

from random import Random
from typing import Any, cast

import pytest

from kohort.broker.api_table import ApiTable
from kohort.broker.recurring import Recurring, remember
from kohort.coordinator.offset_store import MAX_RECENT
from kohort.coordinator.offsets.recurring_commit import RecurringCommit
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.codec import request_encoder
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.record_batch import Record, read_records
from tests.coordinator.members import Member, commit, errors_of, fetch, stable
from tests.coordinator.support import Call, FakeTopics, Host

NONE = ErrorCode.NONE
PLACES: list[list[tuple[str, int]]] = [
    [("orders", 0)],
    [("orders", 1)],
    [("orders", 0), ("orders", 5), ("payments", 3)],
    [("orders", 99), ("orders", 1)],
    [("payments", i) for i in range(4)],
    [("wide", i) for i in range(40)],
    [("wide", i) for i in range(90)],
    [("orders", 2), ("orders", 2)],
]


def log_of(host: Host) -> dict[int, list[Record]]:
    return {
        partition: [record for batch in made for record in read_records(batch)]
        for partition, made in host.disk.batches.items()
    }


class Story:
    """The same things happen on two hosts, one of which knows requests again."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.hosts = [
            Host(topics=FakeTopics(orders=12, payments=4, wide=100), partition_count=3, knows_again=knows)
            for knows in (True, False)
        ]
        self.members = [stable(host, "a", "b", group_id="g") for host in self.hosts]
        self.calls: list[list[Call]] = [[], []]

    def happen(self) -> None:
        version = self.rng.choice([2, 5, 8, 9, 10])
        for _ in range(25):
            places, metadata = self.rng.choice(PLACES), self.rng.choice(["", "", "m", "m" * 5000])
            who = self.rng.choice([None, 0, 1])
            for _ in range(self.rng.randrange(1, 8)):
                offsets = {place: self.rng.randrange(2**40) for place in places}
                passed_ms = self.rng.randrange(2000)
                for host, members, calls in zip(self.hosts, self.members, self.calls, strict=True):
                    host.advance(passed_ms)
                    how: Any = {"metadata": metadata, "version": version}
                    if who is None:
                        calls.append(commit(host, "simple", offsets, **how))
                    else:
                        calls.append(members[who].send_commit(offsets, **how))
            what = self.rng.choice(["nothing", "generation", "topic", "crash", "slow", "fail"])
            for host, members in zip(self.hosts, self.members, strict=True):
                self._disturb(what, host, members)
        for host in self.hosts:
            host.disk_catches_up()

    def _disturb(self, what: str, host: Host, members: list[Member]) -> None:
        if what == "fail" and host.disk.on_the_way:
            host.disk_fails()
            host.load()
        host.disk_catches_up()
        if what == "generation":
            members[0].generation ^= 1  # as one that has missed a rebalance, or dreamt of one
        elif what == "topic":
            host.delete_topic("payments")
            host.topics.create("payments", 2)
        elif what == "crash":
            host.crash()
        elif what == "slow":
            host.disk.is_slow = True


@pytest.mark.parametrize("seed", range(30))
def test_what_a_plan_leaves_and_says_is_what_the_usual_way_does(seed: int) -> None:
    story = Story(seed)
    story.happen()
    known, plain = story.hosts
    assert log_of(known) == log_of(plain)
    for left, right in zip(*story.calls, strict=True):
        assert left.is_answered == right.is_answered
        if left.is_answered:
            assert left.answer == right.answer
    for group_id in ("g", "simple"):
        assert fetch(known, group_id) == fetch(plain, group_id)
    known.crash()
    for group_id in ("g", "simple"):
        assert fetch(known, group_id) == fetch(plain, group_id)


def test_the_stories_go_by_plans() -> None:
    story = Story(0)
    story.happen()
    plans = [call.request.plan for call in story.calls[0] if isinstance(call.request, RecurringCommit)]
    assert len([plan for plan in plans if plan is not None and plan.template is not None]) > 20


def test_the_third_commit_to_the_same_partitions_goes_by_a_plan() -> None:
    host = Host()
    for offset, planned in ((1, False), (2, False), (3, True), (4, True)):
        call = commit(host, "g", {("orders", 0): offset, ("orders", 7): offset})
        assert errors_of(call) == {("orders", 0): NONE, ("orders", 7): NONE}
        assert isinstance(call.request, RecurringCommit) is planned
        assert fetch(host, "g") == {("orders", 0): offset, ("orders", 7): offset}


def test_a_plan_ends_with_its_topic() -> None:
    host = Host()
    for offset in range(4):
        commit(host, "g", {("orders", 5): offset})
    host.delete_topic("orders")
    call = commit(host, "g", {("orders", 5): 9})
    assert errors_of(call) == {("orders", 5): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    host.topics.create("orders", 5)
    call = commit(host, "g", {("orders", 5): 9})
    assert errors_of(call) == {("orders", 5): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    host.topics.create("orders", 6)
    call = commit(host, "g", {("orders", 5): 9})
    assert errors_of(call) == {("orders", 5): NONE}
    assert fetch(host, "g") == {("orders", 5): 9}


def test_a_planned_commit_that_is_not_written_is_not_acknowledged() -> None:
    host = Host()
    (a,) = stable(host, "a")
    for offset in range(4):
        assert a.commit({("orders", 0): offset}) is NONE
    host.disk.is_slow = True
    call = a.send_commit({("orders", 0): 4})
    assert isinstance(call.request, RecurringCommit)
    host.disk_fails()
    assert errors_of(call) == {("orders", 0): ErrorCode.NOT_COORDINATOR}
    host.load()
    assert fetch(host, "g") == {("orders", 0): 3}


def test_other_topics_come_and_go_and_the_plan_stays() -> None:
    host = Host()
    for offset in range(4):
        call = commit(host, "g", {("orders", 5): offset})
    plan = call.request.plan
    for number in range(3):
        host.topics.create(f"other-{number}", 1)
        call = commit(host, "g", {("orders", 5): 9})
        assert call.request.plan is plan
    host.delete_topic("orders")
    host.topics.create("orders", 12)
    call = commit(host, "g", {("orders", 5): 11})
    assert errors_of(call) == {("orders", 5): NONE}
    assert call.request.plan is not plan
    assert fetch(host, "g") == {("orders", 5): 11}


def test_what_nobody_looks_at_is_put_in_its_place_before_it_is_too_much() -> None:
    host = Host()
    (a,) = stable(host, "a")
    for generation in range(300):  # each has a plan of its own
        for _ in range(3):
            a.commit({("orders", 0): generation, ("orders", 1): generation})
        a.join()
        a.learn().sync({a.member_id: b""})
    recent = host.state_of("g").offsets._recent
    assert 1 <= len(recent["g"]) <= MAX_RECENT
    assert fetch(host, "g") == {("orders", 0): 299, ("orders", 1): 299}


def test_long_ids_make_no_template() -> None:
    host = Host()
    for offset in range(4):
        call = commit(host, "g" * 900, {("orders", index): offset for index in range(12)})
    assert call.request.plan.template is not None
    host.topics.create("wide", 60)
    for offset in range(4):
        call = commit(host, "g" * 900, {("wide", index): offset for index in range(50)})
    assert call.request.plan.template is None
    assert set(fetch(host, "g" * 900).values()) == {3}


@pytest.mark.parametrize("version", range(2, 11))
def test_bytes_behind_a_commit_are_not_its_offsets(version: int) -> None:
    route, nobody = ApiTable().route(ApiKey.OFFSET_COMMIT, version), cast(Any, None)

    def body(offset: int) -> bytes:
        rows = [OffsetCommitRequestPartition(0, offset, -1, "")]
        topics = [OffsetCommitRequestTopic("orders", b"o" * 16, rows)]
        return bytes(request_encoder(ApiKey.OFFSET_COMMIT, version)(OffsetCommitRequest("g", topics=topics)))

    known: Recurring | None = None
    for behind in (1, 5, 7):
        rest = b"\xff\xff" + b"\0" * route.flexible + body(5) + body(behind)
        assert known is None or not known.reads(rest)
        known = remember(known, route, nobody, rest, route.decode(rest, 2 + route.flexible))
        assert not isinstance(known.request, RecurringCommit)


def test_commits_with_other_metadata_each_time_are_read_the_usual_way() -> None:
    host = Host()
    for number in range(6):
        call = commit(host, "g", {("orders", 0): number}, metadata=f"at {number}")
        assert not isinstance(call.request, RecurringCommit)
