"""Words for telling compaction stories: a small log, what is written to it, and what a replay of it gives."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from kohort.protocol.record_batch import BatchHeader, Record, build_batch, build_marker, parse_marker, read_records
from kohort.storage.cleanable import CleanableRange, cleanable_range
from kohort.storage.compactor import DEFAULT_MAX_MAP_BYTES, Compaction
from kohort.storage.disk import Disk
from kohort.storage.log_config import LogConfig
from kohort.storage.partition_log import PartitionLog
from kohort.storage.segment import Segment

CONFIG = LogConfig(
    cleanup_policy="compact",
    segment_bytes=100_000,
    delete_retention_ms=1_000,
    min_cleanable_dirty_ratio=0.5,
    file_delete_delay_ms=0,
)
NOW = 1_000_000

State = dict[bytes, bytes]


@dataclass
class Story:
    """One log, opened as the broker opens it, with what its checkpoint files would say."""

    disk: Disk
    folder: str = "data/offsets-0"
    config: LogConfig = CONFIG
    now: int = NOW
    recovery_point: int = 0
    cleaned_up_to: int = 0
    log: PartitionLog = field(init=False)

    def __post_init__(self) -> None:
        self.open()

    def open(self) -> None:
        self.log = PartitionLog.open(
            self.disk,
            self.folder,
            self.config,
            recovery_point=self.recovery_point,
            cleaned_up_to=self.cleaned_up_to,
            now=self.now,
        )

    def reopened_on(self, disk: Disk) -> "Story":
        """The same data folder, found by the next process."""
        return replace(self, disk=disk)

    # --- writing ----------------------------------------------------------------------------------

    def write(self, *records: tuple[bytes | None, bytes | None], producer: int | None = None) -> int:
        """One batch; with a producer, one of its transaction. Returns its first offset."""
        if producer is None:
            batch = build_batch(records, timestamp=self.now, base_sequence=0)
        else:
            batch = build_batch(
                records,
                timestamp=self.now,
                producer_id=producer,
                producer_epoch=3,
                base_sequence=0,
                transactional=True,
            )
        return self.log.append(batch, now=self.now, leader_epoch=5).first_offset

    def end_transaction(self, producer: int, *, commit: bool) -> int:
        marker = build_marker(commit, producer_id=producer, producer_epoch=3, coordinator_epoch=0, timestamp=self.now)
        return self.log.append(marker, now=self.now, leader_epoch=5).first_offset

    def roll(self) -> None:
        """A new segment; what lies below is durable, and the checkpoint says so."""
        self.log.roll(self.now)
        self.checkpoint()

    def checkpoint(self) -> None:
        self.log.flush(self.now)
        self.recovery_point = self.log.recovery_point
        self.log.checkpointed(self.recovery_point)

    # --- compacting -------------------------------------------------------------------------------

    def cleanable(self, last_stable_offset: int | None = None) -> CleanableRange | None:
        segments = self.log.cleanable_segments()
        return cleanable_range(
            segments,
            self.log.segments[len(segments) :],
            cleaned_up_to=self.cleaned_up_to,
            last_stable_offset=self.log.log_end_offset if last_stable_offset is None else last_stable_offset,
            config=self.config,
            now=self.now,
        )

    def compaction(
        self, last_stable_offset: int | None = None, *, max_map_bytes: int = DEFAULT_MAX_MAP_BYTES
    ) -> Compaction:
        found = self.cleanable(last_stable_offset)
        assert found is not None, "there is nothing to compact"

        def swap(cleaned: Segment, old: Sequence[Segment]) -> None:
            self.log.swap_segments([cleaned], old, self.now)

        return Compaction(found, self.config, self.now, self.log.prepare_swap, swap, max_map_bytes=max_map_bytes)

    def compact(
        self, last_stable_offset: int | None = None, *, max_map_bytes: int = DEFAULT_MAX_MAP_BYTES
    ) -> Compaction:
        """A whole run, up to the checkpoint of the cleaner."""
        compaction = self.compaction(last_stable_offset, max_map_bytes=max_map_bytes)
        for _ in compaction.steps():
            pass
        self.finish(compaction)
        return compaction

    def finish(self, compaction: Compaction) -> None:
        self.log.flush(self.now)
        if compaction.cleaned_up_to is not None:
            self.cleaned_up_to = self.log.cleaned_up_to = compaction.cleaned_up_to
        self.log.purge_deleted(self.now)

    # --- reading ----------------------------------------------------------------------------------

    def headers(self) -> list[BatchHeader]:
        return [header for header, _, _ in self.log.batches()]

    def batches(self) -> list[bytes]:
        return [chunk[at : at + header.size_bytes] for header, chunk, at in self.log.batches()]

    def records(self) -> list[Record]:
        """All data records, decided or not."""
        return [
            record
            for header, chunk, at in self.log.batches()
            if not header.is_control
            for record in read_records(chunk, at, header=header)
        ]

    def offsets(self) -> list[int]:
        return [record.offset for record in self.records()]

    def state(self) -> State:
        """Newest value per key; a transaction counts when its commit marker comes."""
        return replay(
            (header, list(read_records(chunk, at, header=header))) for header, chunk, at in self.log.batches()
        )


def replay(batches: Iterable[tuple[BatchHeader, list[Record]]]) -> State:
    state: dict[bytes, tuple[int, bytes | None]] = {}
    pending: dict[int, list[Record]] = {}
    for header, records in batches:
        if header.is_control:
            for record in records:
                marker = parse_marker(record.key, record.value)
                decided = pending.pop(header.producer_id, [])
                if marker and marker.commit:
                    _apply(state, decided)
        elif header.is_transactional:
            pending.setdefault(header.producer_id, []).extend(records)
        else:
            _apply(state, records)
    return {key: value for key, (_, value) in sorted(state.items()) if value is not None}


def _apply(state: dict[bytes, tuple[int, bytes | None]], records: list[Record]) -> None:
    for record in records:
        if record.key is not None and record.offset >= state.get(record.key, (-1, None))[0]:
            state[record.key] = (record.offset, record.value)
