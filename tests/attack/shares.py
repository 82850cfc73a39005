"""Attacks on share groups that need a session: many partitions, and very many acknowledgements."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from kohort.client.client import Client
from kohort.protocol.api_keys import APIS, ApiKey
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest
from kohort.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kohort.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.attack.attacker import Attack
from tests.attack.extremes import TOPIC
from tests.attack.story import request
from tests.attack.target import topic_id
from tests.share_requests import (
    ACCEPT,
    OPEN,
    Acknowledgement,
    share_acknowledge_request,
    share_fetch_request,
)

GROUP = "attacked-share-group"
GROUP_RESOURCE = 32
MEMBER = "AAAAAAAAAAAAAAAAAAAAAA"
VERSION = 2
MANY = 90_000
MANY_ACKNOWLEDGEMENTS = 49_000  # with a type each they are 98,000 elements


def stories_of_shares() -> Iterator[Attack]:
    yield _in_a_session(
        ApiKey.SHARE_FETCH, f"one partition {MANY:,} times in a session, 5 clients that hang up",
        lambda topic: [_fetch(topic, OPEN, [0] * MANY, max_wait_ms=60_000)] * 5, hang_up=True,
    )  # fmt: skip
    yield _in_a_session(
        ApiKey.SHARE_FETCH, f"{MANY:,} unknown partitions in a session, 5 clients that hang up",
        lambda topic: [_fetch(topic, OPEN, range(100, MANY + 100), max_wait_ms=60_000)] * 5,
        hang_up=True, only_long=True,
    )  # fmt: skip
    same: list[Acknowledgement] = [(0, 0, [ACCEPT])] * MANY_ACKNOWLEDGEMENTS
    rising: list[Acknowledgement] = [(offset, offset, [ACCEPT]) for offset in range(MANY_ACKNOWLEDGEMENTS)]
    long: list[Acknowledgement] = [(0, MANY - 1, [ACCEPT] * MANY)]
    for what, batches in (("of one record", same), ("one after the other", rising), ("in one batch", long)):
        yield _in_a_session(
            ApiKey.SHARE_ACKNOWLEDGE, f"{sum(len(each[2]) for each in batches):,} acknowledgements {what}",
            lambda topic, batches=batches: [_fetch(topic, OPEN, [0]), _acknowledge(topic, 1, batches)],
            only_long=batches is not rising,
        )  # fmt: skip
    yield _in_a_session(
        ApiKey.SHARE_FETCH, f"{MANY_ACKNOWLEDGEMENTS:,} acknowledgements one after the other",
        lambda topic: [_fetch(topic, OPEN, [0]), _fetch(topic, 1, [], {(TOPIC, 0): rising})],
        only_long=True,
    )  # fmt: skip


def _in_a_session(api_key: ApiKey, shape: str, frames: Any, **more: Any) -> Attack:
    return Attack(f"{APIS[api_key].name} v{VERSION}", shape, frames, prepare=_prepare, **more)


def _prepare(address: str) -> None:
    """The group starts with the oldest records, has a member, and the state of the topic that the member wants."""
    setting = AlterableConfig("share.auto.offset.reset", 0, "earliest")
    resource = AlterConfigsResource(GROUP_RESOURCE, GROUP, [setting])
    with Client(address, timeout_s=60) as client:
        answer = client.send(ApiKey.INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest([resource]), 1)
        assert not answer.responses[0].error_code, answer
        client.send(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest("", 0, [GROUP]), 4)
        joins = ShareGroupHeartbeatRequest(GROUP, MEMBER, 0, None, [TOPIC])
        assert not client.send(ApiKey.SHARE_GROUP_HEARTBEAT, joins, 1).error_code
    while not _delivers(address):
        time.sleep(0.05)


def _delivers(address: str) -> bool:
    """Whether a member gets records; they are released when its connection ends."""
    with Client(address) as client:
        asked = share_fetch_request(GROUP, MEMBER, OPEN, [(TOPIC, 0)], id_of=lambda _: topic_id(address))
        (topic,) = client.send(ApiKey.SHARE_FETCH, asked, VERSION).responses
        return bool(topic.partitions[0].acquired_records)


def _fetch(topic: bytes, epoch: int, indexes: Any, acknowledgements: Any = None, max_wait_ms: int = 500) -> bytes:
    asked = share_fetch_request(
        GROUP, MEMBER, epoch, (), acknowledgements, id_of=lambda _: topic, max_wait_ms=max_wait_ms
    )
    if not acknowledgements:
        (whole,) = share_fetch_request(GROUP, MEMBER, epoch, [(TOPIC, 0)], id_of=lambda _: topic).topics
        whole.partitions = [type(whole.partitions[0])(index, []) for index in indexes]
        asked.topics = [whole]
    return request(ApiKey.SHARE_FETCH, VERSION, asked)


def _acknowledge(topic: bytes, epoch: int, batches: list[Acknowledgement]) -> bytes:
    asked = share_acknowledge_request(GROUP, MEMBER, epoch, {(TOPIC, 0): batches}, id_of=lambda _: topic)
    return request(ApiKey.SHARE_ACKNOWLEDGE, VERSION, asked)
