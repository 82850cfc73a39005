"""Consumers of all three kinds of groups, a thread each, that do what real ones do: heartbeat, commit, rejoin, and
give up and take partitions. A test makes them slow, still, or end without a word.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from kohort.client.client import Client
from kohort.client.errors import ClientError
from kohort.coordinator.assignors import assign
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kohort.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kohort.protocol.subscription import read_assignment, read_subscription
from kohort.protocol.wire import NO_UUID
from tests.group_requests import assignment_bytes, commit_request, full_subscription, owned_rows

SESSION_MS, POLL_MS = 3_000, 60_000
HEARTBEAT_S, COMMIT_S, METADATA_S = 0.25, 0.3, 0.5
PAUSE_S = 0.03
COOPERATIVE = "cooperative-sticky"
POLL_REASON = "consumer poll timeout has expired."  # what Kafka's Java client says
RETRY = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
BEGIN_ANEW = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION)


class Fenced(Exception):
    """Another process has the same instance id."""


class Again(Exception):
    """Join again."""


class Consumer(threading.Thread):
    """What both kinds of members do. `with` ends it in good order."""

    def __init__(self, address: str, group: str, name: str, topics: Sequence[str], instance: str | None) -> None:
        super().__init__(name=f"{group}/{name}", daemon=True)
        self.address, self.group, self.client_name, self.instance = address, group, name, instance
        self.topics = list(topics)
        self.owned: dict[str, list[int]] = {}
        self.member_id = ""
        self.problem: BaseException | None = None
        self._offset = 0
        self._ending: str | None = None  # close, crash
        self._busy_until = 0.0  # between two polls: it heartbeats, and does nothing else
        self._frozen_until = 0.0
        self._commit_at = self._beat_at = 0.0
        self._client: Client | None = None

    # --- for tests

    def close(self) -> None:
        self._ending = "close"
        self.join(30)

    def crash(self) -> None:
        self._ending = "crash"
        self.join(30)

    def freeze(self, seconds: float) -> None:
        """A pause of the whole process, as by garbage collection."""
        self._frozen_until = time.monotonic() + seconds

    def work(self, seconds: float) -> None:
        """The time between two polls."""
        self._busy_until = time.monotonic() + seconds

    def subscribe(self, *topics: str) -> None:
        self.topics = list(topics)

    @property
    def share(self) -> set[tuple[str, int]]:
        return {(topic, number) for topic, numbers in dict(self.owned).items() for number in numbers}

    # --- the thread

    def run(self) -> None:
        try:
            while self._ending is None:
                try:
                    with Client(self.address, client_id=self.client_name, timeout_s=30) as self._client:
                        self._live()
                except ClientError:
                    time.sleep(0.1)  # the broker is being started again
        except Fenced:
            pass
        except BaseException as problem:
            self.problem = problem
            raise
        finally:
            self.owned = {}

    def _live(self) -> None:
        raise NotImplementedError

    def _pause(self) -> None:
        time.sleep(PAUSE_S)
        while time.monotonic() < self._frozen_until and self._ending is None:
            time.sleep(PAUSE_S)

    def _send(self, api: ApiKey, request: Any, version: int | None = None) -> Any:
        assert self._client is not None
        return self._client.send(api, request, version)

    def _check(self, code: int) -> None:
        if code == ErrorCode.NONE:
            return
        if code == ErrorCode.FENCED_INSTANCE_ID:
            raise Fenced
        if code in BEGIN_ANEW:
            self._begin_anew()
            raise Again
        if code in RETRY:  # the coordinator is being loaded: the member keeps what it has
            time.sleep(0.1)
            return
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            raise Again
        raise AssertionError((self.name, ErrorCode(code)))

    def _begin_anew(self) -> None:
        self.member_id, self.owned = "", {}

    def _commit(self, epoch: int) -> int:
        self._offset += 1
        offsets = dict.fromkeys(self.share, self._offset)
        if not offsets:
            return 0
        request = commit_request(self.group, offsets, epoch, self.member_id, self.instance)
        answer = self._send(ApiKey.OFFSET_COMMIT, request, 9)
        codes = [part.error_code for topic in answer.topics for part in topic.partitions]
        return next((code for code in codes if code), 0)

    def _counts(self, topics: Sequence[str]) -> dict[str, int]:
        request = MetadataRequest([MetadataRequestTopic(NO_UUID, topic) for topic in topics], False)
        answer = self._send(ApiKey.METADATA, request, 12)
        return {topic.name: len(topic.partitions) for topic in answer.topics if not topic.error_code}


class ClassicConsumer(Consumer):
    def __init__(
        self, address: str, group: str, name: str, topics: Sequence[str], *, instance: str | None = None,
        assignors: Sequence[str] = ("range",), session_ms: int = SESSION_MS, poll_ms: int = POLL_MS,
    ) -> None:  # fmt: skip
        super().__init__(address, group, name, topics, instance)
        self.assignors, self.session_ms, self.poll_ms = tuple(assignors), session_ms, poll_ms
        self.generation = -1
        self._protocol = assignors[0]
        self._leads = False
        self._known: dict[str, int] = {}  # partitions of topics, as the leader knew them when it assigned
        self._wanted_by_all: list[str] = []
        self._metadata_at = 0.0
        self._subscribed = list(topics)
        self.start()

    def _begin_anew(self) -> None:
        super()._begin_anew()
        self.generation = -1

    def _live(self) -> None:
        while self._ending is None:
            try:
                if self.generation < 0:
                    self._join()
                self._turn()
            except Again:
                self.generation = -1
            self._pause()
        if self._ending == "close" and self.member_id:
            self._commit(self.generation)
            if self.instance is None:  # static members go without a word
                self._leave("the consumer is being closed")

    def _turn(self) -> None:
        now = time.monotonic()
        is_busy = now < self._busy_until
        if now >= self._beat_at:
            self._beat_at = now + HEARTBEAT_S
            code = self._beat()
            if is_busy and code == ErrorCode.REBALANCE_IN_PROGRESS:
                self._finish_work()
                raise Again
            self._check(code)
        if is_busy:
            self._finish_work()
            return
        if now >= self._commit_at:
            self._commit_at = now + COMMIT_S
            self._check(self._commit(self.generation))
        if self.topics != self._subscribed or (self._leads and now >= self._metadata_at and self._has_news()):
            raise Again

    def _finish_work(self) -> None:
        """It heartbeats while it works. After max.poll.interval.ms a real one leaves the group meanwhile."""
        leave_at = time.monotonic() + self.poll_ms / 1000
        while time.monotonic() < self._busy_until:
            time.sleep(HEARTBEAT_S)
            if not self.member_id:
                continue
            if time.monotonic() >= leave_at:
                self._leave(POLL_REASON)
                self._begin_anew()
            elif self._beat() in BEGIN_ANEW:
                self._begin_anew()
        if not self.member_id:
            raise Again
        self._commit(self.generation)

    def _beat(self) -> int:
        request = HeartbeatRequest(self.group, self.generation, self.member_id, self.instance)
        return int(self._send(ApiKey.HEARTBEAT, request, 4).error_code)

    def _has_news(self) -> bool:
        self._metadata_at = time.monotonic() + METADATA_S
        return self._counts(self._wanted_by_all) != self._known

    def _leave(self, reason: str) -> None:
        request = LeaveGroupRequest(self.group, "", [MemberIdentity(self.member_id, self.instance, reason)])
        self._send(ApiKey.LEAVE_GROUP, request, 5)

    def _join(self) -> None:
        if self._protocol != COOPERATIVE and self.member_id and self.owned:
            self._commit(self.generation)
            self.owned = {}
        self._subscribed = list(self.topics)
        answer = self._send(ApiKey.JOIN_GROUP, self._join_request(), 9)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            answer = self._send(ApiKey.JOIN_GROUP, self._join_request(), 9)
        self._must_be_done(answer.error_code)
        self.member_id, self._protocol = answer.member_id, answer.protocol_name
        self._leads = answer.leader == self.member_id
        given = self._assign(answer) if self._leads and not answer.skip_assignment else {}
        rows = [SyncGroupRequestAssignment(member, assignment_bytes(each)) for member, each in given.items()]
        request = SyncGroupRequest(
            self.group, answer.generation_id, self.member_id, self.instance, "consumer", self._protocol, rows
        )
        synced = self._send(ApiKey.SYNC_GROUP, request, 5)
        self._must_be_done(synced.error_code)
        self._take(answer.generation_id, synced.assignment)

    def _must_be_done(self, code: int) -> None:
        self._check(code)
        if code:
            raise Again

    def _take(self, generation: int, assignment: bytes) -> None:
        before = self.share
        self.generation = generation
        topics = read_assignment(assignment).assigned_partitions if assignment else []
        self.owned = {topic.topic: list(topic.partitions) for topic in topics}
        self._commit_at = time.monotonic() + COMMIT_S / 2
        self._metadata_at = time.monotonic() + METADATA_S
        if self._protocol == COOPERATIVE and before - self.share:
            raise Again  # it has given partitions up, and says so by joining again

    def _join_request(self) -> JoinGroupRequest:
        metadata = full_subscription(self.topics, self.owned, self.generation, 3)
        offered = [JoinGroupRequestProtocol(name, metadata) for name in self.assignors]
        return JoinGroupRequest(
            self.group, self.session_ms, self.poll_ms, self.member_id, self.instance, "consumer", offered
        )

    def _assign(self, answer: Any) -> Mapping[str, Mapping[str, Sequence[int]]]:
        read = {member.member_id: read_subscription(member.metadata) for member in answer.members}
        wishes = {member: list(each.topics) for member, each in read.items()}
        self._wanted_by_all = sorted({topic for topics in wishes.values() for topic in topics})
        self._known = self._counts(self._wanted_by_all)
        owned = {
            member: [(topic.topic, number) for topic in each.owned_partitions for number in topic.partitions]
            for member, each in read.items()
        }
        instances = {each.member_id: each.group_instance_id for each in answer.members if each.group_instance_id}
        given = assign(answer.protocol_name, wishes, self._known, owned, instances)
        found: dict[str, dict[str, list[int]]] = {}
        for member, places in given.items():
            mine = found.setdefault(member, {})
            for topic, number in places:
                mine.setdefault(topic, []).append(number)
        return found


class NewConsumer(Consumer):
    """A member of KIP-848."""

    def __init__(
        self, address: str, group: str, name: str, topics: Sequence[str], ids: Mapping[str, bytes], *,
        instance: str | None = None, regex: str | None = None, poll_ms: int = POLL_MS, keeps: bool = False,
    ) -> None:  # fmt: skip
        """`keeps`: it never gives up what the broker takes away."""
        super().__init__(address, group, name, topics, instance)
        self.ids, self.regex, self.poll_ms, self.keeps = ids, regex, poll_ms, keeps
        self.epoch = 0
        self._said: list[str] | None = None
        self.start()

    def _begin_anew(self) -> None:
        super()._begin_anew()
        self.epoch, self._said = 0, None

    def _live(self) -> None:
        while self._ending is None:
            try:
                now = time.monotonic()
                if now >= self._beat_at:
                    self._beat_at = now + HEARTBEAT_S
                    self._beat()
                if now >= self._commit_at and now >= self._busy_until and self.epoch > 0:
                    self._commit_at = now + COMMIT_S
                    code = self._commit(self.epoch)
                    if code != ErrorCode.STALE_MEMBER_EPOCH:
                        self._check(code)
            except Again:
                time.sleep(PAUSE_S)
            self._pause()
        if self._ending == "close" and self.member_id:
            self._commit(self.epoch)
            self._say(-2 if self.instance is not None else -1)

    def _beat(self) -> None:
        if not self.member_id:
            self.member_id = f"{self.client_name}-{time.monotonic_ns()}"
        answer = self._say(self.epoch)
        if answer.error_code == ErrorCode.UNRELEASED_INSTANCE_ID:
            time.sleep(0.1)
            return
        self._check(answer.error_code)
        if answer.error_code:
            return
        self.epoch = answer.member_epoch
        if answer.assignment is not None and not self.keeps:
            names = {topic_id: name for name, topic_id in self.ids.items()}
            rows = answer.assignment.topic_partitions
            self.owned = {names[bytes(row.topic_id)]: list(row.partitions) for row in rows}
            self._beat_at = 0.0  # say so at once
        elif answer.assignment is not None and not self.owned:
            names = {topic_id: name for name, topic_id in self.ids.items()}
            self.owned = {
                names[bytes(row.topic_id)]: list(row.partitions) for row in answer.assignment.topic_partitions
            }

    def _say(self, epoch: int) -> Any:
        request = ConsumerGroupHeartbeatRequest(self.group, self.member_id, epoch)
        request.instance_id = self.instance
        if epoch >= 0:
            request.topic_partitions = owned_rows(self.owned, self.ids.__getitem__)
            request.rebalance_timeout_ms = self.poll_ms
            if self._said != self.topics or epoch == 0:
                request.subscribed_topic_names = list(self.topics)
                request.subscribed_topic_regex = self.regex
                self._said = list(self.topics)
        return self._send(ApiKey.CONSUMER_GROUP_HEARTBEAT, request, 1)


class ShareConsumer(Consumer):
    """A member of a share group; it reads nothing."""

    def __init__(self, address: str, group: str, name: str, topics: Sequence[str]) -> None:
        super().__init__(address, group, name, topics, None)
        self.epoch = 0
        self.start()

    def _begin_anew(self) -> None:
        super()._begin_anew()
        self.epoch = 0

    def _live(self) -> None:
        while self._ending is None:
            try:
                now = time.monotonic()
                if now >= self._beat_at:
                    self._beat_at = now + HEARTBEAT_S
                    self.member_id = self.member_id or f"{self.client_name}-{time.monotonic_ns()}"
                    answer = self._say(self.epoch)
                    self._check(answer.error_code)
                    if answer.error_code:
                        continue
                    self.epoch = answer.member_epoch
                    if answer.assignment is not None:
                        rows = answer.assignment.topic_partitions
                        self.owned = {bytes(row.topic_id).hex(): list(row.partitions) for row in rows}
            except Again:
                time.sleep(PAUSE_S)
            self._pause()
        if self._ending == "close":
            self._say(-1)

    def _say(self, epoch: int) -> Any:
        topics = list(self.topics) if epoch == 0 else None
        return self._send(
            ApiKey.SHARE_GROUP_HEARTBEAT, ShareGroupHeartbeatRequest(self.group, self.member_id, epoch, None, topics), 1
        )
