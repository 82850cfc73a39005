"""kafkajs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.clients import story
from tests.clients.cache import made_from, need

SOURCES = Path(__file__).parent / "node"


def modules() -> Path:
    """The folder with node_modules, installed as package-lock.json says."""
    need("node", "Node.js of version 18 or newer")
    need("npm", "npm")
    sources = [SOURCES / "package.json", SOURCES / "package-lock.json"]

    def install(folder: Path) -> None:
        for source in sources:
            shutil.copy(source, folder)
        command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr

    return made_from("kafkajs", sources, install) / "node_modules"


def test_kafkajs_writes_reads_seeks_and_deletes(bootstrap: str) -> None:
    environment = os.environ | {"NODE_PATH": str(modules()), "KAFKAJS_NO_PARTITIONER_WARNING": "1"}
    command = ["node", str(SOURCES / "matrix.js"), bootstrap, str(story.START_MS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    kinds = [*story.COMPRESSIONS, "idempotent", "acks-0", "acks-1", "acks-all"]
    assert done.stdout.splitlines() == [f"node-{kind} ok" for kind in kinds]
