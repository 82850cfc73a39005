"""max.message.bytes of the offsets topic, set to a value that no record fits into."""

from __future__ import annotations

from pathlib import Path

from kohort.client.client import Client
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest
from kohort.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.clients.kohort import KohortProcess

TOPIC, SET = 2, 0


def commit(client: Client, group: str) -> int:
    rows = [OffsetCommitRequestPartition(0, 5, -1, "")]
    topics = [OffsetCommitRequestTopic(name="t", partitions=rows)]
    answer = client.send(ApiKey.OFFSET_COMMIT, OffsetCommitRequest(group, -1, "", None, -1, topics), 8)
    code: int = answer.topics[0].partitions[0].error_code
    return code


def limit(client: Client, value: int) -> None:
    change = AlterConfigsResource(TOPIC, "__consumer_offsets", [AlterableConfig("max.message.bytes", SET, str(value))])
    answer = client.send(ApiKey.INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest([change]), 1)
    assert answer.responses[0].error_code == 0


def test_commits_that_do_not_fit_into_a_batch_are_refused_as_by_kafka_and_reload_nothing(tmp_path: Path) -> None:
    with KohortProcess(tmp_path) as broker, Client(broker.address) as client:
        client.send(ApiKey.CREATE_TOPICS, CreateTopicsRequest([CreatableTopic("t", 1, 1, (), ())], 10_000), 7)
        client.send(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest(coordinator_keys=["g"]), 4)
        assert commit(client, "g") == 0
        limit(client, 100)
        for group in ("g", "g", "h", "i"):
            assert commit(client, group) == ErrorCode.UNKNOWN_SERVER_ERROR
        limit(client, 1_048_588)
        assert [commit(client, group) for group in ("g", "h")] == [0, 0]
        assert "loading it again" not in broker.log_tail()
