"""ShareGroupHeartbeat and ShareGroupDescribe: who is a member, with which epochs and partitions."""

from __future__ import annotations

from collections.abc import Sequence

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from kohort.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.parity.share_story import ShareStory, share_story

HEARTBEAT = ApiKey.SHARE_GROUP_HEARTBEAT
NEWEST = (1,)


def ask(s: ShareStory, member_id: str, epoch: int, topics: Sequence[str] | None, **others: str) -> None:
    request = ShareGroupHeartbeatRequest(s.group, member_id, epoch, None, topics)
    for name, value in others.items():
        setattr(request, name, value)
    s.ask(HEARTBEAT, request)


# --- single requests


@share_story(HEARTBEAT, NEWEST)
def sharers_without_a_proper_id(s: ShareStory) -> None:
    for member_id in ("", "m" * 37, "m" * 36, " ", "ü" * 36, "\u20ac \U0001f600"):
        ask(s, member_id, 0, ["t"])
    s.describe_sharers()


@share_story(HEARTBEAT, NEWEST)
def heartbeats_of_sharers_that_cannot_be(s: ShareStory) -> None:
    for group in ("", " ", "\t"):
        ask(s, "a", 0, ["t"], group_id=group)
    for rack in ("", " ", "r" * 300):
        ask(s, "a", 0, ["t"], rack_id=rack)
    ask(s, "b", 0, None)
    ask(s, "b", 0, [])
    for epoch in (-2, -9, -2_147_483_648):
        ask(s, "b", epoch, ["t"])
    ask(s, "", -2, None, group_id="")
    ask(s, "b", -2, None, rack_id="")
    ask(s, "b", 0, None, rack_id="", group_id=" ")
    s.describe_sharers()


@share_story(HEARTBEAT, NEWEST)
def a_share_group_that_is_not_there_has_no_members(s: ShareStory) -> None:
    for epoch in (1, -1, 7):
        ask(s, "a", epoch, ["t"])
        ask(s, "a", epoch, None)
    s.describe_sharers()


@share_story(HEARTBEAT, NEWEST)
def topics_that_do_not_exist_may_be_shared(s: ShareStory) -> None:
    ask(s, "a", 0, ["no such topic", "", "x" * 300, "t", "t"])
    ask(s, "a", 2, None)
    s.describe_sharers()


@share_story(ApiKey.SHARE_GROUP_DESCRIBE, NEWEST)
def share_groups_are_described(s: ShareStory) -> None:
    ask(s, "a", 0, ["t"])
    s.describe_sharers(s.group, f"{s.group}-none", "", s.group)
    s.describe_sharers(operations=True)
    s.ask(ApiKey.SHARE_GROUP_DESCRIBE, ShareGroupDescribeRequest([]))


# --- joining and leaving


@share_story(HEARTBEAT, NEWEST)
def a_sharer_joins_and_gets_partitions_when_they_are_ready(s: ShareStory) -> None:
    topic = s.topic()
    a = s.sharer("a")
    a.start(topic)
    s.settle(a, partitions=3)
    s.describe_sharers()
    a.beat()
    a.beat(topics=[topic])
    a.beat(epoch=0, topics=[topic])
    s.share_offsets()


@share_story(HEARTBEAT, NEWEST)
def sharers_share_partitions(s: ShareStory) -> None:
    topic = s.topic("", 2)
    a, b, c = s.sharers(topic, "a", "b", "c", partitions=2)
    s.note_shares()
    b.leave_group()
    s.note_shares()
    s.settle(a, c, partitions=2)
    s.note_shares()


@share_story(HEARTBEAT, NEWEST)
def many_sharers_of_few_partitions(s: ShareStory) -> None:
    topic = s.topic("", 3)
    s.sharers(topic, "a", "b", "c", "d", "e", "f", "g", partitions=3)
    s.note_shares()


@share_story(HEARTBEAT, NEWEST)
def few_sharers_of_many_partitions(s: ShareStory) -> None:
    topic = s.topic("", 7)
    s.sharers(topic, "a", "b", "c", partitions=7)
    s.note_shares()


@share_story(HEARTBEAT, NEWEST)
def sharers_leave(s: ShareStory) -> None:
    topic = s.topic("", 2)
    a, b = s.sharers(topic, "a", "b", partitions=2)
    a.leave_group()
    a.leave_group()
    a.beat(epoch=3)
    b.leave_group()
    b.leave_group()
    s.describe_sharers()
    a.start(topic)
    s.describe_sharers()


@share_story(HEARTBEAT, NEWEST)
def a_sharer_joins_again(s: ShareStory) -> None:
    topic = s.topic("", 2)
    (a,) = s.sharers(topic, "a", partitions=2)
    a.start(topic)
    a.start(topic, rack="r")
    s.describe_sharers()
    a.beat()


@share_story(HEARTBEAT, NEWEST)
def epochs_of_sharers(s: ShareStory) -> None:
    topic = s.topic("", 1)
    (a,) = s.sharers(topic, "a", partitions=1)
    for epoch in (4, 100, 2, 1, 3):
        a.beat(epoch=epoch)
    a.epoch = 3
    s.sharer("b").beat(epoch=3)
    s.sharer("b").beat(epoch=3, topics=[topic])
    b = s.sharer("b")
    b.start(topic)
    a.beat(epoch=3)
    a.beat(epoch=3)
    a.beat(epoch=2)
    a.beat(epoch=4)
    s.describe_sharers()


# --- what a member says about itself


@share_story(HEARTBEAT, NEWEST)
def a_sharer_subscribes_to_something_else(s: ShareStory) -> None:
    topic, other = s.topic("", 2), s.topic("-other", 1)
    (a,) = s.sharers(topic, "a", partitions=2)
    a.beat(topics=[other])
    s.settle(a, partitions=1)
    s.describe_sharers()
    a.beat(topics=[topic, other])
    s.settle(a, partitions=3)
    s.describe_sharers()
    a.beat(topics=[other, topic])
    s.describe_sharers()


@share_story(HEARTBEAT, NEWEST)
def a_sharer_subscribes_to_nothing_more(s: ShareStory) -> None:
    topic = s.topic("", 2)
    (a,) = s.sharers(topic, "a", partitions=2)
    a.beat(topics=[])
    s.describe_sharers()
    a.beat()
    a.beat(topics=[topic])
    a.beat()
    s.describe_sharers()


@share_story(HEARTBEAT, NEWEST)
def a_sharer_moves_to_another_rack(s: ShareStory) -> None:
    topic = s.topic("", 2)
    (a,) = s.sharers(topic, "a", partitions=2)
    a.beat(rack="east")
    a.beat(rack="west")
    a.beat()
    s.describe_sharers()


@share_story(HEARTBEAT, NEWEST)
def sharers_subscribe_to_different_topics(s: ShareStory) -> None:
    one, other = s.topic("-one", 2), s.topic("-other", 2)
    a, b, c = s.sharer("a"), s.sharer("b"), s.sharer("c")
    a.start(one)
    s.settle(a, partitions=2)
    b.start(other)
    s.settle(a, b, partitions=4)
    s.note_shares()
    with s.unwritten():
        c.start(one, other)
    s.settle(a, b, c, partitions=4)
    s.note_shares()


# --- topics


@share_story(HEARTBEAT, NEWEST)
def a_shared_topic_appears(s: ShareStory) -> None:
    name = s.peer.topic()
    a = s.sharer("a")
    a.start(name)
    a.beat()
    s.topic("", 2)
    s.settle(a, partitions=2)
    s.describe_sharers()


@share_story(HEARTBEAT, NEWEST)
def a_shared_topic_grows(s: ShareStory) -> None:
    topic = s.topic("", 2)
    a, b = s.sharers(topic, "a", "b", partitions=2)
    s.grow(topic, 4)
    s.settle(a, b, partitions=4)
    s.note_shares()
    s.share_offsets()


@share_story(HEARTBEAT, NEWEST)
def a_shared_topic_is_deleted(s: ShareStory) -> None:
    topic, other = s.topic("", 2), s.topic("-other", 1)
    a = s.sharer("a")
    a.start(topic, other)
    s.settle(a, partitions=3)
    s.delete_topic(topic)
    s.settle(a, partitions=1)
    s.describe_sharers()
    s.share_offsets()


@share_story(HEARTBEAT, NEWEST)
def a_shared_topic_is_deleted_and_made_anew(s: ShareStory) -> None:
    topic = s.topic("", 2)
    (a,) = s.sharers(topic, "a", partitions=2)
    s.delete_topic(topic)
    s.settle(a, partitions=0)
    s.topic("", 3)
    s.settle(a, partitions=3)
    s.describe_sharers()
    s.share_offsets()


@share_story(HEARTBEAT, NEWEST)
def a_share_group_that_has_started_somewhere_gets_members(s: ShareStory) -> None:
    at = s.shared(5, start=2)
    s.describe_sharers()
    (a,) = s.sharers(at[0], "a", partitions=1)
    s.describe_sharers()
    a.fetch(at)
    s.share_offsets()
