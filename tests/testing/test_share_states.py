"""The share coordinator inside a user's test: on the disk in memory, by the clock of the test."""

from __future__ import annotations

from kohort.broker.topics.catalog import SHARE_GROUP_STATE
from kohort.client.client import Client
from kohort.coordinator.share_state.keys import SharePartitionKey
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.testing import Broker
from tests.kafka.share_states import ShareStates


def test_states_are_kept_over_a_restart_and_trimmed_when_time_passes() -> None:
    with Broker() as kafka:
        with Client(kafka.bootstrap_servers) as client:
            request = CreateTopicsRequest([CreatableTopic("work", 1, 1, (), ())], 30_000)
            (made,) = client.send(ApiKey.CREATE_TOPICS, request, 7).topics
        key = SharePartitionKey("workers", made.topic_id, 0)
        with ShareStates(kafka.bootstrap_servers) as states:
            states.wait_for_coordinator(key)
            assert states.initialize(key, 1, 0) is ErrorCode.NONE
            assert states.write(key, 1, 0, 5, 3, (5, 7, 2, 1)) is ErrorCode.NONE
        kafka.restart()
        with ShareStates(kafka.bootstrap_servers) as states:
            states.wait_for_coordinator(key)
            assert states.read(key, 0) == (0, 1, 5, [(5, 7, 2, 1)])
            for _ in range(3):
                kafka.clock.advance(minutes=6)
            assert states.read(key, 0) == (0, 1, 5, [(5, 7, 2, 1)])
        starts = kafka._host.run(
            lambda: [
                log.log_start_offset
                for (topic, _), log in kafka._host.broker.logs.logs.items()
                if topic == SHARE_GROUP_STATE
            ]
        )
        assert max(starts) == 2
