"""Kafka's own kafka-share-groups in all its modes: it prints about Kohort what it prints about Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from kohort.protocol.api_keys import ApiKey
from tests.clients.kohort import KohortProcess
from tests.kafka.server import KafkaServer
from tests.kafka.test_consumer_groups_tool import comparable, moment
from tests.kafka.tools import Tools
from tests.parity.batches import START_MS, batch
from tests.parity.pairs import PAIRS, SHARES
from tests.parity.peer import Peer
from tests.parity.scenarios.coordinators import warm_up
from tests.parity.share_story import ShareStory, accept

pytestmark = pytest.mark.kafka

TOOL = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"


class Groups:
    """`active`: two members and some records done with. `empty`: had one. `begun`: has a start. `classic` is no share
    group. Members stay connected."""

    def __init__(self, address: str) -> None:
        peer = self.peer = Peer("broker", address)
        peer.begin("tool", 1)
        warm_up(peer)
        story = self.story = ShareStory(peer, ApiKey.SHARE_GROUP_HEARTBEAT)
        self.orders, self.other = story.topic("-orders", 3), story.topic("-other", 1)
        for partition in range(2):
            peer.append(self.orders, batch(10), partition=partition)
        peer.append(self.other, batch(3))
        story.begin({(self.orders, index): index for index in range(3)}, "active")
        a, b = story.sharer("a", "active"), story.sharer("b", "active")
        a.start(self.orders)
        story.settle(a, partitions=3, group="active")
        b.start(self.other)  # who gets which partitions of one topic depends on the topic's id
        story.settle(a, b, partitions=4, group="active")
        a.fetch((self.orders, 0))
        a.acknowledge({(self.orders, 0): accept(0, 3) + accept(6)})
        gone = story.sharer("c", "empty")
        gone.start(self.orders, self.other)
        story.settle(gone, partitions=4, group="empty")
        gone.leave_group()
        story.begin({(self.other, 0): 1}, "begun")
        story.stable(group="classic")

    def close(self) -> None:
        self.story.close()
        self.peer.end()


def questions(orders: str, other: str) -> list[list[str]]:
    """One word per argument. What changes something is followed by a look at it."""
    looks = [
        "--list",
        "--list --state",
        "--list --state Stable",
        "--list --state empty,dead",
        "--describe --group active",
        "--describe --group active --offsets --verbose",
        "--describe --group active --members",
        "--describe --group active --members --verbose",
        "--describe --group active --state",
        "--describe --group active --state --verbose",
        "--describe --group empty",
        "--describe --group empty --members",
        "--describe --group empty --state",
        "--describe --group begun",
        "--describe --group unknown",
        "--describe --group unknown --members",
        "--describe --group classic",
        "--describe --group active --group begun",
        "--describe --all-groups --state",
    ]
    reset = "--reset-offsets --group empty"
    dry = [
        f"{reset} --all-topics --to-earliest --dry-run",
        f"{reset} --all-topics --to-latest --dry-run",
        f"{reset} --topic {orders} --to-earliest --dry-run",
        f"{reset} --topic {orders}:0,1 --to-latest --dry-run",
        f"{reset} --topic {orders} --to-datetime {moment(START_MS + 2_500)} --dry-run",
        f"{reset} --topic unknown-topic --to-earliest --dry-run",
        "--reset-offsets --group never-seen --all-topics --to-earliest --dry-run",
        f"--reset-offsets --group active --topic {orders} --to-earliest --dry-run",
        f"{reset} --topic {orders} --to-earliest",
    ]
    changes = [
        f"{reset} --topic {orders}:0,2 --to-latest --execute",
        f"{reset} --topic {orders}:1 --to-datetime {moment(START_MS + 2_500)} --execute",
        f"{reset} --all-topics --to-earliest --execute",
        f"--delete-offsets --group empty --topic {orders}",
        f"--delete-offsets --group empty --topic {orders} --topic {other} --topic unknown-topic",
    ]
    after = [
        f"--delete-offsets --group active --topic {orders}",
        f"--delete-offsets --group unknown --topic {orders}",
        f"--reset-offsets --group never-seen --topic {orders} --to-latest --execute",
        "--describe --group never-seen",
        "--delete --group empty",
        "--delete --group active",
        "--delete --group unknown",
        "--delete --group begun --group classic --group active",
        "--list --state",
    ]
    texts = looks + dry + [each for change in changes for each in (change, "--describe --group empty")] + after
    return [text.split(" ") for text in texts]


def answers(tools: Tools, address: str) -> dict[str, list[str]]:
    groups = Groups(address)
    found = {}
    for number, question in enumerate(questions(groups.orders, groups.other)):
        found[f"{number}: {' '.join(question)}"] = comparable(tools.run(TOOL, address, *question), address)
    groups.close()
    return found


def test_the_tool_prints_about_kohorts_share_groups_what_it_prints_about_kafkas(tmp_path: Path) -> None:
    settings = PAIRS[SHARES]
    with Tools() as tools:
        with KafkaServer(tmp_path / "kafka", {"auto.create.topics.enable": "false", **settings}) as kafka:
            theirs = answers(tools, kafka.address)
        overrides = {name.replace(".", "_"): value for name, value in settings.items()}
        with KohortProcess(tmp_path / "kohort", node_id="1", **overrides) as kohort:
            ours = answers(tools, kohort.address)
    for question, answer in theirs.items():
        assert ours[question] == answer, question
    assert len(ours) == len(theirs) > 40
