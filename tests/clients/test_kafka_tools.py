"""Kafka's own command line tools, straight from the jars.

Most runs share a JVM (tests/kafka/Tools.java); tools that read standard input get one of their own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kohort.client.client import Client
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.kafka.jars import java
from tests.kafka.tools import Tools

pytestmark = pytest.mark.kafka

TOOLS = {
    "topics": "org.apache.kafka.tools.TopicCommand",
    "configs": "kafka.admin.ConfigCommand",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
}


Tool = Callable[..., list[str]]


@pytest.fixture(scope="module")
def tool() -> Iterator[Tool]:
    """Runs a tool by its name, with a broker's address and arguments; returns the lines that it prints."""
    with Tools() as tools:
        yield lambda name, bootstrap, *arguments: tools.run(TOOLS[name], bootstrap, *arguments).splitlines()


def console_producer(bootstrap: str, *arguments: str, stdin: str) -> None:
    java(TOOLS["console-producer"], "--bootstrap-server", bootstrap, *arguments, stdin=stdin)


def create(bootstrap: str, topic: str, partitions: int) -> None:
    """Without a JVM, which takes two seconds of CPU."""
    wanted = CreateTopicsRequest([CreatableTopic(topic, partitions, 1)], 10_000)
    with Client(bootstrap) as client:
        client.send(ApiKey.DELETE_TOPICS, DeleteTopicsRequest([DeleteTopicState(topic)], timeout_ms=10_000), 6)
        assert client.send(ApiKey.CREATE_TOPICS, wanted, 7).topics[0].error_code == 0


def test_kafka_topics_creates_lists_describes_grows_and_deletes(tool: Tool, bootstrap: str) -> None:
    topic = "tools-topics"
    made = tool(
        "topics", bootstrap, "--create", "--topic", topic, "--partitions", "2", "--config", "retention.ms=60000"
    )
    assert made == [f"Created topic {topic}."]
    assert topic in tool("topics", bootstrap, "--list")

    head, *partitions = tool("topics", bootstrap, "--describe", "--topic", topic)
    assert "PartitionCount: 2" in head
    assert "retention.ms=60000" in head
    assert ["Partition: 0" in partitions[0], "Partition: 1" in partitions[1]] == [True, True]

    tool("topics", bootstrap, "--alter", "--topic", topic, "--partitions", "4")
    assert len(tool("topics", bootstrap, "--describe", "--topic", topic)) == 5

    tool("topics", bootstrap, "--delete", "--topic", topic)
    assert topic not in tool("topics", bootstrap, "--list")


def test_the_console_producer_writes_what_the_console_consumer_reads(tool: Tool, bootstrap: str) -> None:
    topic = "tools-console"
    create(bootstrap, topic, 1)
    text = "".join(f"k{index}:line {index} äöü\n" for index in range(100))
    keyed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    console_producer(bootstrap, "--topic", topic, *keyed, "--compression-codec", "zstd", stdin=text)

    place = ("--topic", topic, "--partition", "0", "--offset", "earliest", "--max-messages", "100")
    shown = ("--formatter-property", "print.key=true", "--formatter-property", "key.separator=:")
    *lines, last = tool("console-consumer", bootstrap, *place, *shown, "--timeout-ms", "30000")
    assert (lines, last) == (text.splitlines(), "Processed a total of 100 messages")


def test_get_offsets_and_delete_records(tool: Tool, bootstrap: str, tmp_path: Path) -> None:
    topic = "tools-offsets"
    create(bootstrap, topic, 1)
    console_producer(bootstrap, "--topic", topic, stdin="x\n" * 10)
    assert tool("get-offsets", bootstrap, "--topic", topic) == [f"{topic}:0:10"]
    assert tool("get-offsets", bootstrap, "--topic", topic, "--time", "earliest") == [f"{topic}:0:0"]
    assert tool("get-offsets", bootstrap, "--topic", topic, "--time", "max-timestamp")[0].startswith(f"{topic}:0:")

    wanted = tmp_path / "delete.json"
    wanted.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": 4}], "version": 1}))
    told = tool("delete-records", bootstrap, "--offset-json-file", str(wanted))
    assert any("low_watermark: 4" in line for line in told), told
    assert tool("get-offsets", bootstrap, "--topic", topic, "--time", "earliest") == [f"{topic}:0:4"]


def test_kafka_configs_describes_and_alters(tool: Tool, bootstrap: str) -> None:
    topic = "tools-configs"
    create(bootstrap, topic, 1)
    named = ("--entity-type", "topics", "--entity-name", topic)
    tool("configs", bootstrap, *named, "--alter", "--add-config", "retention.ms=12345,cleanup.policy=[compact,delete]")
    described = "\n".join(tool("configs", bootstrap, *named, "--describe"))
    assert "retention.ms=12345" in described
    assert "cleanup.policy=compact,delete" in described
    tool("configs", bootstrap, *named, "--alter", "--delete-config", "retention.ms")
    assert "retention.ms=12345" not in "\n".join(tool("configs", bootstrap, *named, "--describe"))
    everything = "\n".join(tool("configs", bootstrap, *named, "--describe", "--all"))
    assert "segment.bytes=1073741824" in everything
    broker = tool("configs", bootstrap, "--entity-type", "brokers", "--entity-name", "1", "--describe", "--all")
    assert any("num.partitions=" in line for line in broker)


def test_broker_api_versions_names_every_api(tool: Tool, bootstrap: str) -> None:
    told = tool("broker-api-versions", bootstrap)
    assert f"{bootstrap} (id: 1 rack: null isFenced: false) -> (" in told[0]
    assert any("Fetch(1): 4 to 18 [usable: 18]" in line for line in told)
    assert any("Produce(0): 0 to 13 [usable: 13]" in line for line in told)


def test_log_dirs_tells_the_size_of_a_partition(tool: Tool, bootstrap: str) -> None:
    topic = "tools-log-dirs"
    create(bootstrap, topic, 2)
    console_producer(bootstrap, "--topic", topic, stdin="some text\n")
    told = tool("log-dirs", bootstrap, "--describe", "--topic-list", topic)
    brokers = json.loads(told[-1])["brokers"]
    partitions = [each for log_dir in brokers[0]["logDirs"] for each in log_dir["partitions"]]
    assert sorted(each["partition"] for each in partitions) == [f"{topic}-0", f"{topic}-1"]
    assert max(each["size"] for each in partitions) > 61
