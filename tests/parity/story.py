"""Groups as scenarios: short stories of members on connections of their own.

A JoinGroup that waits for the others blocks its connection, so every member has one: `send_...` asks, `take` reads the
answer when the story wants it, and only then does it stand in the transcript. The API that a scenario is about is
spoken in the version under test, all others in a fixed one.

Member ids are random. When the story is over, each is replaced by its prefix and a number, in the order in which
JoinGroup answered them: what was random becomes equal, what was mixed up does not.
"""

from __future__ import annotations

import re
import select
import socket
from collections.abc import Callable, Iterable, Sequence
from secrets import token_hex
from typing import Any, TypeVar

from kohort.protocol.api_keys import APIS, ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kohort.protocol.messages.describe_groups import DescribeGroupsRequest
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.protocol.messages.list_groups import ListGroupsRequest
from kohort.protocol.messages.offset_commit import OffsetCommitRequest
from kohort.protocol.messages.offset_fetch import OffsetFetchRequest
from kohort.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kohort.protocol.wire import Message
from tests.group_requests import IdOf, Offsets, Partitions, commit_request, fetch_request, subscription, without_ids
from tests.parity.peer import (
    CLIENT_ID,
    CLOSED,
    ConnectionClosed,
    Exchange,
    Peer,
    connect,
    receive_frame,
    request_frame,
)
from tests.parity.scenario import scenario

# What the other APIs of a story are spoken in.
VERSIONS = {
    ApiKey.JOIN_GROUP: 9,
    ApiKey.SYNC_GROUP: 5,
    ApiKey.HEARTBEAT: 4,
    ApiKey.LEAVE_GROUP: 5,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
    ApiKey.OFFSET_DELETE: 0,
    ApiKey.DESCRIBE_GROUPS: 6,
    ApiKey.LIST_GROUPS: 5,
    ApiKey.DELETE_GROUPS: 2,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: 1,
    ApiKey.CONSUMER_GROUP_DESCRIBE: 1,
    ApiKey.FIND_COORDINATOR: 6,
    ApiKey.SHARE_GROUP_HEARTBEAT: 1,
    ApiKey.SHARE_GROUP_DESCRIBE: 1,
    ApiKey.SHARE_FETCH: 2,
    ApiKey.SHARE_ACKNOWLEDGE: 2,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: 0,
    ApiKey.READ_SHARE_GROUP_STATE: 0,
    ApiKey.WRITE_SHARE_GROUP_STATE: 1,
    ApiKey.DELETE_SHARE_GROUP_STATE: 0,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: 1,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: 1,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: 0,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: 0,
}
RUN = token_hex(2)  # groups cannot be deleted while they have members: a broker may know those of an earlier run
SESSION_MS = 60_000
REBALANCE_MS = 60_000
FIRST_WITH_TOPIC_IDS = 10
FIRST_LEAVE_OF_SEVERAL = 3

_RANDOM_ID = re.compile(r"^(.*)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$", re.DOTALL)
_RANDOM_ID_OF_CONSUMER_GROUP = re.compile(r"^()[A-Za-z0-9_-]{22}$")

Protocols = Sequence[tuple[str, bytes]]
AnyStory = TypeVar("AnyStory", bound="Story")
Register = Callable[[Callable[[AnyStory], None]], Callable[[AnyStory], None]]


def story(api_key: ApiKey, versions: Iterable[int] | None = None, *, pair: str = "") -> Register[Story]:
    """Registers a story, for all versions of the API or for the given ones."""
    return story_of(Story, api_key, versions, pair)


def story_of(
    kind: Callable[[Peer, ApiKey], AnyStory],
    api_key: ApiKey,
    versions: Iterable[int] | None,
    pair: str,
    *,
    alone: bool = False,
) -> Register[AnyStory]:
    def register(tell: Callable[[AnyStory], None]) -> Callable[[AnyStory], None]:
        def play(peer: Peer) -> None:
            told = kind(peer, api_key)
            try:
                tell(told)
            finally:
                told.close()

        play.__name__ = tell.__name__
        scenario(api_key, versions, alone=alone, pair=pair)(play)
        return tell

    return register


RANGE: Protocols = (("range", subscription("t")),)
BOTH: Protocols = (("range", subscription("t")), ("roundrobin", subscription("t")))


class Story:
    def __init__(self, peer: Peer, api_key: ApiKey) -> None:
        self.peer = peer
        self.api_key = api_key
        self.version = peer.version
        words = "".join(c if c.isalnum() else "-" for c in peer.scenario.lower())
        self.group = f"{words[:80]}-v{peer.version}-{RUN}"
        self._members: list[Member] = []
        self._admin = Member(self, "")

    def version_of(self, api_key: ApiKey) -> int:
        return self.version if api_key is self.api_key else VERSIONS[api_key]

    def member(self, group: str | None = None, *, instance: str | None = None, client_id: str = CLIENT_ID) -> Member:
        member = Member(self, self.group if group is None else group, instance, client_id)
        self._members.append(member)
        return member

    def twin(self, member: Member) -> Member:
        """The same member on another connection, which the broker has accepted and read from."""
        other = self.member(member.group, instance=member.instance, client_id=member.client_id)
        other.id, other.generation = member.id, member.generation
        other.protocol, other.protocol_type = member.protocol, member.protocol_type
        other.heartbeat()
        return other

    # --- groups to begin with

    def stable(self, count: int = 1, group: str | None = None, **options: Any) -> list[Member]:
        """A group in Stable; the first member leads, the n-th has the assignment `n`."""
        members: list[Member] = []
        for index in range(count):
            newcomer = self.member(group)
            newcomer.send_enter(**options)
            if members:
                self.until("PreparingRebalance", index + 1, members[0].group)
                for member in members:
                    member.send_join(**options)
            for member in [*members, newcomer]:
                member.take()
            members.append(newcomer)
            for member in members:
                member.send_sync(members)
            for member in members:
                member.take()
        return members

    def completing(self, count: int = 1, group: str | None = None, **options: Any) -> list[Member]:
        """A group in CompletingRebalance: everyone has joined, nobody has sent SyncGroup."""
        members = self.stable(count - 1, group, **options)
        newcomer = self.member(group)
        newcomer.send_enter(**options)
        if members:
            self.until("PreparingRebalance", count, newcomer.group)
            for member in members:
                member.send_join(**options)
        members.append(newcomer)
        for member in members:
            member.take()
        return members

    def until(self, state: str, members: int | None = None, group: str | None = None) -> None:
        """Waits until the broker shows the group in this state: a request on another connection has arrived."""
        request = DescribeGroupsRequest([self.group if group is None else group])

        def reached() -> bool:
            found = self.peer.quietly(ApiKey.DESCRIBE_GROUPS, request, 5).groups[0]
            return found.group_state == state and members in (None, len(found.members))

        self.peer.wait_until(reached, f"{state} with {members} members")

    # --- asking without being a member

    def ask(self, api_key: ApiKey, request: Any) -> Any:
        self._admin.send(api_key, request)
        return self._admin.take()

    def describe(self, *groups: str, operations: bool = False) -> Any:
        return self.ask(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest(list(groups) or [self.group], operations))

    def list_groups(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> None:
        """The groups of this story; others are there too."""
        answer = self.ask(ApiKey.LIST_GROUPS, ListGroupsRequest(list(states), list(types)))
        answer.groups = [each for each in answer.groups if each.group_id.startswith(self.group)]

    def fetch(
        self,
        topics: Partitions | None = None,
        group: str | None = None,
        *,
        stable: bool = False,
        member_id: str | None = None,
        epoch: int = -1,
    ) -> Any:
        """OffsetFetch of one group; without topics, all of them."""
        name = self.group if group is None else group
        answer = self.ask(ApiKey.OFFSET_FETCH, self.fetch_request([(name, topics)], stable, member_id, epoch))
        if topics is None and answer is not None:
            for each in (answer, *answer.groups):  # Kafka's order is that of a hash table
                each.topics = sorted(each.topics, key=lambda topic: (topic.name, str(getattr(topic, "topic_id", ""))))
                for topic in each.topics:
                    topic.partitions = sorted(topic.partitions, key=lambda partition: partition.partition_index)
        return answer

    def fetch_request(
        self,
        groups: Sequence[tuple[str, Partitions | None]],
        stable: bool = False,
        member_id: str | None = None,
        epoch: int = -1,
    ) -> OffsetFetchRequest:
        version, id_of = self.version_of(ApiKey.OFFSET_FETCH), self._id_of(ApiKey.OFFSET_FETCH)
        return fetch_request(groups, version, id_of=id_of, member_id=member_id, epoch=epoch, require_stable=stable)

    def _id_of(self, api_key: ApiKey) -> IdOf:
        return self.peer.topic_id if self.version_of(api_key) >= FIRST_WITH_TOPIC_IDS else without_ids

    def commit_request(
        self,
        offsets: Offsets,
        group: str,
        generation: int,
        member_id: str,
        instance: str | None = None,
        **options: Any,
    ) -> OffsetCommitRequest:
        id_of = self._id_of(ApiKey.OFFSET_COMMIT)
        return commit_request(group, offsets, generation, member_id, instance, id_of=id_of, **options)

    def commit(self, offsets: Offsets, group: str | None = None, **options: Any) -> Any:
        """As nobody in particular."""
        name = self.group if group is None else group
        return self.ask(ApiKey.OFFSET_COMMIT, self.commit_request(offsets, name, -1, "", **options))

    # --- the end

    def close(self) -> None:
        for member in [self._admin, *self._members]:
            member.hang_up()
        name_member_ids(self.peer.exchanges)


class Member:
    """One connection, and who speaks on it."""

    def __init__(self, story: Story, group: str, instance: str | None = None, client_id: str = CLIENT_ID) -> None:
        self.story = story
        self.group = group
        self.instance = instance
        self.client_id = client_id
        self.id = ""
        self.generation = -1
        self.protocol: str | None = None
        self.protocol_type: str | None = None
        self._socket: socket.socket | None = None
        self._asked: list[Exchange] = []

    # --- one request, one answer

    def version_of(self, api_key: ApiKey) -> int:
        return self.story.version_of(api_key)

    def send(self, api_key: ApiKey, request: Any) -> None:
        version = self.version_of(api_key)
        frame = request_frame(api_key, request, version, client_id=self.client_id)
        self._connected().sendall(frame)
        self._asked.append(Exchange(APIS[api_key].name, version, None, frame, self.story.version))

    def take(self) -> Any:
        """Waits for the answer to the oldest request, and notes it down."""
        exchange = self._asked.pop(0)
        peer = self.story.peer
        peer.exchanges.append(exchange)
        try:
            frame = receive_frame(self._connected())
        except ConnectionClosed:
            exchange.answer = CLOSED
            self.hang_up()
            return None
        except TimeoutError:
            self.hang_up()
            raise AssertionError(f"{peer.name} does not answer {exchange.api}") from None
        api_key = next(key for key, api in APIS.items() if api.name == exchange.api)
        peer.read_answer(exchange, frame, ApiKey(api_key), exchange.version)
        self._learn(exchange.answer)
        return exchange.answer

    def _learn(self, answer: Any) -> None:
        if isinstance(answer, JoinGroupResponse) and answer.error_code in (0, ErrorCode.MEMBER_ID_REQUIRED):
            self.id = answer.member_id
            if not answer.error_code:
                self.generation, self.protocol = answer.generation_id, answer.protocol_name

    def note_whether_it_waits(self) -> None:
        """Whether the answer has not come; ask only after somebody else's that would have come later."""
        readable, _, _ = select.select([self._connected()], [], [], 0)
        self.story.peer.note("still waits", not readable)

    def _connected(self) -> socket.socket:
        if self._socket is None:
            self._socket = connect(self.story.peer.address)
        return self._socket

    def hang_up(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    # --- JoinGroup

    def send_join(
        self,
        protocols: Protocols = BOTH,
        *,
        protocol_type: str = "consumer",
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        member_id: str | None = None,
        instance: str | None = None,
        reason: str | None = None,
    ) -> None:
        self.protocol_type = protocol_type
        listed = [JoinGroupRequestProtocol(name, metadata) for name, metadata in protocols]
        request = JoinGroupRequest(
            self.group,
            session_ms,
            rebalance_ms,
            self.id if member_id is None else member_id,
            self.instance if instance is None else instance,
            protocol_type,
            listed,
            reason,
        )
        self.send(ApiKey.JOIN_GROUP, request)

    def join(self, protocols: Protocols = BOTH, **options: Any) -> Any:
        self.send_join(protocols, **options)
        return self.take()

    def send_enter(self, protocols: Protocols = BOTH, **options: Any) -> None:
        """Joins for the first time; twice if the version wants it. The last answer is still to be taken."""
        self.send_join(protocols, **options)
        if self.story.version_of(ApiKey.JOIN_GROUP) >= 4 and self.instance is None:
            self.take()
            self.send_join(protocols, **options)

    def enter(self, protocols: Protocols = BOTH, **options: Any) -> Any:
        self.send_enter(protocols, **options)
        return self.take()

    # --- the others

    def send_sync(
        self,
        members: Sequence[Member] = (),
        *,
        assignments: dict[str, bytes] | None = None,
        generation: int | None = None,
        member_id: str | None = None,
        instance: str | None = None,
        protocol: str | None = "as joined",
        protocol_type: str | None = "as joined",
    ) -> None:
        """With the assignments of `members`, the number of each; or those given by id."""
        given = {each.id: b"%d" % number for number, each in enumerate(members)} | (assignments or {})
        request = SyncGroupRequest(
            self.group,
            self.generation if generation is None else generation,
            self.id if member_id is None else member_id,
            self.instance if instance is None else instance,
            self.protocol_type if protocol_type == "as joined" else protocol_type,
            self.protocol if protocol == "as joined" else protocol,
            [SyncGroupRequestAssignment(name, assignment) for name, assignment in given.items()],
        )
        self.send(ApiKey.SYNC_GROUP, request)

    def sync(self, members: Sequence[Member] = (), **options: Any) -> Any:
        self.send_sync(members, **options)
        return self.take()

    def heartbeat(
        self, *, generation: int | None = None, member_id: str | None = None, instance: str | None = None
    ) -> Any:
        request = HeartbeatRequest(
            self.group,
            self.generation if generation is None else generation,
            self.id if member_id is None else member_id,
            self.instance if instance is None else instance,
        )
        self.send(ApiKey.HEARTBEAT, request)
        return self.take()

    def leave(self, *others: tuple[str, str | None], reason: str | None = None) -> Any:
        """By its own id; or, from version 3, all these ids and instances."""
        leaving = list(others) or [(self.id, self.instance)]
        members = [MemberIdentity(member_id, instance, reason) for member_id, instance in leaving]
        if self.story.version_of(ApiKey.LEAVE_GROUP) < FIRST_LEAVE_OF_SEVERAL:
            assert len(members) == 1
            request = LeaveGroupRequest(self.group, leaving[0][0])
        else:
            request = LeaveGroupRequest(self.group, "", members)
        self.send(ApiKey.LEAVE_GROUP, request)
        return self.take()

    def commit(
        self,
        offsets: Offsets,
        *,
        generation: int | None = None,
        member_id: str | None = None,
        instance: str | None = None,
        **options: Any,
    ) -> Any:
        request = self.story.commit_request(
            offsets,
            self.group,
            self.generation if generation is None else generation,
            self.id if member_id is None else member_id,
            self.instance if instance is None else instance,
            **options,
        )
        self.send(ApiKey.OFFSET_COMMIT, request)
        return self.take()


# --- random ids


def name_member_ids(exchanges: Sequence[Exchange]) -> None:
    names: dict[str, str] = {}
    for exchange in exchanges:
        if isinstance(exchange.answer, (JoinGroupResponse, ConsumerGroupHeartbeatResponse)):
            _name(exchange.answer.member_id or "", names)
    for exchange in exchanges:
        if isinstance(exchange.answer, Message):
            _rename(exchange.answer, names)


def _name(text: str, names: dict[str, str]) -> str:
    if text not in names:
        found = _RANDOM_ID.match(text) or _RANDOM_ID_OF_CONSUMER_GROUP.match(text)
        if found is None:
            return text
        names[text] = f"{found[1]}-#{len(names) + 1}"
    return names[text]


def _rename(message: Message, names: dict[str, str]) -> None:
    for slot in message.__slots__:
        value = getattr(message, slot)
        if isinstance(value, str):
            setattr(message, slot, _name(value, names))
        elif isinstance(value, list):
            for each in value:
                if isinstance(each, Message):
                    _rename(each, names)
