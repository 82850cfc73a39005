"""Bugs that are planted into share groups: see planted_bugs.py."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from kohort.coordinator import member_session
from kohort.coordinator.member_pulse import MemberPulse
from kohort.coordinator.outcome import AtomicRecords, Outcome, Record
from kohort.coordinator.share import initialization, records, removal, share_group_heartbeat, target
from kohort.coordinator.share.group import ShareGroup
from kohort.coordinator.share.initialization import merged
from kohort.coordinator.share.records import PartitionStates, Ready
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.log_records import SHARE_GROUP_METADATA
from tests.simulation.planted_bugs import planted
from tests.simulation.replacing import replaced

# --- states


@planted("share")
def partitions_are_read_before_they_have_a_state() -> AbstractContextManager[None]:
    def begin(shard: Any, group: ShareGroup, topics: Any) -> Record:
        states = group.states
        both = merged(states.initializing, topics), merged(states.initialized, topics)
        return initialization.change(shard, group, PartitionStates(*both, states.deleting))

    return replaced((share_group_heartbeat, "begin", begin))


@planted("share")
def a_refusal_of_the_share_coordinator_counts_as_success() -> AbstractContextManager[None]:
    whole = initialization.states_initialized

    def take(shard: Any, request: Any, call: Any) -> Any:
        request.error = ErrorCode.NONE
        return whole(shard, request, call)

    api = initialization.STATES_INITIALIZED
    return replaced_api(api, take)


def replaced_api(api: Any, handle: Any) -> AbstractContextManager[None]:
    """An API is frozen; the simulated world looks it up by name."""
    from tests.simulation import share_world

    changed = type(api)(handle, api.unavailable, api.failed)
    return replaced((share_world, "STATES_INITIALIZED", changed))


@planted("share")
def partitions_without_a_state_are_assigned() -> AbstractContextManager[None]:
    class Plan(target.Plan):
        __slots__ = ()

        def compute(self) -> Any:
            names = {name for member in [*self.members.values(), self.updated] for name in member.topic_names}
            found = {name: self.topics.topic_id(name) for name in sorted(names)}
            self.initialized = {
                topic_id: Ready(name, tuple(range(self.topics.partition_count(name))))
                for name, topic_id in found.items()
                if topic_id is not None
            }
            return super().compute()

    return replaced((share_group_heartbeat, "Plan", Plan))


@planted("share")
def a_lost_answer_is_waited_for_without_end() -> AbstractContextManager[None]:
    whole = initialization.missing

    def missing(shard: Any, group: ShareGroup, names: Any) -> Any:
        group.initializing_since = shard.clock.wall
        return whole(shard, group, names)

    return replaced((share_group_heartbeat, "missing", missing))


@planted("share")
def nobody_notices_new_partitions() -> AbstractContextManager[None]:
    return replaced((ShareGroup, "has_unassigned", lambda group, shard: False))


# --- members


@planted("share")
def a_sharer_keeps_what_it_does_not_want() -> AbstractContextManager[None]:
    whole = share_group_heartbeat.Heartbeat._assign

    def assign(self: Any, member: Any) -> Any:
        assigned = whole(self, member)
        more = {**member.assigned, **assigned.assigned}
        if assigned is member or more == assigned.assigned:
            return assigned
        assigned = assigned.moved_on(assigned.epoch, assigned.previous_epoch, more)
        self._records[-1] = records.current_assignment_record(self._group.group_id, assigned)
        return assigned

    return replaced((share_group_heartbeat.Heartbeat, "_assign", assign))


@planted("share")
def what_a_sharer_gets_is_not_written() -> AbstractContextManager[None]:
    whole = share_group_heartbeat.Heartbeat._assign

    def assign(self: Any, member: Any) -> Any:
        count = len(self._records)
        assigned = whole(self, member)
        del self._records[count:]
        return assigned

    return replaced((share_group_heartbeat.Heartbeat, "_assign", assign))


@planted("share")
def the_share_epoch_stays_when_a_member_leaves() -> AbstractContextManager[None]:
    whole = removal.remove_member

    def remove(shard: Any, group: ShareGroup, member_id: str, cause: str, out: Outcome) -> None:
        whole(shard, group, member_id, cause, out)
        atomic = out.records[-1]
        assert isinstance(atomic, AtomicRecords)
        atomic.records = [record for record in atomic.records if record.type != SHARE_GROUP_METADATA]

    from kohort.coordinator.share import group as share_groups

    return replaced((share_group_heartbeat, "remove_member", remove), (share_groups, "remove_member", remove))


@planted("share")
def any_epoch_of_a_sharer_is_taken() -> AbstractContextManager[None]:
    return replaced((share_group_heartbeat, "_check_epoch", lambda member, epoch: None))


@planted("share")
def the_fast_path_of_sharers_never_looks() -> AbstractContextManager[None]:
    def beats(self: Any, steady_ms: int) -> bool:
        self._session.deadline = steady_ms - self._clock.stood_still_ms + self._timeout_ms
        return True

    return replaced((MemberPulse, "beats", beats))


@planted("share")
def sessions_of_sharers_do_not_begin_after_a_load() -> AbstractContextManager[None]:
    def on_loaded(group: ShareGroup, shard: Any, out: Outcome) -> Iterable[None]:
        return ()

    return replaced((ShareGroup, "on_loaded", on_loaded))


@planted("share")
def sessions_of_sharers_end_too_early() -> AbstractContextManager[None]:
    whole = member_session.Session.heard
    return replaced((member_session.Session, "heard", lambda self, timeout_ms: whole(self, timeout_ms // 2)))


@planted("share")
def tombstones_of_sharers_come_in_the_wrong_order() -> AbstractContextManager[None]:
    whole = records.member_tombstones

    def tombstones(group_id: str, member_id: str) -> Sequence[Record]:
        return whole(group_id, member_id)[::-1]

    return replaced((removal, "member_tombstones", tombstones))


@planted("share")
def an_impatient_sharer_is_given_its_target_behind_its_back() -> AbstractContextManager[None]:
    """The answer to an earlier heartbeat, which nobody hears, moves the member on."""
    whole = share_group_heartbeat.Heartbeat._assign_later

    def assign_later(self: Any, plan: Any, response: Any) -> Any:
        for out in whole(self, plan, response):
            yield out
            self._group.waiting_member = self._before.member_id

    return replaced((share_group_heartbeat.Heartbeat, "_assign_later", assign_later))
