"""The states of records, the types of acknowledgements, and what goes into a share partition and comes out of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kohort.protocol.error_codes import ErrorCode

AVAILABLE: Final = 0
ACQUIRED: Final = 1
ACKNOWLEDGED: Final = 2
ARCHIVED: Final = 4  # 3 is reserved (KIP-1191)

NOT_FINAL: Final = ACQUIRED  # the states above it are final

GAP: Final = 0
ACCEPT: Final = 1
RELEASE: Final = 2
REJECT: Final = 3
RENEW: Final = 4

# When locks expire, or a session ends, so many runs are freed at a time: a few milliseconds, with what is persisted of
# them. Nearly always that is all of them.
RUNS_AT_ONCE: Final = 500

STATE_AFTER: Final = {GAP: ARCHIVED, ACCEPT: ACKNOWLEDGED, RELEASE: AVAILABLE, REJECT: ARCHIVED}


class StateBatch(NamedTuple):
    """Offsets that share a state, as they are persisted."""

    first_offset: int
    last_offset: int
    delivery_state: int  # 0 available, 2 acknowledged, 4 archived; acquired is not persisted
    delivery_count: int


class LogBatch(NamedTuple):
    """One batch of records in the log."""

    base_offset: int
    last_offset: int


class Acquired(NamedTuple):
    """Records that a fetch acquired, with how often they have been delivered now."""

    first_offset: int
    last_offset: int
    delivery_count: int


class Acknowledgement(NamedTuple):
    """What a member says about a range of records: one type for all of them, or one for each."""

    first_offset: int
    last_offset: int
    types: Sequence[int]


class Refusal(NamedTuple):
    """An acknowledgement was not allowed; nothing has changed."""

    error: ErrorCode
    message: str


class Wish(NamedTuple):
    """What a fetch wants of a share partition."""

    member_id: str
    max_records: int
    batch_size: int  # at most about so many records in one `Acquired`, cut where batches of the log begin
    is_record_limit: bool = False  # max_records is strict; otherwise whole batches of the log are acquired


class Counts:
    """What has happened to records of a share partition since it was loaded."""

    __slots__ = ("acquired", "accepted", "released", "rejected", "timed_out", "archived")  # noqa: RUF023 - as in the log

    def __init__(self) -> None:
        self.acquired = 0
        self.accepted = 0
        self.released = 0  # by members, or because their sessions ended
        self.rejected = 0
        self.timed_out = 0
        self.archived = 0  # given up: delivered too often, or no longer in the log

    def add(self, other: Counts) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def copy(self) -> Counts:
        copied = Counts()
        copied.add(self)
        return copied
