"""Kafka's own command line tools, straight from the jars."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kohort.broker.client import Client
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.kafka.jars import java

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


def tool(name: str, bootstrap: str, *arguments: str, stdin: str | None = None) -> list[str]:
    """The lines that the tool prints."""
    return java(TOOLS[name], "--bootstrap-server", bootstrap, *arguments, stdin=stdin).splitlines()


def create(bootstrap: str, topic: str, partitions: int) -> None:
    """Without a JVM, which takes two seconds of CPU."""
    wanted = CreateTopicsRequest([CreatableTopic(topic, partitions, 1)], 10_000)
    with Client(bootstrap) as client:
        client.send(ApiKey.DELETE_TOPICS, DeleteTopicsRequest([DeleteTopicState(topic)], timeout_ms=10_000), 6)
        assert client.send(ApiKey.CREATE_TOPICS, wanted, 7).topics[0].error_code == 0


def test_kafka_topics_creates_lists_describes_grows_and_deletes(bootstrap: str) -> None:
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


def test_the_console_producer_writes_what_the_console_consumer_reads(bootstrap: str) -> None:
    topic = "tools-console"
    create(bootstrap, topic, 1)
    text = "".join(f"k{index}:line {index} äöü\n" for index in range(100))
    keyed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    tool("console-producer", bootstrap, "--topic", topic, *keyed, "--compression-codec", "zstd", stdin=text)

    place = ("--topic", topic, "--partition", "0", "--offset", "earliest", "--max-messages", "100")
    shown = ("--formatter-property", "print.key=true", "--formatter-property", "key.separator=:")
    assert tool("console-consumer", bootstrap, *place, *shown, "--timeout-ms", "30000") == text.splitlines()


def test_get_offsets_and_delete_records(bootstrap: str, tmp_path: Path) -> None:
    topic = "tools-offsets"
    create(bootstrap, topic, 1)
    tool("console-producer", bootstrap, "--topic", topic, stdin="x\n" * 10)
    assert tool("get-offsets", bootstrap, "--topic", topic) == [f"{topic}:0:10"]
    assert tool("get-offsets", bootstrap, "--topic", topic, "--time", "earliest") == [f"{topic}:0:0"]
    assert tool("get-offsets", bootstrap, "--topic", topic, "--time", "max-timestamp")[0].startswith(f"{topic}:0:")

    wanted = tmp_path / "delete.json"
    wanted.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": 4}], "version": 1}))
    told = tool("delete-records", bootstrap, "--offset-json-file", str(wanted))
    assert any("low_watermark: 4" in line for line in told), told
    assert tool("get-offsets", bootstrap, "--topic", topic, "--time", "earliest") == [f"{topic}:0:4"]


def test_kafka_configs_describes_and_alters(bootstrap: str) -> None:
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


def test_broker_api_versions_names_every_api(bootstrap: str) -> None:
    told = tool("broker-api-versions", bootstrap)
    assert f"{bootstrap} (id: 1 rack: null isFenced: false) -> (" in told[0]
    assert any("Fetch(1): 4 to 18 [usable: 18]" in line for line in told)
    assert any("Produce(0): 0 to 13 [usable: 13]" in line for line in told)


def test_log_dirs_tells_the_size_of_a_partition(bootstrap: str) -> None:
    topic = "tools-log-dirs"
    create(bootstrap, topic, 2)
    tool("console-producer", bootstrap, "--topic", topic, stdin="some text\n")
    told = tool("log-dirs", bootstrap, "--describe", "--topic-list", topic)
    brokers = json.loads(told[-1])["brokers"]
    partitions = [each for log_dir in brokers[0]["logDirs"] for each in log_dir["partitions"]]
    assert sorted(each["partition"] for each in partitions) == [f"{topic}-0", f"{topic}-1"]
    assert max(each["size"] for each in partitions) > 61
