"""Asks a broker for the states of share groups, as another broker would: Kohort or Kafka 4.3.1."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from kohort.client.client import Client
from kohort.coordinator.share_state.keys import SharePartitionKey, coordinator_key
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest

TIMEOUT_S = 60
COME_AGAIN = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
Batch = tuple[int, int, int, int]


class ShareStates:
    def __init__(self, address: str) -> None:
        self.client = Client(address)

    def __enter__(self) -> ShareStates:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()

    def wait_for_coordinator(self, key: SharePartitionKey) -> None:
        """The first question makes Kafka create the topic, which takes a while; then the state has to be loaded."""
        deadline = time.monotonic() + TIMEOUT_S
        request = FindCoordinatorRequest("", 2, [coordinator_key(key)])
        while True:
            (found,) = self.client.send(ApiKey.FIND_COORDINATOR, request, 6).coordinators
            if not found.error_code and self.summary(key)[0] not in COME_AGAIN:
                return
            assert time.monotonic() < deadline, found
            time.sleep(0.1)

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> ErrorCode:
        rows = [initialize_share_group_state.PartitionData(key.partition, state_epoch, start_offset)]
        topics = [initialize_share_group_state.InitializeStateData(key.topic_id, rows)]
        request = initialize_share_group_state.InitializeShareGroupStateRequest(key.group_id, topics)
        return self._error(self.client.send(ApiKey.INITIALIZE_SHARE_GROUP_STATE, request, 0))

    def write(
        self, key: SharePartitionKey, state_epoch: int, leader_epoch: int, start: int, done: int, *batches: Batch
    ) -> ErrorCode:
        states = [write_share_group_state.StateBatch(*batch) for batch in batches]
        rows = [write_share_group_state.PartitionData(key.partition, state_epoch, leader_epoch, start, done, states)]
        topics = [write_share_group_state.WriteStateData(key.topic_id, rows)]
        request = write_share_group_state.WriteShareGroupStateRequest(key.group_id, topics)
        return self._error(self.client.send(ApiKey.WRITE_SHARE_GROUP_STATE, request, 1))

    def read(self, key: SharePartitionKey, leader_epoch: int) -> tuple[int, int, int, list[Batch]]:
        """Error, state epoch, start offset, batches."""
        rows = [read_share_group_state.PartitionData(key.partition, leader_epoch)]
        topics = [read_share_group_state.ReadStateData(key.topic_id, rows)]
        request = read_share_group_state.ReadShareGroupStateRequest(key.group_id, topics)
        row = self._row(self.client.send(ApiKey.READ_SHARE_GROUP_STATE, request, 0))
        batches = [(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count) for b in row.state_batches]
        return row.error_code, row.state_epoch, row.start_offset, batches

    def summary(self, key: SharePartitionKey) -> tuple[int, int, int, int, int]:
        """Error, state epoch, leader epoch, start offset, number of records that are done."""
        rows = [read_share_group_state_summary.PartitionData(key.partition, -1)]
        topics = [read_share_group_state_summary.ReadStateSummaryData(key.topic_id, rows)]
        request = read_share_group_state_summary.ReadShareGroupStateSummaryRequest(key.group_id, topics)
        row = self._row(self.client.send(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, request, 1))
        return row.error_code, row.state_epoch, row.leader_epoch, row.start_offset, row.delivery_complete_count

    def delete(self, key: SharePartitionKey) -> ErrorCode:
        rows = [delete_share_group_state.PartitionData(key.partition)]
        topics = [delete_share_group_state.DeleteStateData(key.topic_id, rows)]
        request = delete_share_group_state.DeleteShareGroupStateRequest(key.group_id, topics)
        return self._error(self.client.send(ApiKey.DELETE_SHARE_GROUP_STATE, request, 0))

    def _error(self, answer: Any) -> ErrorCode:
        return ErrorCode(self._row(answer).error_code)

    def _row(self, answer: Any) -> Any:
        (topic,) = answer.results
        (row,) = topic.partitions
        return row
