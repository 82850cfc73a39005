"""Random work on a simulated disk that loses power, is killed, and fails syncs: nothing acknowledged gets lost.

Every run is decided by its seed. A failure names it, and this repeats it:
    python -m tests.storage.test_crashes SEED
"""

import logging
import random
from collections import defaultdict
from collections.abc import Iterator

import pytest

from kohort.protocol.record_batch import Record, read_records
from kohort.storage.errors import LogFailed, StorageError
from kohort.storage.layout import TopicPartition
from kohort.storage.log_config import LogConfig
from kohort.storage.log_directory import LogDirectory
from kohort.storage.partition_log import PartitionLog
from kohort.storage.shared_sync import SharedSync
from tests.simulation.disk import Crash, SimulatedDisk
from tests.storage.support import START, a_batch

CONFIGS = {
    "ordinary": LogConfig(segment_bytes=700, index_interval_bytes=100, file_delete_delay_ms=0),
    "compacted": LogConfig(
        segment_bytes=900, index_interval_bytes=100, file_delete_delay_ms=0, cleanup_policy="compact"
    ),
}
KEYS = [(topic, number) for topic in CONFIGS for number in range(2)]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logger = logging.getLogger("storage")
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(logging.NOTSET)


class Expected:
    """What one log may and must hold."""

    def __init__(self) -> None:
        self.records: list[Record] = []  # all that was ever appended; the last ones may get lost
        self.acknowledged = 0  # but not below this offset
        self.start = 0  # readers were told that below this all is deleted

    def check(self, log: PartitionLog | None) -> None:
        end = log.log_end_offset if log else 0
        assert self.acknowledged <= end <= len(self.records)
        if log:
            assert log.log_start_offset <= self.start
            found = [
                record
                for header, chunk, at in log.batches()
                for record in read_records(chunk, at, header=header)
                if record.offset >= log.log_start_offset
            ]
            assert found == self.records[log.log_start_offset : end]
        del self.records[end:]
        self.acknowledged = end


class Story:
    """A broker's life on one disk, over several crashes."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.disk = SimulatedDisk(seed)
        self.disk.make_folder("/data")
        self.disk.sync_folder("/")
        self.expected: dict[TopicPartition, Expected] = defaultdict(Expected)
        self.crashes = 0

    def run(self) -> None:
        for _ in range(6):
            self.disk.crash_at(self.rng.randrange(1, 250))  # or it stops by itself before that
            try:
                self.life()
                self.disk = self.disk.after_kill()  # the process has ended, its planned faults with it
            except Crash:
                self.crashes += 1
                self.disk = self.rng.choice((self.disk.after_power_loss, self.disk.after_kill))()
        self.disk.crash_at(10**9)
        self.start().close()

    def start(self) -> LogDirectory:
        directory = LogDirectory.open(self.disk, "/data", CONFIGS.__getitem__)
        assert not directory.failed, directory.failed
        for key in KEYS:
            self.expected[key].check(directory.logs.get(key))
        return directory

    def life(self) -> None:
        directory = self.start()
        syncs = SharedSync(self.disk)
        for _ in range(self.rng.randrange(10, 80)):
            action = self.rng.choices(
                (self.append, self.flush, self.checkpoint, self.delete_records, self.retention, self.fail),
                (10, 4, 1, 1, 1, 0.2),
            )[0]
            try:
                action(directory, syncs)
            except LogFailed:
                if self.rng.random() < 0.5 or not self.reopen_failed(directory):
                    directory.abandon()
                    return
        try:
            directory.close()
        except StorageError:
            return

    def reopen_failed(self, directory: LogDirectory) -> bool:
        for key, log in list(directory.logs.items()):
            if log.failed:
                try:
                    self.expected[key].check(directory.reopen(*key))
                except (OSError, StorageError):
                    return False  # the next fault came at once
        return True

    def append(self, directory: LogDirectory, syncs: SharedSync) -> None:
        key = self.rng.choice(KEYS)
        log, expected = directory.log(*key, topic_id=bytes(16)), self.expected[key]
        count = self.rng.randrange(1, 4)
        batch = a_batch(count, value=self.rng.randbytes(self.rng.randrange(100)), timestamp=START)
        for record in read_records(batch):
            expected.records.append(record._replace(offset=len(expected.records)))
        end = len(expected.records)
        log.append(batch, now=START, leader_epoch=self.crashes)

        def ready(error: LogFailed | None) -> None:
            if error is None:
                expected.acknowledged = end

        syncs.appended(log, ready)

    def flush(self, directory: LogDirectory, syncs: SharedSync) -> None:
        if flush := syncs.take():
            flush.run()
            syncs.finished(flush)

    def checkpoint(self, directory: LogDirectory, syncs: SharedSync) -> None:
        directory.checkpoint()

    def delete_records(self, directory: LogDirectory, syncs: SharedSync) -> None:
        key = self.rng.choice(KEYS)
        log, expected = directory.log(*key), self.expected[key]
        expected.start = max(expected.start, self.rng.randrange(log.log_start_offset, log.recovery_point + 1))
        log.advance_log_start(expected.start)

    def retention(self, directory: LogDirectory, syncs: SharedSync) -> None:
        key = self.rng.choice(KEYS)
        log, expected = directory.log(*key), self.expected[key]
        old = [segment for segment in log.segments[:-1] if segment.next_offset <= log.recovery_point]
        old = old[: self.rng.randrange(len(old) + 1)]
        if old:
            expected.start = max(expected.start, old[-1].next_offset)
            log.delete_segments(old, START)
        log.purge_deleted(START)

    def fail(self, directory: LogDirectory, syncs: SharedSync) -> None:
        """Something fails soon. No crash comes with it: a kill right then leaves no mark of the failure."""
        self.disk.crash_at(10**9)
        faults = (("sync", "0000.log"), ("append", "0000.log"), ("sync_folder", "-0"))
        self.disk.fail_next(*self.rng.choice(faults))


@pytest.mark.parametrize("block", range(20))
def test_nothing_acknowledged_is_lost_and_nothing_else_is_made_up(block: int) -> None:
    for seed in range(block * 25, block * 25 + 25):
        story = Story(seed)
        try:
            story.run()
        except Exception as error:
            raise AssertionError(f"seed {seed}: python -m tests.storage.test_crashes {seed}") from error


if __name__ == "__main__":
    import sys

    Story(int(sys.argv[1])).run()
