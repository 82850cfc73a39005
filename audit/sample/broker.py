"""A `kohort serve` process on a free port of loopback."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import TracebackType

BANNER = re.compile(r"Kohort listens on (\S+?),")
STOP_TIMEOUT_S = 30
SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "group.initial.rebalance.delay.ms": "100",
    "group.min.session.timeout.ms": "500",  # so that the sample need not wait long for a crash to be noticed
    "group.share.min.record.lock.duration.ms": "2000",  # nor for a lock to expire
    "group.share.record.lock.duration.ms": "2000",
    "group.share.assignment.interval.ms": "0",
}


class BrokerProcess:
    """Runs during a `with` block and listens on `address`."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self._log = folder / "broker.log"
        folder.mkdir(parents=True, exist_ok=True)
        self.address = ""

    def __enter__(self) -> BrokerProcess:
        settings = SETTINGS | {"log.dirs": str(self.data)}
        overrides = [word for name, value in settings.items() for word in ("--override", f"{name}={value}")]
        command = [str(Path(sys.executable).with_name("kohort")), "serve", *overrides]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        found = BANNER.search(self._process.stdout.readline())
        if found is None:
            self._process.kill()
            raise RuntimeError(f"the broker did not start; {self._log} says why")
        self.address = found[1]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(STOP_TIMEOUT_S)
        assert self._process.stdout is not None
        self._process.stdout.close()
