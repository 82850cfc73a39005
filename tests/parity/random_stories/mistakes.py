"""What can be wrong with a request: one field has a value that does not belong there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.parity.random_stories.actor import Actor

LONG_MS = 1_000_000  # no timer fires while a story is told


def mistakes(
    chance: Random, request: Any, actor: Actor, everybody: Sequence[Actor], owned: list[TopicPartitions]
) -> Iterator[Callable[[], None]]:
    """Each of these functions makes one mistake. `owned`: what members have."""
    others = [each.id for each in everybody] + ["nobody", ""]
    instances = [each.instance for each in everybody] + ["no-instance", "", None]
    numbers = (actor.epoch_before, actor.epoch + 1, actor.epoch - 1, 0, -1, -2, -3, 99)

    def put(name: str, *values: Any) -> Callable[[], None]:
        return lambda: setattr(request, name, chance.choice(values))

    if not isinstance(request, LeaveGroupRequest):
        yield put("member_id", *others)
    if isinstance(request, ConsumerGroupHeartbeatRequest):
        yield put("member_epoch", *numbers)
        yield put("member_epoch", *numbers)
        yield put("instance_id", *instances)
        yield put("rack_id", "", "south")
        yield put("rebalance_timeout_ms", -1, LONG_MS)
        yield put("subscribed_topic_names", None, [], ["unknown"], ["pool-1", "pool-1"], [""])
        yield put("server_assignor", "unknown", "", "range")
        yield put("topic_partitions", None, [], owned, [TopicPartitions(b"x" * 16, [0])], [*owned, *owned])
        yield put("subscribed_topic_regex", "(", "")
    elif isinstance(request, JoinGroupRequest):
        yield put("group_instance_id", *instances)
        yield put("protocol_type", "", "connect")
        yield put("protocols", [], [JoinGroupRequestProtocol("range", b"")], [JoinGroupRequestProtocol("other", b"x")])
        yield put("session_timeout_ms", 1, LONG_MS * 100)
    elif isinstance(request, (HeartbeatRequest, SyncGroupRequest)):
        yield put("group_instance_id", *instances)
        yield put("generation_id", *numbers)
        if isinstance(request, SyncGroupRequest):
            yield put("protocol_type", "", "connect", None)
            yield put("protocol_name", "other", None)
            rows = [SyncGroupRequestAssignment(name, chance.choice((b"", b"\0", b"junk"))) for name in others]
            yield put("assignments", [], rows)
    elif isinstance(request, LeaveGroupRequest):
        yield put("members", [], [MemberIdentity(o, i) for o, i in zip(others, instances, strict=False)])
        yield put("members", [MemberIdentity(chance.choice(others), chance.choice(instances))])
