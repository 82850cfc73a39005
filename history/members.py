"""Members of a group and their partitions, as records of the log describe them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

Place = tuple[str, int]  # topic and partition. Of groups that the broker assigns: the topic's id, as `id_key` writes it

NO_PLACES: frozenset[Place] = frozenset()
ID_PREFIX = "\0id:"  # no topic's name begins so


class Member(NamedTuple):
    member_id: str
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int | None = None
    session_timeout_ms: int | None = None  # the log tells it of classic members only
    topics: frozenset[str] | None = frozenset()  # None: cannot be read
    pattern: str | None = None  # the regular expression of the subscription, beside `topics`
    assigned: frozenset[Place] | None = NO_PLACES  # None: cannot be read
    assignor: str | None = None  # that a KIP-848 member asks for
    is_classic: bool = True  # the protocol that it speaks

    @property
    def identity(self) -> str:
        """Instance id, or else member id: a static member that comes back with a new member id is the same owner."""
        return self.member_id if self.instance_id is None else f"static {self.instance_id}"

    @property
    def name(self) -> str:
        """The name by which people know it: member ids are random, in part or as a whole."""
        return self.instance_id or self.client_id or self.member_id

    @property
    def person(self) -> tuple[str, str]:
        """What stays the same when the process is started again: the instance id, or else client id and host."""
        return (self.instance_id, "") if self.instance_id is not None else (self.client_id, self.client_host)


Members = Mapping[str, Member]  # by member id


def id_key(topic_id: bytes) -> str:
    return ID_PREFIX + topic_id.hex()


def owners_of(members: Collection[Member]) -> dict[Place, str]:
    """Place -> identity of the member that has it."""
    owners: dict[Place, str] = {}
    for member in members:
        owners.update(dict.fromkeys(member.assigned or (), member.identity))
    return owners


def by_identity(members: Members) -> dict[str, Member]:
    return {member.identity: member for member in members.values()}
