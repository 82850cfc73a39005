"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup in a group of KIP-848: classic members inside a consumer group."""

from __future__ import annotations

from kohort.protocol.api_keys import ApiKey
from tests.parity.consumer_story import Consumer, ConsumerStory, classic_protocols, consumer_story, rejoin
from tests.parity.story import Member

JOINS = (0, 3, 4, 5, 9)
SHORT_MS = 1_000


def mixed(s: ConsumerStory, topic: str) -> tuple[Consumer, Member]:
    """A consumer group of a new and a classic member that have two of four partitions each."""
    (a,) = s.consumers(topic, "a")
    b = s.member()
    b.join(classic_protocols(topic), member_id="b")
    b.sync()
    s.reconcile(a)
    b.heartbeat()
    rejoin(b, topic)
    return a, b


@consumer_story(ApiKey.JOIN_GROUP, JOINS)
def a_classic_member_joins_a_consumer_group(s: ConsumerStory) -> None:
    """Its id is random, and who gets the odd partition depends on ids: so both get two."""
    topic = s.topic(partitions=4)
    (a,) = s.consumers(topic, "a")
    b = s.member()
    b.enter(classic_protocols(topic))
    b.sync()
    b.heartbeat()
    s.describe_consumers()
    s.reconcile(a)
    b.heartbeat()
    rejoin(b, topic)
    b.heartbeat()
    s.describe_consumers()


@consumer_story(ApiKey.JOIN_GROUP, (4, 9))
def a_consumer_group_takes_any_id_of_a_classic_member(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    s.consumers(topic, "a")
    s.member().join(classic_protocols(topic), member_id="of my choice")
    s.describe_consumers()


@consumer_story(ApiKey.JOIN_GROUP, (5, 9))
def a_static_classic_member_joins_a_consumer_group(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    (a,) = s.consumers(topic, "a")
    b = s.member(instance="two")
    b.join(classic_protocols(topic))
    b.sync()
    s.reconcile(a)
    again = s.member(instance="two")
    again.join(classic_protocols(topic))
    again.sync()
    b.heartbeat()
    b.join(classic_protocols(topic))
    s.member(instance="two").join(classic_protocols(topic), member_id="stranger")
    s.member(instance="unheard of").join(classic_protocols(topic), member_id="stranger")
    s.describe_consumers()


@consumer_story(ApiKey.JOIN_GROUP, JOINS)
def a_classic_member_that_a_consumer_group_cannot_understand_is_refused(s: ConsumerStory) -> None:
    topic = s.topic()
    (a,) = s.consumers(topic, "a")
    s.member().join(classic_protocols(topic), protocol_type="connect")
    s.member().join(classic_protocols(topic), protocol_type="")
    s.member().join([], member_id="nothing")
    s.member().join([("range", b"")], member_id="unreadable")
    s.member().join([("range", b"\0\1\0\0")], member_id="cut off")
    s.describe_consumers()
    a.beat()


@consumer_story(ApiKey.JOIN_GROUP, (9,))
def classic_members_of_a_consumer_group_need_a_common_protocol(s: ConsumerStory) -> None:
    topic = s.topic(partitions=6)
    s.consumers(topic, "a")
    s.member().join(classic_protocols(topic, names=("range", "roundrobin")), member_id="b")
    s.member().join(classic_protocols(topic, names=("sticky",)), member_id="c")
    s.member().join(classic_protocols(topic, names=("sticky", "roundrobin")), member_id="d")
    s.member().join(classic_protocols(topic, names=("range",)), member_id="e")
    s.describe_consumers()


@consumer_story(ApiKey.JOIN_GROUP, (9,))
def a_classic_member_says_its_rack_and_what_it_owns(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    s.consumers(topic, "a")
    b = s.member()
    b.join(classic_protocols(topic, owned={topic: [0], "unknown": [1]}, rack="north"), member_id="b")
    b.sync()
    s.describe_consumers()


@consumer_story(ApiKey.JOIN_GROUP, (0, 9))
def sessions_that_are_too_short_or_long_are_refused_in_a_consumer_group_too(s: ConsumerStory) -> None:
    topic = s.topic()
    s.consumers(topic, "a")
    for session_ms in (99, 1_800_001, 0):
        s.member().join(classic_protocols(topic), member_id="b", session_ms=session_ms)


@consumer_story(ApiKey.SYNC_GROUP, None)
def a_classic_member_syncs_in_a_consumer_group(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    a, b = mixed(s, topic)
    b.sync()
    b.sync([b])
    b.sync(generation=b.generation + 1)
    b.sync(generation=b.generation - 1)
    b.sync(member_id="stranger")
    b.sync(member_id="a", generation=a.epoch)
    b.sync(instance="unheard of")


@consumer_story(ApiKey.SYNC_GROUP, (5,))
def a_classic_member_syncs_with_another_protocol(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    _, b = mixed(s, topic)
    b.sync(protocol="roundrobin")
    b.sync(protocol_type="connect")
    b.sync(protocol=None, protocol_type=None)


@consumer_story(ApiKey.SYNC_GROUP, (5,))
def assignments_are_written_in_the_version_of_the_subscription(s: ConsumerStory) -> None:
    topic = s.topic(partitions=8)
    (a,) = s.consumers(topic, "a")
    for version in range(4):
        member = s.member()
        member.join(classic_protocols(topic, version=version), member_id=f"version {version}")
        member.sync()
    s.reconcile(a)
    s.describe_consumers()


@consumer_story(ApiKey.SYNC_GROUP, (5,))
def a_classic_member_that_syncs_late_has_to_join_again(s: ConsumerStory) -> None:
    topic = s.topic(partitions=6)
    _, b = mixed(s, topic)
    s.consumer("c").start(topic)
    b.sync()
    b.heartbeat()
    rejoin(b, topic, [2, 3])
    b.heartbeat()
    s.describe_consumers()


@consumer_story(ApiKey.HEARTBEAT, None)
def a_classic_member_of_a_consumer_group_heartbeats(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    a, b = mixed(s, topic)
    b.heartbeat()
    b.heartbeat(generation=b.generation + 1)
    b.heartbeat(generation=b.generation - 1)
    b.heartbeat(generation=-1)
    b.heartbeat(member_id="stranger")
    b.heartbeat(member_id="")
    b.heartbeat(member_id="a", generation=a.epoch)
    b.heartbeat(instance="unheard of")


@consumer_story(ApiKey.HEARTBEAT, (4,))
def a_classic_member_learns_by_its_heartbeat_that_it_has_to_revoke(s: ConsumerStory) -> None:
    topic = s.topic(partitions=6)
    a, b = mixed(s, topic)
    owned = [each for each in range(6) if each not in a.assigned[topic]]
    c = s.consumer("c")
    c.start(topic)
    b.heartbeat()
    rejoin(b, topic, owned)
    b.heartbeat()
    s.describe_consumers()
    rejoin(b, topic, owned[:2])
    b.heartbeat()
    s.reconcile(a, c)
    b.heartbeat()
    s.describe_consumers()


@consumer_story(ApiKey.HEARTBEAT, (4,))
def a_classic_member_that_waits_for_partitions_learns_when_they_are_free(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    (a,) = s.consumers(topic, "a")
    b = s.member()
    b.join(classic_protocols(topic), member_id="b")
    b.sync()
    b.heartbeat()
    a.beat()
    b.heartbeat()
    a.beat(owned=a.assigned)
    b.heartbeat()
    rejoin(b, topic)
    b.heartbeat()


@consumer_story(ApiKey.LEAVE_GROUP, None)
def a_classic_member_leaves_a_consumer_group(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    a, b = mixed(s, topic)
    b.leave(("stranger", None))
    b.leave()
    b.heartbeat()
    s.describe_consumers()
    s.reconcile(a)
    s.describe_consumers()


@consumer_story(ApiKey.LEAVE_GROUP, (3, 5))
def members_of_a_consumer_group_are_sent_away(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    a, b = s.consumer("a", instance="one"), s.consumer("b")
    a.start(topic)
    b.start(topic)
    away = s.member()
    away.leave(("", "unheard of"), ("stranger", None), ("stranger", "one"), ("", None))
    s.describe_consumers()
    away.leave(("", "one"), ("b", None), ("b", None))
    s.describe_consumers()
    a.beat()
    b.beat()


@consumer_story(ApiKey.LEAVE_GROUP, (0, 3, 5))
def nobody_leaves_a_group_that_is_not_there_any_more(s: ConsumerStory) -> None:
    topic = s.topic()
    (a,) = s.consumers(topic, "a")
    a.leave_group()
    s.member().leave(("a", None))
    s.describe_consumers()


@consumer_story(ApiKey.OFFSET_COMMIT, (2, 5, 7, 9, 10))
def a_classic_member_commits_in_a_consumer_group(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    _, b = mixed(s, topic)
    b.commit({(topic, 2): 7})
    for generation in (b.generation + 1, b.generation - 1, 0, -1):
        b.commit({(topic, 2): 8, (topic, 0): 9}, generation=generation)
    b.commit({(topic, 2): 10}, member_id="stranger")
    s.fetch({topic: [0, 2]})


@consumer_story(ApiKey.OFFSET_FETCH, (9, 10))
def a_classic_member_fetches_in_a_consumer_group(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    _, b = mixed(s, topic)
    for generation in (b.generation, b.generation + 1, b.generation - 1, -1):
        s.fetch({topic: [0]}, member_id=b.id, epoch=generation)


# --- time


@consumer_story(ApiKey.HEARTBEAT, (4,))
def a_classic_member_of_a_consumer_group_has_a_session_of_its_own(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    (a,) = s.consumers(topic, "a")
    b = s.member()
    b.join(classic_protocols(topic), member_id="b", session_ms=SHORT_MS)
    b.sync()
    s.until_epoch(4)
    b.heartbeat()
    s.reconcile(a)
    s.describe_consumers()


@consumer_story(ApiKey.HEARTBEAT, (4,))
def a_classic_member_that_does_not_sync_in_time_is_gone(s: ConsumerStory) -> None:
    topic = s.topic(partitions=4)
    s.consumers(topic, "a")
    b = s.member()
    b.join(classic_protocols(topic), member_id="b", rebalance_ms=SHORT_MS)
    s.until_epoch(4)
    b.heartbeat()
    s.describe_consumers()


@consumer_story(ApiKey.HEARTBEAT, (4,))
def a_classic_member_that_does_not_join_again_in_time_is_gone(s: ConsumerStory) -> None:
    topic = s.topic(partitions=6)
    s.consumers(topic, "a")
    b = s.member()
    b.join(classic_protocols(topic), member_id="b", rebalance_ms=SHORT_MS)
    b.sync()
    s.consumer("c").start(topic)
    b.heartbeat()
    s.until_epoch(5)
    b.heartbeat()
    s.describe_consumers()
