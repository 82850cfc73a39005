"""Makes many appends to many logs durable with few syncs. Appends that come during a sync wait for the next one.

At most one flush is in flight. When it has finished, the next flush has everything that became dirty meanwhile. So
under load a flush covers all that arrived during the flush before, and an idle broker syncs an append at once. This
file has no thread and no clock; the host calls it:

    syncs.appended(log, ready)           ready(None) is called when the present content of the log is durable,
                                         ready(error) if it cannot become durable
    if flush := syncs.take():            once per turn of the event loop
        executor.submit(flush.run)       syncs, in another thread
    syncs.finished(flush, now)           on the event loop again: calls every `ready` that waited

The disk decides how many syncs a flush of n logs takes (`storage/syncfs.py`).

With `sync=False` an append counts as durable in the page cache, which is Kafka's default: nobody waits for a flush, and
logs are synced only when they roll, and when flush.messages or flush.ms say so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from kohort.storage.disk import Disk
from kohort.storage.errors import LogFailed
from kohort.storage.flush import FlushTicket, TicketSync
from kohort.storage.log_writer import LogWriter

Ready: TypeAlias = Callable[[LogFailed | None], None]


class Flush:
    """One flush: what to sync, and the callbacks that wait for it."""

    __slots__ = ("run", "tickets", "waiting")

    def __init__(self, disk: Disk, tickets: list[FlushTicket], waiting: list[tuple[LogWriter, Ready]]) -> None:
        self.tickets = tickets
        self.waiting = waiting
        self.run = TicketSync(disk, tickets).run  # see TicketSync.run


class SharedSync:
    """Knows which logs are dirty, which callbacks wait for them, and whether a flush is in flight."""

    def __init__(self, disk: Disk, *, sync: bool = True) -> None:
        self.sync = sync
        self.in_flight: Flush | None = None
        self._disk = disk
        self._dirty: dict[LogWriter, None] = {}  # used as an ordered set
        self._waiting: list[tuple[LogWriter, Ready]] = []

    @property
    def is_idle(self) -> bool:
        """Whether no flush is in flight, nothing is to be flushed, and no callback waits."""
        return self.in_flight is None and not self._dirty and not self._waiting

    def appended(self, log: LogWriter, ready: Ready | None = None, *, now: int = 0) -> None:
        """Something was appended to the log; `ready` is called from `take` or `finished`, never from here."""
        if self.sync or log.wants_flush(now):
            self._dirty[log] = None
        if ready is not None:
            self._waiting.append((log, ready))

    def take(self) -> Flush | None:
        """The next flush to run, if there is one and none is in flight."""
        if not self.sync and self._waiting:
            waiting, self._waiting = self._waiting, []
            _call(waiting)
        if self.in_flight is not None or not self._dirty:
            return None
        tickets = [ticket for log in self._dirty if (ticket := log.begin_flush()) is not None]
        flush = Flush(self._disk, tickets, self._waiting)
        self._dirty, self._waiting = {}, []
        self.in_flight = flush
        return flush

    def finished(self, flush: Flush, now: int = 0) -> None:
        """The flush has run: move the recovery points, and call the callbacks that waited."""
        assert flush is self.in_flight
        self.in_flight = None
        for ticket in flush.tickets:
            ticket.log.end_flush(ticket, now)
        _call(flush.waiting)


def _call(waiting: list[tuple[LogWriter, Ready]]) -> None:
    for log, ready in waiting:
        ready(None if log.failed is None else LogFailed(log.failed))
