"""Headers of the records in __share_group_state: why a state was changed, and whose records they were.

Kafka's records do not say that, and Kafka skips record headers. The audit reads them.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from kohort.coordinator.outcome import Headers

CAUSE = b"kohort.cause"
MEMBER = b"kohort.member"
MAX_MEMBER_ID = 255  # characters; ids of share members have 36 at most


class Cause(Enum):
    ACKNOWLEDGE = "acknowledge"  # accepted, rejected, or a gap
    RELEASE = "release"
    SESSION_CLOSED = "session closed"  # or its connection was lost
    LOCK_TIMEOUT = "lock timeout"
    START_MOVED = "start moved"  # the log begins later than the share partition did
    INITIALIZE = "initialize"
    ALTER = "alter"  # an administrator has set the start offset


class Told(NamedTuple):
    """What the headers of a record say; empty where they do not say it."""

    cause: str
    member_id: str


def share_state_headers(cause: Cause, member_id: str = "") -> Headers:
    """`member_id`: the member that had acquired the records; empty if it is not about one."""
    headers: Headers = ((CAUSE, cause.value.encode()),)
    if member_id:
        headers += ((MEMBER, member_id[:MAX_MEMBER_ID].encode()),)
    return headers


def read_share_state_headers(headers: Iterable[tuple[bytes, bytes | None]]) -> Told:
    """What the headers of a record say. Kafka writes none, and clients can write anything."""
    known = dict(headers)
    return Told(_text(known.get(CAUSE)), _text(known.get(MEMBER)))


def _text(raw: bytes | None) -> str:
    return "" if raw is None else raw.decode(errors="replace")
