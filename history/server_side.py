"""The walk through the records of a group whose partitions the broker assigns: KIP-848, a share or a streams group.

A rebalance is a new target. Before it come the new epochs of the group, and before each of them what made it necessary:
members that came or went, new subscriptions, topics that match a regular expression; or nothing of that, and another
hash of the topics. Behind the target each member's own records tell how far it has come.

Members of a streams group (KIP-1071) are assigned tasks: a task is a partition of a subtopology, and reads that
partition of each topic that the subtopology reads. Here a task is a place whose key names the subtopology. Standby and
warm-up tasks read nothing for the group, and are left out.
"""

from __future__ import annotations

from typing import Any

from kohort.history.classic import told_by
from kohort.history.members import Member, Place, id_key, owners_of
from kohort.history.rebalance import (
    CLASSIC,
    CONSUMER,
    SHARE,
    STREAMS,
    Bump,
    Rebalance,
    Removal,
    Takeover,
    Told,
    Update,
)
from kohort.history.records import LogRecord
from kohort.history.walk import Walk
from kohort.protocol import log_records as types

AWAY = -2  # member epoch of a static member that will come back
SETTLED = {CONSUMER: 0, SHARE: 0, STREAMS: 1}  # the state of a member that has its share; Kafka's numbers differ
ROLES = {
    types.CONSUMER_GROUP_METADATA: "epoch",
    types.SHARE_GROUP_METADATA: "epoch",
    types.STREAMS_GROUP_METADATA: "epoch",
    types.CONSUMER_GROUP_MEMBER_METADATA: "member",
    types.SHARE_GROUP_MEMBER_METADATA: "member",
    types.STREAMS_GROUP_MEMBER_METADATA: "member",
    types.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: "target epoch",
    types.SHARE_GROUP_TARGET_ASSIGNMENT_METADATA: "target epoch",
    types.STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA: "target epoch",
    types.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: "target",
    types.SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER: "target",
    types.STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER: "target",
    types.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: "current",
    types.SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT: "current",
    types.STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT: "current",
    types.CONSUMER_GROUP_REGULAR_EXPRESSION: "pattern",
    types.STREAMS_GROUP_TOPOLOGY: "topology",
}


class ServerSideWalk:
    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self._forget()

    def _forget(self) -> None:
        self._present: dict[str, Member] = {}
        self._targets: dict[str, frozenset[Place]] = {}
        self._held: dict[str, frozenset[Place]] = {}
        self._holders: dict[Place, int] = {}  # how many members have it
        self._revoking_since: dict[str, int] = {}
        self._away: dict[str, Member] = {}  # by instance id
        self._patterns: dict[str, frozenset[str]] = {}
        self._hash: int | None = None
        self._bumps: list[Bump] = []
        self._forget_changes()

    def _forget_changes(self) -> None:
        """What is gathered here belongs to the next epoch."""
        self._joined: dict[str, Member] = {}
        self._removed: dict[str, Removal] = {}
        self._updated: dict[str, Update] = {}
        self._matched: dict[str, None] = {}

    def convert(self) -> None:
        """The group goes on as a classic one."""
        self._walk.members = dict(self._present)
        self._walk.converted_from = self._walk.kind
        self._forget()

    def take(self, record: LogRecord, kind: str) -> None:
        walk = self._walk
        if walk.kind == CLASSIC and record.value is None:
            return  # left over from before a conversion
        if walk.kind == CLASSIC and kind == CONSUMER and walk.members:
            walk.converted_from = CLASSIC
            walk.owners, walk.free_since = {}, {}
        elif walk.kind != kind and walk.kind is not None:
            walk.forget()
            self._forget()
        walk.kind = kind
        match ROLES.get(record.type):
            case "member":
                self._member(record)
            case "epoch":
                self._epoch(record)
            case "target":
                target = frozenset() if record.value is None else _target(record.value)
                self._targets[record.key.member_id] = target
            case "target epoch":
                self._target_epoch(record)
            case "current":
                self._current(record)
            case "pattern":
                self._pattern(record)
            case "topology":
                self._topology(record)

    # --- who is there

    def _member(self, record: LogRecord) -> None:
        member_id = record.key.member_id
        before = self._present.pop(member_id, None)
        if record.value is None:
            if before is not None:
                self._gone(record, before)
            self._targets.pop(member_id, None)
            return
        member = _member(member_id, record.value)
        self._present[member_id] = member
        if before is None:
            self._joined[member_id] = member
        elif (before.topics, before.pattern) != (member.topics, member.pattern):
            self._updated[member_id] = Update(before, member)

    def _gone(self, record: LogRecord, member: Member) -> None:
        """A static member that comes back with another id is gone in the same batch in which it comes."""
        member_id = member.member_id
        held = self._held.get(member_id, frozenset())
        sign = self._walk.sign_of(member._replace(assigned=held), 0)
        if member_id not in self._removed:
            since = self._revoking_since.get(member_id)
            self._removed[member_id] = Removal(member, record.time_ms, sign, since)
        self._hold(record, member_id, frozenset())
        if self._walk.last is not None:
            self._walk.last.behind.discard(member_id)

    def _pattern(self, record: LogRecord) -> None:
        pattern = record.key.regular_expression
        topics = frozenset[str]() if record.value is None else frozenset(record.value.topics)
        if record.value is not None and self._patterns.get(pattern) != topics:
            self._matched[pattern] = None
        self._patterns[pattern] = topics
        if record.value is None:
            del self._patterns[pattern]

    def _topology(self, record: LogRecord) -> None:
        parts = () if record.value is None else record.value.subtopologies
        self._walk.topics_of_tasks = {
            _tasks_of(part.subtopology_id): (
                *part.source_topics, *(topic.name for topic in part.repartition_source_topics),
            )
            for part in parts
        }  # fmt: skip

    # --- epochs and targets

    def _epoch(self, record: LogRecord) -> None:
        walk = self._walk
        if record.value is None:
            walk.forget()
            self._forget()
            return
        epoch, seen = record.value.epoch, getattr(record.value, "metadata_hash", 0)
        if walk.converted_from == CLASSIC and epoch == walk.generation:  # the conversion repeats what was
            self._hash = seen
            self._forget_changes()
            return
        replaced = self._replaced(record.time_ms)
        self._bumps.append(
            Bump(
                epoch, record.time_ms, self._told(record),
                tuple(each for each in self._joined.values() if each.member_id not in replaced),
                tuple(each for each in self._removed.values() if each.member.member_id not in replaced),
                tuple(self._updated.values()), tuple(self._matched),
                self._hash is not None and seen != self._hash,
            )
        )  # fmt: skip
        self._hash = seen
        self._forget_changes()
        if not self._present and walk.members:
            self._rebalanced(record, epoch, {})

    def _told(self, record: LogRecord) -> Told | None:
        """While some members have not reached the target before, Kohort's header says when that rebalance began. This
        one began with its own epoch."""
        told, last = told_by(record), self._walk.last
        if told is None or told.begin_ms is None or last is None or told.begin_ms >= last.time_ms:
            return told
        return told._replace(begin_ms=None)

    def end_batch(self, time_ms: int) -> None:
        """A static member that came back goes on without a new epoch."""
        if self._joined and self._removed:
            for member_id in self._replaced(time_ms):
                self._joined.pop(member_id, None)
                self._removed.pop(member_id, None)

    def _replaced(self, time_ms: int) -> set[str]:
        """Static members that came back with another id: old and new ids."""
        gone = {
            each.member.instance_id: each.member
            for each in self._removed.values()
            if each.member.instance_id is not None
        }
        found: set[str] = set()
        for member in self._joined.values():
            before = gone.get(member.instance_id) if member.instance_id is not None else None
            if before is not None:
                found |= {before.member_id, member.member_id}
                if self._walk.last is not None:
                    self._walk.last.takeovers.append(Takeover(before, member, time_ms))
        return found

    def _target_epoch(self, record: LogRecord) -> None:
        walk = self._walk
        if record.value is None:
            return
        epoch = record.value.assignment_epoch
        members = {
            member_id: member._replace(assigned=self._targets.get(member_id, frozenset()), topics=self._wants(member))
            for member_id, member in self._present.items()
        }
        if walk.converted_from == CLASSIC and epoch == walk.generation:
            self._baseline(members)
            return
        if members and epoch != walk.generation:
            self._rebalanced(record, epoch, members)

    def _baseline(self, members: dict[str, Member]) -> None:
        walk = self._walk
        before = walk.members
        walk.members = {**{id_: each._replace(assigned=frozenset()) for id_, each in before.items()}, **members}
        walk.owners = owners_of(members.values())
        walk.protocol = _asked_for(members)

    def _wants(self, member: Member) -> frozenset[str] | None:
        if not member.pattern or member.topics is None:
            return member.topics
        matching = self._patterns.get(member.pattern)
        return None if matching is None else member.topics | matching

    def _rebalanced(self, record: LogRecord, epoch: int, members: dict[str, Member]) -> None:
        walk = self._walk
        protocol = _asked_for(members)
        signs = {
            each.member.member_id: each.sign for bump in self._bumps for each in bump.removed if each.sign is not None
        }
        rebalance = Rebalance(
            walk.kind or "", epoch, walk.generation, record.offset, record.time_ms, protocol, walk.protocol, members,
            dict(walk.members) if walk.members else None, dict(walk.owners), signs=signs, bumps=self._bumps,
            behind=set(members),
        )  # fmt: skip
        self._bumps = []
        walk.generation, walk.protocol, walk.members = epoch, protocol, members
        walk.learn_by_elimination()
        walk.owners = {**walk.owners, **owners_of(members.values())} if members else {}
        if not members:
            walk.free_since.clear()
        walk.rebalanced(rebalance)

    # --- how far members have come

    def _current(self, record: LogRecord) -> None:
        member_id, value = record.key.member_id, record.value
        if value is None:
            member = self._present.get(member_id)
            if member is not None and member_id not in self._removed:
                sign = self._walk.sign_of(member._replace(assigned=self._held.get(member_id, frozenset())), 0)
                self._removed[member_id] = Removal(
                    member, record.time_ms, sign, self._revoking_since.get(member_id), self._is_away(member)
                )
            self._hold(record, member_id, frozenset())
            self._revoking_since.pop(member_id, None)
            return
        if value.member_epoch == AWAY:
            member = self._present.get(member_id)
            if member is not None and member.instance_id is not None:
                self._away[member.instance_id] = member
            self._hold(record, member_id, frozenset())
            return
        if member_id in self._present and (instance := self._present[member_id].instance_id) is not None:
            self._away.pop(instance, None)
        assigned, revoking = _current(value)
        if revoking:
            self._revoking_since.setdefault(member_id, record.time_ms)
        else:
            self._revoking_since.pop(member_id, None)
        self._hold(record, member_id, assigned | revoking)
        self._reconciled(record, member_id)

    def _is_away(self, member: Member) -> bool:
        return member.instance_id is not None and member.instance_id in self._away

    def _reconciled(self, record: LogRecord, member_id: str) -> None:
        last = self._walk.last
        settled = (
            record.value.state == SETTLED.get(self._walk.kind or "")
            and last is not None
            and record.value.member_epoch == last.generation
        )
        if last is not None and settled and member_id in last.behind:
            last.behind.discard(member_id)
            last.reached[member_id] = record.time_ms

    def _hold(self, record: LogRecord, member_id: str, places: frozenset[Place]) -> None:
        walk, now_ms = self._walk, record.time_ms
        before = self._held.get(member_id, frozenset())
        for place in before - places:
            left = self._holders[place] - 1
            if left:
                self._holders[place] = left
            else:
                del self._holders[place]
                walk.freed((place,), now_ms)
        taken = places - before
        for place in taken:
            self._holders[place] = self._holders.get(place, 0) + 1
        walk.taken(taken, now_ms, walk.last.gaps if walk.last is not None else [])
        if places:
            self._held[member_id] = places
        else:
            self._held.pop(member_id, None)


def _asked_for(members: dict[str, Member]) -> str | None:
    asked = {member.assignor for member in members.values()}
    return asked.pop() if len(asked) == 1 else None


def _places(listed: Any) -> frozenset[Place]:
    return frozenset((id_key(bytes(each.topic_id)), number) for each in listed for number in each.partitions)


def _target(value: Any) -> frozenset[Place]:
    return _tasks(value.active_tasks) if hasattr(value, "active_tasks") else _places(value.topic_partitions)


def _current(value: Any) -> tuple[frozenset[Place], frozenset[Place]]:
    """What a member has and may keep, and what it still has to give up."""
    if hasattr(value, "active_tasks"):
        return _tasks(value.active_tasks), _tasks(value.active_tasks_pending_revocation)
    return _places(value.assigned_partitions), _places(getattr(value, "partitions_pending_revocation", ()))


def _tasks(listed: Any) -> frozenset[Place]:
    return frozenset((_tasks_of(each.subtopology_id), number) for each in listed for number in each.partitions)


def _tasks_of(subtopology_id: str) -> str:
    return f"subtopology {subtopology_id} task"


def _member(member_id: str, value: Any) -> Member:
    names = getattr(value, "subscribed_topic_names", None)  # members of a streams group have none
    classic = getattr(value, "classic_member_metadata", None)
    session_ms = classic.session_timeout_ms if classic is not None and classic.supported_protocols else None
    timeout_ms = getattr(value, "rebalance_timeout_ms", None)
    return Member(
        member_id, getattr(value, "instance_id", None), value.client_id, value.client_host,
        timeout_ms if timeout_ms is not None and timeout_ms > 0 else None, session_ms,
        None if names is None else frozenset(names), getattr(value, "subscribed_topic_regex", None) or None,
        frozenset(),
        getattr(value, "server_assignor", None) or None, session_ms is not None,
    )  # fmt: skip
