"""Commits that recur: a member commits the same partitions again and again, and only the offsets are new.

What `offset_commit` makes of such a request is worked out once, as a plan: which records, with which bytes, and which
answer. The plan holds as long as the topics are the same; the group gives its verdict each time. Whatever is special, a
partition that does not exist or a refusal, goes the usual way. Tests compare both ways byte by byte.
"""

from __future__ import annotations

from kohort.coordinator.api import GroupApi
from kohort.coordinator.commit_template import CommitTemplate
from kohort.coordinator.group import CLASSIC, Pulse
from kohort.coordinator.offsets.offset_commit import (
    NO_RETENTION,
    Asked,
    check_commit,
    check_rows,
    failed,
    headers_of,
    look_up,
    metadata_length,
    offset_commit,
    respond,
    unavailable,
)
from kohort.coordinator.outcome import Call, CommitColumns, Outcome, PlannedCommit
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse, encode_response
from kohort.protocol.record_batch import BATCH_HEADER_BYTES

_new = object.__new__

MAX_TEMPLATE_BYTES = 32_768  # each record repeats the ids of group and member, and ids can be long


class RecurringCommit(OffsetCommitRequest):
    """Stands for all commits like the first one; `offsets` are those of the one in progress, in the order of rows."""

    __slots__ = ("offsets", "plan", "pulse", "rows")

    def __init__(self, first: OffsetCommitRequest) -> None:
        super().__init__(*(getattr(first, field) for field in OffsetCommitRequest.__slots__))
        self.rows = [row for topic in first.topics for row in topic.partitions]
        self.offsets = tuple(row.committed_offset for row in self.rows)
        self.plan: CommitPlan | None = None
        self.pulse: Pulse | None = None

    def spread(self) -> None:
        """Put the offsets where `offset_commit` looks for them.

        The records of a commit refer to these rows until they are written. They are written before the answer leaves,
        and so before the next commit of the connection changes the rows.
        """
        for row, offset in zip(self.rows, self.offsets, strict=True):
            row.committed_offset = offset


class EncodedCommitResponse(OffsetCommitResponse):
    """The answer of a plan: it is the same each time, and so are its bytes."""

    __slots__ = ("encoded",)

    def __init__(self, response: OffsetCommitResponse, version: int) -> None:
        super().__init__(response.throttle_time_ms, response.topics)
        self.encoded = bytes(encode_response[version](response))


class CommitPlan:
    __slots__ = ("answer", "columns", "group_id", "outcome", "template", "topics_version")

    def __init__(self, group_id: str, topics_version: int) -> None:
        self.group_id = group_id
        self.topics_version = topics_version
        self.columns: list[CommitColumns] = []
        self.template: CommitTemplate | None = None  # None: with the present topics no plan can be made
        self.answer: OffsetCommitResponse
        # Has one record and one reply, and is used for each commit: those who apply it keep its entries, not its lists.
        self.outcome: Outcome


def commit_again(shard: ShardState, request: RecurringCommit, call: Call) -> OffsetCommitResponse | Outcome:
    plan = request.plan
    if plan is None or (plan.topics_version != shard.topics.version and not _still_holds(plan, shard, request, call)):
        plan = request.plan = make_plan(shard, request, call)
    pulse, template = request.pulse, plan.template
    if template is not None and (
        (pulse is not None and pulse.beats(call.steady_ms)) or _is_allowed(shard, request, call.version)
    ):
        outcome = plan.outcome
        commit = outcome.records[0] = _new(PlannedCommit)  # calling PlannedCommit(...) takes three times as long
        commit.group = plan.group_id
        commit.columns = plan.columns
        commit.template = template
        commit.offsets = request.offsets
        commit.now = call.now
        outcome.replies[0] = call, plan.answer
        return outcome
    request.spread()
    return offset_commit(shard, request, call)


def _is_allowed(shard: ShardState, request: RecurringCommit, version: int) -> bool:
    """Whether the group takes the commit. Later commits ask the member's pulse instead, if there is one."""
    if check_commit(shard, request, version) is not None:
        return False
    group = shard.groups.get(request.group_id)
    generation = request.generation_id_or_member_epoch
    if group is not None and group.type != CLASSIC and check_rows(shard, request, look_up(shard, request, version)):
        return False
    if group is not None:
        request.pulse = group.commit_pulse(shard, request.member_id, request.group_instance_id, generation)
    return True


def _still_holds(plan: CommitPlan, shard: ShardState, request: RecurringCommit, call: Call) -> bool:
    """Topics or settings have changed. If those of the plan are the same as before, the plan stays valid."""
    found = look_up(shard, request, call.version)
    asked = [(each.name, each.topic_id) for each in found.asked]
    planned = [(each.topic, each.topic_id) for each in plan.columns]
    if plan.template is None or not _fits(plan.template, shard) or found.refused or asked != planned:
        return False
    plan.topics_version = shard.topics.version
    return True


def make_plan(shard: ShardState, request: RecurringCommit, call: Call) -> CommitPlan:
    plan = CommitPlan(request.group_id, shard.topics.version)
    found = look_up(shard, request, call.version)
    too_long = shard.config.offset_metadata_max_bytes
    if (
        found.refused
        or request.retention_time_ms != NO_RETENTION
        or not request.rows
        or any(metadata_length(row.committed_metadata) > too_long for row in request.rows)
    ):
        return plan
    plan.columns = [_columns(asked) for asked in found.asked]
    headers = headers_of(shard, request.member_id, request.generation_id_or_member_epoch)
    template = CommitTemplate(request.group_id, plan.columns, headers)
    if _fits(template, shard):
        plan.template = template
        plan.answer = EncodedCommitResponse(respond(found, 0), call.version)
        first = PlannedCommit(plan.group_id, plan.columns, template, request.offsets, call.now)
        plan.outcome = Outcome([first], [(call, plan.answer)])
    return plan


def _fits(template: CommitTemplate, shard: ShardState) -> bool:
    return template.size_bytes <= min(MAX_TEMPLATE_BYTES, shard.config.max_message_bytes - BATCH_HEADER_BYTES)


def _columns(asked: Asked) -> CommitColumns:
    return CommitColumns(
        asked.name,
        asked.topic_id,
        tuple(row.partition_index for row in asked.rows),
        tuple(row.committed_leader_epoch for row in asked.rows),
        tuple(row.committed_metadata or "" for row in asked.rows),
    )


RECURRING_COMMIT = GroupApi(commit_again, unavailable, failed)
