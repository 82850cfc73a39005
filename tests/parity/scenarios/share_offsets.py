"""Describe, Alter and DeleteShareGroupOffsets: where a share group starts, and how far it is behind."""

from __future__ import annotations

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kohort.protocol.messages.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from tests.parity.batches import batch
from tests.parity.share_story import ShareStory, accept, release, share_story
from tests.share_requests import (
    CLOSE,
    Partition,
    alter_offsets_request,
    delete_share_offsets_request,
    describe_offsets_request,
)

DESCRIBE = ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS
ALTER = ApiKey.ALTER_SHARE_GROUP_OFFSETS
DELETE = ApiKey.DELETE_SHARE_GROUP_OFFSETS
NEWEST = (0,)


def alter(s: ShareStory, offsets: dict[Partition, int], group: str | None = None) -> None:
    s.ask(ALTER, alter_offsets_request(s.group if group is None else group, offsets))


def delete(s: ShareStory, *topics: str, group: str | None = None) -> None:
    s.ask(DELETE, delete_share_offsets_request(s.group if group is None else group, *topics))


# --- describe


@share_story(DESCRIBE, None)
def offsets_move_as_records_are_accepted(s: ShareStory) -> None:
    at = s.shared(10)
    s.share_offsets(at)
    a = s.sharer("a")
    a.fetch(at)
    s.share_offsets(at)
    for said in (accept(0, 2), accept(5, 6), release(3), accept(4), accept(7, 9)):
        a.acknowledge({at: said})
        s.share_offsets(at)
    s.peer.append(at[0], batch(3))
    s.share_offsets(at)
    s.share_offsets()


@share_story(DESCRIBE, None)
def offsets_of_what_is_not_there(s: ShareStory) -> None:
    at = s.shared(3)
    topic = s.topic("-other", 2)
    s.share_offsets(at, (topic, 0), ("none", 0))
    s.share_offsets(group=f"{s.group}-none")
    s.share_offsets(at, group=f"{s.group}-none")
    s.share_offsets(group="")
    s.ask(DESCRIBE, describe_offsets_request((s.group, {})))
    s.ask(DESCRIBE, DescribeShareGroupOffsetsRequest([]))


@share_story(DESCRIBE, None)
def offsets_of_several_groups(s: ShareStory) -> None:
    at = s.shared(3)
    s.begin({at: 2}, f"{s.group}-2")
    groups = [(s.group, {at[0]: [0]}), (f"{s.group}-2", None), (f"{s.group}-none", None), (s.group, None)]
    s.ask(DESCRIBE, describe_offsets_request(*groups))


@share_story(DESCRIBE, None)
def offsets_of_groups_of_other_kinds(s: ShareStory) -> None:
    topic = s.topic("", 1)
    s.stable(1, f"{s.group}-classic")
    s.consumer("a", f"{s.group}-consumer").start(topic)
    s.commit({(topic, 0): 7}, f"{s.group}-offsets")
    for kind in ("classic", "consumer", "offsets"):
        s.share_offsets(group=f"{s.group}-{kind}")
        s.share_offsets((topic, 0), group=f"{s.group}-{kind}")


@share_story(DESCRIBE, None)
def offsets_before_anything_was_fetched(s: ShareStory) -> None:
    topic = s.topic("", 2)
    s.peer.append(topic, batch(5))
    (a,) = s.sharers(topic, "a", partitions=2)
    s.share_offsets((topic, 0), (topic, 1))
    s.share_offsets()
    a.find_nothing((topic, 0))
    s.share_offsets((topic, 0), (topic, 1))
    s.peer.append(topic, batch(5))
    a.fetch()
    s.share_offsets((topic, 0))
    a.acknowledge({(topic, 0): accept(5)})
    s.share_offsets((topic, 0))


# --- alter


@share_story(ALTER, NEWEST)
def a_share_group_is_made_by_saying_where_it_starts(s: ShareStory) -> None:
    topic = s.topic("", 2)
    s.peer.append(topic, batch(5))
    alter(s, {(topic, 0): 3})
    s.describe_sharers()
    s.list_groups()
    s.share_offsets()
    s.sharer("a").fetch((topic, 0))
    alter(s, {(topic, 1): 0})
    s.share_offsets()


@share_story(ALTER, NEWEST)
def a_share_group_goes_back(s: ShareStory) -> None:
    at = s.shared(6)
    a = s.sharer("a")
    a.fetch(at)
    a.acknowledge({at: accept(0, 3) + release(4)})
    a.acknowledge({at: release(5)}, epoch=CLOSE)
    s.hang_up(a)
    alter(s, {at: 1})
    s.share_offsets(at)
    a.fetch(at)
    a.acknowledge({at: accept(1, 5)})
    s.share_offsets(at)
    s.describe_sharers()


@share_story(ALTER, NEWEST)
def offsets_of_a_group_with_members_stay(s: ShareStory) -> None:
    topic = s.topic("", 1)
    (a,) = s.sharers(topic, "a", partitions=1)
    alter(s, {(topic, 0): 0})
    alter(s, {("none", 0): 0})
    a.leave_group()
    alter(s, {(topic, 0): 0})
    s.describe_sharers()
    s.share_offsets()


@share_story(ALTER, NEWEST)
def starts_that_cannot_be(s: ShareStory) -> None:
    topic = s.topic("", 1)
    s.peer.append(topic, batch(5))
    alter(s, {(topic, 7): 0})
    s.describe_sharers()
    alter(s, {("none", 0): 0, (topic, 0): 1})
    for offset in (-1, -2, 100, 2**62):
        alter(s, {(topic, 0): offset})
        s.share_offsets()
    alter(s, {})
    alter(s, {(topic, 0): 0}, "")
    alter(s, {(topic, 0): 0}, " ")
    twice = [AlterShareGroupOffsetsRequestPartition(0, 1), AlterShareGroupOffsetsRequestPartition(0, 2)]
    s.ask(ALTER, AlterShareGroupOffsetsRequest(s.group, [AlterShareGroupOffsetsRequestTopic(topic, twice)]))
    s.share_offsets()


@share_story(ALTER, NEWEST)
def partitions_that_Kafka_stumbles_over(s: ShareStory) -> None:
    topic = s.topic("", 1)
    alter(s, {(topic, 0): 1, (topic, -1): 2})
    s.share_offsets((topic, 0), (topic, -1))
    s.share_offsets((topic, 0), group="")


@share_story(ALTER, NEWEST)
def a_start_for_groups_of_other_kinds(s: ShareStory) -> None:
    topic = s.topic("", 1)
    s.stable(1, f"{s.group}-classic")
    s.consumer("a", f"{s.group}-consumer").start(topic)
    left = s.consumer("a", f"{s.group}-left")
    left.start(topic)
    left.leave_group()
    s.commit({(topic, 0): 7}, f"{s.group}-offsets")
    for kind in ("classic", "consumer", "left", "offsets"):
        alter(s, {(topic, 0): 0}, f"{s.group}-{kind}")
    s.list_groups()


@share_story(ALTER, NEWEST)
def a_start_is_altered_while_a_session_is_open(s: ShareStory) -> None:
    at = s.shared(4)
    a, b = s.sharer("a"), s.sharer("b")
    a.fetch(at)
    alter(s, {at: 0})
    b.find_nothing(at)
    a.acknowledge({at: accept(0)})
    a.acknowledge({at: accept(0)})
    s.share_offsets(at)


# --- delete


@share_story(DELETE, NEWEST)
def offsets_are_deleted(s: ShareStory) -> None:
    at, other = s.shared(4, start=1), (s.topic("-other", 1), 0)
    s.begin({other: 0})
    s.share_offsets()
    delete(s, at[0])
    s.share_offsets()
    s.share_offsets(at)
    delete(s, at[0])
    delete(s, at[0], other[0], "none")
    s.share_offsets()
    s.describe_sharers()


@share_story(DELETE, NEWEST)
def offsets_that_cannot_be_deleted(s: ShareStory) -> None:
    topic = s.topic("", 1)
    (a,) = s.sharers(topic, "a", partitions=1)
    delete(s, topic)
    delete(s, "none")
    a.leave_group()
    delete(s)
    delete(s, topic, topic)
    delete(s, topic, group=f"{s.group}-none")
    delete(s, topic, group="")
    s.commit({(topic, 0): 7}, f"{s.group}-offsets")
    delete(s, topic, group=f"{s.group}-offsets")
    s.share_offsets()


@share_story(DELETE, NEWEST)
def a_share_group_comes_back_after_its_offsets_were_deleted(s: ShareStory) -> None:
    at = s.shared(5)
    (a,) = s.sharers(at[0], "a", partitions=1)
    a.fetch(at)
    a.acknowledge({at: accept(0, 2)})
    a.close_session()
    a.leave_group()
    s.hang_up(a)
    delete(s, at[0])
    a.find_nothing(at)
    with s.unwritten():
        a.close_session()
    a.start(at[0])
    s.settle(a, partitions=1)
    s.describe_sharers()
    s.share_offsets(at)
    a.find_nothing(at)
    s.peer.append(at[0], batch(2))
    a.fetch()
    s.share_offsets(at)
