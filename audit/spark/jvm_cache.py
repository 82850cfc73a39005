"""A cache of Spark's classes, so that the JVM starts in half the time. Asked for with `--jvm-cache FOLDER`.

The first run writes it at its end (160 MB, some seconds), the next ones use it: an AOT cache from Java 25 on, a
class-data archive before. A cache that does not fit (another Java, other jars) is refused by the JVM itself, which then
starts as it would without; the file's name holds what it was made for, so that this is rare.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

FIRST_JAVA_WITH_AOT = 25
WRITE_TIMEOUT_S = 180
QUIET = ("-Xlog:disable",)  # a cache that does not fit is not worth a line


class JvmCache:
    def __init__(self, folder: str, java: str, version: int, jars: Path) -> None:
        listed = sorted((jar.name, jar.stat().st_size) for jar in jars.glob("*.jar"))
        made_for = hashlib.sha256(repr((java, version, os.path.realpath(java), str(jars), listed)).encode()).hexdigest()
        self.aot = version >= FIRST_JAVA_WITH_AOT
        self.file = Path(folder) / f"spark-{made_for[:16]}.{'aot' if self.aot else 'jsa'}"
        self.writing: Path | None = None

    def options(self) -> list[str]:
        """Use the cache if it is there, else write it at the end."""
        if self.file.is_file():
            return [f"-XX:{'AOTCache' if self.aot else 'SharedArchiveFile'}={self.file}", *QUIET]
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            print(f"kohort audit: no JVM cache: {problem}", file=sys.stderr)
            return []
        self.writing = self.file.with_suffix(f".{os.getpid()}")
        return [f"-XX:{'AOTCacheOutput' if self.aot else 'ArchiveClassesAtExit'}={self.writing}", *QUIET]

    def finish(self, process: subprocess.Popen[bytes]) -> None:
        """Once Spark has stopped: let the JVM end, which is when it writes."""
        if self.writing is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(WRITE_TIMEOUT_S)
            self.writing.rename(self.file)
        except (OSError, subprocess.TimeoutExpired) as problem:
            process.kill()
            print(f"kohort audit: the JVM cache was not written: {problem}", file=sys.stderr)
            self.writing.unlink(missing_ok=True)
