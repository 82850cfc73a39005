"""Where what the tests build or download is kept: outside the repository, named after what it was made from."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest


def need(command: str, what: str) -> None:
    """Skips the test where a tool is missing, and says which."""
    if shutil.which(command) is None:
        pytest.skip(f"needs {what}: `{command}` is not on the PATH")


def made_from(name: str, sources: Iterable[Path], make: Callable[[Path], None]) -> Path:
    """The folder that `make` fills, made again only when a source has changed."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "kohort"
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    folder = cache / f"{name}-{digest.hexdigest()[:16]}"
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            made = Path(scratch) / "made"
            made.mkdir()
            make(made)
            try:
                made.rename(folder)
            except OSError:
                assert folder.exists()  # another run was faster
    return folder
