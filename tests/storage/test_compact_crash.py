"""Compaction killed at each of its steps, again and again: the log opens, and the newest values are unchanged."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kohort.storage.disk import Buffer, Disk, File, RealDisk, RealFile
from tests.simulation.disk import Crash, SimulatedDisk
from tests.storage.compaction_story import CONFIG, Story

TIMES = 20
SMALL = replace(CONFIG, segment_bytes=3_000)  # two of the segments below make one


def an_eventful_log(disk: Disk, folder: str = "data/offsets-0") -> Story:
    """Several groups of segments with updates, tombstones (some past their horizon) and transactions."""
    story = Story(disk, folder, config=SMALL)
    for number in range(12):
        story.write((b"key-%d" % (number % 5), b"%d" % number), (b"once-%d" % number, b"x" * 100))
        story.write((b"key-%d" % (number % 3), None))
        story.write((b"txn", b"%d" % number), producer=7)
        story.end_transaction(7, commit=number % 3 == 0)
        if number % 3 == 2:
            story.roll()
        if number == 5:
            story.compact()
            story.now += CONFIG.delete_retention_ms
    story.write((b"tail", b"not yet synced"))
    story.checkpoint()
    return story


def a_log_to_compact() -> tuple[SimulatedDisk, Story]:
    disk = SimulatedDisk()
    disk.make_folder("data")
    disk.sync_folder("")
    return disk, an_eventful_log(disk)


ORIGINAL_DISK, ORIGINAL = a_log_to_compact()
STATE = ORIGINAL.state()


def a_clone(seed: int) -> tuple[SimulatedDisk, Story]:
    disk = ORIGINAL_DISK.clone(seed)
    return disk, ORIGINAL.reopened_on(disk)


def the_steps_of_a_run() -> int:
    disk, story = a_clone(0)
    story.log.checkpointed(story.recovery_point)
    before = disk.steps
    story.compact()
    assert story.state() == STATE
    return disk.steps - before


STEPS = the_steps_of_a_run()


def check(story: Story) -> None:
    """The log is whole: it has its values, every record once, and ends where it did."""
    assert story.state() == STATE
    offsets = story.offsets()
    assert offsets == sorted(set(offsets))
    assert story.log.log_end_offset == ORIGINAL.log.log_end_offset


def check_thoroughly(story: Story) -> None:
    """And it takes new values, can be compacted to the end now, and opens again after that."""
    check(story)
    end = story.log.log_end_offset
    assert story.write((b"new", b"1")) == end
    story.checkpoint()
    if story.cleanable() is not None:
        story.compact()
    assert story.state() == {**STATE, b"new": b"1"}
    found = {info.name for info in story.disk.scan_folder(story.folder)}
    assert not any(name.endswith((".cleaned", ".swap")) for name in found)
    again = story.reopened_on(story.disk)
    assert again.state() == {**STATE, b"new": b"1"}
    assert again.log.log_end_offset == end + 1


def test_there_are_steps_to_be_killed_at() -> None:
    assert STEPS > 40


def kill_at(step: int, seed: int, after: Callable[[SimulatedDisk], SimulatedDisk]) -> None:
    disk, story = a_clone(seed)
    disk.crash_at(step)
    with pytest.raises(Crash):
        story.compact()
    try:
        reopened = story.reopened_on(after(disk))
        (check if seed % 5 else check_thoroughly)(reopened)
    except BaseException as error:
        error.add_note(f"step {step} of {STEPS}, seed {seed}: {disk.trace[-1]}")
        raise


def test_a_power_loss_at_any_step_of_a_run_leaves_a_whole_log() -> None:
    for step in range(1, STEPS + 1):
        for time in range(TIMES):
            kill_at(step, step * TIMES + time, SimulatedDisk.after_power_loss)


def test_a_run_killed_at_any_step_leaves_a_whole_log() -> None:
    for step in range(1, STEPS + 1):
        for time in range(TIMES // 4):
            kill_at(step, step * TIMES + time, SimulatedDisk.after_kill)


def test_a_second_power_loss_at_any_step_of_the_recovery_from_the_first_changes_nothing() -> None:
    for seed in range(STEPS * 4):
        disk, story = a_clone(seed)
        disk.crash_at(seed % STEPS + 1)
        with pytest.raises(Crash):
            story.compact()
        found = disk.after_power_loss()
        for step in range(1, 1_000):
            second = found.clone(seed + step)
            second.crash_at(step)
            try:
                story.reopened_on(second).checkpoint()
            except Crash:
                check(story.reopened_on(second.after_power_loss()))
            else:
                break


# --- on a real disk -------------------------------------------------------------------------------


class CountingDisk(RealDisk):
    """The real disk, with a process that is killed at the n-th change; `steps` counts them."""

    def __init__(self, crash_at: int | None = None) -> None:
        super().__init__()
        self.steps = 0
        self.crash_at = crash_at

    def step(self) -> None:
        self.steps += 1
        if self.crash_at is not None and self.steps >= self.crash_at:
            raise Crash(f"step {self.steps}")

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> File:
        if create or truncate:
            self.step()
        opened = super().open(path, create=create, truncate=truncate)
        assert isinstance(opened, RealFile)
        return CountingFile(self, opened)

    def rename(self, source: str, target: str) -> None:
        self.step()
        super().rename(source, target)

    def unlink(self, path: str) -> None:
        self.step()
        super().unlink(path)

    def sync_folder(self, path: str) -> None:
        self.step()  # without the sync itself: the machine stays up, and the test is about the files


class CountingFile(RealFile):
    __slots__ = ("_disk",)

    def __init__(self, disk: CountingDisk, opened: RealFile) -> None:
        super().__init__(opened.path, opened.fileno())
        self._disk = disk

    def append(self, data: Buffer) -> None:
        half = len(data) // 2
        if self._disk.steps + 1 == self._disk.crash_at:
            super().append(bytes(data)[:half])
        self._disk.step()
        super().append(data)

    def truncate(self, size_bytes: int) -> None:
        self._disk.step()
        super().truncate(size_bytes)

    def _sync(self) -> None:
        self._disk.step()


def test_on_a_real_disk_a_killed_run_leaves_a_whole_log(tmp_path: Path) -> None:
    step = 0
    while True:
        step += 1
        disk = CountingDisk()
        folder = tmp_path / str(step)
        folder.mkdir()
        story = an_eventful_log(disk, f"{folder}/offsets-0")
        disk.crash_at = disk.steps + step
        try:
            story.compact()
        except Crash:
            story.log.abandon()
            opened = story.reopened_on(CountingDisk())
            check_thoroughly(opened)
            opened.log.abandon()
        else:
            break
    assert step > 40
