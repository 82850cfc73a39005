"""ShareGroupHeartbeat (76), v1: a member joins, is alive, and leaves (KIP-932). v0 was early access.

A field that is null is as it was in the member's last heartbeat. A heartbeat changes the group like this:

1. find the member, and compare epochs;
2. take over what the member says about itself. Bump the group epoch if the group wants other topics than before, the
   topics have changed, or partitions have been initialized that nobody has yet;
3. compute a target for the new epoch, unless the last one is too young;
4. give the member what its target says, at once: several members may have the same partition;
5. have partitions initialized that are not yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kohort.coordinator.api import all_steps
from kohort.coordinator.assignors.server_side import Target
from kohort.coordinator.outcome import AtomicRecords, Call, InPieces, LogEntry, Outcome, Record
from kohort.coordinator.planning import SMALL_GROUP, changed_targets
from kohort.coordinator.rebalance import Rebalance, client_of, end_rebalance, headers_of
from kohort.coordinator.record_codec import batch_bytes
from kohort.coordinator.shard_state import ShardState
from kohort.coordinator.share.group import ShareGroup
from kohort.coordinator.share.initialization import MAX_TOPICS, begin, missing, request_of
from kohort.coordinator.share.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    Assigned,
    ShareMember,
    assignment_of,
    sorted_names,
)
from kohort.coordinator.share.records import (
    ReadyTopics,
    current_assignment_record,
    group_epoch_record,
    member_record,
)
from kohort.coordinator.share.removal import remove_member
from kohort.coordinator.share.target import Plan, assign_in_pieces, given_partitions, target_records
from kohort.coordinator.topic_hash import group_hash
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

JAVA_BLANKS = "".join(map(chr, range(33)))  # what String.trim takes away: fewer characters than Python's strip
MAX_ID_LENGTH = 36  # of a member id, in UTF-16 code units: as long as a UUID for people
FEW_RECORDS = 20
MOST_BYTES_OF_A_RECORD = 5_000  # without names, ids and partitions

Answer = ShareGroupHeartbeatResponse | Outcome


class Refusal(NamedTuple):
    error: ErrorCode
    message: str | None = None

    def response(self) -> ShareGroupHeartbeatResponse:
        return ShareGroupHeartbeatResponse(0, self.error, self.message)


TOO_LARGE = Refusal(
    ErrorCode.UNKNOWN_SERVER_ERROR, "The records of this request are larger than max.message.bytes of the log."
)


# --- errors of the request itself: they do not depend on the group, nor on whether its shard is loaded


def refused(shard: ShardState, request: ShareGroupHeartbeatRequest) -> Refusal | None:
    if not is_valid_member_id(request.member_id):
        return Refusal(ErrorCode.INVALID_REQUEST)
    if problem := _problem_of(request):
        return Refusal(ErrorCode.INVALID_REQUEST, problem)
    return None


def is_valid_member_id(member_id: str) -> bool:
    return 0 < len(member_id.encode("utf-16-le", "surrogatepass")) // 2 <= MAX_ID_LENGTH


def _problem_of(request: ShareGroupHeartbeatRequest) -> str | None:
    if _is_blank(request.member_id):
        return "MemberId can't be empty."
    if _is_blank(request.group_id):
        return "GroupId can't be empty."
    if request.rack_id is not None and _is_blank(request.rack_id):
        return "RackId can't be empty."
    names = request.subscribed_topic_names
    if request.member_epoch == JOIN_EPOCH and not names:
        return "SubscribedTopicNames must be set in first request."
    if request.member_epoch < LEAVE_EPOCH:
        return "MemberEpoch is invalid."
    if names is not None and len(names) > MAX_TOPICS:  # Kafka takes what fits into a batch of its log
        return f"SubscribedTopicNames has {len(names)} names; at most {MAX_TOPICS} are taken."
    return None


def _is_blank(text: str) -> bool:
    return not text.strip(JAVA_BLANKS)


# --- the API, for a group that is a share group or does not exist


def share_group_heartbeat(
    shard: ShardState, group: ShareGroup | None, request: ShareGroupHeartbeatRequest, call: Call
) -> Answer:
    if request.member_epoch == LEAVE_EPOCH:
        return _leave(shard, group, request, call)
    if group is None:
        if request.member_epoch != JOIN_EPOCH:
            return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {request.group_id} not found.").response()
        group = ShareGroup(request.group_id)
    return _sign_of_life(shard, group, request, call) or Heartbeat(shard, group, request, call).answer()


def not_a_share_group(group_id: str) -> ShareGroupHeartbeatResponse:
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.").response()


def _sign_of_life(
    shard: ShardState, group: ShareGroup, request: ShareGroupHeartbeatRequest, call: Call
) -> ShareGroupHeartbeatResponse | None:
    """The answer to the usual heartbeat: the member has nothing to do, and says nothing new. None: it is not usual."""
    member = group.members.get(request.member_id)
    if (
        member is None
        or request.member_epoch != member.epoch
        or request.subscribed_topic_names is not None
        or request.rack_id is not None
        or call.client_id != member.client_id
        or call.client_host != member.client_host
        or not group.is_at_rest(shard, member)
    ):
        return None
    group.heard_from(shard, member.member_id)
    interval_ms = shard.share_settings(group.group_id).heartbeat_interval_ms
    return ShareGroupHeartbeatResponse(0, 0, None, member.member_id, member.epoch, interval_ms)


def _leave(shard: ShardState, group: ShareGroup | None, request: ShareGroupHeartbeatRequest, call: Call) -> Answer:
    if group is None:
        return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.").response()
    if request.member_id not in group.members:
        return _unknown_member(group, request.member_id).response()
    out = Outcome()
    remove_member(shard, group, request.member_id, "member left", out)
    out.reply(call, ShareGroupHeartbeatResponse(0, 0, None, request.member_id, LEAVE_EPOCH))
    return out


def _unknown_member(group: ShareGroup, member_id: str) -> Refusal:
    return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")


class Heartbeat:
    """One heartbeat of a member that joins or is alive."""

    def __init__(self, shard: ShardState, group: ShareGroup, request: ShareGroupHeartbeatRequest, call: Call) -> None:
        self._shard = shard
        self._group = group
        self._request = request
        self._call = call
        self._records: list[Record] = []
        self._before: ShareMember  # the member as it was; one that nobody knows has epoch 0
        self._counts = group.topic_counts  # how many members want each topic, with this request
        self._epoch = group.epoch
        self._is_bumped = False
        self._assignment_epoch = group.assignment_epoch
        self._target: Target = {}
        self._rebalance = group.rebalance  # the one in progress
        self._given = 0  # partitions that this request's target gives to one more member
        self._to_initialize: ReadyTopics = {}
        self._later: Plan | None = None  # the target of a large group is computed later, in pieces

    def answer(self) -> Answer:
        if refusal := self._find_member():
            return refusal.response()
        member = self._as_it_says()
        if member == self._before:
            member = self._before
        elif refusal := self._has_too_many_topics(member):
            return refusal.response()
        else:
            self._records.append(member_record(self._group.group_id, member))
        self._bump_epoch(member)
        self._find_target(member)
        assigned = self._assign(member)
        self._initialize()
        entries = self._entries(assigned)
        if entries is None:
            return TOO_LARGE.response()
        return self._finish(assigned, entries)

    # --- 1. the member

    def _find_member(self) -> Refusal | None:
        group, request, limit = self._group, self._request, self._shard.config.share_max_size
        known = group.members.get(request.member_id)
        if known is None and len(group.members) >= limit:
            message = f"The share group has reached its maximum capacity of {limit} members."
            return Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, message)
        if known is None and request.member_epoch != JOIN_EPOCH:
            return _unknown_member(group, request.member_id)
        self._before = known or ShareMember(request.member_id)
        return _check_epoch(self._before, request.member_epoch)

    # --- 2. what it says

    def _as_it_says(self) -> ShareMember:
        request, before, call = self._request, self._before, self._call
        names = request.subscribed_topic_names
        return before.described(
            before.rack_id if request.rack_id is None else request.rack_id,
            call.client_id,
            call.client_host,
            before.topic_names if names is None else sorted_names(names),
        )

    def _has_too_many_topics(self, member: ShareMember) -> Refusal | None:
        group = self._group
        if len(group.topic_counts) + len(member.topic_names) <= MAX_TOPICS:
            return None
        count = len(group.counts_with(group.members.get(member.member_id), member))
        if count <= max(MAX_TOPICS, len(group.topic_counts)):
            return None
        message = f"With SubscribedTopicNames the group would have {count} topics; at most {MAX_TOPICS} are taken."
        return Refusal(ErrorCode.INVALID_REQUEST, message)

    def _bump_epoch(self, member: ShareMember) -> None:
        shard, group = self._shard, self._group
        must_bump = wants_others = member.topic_names != self._before.topic_names
        if group.assignment_epoch >= group.epoch and group.settled_changes != group.changes:
            must_bump = must_bump or group.has_unassigned(shard)
        if not must_bump and group.topics_version == shard.topics.version:
            return
        self._counts = group.counts_with(group.members.get(member.member_id), member)
        is_known = group.topics_version == shard.topics.version and self._counts.keys() == group.topic_counts.keys()
        metadata_hash = (
            group.metadata_hash if is_known else group_hash(shard.topics, sorted(self._counts), shard.config.rack)
        )
        if must_bump or metadata_hash != group.metadata_hash:
            self._is_bumped = True
            self._epoch += 1
            cause = self._cause(wants_others, metadata_hash != group.metadata_hash)
            self._rebalance = self._rebalance or Rebalance(shard.clock, cause, member.member_id, client_of(member))
            headers = headers_of(shard, self._rebalance, cause, member.member_id)
            self._records.append(group_epoch_record(group.group_id, self._epoch, metadata_hash, headers))

    def _cause(self, wants_other_topics: bool, has_other_topics: bool) -> str:
        if not wants_other_topics:
            return "topics changed" if has_other_topics else "partitions initialized"
        is_known = self._before.member_id in self._group.members
        return "subscription changed" if is_known else "member joined"

    # --- 3. the target

    def _find_target(self, member: ShareMember) -> None:
        shard, group = self._shard, self._group
        self._target = group.target_of(member.member_id)
        if self._epoch <= group.assignment_epoch or not self._may_assign():
            return
        plan = self._plan(member)
        if plan.size > SMALL_GROUP:
            self._later = plan
            return
        targets = all_steps(plan.compute())
        changed = all_steps(changed_targets(group.targets, targets))
        self._given = all_steps(given_partitions(group.targets, changed))
        self._records += target_records(group.group_id, changed, self._epoch, shard.clock.wall)
        self._target = targets[member.member_id]
        self._assignment_epoch = self._epoch

    def _may_assign(self) -> bool:
        """A target is computed at most once in an interval, so that members that join together share one."""
        group, clock = self._group, self._shard.clock
        if group.is_assigning:
            return False
        interval_ms = self._shard.share_settings(group.group_id).assignment_interval_ms
        age_ms = clock.wall - group.assignment_timestamp  # negative if the clock was set back
        return group.assignment_timestamp == 0 or not 0 <= age_ms < interval_ms

    def _plan(self, member: ShareMember) -> Plan:
        group = self._group
        member_count = len(group.members) + (member.member_id not in group.members)
        return Plan(
            self._epoch,
            dict(group.members),
            group.capacity,
            dict(group.targets),
            group.states.initialized,
            all(count == member_count for count in self._counts.values()),
            self._shard.topics,
            member,
            self._request.subscribed_topic_names,
        )

    # --- 4. what the member gets

    def _assign(self, member: ShareMember) -> ShareMember:
        """The member in the epoch of the target, with its target: of that only topics which it wants and which exist.

        A member in that epoch already is looked at only if the group epoch was bumped.
        """
        if member.epoch == self._assignment_epoch and not self._is_bumped:
            return member
        topics = self._shard.topics
        wanted = {topic_id for name in member.topic_names if (topic_id := topics.topic_id(name)) is not None}
        target = {topic_id: partitions for topic_id, partitions in self._target.items() if topic_id in wanted}
        is_new_epoch = member.epoch != self._assignment_epoch
        previous_epoch = member.epoch if is_new_epoch else member.previous_epoch
        moved = member.moved_on(self._assignment_epoch, previous_epoch, assignment_of(target))
        if moved == member:
            return member
        self._records.append(current_assignment_record(self._group.group_id, moved))
        return moved

    # --- 5. partitions without a state

    def _initialize(self) -> None:
        shard, group = self._shard, self._group
        if group.settled_changes == group.changes and self._counts is group.topic_counts:
            return
        self._to_initialize = missing(shard, group, sorted(self._counts))
        if self._to_initialize:
            self._records.append(begin(shard, group, self._to_initialize))

    # --- the end

    def _entries(self, member: ShareMember) -> list[LogEntry] | None:
        """The records as one batch if they fit into one. None: a single record is too large for any."""
        records, limit = self._records, self._shard.config.max_message_bytes
        if not records:
            return []
        if len(records) <= FEW_RECORDS and self._most_bytes(member) <= limit:
            return [AtomicRecords(records)]
        sizes = [batch_bytes(record) for record in records]
        if max(sizes) > limit:
            return None
        return [AtomicRecords(records)] if sum(sizes) <= limit else list(records)

    def _most_bytes(self, member: ShareMember) -> int:
        """An upper bound for the bytes of the records, which is quick to compute. A name can have a megabyte."""
        states = self._group.states
        topics: Iterable[ReadyTopics] = (states.initializing, states.initialized, self._to_initialize)
        texts = [self._group.group_id, member.member_id, member.client_id, member.rack_id or ""] * len(self._records)
        texts += [*member.topic_names, *(topic.name for some in topics for topic in some.values())]
        count = sum(len(topic.partitions) for some in topics for topic in some.values())
        count += len(self._records) * sum(map(len, self._target.values()))
        return 4 * (sum(map(len, texts)) + 10 * count) + MOST_BYTES_OF_A_RECORD * len(self._records)

    def _finish(self, member: ShareMember, entries: list[LogEntry]) -> Answer:
        shard, group = self._shard, self._group
        if shard.groups.get(group.group_id) is not group:
            shard.replace(group)
        group.heard_from(shard, member.member_id)
        if group.waiting_member == member.member_id:
            group.waiting_member = None  # it has lost patience with an earlier heartbeat
        group.topics_version, group.rebalance = shard.topics.version, self._rebalance
        if group.rebalance is not None:
            group.rebalance.moved += self._given
        response = self._response(member, self._before.assigned)
        if not entries and self._later is None:
            self._settle()
            return response
        out = Outcome(entries)
        if self._to_initialize:
            out.events.append(request_of(group.group_id, self._epoch, self._to_initialize))
        self._tell_if_stable(member, out)
        if self._later is not None:
            group.is_assigning, group.waiting_member = True, member.member_id
            out.jobs = [InPieces(self._assign_later(self._later, response), self._call, response)]
        else:
            out.reply(self._call, response)
        return out

    def _tell_if_stable(self, member: ShareMember, out: Outcome) -> None:
        shard, group, known = self._shard, self._group, self._group.members.get(member.member_id)
        if self._epoch == self._assignment_epoch and group.will_be_stable(known, member, self._epoch):
            count = len(group.members) + (known is None)
            if event := end_rebalance(shard, group, self._epoch, count, member):
                out.events.append(event)

    def _settle(self) -> None:
        """Remember that a heartbeat found nothing to do: until the group changes, others need not look, unless states
        of partitions are being made."""
        group = self._group
        if group.epoch == group.assignment_epoch and not group.states.initializing:
            group.settled_changes = group.changes

    def _response(self, member: ShareMember, assigned_before: Assigned) -> ShareGroupHeartbeatResponse:
        """Name the assignment if it has changed, if the member joins, or if the member names its topics."""
        request = self._request
        is_told = (
            request.member_epoch == JOIN_EPOCH
            or request.subscribed_topic_names is not None
            or member.assigned != assigned_before
        )
        interval_ms = self._shard.share_settings(self._group.group_id).heartbeat_interval_ms
        assignment = _assignment(member.assigned) if is_told else None
        return ShareGroupHeartbeatResponse(0, 0, None, member.member_id, member.epoch, interval_ms, assignment)

    def _assign_later(self, plan: Plan, response: ShareGroupHeartbeatResponse) -> Iterator[Outcome]:
        """Compute the target of a large group; then give the member its part of it, and complete the response.

        If the member has sent another heartbeat since, nobody hears this response, and nothing may change with it.
        """
        group = self._group
        fits = yield from assign_in_pieces(self._shard, group, plan)
        member = group.members.get(self._before.member_id)
        if group.is_abandoned or member is None:
            _become(response, _unknown_member(group, self._before.member_id).response())
            return
        if group.waiting_member != member.member_id:
            return
        group.waiting_member = None
        again = Heartbeat(self._shard, group, self._request, self._call)
        again._target = group.target_of(member.member_id)
        assigned = again._assign(member)
        entries = again._entries(assigned)
        if not fits or entries is None:
            _become(response, TOO_LARGE.response())
            return
        group.heard_from(self._shard, member.member_id)
        _become(response, self._response(assigned, self._before.assigned))
        out = Outcome(entries)
        again._tell_if_stable(assigned, out)
        yield out


def _become(response: ShareGroupHeartbeatResponse, last: ShareGroupHeartbeatResponse) -> None:
    """`response` was made before the target was known, and `last` after that: copy `last` into `response`."""
    for name in response.__slots__:
        setattr(response, name, getattr(last, name))


def _check_epoch(member: ShareMember, epoch: int) -> Refusal | None:
    """A member may be one epoch behind: the answer that told it the new epoch may have been lost."""
    if epoch in (JOIN_EPOCH, member.epoch) or epoch == member.previous_epoch < member.epoch:
        return None
    message = (
        f"The share group member has a {'greater' if epoch > member.epoch else 'smaller'} member epoch ({epoch}) than "
        f"the one known by the group coordinator ({member.epoch})"
    )
    if epoch < member.epoch:
        message += f", and it does not match the previous member epoch ({member.previous_epoch})"
    message += ". The member must abandon all its partitions and rejoin."
    return Refusal(ErrorCode.FENCED_MEMBER_EPOCH, message)


def _assignment(partitions: Assigned) -> Assignment:
    return Assignment([TopicPartitions(topic_id, assigned) for topic_id, assigned in partitions.items()])


def unavailable(
    shard: ShardState, request: ShareGroupHeartbeatRequest, call: Call, error: ErrorCode
) -> ShareGroupHeartbeatResponse:
    refusal = refused(shard, request)
    return refusal.response() if refusal is not None else ShareGroupHeartbeatResponse(0, error)


def failed(response: ShareGroupHeartbeatResponse, version: int, error: ErrorCode) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(0, error)
