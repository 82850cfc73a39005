"""Makes tests/data/consumer_groups_848_4.3.1.tar.gz and .json: KIP-848 groups as a real Kafka left and described them.

    make vectors

Each function below named after a group brings this group into a state worth loading, and then leaves it alone. The
archive has the partitions of __consumer_offsets that are not empty, as a clean stop left them, each with Kafka's own
decoding (dump.txt), and the folders of the topics. The JSON file has what Kafka answered just before the stop:

    topics      name -> id (base64url) and number of partitions
    groups      the rows of ListGroups
    consumer    group -> ConsumerGroupDescribe v1, for groups of the type consumer
    classic     group -> DescribeGroups v5, for groups of the type classic
    offsets     group -> rows of OffsetFetch
    tool        what kafka-consumer-groups --describe printed: offsets, members (--members --verbose), state (--state)

Member ids of classic members, topic ids and times differ from run to run.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kohort.client.client import Client
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.delete_groups import DeleteGroupsRequest
from kohort.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kohort.protocol.messages.describe_groups import DescribeGroupsRequest
from kohort.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kohort.protocol.messages.list_groups import ListGroupsRequest
from kohort.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kohort.protocol.wire import Message
from tests.kafka.jars import KAFKA_VERSION, dump_log
from tests.kafka.members_848 import LEAVE_FOR_A_WHILE, ClassicMember, NewMember, classic_round, partitions_of, settle
from tests.kafka.server import KafkaServer
from tests.kafka.tools import Tools

DATA = Path(__file__).parent.parent / "data"
NAME = f"consumer_groups_848_{KAFKA_VERSION}"
GROUPS_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TOPICS = {"orders": 6, "orders.eu": 2, "payments": 4, "shortlived": 2}
WAIT_S = 60
POLL_S = 0.1
GROUP_RESOURCE = 32

# Nobody expires by accident, somebody can expire on purpose, and targets are computed at once.
SETTINGS = {
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.max.session.timeout.ms": "3600000",
    "group.consumer.session.timeout.ms": "1800000",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "1000",
}


class World:
    """A Kafka with topics, and members on it."""

    def __init__(self, kafka: KafkaServer) -> None:
        self.address = kafka.address
        self.admin = Client(kafka.address)
        self.topic_ids: dict[str, bytes] = {}

    def create(self, **topics: int) -> None:
        request = CreateTopicsRequest([CreatableTopic(name, count, 1) for name, count in topics.items()], 10_000)
        for topic in self.admin.send(ApiKey.CREATE_TOPICS, request, 7).topics:
            assert topic.error_code == 0, topic
            self.topic_ids[topic.name] = bytes(topic.topic_id)

    def new(self, group: str, member_id: str, **options: Any) -> NewMember:
        return NewMember(self.address, self.topic_ids, group, member_id, **options)

    def classic(self, group: str, *topics: str, **options: Any) -> ClassicMember:
        return ClassicMember(self.address, group, topics, **options)

    def configure(self, group: str, **settings: str) -> None:
        """Dynamic settings of the group, with dots as underscores."""
        given = [AlterableConfig(name.replace("_", "."), 0, value) for name, value in settings.items()]
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP_RESOURCE, group, given)])
        answer = self.admin.send(ApiKey.INCREMENTAL_ALTER_CONFIGS, request, 1).responses[0]
        assert answer.error_code == 0, answer

    def describe(self, group: str) -> Any:
        request = ConsumerGroupDescribeRequest([group])
        return self.admin.send(ApiKey.CONSUMER_GROUP_DESCRIBE, request, 1).groups[0]

    def delete_group(self, group: str) -> None:
        answer = self.admin.send(ApiKey.DELETE_GROUPS, DeleteGroupsRequest([group]), 2).results[0]
        assert answer.error_code == 0, ErrorCode(answer.error_code)

    def wait_until_ready(self, groups: Sequence[str]) -> None:
        """Until the coordinators of these groups answer, and see the topics."""
        loading = (
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.NOT_COORDINATOR,
        )
        for group in [*groups, "probe"]:
            self.until(lambda: self.describe(group).error_code not in loading, "the coordinators")  # noqa: B023
        probe = self.new("probe", "probe").join(*self.topic_ids)
        until_it_has(self, sum(TOPICS.values()), probe)
        probe.leave()
        self.delete_group("probe")

    def until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < deadline, f"waited in vain for {what}"
            time.sleep(POLL_S)


# --- groups that are settled ----------------------------------------------------------------------------------------


def plain(world: World, group: str) -> None:
    """Two members with what they shall have, and offsets by both; the first has another assignor and a rack."""
    first = world.new(group, "first", rack="rack-1").join("orders", assignor="range")
    second = world.new(group, "second", client_id="zweiter-\u00fc").join("orders", "payments")
    settle(first, second)
    assert len(partitions_of([first, second])) == 10
    for member in (first, second):
        member.commit({place: 10 + place[1] for place in partitions_of([member])}, f"by {member.id}")
    second.commit({partitions_of([second])[0]: 44})


def nothing_subscribed(world: World, group: str) -> None:
    """A member that gave its subscription up, beside one that has all."""
    idle, busy = world.new(group, "idle").join("payments"), world.new(group, "busy").join("payments")
    settle(idle, busy)
    idle.subscribe()
    settle(idle, busy)
    assert partitions_of([idle]) == []


def everyone_left(world: World, group: str) -> None:
    first, second = world.new(group, "first").join("orders"), world.new(group, "second").join("orders")
    settle(first, second)
    first.commit({("orders", 0): 7, ("orders", 5): 9})
    first.leave()
    second.leave()


def deleted(world: World, group: str) -> None:
    everyone_left(world, group)
    world.delete_group(group)


def expired(world: World, group: str) -> None:
    """One of two members was silent for too long."""
    silent, other = world.new(group, "silent").join("orders"), world.new(group, "other").join("orders")
    settle(silent, other)
    silent.commit(dict.fromkeys(partitions_of([silent]), 5))
    short_sessions(world, group, silent)

    def alone() -> bool:
        other.report()
        return len(partitions_of([other])) == 6

    world.until(alone, "the silent member to expire")
    long_sessions(world, group, other)


def short_sessions(world: World, group: str, member: NewMember) -> None:
    """The answers of heartbeats tell when Kafka has begun to use the settings."""
    world.configure(group, consumer_session_timeout_ms="1500", consumer_heartbeat_interval_ms="1000")
    world.until(lambda: member.beat().heartbeat_interval_ms == 1000, "short sessions")


def long_sessions(world: World, group: str, *members: NewMember) -> None:
    world.configure(group, consumer_session_timeout_ms="1800000", consumer_heartbeat_interval_ms="2000")
    world.until(lambda: all(each.beat().heartbeat_interval_ms == 2000 for each in members), "long sessions")


# --- regular expressions --------------------------------------------------------------------------------------------


def until_it_has(world: World, count: int, *members: NewMember) -> None:
    def reached() -> bool:
        for member in members:
            member.beat()
            member.report()
        return len(partitions_of(members)) == count

    world.until(reached, f"{[member.id for member in members]} to have {count} partitions")
    settle(*members)


def regex(world: World, group: str) -> None:
    """Two expressions, one of them with a name beside it; a topic that matches was created later."""
    first = world.new(group, "first").join(regex="orders.*")
    second = world.new(group, "second").join("payments", regex="orders\\.e[a-z]+")
    until_it_has(world, 12, first, second)
    first.commit(dict.fromkeys(partitions_of([first]), 3))
    world.create(**{"orders.us": 1})
    until_it_has(world, 13, first, second)


def regex_given_up(world: World, group: str) -> None:
    """One member left, the other changed to names: no expression is left."""
    first = world.new(group, "first").join(regex="pay.*")
    second = world.new(group, "second").join(regex="pay.*|nothing-like-it")
    until_it_has(world, 4, first, second)
    second.leave()
    first.subscribe("payments", regex="")
    until_it_has(world, 4, first)


def regex_without_a_match(world: World, group: str) -> None:
    member = world.new(group, "first").join(regex="no-topic-has-this-name")
    world.until(lambda: member.beat().epoch > 0 and world.describe(group).group_state == "Stable", "the expression")


# --- static members -------------------------------------------------------------------------------------------------


def static(world: World, group: str) -> None:
    """One there, one away for a while (epoch -2), one came back with another id, one away for too long and removed."""
    names = ("stays", "away", "returns", "removed")
    members = {name: world.new(group, f"{name}-1", instance=name).join("orders") for name in names}
    settle(*members.values())
    for member in members.values():
        member.commit(dict.fromkeys(partitions_of([member]), 20))
    for name in names[1:]:
        members[name].leave(LEAVE_FOR_A_WHILE)
    members["returns"] = world.new(group, "returns-2", instance="returns").join("orders")
    here = [members["stays"], members["returns"]]
    short_sessions(world, group, members["stays"])
    gone = world.new(group, "removed-2", instance="removed").join("orders")
    gone.leave(LEAVE_FOR_A_WHILE)
    long_sessions(world, group, *here)
    until_it_has(world, 4, *here)
    world.until(lambda: len(world.describe(group).members) == 3, "the removed member to be gone")
    until_it_has(world, 4, *here)


def static_away(world: World, group: str) -> None:
    """The only member is away: the group is not empty."""
    member = world.new(group, "only-1", instance="only").join("payments")
    member.commit({("payments", 1): 3})
    member.leave(LEAVE_FOR_A_WHILE)


# --- in the middle of a rebalance -----------------------------------------------------------------------------------


def unrevoked(world: World, group: str) -> None:
    """The first was told to give up three partitions and has not yet; the second waits for them."""
    first = world.new(group, "first").join("orders")
    settle(first)
    first.commit(dict.fromkeys(partitions_of([first]), 8))
    second = world.new(group, "second").join("orders")
    first.beat()
    second.beat()
    assert (len(partitions_of([first])), len(partitions_of([second]))) == (3, 0)


def unreleased(world: World, group: str) -> None:
    """Of two that have to give up partitions, one has; the third got some and waits for the others."""
    first, second = world.new(group, "first").join("orders"), world.new(group, "second").join("orders")
    settle(first, second)
    third = world.new(group, "third").join("orders")
    for member in (first, second):
        member.beat()
    first.report()
    third.beat()
    assert [len(partitions_of([each])) for each in (first, second, third)] == [2, 2, 1]


def assigning(world: World, group: str) -> None:
    """A member has come, and the next target is not computed yet: the group epoch is ahead."""
    first = world.new(group, "first").join("orders")
    settle(first)
    world.configure(group, consumer_assignment_interval_ms="15000", consumer_heartbeat_interval_ms="2000")
    world.until(lambda: first.beat().heartbeat_interval_ms == 2000, "the interval")
    world.new(group, "second").join("orders", "payments")
    assert world.describe(group).group_state == "Assigning"


def topic_deleted(world: World, group: str) -> None:
    """A topic went away that members still have."""
    first, second = (world.new(group, name).join("shortlived", "payments") for name in ("first", "second"))
    settle(first, second)
    first.commit(dict.fromkeys(partitions_of([first]), 2))
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name="shortlived")], timeout_ms=10_000)
    answer = world.admin.send(ApiKey.DELETE_TOPICS, request, 6)
    assert answer.responses[0].error_code == 0
    world.until(lambda: _topics_of(world.describe(group)) == {"payments"}, "the topic to be gone")


def _topics_of(described: Any) -> set[str]:
    return {each.topic_name for member in described.members for each in member.assignment.topic_partitions}


# --- from one protocol to the other ---------------------------------------------------------------------------------


def classic_pair(world: World, group: str) -> tuple[ClassicMember, ClassicMember]:
    """A stable classic group: two members of `orders`, three partitions each."""
    first = world.classic(group, "orders", client_id="classic-1")
    second = world.classic(group, "orders", client_id="classic-2")
    classic_round([first], {0: {"orders": range(6)}})
    second.send_join()
    world.until(lambda: first.beat() is ErrorCode.REBALANCE_IN_PROGRESS, "the rebalance")
    first.send_join()
    first.joined()
    second.joined()
    given = {first.id: {"orders": [0, 1, 2]}, second.id: {"orders": [3, 4, 5]}}
    for member in sorted((first, second), key=lambda each: not each.leads):
        member.sync(given if member.leads else None)
    first.commit({("orders", 0): 100})
    second.commit({("orders", 3): 103})
    return first, second


def rejoin(member: ClassicMember) -> None:
    """What a classic member of a consumer group does when a heartbeat says that there is a rebalance."""
    member.join()
    member.sync()


def migrating(world: World, group: str) -> None:
    """A new member has joined two classic ones; the first has given up its share, the second has not heard of it."""
    first, _ = classic_pair(world, group)
    new = world.new(group, "new").join("orders")
    new.beat()
    for _ in ("learns what to give up", "has given it up"):
        assert first.beat() is ErrorCode.REBALANCE_IN_PROGRESS
        rejoin(first)
    first.commit(dict.fromkeys(partitions_of([first]), 110))
    settle(new)
    assert (len(partitions_of([first])), len(partitions_of([new]))) == (2, 1)


def migrating_settled(world: World, group: str) -> None:
    """Two classic members and a new one, all of them with what they shall have."""
    first, second = classic_pair(world, group)
    new = world.new(group, "new").join("orders")
    for _ in range(3):
        for member in (first, second):
            if member.beat() is ErrorCode.REBALANCE_IN_PROGRESS:
                rejoin(member)
        settle(new)
    everyone: tuple[NewMember | ClassicMember, ...] = (first, second, new)
    assert partitions_of(everyone) == [("orders", number) for number in range(6)]
    for each in everyone:
        each.commit(dict.fromkeys(partitions_of([each]), 120))


def upgraded(world: World, group: str) -> None:
    """A rolling restart to the new protocol, which is over."""
    first, second = classic_pair(world, group)
    fresh_1 = world.new(group, "fresh-1").join("orders")
    first.leave()
    fresh_2 = world.new(group, "fresh-2").join("orders")
    second.leave()
    settle(fresh_1, fresh_2)
    assert partitions_of([fresh_1, fresh_2]) == [("orders", number) for number in range(6)]
    fresh_2.commit(dict.fromkeys(partitions_of([fresh_2]), 130))


def downgraded(world: World, group: str) -> None:
    """A rolling restart back to the classic protocol, which is over: the group is classic and stable again."""
    fresh = world.new(group, "fresh").join("orders")
    settle(fresh)
    fresh.commit(dict.fromkeys(partitions_of([fresh]), 140))
    old = world.classic(group, "orders", client_id="classic-old")
    rejoin(old)
    fresh.beat()
    fresh.report()
    fresh.leave()
    world.until(lambda: old.beat() is ErrorCode.REBALANCE_IN_PROGRESS, "the downgrade")
    classic_round([old], {0: {"orders": range(6)}})
    old.commit({("orders", 5): 145})


def downgrading(world: World, group: str) -> None:
    """The last new member has just left; the classic ones have not rejoined yet."""
    fresh = world.new(group, "fresh").join("orders", "payments")
    settle(fresh)
    old = world.classic(group, "orders", client_id="classic-old")
    rejoin(old)
    fresh.beat()
    fresh.report()
    rejoin(old)
    fresh.leave()


def downgraded_by_a_static_member(world: World, group: str) -> None:
    """The last new member is static, and a classic one takes its place without a rebalance."""
    classic = world.classic(group, "orders", instance="one", client_id="classic-one")
    classic_round([classic], {0: {"orders": range(6)}})
    fresh = world.new(group, "fresh-two", instance="two").join("orders")
    for _ in range(3):
        if classic.beat() is ErrorCode.REBALANCE_IN_PROGRESS:
            rejoin(classic)
        settle(fresh)
    assert len(partitions_of([fresh])) == 3
    fresh.leave(LEAVE_FOR_A_WHILE)
    world.classic(group, "orders", instance="two", client_id="classic-two").join()


def there_and_back(world: World, group: str) -> None:
    """Classic, then consumer, then classic, then consumer: each time the last one leaves an empty group."""
    for turn in range(2):
        old = world.classic(group, "payments", client_id="old")
        classic_round([old], {0: {"payments": range(4)}})
        old.commit({("payments", 0): 150 + turn})
        old.leave()
        fresh = world.new(group, f"fresh-{turn}").join("payments")
        settle(fresh)
        fresh.commit({("payments", 1): 160 + turn})
        if turn == 0:
            fresh.leave()


STORIES = (
    plain, nothing_subscribed, everyone_left, deleted, expired, regex, regex_given_up, regex_without_a_match, static,
    static_away, unrevoked, unreleased, assigning, migrating, migrating_settled, upgraded, downgraded, downgrading,
    downgraded_by_a_static_member, there_and_back, topic_deleted,
)  # fmt: skip


# --- what Kafka says of them, and the files -------------------------------------------------------------------------


def answers(world: World, tools: Tools) -> dict[str, Any]:
    listed = sorted(world.admin.send(ApiKey.LIST_GROUPS, ListGroupsRequest(), 5).groups, key=lambda each: each.group_id)
    names = {kind: [each.group_id for each in listed if each.group_type == kind] for kind in ("consumer", "classic")}
    consumer = world.admin.send(ApiKey.CONSUMER_GROUP_DESCRIBE, ConsumerGroupDescribeRequest(names["consumer"]), 1)
    classic = world.admin.send(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest(names["classic"]), 5)
    asked = [OffsetFetchRequestGroup(each.group_id, topics=None) for each in listed]
    fetched = world.admin.send(ApiKey.OFFSET_FETCH, OffsetFetchRequest(groups=asked), 9)
    told = [argument for each in listed for argument in ("--group", each.group_id)]

    def tool(*options: str) -> str:
        return re.sub(" {3,}", "  ", tools.run(GROUPS_TOOL, world.address, "--describe", *told, *options))

    return {
        "kafka": KAFKA_VERSION,
        "topics": {
            name: {"id": as_json(topic_id), "partitions": _partitions(name)}
            for name, topic_id in sorted(world.topic_ids.items()) if name != "shortlived"
        },
        "groups": [as_json(each) for each in listed],
        "consumer": {each.group_id: as_json(each) for each in consumer.groups},
        "classic": {each.group_id: as_json(each) for each in classic.groups},
        "offsets": {each.group_id: as_json(each)["topics"] for each in fetched.groups},
        "tool": {"offsets": tool(), "members": tool("--members", "--verbose"), "state": tool("--state")},
    }  # fmt: skip


def _partitions(topic: str) -> int:
    return TOPICS.get(topic, 1)


def as_json(value: Any) -> Any:
    """A message with the names of its fields; bytes in base64url, as Kafka prints ids."""
    if isinstance(value, Message):
        return {name: as_json(getattr(value, name)) for name in value.__slots__}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.urlsafe_b64encode(bytes(value)).decode().rstrip("=")
    if value is None or isinstance(value, (str, int)):
        return value
    return [as_json(each) for each in value]


def pack(data: Path, work: Path, name: str, topics_like: str) -> None:
    """The partitions of the offsets topic that have records, and the topics' folders, in an archive."""
    stage = work / name
    full = [
        folder for folder in data.glob("__consumer_offsets-*") if any(f.stat().st_size for f in folder.glob("*.log"))
    ]
    topics = [folder for folder in data.iterdir() if re.fullmatch(topics_like, folder.name)]
    for folder in [*full, *topics]:
        shutil.copytree(folder, stage / folder.name)
    for folder in full:
        logs = [f"--files={log}" for log in sorted(folder.glob("*.log"))]
        text, complaints = dump_log("--offsets-decoder", "--print-data-log", *logs)
        assert not complaints, complaints
        (stage / folder.name / "dump.txt").write_text(text.replace(f"{data}/", ""), encoding="utf-8")
    target = DATA / f"{name}.tar.gz"
    with tarfile.open(target, "w:gz") as archive:
        archive.add(stage, arcname=name)
    print(f"{len(full)} partitions with records, {target.stat().st_size} bytes")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        with KafkaServer(work / "kafka", SETTINGS) as kafka, Tools() as tools:
            kafka.make_offsets_topic()
            world = World(kafka)
            world.create(**TOPICS)
            stories = {story.__name__.replace("_", "-"): story for story in STORIES}
            world.wait_until_ready(list(stories))
            for group, story in stories.items():
                print(group, flush=True)
                story(world, group)
            said = answers(world, tools)
        pack(kafka.data, work, NAME, r"(orders|payments).*-\d+")
    (DATA / f"{NAME}.json").write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
