"""Follows the groups of a folder of logs: a recording, or the data folder of a broker that may be running.

Files are only read. A log that grows is followed; segments that compaction or retention replace or remove meanwhile
were read before. Where the folder has the logs of topics, too, their ends are looked up: then there is lag.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from threading import Condition, Thread
from typing import Final

from kohort.broker.live.group import Place
from kohort.broker.live.log_source import LogSource
from kohort.broker.record.follower import OFFSETS_TOPIC
from kohort.protocol.record_batch import BATCH_HEADER_BYTES, CorruptBatch, parse_header, verify_crc
from kohort.storage.errors import StorageError
from kohort.storage.layout import (
    LOG,
    PARTITION_METADATA_FILE,
    parse_partition_folder,
    parse_partition_metadata,
    parse_segment_file,
)

LOOK_EVERY_S: Final = 0.25
ENDS_EVERY_S: Final = 1.0
READ_BYTES: Final = 1 << 20
MAX_BATCH_BYTES: Final = 128 << 20
MAX_WAITING_BYTES: Final = 32 * 1024 * 1024


class NoLogs(Exception):
    """The folder has nothing that could be shown; the text says so."""


class LogFollower:
    """Reads the batches of one partition, as they are appended."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.next_offset = 0
        self._segment = -1  # the base offset of the segment that is being read
        self._position = 0

    def batches(self) -> Iterator[bytes]:
        """Whole batches that were appended since the last call, some at a time. Damaged ones are passed over."""
        for segment in self._segments():
            path = os.path.join(self.folder, f"{segment:020d}{LOG}")
            if segment != self._segment:
                self._segment, self._position = segment, 0
            try:
                with open(path, "rb") as file:
                    yield from self._read(file.fileno())
            except FileNotFoundError:
                continue  # it was removed meanwhile

    def _segments(self) -> list[int]:
        """Those from the one that was read last on."""
        names = map(parse_segment_file, os.listdir(self.folder))
        found = sorted(parts[0] for parts in names if parts and parts[1:] == (LOG, ""))
        behind = [base for base in found if base > self._segment]
        return ([self._segment] if self._segment in found else []) + behind

    def _read(self, file: int) -> Iterator[bytes]:
        if os.fstat(file).st_size < self._position:
            self._position = 0  # it was compacted, or cut: batches that were read are passed over by their offsets
        size = READ_BYTES
        while data := os.pread(file, size, self._position):
            start, end, needed = self._whole(data)
            if end:
                self._position += end
                size = READ_BYTES
                if start < end:
                    yield data[start:end]
            elif size < needed <= MAX_BATCH_BYTES:
                size = needed
            else:
                return

    def _whole(self, data: bytes) -> tuple[int, int, int]:
        """Where the batches begin that were not read yet, where the last whole one ends, and the size of the next."""
        at = start = 0
        while at + BATCH_HEADER_BYTES <= len(data):
            try:
                header = parse_header(data, at)
                if at + header.size_bytes > len(data):
                    return start, at, header.size_bytes
                verify_crc(data, at, header)
            except CorruptBatch:
                return start, at, 0
            at += header.size_bytes
            if header.next_offset <= self.next_offset:
                start = at
            else:
                self.next_offset = header.next_offset
        return start, at, 0


class FolderTail(Thread):
    def __init__(self, folder: str, source: LogSource, loop: asyncio.AbstractEventLoop) -> None:
        """Raises NoLogs."""
        super().__init__(name="kohort-folder", daemon=True)
        self._folder = folder
        self._source = source
        self._loop = loop
        self._logs: dict[int, LogFollower] = {}
        self._ends: dict[Place, tuple[int, int, int]] = {}  # the last segment, how far it was read, the end of the log
        self._changed = Condition()
        self._stopping = False
        self._waiting_bytes = 0
        if not self._find_logs():
            raise NoLogs(
                f"{folder} has no logs of {OFFSETS_TOPIC}: give a recording (kohort record), or a broker's data folder"
            )

    def _find_logs(self) -> bool:
        try:
            names = os.listdir(self._folder)
        except OSError as problem:
            raise NoLogs(f"{self._folder}: {problem.strerror}") from None
        self._topics: list[tuple[str, int]] = []
        for name in names:
            place = parse_partition_folder(name)
            if place is not None and place[0] == OFFSETS_TOPIC:
                if place[1] not in self._logs:
                    self._logs[place[1]] = LogFollower(os.path.join(self._folder, name))
            elif place is not None:
                self._topics.append((place[0], place[1]))
        return bool(self._logs)

    def stop(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def run(self) -> None:
        ends_in = 0.0
        try:
            while not self._stopping:
                for number, log in list(self._logs.items()):
                    for data in log.batches():
                        self._hand_over(number, data)
                ends_in -= LOOK_EVERY_S
                if ends_in <= 0:
                    ends_in = ENDS_EVERY_S
                    self._find_logs()
                    self._look_up_names()
                    self._loop.call_soon_threadsafe(self._source.ends.update, self._find_ends())
                self._pause()
        except NoLogs:
            self._loop.call_soon_threadsafe(self._source.troubles.append, f"{self._folder} is gone")
        except RuntimeError:
            return  # the event loop has ended

    def _pause(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopping, LOOK_EVERY_S)

    def _hand_over(self, number: int, data: bytes) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or self._waiting_bytes < MAX_WAITING_BYTES)
            self._waiting_bytes += len(data)
        self._loop.call_soon_threadsafe(self._add, number, data)

    def _add(self, number: int, data: bytes) -> None:
        self._source.work.add(self._steps(number, data))

    def _steps(self, number: int, data: bytes) -> Iterator[None]:
        yield from self._source.reader.read(number, data)
        with self._changed:
            self._waiting_bytes -= len(data)
            self._changed.notify_all()

    # --- other topics

    def _look_up_names(self) -> None:
        """Of topics that the log names by their ids."""
        if not self._source.histories.unknown_topics:
            return
        for topic, number in self._topics:
            path = os.path.join(self._folder, f"{topic}-{number}", PARTITION_METADATA_FILE)
            try:
                with open(path, "rb") as file:
                    topic_id = parse_partition_metadata(file.read(1_000), path)
            except (OSError, StorageError):
                continue
            self._loop.call_soon_threadsafe(self._source.histories.learn, topic_id, topic)

    def _find_ends(self) -> dict[Place, int]:
        found: dict[Place, int] = {}
        for place in self._topics:
            try:
                found[place] = self._end(place)
            except OSError:
                continue  # it was deleted meanwhile
        return found

    def _end(self, place: Place) -> int:
        folder = os.path.join(self._folder, f"{place[0]}-{place[1]}")
        names = map(parse_segment_file, os.listdir(folder))
        base = max((parts[0] for parts in names if parts and parts[1:] == (LOG, "")), default=-1)
        if base < 0:
            return 0
        with open(os.path.join(folder, f"{base:020d}{LOG}"), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            known, position, end = self._ends.get(place, (-1, 0, 0))
            if known != base or size < position:
                position, end = 0, base
            while len(raw := os.pread(file.fileno(), BATCH_HEADER_BYTES, position)) == BATCH_HEADER_BYTES:
                try:
                    header = parse_header(raw)
                except CorruptBatch:
                    break
                if position + header.size_bytes > size:
                    break
                position, end = position + header.size_bytes, header.next_offset
        self._ends[place] = (base, position, end)
        return end
