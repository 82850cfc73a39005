"""What must hold of share groups (KIP-932), after each event.

`ShareWatch` compares the coordinator with its clients: who has what, and who was removed with good reason.
`check_share_group` looks at one group: what is derived from its records agrees with them, and nobody is forgotten by
the clock. `ShareLogWatch` reads the log by rules of its own, which are those by which Apache Kafka loads it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from kohort.coordinator.shard import Shard, Status
from kohort.coordinator.shard_state import ShardState
from kohort.coordinator.share.group import ShareGroup, find_share
from kohort.coordinator.share.member import ShareMember
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.log_records import (
    SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    SHARE_GROUP_MEMBER_METADATA,
    SHARE_GROUP_METADATA,
    SHARE_GROUP_RECORDS,
    SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER,
    SHARE_GROUP_TARGET_ASSIGNMENT_METADATA,
    decode_key,
    decode_value,
)
from kohort.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kohort.protocol.record_batch import read_records
from tests.coordinator.support import Call
from tests.simulation.world import COME_AGAIN

if TYPE_CHECKING:
    from tests.simulation.share_client import Sent, Sharer
    from tests.simulation.share_world import ShareWorld

Key = tuple[str, str]  # group id, member id
Place = tuple[bytes, int]


def places(partitions: Any) -> set[Place]:
    return {(topic_id, each) for topic_id, some in partitions.items() for each in some}


class ShareWatch:
    def __init__(self, world: ShareWorld) -> None:
        self._world = world
        self._heard: dict[Key, int] = {}  # when the last heartbeat was sent that was not refused
        self._left: set[Key] = set()  # members that have sent a last heartbeat
        self._gone: set[Key] = set()  # members that the coordinator has removed with good reason
        self._seen: dict[Key, int] = {}  # members, and since when
        self._shards: dict[str, Shard[ShardState]] = {}  # of a group; another object: it was loaded again
        self._epochs: dict[str, tuple[ShareGroup, int, int]] = {}
        self._echoes: list[tuple[Call, bool]] = []  # old heartbeats, and whether they have changed anything
        self._last_check = world.host.steady_ms

    # --- what clients do

    def leaves(self, client: Sharer) -> None:
        self._left.add((client.group_id, client.member_id))

    def is_gone(self, client: Sharer) -> bool:
        return (client.group_id, client.member_id) in self._gone

    def picture(self, group_id: str) -> Any:
        """Equal if nothing has happened to the group."""
        group = find_share(self._world.host.state_of(group_id), group_id)
        return None if group is None else (group, group.changes, dict(group.members))

    def is_answered(self, client: Sharer, call: Call, sent: Sent) -> None:
        key = client.group_id, call.request.member_id
        if call.error is ErrorCode.NONE:
            assert call.request.member_epoch <= 0 or not sent.was_gone, f"a heartbeat of {key}, which is removed"
            if call.request.member_epoch >= 0:
                self._heard[key] = max(sent.at, self._heard.get(key, 0))
        elif call.error not in COME_AGAIN and key not in self._gone:
            assert not sent.has_changed, f"a refused heartbeat of {key} has changed the group: {call.error.name}"

    def expect_refusal(self, client: Sharer, request: ShareGroupHeartbeatRequest) -> None:
        before = self.picture(client.group_id)
        call = self._world.host.send(request, 1, client.name)
        self._echoes.append((call, self.picture(client.group_id) != before))
        self._world.hang_up(call)

    # --- after each event

    def check(self) -> None:
        for call, has_changed in [echo for echo in self._echoes if echo[0].is_answered]:
            assert call.error is not ErrorCode.NONE, f"an old heartbeat is taken: epoch {call.request.member_epoch}"
            assert not has_changed or call.error in COME_AGAIN, "an old heartbeat has changed the group"
        self._echoes = [echo for echo in self._echoes if not echo[0].is_answered]
        for group_id in self._world.groups:
            shard = self._world.host.shard_of(group_id)
            if shard.status is Status.ACTIVE:
                group = find_share(shard.state, group_id)
                if group is not None:
                    check_share_group(self._world, group)
                    self._check_epochs(group)
                self._check_members(shard, group_id, {} if group is None else group.members)
        self._last_check = self._world.host.steady_ms

    def _check_epochs(self, group: ShareGroup) -> None:
        last = self._epochs.get(group.group_id)
        if last is not None and last[0] is group:
            assert group.epoch >= last[1], f"the epoch of {group.group_id} falls"
            assert group.assignment_epoch >= last[2], f"the assignment epoch of {group.group_id} falls"
        self._epochs[group.group_id] = group, group.epoch, group.assignment_epoch

    def _check_members(self, shard: Shard[ShardState], group_id: str, members: dict[str, ShareMember]) -> None:
        """Nobody is removed without a reason, and a member has what the coordinator believes that it has."""
        is_reloaded = self._shards.get(group_id) is not shard
        self._shards[group_id] = shard
        for key in [key for key in self._seen if key[0] == group_id and key[1] not in members]:
            since = self._seen.pop(key)
            if is_reloaded and key not in self._left:
                continue  # the record of the member was lost before anybody was told of it
            silent_ms = self._last_check_or_now() - max(since, self._heard.get(key, 0))
            session_ms = shard.state.share_settings(group_id).session_timeout_ms
            has_reason = key in self._left or silent_ms >= session_ms
            assert has_reason, f"{key} is removed, though it was heard {silent_ms} ms ago"
            self._left.discard(key)
            self._gone.add(key)
        for member_id in members:
            key = group_id, member_id
            if key not in self._seen or is_reloaded:
                self._seen[key] = self._last_check
                self._gone.discard(key)
        for client in self._world.clients:
            member = members.get(client.member_id) if client.group_id == group_id else None
            if member is not None and client.epoch == member.epoch and not client.is_waiting:
                assert client.holds == places(member.assigned), f"{client.name} has something else in its epoch"

    def _last_check_or_now(self) -> int:
        return self._world.host.steady_ms


def check_share_group(world: ShareWorld, group: ShareGroup) -> None:
    members = group.members.values()
    assert group.topic_counts == Counter(name for member in members for name in member.topic_names), "topic counts"
    assert group._reconciled == Counter(member.epoch for member in members), "members of an epoch"
    targeted = Counter(place for target in group.targets.values() for place in places(target))
    kept = {(topic_id, each): count for topic_id, some in group._targeted.items() for each, count in some.items()}
    assert targeted == kept, "targets"
    initialized = {
        (topic_id, each) for topic_id, topic in group.states.initialized.items() for each in topic.partitions
    }
    missing = world.initialized_without_state(group.group_id, initialized)
    assert not missing, f"{len(missing)} partitions of {group.group_id} are initialized, but have no state"
    for member_id, member in group.members.items():
        session = group.sessions.get(member_id)
        assert session is not None, f"{member_id} has no session"
        assert session.watched_until > 0, f"the session of {member_id} is not watched"
        assert member.epoch <= group.assignment_epoch, f"{member_id} is ahead of all targets"
        more = places(member.assigned) - places(group.target_of(member_id))
        assert not more or member.epoch < group.assignment_epoch or group.is_assigning, f"{member_id} has too much"
        unready = {place for place in places(member.assigned) - initialized if world.is_there(place)}
        assert not unready, f"{member_id} has {len(unready)} partitions that are not initialized"
    for member_id in group.targets:
        assert member_id in group.members, f"a target of {member_id}, which is gone"


class ShareGroupInLog:
    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = self.assignment_epoch = -1
        self.members: dict[str, Any] = {}
        self.current: dict[str, Any] = {}
        self.targets: dict[str, Any] = {}

    def read(self, kind: int, key: Any, value: Any) -> None:
        match kind:
            case x if x == SHARE_GROUP_METADATA:
                assert value.epoch > self.epoch, f"group epoch {value.epoch} comes after {self.epoch}"
                self.epoch = value.epoch
            case x if x == SHARE_GROUP_TARGET_ASSIGNMENT_METADATA and value is not None:
                assert self.assignment_epoch < value.assignment_epoch <= self.epoch, (
                    f"assignment epoch {value.assignment_epoch} comes after {self.assignment_epoch}"
                )
                self.assignment_epoch = value.assignment_epoch
            case x if x == SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER:
                _keep(self.targets, key.member_id, value)
            case x if x == SHARE_GROUP_MEMBER_METADATA:
                _keep(self.members, key.member_id, value)
                if value is None:
                    left = key.member_id in self.current or key.member_id in self.targets
                    assert not left, f"{key.member_id} ends before what it has: Kafka cannot load that"
            case x if x == SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT:
                before = self.current.get(key.member_id)
                _keep(self.current, key.member_id, value)
                if value is not None:
                    assert key.member_id in self.members, f"{key.member_id} has partitions before it is a member"
                    assert before is None or value.member_epoch >= before.member_epoch, f"{key.member_id}: epoch falls"

    def end(self) -> None:
        """The tombstone of the group."""
        left = [*self.members, *self.current, *self.targets]
        assert not left, f"{self.group_id} ends before {left}: Kafka cannot load that"

    def check(self) -> None:
        """At the end of a batch."""
        for member_id, value in self.current.items():
            assert value.member_epoch <= max(self.assignment_epoch, 1), (
                f"{member_id} is ahead of all targets in the log"
            )


def _keep(kept: dict[str, Any], key: str, value: Any) -> None:
    if value is None:
        kept.pop(key, None)
    else:
        kept[key] = value


class ShareLogWatch:
    """Reads one partition of the log, batch by batch."""

    def __init__(self) -> None:
        self.read_count = 0
        self.groups: dict[str, ShareGroupInLog] = {}

    def read(self, log: list[bytes]) -> list[bytes]:
        """Returns the new batches."""
        new, self.read_count = log[self.read_count :], len(log)
        for batch in new:
            for record in read_records(batch):
                assert record.key is not None
                kind, key = decode_key(record.key)
                if kind in SHARE_GROUP_RECORDS:
                    self._read(kind, key, None if record.value is None else decode_value(kind, record.value))
            for group in self.groups.values():
                group.check()
        return new

    def _read(self, kind: int, key: Any, value: Any) -> None:
        if kind == SHARE_GROUP_METADATA and value is None:
            if (ended := self.groups.pop(key.group_id, None)) is not None:
                ended.end()
            return
        group = self.groups.get(key.group_id)
        if group is None:
            if value is None:
                return
            group = self.groups[key.group_id] = ShareGroupInLog(key.group_id)
        group.read(kind, key, value)
