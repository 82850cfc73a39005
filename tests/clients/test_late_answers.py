"""Answers to heartbeats that come too late: which clients learn of their assignment all the same (KIP-848).

A client that did not get the answer to a heartbeat has to say everything in its next one: only then does the broker
tell its assignment again. The broker stands still for a moment, and answers when the client has given up.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.clients import group_programs as programs
from tests.clients.group_broker import NOT_READY, AnyBroker, GroupBroker, KafkaBroker
from tests.clients.group_checks import TOPIC
from tests.clients.server_side import WatchedScenario, abandoned_at_the_end, group_broker

GROUP = "late"
HEARTBEAT_MS = 500  # librdkafka waits so long for an answer, and looks at the time once in a second
STANDS_STILL_S = 2.2
TEN_HEARTBEATS_S = 10 * HEARTBEAT_MS / 1000
SETTINGS = {
    "group_consumer_min_heartbeat_interval_ms": str(HEARTBEAT_MS),
    "group_consumer_heartbeat_interval_ms": str(HEARTBEAT_MS),
    "group_consumer_session_timeout_ms": "30000",
    "group_consumer_assignment_interval_ms": "0",
}


class Puppet:
    """A static member that does what the test says."""

    def __init__(self, broker: AnyBroker, instance: str) -> None:
        self._broker = broker
        self._instance = instance
        self._epoch = 0
        self._topic_id = b""
        self.assigned: list[int] = []

    def beat(self, *, owns_what_it_was_assigned: bool = False) -> None:
        request = ConsumerGroupHeartbeatRequest(GROUP, self._instance, self._epoch, self._instance)
        if self._epoch == 0:
            request.rebalance_timeout_ms = 60_000
            request.subscribed_topic_names = [TOPIC]
            request.server_assignor = "range"
            request.topic_partitions = []
        elif owns_what_it_was_assigned:
            request.topic_partitions = [TopicPartitions(self._topic_id, self.assigned)]
        answer = self._broker.client.send(ApiKey.CONSUMER_GROUP_HEARTBEAT, request, 1)
        while answer.error_code in NOT_READY:
            find = FindCoordinatorRequest("", 0, [GROUP])  # Kafka makes __consumer_offsets when somebody asks for it
            self._broker.client.send(ApiKey.FIND_COORDINATOR, find, 4)
            answer = self._broker.client.send(ApiKey.CONSUMER_GROUP_HEARTBEAT, request, 1)
        assert answer.error_code == 0, answer
        self._epoch = answer.member_epoch
        if answer.assignment is not None:
            self.assigned = [number for each in answer.assignment.topic_partitions for number in each.partitions]
            self._topic_id = next((each.topic_id for each in answer.assignment.topic_partitions), self._topic_id)

    def was_assigned(self, partitions: range) -> bool:
        self.beat()
        return self.assigned == list(partitions)


def stand_still(broker: GroupBroker | KafkaBroker) -> None:
    process = broker.server.process if isinstance(broker, KafkaBroker) else broker.process.process
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(STANDS_STILL_S)
    os.kill(process.pid, signal.SIGCONT)


@pytest.mark.story
@pytest.mark.kafka
@pytest.mark.parametrize(
    ("program", "learns"), [(programs.java, True), (programs.franz_go, True), (programs.confluent, False)]
)
def test_partitions_are_given_to_a_member_by_an_answer_that_comes_too_late(
    tmp_path: Path, program: programs.Program, learns: bool
) -> None:
    """confluent-kafka never learns of them, here and with Kafka. If that has changed, docs/clients.md is wrong."""
    with (
        group_broker(tmp_path, **SETTINGS) as broker,
        abandoned_at_the_end(WatchedScenario(broker, [GROUP], tmp_path)) as scenario,
    ):
        first, third = Puppet(broker, "instance-1"), Puppet(broker, "instance-3")
        first.beat()
        member = scenario.start("member", program(broker.address, [f"{GROUP}=consumer-range=instance-2"]), [GROUP])

        def until_member_owns(partitions: range) -> None:
            owns = lambda: member.owned[GROUP] == frozenset(partitions)  # noqa: E731
            scenario.until(owns, f"the member owns {partitions}")

        scenario.until(lambda: first.was_assigned(range(6)), "the first has to give up its second half")
        first.beat(owns_what_it_was_assigned=True)
        until_member_owns(range(6, 12))
        third.beat()
        until_member_owns(range(6, 8))
        scenario.until(lambda: third.was_assigned(range(8, 12)), "the member has said so")
        scenario.until(lambda: first.was_assigned(range(4)), "the first has to give up 4 and 5")

        # No commit shall be on its way: the broker would drop the heartbeat behind it when the client hangs up.
        scenario.producer.stop()
        ends, committed = scenario.producer.delivered, scenario.ledgers[GROUP].committed
        scenario.until(lambda: all(committed[each] == ends[each] for each in (6, 7)), "everything is committed")

        first.beat(owns_what_it_was_assigned=True)  # the next heartbeat of the member gets them
        stand_still(broker)

        scenario.until(lambda: broker.describe(GROUP).state == "Stable", "the broker has given them to the member")
        if learns:
            until_member_owns(range(4, 8))
        else:
            enough = time.monotonic() + TEN_HEARTBEATS_S
            scenario.until(lambda: time.monotonic() > enough, "some more heartbeats")
            assert member.owned[GROUP] == frozenset(range(6, 8))
