"""Groups of KIP-848 as scenarios: members that heartbeat with epochs, beside the classic members of `story.py`.

Member ids are chosen by the members. Who gets which partitions depends on them and, with several topics, on the topics'
ids, which differ from broker to broker: stories whose outcome depends on ids belong to `assignments.py`.

The pair `consumers` computes a target as soon as it is needed (assignment interval 0), and lets groups have short
sessions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kohort.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kohort.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tests.group_requests import (
    Partitions,
    assignment_bytes,
    full_subscription,
    group_settings_request,
    owned_rows,
)
from tests.parity.coordinator_probe import CoordinatorProbe
from tests.parity.pairs import CONSUMERS
from tests.parity.peer import Peer
from tests.parity.story import REBALANCE_MS, Member, Protocols, Register, Story, story_of

JOIN, LEAVE, LEAVE_FOR_NOW = 0, -1, -2


def consumer_story(
    api_key: ApiKey = ApiKey.CONSUMER_GROUP_HEARTBEAT, versions: Iterable[int] | None = (1,), *, pair: str = CONSUMERS
) -> Register[ConsumerStory]:
    """Registers a story, for the given versions of the API or (None) for all of them."""
    return story_of(ConsumerStory, api_key, versions, pair)


class ConsumerStory(Story):
    def __init__(self, peer: Peer, api_key: ApiKey) -> None:
        super().__init__(peer, api_key)
        self.topic_ids: dict[str, bytes] = {}
        self._probe = CoordinatorProbe(self.group)

    def consumer(self, name: str, group: str | None = None, *, instance: str | None = None) -> Consumer:
        """A member whose id is `name`."""
        consumer = Consumer(self, self.group if group is None else group, instance)
        consumer.id = name
        self._members.append(consumer)
        return consumer

    def consumers(self, topic: str, *names: str) -> list[Consumer]:
        """Members that have joined one after the other, each of them with all of its partitions."""
        consumers: list[Consumer] = []
        for name in names:
            consumers.append(self.consumer(name))
            consumers[-1].start(topic)
            self.reconcile(*consumers)
        return consumers

    def reconcile(self, *consumers: Consumer) -> None:
        """Heartbeats of all in turn, each owning what it was assigned, until a round brings nothing new."""
        while sum(consumer.reconcile() for consumer in consumers):
            pass

    # --- topics, and when the coordinator knows of them

    def topic(self, suffix: str = "", partitions: int = 3) -> str:
        name = self.peer.create(suffix, partitions)
        known_as = f"the new id of {name}" if name in self.topic_ids else f"the id of {name}"
        self.topic_ids[name] = self.peer.topic_id(name, known_as)
        self.until_coordinator_knows(name, partitions)
        return name

    def delete_topic(self, name: str) -> None:
        self.peer.delete(name)
        self.until_coordinator_knows(name, 0)

    def grow(self, topic: str, partitions: int) -> None:
        request = CreatePartitionsRequest([CreatePartitionsTopic(topic, partitions, None)], 10_000)
        answer = self.peer.quietly(ApiKey.CREATE_PARTITIONS, request, 3)
        assert answer.results[0].error_code == 0, f"{self.peer.name}: {answer.results[0]}"
        self.until_coordinator_knows(topic, partitions)

    def until_coordinator_knows(self, topic: str, partitions: int) -> None:
        """Waits until the part of the coordinator that has this story's group knows this number of partitions."""
        self.peer.wait_until(
            lambda: self._probe.count_partitions(self.peer.quietly, topic) == partitions,
            f"the coordinator to know {partitions} partitions of {topic}",
        )

    # --- the group

    def describe_consumers(self, *groups: str, operations: bool = False) -> Any:
        request = ConsumerGroupDescribeRequest(list(groups) or [self.group], operations)
        return self.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, request)

    def look(self, group: str | None = None) -> Any:
        """The described group, without a line in the transcript."""
        request = ConsumerGroupDescribeRequest([self.group if group is None else group])
        return self.peer.quietly(ApiKey.CONSUMER_GROUP_DESCRIBE, request, 1).groups[0]

    def until_epoch(self, epoch: int) -> None:
        """Waits until the group's epoch is at least this: a timer has fired, or a regular expression is resolved."""
        self.peer.wait_until(lambda: self.look().group_epoch >= epoch, f"group epoch {epoch}")

    def set_group(self, group: str | None = None, **configs: str) -> None:
        """Settings of this group, with Kafka's names, dots as underscores; they are in force when this returns."""
        name = self.group if group is None else group
        request = group_settings_request(name, {key.replace("_", "."): configs[key] for key in configs})
        answer = self.peer.quietly(ApiKey.INCREMENTAL_ALTER_CONFIGS, request, 1)
        assert answer.responses[0].error_code == 0, f"{self.peer.name}: {answer.responses[0]}"
        self.topic(f"-after-{len(self.topic_ids)}", 1)  # Kafka's coordinator learns of it later than of the settings


class Consumer(Member):
    """A member that uses the new protocol."""

    def __init__(self, story: ConsumerStory, group: str, instance: str | None) -> None:
        super().__init__(story, group, instance)
        self.topic_ids = story.topic_ids
        self.epoch = JOIN
        self.assigned: dict[str, list[int]] = {}

    def send_beat(
        self,
        *,
        owned: Partitions | None = None,
        topics: Sequence[str] | None = None,
        regex: str | None = None,
        epoch: int | None = None,
        member_id: str | None = None,
        rack: str | None = None,
        assignor: str | None = None,
        rebalance_ms: int = -1,
    ) -> None:
        """ConsumerGroupHeartbeat with what is given; everything else is as it was."""
        request = ConsumerGroupHeartbeatRequest(
            self.group,
            self.id if member_id is None else member_id,
            self.epoch if epoch is None else epoch,
            self.instance,
            rack,
            rebalance_ms,
            topics,
            regex,
            assignor,
            None if owned is None else owned_rows(owned, self.topic_ids.__getitem__),
        )
        self.send(ApiKey.CONSUMER_GROUP_HEARTBEAT, request)

    def beat(self, **fields: Any) -> Any:
        self.send_beat(**fields)
        return self.take()

    def start(self, *topics: str, rebalance_ms: int = REBALANCE_MS, **fields: Any) -> Any:
        """Joins with epoch 0; without topics and a regular expression, subscribed to nothing."""
        names = None if fields.get("regex") is not None and not topics else list(topics)
        return self.beat(epoch=JOIN, topics=names, rebalance_ms=rebalance_ms, owned={}, **fields)

    def beat_fully(self, *topics: str, rebalance_ms: int = REBALANCE_MS, **fields: Any) -> Any:
        """A full request, as clients send one after an error."""
        return self.beat(topics=list(topics), rebalance_ms=rebalance_ms, owned=self.assigned, **fields)

    def reconcile(self) -> bool:
        """A heartbeat of a member that owns what it was assigned; whether something changed."""
        before = self.epoch
        answer = self.beat(owned=self.assigned)
        return answer is not None and not answer.error_code and (self.epoch != before or answer.assignment is not None)

    def leave_group(self, epoch: int = LEAVE) -> Any:
        return self.beat(epoch=epoch)

    def commit_as(self, offsets: dict[tuple[str, int], int], epoch: int | None = None, **options: Any) -> Any:
        """OffsetCommit with the member's epoch, or another one."""
        return self.commit(offsets, generation=self.epoch if epoch is None else epoch, **options)

    def _learn(self, answer: Any) -> None:
        super()._learn(answer)
        if not isinstance(answer, ConsumerGroupHeartbeatResponse) or answer.error_code:
            return
        self.id, self.epoch = answer.member_id or self.id, answer.member_epoch
        if answer.assignment is not None:
            names: dict[Any, str] = {self.story.peer.words_for(i): name for name, i in self.topic_ids.items()}
            assigned = answer.assignment.topic_partitions
            self.assigned = {names[each.topic_id]: list(each.partitions) for each in assigned}


# --- classic members, whose words the coordinator has to understand when a group changes its protocol


def classic_protocols(
    *topics: str,
    owned: Partitions | None = None,
    names: Sequence[str] = ("range",),
    generation: int = -1,
    version: int = 3,
    rack: str | None = None,
) -> Protocols:
    """What a classic member subscribes to, and what it owns."""
    said = full_subscription(topics, owned, generation, version, rack)
    return [(name, said) for name in names]


def classic_group(
    s: ConsumerStory, topic: str, shares: Sequence[Sequence[int]], names: Sequence[str] = ("range",), **options: Any
) -> list[Member]:
    """A stable classic group. The first member leads; each has its share of the topic's partitions."""
    members = s.completing(len(shares), protocols=classic_protocols(topic, names=names), **options)
    for member in members[1:]:
        member.send_sync()
    assigned = {m.id: assignment_bytes({topic: share}) for m, share in zip(members, shares, strict=True)}
    members[0].sync(assignments=assigned)
    for member in members[1:]:
        member.take()
    return members


def rejoin(member: Member, topic: str, owned: Sequence[int] = (), **options: Any) -> Any:
    """A classic member of a consumer group joins again and syncs, owning these partitions."""
    joined = member.join(classic_protocols(topic, owned={topic: owned}, generation=member.generation), **options)
    return member.sync() if joined is not None and not joined.error_code else joined
