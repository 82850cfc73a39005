"""A cache of Spark's classes, with which the JVM starts in half the time. `--jvm-cache FOLDER` turns it on.

The first run writes the cache at its end (160 MB, some seconds), and later runs use it. It is an AOT cache with Java 25
and newer, and a class-data archive with older ones. A JVM ignores a cache that was made by another Java or with other
jars. That is rare, because the file's name depends on both.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

FIRST_JAVA_WITH_AOT = 25
WRITE_TIMEOUT_S = 180
QUIET = ("-Xlog:disable",)  # no messages about a cache that cannot be used


class JvmCache:
    def __init__(self, folder: str, java: str, version: int, jars: Path) -> None:
        listed = sorted((jar.name, jar.stat().st_size) for jar in jars.glob("*.jar"))
        made_for = hashlib.sha256(repr((java, version, os.path.realpath(java), str(jars), listed)).encode()).hexdigest()
        self.aot = version >= FIRST_JAVA_WITH_AOT
        self.file = Path(folder) / f"spark-{made_for[:16]}.{'aot' if self.aot else 'jsa'}"
        self.writing: Path | None = None

    def options(self) -> list[str]:
        """Options of the JVM: use the cache if there is one, or else write one when the JVM ends."""
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
        """Let the JVM end, which makes it write the cache, and wait for it. Spark must have stopped before."""
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
