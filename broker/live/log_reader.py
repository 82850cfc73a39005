"""Records of __consumer_offsets become history.

A record of a classic group describes a whole generation. Of a group of KIP-848 or a share group there is a record for
each thing that changes; a rebalance begins with a new epoch and is over when all members have reached it.

Records that cannot be read are stepped over: the page shows what it can, and the audit tells what is wrong with a log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from kohort.broker.live.group import CLASSIC, CONSUMER, SHARE, STREAMS, GroupHistory, Person, Place, Rebalance
from kohort.broker.live.histories import Histories
from kohort.protocol.commit_record import (
    PARTITION_BYTES,
    PLAIN_VALUE_BYTES,
    VERSION_BYTES,
    read_key_prefix,
    unpack_partition,
    unpack_plain_value,
)
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.log_records import (
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    CONSUMER_GROUP_MEMBER_METADATA,
    CONSUMER_GROUP_METADATA,
    CONSUMER_GROUP_RECORDS,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
    GROUP_METADATA,
    OFFSET_COMMITS,
    SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    SHARE_GROUP_MEMBER_METADATA,
    SHARE_GROUP_METADATA,
    SHARE_GROUP_RECORDS,
    SHARE_GROUP_TARGET_ASSIGNMENT_METADATA,
    STREAMS_GROUP_METADATA,
    decode_key,
    decode_value,
)
from kohort.protocol.record_batch import parse_marker, scan_records
from kohort.protocol.subscription import read_assignment

CONSUMER_PROTOCOL: Final = "consumer"
MEMBER_METADATA: Final = (CONSUMER_GROUP_MEMBER_METADATA, SHARE_GROUP_MEMBER_METADATA)
GROUP_EPOCH: Final = (CONSUMER_GROUP_METADATA, SHARE_GROUP_METADATA)
TARGET_EPOCH: Final = (CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, SHARE_GROUP_TARGET_ASSIGNMENT_METADATA)
ASSIGNMENT: Final = (CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT)
OF_EPOCH_GROUPS: Final = CONSUMER_GROUP_RECORDS | SHARE_GROUP_RECORDS
RECORDS_IN_STEP: Final = 300
MEMBERS_IN_STEP: Final = 50
LARGE_RECORD_BYTES: Final = 50_000
MAX_PREFIXES: Final = 50_000
MAX_PENDING: Final = 100_000  # offsets of transactions that are open

Headers = tuple[tuple[bytes, bytes | None], ...]


class LogReader:
    def __init__(self, histories: Histories, *, with_commits: bool) -> None:
        """`with_commits` False: somebody else knows how far commits have come."""
        self._histories = histories
        self._with_commits = with_commits
        self._prefixes: dict[bytes, tuple[str, str] | None] = {}
        self._pending: dict[tuple[int, int], list[tuple[str, Place, int, int]]] = {}  # by partition and producer
        self._pending_count = 0

    def read(self, partition: int, data: bytes) -> Iterator[None]:
        """Whole batches of one partition. Each `next` is a step of a few milliseconds."""
        in_step = 0
        for header, _, time, key, value, headers in scan_records(data, check_crc=False):
            in_step += 1
            if in_step > RECORDS_IN_STEP:
                in_step = 0
                yield
            if header.is_control:
                self._end_transaction(partition, header.producer_id, key, value)
                continue
            if key is None or len(key) < 2:
                continue
            kind = int.from_bytes(key[:2], "big", signed=True)
            try:
                if kind in OFFSET_COMMITS:
                    if self._with_commits:
                        pending = (partition, header.producer_id) if header.is_transactional else None
                        self._commit(kind, key, value, pending)
                else:
                    if value is not None and len(value) > LARGE_RECORD_BYTES:
                        yield
                    yield from self._group_record(kind, key, value, time, headers)
            except MalformedMessage:
                continue

    # --- commits

    def _commit(self, kind: int, raw_key: bytes, value: bytes | None, pending: tuple[int, int] | None) -> None:
        prefix = raw_key[:-PARTITION_BYTES]
        try:
            named = self._prefixes[prefix]
        except KeyError:
            if len(self._prefixes) >= MAX_PREFIXES:
                self._prefixes.clear()
            named = self._prefixes[prefix] = read_key_prefix(prefix)
        if named is None:
            return
        group_id, topic = named
        place = (topic, unpack_partition(raw_key, len(prefix))[0])
        group = self._histories.of(group_id)
        if value is None:
            self._histories.forget_commit(group, place)
            return
        if len(value) == PLAIN_VALUE_BYTES and value[:2] == VERSION_BYTES:
            _, offset, _, _, at_ms, _, topic_id = unpack_plain_value(value)
            if topic_id in self._histories.unknown_topics:
                self._histories.learn(topic_id, topic)
        else:
            read: Any = decode_value(kind, value)
            offset, at_ms = read.offset, read.commit_timestamp
        if pending is None:
            self._histories.committed(group, place, offset, at_ms)
        elif self._pending_count < MAX_PENDING:
            self._pending_count += 1
            self._pending.setdefault(pending, []).append((group_id, place, offset, at_ms))

    def _end_transaction(self, partition: int, producer_id: int, key: bytes | None, value: bytes | None) -> None:
        pending = self._pending.pop((partition, producer_id), [])
        self._pending_count -= len(pending)
        marker = parse_marker(key, value)
        if marker is not None and marker.commit:
            for group_id, place, offset, at_ms in pending:
                self._histories.committed(self._histories.of(group_id), place, offset, at_ms)

    # --- groups

    def _group_record(
        self, kind: int, raw_key: bytes, raw_value: bytes | None, at_ms: int, headers: Headers
    ) -> Iterator[None]:
        if kind == GROUP_METADATA:
            _, key = decode_key(raw_key)
            yield from self.generation(
                key.group, None if raw_value is None else decode_value(kind, raw_value), at_ms, headers
            )
        elif kind in OF_EPOCH_GROUPS:
            _, key = decode_key(raw_key)
            value = None if raw_value is None else decode_value(kind, raw_value)
            self.epoch_record(kind, key, value, at_ms, headers)
        elif kind == STREAMS_GROUP_METADATA:
            group_id = raw_key[4 : 4 + int.from_bytes(raw_key[2:4], "big")].decode(errors="replace")
            if raw_value is None:
                self._end(group_id, STREAMS, at_ms)
            else:
                self._histories.changed(self._of_type(group_id, STREAMS, at_ms))

    def _of_type(self, group_id: str, kind: str, at_ms: int) -> GroupHistory:
        group = self._histories.of(group_id)
        if group.since_ms is None:
            group.since_ms = at_ms
        if group.type != kind:
            if group.present:
                self._histories.ends(group, at_ms)
            group.type = kind
            group.epoch = group.target_epoch = -1
        return group

    def _end(self, group_id: str, kind: str, at_ms: int) -> None:
        group = self._histories.get(group_id)
        if group is not None and group.type == kind:
            self._histories.ends(group, at_ms)
            self._histories.changed(group)
            if not group.commits and not group.rebalances:
                self._histories.remove(group_id)

    # --- classic groups

    def generation(
        self, group_id: str, value: Any, at_ms: int, headers: Headers = (), *, is_news: bool = True
    ) -> Iterator[None]:
        """A generation as the log has it; None: the group was deleted. Not `is_news`: it has been so for a while."""
        if value is None:
            self._end(group_id, CLASSIC, at_ms)
            return
        group = self._of_type(group_id, CLASSIC, at_ms)
        histories = self._histories
        is_new = is_news and value.generation != group.epoch and bool(value.members or group.present)
        group.epoch = value.generation
        group.protocol_type = value.protocol_type or None
        group.assignor = value.protocol
        rebalance = group.rebalances_at(value.generation, at_ms) if is_new else Rebalance(value.generation, at_ms, 0)
        members = {each.group_instance_id or each.member_id for each in value.members}
        gone = [person for person in group.present.values() if (person.instance_id or person.member_id) not in members]
        for number, person in enumerate(gone):
            rebalance.leaves(shown(person))
            histories.leaves(group, person.member_id, at_ms)
            if number % MEMBERS_IN_STEP == 0:
                yield
        reads = value.protocol_type == CONSUMER_PROTOCOL
        changed: list[tuple[Person, bytes]] = []
        for number, each in enumerate(value.members):
            is_here = each.member_id in group.present
            person = group.enters(each.member_id, each.group_instance_id, each.client_id, each.client_host, at_ms)
            if not is_here:
                rebalance.joins(shown(person))
            if each.assignment != person.raw:
                changed.append((person, bytes(each.assignment)))
            if number % MEMBERS_IN_STEP == 0:
                yield
        yield from self._assign(group, changed if reads else [], rebalance, at_ms)
        rebalance.members = len(group.present)
        rebalance.unowned = len(group.unowned) if group.present else 0
        if is_new:
            explain(rebalance, headers, at_ms)
            group.counts_cause(rebalance.cause)
        histories.changed(group)

    def _assign(
        self, group: GroupHistory, changed: list[tuple[Person, bytes]], rebalance: Rebalance, at_ms: int
    ) -> Iterator[None]:
        """First everybody gives up what others get."""
        got: list[tuple[Person, frozenset[Place]]] = []
        for number, (person, raw) in enumerate(changed):
            places = read_places(raw)
            person.raw = raw
            got.append((person, places))
            if person.places - places:
                self._histories.assign(group, person, person.places & places, at_ms)
            if number % MEMBERS_IN_STEP == 0:
                yield
        for number, (person, places) in enumerate(got):
            rebalance.moved += self._histories.assign(group, person, places, at_ms)
            if number % MEMBERS_IN_STEP == 0:
                yield

    # --- groups of KIP-848, share groups

    def epoch_record(
        self, kind: int, key: Any, value: Any, at_ms: int, headers: Headers = (), *, is_news: bool = True
    ) -> None:
        group_type = CONSUMER if kind in CONSUMER_GROUP_RECORDS else SHARE
        if kind in GROUP_EPOCH and value is None:
            self._end(key.group_id, group_type, at_ms)
            return
        if value is None and key.group_id not in self._histories.groups:
            return
        if value is None and self._histories.groups[key.group_id].type != group_type:
            return
        group = self._of_type(key.group_id, group_type, at_ms)
        if kind in GROUP_EPOCH:
            self._bump(group, value.epoch, at_ms, headers, is_news=is_news)
        elif kind in TARGET_EPOCH:
            group.target_epoch = -1 if value is None else value.assignment_epoch
        elif kind in MEMBER_METADATA:
            self._member(group, key.member_id, value, at_ms)
        elif kind in ASSIGNMENT and value is not None:
            self._assignment(group, key.member_id, value, at_ms)
        else:
            return
        going_on = group.unfinished
        if going_on is not None and group.is_reconciled and (group.target_epoch >= group.epoch or not group.present):
            _finish(group, going_on, at_ms)
        self._histories.changed(group)

    def _bump(self, group: GroupHistory, epoch: int, at_ms: int, headers: Headers, *, is_news: bool) -> None:
        if epoch <= group.epoch:
            return
        group.epoch = epoch
        if not is_news:
            return
        rebalance = group.unfinished
        if rebalance is None:
            rebalance = group.rebalances_at(epoch, at_ms)
            rebalance.is_over = False
            rebalance.began_ms = at_ms
            explain(rebalance, headers, at_ms)
            group.counts_cause(rebalance.cause)
            group.news_into(rebalance)
        rebalance.epoch = epoch

    def _member(self, group: GroupHistory, member_id: str, value: Any, at_ms: int) -> None:
        if value is None:
            person = self._histories.leaves(group, member_id, at_ms)
            if person is not None:
                group.went(known_as(person))
            return
        is_here = member_id in group.present
        instance_id = getattr(value, "instance_id", None)
        person = group.enters(member_id, instance_id, value.client_id, value.client_host, at_ms)
        if group.type == CONSUMER:
            group.assignor = value.server_assignor or group.assignor
            group.protocol_type = CONSUMER_PROTOCOL
        if not is_here:
            group.came(known_as(person))

    def _assignment(self, group: GroupHistory, member_id: str, value: Any, at_ms: int) -> None:
        person = group.present.get(member_id)
        if person is None:
            return
        places = set(self._places(value.assigned_partitions))
        if group.type == CONSUMER:
            places |= set(self._places(value.partitions_pending_revocation))  # still his, until he says otherwise
        moved = self._histories.assign(group, person, frozenset(places), at_ms)
        group.reaches(person, value.member_epoch, value.state)
        if group.unfinished is not None:
            group.unfinished.moved += moved
            group.unfinished.slowest = known_as(person)

    def _places(self, topics: Iterable[Any]) -> Iterator[Place]:
        for topic in topics:
            name = self._histories.topic(bytes(topic.topic_id))
            for partition in topic.partitions:
                yield name, partition


def shown(person: Person) -> str:
    """The name of a member of a classic group, whose id begins with its client's."""
    return person.instance_id or person.member_id


def known_as(person: Person) -> str:
    """The name by which people know a member of another group, whose id is random."""
    return person.instance_id or person.client_id or person.member_id


def read_places(raw: bytes) -> frozenset[Place]:
    """An assignment of a consumer; nothing if it is of another kind."""
    if not raw:
        return frozenset()
    try:
        read = read_assignment(raw)
        return frozenset((topic.topic, number) for topic in read.assigned_partitions for number in topic.partitions)
    except MalformedMessage:
        return frozenset()


def explain(rebalance: Rebalance, headers: Headers, at_ms: int) -> None:
    """Kohort's records say why and since when, those of Kafka do not."""
    told = {name: (value or b"").decode(errors="replace") for name, value in headers}
    rebalance.cause = told.get(b"kohort.cause", "")
    rebalance.trigger = told.get(b"kohort.trigger", "")
    start = told.get(b"kohort.join.start.ms", "")
    if start.isdecimal() and len(start) < 16:
        rebalance.began_ms = int(start)
        if rebalance.is_over:
            rebalance.duration_ms = max(0, at_ms - rebalance.began_ms)


def _finish(group: GroupHistory, rebalance: Rebalance, at_ms: int) -> None:
    rebalance.is_over = True
    rebalance.duration_ms = max(0, at_ms - (rebalance.began_ms or rebalance.at_ms))
    rebalance.members = len(group.present)
    rebalance.unowned = len(group.unowned) if group.present else 0
