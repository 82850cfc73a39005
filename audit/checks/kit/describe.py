"""Asks a broker who owns what in its consumer groups (KIP-848), by ConsumerGroupDescribe. kafka-python has it not.

Each group is asked for at its coordinator. If a coordinator cannot be asked, its groups have no answer.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Any

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.codec import request_encoder, response_decoder
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.frames import framed
from kohort.protocol.headers import read_response_header, request_header
from kohort.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest

TIMEOUT_S = 20
CLIENT_ID = "kohort-audit"
FIND_VERSION, DESCRIBE_VERSION = 4, 0  # the first ones that know of several groups, and of these groups at all
GROUP_KEY = 0
AWAY = -2  # member epoch of a static member that will come back: it owns nothing, though its partitions are kept for it
MAX_ANSWER_BYTES = 1 << 30

_length = Struct(">i").unpack

Place = tuple[str, int]


def owners_in(address: str, groups: Sequence[str]) -> dict[str, tuple[str, frozenset[tuple[Place, str]]]]:
    """Group -> its state, and its partitions with their owners; those that are to be revoked are owned."""
    found: dict[str, tuple[str, frozenset[tuple[Place, str]]]] = {}
    for coordinator, some in _coordinators(address, groups).items():
        try:
            answer = _ask(
                coordinator, ApiKey.CONSUMER_GROUP_DESCRIBE, ConsumerGroupDescribeRequest(some), DESCRIBE_VERSION
            )
        except (OSError, MalformedMessage):
            continue
        for group in answer.groups:
            if not group.error_code:
                found[group.group_id] = group.group_state, frozenset(_owners(group))
    return found


def _owners(group: DescribedGroup) -> Iterable[tuple[Place, str]]:
    for member in group.members:
        if member.member_epoch != AWAY and member.assignment is not None:
            for topic in member.assignment.topic_partitions:
                yield from (((topic.topic_name, partition), member.member_id) for partition in topic.partitions)


def _coordinators(address: str, groups: Sequence[str]) -> dict[str, list[str]]:
    """HOST:PORT of each coordinator -> its groups."""
    made: dict[str, list[str]] = {}
    if groups:
        answer = _ask(address, ApiKey.FIND_COORDINATOR, FindCoordinatorRequest("", GROUP_KEY, groups), FIND_VERSION)
        for each in answer.coordinators:
            if not each.error_code:
                made.setdefault(f"{each.host}:{each.port}", []).append(each.key)
    return made


def _ask(address: str, api_key: ApiKey, request: Any, version: int) -> Any:
    """One request on a connection of its own. Raises OSError or MalformedMessage."""
    host, _, port = address.rpartition(":")
    body = request_encoder(api_key, version)(request)
    parts = [body] if isinstance(body, bytes) else body
    with socket.create_connection((host.strip("[]"), int(port)), TIMEOUT_S) as connection:
        connection.sendall(framed(request_header(api_key, version, 1, CLIENT_ID), *parts))
        with connection.makefile("rb") as stream:
            head = stream.read(4)
            size = _length(head)[0] if len(head) == 4 else -1
            if not 0 <= size <= MAX_ANSWER_BYTES:
                raise MalformedMessage("the connection was closed, or the answer is not Kafka's protocol")
            frame = stream.read(size)
    _, pos = read_response_header(frame, api_key, version)
    return response_decoder(api_key, version)(frame, pos)
