"""Flushing a log: what has to be synced to make it durable up to an offset, in a form that any thread can sync.

The event loop takes a ticket from each dirty log and plans the sync, another thread runs it, and then the event loop
gives the tickets back with `end_flush`. Files stay open until then, whatever happens to the log meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kohort.storage.disk import Disk, File
from kohort.storage.layout import SYNC_FAILED_FILE

if TYPE_CHECKING:
    from kohort.storage.log_writer import LogWriter

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class FlushTicket:
    """Once these files and folders are synced, everything of the log below `end_offset` is durable."""

    log: LogWriter
    end_offset: int
    generation: int  # of the log; a truncation changes it, and then `end_offset` is ignored
    files: list[File]
    folders: list[str] = field(default_factory=list)
    error: OSError | None = None  # the error, if a sync failed


class TicketSync:
    """Syncs what the tickets name, with as few waits as possible. Made on the event loop, run in any thread."""

    __slots__ = ("_disk", "_folders_changed", "_plan", "tickets")

    def __init__(self, disk: Disk, tickets: Sequence[FlushTicket]) -> None:
        self._disk = disk
        self.tickets = tickets
        self._plan = disk.plan_sync([file for ticket in tickets for file in ticket.files])
        self._folders_changed = any(ticket.folders for ticket in tickets)

    def run(self) -> None:
        """Sync. Blocks, touches no log, and never raises: errors are put into the tickets."""
        try:
            self._run()
        except Exception as problem:  # it is unknown what is durable, so nothing may be taken for durable
            logger.exception("a sync has failed; this is a bug")
            for ticket in self.tickets:
                ticket.error = ticket.error or OSError(f"{type(problem).__name__}: {problem}")

    def _run(self) -> None:
        errors = self._plan()
        if errors is None and not self._folders_changed:
            return  # the usual case: all files are durable, and no folder has changed
        tickets = self.tickets
        if errors is not None:
            owners = [ticket for ticket in tickets for _ in ticket.files]
            for ticket, error in zip(owners, errors, strict=True):
                ticket.error = error or ticket.error
        synced: dict[str, OSError | None] = {}
        for ticket in tickets:
            for folder in ticket.folders:
                if folder not in synced:
                    synced[folder] = _sync_folder(self._disk, folder)
                ticket.error = ticket.error or synced[folder]
        for ticket in tickets:
            if ticket.error is not None:
                mark_failed(self._disk, ticket.log.folder)


def mark_failed(disk: Disk, folder: str) -> None:
    """Leave a mark for the next start: what can be read of this log may not be on the medium; see `recovery.py`.

    If the process is killed between the failure and this call, there is no mark. Then the next start takes bytes for
    durable that may be in memory only. None of them was ever acknowledged as durable.
    """
    with suppress(OSError):
        disk.open(f"{folder}/{SYNC_FAILED_FILE}", create=True).close()


def _sync_folder(disk: Disk, folder: str) -> OSError | None:
    try:
        disk.sync_folder(folder)
    except OSError as error:
        return error
    return None
