"""Requests about transactions, made from plain words: partitions as (topic, index), offsets in dicts.

`version` decides where versions say the same in different fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kohort.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kohort.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kohort.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kohort.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kohort.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

FIRST_ADD_OF_BROKERS = 4  # AddPartitionsToTxn from here on lists transactions
TIMEOUT_MS = 10_000

Partition = tuple[str, int]
Offsets = Mapping[Partition, int]


class Identity(NamedTuple):
    """Who a transactional producer says it is."""

    transactional_id: str
    producer_id: int
    epoch: int


def _by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return topics


def add_partitions_request(
    who: Identity, partitions: Iterable[Partition], version: int, *, verify: bool = False
) -> AddPartitionsToTxnRequest:
    topics = [AddPartitionsToTxnTopic(name, indexes) for name, indexes in _by_topic(partitions).items()]
    if version < FIRST_ADD_OF_BROKERS:
        return AddPartitionsToTxnRequest((), *who, topics)
    return AddPartitionsToTxnRequest([AddPartitionsToTxnTransaction(*who, verify, topics)])


def add_offsets_request(who: Identity, group: str) -> AddOffsetsToTxnRequest:
    return AddOffsetsToTxnRequest(*who, group)


def txn_commit_request(
    who: Identity,
    group: str,
    offsets: Offsets,
    generation: int = -1,
    member_id: str = "",
    instance: str | None = None,
    *,
    metadata: str | None = "",
) -> TxnOffsetCommitRequest:
    """Without a generation and a member id it is the commit of somebody who is no member."""
    topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
    for (topic, index), offset in offsets.items():
        topics.setdefault(topic, []).append(TxnOffsetCommitRequestPartition(index, offset, -1, metadata))
    rows = [TxnOffsetCommitRequestTopic(topic, partitions) for topic, partitions in topics.items()]
    transactional_id, producer_id, epoch = who
    return TxnOffsetCommitRequest(transactional_id, group, producer_id, epoch, generation, member_id, instance, rows)


def produce_request(
    transactional_id: str | None,
    batches: Mapping[Partition, bytes],
    *,
    acks: int = -1,
    ids: Mapping[str, bytes] | None = None,
) -> ProduceRequest:
    """`ids` of topics, for versions that name topics by id."""
    topics: dict[str, list[PartitionProduceData]] = {}
    for (topic, index), batch in batches.items():
        topics.setdefault(topic, []).append(PartitionProduceData(index, batch))
    rows = [TopicProduceData(topic, (ids or {}).get(topic, bytes(16)), data) for topic, data in topics.items()]
    return ProduceRequest(transactional_id, acks, TIMEOUT_MS, rows)


def markers_request(
    producer_id: int,
    epoch: int,
    partitions: Iterable[Partition],
    *,
    commit: bool,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
) -> WriteTxnMarkersRequest:
    topics = [WritableTxnMarkerTopic(name, indexes) for name, indexes in _by_topic(partitions).items()]
    marker = WritableTxnMarker(producer_id, epoch, commit, topics, coordinator_epoch, transaction_version)
    return WriteTxnMarkersRequest([marker])


def describe_producers_request(*partitions: Partition) -> DescribeProducersRequest:
    return DescribeProducersRequest([TopicRequest(name, p) for name, p in _by_topic(partitions).items()])
