"""What happens next in a story: each step is chosen at random."""

from __future__ import annotations

import time
from itertools import count
from random import Random
from typing import Any

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kohort.protocol.messages.delete_groups import DeleteGroupsRequest
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.protocol.messages.list_groups import ListGroupsRequest
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kohort.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kohort.protocol.wire import NO_UUID
from tests.group_requests import assignment_bytes, delete_offsets_request, full_subscription, owned_rows
from tests.parity.compare import Comparison
from tests.parity.peer import ANSWER_TIMEOUT_S
from tests.parity.random_stories.actor import Actor
from tests.parity.random_stories.mistakes import LONG_MS, mistakes
from tests.parity.random_stories.stage import VERSIONS, Stage
from tests.parity.random_stories.world import KAFKA, OURS, World

REGEX = "pool-[0-2]"
POOL = {"pool-0": 1, "pool-1": 3, "pool-2": 4, "pool-3": 6}  # topics that all stories share, and their partitions

Partitions = dict[str, list[int]]  # topic: partitions


class RandomStory:
    def __init__(self, chance: Random, group: str, world: World, comparison: Comparison) -> None:
        self.stage = Stage(chance, group, world, comparison)
        self._chance, self._group, self._world = chance, group, world
        self._actors: list[Actor] = []
        self._left: list[Actor] = []
        self._born = count(1)
        self._wrong = chance.choice((0.0, 0.1, 0.25))
        self._classic_share = chance.choice((0.0, 0.3, 0.5, 0.7, 1.0))
        self._static_share = chance.choice((0.0, 0.3, 0.7))
        self._uses_regex = self._classic_share < 1 and chance.random() < 0.2
        self._topics = chance.sample(sorted(POOL), chance.choice((1, 2, 3)))
        self._own: list[str] = []  # topics of this story alone
        self._assignors = chance.choice(((None,), ("range",), ("uniform", "range", None)))

    def play(self, steps: int) -> list[str]:
        """Random steps, until one differs. Returns the differences."""
        try:
            self._world.until_known(self._group, next(reversed(self._world.partitions)))  # and all that came before it
            if self._uses_regex:
                self._join_by_regex()
            for _ in range(self._chance.randint(steps // 3, steps)):
                self._step()
                if self.stage.problems or self.stage.is_over:
                    break
        finally:
            self.stage.close()
            for topic in self._own:
                self._world.delete(topic)
        return self.stage.problems

    def _step(self) -> None:
        chance = self._chance
        idle = [actor for actor in self._actors if actor.is_idle]
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
        chance = self._chance
        actor = Actor(self.stage.new_line(), chance.random() < self._classic_share)
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
        if other.instance is None and self._chance.random() < 0.5:
            actor.id = other.id
        if self._chance.random() < 0.2:
            actor.topics = self._some_topics()

    def _acts(self, actor: Actor) -> None:
        (self._classic_acts if actor.is_classic else self._consumer_acts)(actor)

    def _join_consumer(self, actor: Actor) -> None:
        request = self._beat_request(actor, 0, owned=[], rebalance_ms=LONG_MS, names=list(actor.topics))
        if self.stage.has_regex and self._chance.random() < 0.5:
            request.subscribed_topic_regex = REGEX
        version = 1
        if self._chance.random() < 0.1 and request.subscribed_topic_regex is None:
            version, request.member_id = 0, ""
        request.server_assignor = self._chance.choice(self._assignors)
        request.rack_id = self._chance.choice((None, None, "north"))
        self.stage.ask(actor, ApiKey.CONSUMER_GROUP_HEARTBEAT, self._maybe_wrong(actor, request), version)

    def _join_by_regex(self) -> None:
        """Resolved in the background: the story goes on when both have done that."""
        actor = Actor(self.stage.new_line(), False, f"member-{next(self._born)}")
        self._actors.append(actor)
        request = self._beat_request(actor, 0, owned=[], rebalance_ms=LONG_MS)
        request.subscribed_topic_regex = REGEX
        for client in self._world.clients:
            answer = client.send(ApiKey.CONSUMER_GROUP_HEARTBEAT, request, 1)
            assert (answer.error_code, answer.member_epoch) == (0, 1), (client.address, answer)
        actor.epoch = 1
        self.stage.told.append(f"{actor.id} joins for {REGEX}")
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while any(self.stage.shown(side)[0].answer.groups[0].group_epoch < 2 for side in (KAFKA, OURS)):
            assert time.monotonic() < deadline, "a regular expression was not resolved"
        self.stage.look()

    def _consumer_acts(self, actor: Actor) -> None:
        chance, kind = self._chance, self._chance.random()
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
            request.rebalance_timeout_ms, request.subscribed_topic_names = LONG_MS, list(actor.topics)
        elif kind < 0.75:
            actor.topics = self._some_topics()
            request.subscribed_topic_names = list(actor.topics)
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
        self.stage.ask(actor, ApiKey.CONSUMER_GROUP_HEARTBEAT, self._maybe_wrong(actor, request))

    def _enter(self, actor: Actor) -> None:
        """JoinGroup; if the coordinator wants the member to come again with an id, it does."""
        version = self._chance.choice(VERSIONS[ApiKey.JOIN_GROUP])
        self._join_classic(actor, version)
        if not self.stage.problems and actor.is_idle and actor.id and actor.epoch == 0:
            self._join_classic(actor, version)

    def _join_classic(self, actor: Actor, version: int | None = None) -> None:
        names = self._chance.choice((("range",), ("range", "roundrobin"), ("roundrobin", "range")))
        generation, version_of_words = actor.epoch if actor.owned else -1, self._chance.choice((1, 3))
        said = full_subscription(actor.topics, actor.owned, generation, version_of_words)
        request = JoinGroupRequest(
            self._group,
            LONG_MS // 4,
            LONG_MS,
            actor.id,
            actor.instance,
            "consumer",
            [JoinGroupRequestProtocol(name, said) for name in names],
        )
        self.stage.ask(actor, ApiKey.JOIN_GROUP, self._maybe_wrong(actor, request), version)

    def _sync(self, actor: Actor) -> None:
        request = SyncGroupRequest(
            self._group, actor.epoch, actor.id, actor.instance, "consumer", actor.protocol, self._assignments(actor)
        )
        self.stage.ask(actor, ApiKey.SYNC_GROUP, self._maybe_wrong(actor, request))

    def _assignments(self, actor: Actor) -> list[SyncGroupRequestAssignment]:
        """Partitions in turn for everybody, if the member leads."""
        shares: list[Partitions] = [{} for _ in actor.followers]
        if shares:
            for topic in actor.topics:
                for partition in range(self._world.partitions.get(topic, 0)):
                    shares[partition % len(shares)].setdefault(topic, []).append(partition)
        data = b"data" if self._chance.random() < 0.03 else None
        packed = [assignment_bytes(share, data) for share in shares]
        return [SyncGroupRequestAssignment(name, each) for name, each in zip(actor.followers, packed, strict=True)]

    def _classic_acts(self, actor: Actor) -> None:
        kind = self._chance.random()
        if actor.epoch > 0 and not actor.has_synced and kind < 0.6:
            return self._sync(actor)
        if kind < 0.4:
            return self._beat_classic(actor)
        if kind < 0.75:
            if self._chance.random() < 0.2:
                actor.topics = self._some_topics()
            return self._join_classic(actor)
        if kind < 0.85:
            return self._sync(actor)
        return self._leave_classic(actor)

    def _beat_classic(self, actor: Actor) -> None:
        request = HeartbeatRequest(self._group, actor.epoch, actor.id, actor.instance)
        self.stage.ask(actor, ApiKey.HEARTBEAT, self._maybe_wrong(actor, request))

    def _leave_classic(self, actor: Actor) -> None:
        leaving = [actor]
        if self._chance.random() < 0.2:
            leaving = self._chance.sample(self._actors, min(2, len(self._actors)))
        rows = [MemberIdentity(*self._chance.choice(each.ways_to_name())) for each in leaving]
        version = None if len(rows) == 1 else 5
        if rows[0].group_instance_id is not None and not rows[0].member_id:
            version = 5
        request = LeaveGroupRequest(self._group, rows[0].member_id, rows)
        for each in leaving:
            self._goes(each)
        self.stage.ask(actor, ApiKey.LEAVE_GROUP, self._maybe_wrong(actor, request), version)

    def _round(self) -> None:
        """Everybody does what a client would do now: so that groups become stable."""
        for _ in range(2):
            for actor in [each for each in self._actors if each.is_idle]:
                if self.stage.problems or not actor.is_idle:
                    continue
                if not actor.is_classic:
                    request = self._beat_request(actor, actor.epoch, owned=self._rows(actor.owned))
                    self.stage.ask(actor, ApiKey.CONSUMER_GROUP_HEARTBEAT, request)
                elif not actor.id or actor.epoch == 0:
                    self._enter(actor)
                elif actor.must_join:
                    self._join_classic(actor)
                elif actor.has_synced:
                    self._beat_classic(actor)
                else:
                    self._sync(actor)

    def _goes(self, actor: Actor) -> None:
        if actor in self._actors and self._chance.random() < 0.9:
            self._actors.remove(actor)
            self._left.append(actor)

    # --- offsets

    def _offsets(self, actor: Actor | None) -> None:
        chance, kind = self._chance, self._chance.random()
        topics = chance.sample(sorted(POOL), 2) if chance.random() < 0.3 else self._topics
        epoch, member_id, instance = -1, "", None
        if actor is not None:
            epoch, member_id, instance = actor.epoch, actor.id, actor.instance if actor.is_classic else None
            if chance.random() < 0.25:
                epoch = chance.choice((actor.epoch_before, epoch + 1, epoch - 1, -1, 0))
        api_key = ApiKey.OFFSET_COMMIT if kind < 0.5 else ApiKey.OFFSET_FETCH if kind < 0.8 else ApiKey.OFFSET_DELETE
        version = chance.choice(VERSIONS[api_key])
        parts = [(t, self._world.topic_ids[t] if version >= 10 else NO_UUID, chance.randint(0, 1)) for t in topics]
        if api_key is ApiKey.OFFSET_COMMIT:
            rows = [
                OffsetCommitRequestTopic(
                    name, topic_id, [OffsetCommitRequestPartition(part, chance.randint(0, 99), -1, "")]
                )
                for name, topic_id, part in parts
            ]
            request: Any = OffsetCommitRequest(self._group, epoch, member_id, instance, -1, rows)
        elif api_key is ApiKey.OFFSET_FETCH:
            asked = [OffsetFetchRequestTopics(name, topic_id, [0, part]) for name, topic_id, part in parts]
            # Kafka stumbles over an epoch without a member id: make parity has a scenario for that.
            group = OffsetFetchRequestGroup(self._group, member_id or None, epoch if member_id else -1, asked)
            request = OffsetFetchRequest("", (), [group], chance.random() < 0.3)
        else:
            request = delete_offsets_request(self._group, *((name, [part]) for name, _, part in parts))
        self.stage.ask(None, api_key, request, version)

    # --- around the group

    def _change_topics(self) -> None:
        if self._uses_regex:
            return
        chance = self._chance
        if not self._own or (len(self._own) < 2 and chance.random() < 0.4):
            name = f"{self._group}-{chance.choice('ab')}"
            if name in self._own:
                return
            self._world.create(name, chance.choice((1, 2, 4)))
            self._own.append(name)
            self._topics = [*self._topics, name]
            what = f"{name} is made"
        elif chance.random() < 0.5:
            name = chance.choice(self._own)
            self._world.grow(name, self._world.partitions[name] + chance.choice((1, 2)))
            what = f"{name} has {self._world.partitions[name]} partitions"
        else:
            name = chance.choice(self._own)
            self._world.delete(name)
            self._own.remove(name)
            what = f"{name} is deleted"
        self._world.until_known(self._group, name)
        self.stage.told.append(what)
        self.stage.look()

    def _change_settings(self) -> None:
        """In Kafka the coordinator learns of settings and topics in order: when it knows a new topic, it knows both."""
        if self._uses_regex:
            return
        interval = self._chance.choice((1_000, 7_000, 15_000))
        self._world.set_group(self._group, {"consumer.heartbeat.interval.ms": f"{interval}"})
        name = f"{self._group}-settings-{next(self._born)}"
        self._world.create(name, 1)
        self._own.append(name)
        self._world.until_known(self._group, name)
        self.stage.told.append(f"the heartbeat interval is {interval}")

    def _administer(self) -> None:
        if self._chance.random() < 0.5:
            self.stage.ask(None, ApiKey.DELETE_GROUPS, DeleteGroupsRequest([self._group]))
        else:
            self.stage.ask(None, ApiKey.LIST_GROUPS, ListGroupsRequest())

    # --- what requests are made of

    def _some_topics(self) -> list[str]:
        if self._chance.random() < 0.5:
            return list(self._topics)
        return self._chance.sample(self._topics, self._chance.randint(0, len(self._topics)))

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
            self._group, actor.id, epoch, actor.instance, None, rebalance_ms, names, None, None, owned
        )

    def _rows(self, owned: Partitions) -> list[TopicPartitions]:
        return owned_rows(owned, self._world.topic_ids.__getitem__)

    def _maybe_wrong(self, actor: Actor, request: Any) -> Any:
        """The request, and sometimes with one thing wrong."""
        if self._chance.random() < self._wrong:
            owned = [row for each in self._actors for row in self._rows(each.owned)]
            possible = mistakes(self._chance, request, actor, self._actors + self._left, owned)
            self._chance.choice(list(possible))()
        return request
