"""The walk through the records of a classic group: each is a generation with all members and their assignments.

A record with the generation, members and partitions of the one before is no rebalance: a static member came back with a
new member id and went on. Between two generations the log has commits only. So where Kohort's headers do not say
when a rebalance began, a partition's last commit tells since when nobody has read it, at the latest.
"""

from __future__ import annotations

from collections.abc import Mapping

from kohort.history.members import Member, Place, by_identity, owners_of
from kohort.history.rebalance import CLASSIC, CONSUMER, COOPERATIVE, Gap, Rebalance, Takeover, Told
from kohort.history.records import LogRecord, told, told_ms
from kohort.history.walk import Walk
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.messages.log_group_metadata import GroupMetadataValue, MemberMetadata
from kohort.protocol.subscription import read_assignment, read_subscription

MIN_INFERRED_GAP_MS = 500  # a shorter time since the last commit is no gap: nobody commits all the time
CONSUMERS = "consumer"  # protocol type


class ClassicWalk:
    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self._is_empty = False  # by its last record

    def take(self, record: LogRecord, *, is_conversion: bool) -> None:
        """`is_conversion`: a tombstone that only says that the group goes on under the other protocol."""
        walk = self._walk
        if record.value is None:
            if not is_conversion and walk.kind != CONSUMER:
                walk.forget()
                self._is_empty = True
            return
        members = {each.member_id: _member(each, record.value.protocol_type) for each in record.value.members}
        if walk.kind not in (None, CLASSIC):
            self._is_empty = False
            if walk.converted_from is None:  # the tombstones in between are gone
                walk.forget()
            else:
                self._adopt(record.value, members)
                return
        walk.kind = CLASSIC
        if not members:
            self._emptied(record)
        elif record.value.generation == walk.generation and _same_shares(walk.members, members):
            self._took_over(record, members)
        else:
            self._rebalanced(record, members)
        self._install(record.value, members)

    def _install(self, value: GroupMetadataValue, members: dict[str, Member]) -> None:
        walk = self._walk
        walk.generation, walk.protocol, walk.leader = value.generation, value.protocol, value.leader
        walk.members = members
        if members:
            walk.owners = {**walk.owners, **owners_of(members.values())}
        else:
            walk.owners = {}
        self._is_empty = not members

    def _adopt(self, value: GroupMetadataValue, members: dict[str, Member]) -> None:
        """A group of KIP-848 goes on as a classic one. Those who are not in the record have left; the next rebalance
        says so."""
        walk = self._walk
        walk.kind = CLASSIC
        gone = {member_id: each._replace(assigned=frozenset()) for member_id, each in walk.members.items()}
        walk.free_since.clear()
        walk.owners = {walk.named(place): owner for place, owner in walk.owners.items()}
        self._install(value, members)
        walk.members = {**gone, **members}

    def _took_over(self, record: LogRecord, members: Mapping[str, Member]) -> None:
        last = self._walk.last
        if last is None:
            return
        before = by_identity(self._walk.members)
        for member in members.values():
            known = before.get(member.identity)
            if known is not None and known.member_id != member.member_id:
                last.takeovers.append(Takeover(known, member, record.time_ms))

    def _emptied(self, record: LogRecord) -> None:
        if self._walk.members:
            self._walk.rebalanced(self._rebalance(record, {}))
            self._walk.free_since.clear()

    def _rebalanced(self, record: LogRecord, members: dict[str, Member]) -> None:
        walk = self._walk
        rebalance = self._rebalance(record, members)
        rebalance.gaps += self._gaps(rebalance)
        walk.rebalanced(rebalance)

    def _rebalance(self, record: LogRecord, members: dict[str, Member]) -> Rebalance:
        walk, value = self._walk, record.value
        known = bool(walk.members) or self._is_empty
        since_ms = walk.last.time_ms if walk.last is not None else 0
        signs = {each.member_id: walk.sign_of(each, since_ms) for each in walk.members.values()}
        return Rebalance(
            CLASSIC, value.generation, walk.generation if known else None, record.offset, record.time_ms,
            value.protocol, walk.protocol, members, dict(walk.members) if walk.members else None, dict(walk.owners),
            value.leader, walk.leader,
            join_end_ms=value.current_state_timestamp if value.current_state_timestamp > 0 else None,
            told=told_by(record),
            last_joined=_last_joined(record),
            signs={member_id: sign for member_id, sign in signs.items() if sign is not None},
            skipped=max(0, value.generation - walk.generation - 1) if walk.generation is not None else 0,
        )  # fmt: skip

    # --- partitions without an owner

    def _gaps(self, rebalance: Rebalance) -> list[Gap]:
        walk, now_ms = self._walk, rebalance.time_ms
        gaps: list[Gap] = []
        assigned = owners_of(rebalance.members.values())
        is_cooperative = rebalance.protocol == COOPERATIVE
        remaining = by_identity(rebalance.members)
        begin_ms = rebalance.begin_ms
        for member in walk.members.values():
            stays = remaining.get(member.identity)
            places = member.assigned or frozenset()
            if stays is None:
                self._free(places, begin_ms, now_ms, silent=member.member_id in rebalance.signs)
            elif not is_cooperative:
                self._free(places, begin_ms, now_ms, silent=False)
            else:
                walk.freed(places - (stays.assigned or frozenset()), now_ms)
        inferred = {place for place in walk.free_since if begin_ms is None and walk.free_since[place] != now_ms}
        given = [place for place in assigned if place in walk.free_since and walk.free_since[place] < now_ms]
        for place in given:
            walk.taken((place,), now_ms, gaps, is_inferred=place in inferred)
        for place in assigned:
            walk.free_since.pop(place, None)
        self._forget_what_nobody_will_have(assigned, is_cooperative, now_ms)
        rebalance.still_free = dict(walk.free_since)
        return gaps

    def _forget_what_nobody_will_have(self, assigned: Mapping[Place, str], is_cooperative: bool, now_ms: int) -> None:
        """Stop counting partitions as free that no later generation will assign. Only a cooperative group leaves
        partitions out, for one generation; and topics of which nobody has a partition are not wanted any more."""
        topics = {topic for topic, _ in assigned}
        free = self._walk.free_since
        for place in list(free):
            if not is_cooperative or place[0] not in topics or free[place] != now_ms:
                del free[place]

    def _free(self, places: frozenset[Place], begin_ms: int | None, now_ms: int, *, silent: bool) -> None:
        """`silent`: the member is gone; if its last commit was long before, nobody has read the partition since."""
        since_ms = self._walk.last.time_ms if self._walk.last is not None else 0
        for place in places:
            sign = self._walk.sign_of_place(place)
            last_ms = sign.last_ms if sign is not None and sign.last_ms >= since_ms else None
            if begin_ms is None:
                start = last_ms
            elif (
                silent and last_ms is not None and sign is not None and begin_ms - last_ms > 2 * (sign.interval_ms or 0)
            ):
                start = min(begin_ms, last_ms)
            else:
                start = begin_ms
            if start is not None and start < now_ms - (0 if start == begin_ms else MIN_INFERRED_GAP_MS):
                self._walk.freed((place,), start)


def told_by(record: LogRecord) -> Told | None:
    cause = told(record.headers, b"kohort.cause")
    if cause is None:
        return None
    trigger = told(record.headers, b"kohort.trigger") or ""
    return Told(cause, trigger, told_ms(record.headers, b"kohort.join.start.ms"))


def _last_joined(record: LogRecord) -> tuple[str, int] | None:
    member_id, time_ms = told(record.headers, b"kohort.last.joined"), told_ms(record.headers, b"kohort.last.joined.ms")
    return (member_id, time_ms) if member_id and time_ms is not None else None


def _same_shares(before: Mapping[str, Member], after: Mapping[str, Member]) -> bool:
    return {each.identity: each.assigned for each in before.values()} == {
        each.identity: each.assigned for each in after.values()
    }


def _member(saved: MemberMetadata, protocol_type: str) -> Member:
    topics: frozenset[str] | None = None
    assigned: frozenset[Place] | None = None
    if protocol_type == CONSUMERS:
        try:
            topics = frozenset(read_subscription(saved.subscription).topics)
            assigned = _places(saved.assignment)
        except MalformedMessage:
            assigned = None
    return Member(
        saved.member_id, saved.group_instance_id, saved.client_id, saved.client_host,
        saved.rebalance_timeout if saved.rebalance_timeout > 0 else None, saved.session_timeout, topics, None, assigned,
    )  # fmt: skip


def _places(assignment: bytes) -> frozenset[Place]:
    if not assignment:
        return frozenset()
    read = read_assignment(assignment)
    return frozenset((topic.topic, number) for topic in read.assigned_partitions for number in topic.partitions)
