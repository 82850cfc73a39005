"""Finds log folders in the paths that a user names, and reads where each log begins and ends.

The logs are those of `__consumer_offsets`, of `__share_group_state` with the progress of share groups, and of
`__transaction_state`.

A folder may belong to a running broker, and is read several times: once per table. So that all of them see the same
log, a `LogFolder` remembers where its last segment ended when it was found. Older segments may be rewritten by
compaction meanwhile; that changes what is in them, never which offsets they cover.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from kohort.audit.decode import files
from kohort.audit.decode.walk import end_of, first_offset_in
from kohort.audit.tables import FIRST_NUMBER, OFFSETS_TOPIC, keeps_groups, keeps_share_state, keeps_transactions
from kohort.storage.layout import (
    CLEANED,
    CLEANER_FILE,
    INDEX,
    LOG,
    RECOVERY_POINTS_FILE,
    SWAP,
    CorruptCheckpoint,
    parse_offsets,
    parse_partition_folder,
    parse_segment_file,
    segment_file,
)

if TYPE_CHECKING:
    from kohort.audit.decode.access import Access

ATTEMPTS = 3
CLUSTER = "kafka://"
NO_SEGMENT = "no segment file (*.log) in it"


class Problem(NamedTuple):
    """Something that could not be read, in one line for people."""

    path: str  # without secrets
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class SegmentFile(NamedTuple):
    base_offset: int
    path: str
    size_bytes: int  # when the folder was listed


@dataclass(frozen=True, slots=True)
class LogFolder:
    """A partition of one of these topics as it was when found."""

    path: str
    log_partition: int  # see tables.py, which numbers those of all topics
    first_offset: int | None  # of the first batch; None: the log is empty
    end_offset: int  # one more than the last offset of the last batch
    cleaned_to: int | None  # compaction has run below this offset; 0: it never ran; None: unknown
    active_base: int  # base offset of the last segment, to which the broker appends
    active_bytes: int  # size of that segment when the folder was found
    size_bytes: int  # of all segments
    end_time_ms: int | None = None  # greatest time in the last batches, nearly always in the log; None: unknown
    topic_partitions: int | None = None  # how many the topic has, if a cluster has told
    access: Access | None = None  # to the cluster that the log is fetched from; None: `path` can be read
    origin: str | None = None  # of a copy that was fetched: the path that it has for people

    @property
    def name(self) -> str:
        """The path for people and for what is remembered about the log."""
        return self.origin or self.path

    @property
    def keeps_groups(self) -> bool:
        return keeps_groups(self.log_partition)

    @property
    def keeps_transactions(self) -> bool:
        return keeps_transactions(self.log_partition)

    @property
    def keeps_share_state(self) -> bool:
        return keeps_share_state(self.log_partition)

    def segments(self) -> list[SegmentFile]:
        """The files of this log now, in order, without what was appended after the folder was found."""
        found = list_segments(self.path)
        return [
            segment._replace(size_bytes=min(segment.size_bytes, self.active_bytes))
            if segment.base_offset == self.active_base
            else segment
            for segment in found
            if segment.base_offset <= self.active_base
        ]


def find_logs(paths: Sequence[str], command_config: str | None = None) -> tuple[list[LogFolder], list[Problem]]:
    """The log folders in `paths` (log folders, or folders that hold some), in order of their log partition.

    If there are several copies of one log partition, such as replicas, the one with the highest end offset is taken.
    A path may be a cluster, kafka://host:port; `command_config` is the file that says how to log in there.
    """
    found: dict[int, LogFolder] = {}
    problems: list[Problem] = []
    for path in paths:
        if path.startswith(CLUSTER):
            folders, complaints = _in_cluster(path, command_config)
            found |= {folder.log_partition: folder for folder in folders}
            problems += complaints
            continue
        try:
            places = _log_folders(path)
        except OSError as error:
            problems.append(_problem(path, _in_words(error)))
            continue
        if not places:
            problems.append(_problem(path, f"no folder of {OFFSETS_TOPIC} and none in it"))
        for place, log_partition, checkpoints in places:
            try:
                folder = _look_at(place, log_partition, checkpoints)
            except OSError as error:
                problems.append(_problem(place, _in_words(error)))
                continue
            if folder is None:
                problems.append(_problem(place, NO_SEGMENT))
            elif log_partition not in found or found[log_partition].end_offset < folder.end_offset:
                found[log_partition] = folder
    return [found[number] for number in sorted(found)], problems


def _in_cluster(path: str, command_config: str | None) -> tuple[list[LogFolder], list[Problem]]:
    from kohort.audit.decode.cluster_logs import access_to, logs_of_cluster
    from kohort.client.errors import ClientError

    try:
        found = logs_of_cluster(access_to(path, command_config))
    except ClientError as error:
        return [], [_problem(path, str(error))]
    return found.folders, [_problem(one, "nobody leads this partition at the moment") for one in found.leaderless]


def with_access(folder: LogFolder, command_config: str | None) -> LogFolder:
    """The folder of a cluster with the access that was left out when it was written down."""
    if not folder.path.startswith(CLUSTER):
        return folder
    from kohort.audit.decode.cluster_logs import access_to

    return replace(folder, access=access_to(folder.path.rpartition("/")[0], command_config))


def list_segments(folder: str) -> list[SegmentFile]:
    """The segments of a log as a broker would find them at its start, in order.

    Unfinished output of compaction (.cleaned) and segments that wait for removal (.deleted) are not part of the log.
    Finished output of compaction (.swap) replaces the segments that it was made from, unless a part of it is missing.
    """
    names = files.scan(folder)
    logs: dict[str, dict[int, SegmentFile]] = {}
    for name, entry in names.items():
        parts = parse_segment_file(name)
        if parts and parts[1] == LOG and not entry.is_folder:
            logs.setdefault(parts[2], {})[parts[0]] = SegmentFile(parts[0], files.join(folder, name), entry.size_bytes)
    current, cleaned = logs.get("", {}), logs.get(CLEANED, {})
    for base, output in sorted(logs.get(SWAP, {}).items()):
        if cleaned and base >= min(cleaned):
            continue
        found = end_of(output.path, output.size_bytes, None)
        end = max(base + 1, found.offset if found else 0)
        current = {other: segment for other, segment in current.items() if not base <= other < end}
        current[base] = output
    return [current[base] for base in sorted(current)]


def _log_folders(path: str) -> list[tuple[str, int, dict[int, int] | None]]:
    """(path, log partition, cleaner's checkpoints) of each log folder in `path`, or of `path` itself."""
    own = _log_partition(files.base_name(path))
    names = files.scan(path)
    if own is not None:
        return [(path, own, _cleaner_checkpoints(files.parent(path), None))]
    found = ((_log_partition(name), name) for name, entry in names.items() if entry.is_folder)
    places = sorted((number, name) for number, name in found if number is not None)
    checkpoints = _cleaner_checkpoints(path, names) if places else None
    return [(files.join(path, name), number, checkpoints) for number, name in places]


def _log_partition(folder_name: str) -> int | None:
    """None: the folder is none of the logs that are read."""
    place = parse_partition_folder(folder_name)
    if place is None or place[0] not in FIRST_NUMBER:
        return None
    return FIRST_NUMBER[place[0]] + place[1]


def _cleaner_checkpoints(data_folder: str, names: Iterable[str] | None) -> dict[int, int] | None:
    """Log partition -> offset up to which it is compacted. None: it is no data folder of a broker."""
    try:
        names = files.scan(data_folder) if names is None else names
        if CLEANER_FILE not in names:
            return {} if RECOVERY_POINTS_FILE in names else None
        offsets = parse_offsets(files.read(files.join(data_folder, CLEANER_FILE)), CLEANER_FILE)
    except (OSError, CorruptCheckpoint):
        return None
    return {
        FIRST_NUMBER[topic] + number: offset for (topic, number), offset in offsets.items() if topic in FIRST_NUMBER
    }


def _look_at(path: str, log_partition: int, checkpoints: dict[int, int] | None) -> LogFolder | None:
    """None: there is no log in the folder. If compaction replaces a file meanwhile, the folder is looked at again."""
    for _ in range(ATTEMPTS):
        with suppress(FileNotFoundError):
            return _look_once_at(path, log_partition, checkpoints)
    return _look_once_at(path, log_partition, checkpoints)


def _look_once_at(path: str, log_partition: int, checkpoints: dict[int, int] | None) -> LogFolder | None:
    segments = list_segments(path)
    if not segments:
        return None
    active = segments[-1]
    index = files.join(path, segment_file(active.base_offset, INDEX))
    end = end_of(active.path, active.size_bytes, index)
    if keeps_share_state(log_partition):
        cleaned_to: int | None = 0  # brokers cut these logs off at their beginning, and never compact them
    else:
        cleaned_to = None if checkpoints is None else checkpoints.get(log_partition, 0)
    first = next((offset for one in segments if (offset := first_offset_in(one.path)) is not None), None)
    end_offset = active.base_offset if end is None else end.offset
    size_bytes = sum(one.size_bytes for one in segments)
    return LogFolder(
        path, log_partition, first, end_offset, cleaned_to, active.base_offset, active.size_bytes, size_bytes,
        None if end is None else end.time_ms,
    )  # fmt: skip


def _problem(path: str, message: str) -> Problem:
    return Problem(files.shown(path), " ".join(files.shown(message).split()))


def _in_words(error: OSError) -> str:
    return error.strerror or str(error)
