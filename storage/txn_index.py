"""Which transactions were aborted in a segment: readers of committed records skip their records (KIP-98).

The `.txnindex` file is there only if a transaction was aborted. It is a run of entries of 34 bytes, big-endian, in the
order of the markers:

     0  version             int16   0
     2  producer id         int64
    10  first offset        int64   where the transaction began in this partition, maybe in an earlier segment
    18  last offset         int64   of its marker, which is in this segment
    26  last stable offset  int64   right after the marker

Last offsets ascend, and last stable offsets never go down: what was open when the marker was written began at or after
the last stable offset. So whoever looks for transactions that began below some offset may stop at the first entry
whose last stable offset has reached it.

Entries stay in the file. In memory there are three numbers for each block of entries, so that a lookup reads only
blocks that may have something. An entry is synced together with its marker. After a crash, the entries of segments that
are scanned are made again from the log (`txn_recovery.py`).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from kohort.storage.disk import Disk, File
from kohort.storage.index_entries import CorruptIndex

_ENTRY: Final = Struct(">hqqqq")
ENTRY_BYTES: Final = _ENTRY.size
VERSION: Final = 0
BLOCK_ENTRIES: Final = 256


class AbortedTransaction(NamedTuple):
    """One transaction that was aborted in a partition, where it has records."""

    producer_id: int
    first_offset: int
    last_offset: int  # of the marker
    last_stable_offset: int  # after the marker: where the earliest other open transaction began, or behind the marker


class AbortedLookup:
    """Where the transactions stand that were aborted and have records from one offset up to another."""

    __slots__ = ("_offset", "_upper", "blocks")

    def __init__(self, blocks: list[Block], offset: int, upper: int) -> None:
        self.blocks = blocks  # to be read one by one: each has up to BLOCK_ENTRIES
        self._offset = offset
        self._upper = upper

    def read(self, block: Block) -> list[AbortedTransaction]:
        index, number = block
        return index.read(number, self._offset, self._upper)


class TxnIndex:
    """The entries of one segment."""

    __slots__ = ("_count", "_disk", "_file", "_firsts", "_lasts", "_stables", "path")

    def __init__(self, disk: Disk, path: str) -> None:
        """An index without entries; the first one creates the file."""
        self.path = path
        self._disk = disk
        self._file: File | None = None  # open from an append until the flush that takes it
        self._forget()

    def _forget(self) -> None:
        self._count = 0
        # Of each block: its least first offset, and the last offset and last stable offset of its last entry.
        self._firsts, self._lasts, self._stables = array("q"), array("q"), array("q")

    @classmethod
    def open(cls, disk: Disk, path: str, base_offset: int, end_offset: int) -> TxnIndex:
        """Read the file of a segment that has these offsets; CorruptIndex if it cannot be that of the segment."""
        index = cls(disk, path)
        index._load(base_offset, end_offset)
        return index

    @classmethod
    def create(cls, disk: Disk, path: str) -> TxnIndex:
        """An empty index, whatever the file had. The caller must sync and close `take_file()`."""
        index = cls(disk, path)
        index._file = disk.open(path, create=True, truncate=True)
        return index

    def _load(self, base_offset: int, end_offset: int) -> None:
        file = self._disk.open(self.path)
        try:
            size_bytes = file.size_bytes()
            if size_bytes % ENTRY_BYTES:
                raise CorruptIndex(f"{self.path}: {size_bytes} bytes are no whole number of entries")
            expected = base_offset
            for position in range(0, size_bytes, BLOCK_ENTRIES * ENTRY_BYTES):
                for version, *numbers in _ENTRY.iter_unpack(_block(file, position)):
                    entry = AbortedTransaction(*numbers)
                    if version != VERSION or not expected <= entry.last_offset < end_offset:
                        raise CorruptIndex(f"{self.path}: {entry} of version {version} is not of this segment")
                    self._note(entry)
                    expected = entry.last_offset + 1
        finally:
            file.close()

    def _note(self, entry: AbortedTransaction) -> None:
        if self._count % BLOCK_ENTRIES == 0:
            self._firsts.append(entry.first_offset)
            self._lasts.append(entry.last_offset)
            self._stables.append(entry.last_stable_offset)
        else:
            self._firsts[-1] = min(self._firsts[-1], entry.first_offset)
            self._lasts[-1] = entry.last_offset
            self._stables[-1] = entry.last_stable_offset
        self._count += 1

    def __len__(self) -> int:
        return self._count

    @property
    def last_offset(self) -> int:
        """Of the last marker; -1 if there are no entries."""
        return self._lasts[-1] if self._count else -1

    # --- writing ---------------------------------------------------------------------------------

    def append(self, entry: AbortedTransaction) -> None:
        """Add a transaction whose marker comes after all those in the index."""
        assert entry.last_offset > self.last_offset
        if self._file is None:
            self._file = self._disk.open(self.path, create=True)
        self._file.append(_ENTRY.pack(VERSION, *entry))
        self._note(entry)

    def take_file(self) -> File | None:
        """The file, if it was changed and not taken since. The caller must sync and close it."""
        file, self._file = self._file, None
        return file

    def truncate(self, base_offset: int, end_offset: int) -> None:
        """The segment ends at `end_offset` now: remove the entries of markers behind it."""
        kept = bisect_left(self._lasts, end_offset) * BLOCK_ENTRIES
        if kept < self._count:
            kept += sum(entry.last_offset < end_offset for entry in self._read(kept // BLOCK_ENTRIES))
        if kept == self._count:
            return
        if self._file is None:
            self._file = self._disk.open(self.path)
        self._file.truncate(kept * ENTRY_BYTES)
        self._forget()
        self._load(base_offset, end_offset)

    # --- reading ---------------------------------------------------------------------------------

    def find(self, offset: int, upper: int, blocks: list[Block]) -> bool:
        """Add the blocks that may have what ends at or after `offset` and began below `upper`. True: later segments
        have no more of it.
        """
        for number in range(bisect_left(self._lasts, offset), len(self._lasts)):
            if self._firsts[number] < upper:
                blocks.append((self, number))
            if self._stables[number] >= upper:
                return True
        return False

    def read(self, number: int, offset: int, upper: int) -> list[AbortedTransaction]:
        """What a block has of it."""
        return [each for each in self._read(number) if each[2] >= offset and each[1] < upper]

    def entries(self) -> list[AbortedTransaction]:
        return list(self)

    def __iter__(self) -> Iterator[AbortedTransaction]:
        for number in range(len(self._lasts)):
            yield from self._read(number)

    def _read(self, number: int) -> list[AbortedTransaction]:
        file = self._file or self._disk.open(self.path)
        try:
            data = _block(file, number * BLOCK_ENTRIES * ENTRY_BYTES)
        finally:
            if file is not self._file:
                file.close()
        return [AbortedTransaction(*numbers) for _, *numbers in _ENTRY.iter_unpack(data)]


Block: TypeAlias = tuple[TxnIndex, int]  # an index, and the number of a block in it


def take_files(indexes: list[TxnIndex]) -> list[File]:
    """The files of those that were changed. The list becomes empty."""
    files = [file for index in indexes if (file := index.take_file()) is not None]
    indexes.clear()
    return files


def _block(file: File, position: int) -> bytes:
    return file.pread(BLOCK_ENTRIES * ENTRY_BYTES, position)
