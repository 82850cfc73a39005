"""Fetches a log partition from its leader into a temporary folder, which is then read like any other log folder.

So everything behind this file is the same for folders and clusters: segments, transactions whose end is in a later
segment, damage. The copy costs what the page cache costs, and memory stays small. It has the batches from `start` up to
the end that the log had when it was found. Names of its files, and so the column `segment` of log_batches, are those of
the copy.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from struct import Struct
from time import monotonic, sleep

from kohort.audit.decode.access import connected
from kohort.audit.decode.folders import LogFolder
from kohort.audit.tables import FIRST_NUMBER, log_name
from kohort.client import ask
from kohort.client.answers import NOT_ALLOWED, error_name
from kohort.client.ask import EARLIEST, LED_BY_ANOTHER
from kohort.client.client import Client
from kohort.client.cluster import Cluster, TopicPartition
from kohort.client.errors import AccessDenied, ClientError, ConnectionLost
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from kohort.protocol.record_batch import BATCH_HEADER_BYTES, LOG_OVERHEAD_BYTES
from kohort.storage.layout import LOG, segment_file

SEGMENT_BYTES = 64 << 20
FETCH_BYTES = 8 << 20
MAX_WAIT_MS = 500
LEADER_TIMEOUT_S = 30.0  # how long nothing may come: an election takes some seconds
LEADER_PAUSE_S = 0.25
MIN_LENGTH = BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES

# Of a batch: base offset, length, last offset delta. See protocol/record_batch.py.
_place = Struct(">qi11xi").unpack_from

MOVED = (
    *LED_BY_ANOTHER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.OFFSET_NOT_AVAILABLE,
)


class FetchFailed(OSError):
    """The log partition cannot be fetched; the text says why."""


@contextmanager
def fetched(folder: LogFolder, start: int) -> Iterator[LogFolder]:
    """A copy of the log from offset `start` on, for a `with` block. Raises FetchFailed."""
    assert folder.access is not None
    with tempfile.TemporaryDirectory(prefix="kohort-fetch-") as place:
        spool = _Spool(place)
        try:
            if start < folder.end_offset and folder.first_offset is not None:
                with connected(folder.access) as cluster:
                    _Fetching(cluster, folder, spool).run(max(start, folder.first_offset))
        except ClientError as problem:
            raise FetchFailed(str(problem)) from problem
        finally:
            spool.close()
        yield replace(
            folder, path=place, origin=folder.path, active_base=spool.base_offset, active_bytes=spool.size_bytes
        )


class _Spool:
    """Segment files of about the same size. There is always one, if only an empty one."""

    def __init__(self, place: str) -> None:
        self._place = place
        self.base_offset = 0
        self.size_bytes = 0
        self._is_new = True
        self._file = open(os.path.join(place, segment_file(0, LOG)), "wb")  # noqa: SIM115 - close() closes it

    def append(self, batches: memoryview, base_offset: int) -> None:
        if self._is_new or self.size_bytes >= SEGMENT_BYTES:
            self._roll(base_offset)
        self._file.write(batches)
        self.size_bytes += len(batches)

    def _roll(self, base_offset: int) -> None:
        self.close()
        if self._is_new:
            os.unlink(self._file.name)
        self._is_new = False
        self.base_offset, self.size_bytes = base_offset, 0
        self._file = open(os.path.join(self._place, segment_file(base_offset, LOG)), "wb")  # noqa: SIM115

    def close(self) -> None:
        self._file.close()


class _Fetching:
    def __init__(self, cluster: Cluster, folder: LogFolder, spool: _Spool) -> None:
        self._cluster, self._folder, self._spool = cluster, folder, spool
        topic = log_name(folder.log_partition).rpartition("-")[0]
        self._place: TopicPartition = (topic, folder.log_partition - FIRST_NUMBER[topic])
        self._position = 0

    def run(self, start: int) -> None:
        self._position = start
        deadline = monotonic() + LEADER_TIMEOUT_S
        reason = "it has no leader"
        while self._position < self._folder.end_offset:
            before = self._position
            try:
                reason = self._fetch_from_leader() or reason
            except AccessDenied:
                raise
            except ConnectionLost as problem:
                reason = str(problem)
            if self._position > before:
                deadline = monotonic() + LEADER_TIMEOUT_S
            elif monotonic() > deadline:
                raise FetchFailed(f"nothing has come for {LEADER_TIMEOUT_S:.0f} s: {reason}")
            else:
                sleep(LEADER_PAUSE_S)

    def _fetch_from_leader(self) -> str | None:
        """Fetch until the end, or until this broker leads the partition no more; then returns why."""
        topic, number = self._place
        found = self._cluster.metadata([topic]).topics[0]
        leader = next((part.leader_id for part in found.partitions if part.partition_index == number), -1)
        if leader not in self._cluster.addresses:
            return None
        client = self._cluster.broker(leader)
        while self._position < self._folder.end_offset:
            part = FetchPartition(number, -1, self._position, partition_max_bytes=FETCH_BYTES)
            request = FetchRequest(
                max_wait_ms=MAX_WAIT_MS, min_bytes=1, max_bytes=FETCH_BYTES,
                topics=[FetchTopic(topic, found.topic_id, [part])],
            )  # fmt: skip
            before = self._position
            answer = client.send(ApiKey.FETCH, request)
            if answer.error_code:
                raise ConnectionLost(f"{client.address} answers Fetch with {error_name(answer.error_code)}")
            code = self._take(client, answer.responses[0].partitions[0])
            if code:
                return error_name(code)
            if self._position == before:
                return f"{client.address} sends no records, although there are some"
            if answer.throttle_time_ms > 0:
                sleep(answer.throttle_time_ms / 1000)
        return None

    def _take(self, client: Client, data: PartitionData) -> int:
        """Returns the error code if another broker has to be asked."""
        code = data.error_code
        if code in NOT_ALLOWED:
            raise AccessDenied(f"the user needs READ and DESCRIBE on the topic {self._place[0]}")
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._skip_what_is_gone(client)
            return 0
        if code in MOVED:
            return code
        if code:
            raise FetchFailed(f"{client.address} answers {error_name(code)}")
        if not self._append(bytes(data.records or b"")) and data.high_watermark < self._folder.end_offset:
            self._lost(data.high_watermark)
        return 0

    def _skip_what_is_gone(self, client: Client) -> None:
        """The broker has removed the beginning of the log, or an unclean election its end."""
        told = ask.list_offsets(client, [self._place], EARLIEST)[self._place]
        if told.error_code or told.offset <= self._position:
            self._lost(self._position)
        self._position = told.offset

    def _lost(self, end: int) -> None:
        raise FetchFailed(
            f"the log ended at offset {self._folder.end_offset} and now ends at {end}: the cluster has lost records"
            " meanwhile (unclean election); audit again"
        )

    def _append(self, data: bytes) -> bool:
        """Keep the whole batches from the position up to the end of the log. The broker cuts the last one."""
        at = begin = 0
        first = -1
        size, end_offset = len(data), self._folder.end_offset
        while at + BATCH_HEADER_BYTES <= size:
            base_offset, length, last_delta = _place(data, at)
            end = at + LOG_OVERHEAD_BYTES + length
            if length < MIN_LENGTH or end > size or base_offset >= end_offset:
                if base_offset >= end_offset:
                    self._position = max(self._position, end_offset)
                break
            if base_offset + last_delta < self._position:
                begin = end
            else:
                first = base_offset if first < 0 else first
                self._position = base_offset + last_delta + 1
            at = end
        if first < 0:
            return self._position >= end_offset
        self._spool.append(memoryview(data)[begin:at], first)
        return True
