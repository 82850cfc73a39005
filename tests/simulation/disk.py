"""A disk in memory that crashes, forgets, tears, fills up and fails, all decided by a seed.

The fault model: what may happen here is what POSIX lets a real disk do, which is more than most of them do.

- What was written can be read at once by the same machine; it is on the medium only after `sync` returned.
- A *power loss* keeps everything synced. Of the rest of a file it keeps nothing, everything, a prefix cut at
  any byte, or any subset of the 512-byte sectors (a missing one reads as zeros if the file's length made it).
  A truncation that was not synced may have happened or not.
- Creations, renames and removals are durable after `sync_folder`. Of those made since, a power loss keeps a
  prefix (a journal) or any subset that is possible (no journal). Each of them happens wholly or not at all.
- A *kill* of the process alone loses nothing that was written: the operating system still has it.
- `sync` may fail. Then an arbitrary part of the file reached the medium, the rest never will, reading still
  shows it, and the next sync reports success: what Linux does, and why retrying a failed sync is a lie.
- An append may fail for want of space, or with an I/O error, after a part of it was written.
- Every change is a *step*. `crash_at(n)` makes the n-th step from now the last one: it happens not at all, in
  part (appends) or wholly, then Crash is raised, and again by every later use of the dead machine's disk.
- Not modelled: bits that rot after they were synced (tests flip them by hand), and reordering of reads.

    disk = SimulatedDisk(seed=7)
    disk.crash_at(40)
    with pytest.raises(Crash): work(disk)
    disk = disk.after_power_loss()        # or after_kill(): the machine comes back with what survived
"""

import errno
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from kohort.storage.disk import Buffer, File, FileInfo, FolderLock
from kohort.storage.memory_disk import NEVER_FULL, Entry, Inode, MemoryDisk, Names, apply

SECTOR_BYTES = 512


class Crash(BaseException):
    """The machine stopped here. No `except Exception` survives that, so it is none."""


@dataclass(slots=True)
class Write:
    """Bytes at a position, not yet known to be on the medium."""

    position: int
    data: bytes


@dataclass(slots=True)
class Cut:
    """A truncation that is not yet known to be on the medium."""

    size_bytes: int


@dataclass(slots=True, eq=False)
class Content(Inode):
    """A file's content: as the machine sees it, as the medium has it, and the changes in between."""

    durable: bytearray = field(default_factory=bytearray)
    pending: list[Write | Cut] = field(default_factory=list)


class SimulatedDisk(MemoryDisk):
    """See the module. `now` (ms) stamps the files; `capacity_bytes` bounds the sum of their sizes."""

    def __init__(self, seed: int = 0, *, capacity_bytes: int | None = None) -> None:
        super().__init__(now=lambda: self.now, capacity_bytes=NEVER_FULL if capacity_bytes is None else capacity_bytes)
        self.rng = random.Random(seed)
        self.now = 0
        self.steps = 0
        self.dead = False
        self.trace: list[str] = []
        self._crash_at: int | None = None
        self._faults: list[tuple[str, str, int]] = []

    # --- what a test says -----------------------------------------------------------------------------

    def crash_at(self, step: int) -> None:
        """Stop at the `step`-th change from now (the first is 1)."""
        self._crash_at = self.steps + step

    @property
    def will_crash(self) -> bool:
        return self._crash_at is not None and self._crash_at > self.steps

    @property
    def has_faults(self) -> bool:
        return bool(self._faults)

    def fail_next(self, operation: str, path_contains: str = "", error: int = errno.EIO) -> None:
        """The next `operation` ("sync", "append", "rename", ...) on such a path raises OSError(`error`)."""
        self._faults.append((operation, path_contains, error))

    def after_power_loss(self) -> "SimulatedDisk":
        """The disk as the next boot finds it."""
        reborn = self._reborn()
        reborn._names = self._names_after_power_loss()
        survivors: dict[int, Content] = {}
        for path, inode in reborn._names.items():
            if inode is not None:
                if id(inode) not in survivors:
                    kept = self._content_after_power_loss(_content(inode))
                    survivors[id(inode)] = _settled(kept, inode.modified_ms)
                reborn._names[path] = survivors[id(inode)]
        reborn._durable_names = dict(reborn._names)
        return reborn

    def after_kill(self) -> "SimulatedDisk":
        """The disk as the next process finds it: the machine never stopped."""
        reborn = self._reborn()
        reborn._names = self._names
        reborn._durable_names = self._durable_names
        reborn._unsynced_names = self._unsynced_names
        return reborn

    def clone(self, seed: int) -> "SimulatedDisk":
        """The same files on a disk with another fate; everything on it is durable."""
        clone = SimulatedDisk(seed, capacity_bytes=self.capacity_bytes)
        clone.now = self.now
        for path, inode in self._names.items():
            clone._names[path] = None if inode is None else _settled(inode.content)
        clone._durable_names = dict(clone._names)
        return clone

    def is_durable(self, path: str) -> bool:
        """Would the whole file survive any power loss under this name?"""
        inode = self._names.get(path)
        settled = all(path not in (entry.path, entry.source) for entry in self._unsynced_names)
        return inode is not None and settled and bytes(_content(inode).durable) == bytes(inode.content)

    # --- power loss -----------------------------------------------------------------------------------

    def _reborn(self) -> "SimulatedDisk":
        self.dead = True
        reborn = SimulatedDisk(capacity_bytes=self.capacity_bytes)
        reborn.rng = random.Random(self.rng.getrandbits(64))
        reborn.now = self.now
        return reborn

    def _names_after_power_loss(self) -> Names:
        names = dict(self._durable_names)
        if self.rng.random() < 0.5:
            for entry in self._unsynced_names[: self.rng.randint(0, len(self._unsynced_names))]:
                apply(names, entry)
            return names
        chance = self.rng.random()
        for entry in self._unsynced_names:
            if self.rng.random() < chance:
                apply(names, entry)
        return {path: inode for path, inode in names.items() if _has_parents(names, path)}

    def _content_after_power_loss(self, inode: Content) -> bytes:
        outcome = bytearray(inode.durable)
        fate = self.rng.choice(("nothing", "everything", "prefix", "sectors"))
        last = len(inode.pending) if fate == "everything" else self.rng.randint(0, len(inode.pending))
        if fate != "nothing":
            for change in inode.pending[:last]:
                _write(outcome, change, None if fate != "sectors" else self.rng)
            if fate == "prefix" and last < len(inode.pending):
                torn = inode.pending[last]
                if isinstance(torn, Write):
                    _write(outcome, Write(torn.position, torn.data[: self.rng.randint(0, len(torn.data))]))
        return bytes(outcome)

    # --- steps ----------------------------------------------------------------------------------------

    def _step(self, operation: str, path: str, change: Callable[[], None]) -> None:
        """Make one change, unless the machine stops here; a crash falls before or after it."""
        self._begin(operation, path)
        if self.steps != self._crash_at:
            change()
            return
        if self.rng.random() < 0.5:
            change()
        self._crash()

    def _begin(self, operation: str, path: str) -> None:
        self._alive()
        self.steps += 1
        self.trace.append(f"{operation} {path}")

    def _crash(self) -> None:
        self.dead = True
        raise Crash(f"step {self.steps}: {self.trace[-1]}")

    def _alive(self) -> None:
        if self.dead:
            raise Crash("the machine has stopped")

    def _take_fault(self, operation: str, path: str) -> OSError | None:
        for fault in self._faults:
            if fault[0] == operation and fault[1] in path:
                self._faults.remove(fault)
                return OSError(fault[2], os.strerror(fault[2]), path)
        return None

    # --- names ----------------------------------------------------------------------------------------

    def _change_name(self, operation: str, entry: Entry) -> None:
        if fault := self._take_fault(operation, entry.path):
            raise fault
        self._step(operation, entry.path, lambda: super(SimulatedDisk, self)._change_name(operation, entry))

    def _new_inode(self) -> Inode:
        return Content(modified_ms=self.now)

    def _file(self, path: str) -> File:
        return SimulatedFile(path, self, _content(self._inode(path)))

    def _inode(self, path: str) -> Inode:
        self._alive()
        return super()._inode(path)

    def _need_folder(self, path: str) -> None:
        self._alive()
        super()._need_folder(path)

    def scan_folder(self, path: str) -> list[FileInfo]:
        found = super().scan_folder(path)
        self.rng.shuffle(found)  # real folders have no order
        return found

    def sync_folder(self, path: str) -> None:
        self._need_folder(path)
        if fault := self._take_fault("sync_folder", path):
            raise fault
        self._step("sync_folder", path, lambda: super(SimulatedDisk, self).sync_folder(path))

    def lock(self, path: str) -> FolderLock:
        self._alive()
        return super().lock(path)

    def used_bytes(self) -> int:
        return sum(len(inode.content) for inode in self._names.values() if inode is not None)

    def _freed(self, inode: Inode | None) -> None:
        """Nothing to count: see `used_bytes`."""


class SimulatedFile(File):
    """An open file of a SimulatedDisk; it stays readable after its name is gone, as on POSIX."""

    __slots__ = ("_disk", "_inode")

    def __init__(self, path: str, disk: SimulatedDisk, inode: Content) -> None:
        super().__init__(path)
        self._disk = disk
        self._inode = inode

    def append(self, data: Buffer) -> None:
        disk, data = self._disk, bytes(data)
        disk._begin("append", self.path)
        fault = disk._take_fault("append", self.path)
        if fault is None and disk.capacity_bytes != NEVER_FULL:
            room = disk.capacity_bytes - disk.used_bytes()
            if room < len(data):
                self._write(data[:room])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
        crash = disk.steps == disk._crash_at
        if fault is None and not crash:
            self._write(data)
            return
        self._write(data[: disk.rng.randint(0, len(data))])
        if fault is not None:
            raise fault
        disk._crash()

    def _write(self, data: bytes) -> None:
        inode = self._inode
        inode.pending.append(Write(len(inode.content), data))
        inode.content += data
        inode.modified_ms = self._disk.now

    def pread(self, size_bytes: int, position: int) -> bytes:
        self._disk._alive()
        return bytes(self._inode.content[position : position + size_bytes])

    def truncate(self, size_bytes: int) -> None:
        def change() -> None:
            del self._inode.content[size_bytes:]
            self._inode.pending.append(Cut(size_bytes))
            self._inode.modified_ms = self._disk.now

        assert size_bytes <= len(self._inode.content), "nobody makes a file longer by truncating it"
        self._disk._step("truncate", self.path, change)

    def size_bytes(self) -> int:
        self._disk._alive()
        return len(self._inode.content)

    def fileno(self) -> int:
        return -1

    def _sync(self) -> None:
        disk, inode = self._disk, self._inode
        if fault := disk._take_fault("sync", self.path):
            disk._begin("sync", self.path)
            inode.durable[:] = disk._content_after_power_loss(inode)
            inode.pending.clear()
            raise fault

        def change() -> None:
            for pending in inode.pending:
                _write(inode.durable, pending)
            inode.pending.clear()

        disk._step("sync", self.path, change)

    def _close(self) -> None:
        """Nothing to give back."""


def _content(inode: Inode) -> Content:
    assert isinstance(inode, Content)
    return inode


def _settled(content: Buffer, modified_ms: int = 0) -> Content:
    """A content that is durable."""
    return Content(bytearray(content), modified_ms=modified_ms, durable=bytearray(content))


def _has_parents(names: Names, path: str) -> bool:
    parent = os.path.dirname(path)
    return parent in ("", "/", ".") or (names.get(parent, names) is None and _has_parents(names, parent))


def _write(content: bytearray, change: Write | Cut, lossy: random.Random | None = None) -> None:
    """Bring a change to the medium; with `lossy`, only some of its sectors."""
    if isinstance(change, Cut):
        del content[change.size_bytes :]
        return
    start, data = change.position, change.data
    if start + len(data) > len(content):
        content += bytes(start + len(data) - len(content))
    step = SECTOR_BYTES if lossy else max(len(data), 1)
    for at in range(start - start % step if lossy else start, start + len(data), step):
        begin, end = max(at, start), min(at + step, start + len(data))
        if lossy is None or lossy.random() < 0.7:
            content[begin:end] = data[begin - start : end - start]
