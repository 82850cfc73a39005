"""Decodes the subscriptions and assignments that consumers send each other through a classic group.

A member has the same bytes in every generation in which nothing changed for it, so equal bytes are decoded once.
"""

from __future__ import annotations

from base64 import b64encode
from functools import lru_cache
from typing import NamedTuple

from kohort.protocol.errors import MalformedMessage
from kohort.protocol.record_json import as_json, to_text
from kohort.protocol.subscription import read_assignment, read_subscription

REMEMBERED = 50_000


class Subscription(NamedTuple):
    topics: list[str] | None
    owned: list[tuple[str, int]] | None  # None: this version of the subscription does not say
    readable: bool
    rest: str | None  # all other fields, as JSON without the outer braces


class Assignment(NamedTuple):
    assigned: list[tuple[str, None, int]] | None
    readable: bool
    rest: str | None


@lru_cache(maxsize=REMEMBERED)
def subscription_of(raw: bytes, of_consumers: bool) -> Subscription:
    """`of_consumers`: the group's protocol type is "consumer". Other types have formats of their own."""
    if of_consumers:
        try:
            read = read_subscription(raw)
            version = int.from_bytes(raw[:2], "big")
            owned = [(one.topic, partition) for one in read.owned_partitions for partition in one.partitions]
            rest = {**as_json(read, version), "version": version}
            del rest["topics"]
            rest.pop("ownedPartitions", None)
            topics = list(read.topics)
            return Subscription(topics, owned if version else None, True, _inside("subscription", rest))
        except MalformedMessage:
            pass
    return Subscription(None, None, False, _inside("subscription", raw))


@lru_cache(maxsize=REMEMBERED)
def assignment_of(raw: bytes, of_consumers: bool) -> Assignment:
    if of_consumers and not raw:
        return Assignment([], True, _inside("assignment", raw))  # the leader sent no assignment for this member
    if of_consumers:
        try:
            read = read_assignment(raw)
            version = int.from_bytes(raw[:2], "big")
            assigned = [
                (one.topic, None, partition) for one in read.assigned_partitions for partition in one.partitions
            ]
            rest = {**as_json(read, version), "version": version}
            del rest["assignedPartitions"]
            return Assignment(assigned, True, _inside("assignment", rest))
        except MalformedMessage:
            pass
    return Assignment(None, False, _inside("assignment", raw))


def _inside(name: str, rest: dict[str, object] | bytes) -> str:
    """A field of a JSON object. Bytes that cannot be decoded are given as base64."""
    if isinstance(rest, bytes):
        return f'"{name}":"{b64encode(rest).decode()}"'
    return f'"{name}":{to_text(rest)}'


@lru_cache(maxsize=REMEMBERED)
def joined(subscription: str | None, assignment: str | None) -> str | None:
    """Both `rest` parts as one JSON object."""
    parts = [part for part in (subscription, assignment) if part]
    return "{" + ",".join(parts) + "}" if parts else None
