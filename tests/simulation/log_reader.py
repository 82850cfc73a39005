"""Reads the files of a partition without the broker: what is there, and what would survive a loss of power."""

from __future__ import annotations

from typing import Any, NamedTuple

from kohort.protocol.record_batch import BATCH_HEADER_BYTES, BatchHeader, Record, parse_header, read_records
from tests.simulation.disk import SimulatedDisk
from tests.simulation.machine import FOLDER


class Batch(NamedTuple):
    header: BatchHeader
    records: list[Record]
    path: str
    end: int  # in the file


class LogReader:
    """Each batch of a log once. `read` begins at the start again when what was read before is not there any more."""

    def __init__(self, topic: str, partition: int) -> None:
        self.folder = f"{FOLDER}/{topic}-{partition}"
        self.forget()

    def forget(self) -> None:
        self._read_bytes: dict[str, int] = {}

    def read(self, disk: SimulatedDisk, *, only_durable: bool = False) -> list[Batch] | None:
        """The new batches. None: something has gone; `forget`, and read everything again."""
        found: list[Batch] = []
        start = self.folder + "/"
        paths = [path for path in disk._names if path.endswith(".log") and path.startswith(start)]
        if any(path not in paths for path in self._read_bytes):
            return None
        for path in sorted(paths):
            inode: Any = disk._names[path]
            content, begin = inode.content, self._read_bytes.get(path, 0)
            durable_bytes = _durable_bytes(inode)
            if begin > len(content):
                return None
            if begin == len(content):
                continue
            data = bytes(content)
            position = begin
            while position + BATCH_HEADER_BYTES <= len(data):
                header = parse_header(data, position)
                end = position + header.size_bytes
                is_durable = end <= durable_bytes
                if end > len(data) or (only_durable and not is_durable):
                    break
                found.append(Batch(header, list(read_records(data, position, header=header)), path, end))
                position = end
            self._read_bytes[path] = position
            if only_durable and position < len(data):
                break
        return found


def is_durable(disk: SimulatedDisk, batch: Batch) -> bool:
    """Whether it would survive a loss of power. One whose file has got another name has been synced."""
    inode: Any = disk._names.get(batch.path)
    return inode is None or batch.end <= _durable_bytes(inode)


def _durable_bytes(inode: Any) -> int:
    """So many bytes at the beginning of the file are on the medium. A sync that has failed may leave holes behind."""
    content, durable = inode.content, inode.durable
    if content.startswith(durable):
        return len(durable)
    return next(n for n, (wanted, found) in enumerate(zip(content, durable, strict=False)) if wanted != found)
