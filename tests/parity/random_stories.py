"""Random stories of groups on Kafka and on Kohort: every answer must be the same, field by field.

    python -m tests.parity.random_stories --stories 200 --seed 1

A story is about one group. Members of both protocols join, heartbeat, reconcile, sync, commit, leave, come back under
their instance ids and change their protocol; offsets are committed, fetched and deleted by members and by others;
topics are made, grow and are deleted; the group gets settings, or is deleted. Most requests are what a client would
send next. The others have one thing wrong: a stale epoch, somebody else's id, a field that is missing.

Both brokers make the same ids (see chosen_ids.py). After each step, what both show of the group is compared as well:
ConsumerGroupDescribe, DescribeGroups and all its offsets. Kafka shows some things a moment later than it has answered,
so there is time until both agree.

What depends on time is left out: no session, rebalance or interval ends while a story is told. A regular expression is
resolved in the background and at most every ten seconds, so a story has at most one, and its topics do not change then.
"""

from __future__ import annotations

import argparse
import select
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from kohort.broker.client import Client, parse_address
from kohort.coordinator.partitioner import partition_of
from kohort.protocol.api_keys import APIS, ApiKey
from kohort.protocol.codec import request_encoder
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.frames import framed
from kohort.protocol.headers import request_header
from kohort.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kohort.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kohort.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from kohort.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.delete_groups import DeleteGroupsRequest
from kohort.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kohort.protocol.messages.describe_groups import DescribeGroupsRequest
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kohort.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kohort.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from kohort.protocol.subscription import (
    pack_assignment,
    pack_subscription,
    read_assignment,
    read_subscription,
    read_version,
)
from tests.kafka.server import KafkaServer
from tests.parity.chosen_ids import ChosenIds, KohortWithChosenIds
from tests.parity.compare import Comparison
from tests.parity.pairs import CONSUMERS, PAIRS
from tests.parity.peer import CLOSED, ConnectionClosed, Exchange, Peer, name_topic_ids, receive_frame
from tests.parity.scenarios.coordinators import warm_up
from tests.parity.transcript import short

KAFKA, OURS = 0, 1
OFFSETS_PARTITIONS = 50
LONG_MS = 1_000_000  # no timer fires while a story is told
QUIET_S = 0.04  # a JoinGroup or SyncGroup that is not answered within this time waits for others
PATIENCE_S = 4.0  # until both brokers show the same
ANSWER_S = 30
POLL_S = 0.01
GROUP_RESOURCE = 32
NO_ID = bytes(16)
REGEX = "pool-[0-2]"
POLICIES = ("bidirectional", "upgrade", "downgrade", "disabled")
POOL = {"pool-0": 1, "pool-1": 3, "pool-2": 4, "pool-3": 6}
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

Words = dict[str, list[int]]  # topic: partitions


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    started = time.monotonic()
    differing = steps = ended = 0
    comparison = Comparison()
    policies = options.policy or POLICIES
    for index, policy in enumerate(policies):
        numbers = range(index, options.stories, len(policies)) if options.only is None else [options.only]
        settings = PAIRS[CONSUMERS] | {"group.consumer.migration.policy": policy, "group.consumer.max.size": "6"}
        settings |= {"group.max.size": "6"}
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kohort-stories-")))
            world = World.start(stack, folder, settings, KohortWithChosenIds if options.ourselves else KafkaServer)
            for number in numbers:
                chance = Random(f"{options.seed}/{number}")
                story = RandomStory(chance, f"story-{options.seed}-{number}", world, comparison)
                try:
                    problems = story.play(options.steps)
                except (AssertionError, TimeoutError) as problem:
                    problems = [f"the story broke off: {problem}"]
                steps += story.steps
                ended += story.is_over
                if problems:
                    differing += 1
                    print(f"--- story {number} of seed {options.seed}, policy {policy}")
                    print("\n".join([*story.told[-options.tell :], *problems]), flush=True)
    print(
        f"{options.stories} stories (seed {options.seed}), {steps} requests, {comparison.fields} fields compared, "
        f"{differing} stories differ, {ended} ended early, {time.monotonic() - started:.0f} s"
    )
    return 1 if differing else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.parity.random_stories", description=__doc__)
    parser.add_argument("--stories", type=int, default=120, metavar="COUNT")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=30, metavar="COUNT", help="of a story, at most")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="this story alone; with the policy that it had")
    parser.add_argument("--policy", action="append", choices=POLICIES, help="group.consumer.migration.policy")
    parser.add_argument("--ourselves", action="store_true", help="Kohort in Kafka's place, too: do the stories repeat?")
    parser.add_argument("--tell", type=int, default=12, metavar="COUNT", help="requests shown before a difference")
    return parser.parse_args(arguments)


# --- both brokers


class World:
    """Both brokers, and the topics, which have the same ids on both."""

    def __init__(self, addresses: Sequence[str], ids: ChosenIds) -> None:
        self.peers = (Peer("Kafka", addresses[KAFKA]), Peer("Kohort", addresses[OURS]))
        self.clients = [Client(address, client_id="parity") for address in addresses]
        self.ids = ids
        self.partitions: dict[str, int] = {}
        self.topic_ids: dict[str, bytes] = {}
        self.names: dict[bytes, str] = {}
        self._probes = count(1)

    @classmethod
    def start(cls, stack: ExitStack, folder: Path, settings: dict[str, str], first: Callable[..., Any]) -> World:
        kafka = stack.enter_context(first(folder / "kafka", settings))
        kohort = KohortWithChosenIds(folder / "kohort", settings)
        stack.enter_context(kohort)
        for name, broker in (("Kafka", kafka), ("Kohort", kohort)):
            warm_up(Peer(name, broker.address))
        world = cls((kafka.address, kohort.address), kohort.ids)
        for client in world.clients:
            stack.callback(client.close)
        for name, partitions in POOL.items():
            world.create(name, partitions)
        return world

    def create(self, name: str, partitions: int) -> None:
        request = CreateTopicsRequest([CreatableTopic(name, partitions, 1)], 10_000)
        for client in self.clients:
            answer = client.send(ApiKey.CREATE_TOPICS, request, 7).topics[0]
            assert answer.error_code == 0, (client.address, answer)
            self.topic_ids[name] = bytes(answer.topic_id)
            self.ids.choose(topic=answer.topic_id.hex())
        self.names[self.topic_ids[name]] = name
        self.partitions[name] = partitions

    def grow(self, name: str, partitions: int) -> None:
        request = CreatePartitionsRequest([CreatePartitionsTopic(name, partitions, None)], 10_000)
        for client in self.clients:
            answer = client.send(ApiKey.CREATE_PARTITIONS, request, 3).results[0]
            assert answer.error_code == 0, (client.address, answer)
        self.partitions[name] = partitions

    def delete(self, name: str) -> None:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=10_000)
        for client in self.clients:
            assert client.send(ApiKey.DELETE_TOPICS, request, 6).responses[0].error_code == 0
        del self.partitions[name]

    def until_known(self, group: str, topic: str) -> None:
        """Waits until the part of each coordinator that has the group knows the topic as it is now."""
        for client in self.clients:
            deadline = time.monotonic() + ANSWER_S
            while not self._knows(client, group, topic):
                assert time.monotonic() < deadline, f"{client.address}: waited in vain for {topic}"

    def _knows(self, client: Client, group: str, topic: str) -> bool:
        wanted = partition_of(group, OFFSETS_PARTITIONS)
        names = (f"probe-{number}" for number in self._probes)
        name = next(name for name in names if partition_of(name, OFFSETS_PARTITIONS) == wanted)
        request = ConsumerGroupHeartbeatRequest(name, "probe", 0, None, None, LONG_MS, [topic], topic_partitions=[])
        answer = client.send(ApiKey.CONSUMER_GROUP_HEARTBEAT, request, 1)
        assert answer.error_code in (0, 14, 15, 16), answer
        if answer.error_code:
            return False
        client.send(ApiKey.CONSUMER_GROUP_HEARTBEAT, ConsumerGroupHeartbeatRequest(name, "probe", -1), 1)
        known = sum(len(row.partitions) for row in answer.assignment.topic_partitions)
        return known == self.partitions.get(topic, 0)


class Line:
    """A connection to each broker. One request at a time: the next one only when both have answered."""

    def __init__(self, world: World) -> None:
        self._sockets = [socket.create_connection(parse_address(peer.address), ANSWER_S) for peer in world.peers]
        for each in self._sockets:
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._world = world
        self.asked: tuple[ApiKey, int, bytes] | None = None
        self.answers: list[Exchange | None] = [None, None]

    def send(self, side: int, api_key: ApiKey, version: int, request: Any) -> None:
        body = request_encoder(api_key, version)(request)
        parts = [body] if isinstance(body, bytes) else body
        frame = bytes(framed(request_header(api_key, version, 1, "parity"), *parts))
        self.asked = (api_key, version, frame)
        self._sockets[side].sendall(frame)

    def has_answer(self, side: int, timeout_s: float = 0) -> bool:
        return bool(select.select([self._sockets[side]], [], [], timeout_s)[0])

    def take(self, side: int) -> Exchange:
        assert self.asked is not None
        api_key, version, frame = self.asked
        exchange = self.answers[side] = Exchange(APIS[api_key].name, version, None, frame)
        try:
            answer = receive_frame(self._sockets[side])
        except (ConnectionClosed, ConnectionError):
            exchange.answer = CLOSED
        else:
            self._world.peers[side].read_answer(exchange, answer, api_key, version)
            name_topic_ids(exchange.answer, self._world.names)
        return exchange

    def take_what_is_there(self) -> None:
        for side in (KAFKA, OURS):
            if self.answers[side] is None and self.has_answer(side):
                self.take(side)

    def done(self) -> tuple[Exchange, Exchange]:
        """Both answers; another request may follow."""
        theirs, ours = self.answers
        assert self.asked is not None
        assert theirs is not None
        assert ours is not None
        self.asked, self.answers = None, [None, None]
        return theirs, ours

    def close(self) -> None:
        for each in self._sockets:
            each.close()


# --- one story


@dataclass(eq=False)
class Actor:
    """A member, as it sees itself; or somebody who thinks to be one."""

    line: Line
    is_classic: bool
    id: str = ""
    instance: str | None = None
    epoch: int = 0  # or generation
    epoch_before: int = 0
    topics: list[str] = field(default_factory=list)
    owned: Words = field(default_factory=dict)
    protocol: str | None = None
    followers: list[str] = field(default_factory=list)  # member ids, if this member leads
    has_synced: bool = False
    must_join: bool = False  # a rebalance is in progress


class RandomStory:
    def __init__(self, chance: Random, group: str, world: World, comparison: Comparison) -> None:
        self.chance, self.group, self.world, self.comparison = chance, group, world, comparison
        self.told: list[str] = []
        self.steps = 0
        self._problems: list[str] = []
        self._actors: list[Actor] = []
        self._left: list[Actor] = []
        self._lines: list[Line] = []
        self._admin = self._line()
        self._born = count(1)
        self._seen: set[str] = set()
        self._waiting: list[tuple[Line, Actor | None]] = []
        self._wrong = chance.choice((0.0, 0.1, 0.25))
        self._classic_share = chance.choice((0.0, 0.3, 0.5, 0.7, 1.0))
        self._static_share = chance.choice((0.0, 0.3, 0.7))
        self._uses_regex = self._classic_share < 1 and chance.random() < 0.2
        self._topics = chance.sample(sorted(POOL), chance.choice((1, 2, 3)))
        self._own: list[str] = []
        self._assignors = chance.choice(((None,), ("range",), ("uniform", "range", None)))
        self.is_over = False
        self._present: set[str] = set()  # members of the consumer group
        self._is_empty = False  # it is a consumer group without members
        self._is_assigning = False  # the group has not had a target for its epoch yet
        self._has_regex = False  # a member has it, so it is resolved

    def play(self, steps: int) -> list[str]:
        """Random steps, until one differs. Returns the differences."""
        try:
            self.world.until_known(self.group, next(reversed(self.world.partitions)))  # and all that came before it
            if self._uses_regex:
                self._join_by_regex()
            for _ in range(self.chance.randint(steps // 3, steps)):
                self._step()
                if self._problems or self.is_over:
                    break
        finally:
            for line in self._lines:
                line.close()
            for topic in self._own:
                self.world.delete(topic)
        return self._problems

    def _step(self) -> None:
        chance = self.chance
        idle = [actor for actor in self._actors if actor.line.asked is None]
        if not self._actors or (len(self._actors) < 7 and chance.random() < 0.2):
            return self._somebody_joins()
        kind = chance.random()
        if kind < 0.62 and idle:
            return self._acts(chance.choice(idle))
        if kind < 0.72:
            return self._round()
        if kind < 0.90:
            return self._offsets(chance.choice(self._actors + self._left) if chance.random() < 0.8 else None)
        if kind < 0.96:
            return self._change_topics()
        if kind < 0.98:
            return self._change_settings()
        return self._administer()

    # --- members

    def _somebody_joins(self) -> None:
        chance = self.chance
        actor = Actor(self._line(), chance.random() < self._classic_share)
        if self._left and chance.random() < 0.5:
            self._comes_back(actor, chance.choice(self._left))
        elif chance.random() < 0.15 and any(each.instance for each in self._actors):
            self._comes_back(actor, chance.choice([each for each in self._actors if each.instance]))
        else:
            if chance.random() < self._static_share:
                actor.instance = f"instance-{next(self._born)}"
            actor.topics = self._some_topics()
        self._actors.append(actor)
        if actor.is_classic:
            self._enter(actor)
        else:
            actor.id = actor.id or f"member-{next(self._born)}"
            self._join_consumer(actor)

    def _comes_back(self, actor: Actor, other: Actor) -> None:
        """The same instance, or the same member, once more; maybe with another protocol."""
        actor.instance, actor.topics = other.instance, other.topics
        if other.instance is None and self.chance.random() < 0.5:
            actor.id = other.id
        if self.chance.random() < 0.2:
            actor.topics = self._some_topics()

    def _acts(self, actor: Actor) -> None:
        (self._classic_acts if actor.is_classic else self._consumer_acts)(actor)

    def _join_consumer(self, actor: Actor) -> None:
        request = self._beat_request(actor, 0, owned=[], rebalance_ms=LONG_MS, names=self._names(actor))
        if self._has_regex and self.chance.random() < 0.5:
            request.subscribed_topic_regex = REGEX
        version = 1
        if self.chance.random() < 0.1 and request.subscribed_topic_regex is None:
            version, request.member_id = 0, ""
        request.server_assignor = self.chance.choice(self._assignors)
        request.rack_id = self.chance.choice((None, None, "north"))
        self._ask(actor, ApiKey.CONSUMER_GROUP_HEARTBEAT, self._maybe_wrong(actor, request), version)

    def _join_by_regex(self) -> None:
        """Resolved in the background: the story goes on when both have done that."""
        actor = Actor(self._line(), False, f"member-{next(self._born)}")
        self._actors.append(actor)
        request = self._beat_request(actor, 0, owned=[], rebalance_ms=LONG_MS)
        request.subscribed_topic_regex = REGEX
        for client in self.world.clients:
            answer = client.send(ApiKey.CONSUMER_GROUP_HEARTBEAT, request, 1)
            assert (answer.error_code, answer.member_epoch) == (0, 1), (client.address, answer)
        actor.epoch = 1
        self.told.append(f"{actor.id} joins for {REGEX}")
        deadline = time.monotonic() + ANSWER_S
        while any(self._shown(side)[0].answer.groups[0].group_epoch < 2 for side in (KAFKA, OURS)):
            assert time.monotonic() < deadline, "a regular expression was not resolved"
        self._look()

    def _consumer_acts(self, actor: Actor) -> None:
        chance, kind = self.chance, self.chance.random()
        if actor.epoch == 0 and kind < 0.8:
            self._join_consumer(actor)
            return
        request = self._beat_request(actor, actor.epoch)
        if kind < 0.15:
            pass
        elif kind < 0.55:
            request.topic_partitions = self._rows(actor.owned)
        elif kind < 0.65:
            request.topic_partitions = self._rows(actor.owned)
            request.rebalance_timeout_ms, request.subscribed_topic_names = LONG_MS, self._names(actor)
        elif kind < 0.75:
            actor.topics = self._some_topics()
            request.subscribed_topic_names = self._names(actor)
            if chance.random() < 0.5:
                request.topic_partitions = self._rows(actor.owned)
        elif kind < 0.78:
            request.rack_id = chance.choice(("north", "south"))
        elif kind < 0.81:
            request.server_assignor = chance.choice(("range", "uniform"))
        elif kind < 0.86:
            self._join_consumer(actor)
            return
        elif kind < 0.94 or actor.instance is None:
            request.member_epoch = -1
            self._goes(actor)
        else:
            request.member_epoch = -2
            self._goes(actor)
        self._ask(actor, ApiKey.CONSUMER_GROUP_HEARTBEAT, self._maybe_wrong(actor, request))

    def _enter(self, actor: Actor) -> None:
        """JoinGroup; if the coordinator wants the member to come again with an id, it does."""
        version = self.chance.choice(VERSIONS[ApiKey.JOIN_GROUP])
        self._join_classic(actor, version)
        if not self._problems and actor.line.asked is None and actor.id and actor.epoch == 0:
            self._join_classic(actor, version)

    def _join_classic(self, actor: Actor, version: int | None = None) -> None:
        names = self.chance.choice((("range",), ("range", "roundrobin"), ("roundrobin", "range")))
        said = ConsumerProtocolSubscription(
            self._names(actor),
            None,
            [TopicPartition(topic, rows) for topic, rows in actor.owned.items()],
            actor.epoch if actor.owned else -1,
        )
        packed = pack_subscription(said, self.chance.choice((1, 3)))
        request = JoinGroupRequest(
            self.group,
            LONG_MS // 4,
            LONG_MS,
            actor.id,
            actor.instance,
            "consumer",
            [JoinGroupRequestProtocol(name, packed) for name in names],
        )
        self._ask(actor, ApiKey.JOIN_GROUP, self._maybe_wrong(actor, request), version)

    def _sync(self, actor: Actor) -> None:
        request = SyncGroupRequest(
            self.group, actor.epoch, actor.id, actor.instance, "consumer", actor.protocol, self._assignments(actor)
        )
        self._ask(actor, ApiKey.SYNC_GROUP, self._maybe_wrong(actor, request))

    def _assignments(self, actor: Actor) -> list[SyncGroupRequestAssignment]:
        """Partitions in turn for everybody, if the member leads."""
        shares: list[Words] = [{} for _ in actor.followers]
        if shares:
            for topic in actor.topics:
                for partition in range(self.world.partitions.get(topic, 0)):
                    shares[partition % len(shares)].setdefault(topic, []).append(partition)
        data = b"data" if self.chance.random() < 0.03 else None
        packed = [
            pack_assignment(ConsumerProtocolAssignment([TopicPartition(t, p) for t, p in share.items()], data), 3)
            for share in shares
        ]
        return [SyncGroupRequestAssignment(name, each) for name, each in zip(actor.followers, packed, strict=True)]

    def _classic_acts(self, actor: Actor) -> None:
        kind = self.chance.random()
        if actor.epoch > 0 and not actor.has_synced and kind < 0.6:
            return self._sync(actor)
        if kind < 0.4:
            return self._beat_classic(actor)
        if kind < 0.75:
            if self.chance.random() < 0.2:
                actor.topics = self._some_topics()
            return self._join_classic(actor)
        if kind < 0.85:
            return self._sync(actor)
        return self._leave_classic(actor)

    def _beat_classic(self, actor: Actor) -> None:
        request = HeartbeatRequest(self.group, actor.epoch, actor.id, actor.instance)
        self._ask(actor, ApiKey.HEARTBEAT, self._maybe_wrong(actor, request))

    def _leave_classic(self, actor: Actor) -> None:
        leaving = [actor]
        if self.chance.random() < 0.2:
            leaving = self.chance.sample(self._actors, min(2, len(self._actors)))
        rows = [MemberIdentity(*self.chance.choice(_ways_to_name(each))) for each in leaving]
        version = None if len(rows) == 1 else 5
        if rows[0].group_instance_id is not None and not rows[0].member_id:
            version = 5
        request = LeaveGroupRequest(self.group, rows[0].member_id, rows)
        for each in leaving:
            self._goes(each)
        self._ask(actor, ApiKey.LEAVE_GROUP, self._maybe_wrong(actor, request), version)

    def _round(self) -> None:
        """Everybody does what a client would do now: so that groups become stable."""
        for _ in range(2):
            for actor in [each for each in self._actors if each.line.asked is None]:
                if self._problems or actor.line.asked is not None:
                    continue
                if not actor.is_classic:
                    request = self._beat_request(actor, actor.epoch, owned=self._rows(actor.owned))
                    self._ask(actor, ApiKey.CONSUMER_GROUP_HEARTBEAT, request)
                elif not actor.id or actor.epoch == 0:
                    self._enter(actor)
                elif actor.must_join:
                    self._join_classic(actor)
                elif actor.has_synced:
                    self._beat_classic(actor)
                else:
                    self._sync(actor)

    def _goes(self, actor: Actor) -> None:
        if actor in self._actors and self.chance.random() < 0.9:
            self._actors.remove(actor)
            self._left.append(actor)

    # --- offsets

    def _offsets(self, actor: Actor | None) -> None:
        chance, kind = self.chance, self.chance.random()
        topics = chance.sample(sorted(POOL), 2) if chance.random() < 0.3 else self._topics
        epoch, member_id, instance = -1, "", None
        if actor is not None:
            epoch, member_id, instance = actor.epoch, actor.id, actor.instance if actor.is_classic else None
            if chance.random() < 0.25:
                epoch = chance.choice((actor.epoch_before, epoch + 1, epoch - 1, -1, 0))
        api_key = ApiKey.OFFSET_COMMIT if kind < 0.5 else ApiKey.OFFSET_FETCH if kind < 0.8 else ApiKey.OFFSET_DELETE
        version = chance.choice(VERSIONS[api_key])
        parts = [(t, self.world.topic_ids[t] if version >= 10 else NO_ID, chance.randint(0, 1)) for t in topics]
        if api_key is ApiKey.OFFSET_COMMIT:
            rows = [
                OffsetCommitRequestTopic(
                    name, topic_id, [OffsetCommitRequestPartition(part, chance.randint(0, 99), -1, "")]
                )
                for name, topic_id, part in parts
            ]
            request: Any = OffsetCommitRequest(self.group, epoch, member_id, instance, -1, rows)
        elif api_key is ApiKey.OFFSET_FETCH:
            asked = [OffsetFetchRequestTopics(name, topic_id, [0, part]) for name, topic_id, part in parts]
            # Kafka stumbles over an epoch without a member id: make parity has a scenario for that.
            group = OffsetFetchRequestGroup(self.group, member_id or None, epoch if member_id else -1, asked)
            request = OffsetFetchRequest("", (), [group], chance.random() < 0.3)
        else:
            gone = [OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(part)]) for name, _, part in parts]
            request = OffsetDeleteRequest(self.group, gone)
        self._ask_as_anybody(api_key, request, version)

    # --- around the group

    def _change_topics(self) -> None:
        if self._uses_regex:
            return
        chance = self.chance
        if not self._own or (len(self._own) < 2 and chance.random() < 0.4):
            name = f"{self.group}-{chance.choice('ab')}"
            if name in self._own:
                return
            self.world.create(name, chance.choice((1, 2, 4)))
            self._own.append(name)
            self._topics = [*self._topics, name]
            what = f"{name} is made"
        elif chance.random() < 0.5:
            name = chance.choice(self._own)
            self.world.grow(name, self.world.partitions[name] + chance.choice((1, 2)))
            what = f"{name} has {self.world.partitions[name]} partitions"
        else:
            name = chance.choice(self._own)
            self.world.delete(name)
            self._own.remove(name)
            what = f"{name} is deleted"
        self.world.until_known(self.group, name)
        self.told.append(what)
        self._look()

    def _change_settings(self) -> None:
        """In Kafka the coordinator learns of settings and topics in order: when it knows a new topic, it knows both."""
        if self._uses_regex:
            return
        interval = self.chance.choice((1_000, 7_000, 15_000))
        pairs = [AlterableConfig("consumer.heartbeat.interval.ms", 0, f"{interval}")]
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP_RESOURCE, self.group, pairs)])
        for client in self.world.clients:
            answer = client.send(ApiKey.INCREMENTAL_ALTER_CONFIGS, request, 1).responses[0]
            assert answer.error_code == 0, (client.address, answer)
        name = f"{self.group}-settings-{next(self._born)}"
        self.world.create(name, 1)
        self._own.append(name)
        self.world.until_known(self.group, name)
        self.told.append(f"the heartbeat interval is {interval}")

    def _administer(self) -> None:
        if self.chance.random() < 0.5:
            self._ask_as_anybody(ApiKey.DELETE_GROUPS, DeleteGroupsRequest([self.group]))
        else:
            self._ask_as_anybody(ApiKey.LIST_GROUPS, ListGroupsRequest())

    # --- what requests are made of

    def _names(self, actor: Actor) -> list[str]:
        return list(actor.topics)

    def _some_topics(self) -> list[str]:
        if self.chance.random() < 0.5:
            return list(self._topics)
        return self.chance.sample(self._topics, self.chance.randint(0, len(self._topics)))

    def _beat_request(
        self,
        actor: Actor,
        epoch: int,
        *,
        owned: list[TopicPartitions] | None = None,
        names: list[str] | None = None,
        rebalance_ms: int = -1,
    ) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            self.group, actor.id, epoch, actor.instance, None, rebalance_ms, names, None, None, owned
        )

    def _rows(self, owned: Words) -> list[TopicPartitions]:
        ids = self.world.topic_ids
        return [TopicPartitions(ids[name], list(partitions)) for name, partitions in owned.items()]

    def _maybe_wrong(self, actor: Actor, request: Any) -> Any:
        """The request, and sometimes with one thing wrong."""
        if self.chance.random() < self._wrong:
            self.chance.choice(list(self._mistakes(actor, request)))()
        return request

    def _mistakes(self, actor: Actor, request: Any) -> Iterator[Callable[[], None]]:
        chance = self.chance
        others = [each.id for each in self._actors + self._left] + ["nobody", ""]
        instances = [each.instance for each in self._actors + self._left] + ["no-instance", "", None]
        numbers = (actor.epoch_before, actor.epoch + 1, actor.epoch - 1, 0, -1, -2, -3, 99)

        def put(name: str, *values: Any) -> Callable[[], None]:
            return lambda: setattr(request, name, chance.choice(values))

        if not isinstance(request, LeaveGroupRequest):
            yield put("member_id", *others)
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            foreign = [row for each in self._actors for row in self._rows(each.owned)]
            yield put("member_epoch", *numbers)
            yield put("member_epoch", *numbers)
            yield put("instance_id", *instances)
            yield put("rack_id", "", "south")
            yield put("rebalance_timeout_ms", -1, LONG_MS)
            yield put("subscribed_topic_names", None, [], ["unknown"], ["pool-1", "pool-1"], [""])
            yield put("server_assignor", "unknown", "", "range")
            yield put("topic_partitions", None, [], foreign, [TopicPartitions(b"x" * 16, [0])], [*foreign, *foreign])
            yield put("subscribed_topic_regex", "(", "")
        elif isinstance(request, JoinGroupRequest):
            yield put("group_instance_id", *instances)
            yield put("protocol_type", "", "connect")
            yield put(
                "protocols", [], [JoinGroupRequestProtocol("range", b"")], [JoinGroupRequestProtocol("other", b"x")]
            )
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

    # --- asking

    def _line(self) -> Line:
        line = Line(self.world)
        self._lines.append(line)
        return line

    def _ask_as_anybody(self, api_key: ApiKey, request: Any, version: int | None = None) -> None:
        self._ask(None, api_key, request, version)

    def _ask(self, actor: Actor | None, api_key: ApiKey, request: Any, version: int | None = None) -> None:
        """The same request to both; takes all answers that have come, and compares what both show."""
        if self._problems or self.is_over or self._is_known_to_differ(request):
            return
        if version is None:
            version = self.chance.choice(VERSIONS[api_key])
        line = self._admin if actor is None else actor.line
        self.steps += 1
        self.told.append(f"{_who(actor)}: v{version} {short(request)}")
        self._waiting.append((line, actor))
        for side in (KAFKA, OURS):
            line.send(side, api_key, version, request)
            line.has_answer(side, QUIET_S if api_key in MAY_WAIT else ANSWER_S)
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
        self.world.ids.choose(member="")  # else a request that Kafka refuses would get the id of somebody before
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if line.has_answer(KAFKA):
                made = getattr(line.take(KAFKA).answer, "member_id", None)
                if made:
                    self.world.ids.choose(member=made)
                return
            described = self.world.clients[KAFKA].send(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest([self.group]), 5)
            unseen = {each.member_id for each in described.groups[0].members} - self._seen
            if unseen:
                self.world.ids.choose(member=unseen.pop())
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
                for line, actor in one_sided:
                    has, answer = (
                        ("Kafka has", line.answers[KAFKA])
                        if line.answers[OURS] is None
                        else ("we have", line.answers[OURS])
                    )
                    self._problems.append(f"{_who(actor)}: only {has} answered: {short(answer and answer.answer)}")
                return
            time.sleep(POLL_S)
        for line, actor in [each for each in self._waiting if each[0].answers[KAFKA] is not None]:
            self._waiting.remove((line, actor))
            theirs, ours = line.done()
            self._leave_out(theirs.answer, ours.answer)
            self.told.append(f"    {_who(actor)} <- {short(theirs.answer)}")
            if self._has_other_leader(theirs.answer, ours.answer):
                self.is_over = True
                return
            self._compare(self.comparison, theirs, ours)
            if actor is not None:
                self._learn(actor, theirs.answer)
        if not self._problems:
            self._look()

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
                answer.groups = [each for each in answer.groups if each.group_id == self.group]
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
        self._problems += [
            f"{d.api} v{d.version} {d.field}: Kafka {d.kafka}, ours {d.ours}" for d in comparison.differences[before:]
        ]

    def _look(self) -> None:
        """What both show of the group. Kafka shows what is committed, which may be a moment after its answer."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            shown = [self._shown(side) for side in (KAFKA, OURS)]
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
            self._compare(self.comparison, theirs, ours)
        described, classic = (exchange.answer.groups[0] for exchange in shown[KAFKA][:2])
        members = [*described.members, *classic.members]
        self._seen |= {each.member_id for each in members}
        self._present = {each.member_id for each in described.members}
        self._is_empty = not described.error_code and not described.members
        self._is_assigning = described.group_epoch > described.assignment_epoch
        self._has_regex = any(each.subscribed_topic_regex for each in described.members)
        if self._problems:
            self.told.append(f"    shown: {short(described)} {short(classic)}")

    def _shown(self, side: int) -> list[Exchange]:
        client = self.world.clients[side]
        asked: list[tuple[ApiKey, int, Any]] = [
            (ApiKey.CONSUMER_GROUP_DESCRIBE, 1, ConsumerGroupDescribeRequest([self.group])),
            (ApiKey.DESCRIBE_GROUPS, 6, DescribeGroupsRequest([self.group])),
            (ApiKey.OFFSET_FETCH, 9, OffsetFetchRequest("", (), [OffsetFetchRequestGroup(self.group, None, -1, None)])),
        ]
        shown = []
        for api_key, version, request in asked:
            answer = client.send(api_key, request, version)
            name_topic_ids(answer, self.world.names)
            if api_key is ApiKey.OFFSET_FETCH:  # in the order of a hash table
                for group in answer.groups:
                    group.topics = sorted(group.topics, key=lambda topic: topic.name)
                    for topic in group.topics:
                        topic.partitions = sorted(topic.partitions, key=lambda row: row.partition_index)
            shown.append(Exchange(APIS[api_key].name, version, answer, b""))
        return shown

    # --- a member believes Kafka

    def _learn(self, actor: Actor, answer: Any) -> None:
        error = getattr(answer, "error_code", 0)
        if isinstance(answer, ConsumerGroupHeartbeatResponse):
            self._learn_epoch(actor, answer)
        elif isinstance(answer, JoinGroupResponse):
            if error == ErrorCode.MEMBER_ID_REQUIRED:
                actor.id, actor.epoch = answer.member_id, 0
            elif not error:
                actor.epoch_before, actor.epoch, actor.id = actor.epoch, answer.generation_id, answer.member_id
                actor.protocol, actor.has_synced, actor.must_join = answer.protocol_name, False, False
                actor.followers = [each.member_id for each in answer.members]
        elif isinstance(answer, SyncGroupResponse) and not error:
            actor.has_synced, actor.owned = True, self._owned(bytes(answer.assignment))
        actor.must_join |= error == ErrorCode.REBALANCE_IN_PROGRESS
        if actor.is_classic and error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            actor.epoch, actor.owned = 0, {}
            if error == ErrorCode.UNKNOWN_MEMBER_ID:
                actor.id = ""

    def _learn_epoch(self, actor: Actor, answer: ConsumerGroupHeartbeatResponse) -> None:
        if answer.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            actor.epoch_before, actor.epoch, actor.owned = actor.epoch, 0, {}
        elif not answer.error_code and answer.member_epoch > 0:
            if answer.member_epoch != actor.epoch:
                actor.epoch_before = actor.epoch
            actor.id, actor.epoch = answer.member_id or "", answer.member_epoch
            if answer.assignment is not None:
                actor.owned = {str(row.topic_id): list(row.partitions) for row in answer.assignment.topic_partitions}

    def _owned(self, assignment: bytes) -> Words:
        try:
            rows = read_assignment(assignment).assigned_partitions
        except MalformedMessage:
            return {}
        return {row.topic: list(row.partitions) for row in rows if row.topic in self.world.topic_ids}


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


def _ways_to_name(actor: Actor) -> list[tuple[str, str | None]]:
    return [(actor.id, actor.instance), (actor.id, None), ("", actor.instance)]


def _who(actor: Actor | None) -> str:
    return "somebody" if actor is None else actor.instance or actor.id or "a newcomer"


if __name__ == "__main__":
    raise SystemExit(main())
