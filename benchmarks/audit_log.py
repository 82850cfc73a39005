"""Makes a log to measure the audit with: groups that rebalance now and then and commit all the time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from heapq import merge
from operator import itemgetter
from pathlib import Path

from kohort.coordinator.partitioner import partition_of
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
from kohort.storage.disk import RealDisk
from kohort.storage.log_config import LogConfig
from kohort.storage.log_directory import LogDirectory

START = 1_790_000_000_000
LOG_PARTITIONS = 50
PARTITIONS = 20  # of each group's topic
PER_COMMIT = 5  # offsets in one request
COMMIT_INTERVAL_MS = 5_000


def make_log(folder: Path, *, commits: int, generations: int, groups: int = 200, seed: int = 1) -> None:
    """A broker's data folder. Each group has as many generations as the others, and commits as evenly between them."""
    folder.mkdir(parents=True)
    config = LogConfig(cleanup_policy="compact", segment_bytes=104_857_600)
    directory = LogDirectory.open(RealDisk(), str(folder), lambda _: config)
    per_group = generations // groups
    requests = commits // (groups * per_group * PER_COMMIT)
    stories: dict[int, list[Iterator[tuple[bytes, int]]]] = {}
    for number in range(groups):
        group_id = f"group-{number:05d}"
        story = _story(group_id, per_group, requests, random.Random(f"{seed} {number}"))
        stories.setdefault(partition_of(group_id, LOG_PARTITIONS), []).append(story)
    for log_partition, together in stories.items():
        log = directory.log("__consumer_offsets", log_partition)
        for batch, at in merge(*together, key=itemgetter(1)):  # as one clock would have them
            log.append(batch, now=at, verify=False)
    directory.close()


def _story(group_id: str, generations: int, requests: int, chance: random.Random) -> Iterator[tuple[bytes, int]]:
    topic = f"topic-of-{group_id}"
    topic_id = chance.randbytes(16)
    keys = [encode_key(OFFSET_COMMIT, OffsetCommitKey(group_id, topic, number)) for number in range(PARTITIONS)]
    offsets = [chance.randrange(1_000_000) for _ in range(PARTITIONS)]
    members: list[str] = []
    now, born = START + chance.randrange(60_000), 0
    for generation in range(1, generations + 1):
        if members and (len(members) > 5 or chance.random() < 0.5):
            members.pop(chance.randrange(len(members)))
        while len(members) < 2 or (len(members) < 6 and chance.random() < 0.3):
            born += 1
            members.append(f"{group_id}-{born}-{chance.randbytes(8).hex()}")
        owner = {partition: members[partition % len(members)] for partition in range(PARTITIONS)}
        now += 200
        yield _generation(group_id, topic, generation, members, owner, now), now
        for request in range(requests):
            now += COMMIT_INTERVAL_MS // 4 + chance.randrange(100)
            member = members[request % len(members)]
            own = [partition for partition in range(PARTITIONS) if owner[partition] == member]
            some = [own[chance.randrange(len(own))] for _ in range(PER_COMMIT)]
            headers: Headers = ((b"kohort.member", member.encode()), (b"kohort.generation", b"%d" % generation))
            records: list[NewRecord] = []
            for partition in some:
                offsets[partition] += 1 + chance.randrange(500)
                value = OffsetCommitValue(offsets[partition], -1, "", now, -1, topic_id)
                records.append((keys[partition], encode_value(OFFSET_COMMIT, value), headers))
            yield build_batch(records, timestamp=now, base_sequence=0), now


def _generation(group_id: str, topic: str, number: int, members: list[str], owner: dict[int, str], now: int) -> bytes:
    subscription = pack_subscription(ConsumerProtocolSubscription([topic], None, []), 1)
    rows = []
    for member in members:
        own = [partition for partition, who in owner.items() if who == member]
        assignment = pack_assignment(ConsumerProtocolAssignment([TopicPartition(topic, own)]), 1)
        rows.append(MemberMetadata(member, None, "bench", "/127.0.0.1", 300_000, 45_000, subscription, assignment))
    value = GroupMetadataValue("consumer", number, "roundrobin", members[0], now - 20, rows)
    headers: Headers = (
        (b"kohort.join.start.ms", b"%d" % (now - 150)),
        (b"kohort.cause", b"member joined"),
        (b"kohort.trigger", members[-1].encode()),
    )
    key = encode_key(GROUP_METADATA, GroupMetadataKey(group_id))
    return build_batch([(key, encode_value(GROUP_METADATA, value), headers)], timestamp=now, base_sequence=0)
