"""A real `kohort serve` process on a free port, for tests that speak to it from outside."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import TracebackType

BANNER = re.compile(r"Kohort listens on (\S+?),")
STOP_TIMEOUT_S = 30
LOG_TAIL_LINES = 80


class KohortProcess:
    """Starts at once, stops at the end of the `with` block; prints its log if the block failed."""

    executable = Path(sys.executable).with_name("kohort")

    def __init__(self, folder: Path, *arguments: str, **overrides: str) -> None:
        """`overrides` are settings with Kafka's names, dots written as underscores."""
        self.data = folder / "data"
        self.log = folder / "kohort.log"
        folder.mkdir(parents=True, exist_ok=True)
        settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(self.data)}
        settings |= {name.replace("_", "."): value for name, value in overrides.items()}
        command = [str(self.executable), "serve", *arguments]
        for name, value in settings.items():
            command += ["--override", f"{name}={value}"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        self.address = self._read_address()

    def _read_address(self) -> str:
        """The banner is the first line on standard output; it ends early if the process dies."""
        assert self.process.stdout is not None
        self.banner = self.process.stdout.readline()
        found = BANNER.search(self.banner)
        if found is None:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"Kohort did not start: {self.banner!r}\n{self.log_tail()}")
        return found[1]

    def log_tail(self) -> str:
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_TAIL_LINES:])

    def stop(self) -> int:
        """Send SIGTERM, and wait until the process has ended. Returns the exit status."""
        self.process.terminate()
        try:
            return self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"Kohort did not stop within {STOP_TIMEOUT_S} s\n{self.log_tail()}") from None
        finally:
            assert self.process.stdout is not None
            self.process.stdout.close()

    def __enter__(self) -> KohortProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        status = self.stop()
        if kind is not None:
            print(f"--- the broker's log\n{self.log_tail()}")
        else:
            assert status == 0, f"Kohort ended with status {status}\n{self.log_tail()}"
