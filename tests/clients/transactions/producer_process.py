"""A process with transactional producers of some client, which does what the test says (see producer_program.py)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).parents[3]
CLOSE_DEADLINE_S = 30


class ProducerProcess:
    def __init__(self, command: Sequence[str], errors: Path) -> None:
        self._errors = errors
        with errors.open("ab") as stderr:
            self.process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True
            )

    def tell(self, producer: str, command: str, *words: object) -> str | None:
        """Returns what the client says that went wrong."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(" ".join([producer, command, *map(str, words)]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        while line and not line.startswith("{"):  # what a library prints
            line = self.process.stdout.readline()
        assert line, f"{command}: the client ended\n{self._errors.read_text(errors='replace')[-4000:]}"
        error: str | None = json.loads(line).get("error")
        return error

    def must(self, producer: str, command: str, *words: object) -> None:
        failed = self.tell(producer, command, *words)
        assert failed is None, (producer, command, failed)

    def kill(self) -> None:
        """SIGKILL: its connections close, and its transaction stays open."""
        self.process.kill()
        self._reap()

    def _reap(self) -> None:
        self.process.wait(CLOSE_DEADLINE_S)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()

    def __enter__(self) -> ProducerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.returncode is None:
            self.kill()
