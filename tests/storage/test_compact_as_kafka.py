"""Our compaction against Kafka's own: the same input, the same moment, the same bytes.

The archive holds __consumer_offsets of a Kafka 4.3.1 after many runs of its cleaner, with the segments that the
last run had replaced still there as `.deleted`. They are put back, and our cleaner runs over them at the time that
Kafka's did, which a delete horizon that it set (now + delete.retention.ms) gives away.
"""

import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from kohort.protocol.record_batch import BatchHeader, validate_batch
from kohort.storage.disk import RealDisk
from tests.storage.compaction_story import CONFIG, Story

ARCHIVE = Path(__file__).parent.parent / "data" / "consumer_offsets_compacted_4.3.1.tar.gz"
DELETE_RETENTION_MS = 3_000  # what that topic was set to
FIRST = f"{0:020d}.log"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kafka")
    with tarfile.open(ARCHIVE) as tar:
        tar.extractall(folder, filter="data")
    return next(folder.iterdir())


def headers(log: bytes) -> list[BatchHeader]:
    found, position = [], 0
    while position < len(log):
        found.append(validate_batch(log, position))
        position += found[-1].size_bytes
    return found


def time_of_the_run(before: list[BatchHeader], after: list[BatchHeader]) -> int:
    """A horizon that was not there before was set at the time of the run."""
    known = {header.delete_horizon_ms for header in before}
    new = {header.delete_horizon_ms for header in after} - known - {None}
    horizon_ms = max((horizon for horizon in new if horizon is not None), default=0)
    return horizon_ms - DELETE_RETENTION_MS if horizon_ms else max(header.max_timestamp for header in after)


@pytest.mark.parametrize("partition", [21, 37, 4, 43, 8])
def test_the_last_run_of_kafkas_cleaner_is_repeated_byte_by_byte(partition: int, archive: Path, tmp_path: Path) -> None:
    kafka = archive / f"__consumer_offsets-{partition}"
    want = (kafka / FIRST).read_bytes()
    clean = (kafka / f"{FIRST}.deleted").read_bytes()
    first_dirty = headers(clean)[-1].next_offset
    folder = tmp_path / kafka.name
    folder.mkdir()
    (folder / FIRST).write_bytes(clean)
    for path in kafka.glob("*.log*"):
        name = path.name.removesuffix(".deleted")
        if int(name.removesuffix(".log")) >= first_dirty:
            (folder / name).write_bytes(path.read_bytes())
    dirty = [path.read_bytes() for path in sorted(folder.glob("*.log"))[1:-1]]
    story = Story(
        RealDisk(),
        str(folder),
        config=replace(CONFIG, segment_bytes=104_857_600, delete_retention_ms=DELETE_RETENTION_MS),
        now=time_of_the_run(headers(clean + b"".join(dirty)), headers(want)),
        recovery_point=first_dirty,
        cleaned_up_to=first_dirty,
    )
    story.checkpoint()
    before = story.state()
    story.compact()
    assert headers((folder / FIRST).read_bytes()) == headers(want)
    assert (folder / FIRST).read_bytes() == want
    assert story.state() == before
