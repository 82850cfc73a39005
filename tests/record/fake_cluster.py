"""A broker that leads one partition of __consumer_offsets, for what no real one does when asked: it loses records,
changes its epoch, is of another age, or has removed the beginning of its log. Speaks our own codecs."""

from __future__ import annotations

import socket
from threading import RLock
from typing import Any

from kohort.broker.record.recorder import OFFSETS_TOPIC
from kohort.client.ask import EARLIEST
from kohort.protocol.api_keys import APIS, ApiKey
from kohort.protocol.codec import request_decoder, response_encoder
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.headers import has_response_tags, read_request_header
from kohort.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from kohort.protocol.messages.fetch import (
    EpochEndOffset as DivergingEpoch,
)
from kohort.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kohort.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from kohort.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kohort.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kohort.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kohort.protocol.record_batch import build_batch, parse_header, with_base_offset
from tests.client.scripted_server import ScriptedServer, answer, read_request

TOPIC_ID = b"the topic's id.."
SERVED = (
    ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA, ApiKey.LIST_GROUPS, ApiKey.API_VERSIONS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
)  # fmt: skip


class FakeCluster(ScriptedServer):
    def __init__(self, *, newest_fetch: int = 18) -> None:
        self.newest_fetch = newest_fetch
        self.lock = RLock()
        self.batches: list[bytes] = []
        self.start = 0
        self.epoch = 0
        self.is_newly_elected = False
        self.topic_id = TOPIC_ID
        self.partitions = 1
        self.groups: list[str] = []  # that ListGroups tells
        self.error = 0  # of the topic, in Metadata
        self.largest_answer = 0
        self.throttle_ms = 0
        self.lies: list[str] = []  # about what the next answers are wrong: "fetch" or "metadata"
        super().__init__(self._talk)

    # --- what happens to the log

    def append(self, *values: bytes, at: int | None = None) -> bytes:
        """A batch of these records. Later offsets than the end, `at`, leave a gap."""
        with self.lock:
            data = bytearray(build_batch([(b"key", value) for value in values], timestamp=1_800_000_000_000))
            with_base_offset(data, self.end if at is None else at, self.epoch, 0)
            self.batches.append(bytes(data))
            return bytes(data)

    def unclean_election(self, keep: int) -> None:
        """Only the first batches are left, and the next ones are of a new leader."""
        with self.lock:
            del self.batches[keep:]
            self.epoch += 1
            self.is_newly_elected = True

    @property
    def end(self) -> int:
        return parse_header(self.batches[-1]).next_offset if self.batches else self.start

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The last epoch up to this one, and where it ends."""
        found = -1
        for batch in self.batches:
            header = parse_header(batch)
            if header.partition_leader_epoch > epoch:
                return (found, header.base_offset) if found >= 0 else (-1, -1)
            found = header.partition_leader_epoch
        return (found, self.end) if found >= 0 else (-1, -1)

    # --- answers

    def _talk(self, connection: socket.socket) -> None:
        while frame := read_request(connection):
            header, pos = read_request_header(frame)
            key, version = header.api_key, header.api_version
            request = request_decoder(key, version)(frame, pos)
            with self.lock:
                response = self._answer_to(request)
            body = response_encoder(key, version)(response)
            parts = body if isinstance(body, list) else [body]
            tags = b"\0" if has_response_tags(key, version) else b""
            answer(connection, frame, tags + b"".join(map(bytes, parts)))

    def _answer_to(self, request: Any) -> Any:
        match request:
            case MetadataRequest():
                return self._metadata()
            case FetchRequest():
                return self._fetch(request)
            case ListOffsetsRequest():
                return self._list_offsets(request)
            case ListGroupsRequest():
                return ListGroupsResponse(0, 0, [ListedGroup(group, "consumer") for group in self.groups])
            case OffsetForLeaderEpochRequest():
                asked = request.topics[0].partitions[0]
                told = EpochEndOffset(0, asked.partition, *self.end_of_epoch(asked.leader_epoch))
                return OffsetForLeaderEpochResponse(0, [OffsetForLeaderTopicResult(OFFSETS_TOPIC, [told])])
        newest = {ApiKey.FETCH: self.newest_fetch}
        apis = [ApiVersion(key, APIS[key].min_version, newest.get(key, APIS[key].max_version)) for key in SERVED]
        return ApiVersionsResponse(0, apis)

    def _metadata(self) -> MetadataResponse:
        host, port = self.address.split(":")
        numbers = [-7] if self._lies("metadata") else range(self.partitions)
        parts = [MetadataResponsePartition(0, number, 1, self.epoch) for number in numbers]
        topic = MetadataResponseTopic(self.error, OFFSETS_TOPIC, self.topic_id, True, [] if self.error else parts)
        return MetadataResponse(0, [MetadataResponseBroker(1, host, int(port))], "cluster", 1, [topic])

    def _list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        (asked,) = request.topics[0].partitions
        offset = (self.start if asked.timestamp == EARLIEST else self.end) if asked.partition_index == 0 else 0
        told = ListOffsetsPartitionResponse(asked.partition_index, 0, timestamp=-1, offset=offset)
        return ListOffsetsResponse(0, [ListOffsetsTopicResponse(OFFSETS_TOPIC, [told])])

    def _fetch(self, request: FetchRequest) -> FetchResponse:
        (topic,) = request.topics
        told = [self._partition(each, request.max_bytes) for each in topic.partitions if each.partition == 0]
        told += [PartitionData(each.partition, 0, 0) for each in topic.partitions if each.partition]
        self.largest_answer = max(self.largest_answer, *(len(bytes(each.records or b"")) for each in told))
        if self._lies("fetch"):
            told[0].partition_index = 255
        return FetchResponse(self.throttle_ms, 0, 0, [FetchableTopicResponse(OFFSETS_TOPIC, self.topic_id, told)])

    def _lies(self, about: str) -> bool:
        if about in self.lies:
            self.lies.remove(about)
            return True
        return False

    def _partition(self, asked: Any, max_bytes: int) -> PartitionData:
        if asked.current_leader_epoch not in (-1, self.epoch):
            return PartitionData(0, ErrorCode.FENCED_LEADER_EPOCH)
        if self.is_newly_elected and asked.current_leader_epoch == -1:  # a client that is too old to say the epoch
            self.is_newly_elected = False
            return PartitionData(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if asked.last_fetched_epoch >= 0:
            epoch, end = self.end_of_epoch(asked.last_fetched_epoch)
            if epoch < asked.last_fetched_epoch or end < asked.fetch_offset:
                return PartitionData(0, 0, self.end, diverging_epoch=DivergingEpoch(epoch, end))
        if not self.start <= asked.fetch_offset <= self.end:
            return PartitionData(0, ErrorCode.OFFSET_OUT_OF_RANGE)
        left = [batch for batch in self.batches if parse_header(batch).next_offset > asked.fetch_offset]
        data = b"".join(left)[: max(len(left[0]) if left else 0, min(asked.partition_max_bytes, max_bytes))]
        return PartitionData(0, 0, self.end, self.end, self.start, records=data)
