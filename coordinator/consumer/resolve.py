"""Which topics match the regular expressions of a group: looked up between requests, and written to the log.

The topics are looked through when a member brings a new expression, when topics were created, and from time to time.
The group epoch is bumped if other topics match than before; the next heartbeat of any member then assigns them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kohort.coordinator.consumer.rebalance import begin_rebalance, client_of
from kohort.coordinator.consumer.records import group_epoch_record, regex_record
from kohort.coordinator.consumer.regex import InvalidRegularExpression, compile_pattern
from kohort.coordinator.consumer.subscriptions import ResolvedRegex
from kohort.coordinator.outcome import AtomicRecords, Outcome, Record
from kohort.coordinator.pieces import in_pieces
from kohort.coordinator.topic_hash import hash_in_steps

if TYPE_CHECKING:
    from kohort.coordinator.consumer.group import ConsumerGroup
    from kohort.coordinator.consumer.member import ConsumerMember
    from kohort.coordinator.shard_state import ShardState

MIN_INTERVAL_MS = 10_000  # a constant in Kafka too


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
            resolved[regex] = ResolvedRegex(tuple(sorted(topics)), version, wall)
            yield from in_pieces(hash_in_steps(shard.topics, topics, shard.config.rack), 1)
        if not group.is_abandoned:
            group.regexes_version = version
            yield _written(shard, group, resolved, member_id)
    finally:
        group.is_resolving = False


def _written(shard: ShardState, group: ConsumerGroup, resolved: dict[str, ResolvedRegex], member_id: str) -> Outcome:
    """The records, for those expressions that are still in use."""
    records: list[Record] = []
    after = group.subscriptions.copy()
    must_bump = False
    for regex, topics in resolved.items():
        if regex in after.regexes:
            known = after.resolved.get(regex)
            must_bump |= topics.topics != (known.topics if known is not None else ())
            after.resolve(regex, topics)
            records.append(regex_record(group.group_id, regex, topics))
    metadata_hash = after.metadata_hash(shard)
    if must_bump or metadata_hash != group.metadata_hash:
        group.topics_version = shard.topics.version
        client = client_of(group.members.get(member_id))
        headers = begin_rebalance(shard, group, "regular expression matches other topics", member_id, client)
        records.append(group_epoch_record(group.group_id, group.epoch + 1, metadata_hash, headers))
    return Outcome([AtomicRecords(records)] if records else [])
