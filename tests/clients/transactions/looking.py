"""What readers and the coordinators say about transactions, asked through the wire."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from kohort.client.client import Client
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kohort.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.broker.transactional_reader import READ_COMMITTED, READ_UNCOMMITTED, Reader

DEADLINE_S = 120.0  # for a busy machine; nothing is measured by it
POLL_S = 0.05


def create_topics(client: Client, **partitions: int) -> None:
    topics = [CreatableTopic(name, count, 1) for name, count in partitions.items()]
    answer = client.send(ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics, 10_000), 7)
    assert [each.error_code for each in answer.topics] == [0] * len(topics), answer


def wait_until(condition: Callable[[], bool], what: Callable[[], str]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what()}"
        time.sleep(POLL_S)


def transaction_state(client: Client, transactional_id: str) -> str:
    answer = client.send(ApiKey.DESCRIBE_TRANSACTIONS, DescribeTransactionsRequest([transactional_id]), 0)
    state: str = answer.transaction_states[0].transaction_state
    return state


def read_committed(client: Client, topic: str, partitions: int) -> dict[int, Counter[str]]:
    """All that a reader of committed records sees, when every transaction has ended."""
    reader = Reader(topic, partitions)

    def is_stable() -> bool:
        return reader.ends(client, READ_COMMITTED) == reader.ends(client, READ_UNCOMMITTED)

    wait_until(is_stable, lambda: f"the last stable offsets, which are {reader.ends(client, READ_COMMITTED)}")
    ends = reader.ends(client, READ_UNCOMMITTED)
    while reader.positions != ends:
        reader.read_on(client)
    return reader.seen


def committed_offsets(client: Client, group: str) -> dict[tuple[str, int], int]:
    """All committed offsets of the group, when no transaction holds one back."""
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, None, -1, None)], require_stable=True)
    found: dict[tuple[str, int], int] = {}

    def is_told() -> bool:
        (answer,) = client.send(ApiKey.OFFSET_FETCH, asked, 8).groups
        rows = [(topic.name, each) for topic in answer.topics for each in topic.partitions]
        found.update({(name, each.partition_index): each.committed_offset for name, each in rows})
        return {answer.error_code, *(each.error_code for _, each in rows)} == {0}

    wait_until(is_told, lambda: f"stable offsets of {group}")
    return found
