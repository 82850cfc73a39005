"""Bugs that are planted into the delivery to members of share groups: see planted_bugs.py."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from kohort.coordinator.delivery import share_partition
from kohort.coordinator.delivery.runs import Run
from kohort.coordinator.delivery.share_partition import SharePartition, Write
from kohort.coordinator.delivery.states import ACKNOWLEDGED, AVAILABLE, StateBatch
from kohort.coordinator.delivery.window import Window
from kohort.coordinator.outcome import Outcome
from kohort.coordinator.share_state import partition_api, share_group_offset, write_share_group_state
from tests.simulation.planted_bugs import planted
from tests.simulation.replacing import replaced


@planted("delivery")
def what_was_accepted_is_not_written() -> AbstractContextManager[None]:
    whole = Write.__init__

    def init(write: Write, window: Window, batches: Sequence[StateBatch], transition: Any) -> None:
        whole(write, window, [each for each in batches if each.delivery_state != ACKNOWLEDGED], transition)

    return replaced((Write, "__init__", init))


@planted("delivery")
def the_share_coordinator_keeps_the_old_start_offset() -> AbstractContextManager[None]:
    whole = share_group_offset.update_record

    def update(key: Any, snapshot_epoch: int, leader_epoch: int, start_offset: int, *rest: Any) -> Any:
        return whole(key, snapshot_epoch, leader_epoch, -1, *rest)

    return replaced((write_share_group_state, "update_record", update))


@planted("delivery")
def locks_never_end() -> AbstractContextManager[None]:
    return replaced((SharePartition, "expire", lambda share, now: None))


@planted("delivery")
def deliveries_are_counted_anew_after_a_crash() -> AbstractContextManager[None]:
    class Forgetful(Window):
        __slots__ = ()

        def __init__(self, start: int, persisted: Sequence[StateBatch] = ()) -> None:
            super().__init__(start, [batch._replace(delivery_count=0) for batch in persisted])

    return replaced((share_partition, "Window", Forgetful))


@planted("delivery")
def a_write_that_failed_counts() -> AbstractContextManager[None]:
    whole = SharePartition.written

    def written(share: SharePartition, write: Write, now: int, *, failed: bool = False) -> bool:
        return whole(share, write, now)

    return replaced((SharePartition, "written", written))


@planted("delivery")
def a_session_that_ends_keeps_its_records() -> AbstractContextManager[None]:
    return replaced((SharePartition, "release", lambda share, member_id: iter(())))


@planted("delivery")
def a_state_is_answered_before_it_is_on_the_disk() -> AbstractContextManager[None]:
    def outcome(records: Any, replies: Any) -> Outcome:
        out = Outcome(records)
        out.at_once = replies
        return out

    return replaced((partition_api, "Outcome", outcome))


@planted("delivery")
def bad_records_are_delivered_without_end() -> AbstractContextManager[None]:
    def leave(run: Any, state: int, limit: int) -> None:
        run.state, run.member_id = state, ""

    return replaced((Run, "_leave", leave))


@planted("delivery")
def a_record_is_delivered_before_its_release_is_durable() -> AbstractContextManager[None]:
    return replaced((Run, "is_available", property(lambda run: run.state == AVAILABLE)))


@planted("delivery")
def a_renewed_lock_ends_as_before() -> AbstractContextManager[None]:
    whole = SharePartition.acknowledge

    def acknowledges(share: SharePartition, member_id: str, said: Any, now: int) -> Any:
        before = {run.first: run.deadline for run in share.window.runs()}
        found = whole(share, member_id, said, now)
        for run in share.window.runs():
            if run.deadline > before.get(run.first, run.deadline):
                run.deadline = before[run.first]
        return found

    return replaced((SharePartition, "acknowledge", acknowledges))
