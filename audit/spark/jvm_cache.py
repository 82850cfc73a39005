"""A cache of Spark's classes, with which the JVM starts in half the time. It is on unless `--no-jvm-cache` says no.

The first audit that needs a JVM makes the cache when it has ended: the JVM writes it (160 MB) on its way out, at the
lowest priority, and nobody waits for that. Later audits use it. It is an AOT cache with Java 25 and newer, and a
class-data archive with older ones. A JVM ignores a cache that was made by another Java or with other jars. That is
rare, because the file's name depends on both.

Two audits that start at once do not write over one another: each writes a file of its own, and only the one that holds
the lock does so at all. The file gets its name when it is whole. Of caches for other versions, the newest one is kept.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Thread

FIRST_JAVA_WITH_AOT = 25
WRITE_TIMEOUT_S = 300
KEPT = 2  # caches in a folder
QUIET = ("-Xlog:disable",)  # no messages about a cache that cannot be used

# Waits for the end of the JVM, gives the file its name, and removes what is too old. It is a process of its own, since
# the audit does not wait. Its standard input is the lock, which is free again when it ends. Arguments: the JVM, the
# seconds to wait for it, the file that it writes, the file's name, how many are kept.
FINISH = """
import os, sys, time
jvm, seconds, written, name, kept = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5])
until = time.monotonic() + seconds
while time.monotonic() < until:
    try:
        os.kill(jvm, 0)
    except OSError:
        break
    time.sleep(0.1)
else:
    os.kill(jvm, 9)
    if os.path.exists(written):
        os.unlink(written)
if os.path.exists(written):
    os.rename(written, name)
folder, suffixes = os.path.dirname(name), (".aot", ".jsa")
names = [each for each in os.listdir(folder) if each.startswith("spark-") and each.endswith(suffixes)]
found = [os.path.join(folder, each) for each in names]
for old in sorted(found, key=os.path.getmtime, reverse=True)[kept:]:
    os.unlink(old)
"""


def default_folder(environment: Mapping[str, str]) -> str:
    """In the user's folder for caches."""
    root = environment.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(root, "kohort", "jvm")


class JvmCache:
    def __init__(self, folder: str, java: str, version: int, jars: Path) -> None:
        listed = sorted((jar.name, jar.stat().st_size) for jar in jars.glob("*.jar"))
        made_for = hashlib.sha256(repr((java, version, os.path.realpath(java), str(jars), listed)).encode()).hexdigest()
        self.aot = version >= FIRST_JAVA_WITH_AOT
        self.file = Path(folder) / f"spark-{made_for[:16]}.{'aot' if self.aot else 'jsa'}"
        self.writing: Path | None = None
        self._lock: int | None = None

    def options(self) -> list[str]:
        """Options of the JVM: use the cache if there is one, or else write one when the JVM ends."""
        if self.file.is_file():
            with suppress(OSError):
                os.utime(self.file)  # it is in use: others go first
            return [f"-XX:{'AOTCache' if self.aot else 'SharedArchiveFile'}={self.file}", *QUIET]
        if not self._may_write():
            return []
        self.writing = self.file.with_name(f"{self.file.name}.{os.getpid()}")
        return [f"-XX:{'AOTCacheOutput' if self.aot else 'ArchiveClassesAtExit'}={self.writing}", *QUIET]

    def _may_write(self) -> bool:
        """Without a folder that can be written to, or while another audit writes the cache, there is none this time."""
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.file.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._unlock()
            return False
        for left in self.file.parent.glob(f"{self.file.name}.*"):  # of an audit that was killed
            left.unlink(missing_ok=True)
        return True

    def finish(self, process: subprocess.Popen[bytes]) -> None:
        """Let the JVM end, which makes it write the cache. Spark must have stopped before."""
        if self.writing is None:
            return
        assert process.stdin is not None
        assert self._lock is not None
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process.pid, 19)
        arguments = [str(process.pid), str(WRITE_TIMEOUT_S), str(self.writing), str(self.file), str(KEPT)]
        finishing = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", FINISH, *arguments], stdin=self._lock, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True, close_fds=True,
        )  # fmt: skip
        process.stdin.close()
        self._unlock()
        Thread(target=_reap, args=(process, finishing), daemon=True).start()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _reap(*processes: subprocess.Popen[bytes]) -> None:
    """Else they would stay as zombies as long as this process lives, and the JVM would seem to go on."""
    for process in processes:
        process.wait()
