"""Bugs that are planted into the coordinator: simulated worlds that do not catch them are worth little."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, NamedTuple

from kohort.coordinator import conversion, member_session
from kohort.coordinator.consumer import changes, member_update, records, removal, resolve, target, timers
from kohort.coordinator.consumer import consumer_group_heartbeat as heartbeats
from kohort.coordinator.consumer import group as consumer_groups
from kohort.coordinator.consumer.classic_join import ClassicJoin
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.member import NOTHING, STABLE, UNRELEASED, ConsumerMember
from kohort.coordinator.consumer.reconcile import Reconciliation
from kohort.coordinator.consumer.subscriptions import Subscriptions
from kohort.coordinator.member_pulse import MemberPulse
from kohort.coordinator.outcome import AtomicRecords, Outcome, Record
from kohort.protocol.consumer_group_record import assignment_fields
from kohort.protocol.log_records import (
    CONSUMER_GROUP_METADATA,
    CONSUMER_GROUP_REGULAR_EXPRESSION,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
)
from tests.simulation.replacing import replaced
from tests.simulation.worlds import STEPS, WORLDS

MAX_SEEDS = 60

Plant = Callable[[], AbstractContextManager[None]]


class Bug(NamedTuple):
    world: str
    plant: Plant


class Caught(NamedTuple):
    seeds: int  # that were needed
    problem: str


BUGS: dict[str, Bug] = {}


def planted(world: str = "consumer") -> Callable[[Plant], Plant]:
    def add(plant: Plant) -> Plant:
        BUGS[plant.__name__] = Bug(world, plant)
        return plant

    return add


def hunt(bug: Bug, max_seeds: int) -> Caught | None:
    """Play seeds until the bug shows. The seed that shows it must be clean without the bug."""
    for seed in range(max_seeds):
        problem = failure(bug, seed)
        if problem is not None:
            WORLDS[bug.world](seed).run(STEPS)
            return Caught(seed + 1, f"{type(problem).__name__}: {problem}")
    return None


def failure(bug: Bug, seed: int) -> Exception | None:
    with bug.plant():
        try:
            WORLDS[bug.world](seed).run(STEPS)
        except (AttributeError, ImportError, NameError, TypeError):
            raise  # the bug is written for other code than there is now
        except Exception as problem:
            return problem
    return None


# --- who holds what


@planted()
def a_partition_is_given_before_it_is_released() -> AbstractContextManager[None]:
    return replaced((ConsumerGroup, "is_held", lambda group, topic_id, partition: False))


@planted()
def partitions_count_as_given_up_at_once() -> AbstractContextManager[None]:
    """Nobody waits for the member's report."""
    return replaced((Reconciliation, "_owns_any", lambda reconciliation, partitions: False))


@planted()
def unsubscribed_topics_are_taken_away_at_once() -> AbstractContextManager[None]:
    def give_up_unwanted(self: Any) -> ConsumerMember:
        kept = {topic_id: owned for topic_id, owned in self._member.assigned.items() if topic_id in self._wants}
        member: ConsumerMember = self._member
        return replace(member, assigned=kept)

    return replaced((Reconciliation, "_give_up_unwanted", give_up_unwanted))


@planted()
def revocations_are_forgotten_by_a_load() -> AbstractContextManager[None]:
    whole = ConsumerGroup.on_loaded

    def on_loaded(group: ConsumerGroup, shard: Any, out: Outcome) -> Iterable[None]:
        for member in list(group.members.values()):
            group._install(member, replace(member, pending_revocation=NOTHING, state=STABLE))
        return whole(group, shard, out)

    return replaced((ConsumerGroup, "on_loaded", on_loaded))


@planted()
def a_member_never_gets_what_it_waited_for() -> AbstractContextManager[None]:
    whole = Reconciliation.next

    def after(self: Any, *, subscription_changed: bool) -> ConsumerMember | None:
        is_waiting = self._member.state == UNRELEASED and self._member.epoch == self._epoch
        return self._member if is_waiting else whole(self, subscription_changed=subscription_changed)

    return replaced((Reconciliation, "next", after))


# --- epochs and targets


@planted()
def the_epoch_stays_when_a_member_leaves() -> AbstractContextManager[None]:
    whole = removal.remove_members

    def remove(shard: Any, group: Any, member_ids: Any, cause: str, out: Outcome) -> None:
        whole(shard, group, member_ids, cause, out)
        (entry,) = out.records
        assert isinstance(entry, AtomicRecords)
        entry.records = [record for record in entry.records if record.type != CONSUMER_GROUP_METADATA]

    return replaced(
        (heartbeats, "remove_members", remove),
        (timers, "remove_members", remove),
        (consumer_groups, "remove_members", remove),
    )


@planted()
def the_epoch_stays_when_topics_change() -> AbstractContextManager[None]:
    return replaced((Subscriptions, "metadata_hash", lambda subscriptions, shard: 0))


@planted()
def the_target_epoch_is_written_before_the_targets() -> AbstractContextManager[None]:
    in_pieces = target.assign_in_pieces

    def pieces(*how: Any) -> Generator[Outcome, None, bool]:
        first: list[Outcome] = []
        for piece in in_pieces(*how):
            if not piece.records:
                yield piece
            else:
                first.append(piece)
        yield from reversed(first)
        return True

    return replaced((member_update, "assign_in_pieces", pieces))


@planted()
def targets_stay_when_a_member_is_gone() -> AbstractContextManager[None]:
    def tombstones(group_id: str, member_id: str) -> list[Record]:
        current, _, member = records.member_tombstones(group_id, member_id)
        return [current, member]

    return replaced((removal, "member_tombstones", tombstones), (member_update, "member_tombstones", tombstones))


@planted()
def any_epoch_is_taken() -> AbstractContextManager[None]:
    return replaced((heartbeats, "_check_epoch", lambda *what: None))


@planted()
def the_fast_path_never_looks_at_the_group() -> AbstractContextManager[None]:
    return replaced((MemberPulse, "beats", lambda pulse, steady_ms: True))


# --- members that come back, or do not


@planted()
def a_static_member_comes_back_to_no_target() -> AbstractContextManager[None]:
    whole = member_update.MemberUpdate._replace

    def forgetful(self: Any, *how: Any) -> None:
        whole(self, *how)
        self._changes.first = [each for each in self._changes.first if not _is_target(each)]

    return replaced((member_update.MemberUpdate, "_replace", forgetful))


def _is_target(record: Record) -> bool:
    return record.type == CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER and record.value is not None


@planted()
def a_living_static_member_is_replaced() -> AbstractContextManager[None]:
    return replaced((heartbeats.Heartbeat, "_join", _join_in_any_case))


def _join_in_any_case(self: Any) -> None:
    request = self._request
    member_id = request.member_id or self._shard.new_uuid()
    known = self._group.static_member(request.instance_id)
    if known is None:
        self._before = self._group.members.get(member_id) or ConsumerMember(member_id)
    else:
        self._replace(known, member_id)


@planted()
def sessions_do_not_begin_after_a_load() -> AbstractContextManager[None]:
    return replaced((ConsumerGroup, "on_loaded", lambda group, shard, out: ()))


@planted()
def sessions_end_too_early() -> AbstractContextManager[None]:
    whole = member_session.Session.heard
    return replaced((member_session.Session, "heard", lambda session, timeout_ms: whole(session, timeout_ms // 2)))


@planted()
def a_slow_member_is_never_removed() -> AbstractContextManager[None]:
    """One that does not give up partitions within its rebalance timeout."""
    return replaced((ConsumerGroup, "expect_revocation", lambda group, shard, member: None))


@planted()
def a_group_with_members_is_deleted() -> AbstractContextManager[None]:
    return replaced((ConsumerGroup, "check_delete", lambda group: None))


@planted()
def anybody_may_commit() -> AbstractContextManager[None]:
    return replaced((ConsumerGroup, "check_commit", lambda group, shard, request, version: None))


# --- the log


@planted()
def answers_do_not_wait_for_the_disk() -> AbstractContextManager[None]:
    class Hasty(Outcome):
        __slots__ = ()

        def reply(self, call: Any, response: Any) -> None:
            self.reply_at_once(call, response)

    return replaced((heartbeats, "Outcome", Hasty), (member_update, "Outcome", Hasty))


@planted()
def tombstones_come_in_the_wrong_order() -> AbstractContextManager[None]:
    def tombstones(group_id: str, member_id: str) -> list[Record]:
        return records.member_tombstones(group_id, member_id)[::-1]

    return replaced((removal, "member_tombstones", tombstones), (member_update, "member_tombstones", tombstones))


@planted()
def what_a_regular_expression_matches_is_not_written() -> AbstractContextManager[None]:
    whole = resolve._written

    def written(*how: Any) -> Iterator[Outcome]:
        for out in whole(*how):
            kept = [record for entry in out.records for record in _records_of(entry) if not _is_of_regex(record)]
            yield Outcome([AtomicRecords(kept)] if kept else [])

    return replaced((resolve, "_written", written))


def _records_of(entry: Any) -> Sequence[Record]:
    return entry.records if isinstance(entry, AtomicRecords) else [entry]


def _is_of_regex(record: Record) -> bool:
    return record.type == CONSUMER_GROUP_REGULAR_EXPRESSION


@planted()
def the_state_of_a_member_is_not_written() -> AbstractContextManager[None]:
    """Only its partitions are: after a load it seems to have given up what it must."""
    whole, packed = records.current_assignment_record, assignment_fields

    def record(group_id: str, member: ConsumerMember) -> Record:
        return whole(group_id, replace(member, state=STABLE))

    def fields(names: bytes, epoch: int, previous_epoch: int, _: int, *partitions: Any) -> bytes:
        return packed(names, epoch, previous_epoch, STABLE, *partitions)

    return replaced(
        (heartbeats, "current_assignment_record", record),
        (member_update, "current_assignment_record", record),
        (changes, "current_assignment_record", record),
        (changes, "assignment_fields", fields),
    )


# --- migration


@planted("migrating")
def an_upgrade_forgets_what_members_have() -> AbstractContextManager[None]:
    whole = conversion._upgraded_member

    def member(*how: Any) -> ConsumerMember:
        return replace(whole(*how), assigned=NOTHING)

    return replaced((conversion, "_upgraded_member", member))


@planted("migrating")
def an_upgrade_answers_nobody_who_waits() -> AbstractContextManager[None]:
    return replaced((conversion, "stop_waiting", lambda shard, group, error, out: None))


@planted("migrating")
def a_downgrade_lowers_the_generation() -> AbstractContextManager[None]:
    whole = conversion.Downgrade._add_members

    def add_members(made: Any) -> Iterator[None]:
        yield from whole(made)
        made.classic.generation = 1

    return replaced((conversion.Downgrade, "_add_members", add_members))


@planted("migrating")
def a_downgrade_watches_nobody() -> AbstractContextManager[None]:
    return replaced((conversion.Downgrade, "_begin_sessions", lambda made, member_ids: None))


@planted("migrating")
def classic_members_count_as_having_nothing() -> AbstractContextManager[None]:
    whole = ClassicJoin._read_subscription

    def read(self: Any) -> Any:
        refusal = whole(self)
        self._owned = []
        return refusal

    return replaced((ClassicJoin, "_read_subscription", read))


from tests.simulation import delivery_bugs as delivery_bugs  # noqa: E402 (they plant bugs with the functions above)
from tests.simulation import share_bugs as share_bugs  # noqa: E402
from tests.simulation import txn_bugs as txn_bugs  # noqa: E402
