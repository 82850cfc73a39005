"""Finding logs in what a user names, and reading them while somebody else writes, renames and removes files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kohort.audit.decode import files, read_table
from kohort.audit.decode.folders import LogFolder, find_logs
from kohort.audit.decode.partition_count import guess_partition_count
from kohort.audit.decode.walk import first_offset_in
from tests.audit.decode.object_store import object_store
from tests.audit.logs import Logs

ORDERS = 31  # where the group "orders" is


def read(folder: LogFolder, table: str) -> list[dict[str, Any]]:
    return [row for batch in read_table(folder, table) for row in batch.to_pylist()]


def offsets(folder: LogFolder, from_offset: int | None = None, until_offset: int | None = None) -> list[int]:
    found = read_table(folder, "offset_commits", from_offset=from_offset, until_offset=until_offset)
    return [offset for batch in found for offset in batch.column("log_offset").to_pylist()]


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    """Twenty commits of one group, in two segments."""
    logs = Logs(tmp_path / "data")
    group = logs.group("orders")
    group.commits("t-0", range(10), by="m1")
    logs.roll(ORDERS)
    group.commits("t-0", range(10, 20), by="m1")
    logs.close()
    return logs


def test_a_data_folder_a_log_folder_and_an_address_are_all_logs(logs: Logs) -> None:
    for path in (logs.path, logs.folder(ORDERS), f"{logs.folder(ORDERS)}/", f"file://{logs.path}"):
        (folder,), problems = find_logs([str(path)])
        assert problems == []
        assert folder.log_partition == ORDERS
        assert (folder.first_offset, folder.end_offset) == (0, 20)
        assert folder.cleaned_to == 0  # never: the broker's own files say so
        assert folder.size_bytes == sum(path.stat().st_size for path in logs.segments(ORDERS))
        assert offsets(folder) == list(range(20))
    copied = shutil.copytree(logs.folder(ORDERS), logs.path.parent / "copies" / logs.folder(ORDERS).name)
    (folder,), _ = find_logs([str(copied)])
    assert folder.cleaned_to is None  # nobody knows


def test_what_is_no_log_gets_a_line_and_the_rest_is_found(logs: Logs, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    hollow = tmp_path / "hollow" / "__consumer_offsets-9"
    hollow.mkdir(parents=True)
    a_file = tmp_path / "file"
    a_file.touch()
    places = [tmp_path / "nowhere", empty, hollow.parent, a_file, logs.path]
    (folder,), problems = find_logs([*map(str, places), "gopher://somewhere/else"])
    assert folder.log_partition == ORDERS
    assert [problem.path for problem in problems] == [
        str(tmp_path / "nowhere"), str(empty), str(hollow), str(a_file), "gopher://somewhere/else",
    ]  # fmt: skip
    said = [problem.message for problem in problems]
    assert said[:4] == [
        "No such file or directory",
        "no folder of __consumer_offsets and none in it",
        "no segment file (*.log) in it",
        "Not a directory",
    ]
    assert "gopher" in said[4]
    assert all(message and "\n" not in message for message in said)


def test_a_file_that_may_not_be_read_gets_a_line_and_the_rest_is_found(logs: Logs, tmp_path: Path) -> None:
    other = Logs(tmp_path / "other")
    other.group("g1").commits("t-0", [1])
    other.close()
    for path in (*logs.path.rglob("*"), *other.path.rglob("*")):  # a broker's files are for its own user only
        path.chmod(0o755 if path.is_dir() else 0o644)
    logs.segments(ORDERS)[0].chmod(0)
    for folder in (tmp_path, *tmp_path.parents):
        if folder == tmp_path or folder.name.startswith(("pytest-", "popen-")):  # pytest keeps its folders from others
            folder.chmod(folder.stat().st_mode | 0o755)
    with as_nobody():
        folders, problems = find_logs([str(logs.path), str(other.path)])
    assert [str(problem) for problem in problems] == [f"{logs.folder(ORDERS)}: Permission denied"]
    assert [folder.log_partition for folder in folders] == [42]


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root may read everything; for others nothing changes."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65_534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def test_of_two_replicas_the_longer_one_is_read(logs: Logs, tmp_path: Path) -> None:
    shorter = tmp_path / "broker-2"
    shutil.copytree(logs.path, shorter)
    logs.reopen()
    logs.group("orders").commits("t-0", [77])
    logs.close()
    for order in ([shorter, logs.path], [logs.path, shorter]):
        (folder,), problems = find_logs([str(path) for path in order])
        assert (folder.path, problems) == (str(logs.folder(ORDERS)), [])


def test_a_file_that_compaction_replaces_while_the_folder_is_looked_at_is_looked_for_again(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    misses = [FileNotFoundError(2, "No such file"), FileNotFoundError(2, "No such file")]

    def first_offset(path: str) -> int | None:
        if misses:
            raise misses.pop()
        return first_offset_in(path)

    monkeypatch.setattr("kohort.audit.decode.folders.first_offset_in", first_offset)
    (folder,), problems = find_logs([str(logs.path)])
    assert (folder.first_offset, problems, misses) == (0, [], [])


def test_files_that_are_no_longer_or_not_yet_part_of_the_log_are_not_read(logs: Logs) -> None:
    first, second = logs.segments(ORDERS)
    shutil.copy(first, f"{first}.deleted")
    shutil.copy(first, f"{second}.cleaned")
    (folder,), problems = find_logs([str(logs.path)])
    assert problems == []
    assert offsets(folder) == list(range(20))


def test_finished_output_of_compaction_takes_the_place_of_what_it_was_made_from(logs: Logs) -> None:
    """A crash can leave .swap files: complete, but not renamed yet, beside segments that they replace."""
    logs.reopen()
    logs.roll(ORDERS)
    logs.group("orders").commits("t-0", [20])
    logs.close()
    before = logs.path.parent / "before"
    shutil.copytree(logs.path, before)
    logs.reopen()
    logs.compact(ORDERS)
    logs.close()
    output, active = logs.segments(ORDERS)
    shutil.copy(output, before / output.parent.name / f"{output.name}.swap")
    (folder,), _ = find_logs([str(before)])
    assert offsets(folder) == [19, 20]  # one key: the last of the compacted, and the active segment
    (before / output.parent.name / f"{output.name}.cleaned").touch()  # more output was to come: it is given up
    (folder,), _ = find_logs([str(before)])
    assert offsets(folder) == list(range(21))
    (folder,), _ = find_logs([str(logs.path)])
    assert folder.cleaned_to == 20
    assert int(active.stem) == 20


def test_a_log_that_grows_is_read_as_far_as_it_went_when_it_was_found(logs: Logs) -> None:
    (folder,), _ = find_logs([str(logs.path)])
    logs.reopen()
    group = logs.group("orders")
    group.commits("t-0", range(20, 25))
    assert offsets(folder) == list(range(20))
    logs.roll(ORDERS)
    group.commits("t-0", range(25, 30))
    assert offsets(folder) == list(range(20))
    (folder,), _ = find_logs([str(logs.path)])
    assert (folder.end_offset, offsets(folder)) == (30, list(range(30)))
    logs.close()


def test_a_batch_that_was_being_written_is_not_torn(logs: Logs) -> None:
    path = logs.segments(ORDERS)[-1]
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    (folder,), _ = find_logs([str(logs.path)])
    assert folder.end_offset == 19
    torn = [row["problem"] for row in read(folder, "log_batches") if row["problem"]]
    assert torn == ["torn"]
    path.write_bytes(whole)  # the writer comes to its end
    assert [row["problem"] for row in read(folder, "log_batches") if row["problem"]] == []
    assert offsets(folder) == list(range(19))


def test_a_file_that_compaction_replaces_while_it_is_read_is_looked_for_again(logs: Logs) -> None:
    logs.reopen()
    logs.roll(ORDERS)
    logs.group("orders").commits("t-0", [20])
    logs.close()
    (folder,), _ = find_logs([str(logs.path)])
    batches = read_table(folder, "offset_commits")
    seen = next(batches).column("log_offset").to_pylist()
    assert seen == list(range(10))
    logs.reopen()
    logs.compact(ORDERS)  # the first two segments become one, which begins where the first did
    logs.close()
    assert len(logs.segments(ORDERS)) == 2
    seen += [offset for batch in batches for offset in batch.column("log_offset").to_pylist()]
    assert seen == [*range(10), 19, 20]  # nothing twice


def test_only_files_that_hold_what_is_wanted_are_opened(logs: Logs) -> None:
    (folder,), _ = find_logs([str(logs.path)])
    first, second = logs.segments(ORDERS)
    first.write_bytes(b"")
    assert offsets(folder, from_offset=12) == list(range(12, 20))
    assert offsets(folder, from_offset=20) == []
    second.write_bytes(b"")
    assert offsets(folder, until_offset=10) == []


def test_the_end_is_found_from_the_index_and_without_it(logs: Logs, tmp_path: Path) -> None:
    log = Logs(tmp_path / "long")
    log.group("orders").commits("t-0", range(300), by="m1")
    log.close()
    (folder,), _ = find_logs([str(log.path)])
    assert folder.end_offset == 300
    index = log.segments(ORDERS)[0].with_suffix(".index")
    assert index.stat().st_size > 8
    index.write_bytes(index.read_bytes() + bytes(4096))  # as a running broker reserves it
    assert find_logs([str(log.path)])[0][0].end_offset == 300
    index.write_bytes(b"\x00\x00\x00\x05\x00\x00\x00\x07" * 3)  # of another file
    assert find_logs([str(log.path)])[0][0].end_offset == 300
    index.unlink()
    assert find_logs([str(log.path)])[0][0].end_offset == 300


def test_the_number_of_log_partitions_is_told_from_where_groups_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = Logs(tmp_path)
    for number in range(20):
        logs.group(f"group-{number}").commits("t-0", [1])
    logs.close()
    folders, _ = find_logs([str(tmp_path)])
    assert len(folders) == 20
    assert guess_partition_count(folders) == 50
    assert guess_partition_count(folders[:2]) is None  # two may be chance
    misplaced = Logs(tmp_path / "other")
    for number in range(12):
        misplaced.group(f"group-{number}", log_partition=number).commits("t-0", [1])
    misplaced.close()
    assert guess_partition_count(find_logs([str(tmp_path / "other")])[0]) is None

    def vanished(*_: object) -> bytes:
        raise FileNotFoundError

    monkeypatch.setattr(files, "read", vanished)
    assert guess_partition_count(folders) is None


def test_addresses_keep_their_options_behind_the_path() -> None:
    address = "s3://bucket/backup?region=eu-north-1"
    folder = files.join(address, "__consumer_offsets-3")
    assert folder == "s3://bucket/backup/__consumer_offsets-3?region=eu-north-1"
    assert files.base_name(folder) == "__consumer_offsets-3"
    assert files.parent(folder) == address


def test_logs_are_read_from_an_object_store(logs: Logs) -> None:
    with object_store(logs.path.parent) as bucket:
        (folder,), problems = find_logs([files.join(bucket, "data")])
        assert problems == []
        assert (folder.first_offset, folder.end_offset, folder.cleaned_to) == (0, 20, 0)
        assert offsets(folder) == list(range(20))
        assert offsets(folder, from_offset=15) == list(range(15, 20))
        folders, problems = find_logs([files.join(bucket, "nowhere"), files.join(folder.path, "")])
        assert [folder.end_offset for folder in folders] == [20]
        (problem,) = problems
        assert problem.path.startswith("s3://backup/nowhere?")
        assert "secret" not in str(problem)
        assert "\n" not in str(problem)


def test_a_log_ends_where_it_ended_although_its_last_file_was_compacted_since(logs: Logs) -> None:
    """What was appended meanwhile is for the next audit, and would be read twice."""
    (folder,), _ = find_logs([str(logs.path)])
    logs.reopen()
    group = logs.group("orders")
    group.commits("t-0", range(20, 22), by="m1")
    group.commits("t-1", range(3), by="m1")
    logs.roll(ORDERS)
    logs.compact(ORDERS)
    logs.close()
    assert offsets(find_logs([str(logs.path)])[0][0]) == [21, 24]
    assert offsets(folder) == []
    assert read(folder, "log_batches") == []
