"""Which topics match the regular expressions of a group: looked up between requests, and written to the log.

The topics are looked through when a member brings a new expression, when topics were created, and from time to time.
The group epoch is bumped if other topics match than before; the next heartbeat of any member then assigns them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from kohort.coordinator.api import Steps, all_steps
from kohort.coordinator.consumer.records import group_epoch_record, regex_record
from kohort.coordinator.consumer.regex import InvalidRegularExpression, compile_pattern
from kohort.coordinator.consumer.subscriptions import ResolvedRegex
from kohort.coordinator.outcome import AtomicRecords, Outcome, Record
from kohort.coordinator.pieces import in_pieces
from kohort.coordinator.rebalance import begin_rebalance, client_of
from kohort.coordinator.topic_hash import hash_in_steps

if TYPE_CHECKING:
    from kohort.coordinator.consumer.group import ConsumerGroup
    from kohort.coordinator.consumer.member import ConsumerMember
    from kohort.coordinator.shard_state import ShardState

logger = logging.getLogger(__name__)

MIN_INTERVAL_MS = 10_000  # a constant in Kafka too
MAX_TOLD = 200  # characters of an expression or a group id in the log
FEW_TOPICS = 2_000  # of all expressions together: their records are written at once
RECORD_BYTES, TOPIC_BYTES = 200, 5  # of a batch with one record, and of a topic in it, without the texts


def refresh_is_due(shard: ShardState, group: ConsumerGroup, member: ConsumerMember, before: ConsumerMember) -> bool:
    """Whether to look through the topics now. `before`: the member before its heartbeat."""
    used = group.subscriptions.regexes
    regex, old = member.topic_regex, before.topic_regex
    is_new = bool(regex) and regex != old and regex not in used
    if group.is_resolving or not (is_new or used):
        return False
    resolved = group.subscriptions.resolved
    last = next((each.timestamp for each in resolved.values()), None)
    now = shard.clock.wall
    if last is not None and 0 <= now - last <= MIN_INTERVAL_MS:  # negative if the clock was set back
        return False
    after = _used_after(used, old, regex)
    is_old = last is not None and now > last + shard.config.consumer_regex_refresh_interval_ms
    has_new_topics = group.regexes_version < shard.topics.created_version
    return bool(after) and (is_new or len(after) != len(resolved) or has_new_topics or is_old)


def _used_after(used: dict[str, int], old: str | None, new: str | None) -> set[str]:
    after = set(used)
    if old and old != new and used.get(old) == 1:
        after.discard(old)
    if new:
        after.add(new)
    return after


def resolve_in_pieces(shard: ShardState, group: ConsumerGroup, member_id: str) -> Iterator[Outcome]:
    """Match all regular expressions of the group. `member_id`: the member whose heartbeat made this necessary."""
    try:
        version, wall = shard.topics.version, shard.clock.wall
        names = sorted(shard.topics.names())
        resolved: dict[str, ResolvedRegex] = {}
        for regex in list(group.subscriptions.regexes):
            try:
                topics = yield from in_pieces(compile_pattern(regex).matching(names), 1)
            except InvalidRegularExpression:
                topics = []  # the expression is in a log of Kafka, and only Kafka understands it
            found = ResolvedRegex(tuple(sorted(topics)), version, wall)
            if _most_bytes(group.group_id, regex, found) > shard.config.max_message_bytes:
                _complain(group, regex, len(topics))
                found = ResolvedRegex((), version, wall)
            resolved[regex] = found
            yield from in_pieces(hash_in_steps(shard.topics, topics, shard.config.rack), 1)
        if not group.is_abandoned:
            group.regexes_version = version
            yield from _written(shard, group, resolved, member_id)
    finally:
        group.is_resolving = False


def _most_bytes(group_id: str, regex: str, resolved: ResolvedRegex) -> int:
    """A batch with the record of the expression has at most so many bytes."""
    texts = 4 * (len(group_id) + len(regex)) + sum(map(len, resolved.topics))
    return texts + TOPIC_BYTES * len(resolved.topics) + RECORD_BYTES


def _complain(group: ConsumerGroup, regex: str, count: int) -> None:
    logger.warning(
        "consumer group %s: the %d topics that match %.*r do not fit into a record of __consumer_offsets "
        "(max.message.bytes), so the expression matches nothing",
        group.group_id[:MAX_TOLD],
        count,
        MAX_TOLD,
        regex,
    )


def _written(
    shard: ShardState, group: ConsumerGroup, resolved: Mapping[str, ResolvedRegex], member_id: str
) -> Iterator[Outcome]:
    """The records, for those expressions that are still in use: one batch, if they are not too many for it."""
    size = sum(_most_bytes(group.group_id, regex, topics) for regex, topics in resolved.items())
    if size <= shard.config.max_message_bytes and sum(len(each.topics) for each in resolved.values()) <= FEW_TOPICS:
        records = [regex_record(group.group_id, regex, topics) for regex, topics in _used(group, resolved)]
        bump = all_steps(_bump(shard, group, resolved, member_id))
        if bump is not None:
            group.topics_version = shard.topics.version
            records.append(bump)
        yield Outcome([AtomicRecords(records)] if records else [])
        return
    # The epoch first: if the broker ends before the last record, the next heartbeat after its start resolves all of
    # them again. Until then no target is computed.
    was_assigning, group.is_assigning = group.is_assigning, True
    try:
        bump = yield from in_pieces(_bump(shard, group, resolved, member_id), 1)
        if bump is not None and not group.is_abandoned:
            yield Outcome([bump])
        for regex, topics in resolved.items():
            if regex in group.subscriptions.regexes and not group.is_abandoned:
                yield Outcome([regex_record(group.group_id, regex, topics)])
    finally:
        group.is_assigning = was_assigning


def _used(group: ConsumerGroup, resolved: Mapping[str, ResolvedRegex]) -> list[tuple[str, ResolvedRegex]]:
    return [(regex, topics) for regex, topics in resolved.items() if regex in group.subscriptions.regexes]


def _bump(
    shard: ShardState, group: ConsumerGroup, resolved: Mapping[str, ResolvedRegex], member_id: str
) -> Steps[Record | None]:
    """The record of the next group epoch, if other topics match than before, or the topics have changed."""
    after = group.subscriptions.copy()
    must_bump = False
    for regex, topics in _used(group, resolved):
        known = after.resolved.get(regex)
        must_bump |= topics.topics != (known.topics if known is not None else ())
        after.resolve(regex, topics)
        yield
    metadata_hash = after.metadata_hash(shard)
    if not must_bump and metadata_hash == group.metadata_hash:
        return None
    client = client_of(group.members.get(member_id))
    headers = begin_rebalance(shard, group, "regular expression matches other topics", member_id, client)
    return group_epoch_record(group.group_id, group.epoch + 1, metadata_hash, headers)
