"""Fetches from one broker all partitions that it leads, in a thread of its own."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from threading import Thread
from time import monotonic, time
from typing import TYPE_CHECKING

from kohort.broker.record.copied import FollowedPartition
from kohort.broker.record.limits import PARTITION_BYTES
from kohort.client import ask
from kohort.client.answers import NOT_ALLOWED, error_name
from kohort.client.client import Client
from kohort.client.errors import AccessDenied, ClientError, ConnectionLost
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from kohort.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kohort.protocol.record_batch import CorruptBatch
from kohort.protocol.wire import NO_UUID
from kohort.storage.errors import OutOfSpace, StorageError

if TYPE_CHECKING:
    from kohort.broker.record.follower import Follower

logger = logging.getLogger(__name__)

MAX_WAIT_MS = 250
MIN_BYTES = 65_536  # or what has come within MAX_WAIT_MS: a fetch for each commit would cost more than the copy
PAUSE_S = 1.0  # after an error that another try may end
FULL_DISK_PAUSE_S = 5.0
MAX_THROTTLE_S = 60.0  # however long a broker says: one that means it does not answer before, anyway
TELLS_DIVERGENCE = 12  # the version of Fetch that says where the histories part
NAMES_TOPICS_BY_ID = 13
CONSUMER = -1
UNDEFINED = -1

# The broker does not lead the partition, or not in this epoch: the recorder has to find out who does.
LED_BY_ANOTHER = frozenset(
    {
        *ask.LED_BY_ANOTHER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)


class LeaderThread(Thread):
    def __init__(self, recorder: Follower, node_id: int) -> None:
        super().__init__(name=f"kohort-record-{node_id}", daemon=True)
        self._recorder = recorder
        self._node_id = node_id
        self._turn = 0

    def run(self) -> None:
        """Ends when the broker leads nothing any more."""
        while self._recorder.still_needs(self):
            try:
                with Client(self._recorder.address_of(self._node_id), settings=self._recorder.settings) as client:
                    while self._recorder.still_needs(self):
                        self._round(client)
            except ConnectionLost as problem:
                self._recorder.lost_leader(self._node_id, problem)
                self._recorder.pause(PAUSE_S)
            except (ClientError, StorageError, OSError) as problem:
                self._recorder.fail(problem)
            except Exception as problem:
                logger.exception("recording from broker %d has failed; this is a bug", self._node_id)
                self._recorder.fail(problem)

    @property
    def node_id(self) -> int:
        return self._node_id

    def _round(self, client: Client) -> None:
        """One fetch."""
        now = monotonic()
        led = [part for part in self._recorder.led_by(self._node_id) if part.not_before <= now]
        if not led:
            self._recorder.pause(MAX_WAIT_MS / 1000)
            return
        version = client.newest_version(ApiKey.FETCH)
        if self._recorder.topic_id == NO_UUID:
            version = min(version, TELLS_DIVERGENCE)
        if version < TELLS_DIVERGENCE:
            self._compare(client, [part for part in led if not part.is_compared])
        answer: FetchResponse = client.send(ApiKey.FETCH, self._request(led), version)
        if answer.error_code:
            raise ConnectionLost(f"{client.address} answers Fetch with {error_name(answer.error_code)}")
        self._recorder.heard_from(self._node_id)
        fetched = 0
        by_number = {part.number: part for part in led}
        for topic in answer.responses:
            for data in topic.partitions:
                fetched += self._take(client, _asked(by_number, data.partition_index, client), data)
        throttled = min(answer.throttle_time_ms / 1000, MAX_THROTTLE_S)
        self._recorder.pause(max(self._recorder.rate.used(fetched), throttled))

    def _request(self, led: Sequence[FollowedPartition]) -> FetchRequest:
        """The partitions take turns at being the first: only the first one is sure to get a whole batch."""
        self._turn += 1
        first = self._turn % len(led)
        recorder = self._recorder
        size = min(recorder.rate.fetch_bytes, PARTITION_BYTES)
        parts = [
            FetchPartition(
                part.number,
                -1 if part.leader is None else part.leader.epoch,
                part.position,
                part.last_epoch,
                partition_max_bytes=size,
            )
            for part in (*led[first:], *led[:first])
        ]
        return FetchRequest(
            None, CONSUMER, None, MAX_WAIT_MS, MIN_BYTES, recorder.rate.fetch_bytes,
            topics=[FetchTopic(recorder.topic, recorder.topic_id, parts)],
        )  # fmt: skip

    # --- answers

    def _take(self, client: Client, part: FollowedPartition, data: PartitionData) -> int:
        """Returns the bytes that were appended."""
        recorder = self._recorder
        if data.error_code:
            self._refused(client, part, data.error_code)
            return 0
        with recorder.lock:
            if part.leader is None or part.leader.node_id != self._node_id:
                return 0  # another leader was found while this one answered
            part.heard(data.high_watermark)
            diverging = data.diverging_epoch
            if diverging is not None and diverging.epoch != UNDEFINED:
                self._cut(part, diverging.epoch, diverging.end_offset)
                return 0
            if not data.records:
                return 0
            try:
                taken = part.take(bytes(data.records), int(time() * 1000), recorder.truncate)
                recorder.has_room(True)
                return taken
            except OutOfSpace:
                recorder.has_room(False)
                part.not_before = monotonic() + FULL_DISK_PAUSE_S
            except CorruptBatch as problem:
                recorder.tell(f"{recorder.topic}-{part.number}: {client.address} has sent a damaged batch: {problem}")
                part.not_before = monotonic() + FULL_DISK_PAUSE_S
        return 0

    def _refused(self, client: Client, part: FollowedPartition, code: int) -> None:
        recorder = self._recorder
        name = f"{recorder.topic}-{part.number}"
        if code in NOT_ALLOWED:
            raise AccessDenied(f"{name}: the user needs READ and DESCRIBE on the topic {recorder.topic}")
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._find_place(client, part)
            return
        part.not_before = monotonic() + PAUSE_S
        if code in LED_BY_ANOTHER:
            recorder.look_for_leaders()
        else:
            recorder.tell(f"{name}: {client.address} answers {error_name(code)}; trying again")

    def _find_place(self, client: Client, part: FollowedPartition) -> None:
        """The leader has nothing at the position: its log begins later, or ends earlier."""
        recorder = self._recorder
        place = (recorder.topic, part.number)
        start, end = (ask.list_offsets(client, [place], which).get(place) for which in (ask.EARLIEST, ask.LATEST))
        if start is None or end is None or start.error_code or end.error_code:
            part.not_before = monotonic() + PAUSE_S
            recorder.look_for_leaders()
        elif part.position < start.offset:
            with recorder.lock:
                first = part.position
                if part.jump_to(start.offset):
                    recorder.tell(
                        f"{place[0]}-{place[1]}: the cluster has removed offsets {first} to {start.offset - 1} before"
                        " they were recorded; they are missing in the recording"
                    )
        elif part.position > end.offset:
            self._compare(client, [part])
            with recorder.lock:
                if part.position > end.offset:  # the leader does not know our last epoch either
                    self._told_of_cut(part, part.truncate_to(end.offset, recorder.truncate))

    def _compare(self, client: Client, parts: Sequence[FollowedPartition]) -> None:
        """Ask where our last epoch ends for the leader, and cut the copy back if it goes beyond."""
        asked = [
            OffsetForLeaderPartition(part.number, UNDEFINED, part.last_epoch)
            for part in parts
            if part.last_epoch != UNDEFINED
        ]
        by_number = {part.number: part for part in parts}
        if asked:
            request = OffsetForLeaderEpochRequest(CONSUMER, [OffsetForLeaderTopic(self._recorder.topic, asked)])
            answer = client.send(ApiKey.OFFSET_FOR_LEADER_EPOCH, request)
            for topic in answer.topics:
                for told in topic.partitions:
                    part = _asked(by_number, told.partition, client)
                    with self._recorder.lock:
                        if told.error_code or told.leader_epoch == UNDEFINED:
                            continue
                        if told.leader_epoch < part.last_epoch or told.end_offset < part.position:
                            self._cut(part, told.leader_epoch, told.end_offset)
        for part in parts:
            part.is_compared = True

    def _cut(self, part: FollowedPartition, epoch: int, end_offset: int) -> None:
        self._told_of_cut(part, part.diverged(epoch, end_offset, self._recorder.truncate))

    def _told_of_cut(self, part: FollowedPartition, count: int) -> None:
        if count:
            self._recorder.tell(
                f"{self._recorder.topic}-{part.number}: the last {count} offsets of the recording are not in the log of"
                f" the leader, broker {self._node_id}, and were removed: the cluster has lost them (unclean election)"
            )


def _asked(parts: Mapping[int, FollowedPartition], number: int, client: Client) -> FollowedPartition:
    """The partition that an answer is about."""
    if number not in parts:
        raise ConnectionLost(f"{client.address} answers about partition {number}, which was not asked for")
    return parts[number]
