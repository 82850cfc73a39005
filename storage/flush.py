"""What has to be synced for a log to be durable up to an offset, so that any thread can do it.

The event loop takes a ticket from each dirty log, some thread runs `sync_tickets`, and the loop hands the
tickets back with `end_flush`. Files stay open until then, whatever happens to the log meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kohort.storage.disk import Disk, File
from kohort.storage.layout import SYNC_FAILED_FILE

if TYPE_CHECKING:
    from kohort.storage.log_writer import LogWriter


@dataclass(slots=True)
class FlushTicket:
    """Once these files and folders are synced, everything of the log below `end_offset` is durable."""

    log: LogWriter
    end_offset: int
    generation: int  # a truncation since then makes `end_offset` meaningless
    files: list[File]
    folders: list[str] = field(default_factory=list)
    error: OSError | None = None  # what went wrong, if anything did


def sync_tickets(disk: Disk, tickets: Sequence[FlushTicket]) -> None:
    """Sync it all with as few waits as possible. Blocks, never raises OSError, touches no log."""
    files = [(ticket, file) for ticket in tickets for file in ticket.files]
    for (ticket, _), error in zip(files, disk.sync_all([file for _, file in files]), strict=True):
        if error is not None:
            ticket.error = error
    synced: dict[str, OSError | None] = {}
    for ticket in tickets:
        for folder in ticket.folders:
            if folder not in synced:
                synced[folder] = _sync_folder(disk, folder)
            ticket.error = ticket.error or synced[folder]
    for ticket in tickets:
        if ticket.error is not None:
            mark_failed(disk, ticket.log.folder)


def mark_failed(disk: Disk, folder: str) -> None:
    """Tell the next start not to trust what it can read of this log: see `recovery.py`.

    A process that is killed in the instant between the failure and this leaves no mark. Then the next start
    takes for durable what may be in memory only; none of it was ever acknowledged as durable.
    """
    with suppress(OSError):
        disk.open(f"{folder}/{SYNC_FAILED_FILE}", create=True).close()


def _sync_folder(disk: Disk, folder: str) -> OSError | None:
    try:
        disk.sync_folder(folder)
    except OSError as error:
        return error
    return None
