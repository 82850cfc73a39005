"""What is known of one share partition, as its records tell it: ShareGroupOffset, by Kafka's name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kohort.coordinator.delivery.states import StateBatch
from kohort.coordinator.outcome import Headers, Record
from kohort.coordinator.share_state.batches import NO_START_OFFSET, are_disjoint, combine
from kohort.coordinator.share_state.keys import SharePartitionKey
from kohort.protocol.messages import log_share_snapshot, log_share_update
from kohort.protocol.messages.log_share_snapshot import ShareSnapshotKey, ShareSnapshotValue
from kohort.protocol.messages.log_share_update import ShareUpdateKey, ShareUpdateValue
from kohort.protocol.share_state_records import SHARE_SNAPSHOT, SHARE_UPDATE

UNKNOWN_COUNT = -1  # of records that are done
NO_EPOCH = -1  # the caller does not say, or does not check, an epoch


class ShareGroupOffset:
    __slots__ = (
        "batches", "create_ms", "delivery_complete_count", "highest_leader_epoch", "highest_state_epoch",
        "leader_epoch", "log_offset", "snapshot_epoch", "start_offset", "state_epoch", "update_count", "write_ms",
    )  # fmt: skip

    def __init__(self) -> None:
        self.snapshot_epoch = 0
        self.state_epoch = 0
        self.leader_epoch = 0
        self.start_offset = NO_START_OFFSET
        self.delivery_complete_count = UNKNOWN_COUNT
        self.batches: Sequence[StateBatch] = ()
        self.create_ms = 0  # when the state was last written, and a snapshot was due
        self.write_ms = 0  # when the snapshot was made: later than `create_ms` if only time had passed
        # The epochs that fence. A new state begins with leader epoch 0, but the leaders before do not come back.
        self.highest_leader_epoch = 0
        self.highest_state_epoch = 0
        self.update_count = 0  # since the last snapshot that was due for updates
        self.log_offset = 0  # of the last snapshot: nothing before it is needed

    @property
    def is_cold(self) -> bool:
        """Whether nothing was written since a snapshot that was made because time had passed."""
        return self.create_ms != self.write_ms

    # --- replay

    def replay_snapshot(self, value: ShareSnapshotValue, log_offset: int, updates_per_snapshot: int) -> None:
        self.snapshot_epoch = value.snapshot_epoch
        self.state_epoch = value.state_epoch
        self.leader_epoch = value.leader_epoch
        self.start_offset = value.start_offset
        self.delivery_complete_count = value.delivery_complete_count
        batches = _state_batches(value.state_batches)
        self.batches = batches if are_disjoint(batches) else combine((), batches, NO_START_OFFSET)
        self.create_ms, self.write_ms = value.create_timestamp, value.write_timestamp
        self.highest_leader_epoch = max(self.highest_leader_epoch, value.leader_epoch)
        self.highest_state_epoch = max(self.highest_state_epoch, value.state_epoch)
        self.log_offset = log_offset
        if self.update_count >= updates_per_snapshot:
            self.update_count = 0

    def replay_update(self, value: ShareUpdateValue) -> None:
        if value.leader_epoch != NO_EPOCH:
            self.leader_epoch = value.leader_epoch
            self.highest_leader_epoch = max(self.highest_leader_epoch, value.leader_epoch)
        if value.start_offset != NO_START_OFFSET:
            self.start_offset = value.start_offset
        self.delivery_complete_count = value.delivery_complete_count
        self.batches = combine(self.batches, _state_batches(value.state_batches), self.start_offset)
        self.update_count += 1


def _state_batches(batches: Sequence[Any]) -> list[StateBatch]:
    return [StateBatch(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count) for b in batches]


# --- records


def snapshot_record(
    key: SharePartitionKey,
    snapshot_epoch: int,
    state_epoch: int,
    leader_epoch: int,
    start_offset: int,
    delivery_complete_count: int,
    batches: Sequence[StateBatch],
    create_ms: int,
    write_ms: int,
    headers: Headers = (),
) -> Record:
    rows = [log_share_snapshot.StateBatch(*batch) for batch in batches]
    value = ShareSnapshotValue(
        snapshot_epoch, state_epoch, leader_epoch, start_offset, delivery_complete_count, create_ms, write_ms, rows
    )
    return Record(SHARE_SNAPSHOT, ShareSnapshotKey(*key), value, headers)


def update_record(
    key: SharePartitionKey,
    snapshot_epoch: int,
    leader_epoch: int,
    start_offset: int,
    delivery_complete_count: int,
    batches: Sequence[StateBatch],
    headers: Headers = (),
) -> Record:
    rows = [log_share_update.StateBatch(*batch) for batch in batches]
    value = ShareUpdateValue(snapshot_epoch, leader_epoch, start_offset, delivery_complete_count, rows)
    return Record(SHARE_UPDATE, ShareUpdateKey(*key), value, headers)


def tombstone(key: SharePartitionKey) -> Record:
    return Record(SHARE_SNAPSHOT, ShareSnapshotKey(*key), None)
