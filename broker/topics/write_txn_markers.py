"""WriteTxnMarkers (27): writes the markers that end transactions into partitions (KIP-98).

v2 says the transaction's version (KIP-1228): from version 2 on a marker has a higher epoch than the records that it
ends. Kafka's coordinator sends this to the brokers that lead the partitions. Here the coordinator calls `write_marker`
itself; what remains is `kafka-transactions abort`, which ends a transaction that no coordinator knows any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.broker.steps import Pause
from kohort.broker.topics.txn_markers import write_marker
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kohort.protocol.txn_marker import TxnMarker

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call
    from kohort.broker.steps import WaitingSteps


class Waiting:
    """The markers of a request that are not durable yet."""

    def __init__(self) -> None:
        self._count = 1  # the request itself, until all markers are on their way
        self.pause = Pause()

    def begin(self) -> WritableTxnMarkerPartitionResult:
        self._count += 1
        return WritableTxnMarkerPartitionResult()

    def end(self) -> None:
        self._count -= 1
        if not self._count:
            self.pause.end()


def write_txn_markers(
    broker: Broker,
    request: WriteTxnMarkersRequest,
    call: Call,  # noqa: ARG001
) -> WaitingSteps[WriteTxnMarkersResponse]:
    waiting = Waiting()
    results: dict[int, dict[str, dict[int, WritableTxnMarkerPartitionResult]]] = {}  # by producer id, as Kafka does
    for marker in request.markers:
        yield from _write(broker, marker, waiting, results.setdefault(marker.producer_id, {}))
    waiting.end()
    if not waiting.pause.is_over:
        yield waiting.pause
    answer = []
    for producer_id, topics in results.items():
        found = []
        for name, partitions in topics.items():
            yield None
            found.append(WritableTxnMarkerTopicResult(name, list(partitions.values())))
        answer.append(WritableTxnMarkerResult(producer_id, found))
    return WriteTxnMarkersResponse(answer)


def _write(
    broker: Broker,
    asked: WritableTxnMarker,
    waiting: Waiting,
    results: dict[str, dict[int, WritableTxnMarkerPartitionResult]],
) -> WaitingSteps[None]:
    marker = TxnMarker(
        asked.producer_id,
        asked.producer_epoch,
        asked.transaction_result,
        asked.coordinator_epoch,
        asked.transaction_version,
    )
    yield None
    written: set[tuple[str, int]] = set()
    for topic in asked.topics:
        yield None
        partitions = results.setdefault(topic.name, {})
        for index in topic.partition_indexes:
            yield None
            if (topic.name, index) in written:
                continue
            written.add((topic.name, index))
            result = partitions[index] = waiting.begin()
            result.partition_index = index

            def done(error: ErrorCode, result: WritableTxnMarkerPartitionResult = result) -> None:
                result.error_code = error
                waiting.end()

            write_marker(broker, topic.name, index, marker, done)
