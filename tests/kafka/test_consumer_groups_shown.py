"""Consumer groups of KIP-848 in every state, as `kohort groups` and Kafka's own tool show them: on Kafka and on Kohort.

The same members do the same on both brokers. What is printed about each moment must be the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kohort.client.client import Client
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.metadata import MetadataRequest
from tests.broker.test_groups_command import Operator
from tests.clients.kohort import KohortProcess
from tests.kafka.members_848 import LEAVE_FOR_A_WHILE, ClassicMember, NewMember, settle
from tests.kafka.server import KafkaServer
from tests.kafka.test_consumer_groups_tool import Tool, comparable, tool_rows
from tests.kafka.test_kafka_files_both_ways import kohort_groups
from tests.parity.scenarios.coordinators import warm_up

pytestmark = pytest.mark.kafka

GROUP, TOPIC = "shown", "orders"
SETTINGS = {"group.consumer.assignment.interval.ms": "0"}  # a target is computed at once
TOOL_QUESTIONS = ("", "--verbose", "--members", "--members --verbose", "--state", "--state --verbose")


class Scene:
    """A group on one broker, and what is printed about it moment by moment."""

    def __init__(self, address: str, tool: Tool) -> None:
        self.address = address
        self.operator = Operator(address)
        self.operator.make_topic(TOPIC, 6)
        self.operator.peer.settle(TOPIC, 6)
        warm_up(self.operator.peer)
        self._tool = tool
        with Client(address) as client:
            topics = client.send(ApiKey.METADATA, MetadataRequest(None), 12).topics
        self._topic_ids = {topic.name: bytes(topic.topic_id) for topic in topics}
        self.printed: dict[str, list[str]] = {}
        self.shown: dict[str, dict[str, Any]] = {}  # `kohort groups describe --json`
        self._masked: dict[str, str] = {}
        self._clients: list[Client] = []

    def member(self, member_id: str, **names: str) -> NewMember:
        made = NewMember(self.address, self._topic_ids, GROUP, member_id, **names)
        self._clients.append(made.client)
        return made

    def classic_member(self, name: str) -> ClassicMember:
        """It has joined. Its id is random, and `name` is shown instead."""
        made = ClassicMember(self.address, GROUP, [TOPIC]).join()
        self._clients.append(made.client)
        self._masked[made.id] = name
        return made

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self.operator.story.close()
        self.operator.peer.hang_up()

    def look(self, moment: str) -> None:
        for question in ("list", f"describe {GROUP}", f"describe {GROUP} --members"):
            self._keep(f"{moment}: kohort groups {question}", self.operator.groups(*question.split(" ")).stdout)
        for question in TOOL_QUESTIONS:
            arguments = ["--describe", "--group", GROUP, *question.split()]
            self._keep(f"{moment}: {question}", self._tool.run(self.address, *arguments))
        (self.shown[moment],) = kohort_groups(self.address, "describe", GROUP)
        self._compare_with_the_tool(self.shown[moment])

    def _keep(self, title: str, printed: str) -> None:
        for random_id, name in self._masked.items():
            printed = printed.replace(random_id, name)
        self.printed[title] = comparable(printed, self.address)

    def _compare_with_the_tool(self, shown: dict[str, Any]) -> None:
        """The tool prints nothing in the column of an instance id that is not there, so it is left out."""
        members = self._tool.run(self.address, "--describe", "--group", GROUP, "--members")
        rows = tool_rows(members) if shown["members"] else set()
        assert {(row[1], row[-1]) for row in rows} == {
            (member["member_id"], str(len(member["partitions"]))) for member in shown["members"]
        }
        (state,) = tool_rows(self._tool.run(self.address, "--describe", "--group", GROUP, "--state", "--verbose"))
        told = shown["assignor"], shown["state"], shown["epoch"], shown["target_epoch"], len(shown["members"])
        assert state[-5:] == tuple(map(str, told))

    def states(self, moment: str) -> dict[str, str]:
        members = self.shown[moment]["members"]
        return {self._masked.get(member["member_id"], member["member_id"]): member["state"] for member in members}


def play(scene: Scene) -> None:
    anna, ben = scene.member("anna"), scene.member("ben", instance="ben-1", rack="r1")
    anna.join(TOPIC)
    anna.commit({(TOPIC, 0): 0})
    scene.look("alone")
    ben.join(TOPIC)
    scene.look("somebody joins")
    anna.beat()
    scene.look("partitions are to be revoked")
    anna.report()
    scene.look("partitions were revoked")
    settle(anna, ben)
    scene.look("all have reconciled")
    ben.leave(LEAVE_FOR_A_WHILE)
    scene.look("a static member is away")
    ben.join(TOPIC)
    settle(anna, ben)
    carl = scene.classic_member("carl")
    scene.look("a classic member joins")
    carl.leave()
    anna.subscribe(regex="ord.*")
    settle(anna, ben)
    scene.look("a regular expression")
    assert scene.operator.refused("delete", GROUP) == f"{GROUP}: it has members; stop them first"
    said = scene.operator.refused("reset-offsets", GROUP, "--to-latest", "--execute")
    assert said.endswith("stop its members first")
    for member in (anna, ben):
        member.leave()
    scene.look("nobody is left")
    for command in (f"reset-offsets {GROUP} --topic {TOPIC} --to-latest --execute", f"delete {GROUP}"):
        done = scene.operator.groups(*command.split(" "))
        assert done.returncode == 0, done.stderr
        scene.printed[command] = comparable(done.stdout, scene.address)


@pytest.fixture(scope="module")
def tool() -> Iterator[Tool]:
    running = Tool()
    yield running
    running.stop()


def test_consumer_groups_are_shown_alike_and_as_the_tool_shows_them(tmp_path: Path, tool: Tool) -> None:
    with KafkaServer(tmp_path / "kafka", SETTINGS) as kafka:
        theirs = Scene(kafka.address, tool)
        play(theirs)
        theirs.close()
    ours_settings = {name.replace(".", "_"): value for name, value in SETTINGS.items()}
    with KohortProcess(tmp_path / "kohort", node_id="1", **ours_settings) as kohort:
        ours = Scene(kohort.address, tool)
        play(ours)
        ours.close()
    for title, lines in theirs.printed.items():
        assert ours.printed[title] == lines, title
    for scene in (theirs, ours):
        assert scene.states("somebody joins") == {"anna": "Revoking", "ben": "Waiting"}
        assert scene.states("partitions were revoked") == {"anna": "Stable", "ben": "Waiting"}
        assert scene.states("all have reconciled") == {"anna": "Stable", "ben": "Stable"}
        assert scene.states("a static member is away") == {"anna": "Stable", "ben": "Away"}
        (anna, *_) = scene.shown["partitions are to be revoked"]["members"]
        assert anna["to_revoke"] == [[TOPIC, 3], [TOPIC, 4], [TOPIC, 5]]
        assert {member["protocol"] for member in scene.shown["a classic member joins"]["members"]} == {
            "classic",
            "consumer",
        }
        assert scene.shown["a regular expression"]["members"][0]["regex"] == "ord.*"
