"""Words for telling what happened to groups, as a data folder with the log that it left: real appends, real damage.

    logs = Logs(tmp_path)
    shop = logs.group("shop")                                  # in the log partition that it belongs to
    shop.generation({"m1": ["orders-0", "orders-1"]})          # m1 subscribes to orders and gets both partitions
    shop.commit({"orders-0": 10}, by="m1")                     # a second later
    shop.later(60_000).generation({"m1": ["orders-0"], "m2": ["orders-1"]}, cause="member joined", trigger="m2")
    shop.tombstone("orders-0")
    shop.empty()
    logs.close()
    logs.flip_a_byte(shop.log_partition, log_offset=3)         # damage is done to the closed files

A partition is written topic-number. Every word about a group appends one batch and gives back the log offset of its
first record. Each group has a clock of its own, which goes on by a second with each append.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from kohort.coordinator.outcome import Record
from kohort.coordinator.partitioner import partition_of
from kohort.coordinator.record_codec import batches
from kohort.protocol.log_records import GROUP_METADATA, OFFSET_COMMIT, encode_key, encode_value
from kohort.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from kohort.protocol.messages.log_group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kohort.protocol.messages.log_offset_commit import OffsetCommitKey, OffsetCommitValue
from kohort.protocol.record_batch import Headers, NewRecord, build_batch, build_marker, parse_header, with_base_offset
from kohort.protocol.subscription import pack_assignment, pack_subscription
from kohort.protocol.wire import NO_UUID
from kohort.storage.cleanable import cleanable_range
from kohort.storage.compactor import Compaction
from kohort.storage.disk import RealDisk
from kohort.storage.log_config import LogConfig
from kohort.storage.log_directory import LogDirectory
from kohort.storage.segment import Segment

START = 1_790_000_000_000  # some day, in ms
TOPIC = "__consumer_offsets"
LOG_PARTITIONS = 50
STEP_MS = 1_000


def topic_id(topic: str) -> bytes:
    """The id that a topic has in these logs, always the same."""
    return blake2b(topic.encode(), digest_size=16).digest()


def parse(partition: str) -> tuple[str, int]:
    topic, _, number = partition.rpartition("-")
    return topic, int(number)


def by_topic(partitions: Iterable[str]) -> list[tuple[str, list[int]]]:
    ordered = sorted(map(parse, partitions))
    return [(topic, [number for _, number in some]) for topic, some in groupby(ordered, key=lambda pair: pair[0])]


class Logs:
    """A data folder. Write through `group` or `append`, then `close` it."""

    def __init__(self, folder: Path, *, segment_bytes: int = 104_857_600, start: int = START) -> None:
        self.path = folder
        self.start = start
        folder.mkdir(parents=True, exist_ok=True)
        self.config = LogConfig(cleanup_policy="compact", segment_bytes=segment_bytes, file_delete_delay_ms=0)
        self._open()

    def _open(self) -> None:
        self._directory = LogDirectory.open(RealDisk(), str(self.path), lambda _: self.config)

    def group(self, group_id: str, *, log_partition: int | None = None, at: int | None = None) -> Group:
        """`log_partition`: where its records go, if not where they belong. `at`: when it begins."""
        place = partition_of(group_id, LOG_PARTITIONS) if log_partition is None else log_partition
        return Group(self, group_id, place, self.start if at is None else at)

    def group_in(self, log_partition: int, name: str = "group", *, at: int | None = None) -> Group:
        """A group whose own place this log partition is; its id begins with `name`."""
        for number in range(100_000):
            if partition_of(f"{name}-{number}", LOG_PARTITIONS) == log_partition:
                return self.group(f"{name}-{number}", at=at)
        raise AssertionError(f"no name for log partition {log_partition}")

    def append(self, log_partition: int, batch: bytes, at: int, *, topic: str = TOPIC) -> int:
        """Any batch, numbered by the log; its first offset."""
        return self._directory.log(topic, log_partition).append(batch, now=at).first_offset

    def cut_off(self, topic: str, log_partition: int, offset: int) -> None:
        """Delete the records before this offset, as DeleteRecords does, with the files that have no others."""
        log = self._directory.log(topic, log_partition)
        log.advance_log_start(offset)
        gone = [one for one, after in pairwise(log.segments) if after.base_offset <= offset]
        log.delete_segments(gone, self.start)
        log.purge_deleted(self.start)
        self._directory.checkpoint()

    def end_offset(self, log_partition: int) -> int:
        return self._directory.log(TOPIC, log_partition).log_end_offset

    def roll(self, log_partition: int, *, topic: str = TOPIC) -> None:
        """A new segment, as after 100 MB: what lies before it may be compacted."""
        self._directory.log(topic, log_partition).roll(self.start)
        self._directory.flush()
        self._directory.checkpoint()

    def compact(self, log_partition: int, *, at: int | None = None) -> int:
        """The broker's own compaction over all but the active segment; up to where it went."""
        log = self._directory.log(TOPIC, log_partition)
        now = self.start if at is None else at
        segments = log.cleanable_segments()
        found = cleanable_range(
            segments, log.segments[len(segments) :], cleaned_up_to=log.cleaned_up_to,
            last_stable_offset=log.log_end_offset, config=self.config, now=now,
        )  # fmt: skip
        assert found is not None, "there is nothing to compact; roll first"

        def swap(cleaned: Segment, old: Sequence[Segment]) -> None:
            log.swap_segments([cleaned], old, now)

        compaction = Compaction(found, self.config, now, log.prepare_swap, swap)
        for _ in compaction.steps():
            pass
        assert compaction.cleaned_up_to is not None
        log.flush(now)
        log.cleaned_up_to = compaction.cleaned_up_to
        log.purge_deleted(now)
        self._directory.checkpoint()
        return log.cleaned_up_to

    def close(self) -> Path:
        """Stop cleanly, as a broker does; the data folder."""
        self._directory.close()
        return self.path

    def reopen(self) -> None:
        """Go on after `close`."""
        self._open()

    # --- damage, to the files of a closed folder ------------------------------------------------------------------

    def folder(self, log_partition: int) -> Path:
        return self.path / f"{TOPIC}-{log_partition}"

    def segments(self, log_partition: int) -> list[Path]:
        return sorted(self.folder(log_partition).glob("*.log"))

    def flip_a_byte(self, log_partition: int, log_offset: int, *, at: int = 70) -> None:
        """Change a byte of the batch with this offset; from byte 61 on lie its records, before that its header."""
        path, data, position = self._find(log_partition, log_offset)
        data[position + at] ^= 0x55
        path.write_bytes(data)

    def renumber(self, log_partition: int, log_offset: int, *, by: int) -> None:
        """Give the batch with this offset, and those after it in its file, other offsets: they lie outside the sum."""
        path, data, position = self._find(log_partition, log_offset)
        while position < len(data):
            header = parse_header(data, position)
            one = bytearray(data[position : position + header.size_bytes])
            with_base_offset(one, header.base_offset + by, header.partition_leader_epoch)
            data[position : position + header.size_bytes] = one
            position += header.size_bytes
        path.write_bytes(data)

    def remove(self, log_partition: int, log_offset: int) -> None:
        """Take the batch with this offset out of its file."""
        path, data, position = self._find(log_partition, log_offset)
        del data[position : position + parse_header(data, position).size_bytes]
        path.write_bytes(data)

    def cut_the_tail(self, log_partition: int, *, by: int) -> None:
        """The last bytes of the log never reached the disk."""
        path = self.segments(log_partition)[-1]
        path.write_bytes(path.read_bytes()[:-by])

    def add_to_the_tail(self, log_partition: int, garbage: bytes) -> None:
        path = self.segments(log_partition)[-1]
        path.write_bytes(path.read_bytes() + garbage)

    def _find(self, log_partition: int, log_offset: int) -> tuple[Path, bytearray, int]:
        for path in self.segments(log_partition):
            data, position = bytearray(path.read_bytes()), 0
            while position < len(data):
                header = parse_header(data, position)
                if header.base_offset <= log_offset <= header.last_offset:
                    return path, data, position
                position += header.size_bytes
        raise AssertionError(f"no batch with offset {log_offset} in log partition {log_partition}")


class Group:
    """One group and what is written about it. Words for KIP-848 groups: tests/audit/new_groups.py."""

    def __init__(self, logs: Logs, group_id: str, log_partition: int, now: int) -> None:
        self.logs = logs
        self.group_id = group_id
        self.log_partition = log_partition
        self.now = now  # when the next thing happens
        self.number = 0  # the generation in force

    def later(self, ms: int) -> Group:
        """Let time pass."""
        self.now += ms
        return self

    def append(self, *records: Record) -> int:
        """As the coordinator writes them."""
        first = None
        for batch in batches(records, 0, self.now):
            at = self.logs.append(self.log_partition, batch, self.now)
            first = at if first is None else first
        assert first is not None
        self.now += STEP_MS
        return first

    def raw(self, key: bytes | None, value: bytes | None, headers: Headers = ()) -> int:
        """A record of any bytes."""
        return self._append_batch(build_batch([(key, value, headers)], timestamp=self.now, base_sequence=0))

    def _append_batch(self, batch: bytes) -> int:
        offset = self.logs.append(self.log_partition, batch, self.now)
        self.now += STEP_MS
        return offset

    # --- generations ----------------------------------------------------------------------------------------------

    def generation(self, assigned: Mapping[str, Sequence[str]], **options: Any) -> int:
        """The group's next generation, see `generation_record`."""
        return self.append(self.generation_record(assigned, **options))

    def generation_record(
        self, assigned: Mapping[str, Sequence[str]], *, number: int | None = None,
        subscribed: Mapping[str, Sequence[str]] | Sequence[str] | None = None,
        owned: Mapping[str, Sequence[str]] | None = None, protocol: str = "range", leader: str | None = None,
        instances: Mapping[str, str] | None = None, rebalance_timeout_ms: int = 300_000,
        session_timeout_ms: int = 45_000, join_ms: int = 100, sync_ms: int = 20,
        cause: str | None = None, trigger: str = "",
    ) -> Record:  # fmt: skip
        """The group's next generation. Members subscribe to the topics that they get, unless `subscribed` says
        otherwise: topics for all of them, or for some by name. With a `cause` the record has Kohort's headers."""
        self.number = self.number + 1 if number is None else number
        topics = {parse(partition)[0] for partitions in assigned.values() for partition in partitions}
        members = []
        for member_id, partitions in assigned.items():
            if isinstance(subscribed, Mapping):
                wanted = list(subscribed.get(member_id, sorted(topics)))
            else:
                wanted = sorted(topics if subscribed is None else subscribed)
            subscription = ConsumerProtocolSubscription(
                wanted, None, [TopicPartition(*some) for some in by_topic((owned or {}).get(member_id, ()))]
            )
            assignment = ConsumerProtocolAssignment([TopicPartition(*some) for some in by_topic(partitions)])
            members.append(
                MemberMetadata(
                    member_id, (instances or {}).get(member_id), f"client-of-{member_id}", "/127.0.0.1",
                    rebalance_timeout_ms, session_timeout_ms, pack_subscription(subscription, 1),
                    pack_assignment(assignment, 1),
                )
            )  # fmt: skip
        first = next(iter(assigned), None) if leader is None else leader
        return self._group_record("consumer", protocol, first, members, join_ms, sync_ms, cause, trigger)

    def empty(self, *, number: int | None = None, cause: str | None = None, trigger: str = "") -> int:
        """All members have left."""
        self.number = self.number + 1 if number is None else number
        return self.append(self._group_record("consumer", None, None, [], 0, 0, cause, trigger))

    def _group_record(
        self, protocol_type: str, protocol: str | None, leader: str | None, members: list[MemberMetadata],
        join_ms: int, sync_ms: int, cause: str | None, trigger: str,
    ) -> Record:  # fmt: skip
        joined = self.now - sync_ms
        headers: Headers = ()
        if cause is not None:
            headers = (
                (b"kohort.join.start.ms", b"%d" % (joined - join_ms)),
                (b"kohort.cause", cause.encode()),
                (b"kohort.trigger", trigger.encode()),
            )
        value = GroupMetadataValue(protocol_type, self.number, protocol, leader, joined, members)
        return Record(GROUP_METADATA, GroupMetadataKey(self.group_id), value, headers)

    def delete(self) -> int:
        """The group is gone."""
        return self.append(Record(GROUP_METADATA, GroupMetadataKey(self.group_id), None))

    # --- offsets --------------------------------------------------------------------------------------------------

    def commit(
        self, offsets: Mapping[str, int], *, by: str | None = None, generation: int | None = None, metadata: str = "",
        ids: Mapping[str, bytes] | None = None, expires_in_ms: int | None = None,
    ) -> int:  # fmt: skip
        """`by` a member, of the generation in force unless told otherwise; "" is a simple consumer. Without `by` the
        record has no header, as in a Kafka's log. `ids`: topic ids other than the usual ones."""
        headers: Headers = ()
        if by is not None:
            named = generation if generation is not None else (self.number if by else -1)
            headers = ((b"kohort.member", by.encode()), (b"kohort.generation", b"%d" % named))
        records = []
        for partition, offset in offsets.items():
            topic, number = parse(partition)
            key = OffsetCommitKey(self.group_id, topic, number)
            if expires_in_ms is not None:
                value = OffsetCommitValue(offset, -1, metadata, self.now, self.now + expires_in_ms)
                records.append(Record(OFFSET_COMMIT, key, value, headers, 1))
            else:
                its_id = (ids or {}).get(topic, topic_id(topic))
                value = OffsetCommitValue(offset, -1, metadata, self.now, -1, its_id)
                records.append(Record(OFFSET_COMMIT, key, value, headers))
        return self.append(*records)

    def commits(
        self, partition: str, offsets: Iterable[int], *, by: str | None = None, every_ms: int = STEP_MS
    ) -> list[int]:
        """One after the other; the log offset of each."""
        places = []
        for offset in offsets:
            places.append(self.commit({partition: offset}, by=by))
            self.now += every_ms - STEP_MS
        return places

    def tombstone(self, *partitions: str) -> int:
        """The offsets of these partitions are deleted, or have expired."""
        return self.append(
            *(Record(OFFSET_COMMIT, OffsetCommitKey(self.group_id, *parse(one)), None) for one in partitions)
        )

    def commit_in_transaction(
        self, offsets: Mapping[str, int], *, producer_id: int = 4000, epoch: int = 0
    ) -> int:  # fmt: skip
        """Pending until `end_transaction`."""
        records: list[NewRecord] = []
        for partition, offset in offsets.items():
            value = OffsetCommitValue(offset, -1, "", self.now, -1, NO_UUID)
            key = encode_key(OFFSET_COMMIT, OffsetCommitKey(self.group_id, *parse(partition)))
            records.append((key, encode_value(OFFSET_COMMIT, value)))
        return self._append_batch(
            build_batch(
                records, timestamp=self.now, producer_id=producer_id, producer_epoch=epoch, base_sequence=0,
                transactional=True,
            )
        )  # fmt: skip

    def end_transaction(self, *, commit: bool, producer_id: int = 4000, epoch: int = 0) -> int:
        return self._append_batch(
            build_marker(commit, producer_id=producer_id, producer_epoch=epoch, coordinator_epoch=0, timestamp=self.now)
        )
