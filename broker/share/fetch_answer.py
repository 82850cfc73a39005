"""The answer to a ShareFetch: which partitions it names, and what it says about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from kohort.broker.share.acknowledging import Result
from kohort.broker.share.answers import PER_STEP, CurrentLeader
from kohort.broker.share.fetch_reading import Target
from kohort.broker.share.sessions import INITIAL_EPOCH, Key, ShareSession, Wanted
from kohort.broker.share.settings import settings_of
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchResponse,
)

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call
    from kohort.broker.steps import Steps

NO_LEADER = LeaderIdAndEpoch()  # of nearly all partitions: one object for all


class FetchAnswer:
    __slots__ = ("_broker", "_is_first", "_leader", "_refused", "_session")

    def __init__(self, broker: Broker, call: Call, session: ShareSession, epoch: int) -> None:
        self._broker = broker
        self._session = session
        self._is_first = epoch == INITIAL_EPOCH  # of its session: it names all partitions that were read
        self._leader = CurrentLeader(broker, call)
        self._refused: list[tuple[Wanted, ErrorCode]] = []

    def refuse(self, wanted: Wanted, error: ErrorCode) -> None:
        self._refused.append((wanted, error))

    def count(self, targets: Sequence[Target]) -> int:
        """How many partitions and ranges it may name, without partitions that were acknowledged."""
        return len(targets) + len(self._refused) + sum(len(target.acquired) for target in targets)

    def response(self, targets: Sequence[Target], acknowledged: Mapping[Key, Result]) -> Steps[ShareFetchResponse]:
        partitions: dict[Key, PartitionData] = {}
        for number, target in enumerate(targets, 1):
            error = target.error or target.led.error
            if target.is_answered or error:
                self._tell(partitions, target.wanted, self._data(target, error))
            if number % PER_STEP == 0 or len(target.acquired) > PER_STEP:
                yield
        for number, (wanted, error) in enumerate(self._refused, 1):
            self._tell(partitions, wanted, PartitionData(wanted.key[1], error, current_leader=NO_LEADER))
            if number % PER_STEP == 0:
                yield
        for number, (key, (error, message)) in enumerate(acknowledged.items(), 1):
            data = partitions.get(key)
            if data is None:
                data = partitions[key] = PartitionData(key[1], current_leader=NO_LEADER)
            data.acknowledge_error_code, data.acknowledge_error_message = error, message
            if number % PER_STEP == 0:
                yield
        topics: dict[bytes, list[PartitionData]] = {}
        for (topic_id, _), data in partitions.items():
            topics.setdefault(topic_id, []).append(data)
        return ShareFetchResponse(
            0,
            ErrorCode.NONE,
            None,
            settings_of(self._broker, self._session.group_id).record_lock_duration_ms,
            [ShareFetchableTopicResponse(topic_id, data) for topic_id, data in topics.items()],
            [NodeEndpoint(*self._leader.endpoint)] if self._leader.is_told else (),
        )

    def _data(self, target: Target, error: ErrorCode) -> PartitionData:
        data = PartitionData(target.wanted.key[1], error, current_leader=NO_LEADER)
        if self._leader.is_told_with(error):
            data.current_leader = LeaderIdAndEpoch(*self._leader.id_and_epoch)
        if target.found is not None:
            data.records = cast(Any, target.found)
            data.acquired_records = [AcquiredRecords(*each) for each in target.acquired]
        return data

    def _tell(self, partitions: dict[Key, PartitionData], wanted: Wanted, data: PartitionData) -> None:
        """Name the partition, unless nothing is new: the rules are those of fetch sessions (KIP-227)."""
        is_told = self._is_first or wanted.must_tell or bool(data.records) or data.error_code != ErrorCode.NONE
        if not self._is_first:
            wanted.must_tell = data.error_code != ErrorCode.NONE
            if data.records:
                self._session.move_to_end(wanted)
        if is_told:
            partitions[wanted.key] = data
