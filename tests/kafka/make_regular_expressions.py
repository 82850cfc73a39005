"""Asks a real Kafka which regular expressions it takes for a subscription, and which topics each of them matches.

tests/data/regular_expressions.json has topics, and expressions. For each expression this program writes which topics
the only member of a group got, or null if Kafka refused it with INVALID_REGULAR_EXPRESSION.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from kohort.client.client import Client
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest
from kohort.protocol.messages.metadata import MetadataRequest
from tests.kafka.server import KafkaServer

FILE = Path(__file__).parents[1] / "data" / "regular_expressions.json"
ROUNDS, SECONDS_OF_ROUND = 4, 1.2  # a target is computed at most once a second; an empty one cannot be waited for


class Member:
    """The only member of a group: it gets every topic that its expression matches."""

    def __init__(self, client: Client, number: int, regex: str) -> None:
        self._client = client
        self._id = f"member-{number}"
        self._group_id = f"group-{number}"
        self._regex = regex
        self._epoch = 0
        self.topic_ids: set[bytes] = set()

    def beat(self) -> int:
        """Returns the error code."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self._id,
            member_epoch=self._epoch,
            rebalance_timeout_ms=60_000,
            subscribed_topic_regex=self._regex,
            topic_partitions=[],
        )
        answer = self._client.send(ApiKey.CONSUMER_GROUP_HEARTBEAT, request, 1)
        self._epoch = answer.member_epoch
        if answer.assignment is not None:
            self.topic_ids = {bytes(topic.topic_id) for topic in answer.assignment.topic_partitions}
        code: int = answer.error_code
        return code


def ask(client: Client, topics: list[str], expressions: Iterable[str]) -> dict[str, list[str] | None]:
    client.send(ApiKey.CREATE_TOPICS, CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in topics], 10_000), 7)
    client.send(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest(key_type=0, coordinator_keys=["group-0"]), 4)
    first = Member(client, -1, "foo")
    while first.beat():
        time.sleep(0.1)
    found: dict[str, list[str] | None] = dict.fromkeys(expressions)
    members = {}
    for number, regex in enumerate(found):
        member = Member(client, number, regex)
        code = member.beat()
        assert code in (0, ErrorCode.INVALID_REGULAR_EXPRESSION), (regex, code)
        if code == 0:
            members[regex] = member
    for _ in range(ROUNDS):
        time.sleep(SECONDS_OF_ROUND)
        for member in members.values():
            assert member.beat() == 0
    names = {
        bytes(topic.topic_id): topic.name for topic in client.send(ApiKey.METADATA, MetadataRequest(None), 12).topics
    }
    for regex, member in members.items():
        found[regex] = sorted(name for topic_id in member.topic_ids if (name := names[topic_id]) in topics)
    return found


def main() -> None:
    known = json.loads(FILE.read_text())
    topics = known["topics"]
    with tempfile.TemporaryDirectory() as folder, KafkaServer(Path(folder)) as kafka, Client(kafka.address) as client:
        found = ask(client, topics, known["expressions"])
    rows = ",\n".join(f"{json.dumps(regex)}: {json.dumps(matches)}" for regex, matches in found.items())
    FILE.write_text(f'{{"topics": {json.dumps(topics)},\n"expressions": {{\n{rows}\n}}}}\n')
    refused = sum(topics is None for topics in found.values())
    print(f"{len(found)} expressions, of which Kafka refuses {refused}")


if __name__ == "__main__":
    main()
