"""Batches of `__consumer_offsets` as tests want them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kohort.protocol.consumer_group_record import (
    ASSIGNMENT_KEY,
    GROUP_EPOCH_KEY,
    MEMBER_KEY,
    TARGET_KEY,
    assignment_value,
    group_epoch_value,
    member_value,
    pack_name,
    target_value,
)
from kohort.protocol.log_records import (
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
    GROUP_METADATA,
    OFFSET_COMMIT,
    encode_key,
    encode_value,
)
from kohort.protocol.messages.log_consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kohort.protocol.messages.log_group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kohort.protocol.messages.log_offset_commit import OffsetCommitKey, OffsetCommitValue
from kohort.protocol.record_batch import Headers, build_batch
from tests.group_requests import assignment_bytes, full_subscription

SESSION_MS, REBALANCE_MS = 10_000, 60_000


def generation(
    group: str, number: int, members: Mapping[str, tuple[str, Sequence[int]]], time_ms: int, *, topic: str = "t",
    offset: int = 0, protocol: str = "range", instances: Mapping[str, str] | None = None, since_ms: int = 0,
    headers: Headers = (), leader_epoch: int = 0, session_ms: int = SESSION_MS, rebalance_ms: int = REBALANCE_MS,
    topics: Iterable[str] | None = None,
) -> bytes:  # fmt: skip
    """`members`: member id -> client id and partitions of the topic."""
    saved = [
        MemberMetadata(
            member_id, (instances or {}).get(member_id), client, "/10.0.0.1", rebalance_ms, session_ms,
            full_subscription(list(topics or [topic])), assignment_bytes({topic: list(numbers)} if numbers else {}),
        )
        for member_id, (client, numbers) in members.items()
    ]  # fmt: skip
    value = GroupMetadataValue("consumer", number, protocol, next(iter(members), None), since_ms or time_ms, saved)
    record = (encode_key(GROUP_METADATA, GroupMetadataKey(group)), encode_value(GROUP_METADATA, value), headers)
    return build_batch([record], timestamp=time_ms, base_offset=offset, leader_epoch=leader_epoch)


def commits(group: str, partitions: Sequence[int], time_ms: int, *, topic: str = "t", offset: int = 0) -> bytes:
    records = [
        (
            encode_key(OFFSET_COMMIT, OffsetCommitKey(group, topic, number)),
            encode_value(OFFSET_COMMIT, OffsetCommitValue(7, -1, "", time_ms, -1)),
        )
        for number in partitions
    ]
    return build_batch(records, timestamp=time_ms, base_offset=offset)


def tombstone(group: str, time_ms: int, *, offset: int = 0) -> bytes:
    key = encode_key(GROUP_METADATA, GroupMetadataKey(group))
    return build_batch([(key, None)], timestamp=time_ms, base_offset=offset)


def target(
    group: str, epoch: int, subscriptions: Mapping[str, list[str]], targets: Mapping[str, Mapping[bytes, list[int]]],
    time_ms: int, *, offset: int = 0,
) -> bytes:  # fmt: skip
    """What a broker writes for a new target of a KIP-848 group whose members are all new or changed."""
    records: list[tuple[bytes, bytes]] = []
    for member_id, topics in subscriptions.items():
        value = member_value(None, None, member_id, "/10.0.0.1", topics, None, REBALANCE_MS, None)
        records.append((MEMBER_KEY + pack_name(group) + pack_name(member_id), value))
    records.append((GROUP_EPOCH_KEY + pack_name(group), group_epoch_value(epoch, 0)))
    for member_id, places in targets.items():
        records.append((TARGET_KEY + pack_name(group) + pack_name(member_id), target_value(places)))
    records.append(_target_epoch(group, epoch))
    return build_batch([(*each, ()) for each in records], timestamp=time_ms, base_offset=offset)


# --- the same in single batches: an epoch without a target, members that go, and how far members have come

TOPIC_ID = bytes(range(16))


def new_epoch(
    group: str, epoch: int, time_ms: int, *, begin_ms: int, cause: str, trigger: str,
    joined: Mapping[str, str] | None = None, gone: Iterable[str] = (),
) -> bytes:  # fmt: skip
    """With the headers of a Kohort. `joined`: member id -> client id."""
    name = pack_name(group)
    headers = (
        (b"kohort.join.start.ms", b"%d" % begin_ms), (b"kohort.cause", cause.encode()),
        (b"kohort.trigger", trigger.encode()),
    )  # fmt: skip
    records: list[tuple[bytes, bytes | None, Headers]] = [
        (key + name + pack_name(member_id), None, ())
        for member_id in gone
        for key in (ASSIGNMENT_KEY, TARGET_KEY, MEMBER_KEY)
    ]
    for member_id, client in (joined or {}).items():
        value = member_value(None, None, client, "/10.0.0.1", ["t"], None, REBALANCE_MS, None)
        records.append((MEMBER_KEY + name + pack_name(member_id), value, ()))
    records.append((GROUP_EPOCH_KEY + name, group_epoch_value(epoch, 1), headers))
    return build_batch(records, timestamp=time_ms)


def new_target(
    group: str, epoch: int, members: Mapping[str, list[int]], time_ms: int, *, reached: Iterable[str] = ()
) -> bytes:
    """`members`: partitions of the topic by member id. Those of `reached` have got them at once."""
    name = pack_name(group)
    records = [
        (TARGET_KEY + name + pack_name(member_id), target_value({TOPIC_ID: numbers}))
        for member_id, numbers in members.items()
    ]
    records.append(_target_epoch(group, epoch))
    records += [_reached(group, epoch, member_id, members[member_id]) for member_id in reached]
    return build_batch(records, timestamp=time_ms)


def has_reached(group: str, epoch: int, member_id: str, numbers: list[int], time_ms: int) -> bytes:
    return build_batch([_reached(group, epoch, member_id, numbers)], timestamp=time_ms)


def _reached(group: str, epoch: int, member_id: str, numbers: list[int]) -> tuple[bytes, bytes]:
    has = {TOPIC_ID: dict.fromkeys(numbers, epoch)}
    return ASSIGNMENT_KEY + pack_name(group) + pack_name(member_id), assignment_value(epoch, epoch, 0, has, {})


def _target_epoch(group: str, epoch: int) -> tuple[bytes, bytes]:
    key = encode_key(CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, ConsumerGroupTargetAssignmentMetadataKey(group))
    done = ConsumerGroupTargetAssignmentMetadataValue(epoch)
    return key, encode_value(CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, done)
