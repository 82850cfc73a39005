"""The simulated disk keeps its own promises; without that, no test on it means anything."""

import errno

import pytest

from kohort.storage.disk import FolderInUse, SyncFailed
from tests.simulation.disk import Crash, SimulatedDisk

SEEDS = range(200)


def a_disk_with(content: bytes, seed: int = 0) -> SimulatedDisk:
    """A disk with one durable file, d/f."""
    disk = SimulatedDisk(seed)
    disk.make_folder("d")
    disk.sync_folder("")
    file = disk.open("d/f", create=True)
    file.append(content)
    file.sync()
    disk.sync_folder("d")
    return disk


def test_what_was_synced_survives_and_the_rest_survives_in_part() -> None:
    outcomes = set()
    synced, rest = b"s" * 700, b"u" * 2000
    for seed in SEEDS:
        disk = a_disk_with(synced, seed)
        disk.open("d/f").append(rest)
        found = disk.after_power_loss().read_file("d/f")
        assert found.startswith(synced)
        assert len(found) <= len(synced + rest)
        assert set(found[700:]) <= {ord("u"), 0}
        outcomes.add(found)
    assert {synced, synced + rest} < outcomes
    assert any(0 in found for found in outcomes)
    assert any(0 not in found and 700 < len(found) < 2700 for found in outcomes)


def test_a_killed_process_loses_nothing_that_it_wrote() -> None:
    for seed in SEEDS:
        disk = a_disk_with(b"one", seed)
        disk.open("d/f").append(b"two")
        disk.rename("d/f", "d/g")
        assert disk.after_kill().files() == {"d/g": b"onetwo"}


def test_a_rename_is_atomic_and_lost_or_kept_until_the_folder_is_synced() -> None:
    found = set()
    for seed in SEEDS:
        disk = a_disk_with(b"old", seed)
        new = disk.open("d/g", create=True)
        new.append(b"new")
        new.sync()
        disk.sync_folder("d")
        disk.rename("d/g", "d/f")
        found.add(tuple(disk.after_power_loss().files().items()))
    assert found == {(("d/f", b"old"), ("d/g", b"new")), (("d/f", b"new"),)}


def test_after_the_folder_was_synced_names_are_certain() -> None:
    for seed in SEEDS:
        disk = a_disk_with(b"old", seed)
        disk.rename("d/f", "d/g")
        disk.sync_folder("d")
        assert disk.is_durable("d/g")
        assert disk.after_power_loss().files() == {"d/g": b"old"}


def test_a_truncation_may_be_undone_until_it_is_synced() -> None:
    found = set()
    for seed in SEEDS:
        disk = a_disk_with(b"123456", seed)
        disk.open("d/f").truncate(2)
        found.add(disk.after_power_loss().read_file("d/f"))
    assert found == {b"12", b"123456"}


def test_a_failed_sync_fails_for_good_even_though_the_disk_says_yes_later() -> None:
    lost = 0
    for seed in SEEDS:
        disk = a_disk_with(b"", seed)
        file = disk.open("d/f")
        file.append(b"x" * 1000)
        disk.fail_next("sync", "d/f")
        with pytest.raises(SyncFailed):
            file.sync()
        with pytest.raises(SyncFailed):
            file.sync()
        assert disk.read_file("d/f") == b"x" * 1000
        disk.open("d/f").sync()  # a new handle knows nothing and is told that all is well
        lost += disk.after_power_loss().read_file("d/f") != b"x" * 1000
    assert lost > 50


def test_a_full_disk_takes_what_fits_and_says_so() -> None:
    disk = a_disk_with(b"12345")
    disk.capacity_bytes = 8
    with pytest.raises(OSError, match="space") as full:
        disk.open("d/f").append(b"abcdef")
    assert full.value.errno == errno.ENOSPC
    assert disk.read_file("d/f") == b"12345abc"


def work(disk: SimulatedDisk) -> None:
    disk.make_folder("d")
    disk.sync_folder("")
    for name in ("d/a", "d/b"):
        file = disk.open(name, create=True)
        for _ in range(3):
            file.append(b"z" * 600)
        file.sync()
    disk.rename("d/a", "d/c")
    disk.unlink("d/b")
    disk.sync_folder("d")


def test_the_machine_stops_at_every_step_and_stays_stopped() -> None:
    whole = SimulatedDisk()
    work(whole)
    for step in range(1, whole.steps + 1):
        disk = SimulatedDisk(step)
        disk.crash_at(step)
        with pytest.raises(Crash):
            work(disk)
        assert disk.steps == step
        with pytest.raises(Crash):
            disk.scan_folder("")


def test_the_same_seed_gives_the_same_disaster() -> None:
    def story(seed: int) -> tuple[list[str], dict[str, bytes]]:
        disk = SimulatedDisk(seed)
        disk.crash_at(9)
        with pytest.raises(Crash):
            work(disk)
        return disk.trace, disk.after_power_loss().files()

    assert all(story(seed) == story(seed) for seed in range(30))
    assert len({str(story(seed)) for seed in range(30)}) > 5


def test_a_folder_has_one_owner() -> None:
    disk = a_disk_with(b"")
    held = disk.lock("d/.lock")
    with pytest.raises(FolderInUse):
        disk.lock("d/.lock")
    held.release()
    disk.lock("d/.lock")
    disk.after_kill().lock("d/.lock")


def test_the_errors_of_paths_are_those_of_the_operating_system() -> None:
    disk = a_disk_with(b"")
    for call in (lambda: disk.open("d/x"), lambda: disk.unlink("d/x"), lambda: disk.rename("d/x", "d/y")):
        with pytest.raises(FileNotFoundError):
            call()
    with pytest.raises(FileNotFoundError):
        disk.open("e/x", create=True)
    with pytest.raises(OSError, match="not empty"):
        disk.remove_folder("d")
    assert [(info.name, info.is_folder) for info in disk.scan_folder("")] == [("d", True)]
