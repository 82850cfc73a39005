"""OffsetFetch: where to go on."""

from __future__ import annotations

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.delete_groups import DeleteGroupsRequest
from kohort.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tests.parity.story import Story, story

ALL = range(2, 11)
SEVERAL = range(8, 11)
BY_NAME = range(1, 10)
NO_TOPIC = bytes.fromhex("0102030405060708090a0b0c0d0e0f10")


@story(ApiKey.OFFSET_FETCH)
def some_partitions_of_a_group(s: Story) -> None:
    topic = s.peer.create(partitions=3)
    s.commit({(topic, 0): 5, (topic, 1): 7}, metadata="why", leader_epoch=3)
    s.fetch({topic: [0]})
    s.fetch({topic: [1, 2, 0]})
    s.fetch({topic: []})


@story(ApiKey.OFFSET_FETCH, ALL)
def all_partitions_of_a_group(s: Story) -> None:
    first, second = s.peer.create(partitions=3), s.peer.create("-second")
    s.commit({(first, 0): 5, (first, 2): 7, (second, 0): 9}, metadata="why")
    s.peer.topic_id(first)
    s.peer.topic_id(second)
    s.fetch()
    s.fetch(stable=True)


@story(ApiKey.OFFSET_FETCH)
def no_topics_are_not_all_topics(s: Story) -> None:
    topic = s.peer.create()
    s.commit({(topic, 0): 5})
    s.fetch({})


@story(ApiKey.OFFSET_FETCH)
def a_group_that_nobody_knows_has_committed_nothing(s: Story) -> None:
    topic = s.peer.create(partitions=2)
    s.fetch({topic: [0, 1]})
    s.fetch({topic: [0, 1]}, stable=True)
    if s.version >= 2:
        s.fetch()
    s.describe()


@story(ApiKey.OFFSET_FETCH, BY_NAME)
def topics_and_partitions_that_do_not_exist_have_no_offset(s: Story) -> None:
    topic = s.peer.create()
    s.commit({(topic, 0): 5})
    s.fetch({topic: [1, -1, 0], s.peer.topic("-missing"): [0, 1], "": [0], "not a name!": [7]})


@story(ApiKey.OFFSET_FETCH, (10,))
def ids_of_no_topic_are_unknown(s: Story) -> None:
    topic = s.peer.create()
    s.commit({(topic, 0): 5})
    topics = [
        OffsetFetchRequestTopics(topic_id=NO_TOPIC, partition_indexes=[0, 1]),
        OffsetFetchRequestTopics(topic_id=s.peer.topic_id(topic), partition_indexes=[1, -1, 0]),
        OffsetFetchRequestTopics(topic_id=bytes(16), partition_indexes=[0]),
        OffsetFetchRequestTopics(topic_id=NO_TOPIC, partition_indexes=[]),
    ]
    s.ask(ApiKey.OFFSET_FETCH, OffsetFetchRequest(groups=[OffsetFetchRequestGroup(s.group, None, -1, topics)]))


@story(ApiKey.OFFSET_FETCH, BY_NAME)
def the_same_partition_asked_twice(s: Story) -> None:
    topic = s.peer.create()
    s.commit({(topic, 0): 5})
    s.fetch({topic: [0, 0]})


@story(ApiKey.OFFSET_FETCH)
def a_group_id_may_be_empty_to_fetch(s: Story) -> None:
    topic = s.peer.create()
    s.fetch({topic: [0]}, "")


@story(ApiKey.OFFSET_FETCH, SEVERAL)
def several_groups_at_once(s: Story) -> None:
    topic, other = s.peer.create(), s.peer.create("-other")
    groups = [f"{s.group}-{number}" for number in range(5)]
    for number, group in enumerate(groups):
        s.commit({(topic, 0): number}, group)
    asked: list[tuple[str, dict[str, list[int]] | None]] = [
        (groups[3], {topic: [0]}),
        (groups[0], {topic: [0], other: [0]}),
        (groups[1], None),
        (s.group + "-unknown", {topic: [0]}),
        (s.group + "-unknown too", None),
        (groups[2], {}),
    ]
    s.ask(ApiKey.OFFSET_FETCH, s.fetch_request(asked))
    s.ask(ApiKey.OFFSET_FETCH, s.fetch_request(asked, True))


@story(ApiKey.OFFSET_FETCH, SEVERAL)
def the_same_group_asked_twice(s: Story) -> None:
    topic = s.peer.create(partitions=2)
    s.commit({(topic, 0): 1, (topic, 1): 2})
    s.ask(ApiKey.OFFSET_FETCH, s.fetch_request([(s.group, {topic: [0]}), (s.group, {topic: [1]})]))


@story(ApiKey.OFFSET_FETCH, SEVERAL)
def no_groups_have_no_offsets(s: Story) -> None:
    s.ask(ApiKey.OFFSET_FETCH, OffsetFetchRequest(groups=[]))


@story(ApiKey.OFFSET_FETCH, range(7, 11))
def stable_offsets_without_transactions_are_the_offsets(s: Story) -> None:
    topic = s.peer.create(partitions=2)
    s.commit({(topic, 0): 1})
    s.fetch({topic: [0, 1]}, stable=True)


@story(ApiKey.OFFSET_FETCH, (9, 10))
def members_of_classic_groups_may_say_anything_about_themselves(s: Story) -> None:
    topic = s.peer.create()
    (a,) = s.stable()
    a.commit({(topic, 0): 4})
    for member_id, epoch in ((a.id, 1), (a.id, 99), ("stranger", 1), ("", -1), ("", 3), (None, 5)):
        s.fetch({topic: [0]}, member_id=member_id, epoch=epoch)


@story(ApiKey.OFFSET_FETCH)
def offsets_can_be_read_in_each_state(s: Story) -> None:
    topic = s.peer.create()
    a, b = s.stable(2)
    a.commit({(topic, 0): 4})
    s.fetch({topic: [0]})
    a.send_join()
    s.until("PreparingRebalance", 2)
    s.fetch({topic: [0]})
    b.join()
    a.take()
    s.fetch({topic: [0]}, stable=True)
    b.leave()
    a.leave()
    s.fetch({topic: [0]})


@story(ApiKey.OFFSET_FETCH)
def a_group_that_was_deleted_has_no_offsets(s: Story) -> None:
    topic = s.peer.create()
    s.commit({(topic, 0): 4})
    s.ask(ApiKey.DELETE_GROUPS, DeleteGroupsRequest([s.group]))
    s.fetch({topic: [0]})
    s.commit({(topic, 0): 5})
    s.fetch({topic: [0]})


@story(ApiKey.OFFSET_FETCH)
def a_group_with_members_and_no_offsets(s: Story) -> None:
    topic = s.peer.create()
    s.stable()
    s.fetch({topic: [0]})
    if s.version >= 2:
        s.fetch()
