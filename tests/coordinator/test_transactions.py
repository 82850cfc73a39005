"""Offsets of transactions, as Kafka's log has them: pending until the producer's marker comes."""

import pytest

from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.log_records import GROUP_METADATA, OFFSET_COMMIT, encode_key, encode_value
from kohort.protocol.messages.log_group_metadata import GroupMetadataKey
from kohort.protocol.messages.log_offset_commit import OffsetCommitKey, OffsetCommitValue
from kohort.protocol.record_batch import build_batch, build_marker
from tests.coordinator.members import commit, delete_offsets, fetch, fetched, send_fetch
from tests.coordinator.support import START, Host

PLACE = ("orders", 0)


class Log:
    """What a Kafka might have written into the partition of group g."""

    def __init__(self) -> None:
        self.host = Host(load=False)
        self._batches = self.host.disk.batches.setdefault(self.host.shard_of("g").partition, [])

    @property
    def _end(self) -> int:
        return self.host.disk.end_offset(self.host.shard_of("g").partition)

    def offset(self, offset: int | None, producer_id: int = -1, place: tuple[str, int] = PLACE) -> "Log":
        """`offset` None: a tombstone."""
        value = None if offset is None else encode_value(OFFSET_COMMIT, OffsetCommitValue(offset, -1, "", START))
        batch = build_batch(
            [(encode_key(OFFSET_COMMIT, OffsetCommitKey("g", *place)), value)], timestamp=START, base_offset=self._end,
            producer_id=producer_id, producer_epoch=0 if producer_id >= 0 else -1, base_sequence=0,
            transactional=producer_id >= 0,
        )  # fmt: skip
        self._batches.append(batch)
        return self

    def marker(self, commit: bool, producer_id: int) -> "Log":
        marker = build_marker(
            commit,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=1,
            timestamp=START,
            base_offset=self._end,
        )
        self._batches.append(marker)
        return self

    def loaded(self) -> Host:
        self.host.load()
        return self.host


def test_a_pending_offset_is_not_visible() -> None:
    host = Log().offset(200, 7).loaded()
    assert fetch(host, "g", [PLACE]) == {PLACE: -1}
    assert fetch(host, "g") == {}


def test_a_pending_offset_makes_a_simple_group() -> None:
    assert Log().offset(200, 7).loaded().state("g") == "Empty"


@pytest.mark.parametrize("version", range(7, 11))
def test_who_wants_stable_offsets_is_told_that_this_one_is_not(version: int) -> None:
    host = Log().offset(100).offset(200, 7).offset(5, place=("orders", 1)).loaded()
    call = send_fetch(host, "g", [PLACE, ("orders", 1)], version=version, require_stable=True)
    answers = fetched(call)
    assert (answers[PLACE].error_code, answers[PLACE].committed_offset) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    assert (answers["orders", 1].error_code, answers["orders", 1].committed_offset) == (0, 5)
    assert fetch(host, "g", [PLACE], version=version) == {PLACE: 100}


def test_asked_for_all_topics_only_partitions_with_a_committed_offset_are_listed() -> None:
    host = Log().offset(100).offset(200, 7).offset(300, 7, ("orders", 1)).loaded()
    answers = fetched(send_fetch(host, "g", require_stable=True))
    assert {place: each.error_code for place, each in answers.items()} == {PLACE: 88}


def test_a_commit_marker_makes_pending_offsets_visible() -> None:
    host = Log().offset(200, 7).marker(True, 7).loaded()
    assert fetch(host, "g") == {PLACE: 200}
    assert fetched(send_fetch(host, "g", [PLACE], require_stable=True))[PLACE].error_code == 0


def test_an_abort_marker_drops_them() -> None:
    host = Log().offset(100).offset(200, 7).marker(False, 7).loaded()
    assert fetch(host, "g") == {PLACE: 100}
    assert fetched(send_fetch(host, "g", [PLACE], require_stable=True))[PLACE].error_code == 0


def test_a_marker_is_about_its_own_producer() -> None:
    host = Log().offset(200, 7).offset(300, 8, ("orders", 1)).marker(True, 8).loaded()
    assert fetch(host, "g") == {("orders", 1): 300}


def test_a_marker_ends_the_transaction_once() -> None:
    host = Log().offset(200, 7).marker(True, 7).offset(300, 7).marker(False, 7).loaded()
    assert fetch(host, "g") == {PLACE: 200}


def test_a_plain_commit_written_after_the_pending_one_wins() -> None:
    host = Log().offset(200, 7).offset(150).marker(True, 7).loaded()
    assert fetch(host, "g") == {PLACE: 150}


def test_a_pending_one_written_after_a_plain_commit_wins() -> None:
    host = Log().offset(150).offset(200, 7).marker(True, 7).loaded()
    assert fetch(host, "g") == {PLACE: 200}


def test_of_two_producers_the_later_record_wins_whatever_the_order_of_the_markers() -> None:
    host = Log().offset(200, 7).offset(300, 8).marker(True, 8).marker(True, 7).loaded()
    assert fetch(host, "g") == {PLACE: 300}


def test_a_tombstone_drops_the_pending_offsets_of_all_producers() -> None:
    host = Log().offset(200, 7).offset(300, 8).offset(None).marker(True, 7).marker(True, 8).loaded()
    assert fetch(host, "g") == {}


def test_a_marker_of_another_kind_or_of_nobody_changes_nothing() -> None:
    host = Log().marker(True, 99).offset(100).marker(False, 99).loaded()
    assert fetch(host, "g") == {PLACE: 100}


def end(host: Host, commit: bool) -> None:
    """The marker arrives later, in the log of a running shard."""
    shard = host.shard_of("g")
    batch = build_marker(
        commit, producer_id=7, producer_epoch=0, coordinator_epoch=1, timestamp=START, base_offset=shard.next_offset
    )
    host.disk.batches.setdefault(shard.partition, []).append(batch)
    list(shard.load_chunk(batch, len(batch)))


def test_deleting_the_group_forgets_pending_offsets_and_a_later_marker_has_no_effect() -> None:
    host = Log().offset(200, 7).loaded()
    assert host.delete("g") == {"g": 0}
    assert [(kind, value) for kind, _, value in host.records_of("g")[1:]] == [(1, None), (2, None)]
    end(host, commit=True)
    assert host.list_groups() == []
    assert fetch(host, "g") == {}


def test_deleting_an_offset_forgets_the_pending_one_too() -> None:
    host = Log().offset(200, 7).loaded()
    delete_offsets(host, "g", PLACE)
    end(host, commit=True)
    assert fetch(host, "g") == {}


def test_deleting_the_topic_forgets_pending_offsets_even_of_a_group_without_committed_ones() -> None:
    host = Log().offset(200, 7).loaded()
    host.delete_topic("orders")
    assert len(host.records_of("g")) == 2
    end(host, commit=True)
    assert fetch(host, "g") == {}


@pytest.mark.parametrize("commits", [True, False])
def test_an_open_transaction_keeps_its_partition_and_its_group_from_expiring(commits: bool) -> None:
    host = Log().offset(100).offset(200, 7).offset(50, place=("orders", 1)).loaded()
    host.advance(700_000_000)
    host.expire_offsets()
    assert fetch(host, "g") == {PLACE: 100}
    end(host, commits)
    host.expire_offsets()
    assert fetch(host, "g") == {}
    assert host.list_groups() == []


def test_a_group_with_nothing_but_a_pending_offset_stays() -> None:
    host = Log().offset(200, 7).loaded()
    host.advance(700_000_000)
    host.expire_offsets()
    assert host.state("g") == "Empty"


def test_a_live_commit_after_the_pending_one_wins_too() -> None:
    host = Log().offset(200, 7).loaded()
    commit(host, "g", {PLACE: 150})
    end(host, commit=True)
    assert fetch(host, "g") == {PLACE: 150}


def test_a_group_tombstone_in_the_log_does_not_matter_to_a_commit_after_it() -> None:
    log = Log().offset(100).offset(None)
    log._batches.append(
        build_batch([(encode_key(GROUP_METADATA, GroupMetadataKey("g")), None)], timestamp=START, base_offset=log._end)
    )
    host = log.offset(200, 7).marker(True, 7).loaded()
    assert fetch(host, "g") == {PLACE: 200}
