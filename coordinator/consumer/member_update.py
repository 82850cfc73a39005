"""How a ConsumerGroupHeartbeat, or the JoinGroup of a classic member, changes a consumer group.

1. find the member, and compare epochs;
2. take over what the member says about itself; if that changes what the group wants, bump the group epoch;
3. compute a target for the new epoch, unless the last one is too young;
4. reconcile the member with its target.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import Generic, NamedTuple, Self

from kohort.coordinator.api import Response, all_steps
from kohort.coordinator.assignors.server_side import Target
from kohort.coordinator.consumer.changes import Changes
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.member import (
    ConsumerMember,
    Partitions,
)
from kohort.coordinator.consumer.reconcile import Owned, Reconciliation
from kohort.coordinator.consumer.records import (
    current_assignment_record,
    member_record,
    member_tombstones,
    target_record,
)
from kohort.coordinator.consumer.regex import InvalidRegularExpression, compile_pattern
from kohort.coordinator.consumer.resolve import refresh_is_due, resolve_in_pieces
from kohort.coordinator.consumer.subscriptions import Subscriptions
from kohort.coordinator.consumer.target import (
    Plan,
    assign_in_pieces,
    moved_at_once,
    preferred_assignor_with,
)
from kohort.coordinator.consumer.usual import wanted_ids
from kohort.coordinator.outcome import Call, InPieces, LogEntry, Outcome, PackedRecords, Record
from kohort.coordinator.planning import SMALL_GROUP, changed_targets
from kohort.coordinator.rebalance import Rebalance, client_of, end_rebalance
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatResponse,
)

MAX_TOPIC_NAMES = 10_000  # in a subscription: more would keep the event loop for too long

Install = Callable[[Outcome], None]


class Refusal(NamedTuple):
    error: ErrorCode
    message: str

    def response(self) -> ConsumerGroupHeartbeatResponse:
        return ConsumerGroupHeartbeatResponse(0, self.error, self.message)


TOO_LARGE = Refusal(
    ErrorCode.UNKNOWN_SERVER_ERROR, "The records of this request are larger than max.message.bytes of the log."
)


def known_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> tuple[ConsumerMember | None, Refusal | None]:
    """The member with this id, or the reason why the sender is not that member."""
    if instance_id is None:
        member = group.members.get(member_id)
        if member is None:
            message = f"Member {member_id} is not a member of group {group.group_id}."
            return None, Refusal(ErrorCode.UNKNOWN_MEMBER_ID, message)
        return member, None
    member = group.static_member(instance_id)
    if member is None:
        return None, Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        message = f"Static member {member_id} with instance id {instance_id} was fenced by member "
        return None, Refusal(ErrorCode.FENCED_INSTANCE_ID, f"{message}{member.member_id}.")
    return member, None


class MemberUpdate(ABC, Generic[Response]):
    """One request of a member: a ConsumerGroupHeartbeat, or the JoinGroup of a classic member.

    `records` must be written first, if the group replaces an empty one; `converted`, if the group was converted from a
    classic group with members. `install` puts such a group into the shard, once nothing can be refused any more. The
    group does not change before that.
    """

    ERROR_IF_CONVERTED = ErrorCode.UNKNOWN_MEMBER_ID  # the group has become a classic one before the answer
    # Set where a request needs them: most need few of them, and many members may join at once.
    _owned: Owned = None  # what the member says that it has
    _names: Sequence[str] | None = None  # topics, as the member lists them in this request
    _before: ConsumerMember  # the member as it was; one that nobody knows has epoch 0
    _replaced: ConsumerMember | None = None  # the static member whose place this one takes
    _subscriptions: Subscriptions | None = None  # as they will be, once they had to be looked at
    _moved = 0  # partitions that this request's target gives to another member
    must_rebalance = False  # the group was converted before it had a generation
    _later: Plan | None = None  # the target of a large group is computed later, in pieces

    def __init__(
        self,
        shard: ShardState,
        group: ConsumerGroup,
        call: Call,
        records: list[Record],
        converted: PackedRecords | None = None,
        install: Install | None = None,
    ) -> None:
        self._shard = shard
        self._group = group
        self._call = call
        self._changes = Changes(group, records)
        self._replacing = len(records)  # how many of the records end the empty group
        self._converted = converted
        self._install = install
        self._epoch = group.epoch
        self._assignment_epoch = group.assignment_epoch
        self._target: Target
        self._rebalance = group.rebalance  # the one in progress
        self._topics_version = group.topics_version  # of the topics for which the hash was last looked at

    def answer(self) -> Response | Outcome:
        if refusal := self._find_member():
            return self._refused(refusal)
        member = self._as_it_says()
        if refusal := self._check_regex(member):
            return self._refused(refusal)
        if member is self._before:
            names_changed = regex_changed = False
        else:
            names_changed = member.topic_names != self._before.topic_names
            regex_changed = member.topic_regex != self._before.topic_regex
            if member.rebalance_timeout_ms == self._before.rebalance_timeout_ms and member == self._before:
                member = self._before
            else:
                self._changes.described = member
            self._forget_regex(member)
        self._bump_epoch(member, names_changed, regex_changed)
        return self._assign(member, names_changed or regex_changed)

    def _assign(self, member: ConsumerMember, subscription_changed: bool) -> Response | Outcome:
        self._find_target(member)
        reconciled = self._reconcile(member, subscription_changed)
        if reconciled is None:
            message = "The member must abandon all its partitions and rejoin."
            return self._refused(Refusal(ErrorCode.FENCED_MEMBER_EPOCH, message))
        entries = self._entries()
        if entries is None:
            return self._refused(TOO_LARGE)
        return self._finish(reconciled, entries)

    # --- what differs between a heartbeat and a JoinGroup

    @abstractmethod
    def _find_member(self) -> Refusal | None:
        """Find the member as it was before: `_before`, `_replaced` and `_owned`."""

    @abstractmethod
    def _as_it_says(self) -> ConsumerMember: ...

    @abstractmethod
    def _watch(self, member: ConsumerMember) -> None:
        """The member was heard from: its deadlines begin anew."""

    @abstractmethod
    def _refused(self, refusal: Refusal) -> Response: ...

    @abstractmethod
    def _response(self, member: ConsumerMember, assigned_before: Partitions) -> Response: ...

    @abstractmethod
    def _complete(self, response: Response, last: Response) -> None:
        """`response` was made before the target was known, and `last` after that: copy `last` into `response`."""

    # --- 1. the member

    def _is_full(self, member_id: str) -> Refusal | None:
        group, config = self._group, self._shard.config
        if len(group.members) < config.consumer_max_size or member_id in group.members:
            return None
        message = f"The consumer group has reached its maximum capacity of {config.consumer_max_size} members."
        return Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, message)

    def _replace(self, old: ConsumerMember, member_id: str) -> None:
        """A static member has come back, with a new member id: it goes on with what it had."""
        self._before = new = replace(old, member_id=member_id, epoch=0, previous_epoch=0)
        self._replaced = old
        group_id = self._group.group_id
        self._changes.first += (
            *member_tombstones(group_id, old.member_id),
            member_record(group_id, new),
            target_record(group_id, new.member_id, self._group.target_of(old.member_id)),
            current_assignment_record(group_id, new),
        )

    # --- 2. what it says

    def _check_regex(self, member: ConsumerMember) -> Refusal | None:
        """A regular expression that nobody in the group has used before is compiled."""
        regex = member.topic_regex
        if not regex or regex == self._before.topic_regex or regex in self._group.subscriptions.regexes:
            return None
        try:
            compile_pattern(regex)
        except InvalidRegularExpression as problem:
            message = f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {problem}."
            return Refusal(ErrorCode.INVALID_REGULAR_EXPRESSION, message)
        return None

    def _forget_regex(self, member: ConsumerMember) -> None:
        """The member was the last one to use its regular expression, and uses another one now."""
        old = self._before.topic_regex
        if old and old != member.topic_regex and self._group.subscriptions.regexes.get(old) == 1:
            self._changes.unused_regex = old

    def _bump_epoch(self, member: ConsumerMember, names_changed: bool, regex_changed: bool) -> None:
        """Bump the group epoch if the group wants other topics than before, or the topics have changed."""
        shard, group = self._shard, self._group
        must_bump = names_changed or (regex_changed and self._is_resolved(member.topic_regex)) or self.must_rebalance
        if not must_bump and group.topics_version == shard.topics.version:
            return
        if group.topics_version == shard.topics.version and self._wants_nothing_new(member):
            metadata_hash = group.metadata_hash
        else:
            self._subscriptions = after = self._subscriptions_with(member)
            if not must_bump and len(after.resolved) < len(after.regexes):
                return  # bump the epoch when the new expression is resolved: what it matches must be in the hash
            is_known = group.topics_version == shard.topics.version and after.has_topics_of(group.subscriptions)
            metadata_hash = group.metadata_hash if is_known else after.metadata_hash(shard)
        self._topics_version = shard.topics.version
        if must_bump or metadata_hash != group.metadata_hash:
            self._bump(member, metadata_hash, self._cause(must_bump))
        self._changes.ends_old_metadata = group.has_old_metadata_record

    def _bump(self, member: ConsumerMember, metadata_hash: int, cause: str) -> None:
        shard, changes, trigger = self._shard, self._changes, member.member_id
        self._epoch += 1
        self._rebalance = self._rebalance or Rebalance(shard.clock, cause, trigger, client_of(member))
        changes.epoch, changes.metadata_hash = self._epoch, metadata_hash
        if shard.config.audit_headers:
            changes.why = self._rebalance, cause, trigger

    def _wants_nothing_new(self, member: ConsumerMember) -> bool:
        """Whether a member that nobody knows joins, and all its topics are wanted by others as well."""
        known = self._group.subscriptions
        return (
            self._replaced is None
            and not (member.topic_regex or known.resolved)
            and member.member_id not in self._group.members
            and all(name in known.names for name in member.topic_names)
        )

    def _is_resolved(self, regex: str | None) -> bool:
        """Whether the topics of this subscription are known: it has no regular expression, or one that is resolved."""
        return not regex or regex in self._group.subscriptions.resolved

    def _cause(self, wants_other_topics: bool) -> str:
        if not wants_other_topics:
            return "topics changed"
        is_known = self._before.member_id in self._group.members or self._replaced is not None
        return "subscription changed" if is_known else "member joined"

    def _subscriptions_with(self, member: ConsumerMember) -> Subscriptions:
        after = self._group.subscriptions.copy()
        known = self._replaced or self._group.members.get(member.member_id)
        after.change(known, member)
        after.forget_unused()
        return after

    # --- 3. the target

    def _find_target(self, member: ConsumerMember) -> None:
        shard, group = self._shard, self._group
        self._target = group.target_of(self._replaced.member_id if self._replaced else member.member_id)
        if self._epoch <= group.assignment_epoch or not group.may_assign(shard):
            return
        plan = self._plan(member)
        if plan.size > SMALL_GROUP:
            self._later = plan
            return
        targets = plan.compute_at_once()
        changed = all_steps(changed_targets(group.targets, targets))
        self._moved = moved_at_once(group.targets, changed, self._rebalance)
        changes = self._changes
        changes.targets, changes.target_epoch, changes.wall_ms = changed, self._epoch, shard.clock.wall
        self._target = targets[member.member_id]
        self._assignment_epoch = self._epoch

    def _plan(self, member: ConsumerMember) -> Plan:
        shard, group = self._shard, self._group
        subscriptions = self._subscriptions or self._subscriptions_with(member)
        is_new = self._replaced is None and member.member_id not in group.members
        return Plan(
            self._epoch,
            dict(group.members),
            group.capacity,
            dict(group.targets),
            subscriptions,
            subscriptions.are_equal(len(group.members) + is_new),
            preferred_assignor_with(group, self._before, member, shard.config.consumer_assignors[0]),
            shard.topics,
            member,
            self._replaced,
            self._names,
        )

    # --- 4. the way to the target

    def _reconcile(self, member: ConsumerMember, subscription_changed: bool) -> ConsumerMember | None:
        group = self._group
        if not subscription_changed and member.is_reconciled_to(self._assignment_epoch):
            return member
        subscriptions = self._subscriptions
        if subscriptions is None:
            subscriptions = self._subscriptions_with(member) if subscription_changed else group.subscriptions
        wants = wanted_ids(self._shard, subscriptions.topics_of(member))
        reconciliation = Reconciliation(member, self._assignment_epoch, self._target, wants, group.is_held, self._owned)
        reconciled = reconciliation.next(subscription_changed=subscription_changed)
        if reconciled is not None and not reconciled.is_where(member):
            self._changes.moved = reconciled
        return reconciled

    # --- the end

    def _entries(self) -> list[LogEntry] | None:
        return self._changes.entries(self._converted, self._replacing, self._shard.config.max_message_bytes)

    def _finish(self, member: ConsumerMember, entries: list[LogEntry]) -> Response | Outcome:
        shard, group = self._shard, self._group
        out = Outcome(entries)
        if self._install is not None:
            self._install(out)
        elif shard.groups.get(group.group_id) is not group:
            shard.replace(group)
        if self._replaced is not None:
            group.forget(self._replaced.member_id)
        self._watch(member)
        group.topics_version, group.rebalance = self._topics_version, self._rebalance
        if group.rebalance is not None:
            group.rebalance.moved += self._moved
        response = self._response(member, self._before.assigned)
        jobs = self._jobs(member, response)
        if not entries and not jobs:
            return response
        out.jobs = jobs
        self._tell_if_stable(member, out)
        if self._later is None:
            out.reply(self._call, response)
        return out

    def _jobs(self, member: ConsumerMember, response: Response) -> list[InPieces]:
        jobs = []
        if self._later is not None:
            self._group.is_assigning = True
            jobs.append(InPieces(self._assign_later(self._later, response), self._call, response))
        if refresh_is_due(self._shard, self._group, member, self._before):
            self._group.is_resolving = True
            jobs.append(InPieces(resolve_in_pieces(self._shard, self._group, member.member_id)))
        return jobs

    def _assign_later(self, plan: Plan, response: Response) -> Iterator[Outcome]:
        """Compute the target of a large group; then reconcile the member with it, and complete the response."""
        group = self._group
        fits = yield from assign_in_pieces(self._shard, group, plan)
        if not fits:
            self._complete(response, self._refused(TOO_LARGE))
            return
        member = group.members.get(self._before.member_id)
        if group.is_abandoned or member is None:
            error = self.ERROR_IF_CONVERTED if group.is_abandoned else ErrorCode.UNKNOWN_MEMBER_ID
            message = f"Member {self._before.member_id} is not a member of group {group.group_id}."
            self._complete(response, self._refused(Refusal(error, message)))
            return
        again = self._anew(member)
        reconciled = again._reconcile(member, False) or member
        entries = again._entries()
        if entries is None:
            self._complete(response, self._refused(TOO_LARGE))
            return
        again._watch(reconciled)
        out = Outcome(entries)
        again._tell_if_stable(reconciled, out)
        self._complete(response, again._response(reconciled, self._before.assigned))
        yield out

    def _anew(self, member: ConsumerMember) -> Self:
        """A copy of this request, to be answered now that the group has its new target."""
        again, group = copy(self), self._group
        again._changes, again._replacing, again._converted = Changes(group, []), 0, None
        again._before, again._target = member, group.target_of(member.member_id)
        again._epoch, again._assignment_epoch = group.epoch, group.assignment_epoch
        again._replaced = again._subscriptions = again._later = None
        again._owned = None  # a later heartbeat may have given the member more partitions than it named here
        return again

    def _tell_if_stable(self, member: ConsumerMember, out: Outcome) -> None:
        shard, group, epoch = self._shard, self._group, self._epoch
        known = self._replaced or group.members.get(member.member_id)
        if epoch != self._assignment_epoch or not group.will_be_stable(known, member, epoch):
            return
        if event := end_rebalance(shard, group, epoch, self._count(), member):
            out.events.append(event)

    def _count(self) -> int:
        is_new = self._replaced is None and self._before.member_id not in self._group.members
        return len(self._group.members) + is_new
