"""The file of topics and of settings of groups.

A change is appended and synced, so saving it costs as much as the change, not as all topics.

    kohort-catalog.json    {"version": 3}
                           [{"name": "orders", "id": "0QxWXg...", "partitions": 3, "configs": {}}]
                           [{"deleted": "orders", "id": "0QxWXg..."}]
                           [{"group": "billing", "configs": {"consumer.session.timeout.ms": "50000"}}]

Only a file that names groups has version 3: without them an older Kohort can read it, too. A line holds everything that
one request changed. A later line replaces what earlier ones say about a topic or a group. A crash can leave only the
last line unfinished; its request was not answered, so that line is ignored. The file is written anew,
without what no longer counts, when much of it no longer counts (`begin_rewrite`), after an append has failed, and if
somebody has removed it.
"""

from __future__ import annotations

import base64
import json
import logging
import re
from collections.abc import Iterable, Sequence
from threading import Lock
from time import sleep
from typing import Any, NamedTuple, TypeAlias

from kohort.storage.disk import Disk, File
from kohort.storage.errors import FileDamaged

logger = logging.getLogger(__name__)

CATALOG_FILE = "kohort-catalog.json"
WITHOUT_GROUPS, WITH_GROUPS = b'{"version": 2}\n', b'{"version": 3}\n'
FIRST_LINE = re.compile(rb'\{"version": (\d+)\}\n')  # of every format but the first, which is one JSON document
ROWS_AT_ONCE = 100
REWRITE_ABOVE_BYTES = 1_000_000  # smaller changes than this, and than the topics themselves, are left in the file


class Saved(NamedTuple):
    """A topic as it stands in the file."""

    name: str
    id: bytes
    partitions: int
    configs: dict[str, str]


class Deleted(NamedTuple):
    """A topic that is no more. The folders of its partitions may still be there."""

    name: str
    id: bytes


class GroupConfigs(NamedTuple):
    """The settings that a group has itself. Without any, the next file that is written anew does not name it."""

    group_id: str
    configs: dict[str, str]


Change: TypeAlias = Saved | Deleted | GroupConfigs


class CatalogFile:
    def __init__(self, disk: Disk, folder: str) -> None:
        self.path = f"{folder}/{CATALOG_FILE}"
        self.topics: dict[str, Saved] = {}  # as they stand in the file
        self.deleted: dict[bytes, Deleted] = {}  # by id; those whose folders may still be there
        self.groups: dict[str, GroupConfigs] = {}  # those that have settings of their own
        self._header = WITHOUT_GROUPS
        self._disk = disk
        self._lock = Lock()
        self._is_tidy = False  # what was read can be appended to
        self._file: File | None = None  # None: the next change writes the file anew
        self._size_bytes = 0
        self._size_when_new_bytes = 0
        self._since: list[bytes] | None = None  # what was appended since `begin_rewrite`; None: none is in progress

    # --- reading

    def read(self) -> bool:
        """Read the topics. False if there is no file. FileDamaged if its content is not what this module writes."""
        try:
            content = self._disk.read_file(self.path)
        except FileNotFoundError:
            return False
        if (format_of := FIRST_LINE.match(content)) and not content.startswith((WITHOUT_GROUPS, WITH_GROUPS)):
            version = int(format_of[1])
            raise FileDamaged(
                f"{self.path} has format {version}, of a newer Kohort: start that one on this data folder"
            )
        try:
            if format_of is not None:
                self._header = format_of[0]
                self._read_lines(content.split(b"\n")[1:])
            else:
                self._read_version_1(content)
        except (ValueError, LookupError, TypeError, AttributeError) as problem:
            raise self.damaged(problem) from problem
        return True

    def damaged(self, problem: Exception) -> FileDamaged:
        return FileDamaged(
            f"{self.path} is damaged: {problem}. It holds the topics' names, ids and settings. Put back a copy of it, "
            "or remove it: topics with records are then found by their folders, and have default settings"
        )

    def _read_lines(self, lines: list[bytes]) -> None:
        if torn := lines.pop():  # a finished line ends in \n, and nothing stands behind that
            logger.warning("the last %d bytes of %s are an unfinished change; it is ignored", len(torn), self.path)
        row_count = 0
        for line in lines:
            changes = [_change(row) for row in json.loads(line)]
            self.take(changes)
            row_count += len(changes)
        self._is_tidy = not torn and row_count <= 2 * (len(self.topics) + len(self.groups)) + 1_000

    def _read_version_1(self, content: bytes) -> None:
        """One JSON document: {"version": 1, "topics": [{"name", "id", "partitions", "configs"}]}."""
        self.take([_change(row) for row in json.loads(content)["topics"]])

    def take(self, changes: Iterable[Change]) -> None:
        """These changes are in the file."""
        for change in changes:
            if isinstance(change, Saved):
                self.topics[change.name] = change
            elif isinstance(change, GroupConfigs):
                self._take_group(change)
            else:
                self.topics.pop(change.name, None)
                self.deleted[change.id] = change

    def _take_group(self, change: GroupConfigs) -> None:
        if change.configs:
            self.groups[change.group_id] = change
        else:
            self.groups.pop(change.group_id, None)

    # --- writing

    def begin(self, changes: Sequence[Change]) -> None:
        """After the file was read: get ready for changes, of which these are the first."""
        if self._is_tidy:
            self._open()
            if changes:
                self.append(changes)
        elif changes or self.topics or self.groups:
            self.rewrite(changes)
        self.take(changes)

    def append(self, changes: Sequence[Change]) -> None:
        """Make the changes durable, all of them or none. OSError: none of them is. Then call `take`.

        Any thread may do this, for one change after the other.
        """
        with self._lock:
            names_a_group = any(isinstance(each, GroupConfigs) for each in changes)
            if self._file is None or self._file.is_removed() or (names_a_group and self._header == WITHOUT_GROUPS):
                self.rewrite(changes)
                return
            line = _encode(changes)
            try:
                self._file.append(line)
                self._file.sync()
            except OSError:
                self._take_back()
                raise
            self._size_bytes += len(line)
            if self._since is not None:
                self._since.append(line)

    def forget(self, deleted_ids: Iterable[bytes]) -> None:
        """Nothing is left of these deleted topics: the next file that is written anew does not name them."""
        for topic_id in deleted_ids:
            self.deleted.pop(topic_id, None)

    def _take_back(self) -> None:
        """An append has failed: cut off what may be there of it. The next change writes a new file."""
        file, self._file, self._since = self._file, None, None
        assert file is not None
        try:
            file.truncate(self._size_bytes)
        except OSError as problem:
            logger.error("an unfinished change stays at the end of %s: %s", self.path, problem)
        file.close()

    def rewrite(self, changes: Sequence[Change] = ()) -> None:
        """Replace the file by one that holds what counts, with these changes."""
        self.close()
        everything = self._everything()
        names_a_group = any(isinstance(each, GroupConfigs) for each in (*everything, *changes))
        self._header = WITH_GROUPS if names_a_group else WITHOUT_GROUPS
        content = self._header + b"".join([_encode((each,)) for each in everything])
        self._disk.write_file(self.path, content + _encode(changes) if changes else content)
        self._open()

    def _everything(self) -> list[Change]:
        return [*self.topics.values(), *self.groups.values(), *self.deleted.values()]

    def _open(self) -> None:
        self._file = self._disk.open(self.path)
        self._size_bytes = self._size_when_new_bytes = self._file.size_bytes()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = self._since = None

    # --- writing anew in a thread, while changes go on

    @property
    def has_grown_much(self) -> bool:
        grown_bytes = self._size_bytes - self._size_when_new_bytes
        return self._since is None and grown_bytes > max(self._size_when_new_bytes, REWRITE_ABOVE_BYTES)

    def begin_rewrite(self) -> Rewrite:
        """`run` of the answer writes a new file, in any thread; then call `end_rewrite` with it."""
        self._since = []
        return Rewrite(self._disk, f"{self.path}.new", self._header, self._everything(), self._since)

    def end_rewrite(self, done: Rewrite) -> None:
        """Put the new file into force, with what was changed meanwhile. If that fails, the old file stays in force.

        Any thread may do this.
        """
        with self._lock:
            if self._since is not done.since:
                return  # an append has failed meanwhile: another new file was written, or will be
            try:
                done.finish()
                self._disk.rename(done.path, self.path)
                self.close()  # the old file has no name any more
                self._disk.sync_folder(self.path.rpartition("/")[0])
                self._open()
            except OSError as problem:
                logger.error("%s could not be written anew: %s", self.path, problem)
                self._size_when_new_bytes = self._size_bytes  # it is tried again when the file has grown as much again
            self._since = None


class Rewrite:
    """A new file, which a thread writes."""

    def __init__(self, disk: Disk, path: str, header: bytes, everything: list[Change], since: list[bytes]) -> None:
        self.path = path
        self.since = since
        self._disk = disk
        self._header = header
        self._everything = everything
        self._problem: OSError | None = None

    def run(self) -> None:
        try:
            self._write(self._encoded(), truncate=True)
        except OSError as problem:
            self._problem = problem

    def _encoded(self) -> bytes:
        rows = [self._header]
        for number, change in enumerate(self._everything):
            rows.append(_encode((change,)))
            if number % ROWS_AT_ONCE == 0:
                sleep(0)  # let the event loop go on, if it waits for the interpreter
        return b"".join(rows)

    def finish(self) -> None:
        """Add what was changed since. OSError if that, or `run`, has failed."""
        if self._problem is not None:
            raise self._problem
        if self.since:
            self._write(b"".join(self.since), truncate=False)

    def _write(self, content: bytes, *, truncate: bool) -> None:
        file = self._disk.open(self.path, create=True, truncate=truncate)
        try:
            file.append(content)
            file.sync()
        finally:
            file.close()


def _encode(changes: Iterable[Change]) -> bytes:
    return json.dumps([_row(change) for change in changes]).encode() + b"\n"


def _row(change: Change) -> dict[str, Any]:
    if isinstance(change, GroupConfigs):
        return {"group": change.group_id, "configs": change.configs}
    text = base64.urlsafe_b64encode(change.id).decode().rstrip("=")
    if isinstance(change, Deleted):
        return {"deleted": change.name, "id": text}
    return {"name": change.name, "id": text, "partitions": change.partitions, "configs": change.configs}


def _change(row: dict[str, Any]) -> Change:
    if "group" in row:
        return GroupConfigs(row["group"], dict(row["configs"]))
    topic_id = base64.urlsafe_b64decode(row["id"] + "==")
    if "deleted" in row:
        return Deleted(row["deleted"], topic_id)
    return Saved(row["name"], topic_id, int(row["partitions"]), dict(row["configs"]))
