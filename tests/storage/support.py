"""Batches and logs for the tests of the storage engine."""

from pathlib import Path

from kohort.protocol.record_batch import BatchHeader, Record, build_batch, parse_header, read_records, rebuild_batch
from kohort.storage.disk import Disk, File, FileInfo, RealDisk
from kohort.storage.log_config import LogConfig
from kohort.storage.partition_log import PartitionLog

START = 1_700_000_000_000  # some day, in ms


def a_batch(count: int = 1, *, timestamp: int = START, value: bytes = b"value", key: bytes = b"key") -> bytes:
    """A batch of `count` records that differ."""
    return build_batch([(b"%s-%d" % (key, i), b"%s-%d" % (value, i)) for i in range(count)], timestamp=timestamp)


def a_batch_at(timestamps: list[int]) -> bytes:
    """A batch whose records have these timestamps."""
    header = parse_header(a_batch(len(timestamps)))
    return rebuild_batch(header, [Record(i, time, b"k%d" % i, b"v%d" % i) for i, time in enumerate(timestamps)])


def a_log(folder: Path | str, *, disk: Disk | None = None, **settings: object) -> PartitionLog:
    """A new log, with some settings other than the defaults."""
    return PartitionLog.open(disk or RealDisk(), str(folder), LogConfig(**settings))  # type: ignore[arg-type]


def reopened(
    log: PartitionLog, *, clean: bool = False, recovery_point: int | None = None, log_start_offset: int = 0,
    disk: Disk | None = None,
) -> PartitionLog:  # fmt: skip
    """The same log, opened again."""
    return PartitionLog.open(
        disk or log.disk, log.folder, log.config,
        clean=clean, recovery_point=recovery_point, log_start_offset=log_start_offset,
    )  # fmt: skip


def headers_of(log: PartitionLog) -> list[BatchHeader]:
    return [header for header, _, _ in log.batches()]


def records_of(log: PartitionLog, offset: int | None = None, up_to: int | None = None) -> list[Record]:
    """All records, checksums verified."""
    return [
        record for header, chunk, at in log.batches(offset, up_to) for record in read_records(chunk, at, header=header)
    ]


def log_bytes(log: PartitionLog) -> bytes:
    """All segments, one after the other, as they are on disk."""
    return b"".join(log.disk.read_file(segment.log_path) for segment in log.segments)


class CountingDisk(RealDisk):
    """The real disk, with a count of what it was asked to do."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes_read = 0
        self.operations: list[str] = []

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> File:
        self.operations.append(f"open {path}")
        return CountingFile(super().open(path, create=create, truncate=truncate), self)

    def scan_folder(self, path: str) -> list[FileInfo]:
        self.operations.append(f"scan {path}")
        return super().scan_folder(path)

    def sync_folder(self, path: str) -> None:
        self.operations.append(f"sync {path}")
        super().sync_folder(path)


class CountingFile(File):
    """Passes everything on, and counts."""

    def __init__(self, inner: File, disk: CountingDisk) -> None:
        super().__init__(inner.path)
        self.inner = inner
        self.disk = disk

    def append(self, data: bytes | bytearray | memoryview) -> None:
        self.inner.append(data)

    def pread(self, size_bytes: int, position: int) -> bytes:
        data = self.inner.pread(size_bytes, position)
        self.disk.bytes_read += len(data)
        return data

    def truncate(self, size_bytes: int) -> None:
        self.inner.truncate(size_bytes)

    def size_bytes(self) -> int:
        return self.inner.size_bytes()

    def fileno(self) -> int:
        return self.inner.fileno()

    def _sync(self) -> None:
        self.disk.operations.append(f"sync {self.path}")
        self.inner.sync()

    def _close(self) -> None:
        self.inner.close()
