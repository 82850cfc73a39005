"""DescribeLogDirs."""

from __future__ import annotations

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from tests.parity.batches import batch
from tests.parity.peer import Peer
from tests.parity.scenario import scenario


def describe(peer: Peer, *topics: tuple[str, list[int]]) -> None:
    asked = [DescribableLogDirTopic(name, partitions) for name, partitions in topics]
    peer.ask(ApiKey.DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(asked))


@scenario(ApiKey.DESCRIBE_LOG_DIRS)
def sizes_of_some_partitions(peer: Peer) -> None:
    topic = peer.create(partitions=3)
    peer.append(topic, batch(3), partition=1)
    describe(peer, (topic, [1, 0]))
    describe(peer, (topic, [2, 9, -1]))


@scenario(ApiKey.DESCRIBE_LOG_DIRS)
def sizes_of_unknown_topics(peer: Peer) -> None:
    describe(peer, (peer.topic(), [0]))
    describe(peer, ("bad name", [0]))
    describe(peer, ("", [0]))
    describe(peer)


@scenario(ApiKey.DESCRIBE_LOG_DIRS)
def sizes_of_no_partitions_of_a_topic(peer: Peer) -> None:
    describe(peer, (peer.create(), []))


@scenario(ApiKey.DESCRIBE_LOG_DIRS)
def sizes_of_two_topics(peer: Peer) -> None:
    one, two = peer.create("-b"), peer.create("-a")
    peer.append(two, batch(2), batch(2))
    describe(peer, (one, [0]), (two, [0]))
