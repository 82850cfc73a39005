"""Removes a member: it leaves, or was silent for too long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.coordinator.outcome import AtomicRecords, Record
from kohort.coordinator.rebalance import begin_rebalance, client_of, end_rebalance
from kohort.coordinator.share.records import group_epoch_record, member_tombstones
from kohort.coordinator.topic_hash import group_hash

if TYPE_CHECKING:
    from kohort.coordinator.outcome import Outcome
    from kohort.coordinator.shard_state import ShardState
    from kohort.coordinator.share.group import ShareGroup


def remove_member(shard: ShardState, group: ShareGroup, member_id: str, cause: str, out: Outcome) -> None:
    """The next heartbeat of another member shares out the partitions anew."""
    counts = group.counts_with(group.members[member_id], None)
    group.forget(member_id)
    is_known = group.topics_version == shard.topics.version and counts.keys() == group.topic_counts.keys()
    metadata_hash = group.metadata_hash if is_known else group_hash(shard.topics, sorted(counts), shard.config.rack)
    records: list[Record] = member_tombstones(group.group_id, member_id)
    headers = begin_rebalance(shard, group, cause, member_id, client_of(group.members[member_id]))
    records.append(group_epoch_record(group.group_id, group.epoch + 1, metadata_hash, headers))
    out.records.append(AtomicRecords(records))
    if len(group.members) == 1 and (event := end_rebalance(shard, group, group.epoch + 1, 0, None)):
        out.events.append(event)  # nobody is left to go to the new epoch
