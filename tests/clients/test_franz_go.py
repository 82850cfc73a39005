"""franz-go."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.clients import story
from tests.clients.cache import made_from, need

SOURCES = Path(__file__).parent / "go"


def program() -> Path:
    need("go", "Go of version 1.26 or newer")

    def build(folder: Path) -> None:
        command = ["go", "build", "-o", str(folder / "matrix"), "."]
        done = subprocess.run(command, cwd=SOURCES, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr

    sources = sorted(path for path in SOURCES.iterdir() if path.suffix in (".go", ".mod", ".sum"))
    return made_from("franz-go", sources, build) / "matrix"


def test_franz_go_writes_reads_seeks_and_deletes(bootstrap: str) -> None:
    command = [str(program()), bootstrap, str(story.START_MS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    kinds = [*story.COMPRESSIONS, "idempotent", "acks-0", "acks-1", "acks-all"]
    assert done.stdout.splitlines() == [f"go-{kind} ok" for kind in kinds]
