"""Compaction of transactional data: what was aborted goes, and a marker stays while somebody needs it."""

import pytest

from kohort.storage.disk import Disk
from kohort.storage.txn_index import AbortedTransaction
from tests.simulation.disk import SimulatedDisk
from tests.storage.compaction_story import NOW, Story

A, B = b"key-a", b"key-b"


@pytest.fixture
def disk() -> Disk:
    disk = SimulatedDisk()
    disk.make_folder("data")
    return disk


@pytest.fixture
def story(disk: Disk) -> Story:
    return Story(disk)


def markers(story: Story) -> list[int]:
    return [header.base_offset for header in story.headers() if header.is_control and header.record_count]


def run_again(story: Story, now: int) -> None:
    """Another run, with something dirty to run for."""
    story.now = now
    story.write((b"other", b"%d" % now))
    story.roll()
    story.compact()


def test_aborted_data_goes_and_does_not_hide_older_values(story: Story) -> None:
    story.write((A, b"committed"))
    story.write((A, b"aborted"), producer=1)
    story.end_transaction(1, commit=False)
    story.roll()
    before = story.state()
    story.compact()
    assert story.offsets() == [0]
    assert story.state() == before == {A: b"committed"}


def test_committed_data_replaces_older_values(story: Story) -> None:
    story.write((A, b"1"))
    story.write((A, b"2"), producer=1)
    story.end_transaction(1, commit=True)
    story.roll()
    story.compact()
    assert story.offsets() == [1]
    assert story.state() == {A: b"2"}


def test_the_same_producer_aborts_and_commits_in_turn(story: Story) -> None:
    for number in range(6):
        story.write((A, b"%d" % number), producer=1)
        story.end_transaction(1, commit=number % 2 == 0)
    story.roll()
    story.compact()
    assert story.offsets() == [8]
    assert story.state() == {A: b"4"}


def test_interleaved_transactions_are_told_apart(story: Story) -> None:
    story.write((A, b"one"), producer=1)
    story.write((A, b"two"), producer=2)
    story.write((B, b"one"), producer=1)
    story.end_transaction(2, commit=False)
    story.end_transaction(1, commit=True)
    story.roll()
    story.compact()
    assert story.offsets() == [0, 2]
    assert story.state() == {A: b"one", B: b"one"}


def test_nothing_at_or_above_an_open_transaction_is_touched(story: Story) -> None:
    story.write((A, b"1"))
    story.write((A, b"2"))
    story.roll()
    story.write((B, b"open"), producer=1)
    story.write((A, b"3"))
    story.roll()
    story.compact()  # the host's last stable offset is not even needed to see it
    assert story.offsets() == [1, 2, 3]
    assert story.cleaned_up_to == 2


def test_the_last_stable_offset_of_the_host_bounds_the_range(story: Story) -> None:
    story.write((A, b"1"))
    story.roll()
    story.write((A, b"2"))
    story.roll()
    found = story.cleanable(last_stable_offset=1)
    assert found is not None
    assert found.end_offset == 1
    assert story.cleanable(last_stable_offset=0) is None


def test_a_transaction_that_ends_behind_the_range_is_looked_up_there(story: Story) -> None:
    story.write((A, b"1"))
    story.write((A, b"aborted"), producer=1)
    story.roll()
    story.write((B, b"1"))
    story.end_transaction(1, commit=False)
    story.compact()
    assert story.offsets() == [0, 2]
    assert story.state() == {A: b"1", B: b"1"}


def test_data_of_a_transaction_on_both_sides_of_the_checkpoint_is_decided_alike(story: Story) -> None:
    story.write((A, b"aborted"), producer=1)
    story.roll()
    story.write((A, b"aborted too"), producer=1)
    story.end_transaction(1, commit=False)
    story.roll()
    found = story.cleanable()
    assert found is not None
    first = story.compaction(last_stable_offset=1)
    for _ in first.steps():
        pass
    story.finish(first)
    assert story.cleaned_up_to == 1
    story.compact()
    assert story.offsets() == []


def test_a_commit_marker_stays_while_its_data_does(story: Story) -> None:
    story.write((A, b"1"), producer=1)
    story.end_transaction(1, commit=True)
    story.roll()
    story.compact()
    for day in range(1, 4):
        run_again(story, NOW + day * 10_000)
        assert markers(story) == [1]
        assert not story.headers()[1].has_delete_horizon
    assert story.state()[A] == b"1"


def test_a_marker_without_data_stays_until_its_horizon(story: Story) -> None:
    story.write((A, b"1"), producer=1)
    story.end_transaction(1, commit=True)
    story.write((A, b"2"))
    story.roll()
    story.compact()  # the data goes now, so it was still seen
    assert (markers(story), story.offsets()) == ([1], [2])
    assert not story.headers()[0].has_delete_horizon
    run_again(story, NOW + 10)
    assert story.headers()[0].delete_horizon_ms == NOW + 1_010
    run_again(story, NOW + 1_009)
    assert markers(story) == [1]
    run_again(story, NOW + 1_010)
    assert markers(story) == []
    assert story.state()[A] == b"2"


def test_an_abort_marker_goes_the_same_way(story: Story) -> None:
    story.write((A, b"1"), producer=1)
    story.end_transaction(1, commit=False)
    story.write((B, b"1"))
    story.roll()
    story.compact()
    run_again(story, NOW + 10)
    assert markers(story) == [1]
    run_again(story, NOW + 1_010)
    assert markers(story) == []


def test_the_last_batch_of_an_active_producer_keeps_its_sequence(story: Story) -> None:
    story.write((A, b"1"), producer=1)
    story.end_transaction(1, commit=True)
    story.write((A, b"2"))
    story.roll()
    compaction = story.compaction()
    compaction.last_offsets = {1: 0}
    for _ in compaction.steps():
        pass
    emptied = story.headers()[0]
    assert (emptied.base_offset, emptied.record_count, emptied.producer_id) == (0, 0, 1)
    assert (emptied.producer_epoch, emptied.base_sequence) == (3, 0)


def test_a_marker_that_began_an_epoch_stays_as_an_empty_batch(story: Story) -> None:
    story.write((A, b"1"), producer=1)
    story.end_transaction(1, commit=False)
    story.write((B, b"1"))
    story.roll()
    story.compact()
    run_again(story, NOW + 10)
    story.now = NOW + 1_010
    story.write((B, b"2"))
    story.roll()
    compaction = story.compaction()
    compaction.marker_epochs = {1: 3}
    for _ in compaction.steps():
        pass
    emptied = story.headers()[0]
    assert (emptied.base_offset, emptied.record_count, emptied.is_control, emptied.producer_epoch) == (1, 0, True, 3)


# --- transaction indexes


def aborted(story: Story) -> list[tuple[int, ...]]:
    return [tuple(each) for segment in story.log.segments for each in segment.txn_index or ()]


def abort(story: Story, producer: int, first: int) -> None:
    offset = story.end_transaction(producer, commit=False)
    story.log.record_aborted(AbortedTransaction(producer, first, offset, offset + 1))


def test_the_entry_of_an_aborted_transaction_goes_with_the_run_that_meets_no_data_of_it(story: Story) -> None:
    story.write((A, b"1"))
    abort(story, 1, story.write((A, b"2"), producer=1))
    abort(story, 2, story.write((A, b"3"), producer=2))
    story.roll()
    abort(story, 3, story.write((A, b"4"), producer=3))
    story.log.flush(story.now)
    story.compact()
    assert aborted(story) == [(1, 1, 2, 3), (2, 3, 4, 5), (3, 5, 6, 7)]
    story.log.close()
    story.open()
    assert aborted(story) == [(1, 1, 2, 3), (2, 3, 4, 5), (3, 5, 6, 7)]
    run_again(story, NOW + 10)
    assert aborted(story) == [(3, 5, 6, 7)]
    assert markers(story) == [2, 4, 6]
    run_again(story, NOW + 20)
    assert aborted(story) == []


def test_the_last_empty_batch_of_a_producer_keeps_the_entry_and_the_marker(story: Story) -> None:
    abort(story, 1, story.write((A, b"1"), producer=1))
    story.write((B, b"1"))
    story.roll()
    for day in range(3):
        story.now = NOW + day * 10_000
        story.write((B, b"%d" % day))
        story.roll()
        compaction = story.compaction()
        compaction.last_offsets = {1: 0}
        for _ in compaction.steps():
            pass
        story.finish(compaction)
        assert aborted(story) == [(1, 0, 1, 2)]
        assert markers(story) == [1]
    assert story.headers()[0].record_count == 0
