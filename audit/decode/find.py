"""Finds the log folders that a user has named."""

from __future__ import annotations

from collections.abc import Sequence

from kohort.audit.decode.folders import LogFolder, find_logs
from kohort.audit.decode.partition_count import home_of
from kohort.audit.result import AuditError


def find_folders(
    paths: Sequence[str], group: str | None = None, command_config: str | None = None
) -> tuple[list[LogFolder], list[str]]:
    """The log folders, and a line for each path that has none.

    With `group`: only the folder of __consumer_offsets that it lives in, and all of __share_group_state, over which a
    share group is spread.
    """
    folders, found = find_logs(paths, command_config)
    problems = [str(problem) for problem in found]
    if not folders:
        raise AuditError("\n".join(problems) or "no log folders")
    home = None if group is None else home_of(group, folders)
    if home is not None:
        folders = [folder for folder in folders if folder.log_partition == home or folder.keeps_share_state]
        if not any(folder.log_partition == home for folder in folders):
            raise AuditError(f"group {group} lives in __consumer_offsets-{home}, which is not among these folders")
    return folders, problems
