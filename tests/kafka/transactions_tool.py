"""What `kafka-transactions` prints about the same transactions on a broker, without ids and times."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kohort.client.client import Client
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.kafka.tools import Tools
from tests.parity.peer import Peer
from tests.parity.scenarios.coordinators import warm_up
from tests.parity.transaction_story import TV0, TransactionStory

TOOL = "org.apache.kafka.tools.TransactionsCommand"
BROKER, SET = 4, 0
DURATIONS = ("TransactionDurationMs", "Duration(min)")
TIME = re.compile(r"\b1[78]\d{11}\b")


def printed_about_transactions(tools: Tools, address: str) -> dict[str, list[list[str]]]:
    """For each command line the words of each line."""
    stop_verifying(address)
    peer = Peer("broker", address)
    peer.begin("tool", 5)
    warm_up(peer)
    story = TransactionStory(peer, ApiKey.END_TXN)
    topic = story.topic("", 2)
    with_data, ended, hanging = (story.begun(suffix, versions=TV0) for suffix in ("-open", "-ended", "-hanging"))
    stuck = story.begun("-stuck")
    for producer in (with_data, ended):
        producer.begin((topic, 0), (topic, 1))
    ended.commit_it()
    hanging.produce((topic, 1), 2)  # without having added the partition, an hour ago
    stuck.get_stuck((topic, 0))
    names = {str(each.producer_id): each.transactional_id for each in (with_data, ended, hanging, stuck)}
    runs: list[tuple[str, ...]] = [
        ("list",),
        ("list", "--duration-filter", "0"),
        ("list", "--transactional-id-pattern", ".*-(open|stuck)"),
        *(("describe", "--transactional-id", f"{story.group}{name}") for name in ("-open", "-ended", "-stuck", "-no")),
        ("describe-producers", "--topic", topic, "--partition", "0"),
        ("describe-producers", "--topic", topic, "--partition", "1", "--broker-id", "1"),
        ("find-hanging", "--topic", topic, "--max-transaction-timeout", "30"),
        ("find-hanging", "--topic", topic, "--partition", "0", "--max-transaction-timeout", "30"),
        ("find-hanging", "--broker-id", "1"),
        ("find-hanging", "--broker-id", "1", "--topic", topic, "--max-transaction-timeout", "600"),
        ("abort", "--topic", topic, "--partition", "1", "--start-offset", "77"),
        ("abort", "--topic", topic, "--partition", "1", "--start-offset", "3"),
        ("find-hanging", "--topic", topic, "--max-transaction-timeout", "30"),
        ("forceTerminateTransaction", "--transactionalId", f"{story.group}-open"),
        ("list",),
        ("describe", "--transactional-id", f"{story.group}-open"),
        ("describe-producers", "--topic", topic, "--partition", "1"),
    ]
    found = {}
    for number, run in enumerate(runs):
        lines = tools.run(TOOL, address, *run).splitlines()
        shown = _comparable(lines, names, story.group)
        name = " ".join(run).replace(story.group, "GROUP")
        found[f"{number}: {name}"] = [*shown[:1], *sorted(shown[1:])]
        if run[0].startswith("force"):
            story.until_complete(f"{story.group}-open")
    story.close()
    peer.hang_up()
    return found


def stop_verifying(address: str) -> None:
    """So that transactions can hang."""
    config = AlterableConfig("transaction.partition.verification.enable", SET, "false")
    with Client(address) as client:
        asked = IncrementalAlterConfigsRequest([AlterConfigsResource(BROKER, "1", [config])])
        assert client.send(ApiKey.INCREMENTAL_ALTER_CONFIGS, asked).responses[0].error_code == 0


def _comparable(lines: list[str], names: Mapping[str, str], group: str) -> list[list[str]]:
    """The words of each line, with names for producer ids, and without times."""
    rows = [TIME.sub("TIME", line).split() for line in lines]
    if rows and "ProducerId" in rows[0]:
        columns = [(rows[0].index(head), head) for head in ("ProducerId", *DURATIONS) if head in rows[0]]
        for row in rows[1:]:
            for column, head in columns:
                row[column] = names[row[column]] if head == "ProducerId" else "TIME"
    return [[word.replace(group, "GROUP") for word in row] for row in rows]
