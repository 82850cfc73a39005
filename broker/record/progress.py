"""What people see of a recording: a line that changes on a terminal, or else a line now and then; and the news."""

from __future__ import annotations

import sys
from threading import Lock
from time import monotonic
from typing import TextIO

from kohort.broker.record.recorder import Recorder
from kohort.printable import printable

QUIET_S = 60.0  # between two lines that are no news, where there is no terminal
CLEAR = "\r\x1b[K"


class Progress:
    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stderr
        self._is_terminal = self._out.isatty()
        self._lock = Lock()  # news come from several threads
        self._last_bytes = 0
        self._last_at = self._told_at = monotonic()

    def tell(self, news: str) -> None:
        with self._lock:
            clear = CLEAR if self._is_terminal else ""
            print(f"{clear}kohort record: {printable(news)}", file=self._out, flush=True)

    def show(self, recorder: Recorder) -> None:
        """Called every second."""
        now = monotonic()
        line = self._line(recorder, now)
        with self._lock:
            if self._is_terminal:
                print(f"{CLEAR}{line}", end="", file=self._out, flush=True)
            elif now - self._told_at >= QUIET_S:
                self._told_at = now
                print(f"kohort record: {line}", file=self._out, flush=True)

    def end(self, recorder: Recorder) -> None:
        parts = recorder.partitions.values()
        batches, size = sum(part.batches for part in parts), sum(part.bytes for part in parts)
        self.tell(f"{batches:,} batches, {_bytes(size)} recorded in {recorder.folder}")

    def _line(self, recorder: Recorder, now: float) -> str:
        parts = list(recorder.partitions.values())
        size = sum(part.bytes for part in parts)
        rate = (size - self._last_bytes) / max(now - self._last_at, 0.001)
        self._last_bytes, self._last_at = size, now
        leaderless = sum(part.leader is None for part in parts)
        words = [
            f"{sum(part.batches for part in parts):,} batches, {_bytes(size)}",
            f"{_bytes(rate)}/s",
            f"{sum(part.lag for part in parts):,} offsets behind",
        ]
        if leaderless:
            words.append(f"{leaderless} partitions without a leader")
        return ", ".join(words)


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
