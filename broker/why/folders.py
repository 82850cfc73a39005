"""Reads a group's partition of the log from folders: of a Kohort or a Kafka, running or not, or of a recording.

Files are opened for reading only, and read in pieces. That is why this module opens files itself, and does not use
storage.disk. What a running broker appends or compacts meanwhile does no harm: a file that is gone was replaced by one
with the same offsets.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from kohort.broker.terminal import in_plain_words
from kohort.broker.why.source import KAFKAS_PARTITIONS, OFFSETS_TOPIC, CannotRead, Piece, whole_batches
from kohort.coordinator.partitioner import partition_of
from kohort.history.records import groups_in
from kohort.protocol.errors import MalformedMessage
from kohort.storage.layout import (
    LOG,
    PARTITION_METADATA_FILE,
    SWAP,
    CorruptCheckpoint,
    parse_partition_folder,
    parse_partition_metadata,
    parse_segment_file,
)

PIECE_BYTES = 4 << 20
MAX_BATCH_BYTES = 1 << 30


class Segment(NamedTuple):
    path: str
    size_bytes: int


class Folders:
    """The log partitions in `paths`: data folders, or partitions' folders."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._found: dict[int, list[str]] = {}  # several copies of a partition, such as replicas
        self._data_folders: list[str] = []
        for path in paths:
            self._look_into(path)
        if not self._found:
            places = ", ".join(paths)
            raise CannotRead(
                f"{places}: no log of {OFFSETS_TOPIC} in it; name a data folder, a copy of one, or a recording"
            )

    def _look_into(self, path: str) -> None:
        own = parse_partition_folder(os.path.basename(os.path.abspath(path)))
        try:
            names = os.listdir(path)
        except OSError as problem:
            raise CannotRead(in_plain_words(problem)) from None
        if own is not None and own[0] == OFFSETS_TOPIC:
            self._found.setdefault(own[1], []).append(path)
            return
        self._data_folders.append(path)
        for name in names:
            place = parse_partition_folder(name)
            if place is not None and place[0] == OFFSETS_TOPIC:
                self._found.setdefault(place[1], []).append(os.path.join(path, name))

    # --- as a source

    def pieces(self, group_id: str) -> Iterator[Piece]:
        """Where the group should be. If it is not there, everything: the folders do not always tell how many partitions
        the topic has, because a Kohort makes them when they are needed, and a broker of a cluster has only some."""
        home, needle, was_seen = self._home(group_id), group_id.encode(), False
        if home is not None:
            for piece in _pieces([home]):
                was_seen = was_seen or needle in piece.data
                yield piece
        if not was_seen:
            longest = (_longest(folders) for _, folders in sorted(self._found.items()))
            yield from _pieces([folder for folder in longest if folder != home])

    def topic_names(self) -> Iterator[tuple[bytes, str]]:
        for data_folder in self._data_folders:
            for name in os.listdir(data_folder):
                place = parse_partition_folder(name)
                if place is not None and place[1] == 0:
                    path = os.path.join(data_folder, name, PARTITION_METADATA_FILE)
                    with suppress(OSError, CorruptCheckpoint), open(path, "rb") as file:
                        yield parse_partition_metadata(file.read(), path), place[0]

    def group_ids(self) -> Iterator[str]:
        for folders in self._found.values():
            for folder in folders:
                for segment in _segments_in(folder):
                    for data in _pieces_of(segment):
                        with suppress(MalformedMessage):
                            yield from groups_in(data)

    def _home(self, group_id: str) -> str | None:
        """The folder in which the group lives, most likely."""
        greatest = max(self._found)
        is_whole = len(self._found) == greatest + 1
        count = greatest + 1 if is_whole or greatest >= KAFKAS_PARTITIONS else KAFKAS_PARTITIONS
        folders = self._found.get(partition_of(group_id, count))
        return None if folders is None else _longest(folders)


def _pieces(folders: Sequence[str]) -> Iterator[Piece]:
    segments = [segment for folder in folders for segment in _segments_in(folder)]
    total, done = sum(segment.size_bytes for segment in segments), 0
    for segment in segments:
        for data in _pieces_of(segment):
            done += len(data)
            yield Piece(data, done, total)


def _longest(folders: Sequence[str]) -> str:
    """Of several copies, the one that goes on for longest."""
    if len(folders) == 1:
        return folders[0]

    def reach(folder: str) -> tuple[int, int]:
        last = max(_segments_in(folder), key=lambda one: os.path.basename(one.path), default=None)
        return (0, 0) if last is None else (int(os.path.basename(last.path).partition(".")[0]), last.size_bytes)

    return max(folders, key=reach)


def _segments_in(folder: str) -> list[Segment]:
    """The segments in order, each as long as it is now. Finished output of compaction (.swap) is taken where the
    segment that it replaces is gone already."""
    found: dict[int, Segment] = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            parts = parse_segment_file(entry.name)
            if parts is None or parts[1] != LOG or parts[2] not in ("", SWAP):
                continue
            if parts[2] == "" or parts[0] not in found:
                with suppress(FileNotFoundError):
                    found[parts[0]] = Segment(entry.path, entry.stat().st_size)
    return [found[base] for base in sorted(found)]


def _pieces_of(segment: Segment) -> Iterator[bytes]:
    """Whole batches of the segment. What is behind the last whole one is cut off or damaged, and not read."""
    try:
        file = open(segment.path, "rb")  # noqa: SIM115 - closed below; it may be gone, and then there is no file
    except FileNotFoundError:
        return
    with file:
        left, rest = segment.size_bytes, b""
        while left > 0 or rest:
            data = rest + file.read(min(left, max(PIECE_BYTES, len(rest))))
            grown = len(data) - len(rest)
            left -= grown
            size = whole_batches(data)
            if size:
                yield data if size == len(data) else data[:size]
            rest = data[size:]
            if not grown or len(rest) > MAX_BATCH_BYTES:
                return
