"""What the share coordinator answers, line by line of section 6 of the reference, and what it writes."""

from __future__ import annotations

import pytest

from kohort.coordinator.delivery.states import StateBatch
from kohort.coordinator.share_state.batches import MAX_BATCHES_IN_WRITE
from kohort.coordinator.share_state.headers import Cause, Told, read_share_state_headers, share_state_headers
from kohort.coordinator.share_state.keys import SharePartitionKey, coordinator_key
from kohort.coordinator.share_state.partition_api import Row
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.log_share_snapshot import ShareSnapshotValue
from kohort.protocol.messages.log_share_snapshot import StateBatch as SnapshotBatch
from kohort.protocol.messages.log_share_update import ShareUpdateValue
from kohort.protocol.messages.log_share_update import StateBatch as UpdateBatch
from kohort.protocol.share_state_records import SHARE_SNAPSHOT, SHARE_UPDATE
from tests.coordinator.share_state.support import ShareHost
from tests.coordinator.support import START

NOBODY = SharePartitionKey("g", b"\x63" * 16, 0)


def test_a_share_partition_belongs_to_the_hash_of_its_text() -> None:
    host = ShareHost()
    key = host.key(2)
    assert coordinator_key(key) == "g:AAAAAAAAAAAAAAAAAAAAAQ:2"
    assert host.shard_of(key).partition == 21  # abs(hashCode of that text) % 50


# --- Initialize


def test_initialize_writes_a_fresh_snapshot() -> None:
    host = ShareHost()
    assert host.initialize(state_epoch=3) == Row()
    ((kind, value, headers),) = host.log()
    assert kind == SHARE_SNAPSHOT
    assert value == ShareSnapshotValue(0, 3, 0, -1, -1, START, START, [])
    assert read_share_state_headers(headers) == Told("initialize", "")


def test_initialize_with_a_start_counts_what_is_done_from_there_on() -> None:
    host = ShareHost()
    host.initialize(start_offset=17)
    ((_, value, headers),) = host.log()
    assert (value.start_offset, value.delivery_complete_count) == (17, 0)
    assert read_share_state_headers(headers) == Told("alter", "")


def test_initialize_with_a_smaller_state_epoch_is_fenced() -> None:
    host = ShareHost()
    host.initialize(state_epoch=3)
    assert host.initialize(state_epoch=2) == Row(
        ErrorCode.FENCED_STATE_EPOCH,
        "The share coordinator rejected the request because the share-group state epoch did not match.",
    )
    assert len(host.log()) == 1


def test_initialize_again_begins_anew_but_leaders_before_stay_fenced() -> None:
    host = ShareHost()
    host.initialize(state_epoch=3)
    host.read(leader_epoch=7)
    host.write((0, 9, 2, 1), leader_epoch=7, state_epoch=3, start_offset=5)
    assert host.initialize(state_epoch=3, start_offset=100) == Row()
    assert host.log()[-1][1] == ShareSnapshotValue(1, 3, 0, 100, 0, START, START, [])
    assert host.read(leader_epoch=6).error is ErrorCode.FENCED_LEADER_EPOCH
    assert host.read(leader_epoch=7) == Row(state_epoch=3, start_offset=100, batches=[])


def test_a_state_epoch_of_minus_one_is_not_compared() -> None:
    host = ShareHost()
    host.initialize(state_epoch=3)
    assert host.initialize(state_epoch=-1) == Row()
    assert host.write((0, 1, 2, 1), state_epoch=2).error is ErrorCode.FENCED_STATE_EPOCH
    assert host.write((0, 1, 2, 1), state_epoch=-1) == Row()


@pytest.mark.parametrize("known", [True, False], ids=["a partition too many", "no such topic"])
def test_initialize_of_an_unknown_partition_is_an_error(known: bool) -> None:
    host = ShareHost()
    key = host.key(3) if known else NOBODY
    unknown = Row(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    assert host.initialize(key) == unknown
    assert host.summary(key) == unknown
    assert host.delete(key) == unknown


def test_a_negative_partition_is_an_error_for_each_api() -> None:
    host = ShareHost()
    key = host.key(-1)
    negative = Row(ErrorCode.INVALID_REQUEST, "The partition id cannot be a negative number.")
    assert host.initialize(key) == negative
    assert host.read(key) == negative
    assert host.write(key=key) == negative
    assert host.summary(key) == negative
    assert host.delete(key) == negative


# --- Read


def test_read_before_initialize_is_an_error() -> None:
    assert ShareHost().read() == Row(
        ErrorCode.INVALID_REQUEST, "Read operation on uninitialized share partition not allowed."
    )


def test_read_with_a_smaller_leader_epoch_is_fenced() -> None:
    host = ShareHost()
    host.initialize()
    host.read(leader_epoch=5)
    assert host.read(leader_epoch=4) == Row(
        ErrorCode.FENCED_LEADER_EPOCH, "The leader epoch in the request is older than the epoch on the broker."
    )
    assert host.read(leader_epoch=-1) == Row(start_offset=-1, batches=[])


def test_read_writes_a_larger_leader_epoch_down_and_nothing_else() -> None:
    host = ShareHost()
    host.initialize(state_epoch=1)
    host.write((10, 19, 2, 1), start_offset=10, state_epoch=1, done_count=4)
    host.read(leader_epoch=5)
    assert host.log()[-1][:2] == (SHARE_UPDATE, ShareUpdateValue(0, 5, 10, 4, []))
    host.read(leader_epoch=5)
    host.read(leader_epoch=-1)
    assert len(host.log()) == 3
    assert host.batches_of() == [(10, 19, 2, 1)]


def test_read_of_a_topic_that_is_gone_is_an_error() -> None:
    host = ShareHost()
    host.initialize()
    key = host.key()
    host.topics.delete("orders")
    assert host.read(key).error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert host.write((0, 1, 2, 1), key=key).error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# --- Write


def test_write_before_initialize_is_an_error() -> None:
    assert ShareHost().write((0, 1, 2, 1)) == Row(
        ErrorCode.INVALID_REQUEST, "Write operation on uninitialized share partition not allowed."
    )


def test_write_is_an_update_of_the_last_snapshot() -> None:
    host = ShareHost()
    host.initialize(state_epoch=2)
    headers = share_state_headers(Cause.ACKNOWLEDGE, "m-1")
    assert host.write((0, 4, 2, 1), (5, 9, 0, 1), state_epoch=2, start_offset=0, done_count=5, headers=headers) == Row()
    kind, value, written_headers = host.log()[-1]
    assert kind == SHARE_UPDATE
    assert value == ShareUpdateValue(0, 0, 0, 5, [UpdateBatch(0, 4, 2, 1), UpdateBatch(5, 9, 0, 1)])
    assert read_share_state_headers(written_headers) == Told("acknowledge", "m-1")
    rows = [StateBatch(0, 4, 2, 1), StateBatch(5, 9, 0, 1)]
    assert host.read() == Row(state_epoch=2, start_offset=0, batches=rows)


def test_headers_for_the_audit_can_be_switched_off() -> None:
    host = ShareHost(audit_headers=False)
    host.initialize()
    host.write((0, 4, 2, 1), headers=share_state_headers(Cause.RELEASE, "m-1"))
    assert [headers for _, _, headers in host.log()] == [(), ()]


def test_write_with_a_smaller_leader_epoch_is_fenced() -> None:
    host = ShareHost()
    host.initialize()
    host.read(leader_epoch=5)
    assert host.write((0, 1, 2, 1), leader_epoch=4).error is ErrorCode.FENCED_LEADER_EPOCH
    assert host.write((0, 1, 2, 1), leader_epoch=-1) == Row()
    assert host.write((0, 1, 2, 1), leader_epoch=6) == Row()
    assert host.known().leader_epoch == 5  # only Read writes a leader epoch down


def test_write_with_a_smaller_state_epoch_is_fenced() -> None:
    host = ShareHost()
    host.initialize(state_epoch=4)
    assert host.write((0, 1, 2, 1), state_epoch=3).error is ErrorCode.FENCED_STATE_EPOCH
    assert host.write((0, 1, 2, 1), state_epoch=4) == Row()
    assert host.write((0, 1, 2, 1), state_epoch=5) == Row()


def test_the_leader_is_fenced_before_the_state() -> None:
    host = ShareHost()
    host.initialize(state_epoch=4)
    host.read(leader_epoch=5)
    assert host.write((0, 1, 2, 1), state_epoch=3, leader_epoch=4).error is ErrorCode.FENCED_LEADER_EPOCH


def test_a_start_offset_of_minus_one_keeps_the_start() -> None:
    host = ShareHost()
    host.initialize()
    host.write((10, 19, 0, 1), start_offset=10)
    host.write((15, 16, 2, 2), start_offset=-1)
    assert host.read().start_offset == 10
    assert host.batches_of() == [(10, 14, 0, 1), (15, 16, 2, 2), (17, 19, 0, 1)]
    host.write(start_offset=16)
    assert (host.read().start_offset, host.batches_of()) == (16, [(16, 16, 2, 2), (17, 19, 0, 1)])


def test_batches_that_no_leader_sends_are_refused() -> None:
    host = ShareHost()
    host.initialize()
    assert host.write((5, 4, 2, 1)).error is ErrorCode.INVALID_REQUEST
    many = [(2 * number, 2 * number, 2, 1) for number in range(MAX_BATCHES_IN_WRITE + 1)]
    assert host.write(*many).error is ErrorCode.INVALID_REQUEST
    for base in (0, 30_000):
        assert host.write(*[(base + first, base + first, 2, 1) for first, _, _, _ in many[:-1]]) == Row()
    assert host.write(*[(60_000 + first, 60_000 + first, 2, 1) for first, _, _, _ in many[:-1]]) == Row(
        ErrorCode.INVALID_REQUEST, "The state would have more than 25000 batches."
    )
    host.crash()
    assert len(host.read().batches) == 2 * MAX_BATCHES_IN_WRITE


# --- snapshots


def test_after_some_updates_the_next_write_is_a_snapshot() -> None:
    host = ShareHost(updates_per_snapshot=3)
    host.initialize(state_epoch=2)
    for number in range(3):
        host.write((number, number, 2, 1), state_epoch=2, start_offset=0, done_count=number + 1)
    host.now += 50
    host.write((3, 4, 0, 1), state_epoch=2, done_count=3)
    assert [kind for kind, _, _ in host.log()] == [SHARE_SNAPSHOT, *[SHARE_UPDATE] * 3, SHARE_SNAPSHOT]
    now = START + 50
    rows = [SnapshotBatch(0, 2, 2, 1), SnapshotBatch(3, 4, 0, 1)]
    assert host.log()[-1][1] == ShareSnapshotValue(1, 2, 0, 0, 3, now, now, rows)
    for number in range(5, 8):
        host.write((number, number, 2, 1), state_epoch=2)
    assert [value.snapshot_epoch for _, value, _ in host.log()[-3:]] == [1, 1, 1]
    host.write((8, 8, 2, 1), state_epoch=2)
    assert host.log()[-1][0] == SHARE_SNAPSHOT


def test_500_updates_are_the_default_and_0_makes_each_write_a_snapshot() -> None:
    host = ShareHost()
    host.initialize()
    for number in range(501):
        host.write((number, number, 2, 1), start_offset=0)
    assert [kind for kind, _, _ in host.log()][-2:] == [SHARE_UPDATE, SHARE_SNAPSHOT]
    host = ShareHost(updates_per_snapshot=0)
    host.initialize()
    host.write((0, 0, 2, 1))
    assert [kind for kind, _, _ in host.log()] == [SHARE_SNAPSHOT, SHARE_SNAPSHOT]


def test_a_larger_leader_epoch_may_be_written_down_in_a_snapshot() -> None:
    host = ShareHost(updates_per_snapshot=1)
    host.initialize()
    host.write((0, 9, 2, 1), start_offset=0, done_count=10)
    host.read(leader_epoch=8)
    kind, value, _ = host.log()[-1]
    assert (kind, value.leader_epoch, value.delivery_complete_count) == (SHARE_SNAPSHOT, 8, 10)
    assert host.batches_of() == [(0, 9, 2, 1)]


def same_shard(host: ShareHost) -> tuple[SharePartitionKey, SharePartitionKey]:
    """Two share partitions that are kept in the same partition of the log."""
    first = host.key(0, "g")
    shard = host.shard_of(first)
    return first, next(key for number in range(1000) if host.shard_of(key := host.key(0, f"h{number}")) is shard)


def test_share_partitions_that_are_quiet_get_a_snapshot_once_others_of_the_log_are_not() -> None:
    host = ShareHost()
    quiet, busy = same_shard(host)
    host.initialize(quiet, state_epoch=1)
    host.write((0, 9, 2, 1), key=quiet, state_epoch=1, start_offset=0, done_count=10)
    host.initialize(busy)
    host.snapshot_cold_partitions(after_ms=299_999)
    assert len(host.log()) == 3
    host.snapshot_cold_partitions(after_ms=1)
    assert len(host.log()) == 5
    kind, value, headers = host.log()[3]
    rows = [SnapshotBatch(0, 9, 2, 1)]
    assert (kind, value) == (SHARE_SNAPSHOT, ShareSnapshotValue(1, 1, 0, 0, 10, START, START + 300_000, rows))
    assert headers == ()
    host.snapshot_cold_partitions()  # all are quiet now
    assert len(host.log()) == 5
    host.initialize(busy)
    host.snapshot_cold_partitions()
    assert len(host.log()) == 8


# --- ReadSummary


def test_the_summary_of_a_share_partition_that_was_never_initialized_is_empty() -> None:
    assert ShareHost().summary() == Row(start_offset=-1)


def test_a_summary_says_where_the_group_stands_and_checks_no_epoch() -> None:
    host = ShareHost()
    host.initialize(state_epoch=4)
    host.read(leader_epoch=6)
    host.write((5, 9, 2, 1), state_epoch=4, leader_epoch=6, start_offset=5, done_count=5)
    expected = Row(state_epoch=4, leader_epoch=6, start_offset=5, delivery_complete_count=5)
    assert host.summary() == expected
    assert host.summary(leader_epoch=2) == expected


# --- Delete


def test_delete_writes_a_tombstone_and_is_no_error_the_second_time() -> None:
    host = ShareHost()
    host.initialize(state_epoch=4)
    assert host.delete() == Row()
    assert host.log()[-1] == (SHARE_SNAPSHOT, None, ())
    assert host.delete() == Row()
    assert len(host.log()) == 2
    assert host.read().error is ErrorCode.INVALID_REQUEST
    assert host.initialize(state_epoch=0) == Row()  # nobody knows the old epochs any more
    assert host.log()[-1][1].snapshot_epoch == 0


def test_the_states_of_a_deleted_topic_are_deleted() -> None:
    host = ShareHost()
    host.topics.create("payments", 1)
    keys = [host.key(0), host.key(1), host.key(0, "h"), host.key(0, "g", "payments")]
    for key in keys:
        host.initialize(key)
    host.delete_topic("orders")
    host.crash()
    known = [key for shard in host.runtime.shards for key in shard.state.offsets]
    assert known == [keys[3]]


# --- durable before the answer, and loaded from the log


def test_an_answer_waits_for_the_disk_and_so_do_answers_that_rest_on_it() -> None:
    from kohort.coordinator.share_state.initialize_share_group_state import INITIALIZE, InitializeAsked
    from kohort.coordinator.share_state.read_share_group_state import ReadAsked
    from kohort.coordinator.share_state.read_share_group_state_summary import READ_SUMMARY

    host = ShareHost()
    host.is_slow = True
    first = host.ask(INITIALIZE, InitializeAsked(host.key(), 4, 9))
    second = host.ask(READ_SUMMARY, ReadAsked(host.key(), 0))
    assert [first.answer, second.answer] == [None, None]
    host.disk_catches_up()
    assert [first.answer, second.answer] == [Row(), Row(state_epoch=4, start_offset=9, delivery_complete_count=0)]


def test_after_a_crash_all_that_was_answered_is_there() -> None:
    host = ShareHost(updates_per_snapshot=2)
    host.initialize(state_epoch=3)
    host.read(leader_epoch=5)
    for number in range(7):
        host.write((10 * number, 10 * number + 9, 2 * (number % 2), 1 + number), start_offset=10, done_count=number)
    before = host.known()
    facts = [getattr(before, name) for name in before.__slots__]
    host.crash()
    after = host.known()
    assert [getattr(after, name) for name in after.__slots__] == facts
    assert host.write((0, 1, 2, 1), leader_epoch=4).error is ErrorCode.FENCED_LEADER_EPOCH
    assert host.write((0, 1, 2, 1), leader_epoch=5, state_epoch=2).error is ErrorCode.FENCED_STATE_EPOCH


def test_a_write_that_did_not_reach_the_disk_was_never_there() -> None:
    host = ShareHost()
    host.initialize()
    host.is_slow = True
    host.write((0, 9, 2, 1), start_offset=10)
    host.crash()
    assert host.known().start_offset == -1


def test_long_records_are_loaded_in_steps() -> None:
    host = ShareHost()
    host.initialize()
    for number in range(6):
        host.write(*[(3 * each, 3 * each + 1, 0, 1 + number) for each in range(2_000)], start_offset=0)
    shard = host.runtime.start_over(host.shard_of())
    chunk = b"".join(host.batches[shard.partition])
    assert len(list(shard.load_chunk(chunk, len(chunk)))) == 3, "each of the six has 40 kB"


# --- trimming


def test_the_log_is_needed_from_the_oldest_of_the_latest_snapshots_on() -> None:
    host = ShareHost(updates_per_snapshot=1)
    first, second = same_shard(host)
    host.initialize(first)  # at offset 0
    host.initialize(second)  # 1
    assert host.redundant_offset() == 0
    for number in range(4):  # update 2, snapshot 3, update 4, snapshot 5
        host.write((number, number, 2, 1), key=first, start_offset=0)
    assert host.redundant_offset() == 1
    host.delete(second)  # 6
    assert host.redundant_offset() == 5
    host.delete(first)  # 7
    assert host.redundant_offset() == 7
    host.crash()
    assert host.redundant_offset() == 7


def test_a_log_that_was_cut_off_gives_the_same_states() -> None:
    host = ShareHost(updates_per_snapshot=3)
    first, second = same_shard(host)
    for key in (first, second):
        host.initialize(key)
    for number in range(40):
        host.write(
            (number, number, 2 * (number % 3 % 2), 1), key=(first, second)[number % 5 % 2], start_offset=number // 2
        )
    expected = host.batches_of(first), host.batches_of(second)
    cut = host.redundant_offset()
    assert cut > 10
    shard = host.runtime.start_over(host.shard_of(first))
    host.load_shard(shard, skip=cut)  # each record is a batch of its own
    assert (host.batches_of(first), host.batches_of(second)) == expected
