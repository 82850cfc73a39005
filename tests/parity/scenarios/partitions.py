"""CreatePartitions."""

from __future__ import annotations

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tests.parity.peer import Peer
from tests.parity.scenario import scenario
from tests.parity.scenarios.topics import TIMEOUT_MS, look


def grow(
    peer: Peer, *topics: tuple[str, int], assignments: list[list[int]] | None = None, validate_only: bool = False
) -> None:
    assigned = None if assignments is None else [CreatePartitionsAssignment(brokers) for brokers in assignments]
    wanted = [CreatePartitionsTopic(name, count, assigned) for name, count in topics]
    peer.ask(ApiKey.CREATE_PARTITIONS, CreatePartitionsRequest(wanted, TIMEOUT_MS, validate_only))


@scenario(ApiKey.CREATE_PARTITIONS)
def a_topic_grows(peer: Peer) -> None:
    topic = peer.create(partitions=2)
    grow(peer, (topic, 4))
    peer.settle(topic, 4)
    look(peer, topic)


@scenario(ApiKey.CREATE_PARTITIONS)
def a_topic_cannot_shrink_or_stay(peer: Peer) -> None:
    topic = peer.create(partitions=2)
    for count in (2, 1, 0, -1, -2147483648):
        grow(peer, (topic, count))


@scenario(ApiKey.CREATE_PARTITIONS)
def a_dry_run_does_not_grow(peer: Peer) -> None:
    topic = peer.create()
    grow(peer, (topic, 3), validate_only=True)
    look(peer, topic)


@scenario(ApiKey.CREATE_PARTITIONS)
def an_unknown_topic_cannot_grow(peer: Peer) -> None:
    grow(peer, (peer.topic(), 3))
    grow(peer, ("bad name", 3))
    grow(peer, ("", 3))


@scenario(ApiKey.CREATE_PARTITIONS)
def the_same_topic_twice_does_not_grow(peer: Peer) -> None:
    topic = peer.create()
    grow(peer, (topic, 2), (topic, 3))
    look(peer, topic)


@scenario(ApiKey.CREATE_PARTITIONS)
def several_topics_grow_and_the_unknown_one_is_named(peer: Peer) -> None:
    grow(peer, (peer.create("-b"), 2), (peer.topic("-unknown"), 2), (peer.create("-a"), 3))


@scenario(ApiKey.CREATE_PARTITIONS)
def nothing_grows(peer: Peer) -> None:
    grow(peer)


@scenario(ApiKey.CREATE_PARTITIONS)
def new_replicas_may_be_assigned_by_hand(peer: Peer) -> None:
    topic = peer.create()
    grow(peer, (topic, 3), assignments=[[1], [1]])
    peer.settle(topic, 3)
    look(peer, topic)


@scenario(ApiKey.CREATE_PARTITIONS)
def new_assignments_that_cannot_be(peer: Peer) -> None:
    topic = peer.create()
    for assignments in ([], [[1]], [[1], [1], [1]], [[99], [1]], [[], [1]], [[1, 1], [1, 1]], [[1], []], [[-1], [-1]]):
        grow(peer, (topic, 3), assignments=assignments)
