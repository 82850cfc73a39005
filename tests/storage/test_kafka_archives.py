"""Logs that a real Apache Kafka 4.3.1 wrote open here, after a clean stop and after a crash alike."""

import re
import tarfile
from pathlib import Path

import pytest

from kohort.storage.disk import RealDisk
from kohort.storage.layout import parse_partition_folder
from kohort.storage.log_config import LogConfig
from kohort.storage.log_directory import LogDirectory
from kohort.storage.partition_log import PartitionLog
from tests.storage.support import START, a_batch, headers_of, records_of

DATA = Path(__file__).parent.parent / "data"
ARCHIVES = ["consumer_offsets_4.3.1", "consumer_offsets_compacted_4.3.1"]
COMPACT = LogConfig(cleanup_policy="compact", segment_bytes=104_857_600)

DUMPED_BATCH = re.compile(
    r"^baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .*? position: (\d+) .*? size: (\d+) ", re.MULTILINE
)


def unpack(archive: str, target: Path) -> list[Path]:
    """The partition folders of an archive."""
    with tarfile.open(DATA / f"{archive}.tar.gz") as tar:
        tar.extractall(target, filter="data")
    folders = sorted(path for path in target.glob("*/*") if parse_partition_folder(path.name))
    assert folders
    return folders


def dumped(folder: Path) -> list[tuple[int, ...]]:
    """(base offset, last offset, count, position, size) of each batch, as Kafka's own tool printed them."""
    text = (folder / "dump.txt").read_text()
    return [tuple(map(int, match)) for match in DUMPED_BATCH.findall(text)]


def seen(log: PartitionLog) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    for segment in log.segments:
        position = 0
        for header, _, _ in segment.batches():
            size = header.size_bytes
            found.append((header.base_offset, header.last_offset, header.record_count, position, size))
            position += size
    return found


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "crashed"])
@pytest.mark.parametrize("archive", ARCHIVES)
def test_every_partition_opens_with_all_of_its_batches(archive: str, clean: bool, tmp_path: Path) -> None:
    for folder in unpack(archive, tmp_path):
        expected = dumped(folder)
        end = expected[-1][1] + 1
        log = PartitionLog.open(RealDisk(), str(folder), COMPACT, clean=clean, recovery_point=end if clean else None)
        assert seen(log) == expected, folder.name
        assert log.log_end_offset == end, folder.name
        assert [header.base_offset for header in headers_of(log)] == [batch[0] for batch in expected]
        assert sum(batch[2] for batch in expected) == len(records_of(log))
        assert log.topic_id is not None
        assert list(log.leader_epochs) == [(0, 0)]
        assert log.append(a_batch(), now=START).first_offset == end
        log.close()


@pytest.mark.parametrize("archive", ARCHIVES)
def test_indexes_of_kafka_are_the_ones_that_we_would_make(archive: str, tmp_path: Path) -> None:
    for folder in unpack(archive, tmp_path):
        log = PartitionLog.open(RealDisk(), str(folder), COMPACT, clean=True)
        for segment in log.segments:
            theirs = segment.index.to_bytes(), segment.max_timestamp
            segment.rebuild_indexes()
            assert (segment.index.to_bytes(), segment.max_timestamp) == theirs, segment.log_path
        log.abandon()


@pytest.mark.parametrize("archive", ARCHIVES)
def test_a_data_folder_of_kafka_opens_as_a_whole(archive: str, tmp_path: Path) -> None:
    folders = unpack(archive, tmp_path)
    data = folders[0].parent
    ends = {parse_partition_folder(folder.name): dumped(folder)[-1][1] + 1 for folder in folders}
    directory = LogDirectory.open(RealDisk(), str(data), lambda _: COMPACT)
    assert not directory.failed
    assert {key: log.log_end_offset for key, log in directory.logs.items()} == ends
    directory.close()
    again = LogDirectory.open(RealDisk(), str(data), lambda _: COMPACT)
    assert again.was_clean
    assert {key: log.log_end_offset for key, log in again.logs.items()} == ends
    again.close()
    assert not list(data.glob("*/*.deleted"))
