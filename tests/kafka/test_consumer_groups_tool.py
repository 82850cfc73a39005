"""Kafka's own kafka-consumer-groups in all its modes: it prints about Kohort what it prints about Kafka.

The same groups are made on both brokers, then the tool is run with the same arguments against each. Many runs share a
JVM (Tools.java); the real program is run once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from struct import pack
from typing import Any

import pytest

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.broker.test_groups_command import Operator
from tests.clients.kohort import KohortProcess
from tests.group_requests import subscription
from tests.kafka.jars import java
from tests.kafka.server import KafkaServer
from tests.kafka.test_kafka_files_both_ways import kohort_groups
from tests.kafka.tools import Tools
from tests.parity.batches import START_MS, batch
from tests.parity.peer import Peer
from tests.parity.scenarios.coordinators import warm_up
from tests.parity.story import Story

pytestmark = pytest.mark.kafka

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
ORDERS, OTHER = "orders", "other"
LONG_MS = 1_800_000  # sessions: members send no heartbeats while the tool looks at them


class Tool:
    """The tool in a JVM that stays."""

    def __init__(self) -> None:
        self._tools = Tools()

    def run(self, address: str, *arguments: str) -> str:
        return self._tools.run(TOOL, address, *arguments)

    def stop(self) -> None:
        self._tools.stop()


@pytest.fixture(scope="module")
def tool() -> Iterator[Tool]:
    running = Tool()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def kohort(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("tool")
    with KohortProcess(folder, group_initial_rebalance_delay_ms="0", node_id="1") as broker:
        yield broker.address


# --- the same groups on both


class Groups:
    """`active`: two members, one static. `empty`: had one. `simple`: offsets only. Members stay connected."""

    def __init__(self, address: str) -> None:
        self.peer = Peer("broker", address)
        self.peer.begin("tool", 9)
        warm_up(self.peer)
        self.make_topics()
        story = self.story = Story(self.peer, ApiKey.OFFSET_COMMIT)
        protocols = (("range", subscription(ORDERS)),)
        a, b = story.member("active", instance="one"), story.member("active")
        a.join(protocols, session_ms=LONG_MS)
        a.sync()
        b.send_enter(protocols, session_ms=LONG_MS)
        story.until("PreparingRebalance", 2, "active")
        a.join(protocols, session_ms=LONG_MS)
        b.take()
        b.send_sync()
        a.sync(assignments={a.id: assignment(0, 1), b.id: assignment(2)})
        b.take()
        a.commit({(ORDERS, 0): 4, (ORDERS, 1): 0})
        self.make_empty("empty", {(ORDERS, 0): 4, (ORDERS, 1): 2, (OTHER, 0): 1})
        self.make_empty("last", {(ORDERS, 0): 4})
        story.commit({(ORDERS, 2): 1}, "simple")

    def make_topics(self) -> None:
        counts = {ORDERS: 3, OTHER: 1}
        topics = [CreatableTopic(name, count, 1) for name, count in counts.items()]
        self.peer.quietly(ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics, 10_000), 7)
        for name, count in counts.items():
            self.peer.settle(name, count)
        for partition in range(2):
            self.peer.append(ORDERS, batch(10), partition=partition)
        self.peer.append(OTHER, batch(3))

    def make_empty(self, group: str, offsets: dict[tuple[str, int], int]) -> None:
        (member,) = self.story.stable(group=group, protocols=(("range", subscription(ORDERS)),))
        member.commit(offsets)
        member.leave()


def assignment(*partitions: int) -> bytes:
    topic = pack(">h", len(ORDERS)) + ORDERS.encode()
    return pack(">hi", 0, 1) + topic + pack(f">i{len(partitions)}ii", len(partitions), *partitions, -1)


# --- what the tool is asked


def moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1000:03d}Z"


def questions(csv: Path) -> list[list[str]]:
    """One word per argument. What changes something is followed by a look at it."""
    reset = "--reset-offsets --group empty"
    looks = [
        "--list",
        "--list --state",
        "--list --state Stable",
        "--list --state Empty,Stable",
        "--list --type",
        "--list --type classic",
        "--list --type consumer",
        "--list --type classic --state Empty",
        "--describe --group active",
        "--describe --group active --offsets",
        "--describe --group active --offsets --verbose",
        "--describe --group active --members",
        "--describe --group active --members --verbose",
        "--describe --group active --state",
        "--describe --group active --state --verbose",
        "--describe --group empty",
        "--describe --group empty --members",
        "--describe --group empty --state",
        "--describe --group simple",
        "--describe --group simple --state",
        "--describe --group unknown",
        "--describe --group unknown --members",
        "--describe --group active --group empty",
        "--describe --all-groups",
        "--describe --all-groups --members",
        "--describe --all-groups --state",
    ]
    dry = [
        f"{reset} --all-topics --to-earliest --dry-run",
        f"{reset} --all-topics --to-latest",
        f"{reset} --topic orders --to-earliest",
        f"{reset} --topic orders:0,1 --to-offset 7",
        f"{reset} --topic orders:0 --to-offset 1000",
        f"{reset} --topic orders --to-offset -3",
        f"{reset} --topic orders:0,1 --shift-by -1",
        f"{reset} --topic orders:0,1 --shift-by 100",
        f"{reset} --topic orders:0,1 --shift-by -100",
        f"{reset} --topic orders --to-datetime {moment(START_MS + 2_500)}",
        f"{reset} --topic orders --to-datetime {moment(START_MS - 60_000)}",
        f"{reset} --topic orders --to-datetime {moment(START_MS + 7_200_000)}",
        f"{reset} --topic orders --by-duration P1D",
        f"{reset} --topic orders --by-duration PT1S",
        f"{reset} --all-topics --to-current",
        f"{reset} --all-topics --to-current --export",
        f"{reset} --topic orders:1 --topic other --to-earliest",
        f"{reset} --from-file {csv}",
        f"{reset} --topic unknown-topic --to-earliest",
        "--reset-offsets --all-groups --all-topics --to-earliest",
        "--reset-offsets --group active --topic orders --to-earliest",
        "--reset-offsets --group never-seen --topic orders --to-latest",
    ]
    changes = [
        f"{reset} --topic orders --to-offset 5 --execute",
        f"{reset} --all-topics --shift-by 1 --execute",
        f"{reset} --from-file {csv} --execute",
        f"{reset} --topic orders:0 --to-datetime {moment(START_MS + 2_500)} --execute",
        f"{reset} --all-topics --to-earliest --execute",
        f"{reset} --all-topics --to-latest --execute",
        "--delete-offsets --group empty --topic orders:0",
        "--delete-offsets --group empty --topic orders --topic other",
    ]
    refused = [
        "--reset-offsets --group active --topic orders --to-earliest --execute",
        "--delete-offsets --group active --topic orders",
        "--delete-offsets --group active --topic other",
        "--delete-offsets --group unknown --topic orders",
        "--delete-offsets --group empty --topic unknown-topic",
    ]
    after = [
        "--reset-offsets --group never-seen --topic orders --to-latest --execute",
        "--describe --group never-seen",
        "--describe --group active",
        "--delete --group empty",
        "--delete --group active",
        "--delete --group unknown",
        "--delete --group simple --group unknown --group active",
        "--list --state",
        "--delete --all-groups",
        "--list --state",
    ]
    texts = (
        looks + dry + [each for change in changes for each in (change, "--describe --group empty")] + refused + after
    )
    return [text.split(" ") for text in texts]


def answers(tool: Tool, address: str, csv: Path) -> dict[str, list[str]]:
    found = {}
    for number, question in enumerate(questions(csv)):
        found[f"{number}: {' '.join(question)}"] = comparable(tool.run(address, *question), address)
    return found


def comparable(printed: str, address: str) -> list[str]:
    """Without what is random: member ids, ports, the widths of columns, the order of rows; and without stack traces."""
    printed = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "#", printed.replace(address, "BROKER"))
    lines = [" ".join(line.split()) for line in printed.splitlines() if not line.startswith("\tat ")]
    return sorted(filter(None, lines))


def test_the_tool_prints_about_kohort_what_it_prints_about_kafka(tool: Tool, kohort: str, tmp_path: Path) -> None:
    csv = tmp_path / "offsets.csv"
    csv.write_text("orders,0,3\norders,1,9\nother,0,2\n")
    groups = Groups(kohort)
    compare_with_our_own(tool, kohort)
    compare_resets(tool, kohort, csv)
    compare_exports(tool, kohort)
    ours = answers(tool, kohort, csv)
    groups.story.close()
    with KafkaServer(tmp_path / "kafka", {"auto.create.topics.enable": "false"}) as kafka:
        groups = Groups(kafka.address)
        theirs = answers(tool, kafka.address, csv)
        groups.story.close()
    for question, answer in theirs.items():
        assert ours[question] == answer, question
    assert len(ours) == len(theirs) > 70
    assert "empty orders 0 5" in ours[next(question for question in ours if "--to-offset 5 --execute" in question)]


def compare_with_our_own(tool: Tool, address: str) -> None:
    """`kohort groups describe --json` says the same about offsets, lag and members."""
    for group in ("active", "empty", "simple"):
        (shown,) = kohort_groups(address, "describe", group)
        assert offset_rows(shown) == tool_rows(tool.run(address, "--describe", "--group", group)), group
        if shown["members"]:
            printed = tool_rows(tool.run(address, "--describe", "--group", group, "--members"))
            assert {row[1] for row in printed} == {member["member_id"] for member in shown["members"]}


def compare_resets(tool: Tool, address: str, csv: Path) -> None:
    """`kohort groups reset-offsets` plans the same."""
    for options in (
        "--all-topics --to-earliest",
        "--all-topics --to-latest",
        "--all-topics --to-current",
        "--topic orders --to-current",
        "--topic orders --to-offset -3",
        "--all-topics --shift-by 1",
        "--topic orders --to-earliest",
        "--topic orders:0,1 --to-offset 7",
        "--topic orders:0,1 --to-offset 1000",
        "--topic orders:0,1 --shift-by -100",
        f"--topic orders --to-datetime {moment(START_MS + 2_500)}",
        f"--topic orders --to-datetime {moment(START_MS + 7_200_000)}",
        "--topic orders --by-duration P1D",
        "--topic orders --by-duration PT1S",
        "--topic orders:1 --topic other --to-earliest",
        f"--from-file {csv}",
    ):
        arguments = options.split(" ")
        ours = kohort_groups(address, "reset-offsets", "empty", *arguments)
        printed = tool.run(address, "--reset-offsets", "--group", "empty", "--dry-run", *arguments)
        planned = {(row["group"], row["topic"], str(row["partition"]), str(row["new_offset"])) for row in ours}
        assert planned == tool_rows(printed), options


def compare_exports(tool: Tool, address: str) -> None:
    """`kohort groups reset-offsets --export` writes the same file."""
    for options in ("--all-topics --to-current", "--topic orders --to-latest"):
        arguments = [*options.split(" "), "--export"]
        ours = Operator(address).groups("reset-offsets", "empty", *arguments)
        theirs = tool.run(address, "--reset-offsets", "--group", "empty", "--dry-run", *arguments)
        assert ours.stdout.splitlines() == sorted(filter(None, theirs.splitlines())), options


def offset_rows(shown: dict[str, Any]) -> set[tuple[str, ...]]:
    names = ("topic", "partition", "current_offset", "log_end_offset", "lag", "member_id", "host", "client_id")
    rows = [[shown["group"], *(row[name] for name in names)] for row in shown["partitions"]]
    return {tuple("-" if value is None else str(value) for value in row) for row in rows}


def tool_rows(printed: str) -> set[tuple[str, ...]]:
    lines = [line.split() for line in printed.splitlines() if line.strip()]
    heads = next(index for index, line in enumerate(lines) if line[0] == "GROUP")
    return {tuple(line) for line in lines[heads + 1 :]}


def test_the_program_itself_lists_groups(kohort: str) -> None:
    story = Story(Peer("broker", kohort, version=9), ApiKey.JOIN_GROUP)
    member = story.member("seen by the program")
    member.enter()
    member.sync([member])
    assert "seen by the program" in java(TOOL, "--bootstrap-server", kohort, "--list").splitlines()
    story.close()
