"""Sends a request to both brokers, waits for the answers, and compares them, and then what both show of the group."""

from __future__ import annotations

import time
from collections.abc import Sequence
from random import Random
from typing import Any

from kohort.protocol.api_keys import APIS, ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.protocol.messages.describe_groups import DescribeGroupsRequest
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kohort.protocol.messages.list_groups import ListGroupsResponse
from kohort.protocol.messages.sync_group import SyncGroupResponse
from kohort.protocol.subscription import read_assignment, read_subscription, read_version
from tests.group_requests import fetch_request
from tests.parity.compare import Comparison
from tests.parity.peer import ANSWER_TIMEOUT_S, Exchange, name_topic_ids
from tests.parity.random_stories.actor import Actor, name_of
from tests.parity.random_stories.world import KAFKA, OURS, Line, World
from tests.parity.transcript import short

QUIET_S = 0.04  # a JoinGroup or SyncGroup that is not answered within this time waits for others
PATIENCE_S = 4.0  # until both brokers show the same
POLL_S = 0.01
MAY_WAIT = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)
MAKING_IDS = (ApiKey.JOIN_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT)
VERSIONS: dict[ApiKey, Sequence[int]] = {
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 1, 1, 1),
    ApiKey.JOIN_GROUP: (2, 4, 5, 6, 7, 9, 9, 9),
    ApiKey.SYNC_GROUP: (3, 5, 5),
    ApiKey.HEARTBEAT: (3, 4),
    ApiKey.LEAVE_GROUP: (2, 4, 5, 5),
    ApiKey.OFFSET_COMMIT: (7, 8, 9, 10),
    ApiKey.OFFSET_FETCH: (8, 9, 10),
    ApiKey.OFFSET_DELETE: (0,),
    ApiKey.DELETE_GROUPS: (2,),
    ApiKey.LIST_GROUPS: (5,),
}


class Stage:
    """One group on both brokers."""

    def __init__(self, chance: Random, group: str, world: World, comparison: Comparison) -> None:
        self._chance, self._group, self._world, self._comparison = chance, group, world, comparison
        self.told: list[str] = []
        self.problems: list[str] = []
        self.steps = 0
        self.is_over = False  # from here on, what happens depends on more than the story
        self.has_regex = False  # a member has a regular expression, so it is resolved
        self._lines: list[Line] = []
        self._admin = self.new_line()
        self._waiting: list[tuple[Line, Actor | None]] = []
        self._seen: set[str] = set()  # ids of all members so far
        self._present: set[str] = set()  # members of the consumer group
        self._is_empty = False  # it is a consumer group without members
        self._is_assigning = False  # the group has not had a target for its epoch yet

    def new_line(self) -> Line:
        line = Line(self._world)
        self._lines.append(line)
        return line

    def close(self) -> None:
        for line in self._lines:
            line.close()

    # --- asking

    def ask(self, actor: Actor | None, api_key: ApiKey, request: Any, version: int | None = None) -> None:
        """The same request to both; takes all answers that have come, and compares what both show."""
        if self.problems or self.is_over or self._is_known_to_differ(request):
            return
        if version is None:
            version = self._chance.choice(VERSIONS[api_key])
        line = self._admin if actor is None else actor.line
        self.steps += 1
        self.told.append(f"{name_of(actor)}: v{version} {short(request)}")
        self._waiting.append((line, actor))
        for side in (KAFKA, OURS):
            line.send(side, api_key, version, request)
            line.has_answer(side, QUIET_S if api_key in MAY_WAIT else ANSWER_TIMEOUT_S)
            if side == KAFKA and api_key in MAKING_IDS and not request.member_id:
                self._choose_id(line)
        self._settle()

    def _is_known_to_differ(self, request: Any) -> bool:
        """Two requests that docs/protocol-support.md tells of.

        A JoinGroup with a member id to an empty consumer group is refused; Kafka has forgotten the group then.
        A new member without topics bumps no epoch. If a target is due then, Kafka takes the subscriptions for those
        before it came, and gives it what it does not want.
        """
        if self._is_empty and isinstance(request, JoinGroupRequest) and request.member_id:
            return True
        if not self._is_assigning or getattr(request, "member_id", None) in self._present:
            return False
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            names: Sequence[str] = request.subscribed_topic_names or ()
            return request.member_epoch == 0 and not names and not request.subscribed_topic_regex
        if isinstance(request, JoinGroupRequest):
            try:
                return not any(read_subscription(each.metadata).topics for each in request.protocols)
            except MalformedMessage:
                return False
        return False

    def _choose_id(self, line: Line) -> None:
        """Kafka may have made an id for this request: it is in the answer, or in the group if the answer is to come."""
        self._world.ids.choose(member="")  # else a request that Kafka refuses would get the id of somebody before
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if line.has_answer(KAFKA):
                made = getattr(line.take(KAFKA).answer, "member_id", None)
                if made:
                    self._world.ids.choose(member=made)
                return
            described = self._world.clients[KAFKA].send(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest([self._group]), 5)
            unseen = {each.member_id for each in described.groups[0].members} - self._seen
            if unseen:
                self._world.ids.choose(member=unseen.pop())
                return

    def _settle(self) -> None:
        """Takes the answers that have come. A request that one broker has answered, the other one answers, too."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            for line, _ in self._waiting:
                line.take_what_is_there()
            one_sided = [
                each for each in self._waiting if (each[0].answers[KAFKA] is None) != (each[0].answers[OURS] is None)
            ]
            if not one_sided:
                break
            if self._is_refused_upgrade(one_sided):
                self.is_over = True
                return
            if time.monotonic() > deadline:
                if all(_is_sync_of_a_member_sent_away(line) for line, _ in one_sided):
                    self.is_over = True  # Kafka's connection waits for ever
                    return
                for line, actor in one_sided:
                    has, answer = (
                        ("Kafka has", line.answers[KAFKA])
                        if line.answers[OURS] is None
                        else ("we have", line.answers[OURS])
                    )
                    self.problems.append(f"{name_of(actor)}: only {has} answered: {short(answer and answer.answer)}")
                return
            time.sleep(POLL_S)
        for line, actor in [each for each in self._waiting if each[0].answers[KAFKA] is not None]:
            self._waiting.remove((line, actor))
            theirs, ours = line.done()
            self._leave_out(theirs.answer, ours.answer)
            self.told.append(f"    {name_of(actor)} <- {short(theirs.answer)}")
            if self._has_other_leader(theirs.answer, ours.answer):
                self.is_over = True
                return
            self._compare(self._comparison, theirs, ours)
            if actor is not None:
                actor.learn(theirs.answer, self._world.topic_ids)
        if not self.problems:
            self.look()

    def _is_refused_upgrade(self, one_sided: list[tuple[Line, Actor | None]]) -> bool:
        """A consumer may not join the classic group. Kafka tells members that wait to join again, which we do not."""
        both = [each[0].answers for each in self._waiting if None not in each[0].answers]
        refused = [
            [getattr(exchange.answer, "error_code", 0) for exchange in answers if exchange is not None]
            for answers in both
            if all(exchange is not None and exchange.api == "ConsumerGroupHeartbeat" for exchange in answers)
        ]
        sent_back = [line.answers[KAFKA] for line, _ in one_sided]
        return refused == [[ErrorCode.GROUP_ID_NOT_FOUND] * 2] and all(
            exchange is not None and getattr(exchange.answer, "error_code", 0) == ErrorCode.REBALANCE_IN_PROGRESS
            for exchange in sent_back
        )

    def _leave_out(self, theirs: Any, ours: Any) -> None:
        """What has no meaning for the story."""
        for answer in (theirs, ours):
            if isinstance(answer, ListGroupsResponse):  # there are other groups, too
                answer.groups = [each for each in answer.groups if each.group_id == self._group]
        if isinstance(theirs, SyncGroupResponse) and isinstance(ours, SyncGroupResponse):
            ours.assignment = _same_order(theirs.assignment, ours.assignment)

    def _has_other_leader(self, theirs: Any, ours: Any) -> bool:
        """When a leader has gone, Kafka takes the first member of a hash table, so the random ids decide; we take the
        member that came first. From there on, the story would be another one.
        """
        if not (isinstance(theirs, JoinGroupResponse) and isinstance(ours, JoinGroupResponse)):
            return False
        return theirs.leader != ours.leader and {theirs.leader, ours.leader} <= self._seen

    def _compare(self, comparison: Comparison, theirs: Exchange, ours: Exchange) -> None:
        before = len(comparison.differences)
        comparison.transcripts("random stories", [theirs], [ours])
        self.problems += [
            f"{d.api} v{d.version} {d.field}: Kafka {d.kafka}, ours {d.ours}" for d in comparison.differences[before:]
        ]

    def look(self) -> None:
        """What both show of the group. Kafka shows what is committed, which may be a moment after its answer."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            shown = [self.shown(side) for side in (KAFKA, OURS)]
            theirs_of = {each.member_id: each for each in shown[KAFKA][1].answer.groups[0].members}
            for member in shown[OURS][1].answer.groups[0].members:
                if (same := theirs_of.get(member.member_id)) is not None:
                    member.member_assignment = _same_order(same.member_assignment, member.member_assignment)
            tried = Comparison()
            tried.transcripts("random stories", *shown)
            if not tried.differences or time.monotonic() > deadline:
                break
            time.sleep(POLL_S)
        for theirs, ours in zip(*shown, strict=True):
            self._compare(self._comparison, theirs, ours)
        described, classic = (exchange.answer.groups[0] for exchange in shown[KAFKA][:2])
        members = [*described.members, *classic.members]
        self._seen |= {each.member_id for each in members}
        self._present = {each.member_id for each in described.members}
        self._is_empty = not described.error_code and not described.members
        self._is_assigning = described.group_epoch > described.assignment_epoch
        self.has_regex = any(each.subscribed_topic_regex for each in described.members)
        if self.problems:
            self.told.append(f"    shown: {short(described)} {short(classic)}")

    def shown(self, side: int) -> list[Exchange]:
        client = self._world.clients[side]
        asked: list[tuple[ApiKey, int, Any]] = [
            (ApiKey.CONSUMER_GROUP_DESCRIBE, 1, ConsumerGroupDescribeRequest([self._group])),
            (ApiKey.DESCRIBE_GROUPS, 6, DescribeGroupsRequest([self._group])),
            (ApiKey.OFFSET_FETCH, 9, fetch_request([(self._group, None)], 9)),
        ]
        shown = []
        for api_key, version, request in asked:
            answer = client.send(api_key, request, version)
            name_topic_ids(answer, self._world.names)
            if api_key is ApiKey.OFFSET_FETCH:  # in the order of a hash table
                for group in answer.groups:
                    group.topics = sorted(group.topics, key=lambda topic: topic.name)
                    for topic in group.topics:
                        topic.partitions = sorted(topic.partitions, key=lambda row: row.partition_index)
            shown.append(Exchange(APIS[api_key].name, version, answer, b""))
        return shown


def _is_sync_of_a_member_sent_away(line: Line) -> bool:
    """Kafka never answers the SyncGroup of a member that is removed while it waits; differences.py allows that."""
    ours = line.answers[OURS]
    if ours is None or line.answers[KAFKA] is not None:
        return False
    return isinstance(ours.answer, SyncGroupResponse) and ours.answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def _same_order(theirs: bytes, ours: bytes) -> bytes:
    """Our assignment of a classic member, in Kafka's order if it is the same one.

    In a consumer group the coordinator makes it, and Kafka goes through the topics in the order of a HashMap. That
    means nothing to clients.
    """
    try:
        same = theirs != ours and _words(theirs) == _words(ours)
    except MalformedMessage:
        same = False
    return theirs if same else ours


def _words(assignment: bytes) -> tuple[int, list[tuple[str, list[int]]], bytes | None]:
    read = read_assignment(assignment)
    rows = sorted((row.topic, sorted(row.partitions)) for row in read.assigned_partitions)
    return read_version(assignment), rows, read.user_data
