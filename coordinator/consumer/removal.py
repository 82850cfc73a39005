"""Removes members: they leave, or were silent for too long, or did not give up partitions in time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kohort.coordinator.consumer.records import group_epoch_record, member_tombstones, regex_tombstone
from kohort.coordinator.outcome import AtomicRecords, InPieces, Record
from kohort.coordinator.rebalance import MAX_TOLD, begin_rebalance, client_of, end_rebalance

FEW_MEMBERS = 100  # a group with more becomes another kind of group in steps; this many take some 5 ms
TOMBSTONES_OF_MEMBER = 3
MAX_NAMED = 100  # clients that caused a rebalance together
BYTES_OF_THE_REST = 100  # of a record, without the ids in its key

if TYPE_CHECKING:
    from kohort.coordinator.consumer.group import ConsumerGroup
    from kohort.coordinator.outcome import Outcome
    from kohort.coordinator.shard_state import ShardState


def may_downgrade(shard: ShardState, group: ConsumerGroup, gone: Sequence[str], joining: int = 0) -> bool:
    """Whether a classic group can take the place of this one, without the members that are gone."""
    left = len(group.members) - len(gone)
    classic = group.classic_member_count - sum(group.members[each].classic is not None for each in gone)
    return shard.config.downgrades_groups and classic == left and 0 < left + joining <= shard.config.max_size


def downgrade_later(shard: ShardState, group: ConsumerGroup, trigger: str, out: Outcome) -> bool:
    """Begin to make a classic group of a large group, once the records are replayed. False: it is not large."""
    if len(group.members) <= FEW_MEMBERS:
        return False
    if not group.is_converting:
        group.is_converting = True
        out.jobs = [*out.jobs, InPieces(shard.downgrade_in_pieces(shard, group, trigger))]
    return True


def _most_bytes(group: ConsumerGroup, member_ids: Sequence[str]) -> int:
    """The records that remove these members have at most so many bytes."""
    texts = [*group.subscriptions.resolved, *(each for each in member_ids for _ in range(TOMBSTONES_OF_MEMBER))]
    return sum(4 * (len(text) + len(group.group_id)) + BYTES_OF_THE_REST for text in (*texts, ""))


def remove_members(
    shard: ShardState, group: ConsumerGroup, member_ids: Sequence[str], cause: str, out: Outcome
) -> None:
    """The partitions of these members are free at once, and the next heartbeat of another member assigns them.

    If only classic members are left, the group becomes a classic one: at once, or soon if it is large.
    """
    if (
        may_downgrade(shard, group, member_ids)
        and not downgrade_later(shard, group, ", ".join(member_ids), out)
        and shard.downgrade(shard, group, member_ids, None, True, out)
    ):
        return
    records: list[Record] = []
    after = group.subscriptions.copy()
    for member_id in member_ids:
        records += member_tombstones(group.group_id, member_id)
        after.change(group.members[member_id], None)
        group.forget(member_id)
    records += [regex_tombstone(group.group_id, regex) for regex in after.forget_unused()]
    clients = ", ".join(dict.fromkeys(client_of(group.members[each])[:MAX_TOLD] for each in member_ids[:MAX_NAMED]))
    headers = begin_rebalance(shard, group, cause, ", ".join(member_ids), clients)
    if group.rebalance is not None:
        for member_id in member_ids:
            for topic_id, partitions in group.target_of(member_id).items():
                group.rebalance.freed.update((topic_id, partition) for partition in partitions)
    is_known = group.topics_version == shard.topics.version and after.has_topics_of(group.subscriptions)
    metadata_hash = group.metadata_hash if is_known else after.metadata_hash(shard)
    bump = group_epoch_record(group.group_id, group.epoch + 1, metadata_hash, headers)
    if _most_bytes(group, member_ids) <= shard.config.max_message_bytes:
        out.records.append(AtomicRecords([*records, bump]))
    else:  # the epoch first: members whose tombstones are not written are removed when their sessions end
        out.records += [bump, *records]
    if len(member_ids) == len(group.members) and (event := end_rebalance(shard, group, group.epoch + 1, 0, None)):
        out.events.append(event)  # nobody is left to reconcile
