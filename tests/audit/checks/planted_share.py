"""Stories of share groups (KIP-932), with a defect and without it; see planted.py. Each group has a log of its own."""

from __future__ import annotations

from collections.abc import Callable

from kohort.audit.checks.kit.check import ERROR, WARNING
from kohort.coordinator.share_state.headers import Cause
from tests.audit.checks.planted import HOUR, MINUTE, Story, Where
from tests.audit.logs import Group
from tests.audit.share_groups import ACKNOWLEDGED, ARCHIVED, AVAILABLE, ShareState, joined, left

STORIES: list[Story] = []
SECOND = 1_000


def story(check: str) -> Callable[[Callable[[Group, bool], Where]], Callable[[Group, bool], Where]]:
    def remember(tell: Callable[[Group, bool], Where]) -> Callable[[Group, bool], Where]:
        STORIES.append(Story(check, tell, tell.__name__))
        return tell

    return remember


def state_of(group: Group, partition: str = "t-0") -> ShareState:
    """In the partition of __share_group_state that has the number of the story, so that stories do not mix."""
    return ShareState(group, partition, log_partition=group.log_partition)


def working(state: ShareState, first: int, count: int, *, every_ms: int = 5 * SECOND, by: str = "m1") -> int:
    """Members accept ten records at a time; the start offset follows. Where they go on."""
    for start in range(first, first + 10 * count, 10):
        state.at(start).accept(start, start + 9, by=by)
        state.its.later(every_ms - SECOND)
    state.at(first + 10 * count)
    return first + 10 * count


# --- poison_record ------------------------------------------------------------------------------------------------


@story("poison_record")
def a_record_is_given_up_after_five_deliveries(group: Group, bad: bool) -> Where:
    joined(group, "m1", ["t-0"])
    state = state_of(group)
    state.snapshot(0)
    working(state, 0, 4)
    state.update((40, 40, AVAILABLE, 1), (41, 41, ACKNOWLEDGED, 1), by="m1")  # released beside one that is accepted
    for delivery in range(2, 5 if bad else 3):
        state.returned(40, 40, delivery, Cause.LOCK_TIMEOUT)
        group.later(30 * SECOND)
    at = state.archive(40, 40, 5, Cause.LOCK_TIMEOUT) if bad else state.accept(40, 40, deliveries=3)
    working(state, 42, 4)
    return Where(
        ERROR,
        "offset 40 was given up after 5 deliveries; came back by lock timeout (4 times), release (1 time); had by"
        " client-of-m1 m1 (5 times)",
        {"topic": "t", "partition": 0, "member_id": "m1", "log_offset": at, "value": 1.0},
    )


@story("poison_record")
def a_lower_limit_is_known_by_the_cause(group: Group, bad: bool) -> Where:
    """share.delivery.count.limit of the group is 2: members that were stopped twice lose the records that they had."""
    joined(group, "m1", ["t-0"])
    state = state_of(group)
    state.snapshot(0)
    state.update((0, 3, AVAILABLE, 1), (4, 6, AVAILABLE, 1), cause=Cause.SESSION_CLOSED, by="m1")
    cause = Cause.SESSION_CLOSED if bad else Cause.ACKNOWLEDGE  # rejected on purpose
    at = state.update((0, 3, ACKNOWLEDGED, 2), (4, 6, ARCHIVED, 2), cause=cause, by="m2")
    working(state, 7, 4)
    return Where(
        ERROR,
        "3 records were given up after up to 2 deliveries, the first at offset 4; came back by session closed (2 time",
        {"topic": "t", "partition": 0, "member_id": None, "log_offset": at, "value": 3.0},
    )


@story("poison_record")
def kafka_gives_records_up_and_does_not_say_why(group: Group, bad: bool) -> Where:
    joined(group, "m1", ["t-0"])
    state = state_of(group)
    state.snapshot(0, cause=None)
    state.returned(0, 9, 1, None)
    state.update((0, 8, ACKNOWLEDGED, 2), (9, 9, AVAILABLE, 2), cause=None)
    at = state.archive(9, 9, 5 if bad else 3, None)  # a member rejected it the third time
    return Where(ERROR, "offset 9 was given up after 5 deliveries", {
        "topic": "t", "partition": 0, "member_id": None, "log_offset": at,
    })  # fmt: skip


@story("poison_record")
def what_is_left_of_kafkas_log_has_a_record_that_was_given_up(group: Group, bad: bool) -> Where:
    joined(group, "m1", ["t-0"])
    state = state_of(group)
    at = state.snapshot(100, [(100, 102, AVAILABLE, 0), (103, 104, ARCHIVED, 5 if bad else 1)], None)
    for first in range(105, 145, 10):
        state.at(first).update((first, first + 9, ACKNOWLEDGED, 1), cause=None)
    return Where(ERROR, "2 records were given up after up to 5 deliveries, the first at offset 103", {
        "topic": "t", "partition": 0, "log_offset": at,
    })  # fmt: skip


@story("poison_record")
def a_record_comes_back_for_the_fourth_time(group: Group, bad: bool) -> Where:
    joined(group, "m1", ["t-0"])
    state = state_of(group)
    state.snapshot(0)
    for delivery in range(1, 5):
        state.returned(0, 1 if delivery < 3 else 0, delivery, Cause.RELEASE)
        group.later(MINUTE)
    if not bad:
        state.accept(0, 0, deliveries=5)
    return Where(WARNING, "offset 0 was delivered 4 times and not accepted; 2 records wait", {
        "topic": "t", "partition": 0, "value": 4.0,
    })  # fmt: skip


# --- share_stall --------------------------------------------------------------------------------------------------


@story("share_stall")
def a_member_keeps_a_record_while_the_others_go_on(group: Group, bad: bool) -> Where:
    joined(group, "m1", ["t-0"])
    state = state_of(group)
    state.snapshot(0)
    working(state, 0, 12)
    at = state.at(120).accept(121, 129) if bad else state.at(120).accept(120, 129)
    group.later(20 * SECOND)
    for first in range(130, 400, 10):
        state.at(120 if bad else first).accept(first, first + 9)
        group.later(30 * SECOND)
    return Where(
        WARNING, "the start offset stood still at 120 for 13.8 min, while 28 updates came; 279 records behind",
        {"topic": "t", "partition": 0, "log_offset": at},
    )  # fmt: skip


@story("share_stall")
def a_record_comes_back_again_and_again_and_nothing_else_is_there(group: Group, bad: bool) -> Where:
    """The limit of deliveries is high. Without the defect the group is idle: its state stays as it is for hours."""
    joined(group, "m1", ["t-0"])
    state = state_of(group)
    at = state.snapshot(0)
    for delivery in range(1, 13 if bad else 3):
        state.returned(0, 0, min(delivery, 3), Cause.RELEASE, by=f"m{delivery}")
        group.later(MINUTE)
    group.later(5 * HOUR)
    state.snapshot(0, [(0, 0, AVAILABLE, 3)], None)
    return Where(WARNING, "the start offset stood still at 0 for 11.2 min, while 12 updates came; the record there was"
                 " delivered 3 times", {"topic": "t", "partition": 0, "log_offset": at})  # fmt: skip


# --- lock_timeouts ------------------------------------------------------------------------------------------------


@story("lock_timeouts")
def a_member_is_slower_than_its_locks(group: Group, bad: bool) -> Where:
    joined(group, "slow", ["t-0"])
    joined(group, "m1", ["t-0"])
    state = state_of(group)
    state.snapshot(0)
    places = []
    for first in range(0, 70, 10):
        if bad or first == 0:  # a member that dies lets its locks expire once
            state.at(first)
            places.append(state.returned(first, first + 9, 1, Cause.LOCK_TIMEOUT, by="slow"))
            group.later(-SECOND)
            state.returned(first + 5, first + 9, 1, Cause.LOCK_TIMEOUT, by="slow")  # a second batch of the same time
        state.accept(first, first + 9, deliveries=2)
        group.later(28 * SECOND)
    return Where(
        WARNING, "locks expired 7 times in 3 min, and 105 records came back: client-of-slow slow (7",
        {"topic": "t", "partition": 0, "member_id": "slow", "log_offset": places[0], "value": 7.0},
    )  # fmt: skip


@story("lock_timeouts")
def two_members_are_slow(group: Group, bad: bool) -> Where:
    """Without the defect three members are switched off one after the other, and each comes back with a new id."""
    joined(group, "m1", ["t-0"])
    state = state_of(group)
    state.snapshot(0)
    at = None
    for turn in range(6):
        who = f"slow-{turn % 2}" if bad else f"restarted-{turn}"
        place = state.at(10 * turn).returned(10 * turn, 10 * turn + 9, 1, Cause.LOCK_TIMEOUT, by=who)
        at = place if at is None else at
        state.accept(10 * turn, 10 * turn + 9, deliveries=2)
        group.later(30 * SECOND)
    return Where(
        WARNING, "locks expired 6 times in 2.7 min, and 60 records came back: slow-0 (3 times), slow-1 (3 times)",
        {"topic": "t", "partition": 0, "member_id": None, "log_offset": at},
    )  # fmt: skip


# --- silent in any case -------------------------------------------------------------------------------------------


def rolling_restart(group: Group) -> None:
    """Five members are stopped and started one after the other. What they had comes back and is accepted by others."""
    state = state_of(group)
    state.snapshot(0)
    for number in range(5):
        joined(group, f"m{number}", ["t-0"])
    at = 0
    for number in range(5):
        state.at(at).returned(at, at + 499, 1, Cause.SESSION_CLOSED, by=f"m{number}")
        left(group, f"m{number}")
        joined(group, f"n{number}", ["t-0"])
        state.accept(at, at + 499, by=f"n{number}", deliveries=2)
        at = working(state, at + 500, 6)
        group.later(20 * SECOND)


def idle(group: Group) -> None:
    """Nothing arrives for a day; the broker writes snapshots of its own accord, and members come and go."""
    joined(group, "m1", ["t-0", "t-1"])
    state = state_of(group)
    state.snapshot(0)
    at = working(state, 0, 3)
    for turn in range(48):
        state.snapshot(at, (), None)
        group.later(30 * MINUTE)
        if turn % 10 == 0:
            left(group, "m1")
            joined(group, "m1", ["t-0", "t-1"])
    state_of(group, "t-1").snapshot(-1)  # nobody has decided yet where to start


def rejects_what_it_does_not_understand(group: Group) -> None:
    """Also at the last delivery; and the broker archives offsets that have no record."""
    joined(group, "m1", ["t-0"])
    state = state_of(group)
    state.snapshot(0)
    for first in range(0, 100, 10):
        state.at(first).update((first, first + 8, ACKNOWLEDGED, 1), (first + 9, first + 9, ARCHIVED, 5), by="m1")
    state.snapshot(90, [(90, 98, ACKNOWLEDGED, 1), (99, 99, ARCHIVED, 5)], None)
    state.at(100).update((100, 119, ARCHIVED, 0), cause=Cause.START_MOVED)


def rejects_before_what_is_left_of_the_log(group: Group) -> None:
    """The broker has cut off the updates that said why the records were archived."""
    joined(group, "m1", ["t-0"])
    state = state_of(group)
    state.snapshot(40, [(41, 42, ARCHIVED, 5)], None)
    working(state, 43, 5)


def a_topic_is_deleted_and_the_offsets_are_set_back(group: Group) -> None:
    joined(group, "m1", ["t-0", "t-1"])
    state = state_of(group)
    state.snapshot(0)
    at = working(state, 0, 3)
    state.snapshot(0, (), Cause.ALTER, state_epoch=2)
    working(state, 0, 3)
    assert at == 30
    state.delete()
    group.later(HOUR)
    state.snapshot(0, (), Cause.INITIALIZE, state_epoch=3)


HEALTHY = (
    rolling_restart, idle, rejects_what_it_does_not_understand, rejects_before_what_is_left_of_the_log,
    a_topic_is_deleted_and_the_offsets_are_set_back,
)  # fmt: skip
