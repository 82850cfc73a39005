"""Reads log files, from a folder of this machine or from an address such as s3://bucket/backup/broker-1.

An address may be any that pyarrow.fs knows (file, s3, gs, hdfs, abfs), or fsspec if that package is installed. Most
folders are local; these are read without either package. A folder of a `storage.disk.Disk`, which may be in memory, has
an address during a `with mounted(...)` block.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from io import RawIOBase
from itertools import count
from typing import Any, NamedTuple, Protocol, cast

from kohort.storage.disk import Disk

LARGE_BYTES = 4 << 20
MOUNTED = "mounted://"


class Entry(NamedTuple):
    """A file or folder in a folder."""

    is_folder: bool
    size_bytes: int


class Files(Protocol):
    """What the audit needs of a file system. Every method may raise OSError."""

    def scan(self, folder: str) -> dict[str, Entry]: ...

    def read(self, path: str, start: int = 0, size_bytes: int | None = None) -> bytes: ...


class LocalFiles:
    """The file system of this machine."""

    def scan(self, folder: str) -> dict[str, Entry]:
        found = {}
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    found[entry.name] = Entry(entry.is_dir(), entry.stat().st_size)
                except FileNotFoundError:
                    continue  # the file was removed after the folder was listed
        return found

    def read(self, path: str, start: int = 0, size_bytes: int | None = None) -> bytes:
        with open(path, "rb", buffering=0) as file:
            there = max(0, os.fstat(file.fileno()).st_size - start)
            size_bytes = there if size_bytes is None else min(size_bytes, there)
            file.seek(start)
            if size_bytes >= LARGE_BYTES and hasattr(mmap, "MADV_HUGEPAGE"):
                return _read_large(file, size_bytes)
            return file.read(size_bytes)


def _read_large(file: RawIOBase, size_bytes: int) -> bytes:
    """Read into memory of large pages: to get small pages from the system takes longer than to read the file."""
    memory = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    done = 0
    with memoryview(memory) as view:
        while done < size_bytes and (count := file.readinto(view[done:])):
            done += count
    return cast(bytes, memory) if done == size_bytes else memory[:done]


class ArrowFiles:
    """A file system of pyarrow.fs."""

    def __init__(self, filesystem: Any) -> None:
        self._filesystem = filesystem

    def scan(self, folder: str) -> dict[str, Entry]:
        from pyarrow.fs import FileSelector, FileType

        infos = self._filesystem.get_file_info(FileSelector(folder))
        return {info.base_name: Entry(info.type == FileType.Directory, info.size or 0) for info in infos}

    def read(self, path: str, start: int = 0, size_bytes: int | None = None) -> bytes:
        with self._filesystem.open_input_file(path) as file:
            file.seek(min(start, file.size()))
            data: bytes = file.read() if size_bytes is None else file.read(size_bytes)
            return data


class DiskFiles:
    """The files of a disk as the storage engine sees it."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def scan(self, folder: str) -> dict[str, Entry]:
        return {info.name: Entry(info.is_folder, info.size_bytes) for info in self._disk.scan_folder(folder)}

    def read(self, path: str, start: int = 0, size_bytes: int | None = None) -> bytes:
        file = self._disk.open(path)
        try:
            there = max(0, file.size_bytes() - start)
            return file.pread(there if size_bytes is None else min(size_bytes, there), start)
        finally:
            file.close()


def join(address: str, name: str) -> str:
    """The address of `name` in a folder. The part behind a question mark configures the file system and stays last."""
    if not is_address(address):
        return os.path.join(address, name)
    path, mark, options = address.partition("?")
    return f"{path.rstrip('/')}/{name}{mark}{options}"


def parent(address: str) -> str:
    if not is_address(address):
        return os.path.dirname(os.path.abspath(address))
    path, mark, options = address.partition("?")
    return f"{path.rstrip('/').rpartition('/')[0]}{mark}{options}"


def base_name(address: str) -> str:
    if not is_address(address):
        return os.path.basename(os.path.abspath(address))
    return address.partition("?")[0].rstrip("/").rpartition("/")[2]


def is_address(path: str) -> bool:
    return "://" in path


def shown(address: str) -> str:
    """The address without key and secret, to be shown to people and written into tables."""
    return re.sub(r"://[^/@?]*@", "://", address)


_LOCAL = LocalFiles()
_mounted: dict[str, tuple[Files, str]] = {}  # address -> what lies there
_numbers = count(1)


@contextmanager
def mounted(files: Files, folder: str) -> Iterator[str]:
    """An address for a folder of `files`, until the end of the `with` block. No two blocks have the same address."""
    address = f"{MOUNTED}{next(_numbers)}"
    _mounted[address] = files, folder
    try:
        yield address
    finally:
        del _mounted[address]


def scan(address: str) -> dict[str, Entry]:
    """The files and folders in a folder, by name."""
    files, path = _folder_at(address)
    return files.scan(path)


def read(address: str, start: int = 0, size_bytes: int | None = None) -> bytes:
    """The content of a file from byte `start` on; less than `size_bytes` if the file ends before."""
    files, folder = _folder_at(parent(address))
    return files.read(f"{folder}/{base_name(address)}", start, size_bytes)


def _folder_at(address: str) -> tuple[Files, str]:
    if address.startswith(MOUNTED):
        number, slash, path = address.removeprefix(MOUNTED).partition("/")
        files, folder = _mounted[MOUNTED + number]
        return files, folder + slash + path
    return _connect(address) if is_address(address) else (_LOCAL, address)


@lru_cache(maxsize=256)
def _connect(folder: str) -> tuple[Files, str]:
    """The file system of an address, and its path there."""
    from pyarrow import ArrowException
    from pyarrow.fs import FileSystem

    try:
        filesystem, path = FileSystem.from_uri(folder)
    except ArrowException as error:
        scheme, _, path = folder.partition("?")[0].partition("://")
        filesystem = _from_fsspec(scheme, error)
    return ArrowFiles(filesystem), path


def _from_fsspec(scheme: str, problem: Exception) -> Any:
    from pyarrow.fs import FSSpecHandler, PyFileSystem

    try:
        fsspec = import_module("fsspec")
    except ImportError:
        raise OSError(f"{problem} (fsspec, which may know how to read {scheme}://, is not installed)") from problem
    try:
        return PyFileSystem(FSSpecHandler(fsspec.filesystem(scheme)))
    except (ImportError, ValueError) as error:
        raise OSError(f"{scheme}://: {error}") from error
