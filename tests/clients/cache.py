"""A cache outside the repository for what the tests build or download; folders are named after their sources.

Test runs at the same time share it. A run that makes something holds a lock. So the others wait instead of making the
same again, and only one Maven runs at a time (two at once damage Maven's own cache).
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def need(command: str, what: str) -> None:
    """Skips the test where a tool is missing, and says which."""
    if shutil.which(command) is None:
        pytest.skip(f"needs {what}: `{command}` is not on the PATH")


def made_from(name: str, sources: Iterable[Path], make: Callable[[Path], None]) -> Path:
    """The folder that `make` fills, made again only when a source has changed."""
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return made_once(f"{name}-{digest.hexdigest()[:16]}", make)


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """The folder of this name that `make` fills, unless it is there already."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "kohort"
    folder = cache / name
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with _locked(cache / "lock"):
            if not folder.exists():  # nobody made it while we waited
                _make(folder, make)
    return folder


def _make(folder: Path, make: Callable[[Path], None]) -> None:
    """Fill a folder under another name, then rename it: a run that is killed leaves no half-filled folder behind."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        make(made)
        made.rename(folder)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
