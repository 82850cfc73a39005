"""A member of a classic group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kohort.coordinator.classic.session import Session
    from kohort.coordinator.outcome import Call

CONSUMER_PROTOCOL = "consumer"  # the protocol type of consumers; Connect and others have their own
Protocols = Sequence[tuple[str, bytes]]  # (name, metadata), in the member's order of preference


class Member:
    __slots__ = (
        "_session",
        "assignment",
        "awaiting_join",
        "awaiting_sync",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "joined_at",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
    )

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        protocols: Protocols,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.protocols = tuple(protocols)
        self.assignment = b""
        # soft state: gone after a restart
        self._session: Session | None = None  # None until the group is served
        self.awaiting_join: Call | None = None
        self.awaiting_sync: Call | None = None
        self.is_new = False  # has not been through a whole join phase yet
        self.joined_at = 0  # when its JoinGroup of this round came, in shard time

    @property
    def session(self) -> Session:
        assert self._session is not None, self
        return self._session

    @session.setter
    def session(self, session: Session) -> None:
        self._session = session

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def waits_for_answer(self) -> bool:
        return self.awaiting_join is not None or self.awaiting_sync is not None

    def metadata(self, protocol: str | None) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def __repr__(self) -> str:
        return f"Member({self.member_id!r})"
