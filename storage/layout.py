"""Names and small text files of a data folder, exactly as Apache Kafka lays them out.

    data folder/
      .lock                              held by the running broker
      .kafka_cleanshutdown               exists after a clean stop, and not while the broker runs
      recovery-point-offset-checkpoint   per log: everything below this offset is known to be synced
      log-start-offset-checkpoint        per log: DeleteRecords and retention moved its start here
      replication-offset-checkpoint      per log: its high watermark
      cleaner-offset-checkpoint          per log: the first offset that was never compacted
      orders-0/                          topic, dash, partition; topics may contain dashes themselves
        partition.metadata               the topic's id
        leader-epoch-checkpoint          which epoch started at which offset
        kohort-sync-failed               exists if a sync failed since the log was opened
        00000000000000000000.log         batches back to back; named after the first offset
        00000000000000000000.index       offset index
        00000000000000000000.timeindex   time index
        00000000000000000000.txnindex    aborted transactions, if there are any
        00000000000000000042.snapshot    producers as of offset 42

Files that end in .deleted will be removed. Files that end in .cleaned are unfinished output of compaction. Files that
end in .swap are finished output, which replaces the segments that it was made from.

A checkpoint file is text: a line with version 0, a line with the count, and a line per entry.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

LOG: Final = ".log"
INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TXN_INDEX: Final = ".txnindex"
SNAPSHOT: Final = ".snapshot"
SEGMENT_KINDS: Final = (LOG, INDEX, TIME_INDEX, TXN_INDEX)

DELETED: Final = ".deleted"
CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"

LOCK_FILE: Final = ".lock"
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
RECOVERY_POINTS_FILE: Final = "recovery-point-offset-checkpoint"
LOG_STARTS_FILE: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS_FILE: Final = "replication-offset-checkpoint"
CLEANER_FILE: Final = "cleaner-offset-checkpoint"
PARTITION_METADATA_FILE: Final = "partition.metadata"
SYNC_FAILED_FILE: Final = "kohort-sync-failed"  # of Kohort; Kafka ignores it
LEADER_EPOCHS_FILE: Final = "leader-epoch-checkpoint"

TopicPartition: TypeAlias = tuple[str, int]

_SEGMENT_FILE: Final = re.compile(
    r"(\d{20})(\.log|\.index|\.timeindex|\.txnindex|\.snapshot)(|\.deleted|\.cleaned|\.swap)"
)
_PARTITION_FOLDER: Final = re.compile(r"([a-zA-Z0-9._-]{1,249})-(0|[1-9]\d{0,9})")
DELETED_FOLDER_SUFFIX: Final = "-delete"
MAX_NAME_BYTES: Final = 255  # of a file or folder, on every usual file system


class CorruptCheckpoint(ValueError):
    """A text file that does not follow its format; the message names it and says what to do."""


def segment_file(base_offset: int, kind: str, suffix: str = "") -> str:
    """Name of one file of a segment."""
    return f"{base_offset:020d}{kind}{suffix}"


def parse_segment_file(name: str) -> tuple[int, str, str] | None:
    """(base offset, kind, suffix) of a segment's file; None for any other name."""
    match = _SEGMENT_FILE.fullmatch(name)
    return (int(match[1]), match[2], match[3]) if match else None


def partition_folder(topic: str, partition: int) -> str:
    """Name of the folder of one partition."""
    return f"{topic}-{partition}"


def parse_partition_folder(name: str) -> TopicPartition | None:
    """Topic and partition of a folder; None if it is no folder of a partition, or one that will be removed."""
    match = _PARTITION_FOLDER.fullmatch(name)
    return (match[1], int(match[2])) if match else None


def deleted_folder(topic: str, partition: int, unique: str) -> str:
    """Name of the folder of a deleted partition. The topic's name is cut where it would be too long, as in Kafka."""
    rest = f"-{partition}.{unique}{DELETED_FOLDER_SUFFIX}"
    return topic[: MAX_NAME_BYTES - len(rest)] + rest


def format_partition_metadata(topic_id: bytes) -> bytes:
    """Content of partition.metadata."""
    return b"version: 0\ntopic_id: " + base64.urlsafe_b64encode(topic_id).rstrip(b"=")


def parse_partition_metadata(data: bytes, path: str) -> bytes:
    """The 16 bytes of the topic id."""
    match = re.fullmatch(rb"version: 0\s+topic_id: ([A-Za-z0-9_-]{22})\s*", data)
    if not match:
        raise CorruptCheckpoint(f"{path} has no topic id; if you remove it, Kohort writes it anew")
    try:
        return base64.urlsafe_b64decode(match[1] + b"==")
    except binascii.Error as error:
        raise CorruptCheckpoint(f"{path} has a malformed topic id: {error}") from error


def format_leader_epochs(epochs: Iterable[tuple[int, int]]) -> bytes:
    """Content of leader-epoch-checkpoint from (epoch, start offset)."""
    return _format_checkpoint([f"{epoch} {start}" for epoch, start in epochs])


def parse_leader_epochs(data: bytes, path: str) -> list[tuple[int, int]]:
    """(epoch, start offset), in the order of the file."""
    return [(int(epoch), int(start)) for epoch, start in _parse_checkpoint(data, path, (r"-?\d+", r"\d+"))]


def format_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Content of one of the checkpoint files of the data folder."""
    return _format_checkpoint([f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()])


def parse_offsets(data: bytes, path: str) -> dict[TopicPartition, int]:
    """Offset per topic and partition."""
    lines = _parse_checkpoint(data, path, (r"\S+", r"\d+", r"-?\d+"))
    return {(topic, int(partition)): int(offset) for topic, partition, offset in lines}


def _format_checkpoint(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in ("0", str(len(lines)), *lines)).encode()


def _parse_checkpoint(data: bytes, path: str, columns: tuple[str, ...]) -> list[tuple[str, ...]]:
    if not data.strip():
        return []  # Kafka leaves a checkpoint file empty until it first writes it
    hint = f"{path} is no checkpoint file; if you remove it, the logs are checked from their start"
    try:
        version, count, *lines = data.decode().splitlines()
        if version.strip() != "0" or int(count) != len(lines):
            raise CorruptCheckpoint(hint)
    except ValueError as error:
        raise CorruptCheckpoint(hint) from error
    pattern = re.compile(r"\s+".join(f"({column})" for column in columns))
    matches = [pattern.fullmatch(line.strip()) for line in lines]
    if None in matches:
        raise CorruptCheckpoint(hint)
    return [match.groups() for match in matches if match]
