"""How fast logs are decoded into Arrow, with every CRC checked: records per second of CPU time, on one core.

    python -m benchmarks.audit_decode [records]

The shapes of logs: commits one to a batch, as a broker with little to do writes them, and hundreds to a batch; with the
record headers that Kohort writes, and without, as Kafka does; and generations of ten members, in each of which one
partition has moved. Each log is decoded five times and the best is shown.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from kohort.audit.decode import read_tables
from kohort.audit.decode.folders import find_logs
from kohort.protocol.log_records import GROUP_METADATA, OFFSET_COMMIT, encode_key, encode_value
from kohort.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from kohort.protocol.messages.log_group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kohort.protocol.messages.log_offset_commit import OffsetCommitKey, OffsetCommitValue
from kohort.protocol.record_batch import Headers, NewRecord, build_batch
from kohort.protocol.subscription import pack_assignment, pack_subscription

NOW = 1_790_000_000_000
GROUPS, TOPICS, PARTITIONS, MEMBERS = 40, 3, 32, 10
RUNS = 5
GENERATIONS = 20_000
TABLES = ("log_batches", "offset_commits", "group_generations", "member_assignments", "other_records")


def member_id(group: int, member: int) -> str:
    return f"consumer-{group:03d}-{member}-5f0ce5ab-44e2-4b27-9a6c-{group:06d}{member:06d}"


def commits(count: int, *, with_headers: bool) -> Iterator[NewRecord]:
    """Members of many groups in turn, each committing the partitions that it owns."""
    for number in range(count):
        partition, topic = number % PARTITIONS, number // PARTITIONS % TOPICS
        group = number // (PARTITIONS * TOPICS) % GROUPS
        member = member_id(group, partition % MEMBERS).encode()
        headers: Headers = ((b"kohort.member", member), (b"kohort.generation", b"%d" % (7 * group)))
        value = OffsetCommitValue(number, -1, "", NOW + number, topic_id=bytes([topic + 1]) * 16)
        key = encode_key(OFFSET_COMMIT, OffsetCommitKey(f"service-{group:03d}", f"topic-{topic}", partition))
        yield key, encode_value(OFFSET_COMMIT, value), headers if with_headers else ()


def generations(count: int) -> Iterator[NewRecord]:
    owners = [number % MEMBERS for number in range(TOPICS * PARTITIONS)]
    subscription = pack_subscription(ConsumerProtocolSubscription([f"topic-{n}" for n in range(TOPICS)]))
    for generation in range(count):
        owners[generation % len(owners)] = (owners[generation % len(owners)] + 1) % MEMBERS
        members = []
        for member in range(MEMBERS):
            mine = [number for number, owner in enumerate(owners) if owner == member]
            assigned = [
                TopicPartition(
                    f"topic-{topic}", [number % PARTITIONS for number in mine if number // PARTITIONS == topic]
                )
                for topic in range(TOPICS)
            ]
            assignment = pack_assignment(ConsumerProtocolAssignment(assigned, None))
            members.append(
                MemberMetadata(member_id(1, member), None, "c", "/10.0.0.1", 300_000, 45_000, subscription, assignment)
            )
        value = GroupMetadataValue("consumer", generation, "sticky", member_id(1, 0), NOW + generation, members)
        headers = (
            (b"kohort.join.start.ms", b"%d" % NOW),
            (b"kohort.cause", b"member joined"),
            (b"kohort.trigger", b"m"),
        )
        yield encode_key(GROUP_METADATA, GroupMetadataKey("service-001")), encode_value(GROUP_METADATA, value), headers


def write_log(folder: Path, records: Iterator[NewRecord], per_batch: int) -> int:
    """The folder of a log partition with one segment; how many bytes it has."""
    folder.mkdir()
    path = folder / f"{0:020d}.log"
    offset = 0
    with path.open("wb") as file:
        while batch := list(islice(records, per_batch)):
            file.write(build_batch(batch, timestamp=NOW + offset, base_offset=offset, base_sequence=0))
            offset += len(batch)
    return path.stat().st_size


def best_seconds(path: Path, tables: tuple[str, ...]) -> tuple[float, int]:
    """CPU seconds of the quickest run, and how many rows there were."""
    (folder,), _ = find_logs([str(path)])
    best, rows = float("inf"), 0
    for _ in range(RUNS):
        start = time.process_time()
        rows = sum(batch.num_rows for _, batch in read_tables(folder, tables))
        best = min(best, time.process_time() - start)
    return best, rows


def main(count: int) -> None:
    print(f"{'commits':44} {'bytes each':>10} {'records/s':>12}")
    with TemporaryDirectory() as place:
        for per_batch in (1, 10, 500):
            for with_headers in (True, False):
                folder = Path(place) / f"{per_batch}-{with_headers}" / "__consumer_offsets-0"
                folder.parent.mkdir()
                size = write_log(folder, commits(count, with_headers=with_headers), per_batch)
                seconds, rows = best_seconds(folder.parent, ("offset_commits",))
                assert rows == count
                what = f"{per_batch} to a batch, {'with headers' if with_headers else 'as Kafka writes them'}"
                print(f"{what:44} {size / count:10.0f} {count / seconds:12,.0f}", flush=True)
                if with_headers:
                    seconds, _ = best_seconds(folder.parent, TABLES)
                    print(f"{'    all five tables of it':44} {'':10} {count / seconds:12,.0f}", flush=True)
        folder = Path(place) / "generations" / "__consumer_offsets-0"
        folder.parent.mkdir()
        size = write_log(folder, generations(GENERATIONS), 1)
        seconds, rows = best_seconds(folder.parent, ("group_generations", "member_assignments"))
        print(
            f"\n{GENERATIONS:,} generations of {MEMBERS} members, {size / 1e6:.0f} MB: {rows:,} rows in {seconds:.2f} s"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
