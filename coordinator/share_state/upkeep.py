"""Regular work: snapshots, so that the log can be cut off; and tombstones for topics that are gone."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from kohort.coordinator.api import Api
from kohort.coordinator.outcome import Call, Outcome
from kohort.coordinator.share_state.share_group_offset import snapshot_record, tombstone
from kohort.coordinator.share_state.state import ShareState
from kohort.protocol.wire import Message

PIECE = 500  # share partitions that are looked at between two requests


def forget_topics(state: ShareState, topic_ids: AbstractSet[bytes]) -> Iterator[Outcome]:
    """Tombstones for all share partitions of deleted topics."""
    out = Outcome()
    for number, key in enumerate(list(state.offsets), 1):
        if key.topic_id in topic_ids and key in state.offsets:
            out.records.append(tombstone(key))
        if number % PIECE == 0:
            yield out
            out = Outcome()
    yield out


def snapshot_cold_partitions(state: ShareState) -> Iterator[Outcome]:
    """Write a snapshot of each share partition whose last one is old, so that the log can be cut off after it.

    If no share partition was written to since this was done last, nothing is written: an idle broker would
    otherwise write snapshots for ever, only to cut off those before them.
    """
    if all(known.is_cold for known in state.offsets.values()):
        return
    out = Outcome()
    for number, key in enumerate(list(state.offsets), 1):
        known = state.offsets.get(key)
        now = state.clock.wall
        if known is not None and now - known.write_ms >= state.config.cold_snapshot_interval_ms:
            out.records.append(
                snapshot_record(
                    key,
                    known.snapshot_epoch + 1,
                    known.state_epoch,
                    known.leader_epoch,
                    known.start_offset,
                    known.delivery_complete_count,
                    known.batches,
                    known.create_ms,
                    now,
                )
            )
        if number % PIECE == 0:
            yield out
            out = Outcome()
    yield out


class RedundantOffset(Message):
    """Where the log can be cut off: no record before this offset is needed."""

    __slots__ = ("offset",)

    def __init__(self, offset: int) -> None:
        self.offset = offset


class AskRedundantOffset(Message):
    __slots__ = ()


def redundant_offset(state: ShareState, request: AskRedundantOffset, call: Call) -> RedundantOffset:
    """The answer waits until everything that it rests on is durable, as all answers do."""
    return RedundantOffset(min((known.log_offset for known in state.offsets.values()), default=state.last_tombstone))


REDUNDANT_OFFSET = Api(
    redundant_offset,
    unavailable=lambda state, request, call, error: RedundantOffset(0),
    failed=lambda response, version, error: RedundantOffset(0),
)
