"""Administrators' tools of Kafka print about Kohort what they print about a Kafka of one broker.

The same runs, in the same order, on both brokers, all in one JVM.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from kohort.client.client import Client
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tests.clients.kohort import KohortProcess
from tests.kafka.server import KafkaServer
from tests.kafka.tools import Tools
from tests.kafka.transactions_tool import printed_about_transactions

pytestmark = pytest.mark.kafka

TOOLS = {
    "acls": "org.apache.kafka.tools.AclCommand",
    "configs": "kafka.admin.ConfigCommand",
    "features": "org.apache.kafka.tools.FeatureCommand",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
}
BROKER_1 = ("--entity-type", "brokers", "--entity-name", "1")
ALL_BROKERS = ("--entity-type", "brokers", "--entity-default")
TOPIC = ("--entity-type", "topics", "--entity-name", "moved")
ALL_GROUPS = ("--entity-type", "groups")
GROUP = (*ALL_GROUPS, "--entity-name", "billing")
ADD, DELETE = "--add-config", "--delete-config"


def runs(folder: Path) -> list[tuple[str, ...]]:
    """Each is a tool and its arguments."""
    again, far, unknown = (
        ("--reassignment-json-file", str(file(folder, f"{name}.json", {"version": 1, "partitions": partitions})))
        for name, partitions in (
            ("again", [{"topic": "moved", "partition": index, "replicas": [1]} for index in (0, 1)]),
            ("far", [{"topic": "moved", "partition": 0, "replicas": [7]}]),
            ("unknown", [{"topic": "nowhere", "partition": 0, "replicas": [1]}]),
        )
    )
    to_move = str(file(folder, "move.json", {"version": 1, "topics": [{"topic": "moved"}]}))
    elected = {"partitions": [{"topic": "moved", "partition": 0}, {"topic": "moved", "partition": 7}]}
    throttles = "leader.replication.throttled.rate=5,follower.replication.throttled.rate=5"
    quota = ("--entity-type", "clients", "--entity-name", "c")
    return [
        ("acls", "--list"),
        ("acls", "--add", "--allow-principal", "User:a", "--operation", "Read", "--topic", "moved"),
        ("acls", "--remove", "--force", "--allow-principal", "User:a", "--operation", "Read", "--topic", "moved"),
        ("reassign-partitions", "--verify", *again),
        ("reassign-partitions", "--verify", "--preserve-throttles", *again),
        ("reassign-partitions", "--execute", *again),
        ("reassign-partitions", "--execute", "--throttle", "1000000", *again),
        ("configs", "--describe", *BROKER_1),
        ("configs", "--describe", *TOPIC),
        ("reassign-partitions", "--verify", *again),
        ("configs", "--describe", *BROKER_1),
        ("reassign-partitions", "--execute", *far),
        ("reassign-partitions", "--execute", *unknown),
        ("reassign-partitions", "--generate", "--broker-list", "1", "--topics-to-move-json-file", to_move),
        ("reassign-partitions", "--list"),
        ("reassign-partitions", "--cancel", *again),
        ("leader-election", "--election-type", "preferred", "--all-topic-partitions"),
        ("leader-election", "--election-type", "preferred", "--topic", "moved", "--partition", "0"),
        ("leader-election", "--election-type", "unclean", "--topic", "moved", "--partition", "1"),
        (
            *("leader-election", "--election-type", "preferred"),
            *("--path-to-json-file", str(file(folder, "elect.json", elected))),
        ),
        ("configs", "--describe", "--entity-type", "users"),
        ("configs", "--describe", "--entity-type", "users", "--entity-name", "alice"),
        ("configs", "--describe", "--entity-type", "users", "--entity-default"),
        ("configs", "--describe", "--entity-type", "users", "--entity-type", "clients"),
        ("configs", "--describe", *quota),
        ("configs", "--describe", "--entity-type", "ips"),
        ("configs", "--describe", *ALL_GROUPS),
        ("configs", "--describe", *GROUP),
        ("configs", "--describe", "--all", *GROUP),
        ("configs", "--alter", *GROUP, ADD, "consumer.session.timeout.ms=50000,consumer.heartbeat.interval.ms=6000"),
        ("configs", "--describe", *GROUP),
        ("configs", "--describe", *ALL_GROUPS),
        ("configs", "--describe", "--group", "billing"),
        ("configs", "--alter", *GROUP, ADD, "consumer.session.timeout.ms=1"),
        ("configs", "--alter", *GROUP, ADD, "no.such.setting=1"),
        ("configs", "--alter", *GROUP, DELETE, "consumer.assignment.interval.ms"),
        ("configs", "--alter", *GROUP, DELETE, "consumer.session.timeout.ms"),
        ("configs", "--describe", *GROUP),
        ("configs", "--describe", "--entity-type", "client-metrics"),
        ("configs", "--alter", *quota, DELETE, "producer_byte_rate"),
        ("configs", "--alter", *BROKER_1, ADD, "log.retention.ms=3600000,log.cleaner.threads=2,num.io.threads=9"),
        ("configs", "--describe", *BROKER_1),
        ("configs", "--alter", *ALL_BROKERS, ADD, "log.retention.ms=7200000,log.cleaner.backoff.ms=1000"),
        ("configs", "--alter", *ALL_BROKERS, ADD, throttles),
        ("configs", "--describe", *ALL_BROKERS),
        ("configs", "--describe", "--entity-type", "brokers"),
        ("configs", "--alter", *BROKER_1, DELETE, "log.retention.ms,log.cleaner.threads,num.io.threads"),
        ("configs", "--describe", *BROKER_1),
        ("configs", "--alter", *BROKER_1, DELETE, "log.retention.ms"),
        ("configs", "--alter", *BROKER_1, ADD, "log.dirs=/x"),
        ("configs", "--alter", *BROKER_1, ADD, "log.segment.bytes=5"),
        ("configs", "--alter", *BROKER_1, ADD, "no.such.setting=1"),
        ("configs", "--describe", *BROKER_1),
        ("features", "upgrade", "--feature", "no.such.version=1", "--dry-run"),
    ]


def file(folder: Path, name: str, content: Mapping[str, object]) -> Path:
    path = folder / name
    path.write_text(json.dumps(content))
    return path


def answers(tools: Tools, address: str, folder: Path) -> dict[str, list[str]]:
    with Client(address) as client:
        made = client.send(ApiKey.CREATE_TOPICS, CreateTopicsRequest([CreatableTopic("moved", 2, 1)], 10_000), 7)
        assert made.topics[0].error_code == 0
    found = {}
    for number, (tool, *arguments) in enumerate(runs(folder)):
        printed = tools.run(TOOLS[tool], address, *arguments)
        found[f"{number}: {tool} {' '.join(arguments)}"] = comparable(printed, address)
        if "--alter" in arguments or "--throttle" in arguments or "--verify" in arguments:
            settle(address, number)
    return found


def settle(address: str, number: int) -> None:
    """Kafka's broker learns of a change after the controller's answer: once it knows a later topic."""
    name = f"after-{number}"
    with Client(address) as client:
        client.send(ApiKey.CREATE_TOPICS, CreateTopicsRequest([CreatableTopic(name, 1, 1)], 10_000), 7)
        asked = DescribeConfigsRequest([DescribeConfigsResource(2, name, ["retention.ms"])])
        while client.send(ApiKey.DESCRIBE_CONFIGS, asked, 4).results[0].error_code:
            pass


def comparable(printed: str, address: str) -> list[str]:
    """Without what differs for good reasons: addresses, folders, the order of a hash table, Kafka's default of ELR."""
    lines = []
    for line in printed.replace(address, "ADDRESS").splitlines():
        if "min.insync.replicas=1 sensitive" in line:
            continue  # Kafka sets this default for the whole cluster by itself
        lines.append(re.sub(r'"log_dirs":\["/[^"]*"\]', '"log_dirs":[FOLDER]', line))
    return sorted(lines) if any(line.startswith("  ") for line in lines) else lines


def levels(described: str) -> list[str]:
    """The features and their levels, without the epoch, which is the end of Kafka's metadata log."""
    return [line.partition("Epoch:")[0] for line in described.splitlines()]


def test_the_tools_print_about_kohort_what_they_print_about_kafka(tmp_path: Path) -> None:
    with Tools() as tools:
        with KafkaServer(tmp_path / "kafka") as kafka:
            expected = answers(tools, kafka.address, tmp_path)
            features = levels(tools.run(TOOLS["features"], kafka.address, "describe"))
            about_transactions = printed_about_transactions(tools, kafka.address)
        with KohortProcess(tmp_path / "kohort", node_id="1") as kohort:
            found = answers(tools, kohort.address, tmp_path)
            ours = levels(tools.run(TOOLS["features"], kohort.address, "describe"))
            for run, shown in printed_about_transactions(tools, kohort.address).items():
                assert about_transactions[run] == shown, f"kafka-transactions, {run}"
            assert [line.split()[:2] for line in ours] == [
                ["Feature:", name] for name in ("group.version", "share.version", "transaction.version")
            ]
            assert set(ours) <= set(features)
            refused = tools.run(
                TOOLS["configs"], kohort.address, *("--alter", "--entity-type", "clients", "--entity-name", "c"),
                ADD, "producer_byte_rate=1024",
            )  # fmt: skip
    assert sum(map(len, expected.values())) > 100  # the tools did run
    for run, lines in expected.items():
        assert found[run] == lines, run
    assert "Kohort has no quotas: producer_byte_rate cannot be set." in refused
