"""Consumers, as far as a coordinator sees them: they join, sync, heartbeat, commit, fetch and leave, in any version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.protocol.messages.offset_fetch import OffsetFetchResponsePartition, OffsetFetchResponsePartitions
from kohort.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kohort.protocol.wire import NO_UUID
from tests.coordinator.support import Call, Host
from tests.group_requests import (
    IdOf,
    Offsets,
    commit_request,
    delete_offsets_request,
    fetch_request,
    subscription,
)

NONE = ErrorCode.NONE
INITIAL_DELAY_MS = 3_000


def protocols(*names: str, metadata: bytes = subscription("orders")) -> list[tuple[str, bytes]]:
    return [(name, metadata) for name in names]


class Member:
    """One consumer. What it learns from an answer it uses in its next request."""

    def __init__(
        self,
        host: Host,
        group_id: str = "g",
        name: str = "client",
        *,
        instance_id: str | None = None,
        session_timeout_ms: int = 10_000,
        rebalance_timeout_ms: int = 30_000,
        protocols: Iterable[tuple[str, bytes]] = (("range", subscription("orders")),),
        protocol_type: str = "consumer",
        version: int = 9,
    ) -> None:
        self.host = host
        self.group_id = group_id
        self.name = name
        self.instance_id = instance_id
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.protocols = list(protocols)
        self.protocol_type = protocol_type
        self.version = version  # of JoinGroup
        self.member_id = ""
        self.generation = -1
        self.protocol: str | None = None
        self.leader = ""
        self.joining: Call | None = None

    # --- JoinGroup

    def ask_to_join(self, version: int | None = None) -> Call:
        """One JoinGroup, whatever the answer; `learn` takes the id and the generation from it."""
        request = JoinGroupRequest(
            self.group_id, self.session_timeout_ms, self.rebalance_timeout_ms, self.member_id, self.instance_id,
            self.protocol_type, [JoinGroupRequestProtocol(name, metadata) for name, metadata in self.protocols],
        )  # fmt: skip
        self.joining = self.host.send(request, self.version if version is None else version, self.name)
        return self.joining

    def join(self) -> Call:
        """Until it is parked or answered with more than an id."""
        call = self.ask_to_join()
        if call.is_answered and call.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = call.answer.member_id
            call = self.ask_to_join()
        self.learn()
        return call

    def learn(self) -> Member:
        if self.joining is not None and self.joining.is_answered and self.joining.error is NONE:
            answer = self.joining.answer
            self.member_id, self.generation, self.leader = answer.member_id, answer.generation_id, answer.leader
            self.protocol = answer.protocol_name
        return self

    @property
    def is_leader(self) -> bool:
        return self.member_id == self.leader

    # --- SyncGroup, Heartbeat, LeaveGroup

    def sync(
        self, assignments: Mapping[str, bytes] | None = None, *, version: int = 5, generation: int | None = None,
        protocol_type: str | None = "", protocol_name: str | None = "", static: bool = True,
    ) -> Call:  # fmt: skip
        request = SyncGroupRequest(
            self.group_id,
            self.generation if generation is None else generation,
            self.member_id,
            self.instance_id if static and version >= 3 else None,
            self.protocol_type if protocol_type == "" else protocol_type,
            self.protocol if protocol_name == "" else protocol_name,
            [SyncGroupRequestAssignment(*each) for each in (assignments or {}).items()],
        )
        return self.host.send(request, version, self.name)

    def heartbeat(self, generation: int | None = None, *, version: int = 4, static: bool = True) -> ErrorCode:
        return self.send_heartbeat(generation, version=version, static=static).error

    def send_heartbeat(self, generation: int | None = None, *, version: int = 4, static: bool = True) -> Call:
        generation = self.generation if generation is None else generation
        instance_id = self.instance_id if static and version >= 3 else None
        return self.host.send(HeartbeatRequest(self.group_id, generation, self.member_id, instance_id), version)

    def leave(self, *, version: int = 5) -> ErrorCode:
        """The member's own error, wherever the version puts it."""
        call = leave(self.host, self.group_id, (self.member_id, self.instance_id), version=version)
        if version < 3 or call.error is not NONE:
            return call.error
        return ErrorCode(call.answer.members[0].error_code)

    # --- offsets

    def send_commit(
        self, offsets: Offsets, *, version: int = 9, generation: int | None = None, metadata: str | None = "",
        retention_time_ms: int = -1, leader_epoch: int = -1, static: bool = True,
    ) -> Call:  # fmt: skip
        return commit(
            self.host, self.group_id, offsets, version=version, member_id=self.member_id, metadata=metadata,
            generation=self.generation if generation is None else generation, retention_time_ms=retention_time_ms,
            leader_epoch=leader_epoch, instance_id=self.instance_id if static and version >= 7 else None,
        )  # fmt: skip

    def commit(self, offsets: Offsets, **how: Any) -> ErrorCode:
        """The one error of all partitions."""
        errors = set(errors_of(self.send_commit(offsets, **how)).values())
        assert len(errors) == 1, errors
        return errors.pop()


# --- requests of nobody in particular


def leave(host: Host, group_id: str, *members: tuple[str, str | None], version: int = 5, reason: str = "") -> Call:
    identities = [MemberIdentity(*each, reason or None) for each in members]
    return host.send(LeaveGroupRequest(group_id, members[0][0] if members else "", identities), version)


def commit(
    host: Host, group_id: str, offsets: Offsets, *, version: int = 9, generation: int = -1, member_id: str = "",
    instance_id: str | None = None, metadata: str | None = "", retention_time_ms: int = -1, leader_epoch: int = -1,
    topic_ids: Mapping[str, bytes] | None = None,
) -> Call:  # fmt: skip
    """`topic_ids` (v10): those of topics that do not exist."""
    request = commit_request(
        group_id, offsets, generation, member_id, instance_id, id_of=ids_on(host, topic_ids), metadata=metadata,
        retention_ms=retention_time_ms, leader_epoch=leader_epoch if version >= 6 else -1,
    )  # fmt: skip
    return host.send(request, version)


def ids_on(host: Host, others: Mapping[str, bytes] | None = None) -> IdOf:
    return lambda name: (others or {}).get(name) or host.topics.topic_id(name) or NO_UUID


def errors_of(call: Call) -> dict[tuple[str, int], ErrorCode]:
    """Of an OffsetCommit or OffsetDelete; v10 answers with ids, shown here as names where there are any."""
    found = {}
    for topic in call.answer.topics:
        name = topic.name or call.host.topics.name_of(topic.topic_id) or ""
        for partition in topic.partitions:
            found[name, partition.partition_index] = ErrorCode(partition.error_code)
    return found


Fetched = OffsetFetchResponsePartition | OffsetFetchResponsePartitions


def send_fetch(
    host: Host, group_id: str, places: Iterable[tuple[str, int]] | None = None, *, version: int = 9,
    require_stable: bool = False, member_id: str | None = None, member_epoch: int = -1,
    topic_ids: Mapping[str, bytes] | None = None,
) -> Call:  # fmt: skip
    """`places` None: all topics."""
    topics: dict[str, list[int]] = {}
    for topic, partition in places or ():
        topics.setdefault(topic, []).append(partition)
    request = fetch_request(
        [(group_id, None if places is None else topics)], version, id_of=ids_on(host, topic_ids),
        member_id=member_id, epoch=member_epoch, require_stable=require_stable,
    )  # fmt: skip
    return host.send(request, version)


def fetched(call: Call) -> dict[tuple[str, int], Fetched]:
    answer = call.answer
    if call.version >= 8:
        (answer,) = answer.groups
    assert answer.error_code == 0
    host = call.host
    return {
        (
            topic.name or host.topics.name_of(topic.topic_id) or "" if call.version > 9 else topic.name,
            p.partition_index,
        ): p
        for topic in answer.topics
        for p in topic.partitions
    }


def fetch(
    host: Host, group_id: str, places: Iterable[tuple[str, int]] | None = None, **how: Any
) -> dict[tuple[str, int], int]:
    """Offsets by place."""
    return {k: v.committed_offset for k, v in fetched(send_fetch(host, group_id, places, **how)).items()}


def delete_offsets(host: Host, group_id: str, *places: tuple[str, int]) -> Call:
    topics: dict[str, list[int]] = {}
    for topic, partition in places:
        topics.setdefault(topic, []).append(partition)
    return host.send(delete_offsets_request(group_id, *topics.items()), 0)


# --- groups in a state


def joined(host: Host, *names: str, group_id: str = "g", **how: Any) -> list[Member]:
    """A new group in CompletingRebalance: all have joined, nobody has sent SyncGroup. The first is the leader."""
    members = [Member(host, group_id, name, **how) for name in names]
    return complete_joins(host, members)


def complete_joins(host: Host, members: list[Member]) -> list[Member]:
    for member in members:
        member.join()
    host.advance(2 * INITIAL_DELAY_MS if len(members) > 1 else INITIAL_DELAY_MS)
    for member in members:
        member.learn()
        assert member.joining is not None
        assert member.joining.error is NONE
    return members


def leader_of(members: list[Member]) -> Member:
    return next(member for member in members if member.is_leader)


def assign(members: list[Member]) -> dict[str, bytes]:
    """Everyone's assignment is `for <name>`."""
    return {member.member_id: f"for {member.name}".encode() for member in members}


def sync_all(members: list[Member]) -> None:
    """The leader last, so that the others are parked before."""
    leader = leader_of(members)
    calls = [member.sync() for member in members if member is not leader]
    calls.append(leader.sync(assign(members)))
    for call in calls:
        assert call.error is NONE


def stable(host: Host, *names: str, group_id: str = "g", **how: Any) -> list[Member]:
    """A new group in Stable, with everyone's assignment."""
    members = joined(host, *names, group_id=group_id, **how)
    sync_all(members)
    assert host.state(group_id) == "Stable"
    return members


def static_members(host: Host, *instances: str, group_id: str = "g", **how: Any) -> list[Member]:
    """In Stable; their names are their instance ids."""
    members = [Member(host, group_id, name, instance_id=name, **how) for name in instances]
    complete_joins(host, members)
    sync_all(members)
    return members
