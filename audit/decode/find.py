"""What a user named, as log folders to read."""

from __future__ import annotations

from collections.abc import Sequence

from kohort.audit.decode.folders import LogFolder, find_logs
from kohort.audit.decode.partition_count import guess_partition_count
from kohort.audit.result import AuditError
from kohort.coordinator.partitioner import partition_of


def find_folders(paths: Sequence[str], group: str | None = None) -> tuple[list[LogFolder], list[str]]:
    """The log folders, and a line for each path that is none; of one group only the folder that it lives in."""
    folders, found = find_logs(paths)
    problems = [str(problem) for problem in found]
    if not folders:
        raise AuditError("\n".join(problems) or "no log folders")
    count = guess_partition_count(folders) if group is not None else None
    if group is not None and count is not None:
        folders = [folder for folder in folders if folder.log_partition == partition_of(group, count)]
        if not folders:
            place = partition_of(group, count)
            raise AuditError(f"group {group} lives in __consumer_offsets-{place}, which is not among these folders")
    return folders, problems
