"""An answer that says an error can be made for each API in each version, and a client can read it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from kohort.broker.api_table import HANDLERS, ApiTable
from kohort.protocol.api_keys import APIS, ApiKey
from kohort.protocol.codec import response_decoder
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.errors_in import errors_in
from kohort.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kohort.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kohort.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kohort.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.protocol.messages.read_share_group_state import PartitionData as ReadPartitionData
from kohort.protocol.messages.read_share_group_state import ReadShareGroupStateRequest, ReadStateData
from kohort.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from kohort.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kohort.testing.errors import error_answer

ERROR = ErrorCode.NOT_COORDINATOR
NO_ERROR_WITHOUT_ROWS = {
    ApiKey.PRODUCE, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.DESCRIBE_GROUPS,
    ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.DELETE_RECORDS, ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS, ApiKey.DESCRIBE_CONFIGS, ApiKey.ALTER_CONFIGS, ApiKey.CREATE_PARTITIONS,
    ApiKey.DELETE_GROUPS, ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS, ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.FIND_COORDINATOR, ApiKey.METADATA,
    ApiKey.DESCRIBE_LOG_DIRS, ApiKey.LEAVE_GROUP, ApiKey.FETCH, ApiKey.ELECT_LEADERS, ApiKey.SHARE_GROUP_DESCRIBE,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, ApiKey.INITIALIZE_SHARE_GROUP_STATE, ApiKey.READ_SHARE_GROUP_STATE,
    ApiKey.WRITE_SHARE_GROUP_STATE, ApiKey.DELETE_SHARE_GROUP_STATE, ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.WRITE_TXN_MARKERS, ApiKey.TXN_OFFSET_COMMIT, ApiKey.DESCRIBE_PRODUCERS,
    ApiKey.DESCRIBE_TRANSACTIONS,
}  # fmt: skip


def answered(api_key: ApiKey, version: int, request: Any) -> Any:
    """The answer with the error, as a client reads it."""
    route = ApiTable().route(api_key, version)
    body = route.encode(error_answer(route, request, ERROR))
    data = b"".join(body) if isinstance(body, list) else body
    return response_decoder(api_key, version)(data, 0)


@pytest.mark.parametrize("api_key", HANDLERS)
def test_every_api_can_answer_an_error(api_key: ApiKey) -> None:
    api = APIS[api_key]
    request = getattr(import_module(f"kohort.protocol.messages.{api.module}"), f"{api.name}Request")()
    for version in range(api.min_version, api.max_version + 1):
        found = set(errors_in(answered(api_key, version, request)))
        assert found == {ERROR} or (not found and api_key in NO_ERROR_WITHOUT_ROWS), version


def test_each_partition_of_a_commit_has_the_error() -> None:
    rows = [OffsetCommitRequestPartition(3), OffsetCommitRequestPartition(5)]
    request = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("orders", partitions=rows)])
    answer = answered(ApiKey.OFFSET_COMMIT, 9, request)
    (topic,) = answer.topics
    assert topic.name == "orders"
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [(3, ERROR), (5, ERROR)]


def test_each_partition_of_a_fetch_and_of_a_produce_has_the_error() -> None:
    fetch = FetchRequest(topics=[FetchTopic("orders", partitions=[FetchPartition(7)])])
    answer = answered(ApiKey.FETCH, 12, fetch)
    assert answer.error_code == 0
    assert (answer.responses[0].topic, answer.responses[0].partitions[0].partition_index) == ("orders", 7)
    assert answer.responses[0].partitions[0].error_code == ERROR
    produce = ProduceRequest(topic_data=[TopicProduceData("orders", partition_data=[PartitionProduceData(7, b"")])])
    row = answered(ApiKey.PRODUCE, 9, produce).responses[0].partition_responses[0]
    assert (row.index, row.error_code) == (7, ERROR)


def test_each_share_group_and_each_share_partition_has_the_error() -> None:
    asked = ShareGroupDescribeRequest(group_ids=["one", "two"])
    found = answered(ApiKey.SHARE_GROUP_DESCRIBE, 1, asked).groups
    assert [(each.group_id, each.error_code) for each in found] == [("one", ERROR), ("two", ERROR)]
    topic_id = bytes(range(16))
    state = ReadShareGroupStateRequest("g", [ReadStateData(topic_id, [ReadPartitionData(3, 0)])])
    (topic,) = answered(ApiKey.READ_SHARE_GROUP_STATE, 0, state).results
    assert topic.topic_id == topic_id
    assert [(each.partition, each.error_code) for each in topic.partitions] == [(3, ERROR)]


def test_each_group_of_an_offset_fetch_has_the_error() -> None:
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("one"), OffsetFetchRequestGroup("two")])
    found = answered(ApiKey.OFFSET_FETCH, 8, asked).groups
    assert [(each.group_id, each.error_code) for each in found] == [("one", ERROR), ("two", ERROR)]


def test_each_partition_of_a_transaction_has_the_error() -> None:
    asked = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="pay", v3_and_below_topics=[AddPartitionsToTxnTopic("orders", [3, 5])]
    )
    (topic,) = answered(ApiKey.ADD_PARTITIONS_TO_TXN, 3, asked).results_by_topic_v3_and_below
    assert topic.name == "orders"
    assert [(each.partition_index, each.partition_error_code) for each in topic.results_by_partition] == [
        (3, ERROR), (5, ERROR),
    ]  # fmt: skip


def test_each_marker_and_each_transaction_has_the_error() -> None:
    markers = [WritableTxnMarker(7, 0, True, [WritableTxnMarkerTopic("orders", [3])])]
    (marker,) = answered(ApiKey.WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest(markers)).markers
    assert (marker.producer_id, marker.topics[0].partitions[0].error_code) == (7, ERROR)
    described = answered(ApiKey.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest(["pay", "ship"]))
    assert [(each.transactional_id, each.error_code) for each in described.transaction_states] == [
        ("pay", ERROR), ("ship", ERROR),
    ]  # fmt: skip
