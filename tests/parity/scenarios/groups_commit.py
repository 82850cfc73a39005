"""OffsetCommit: how far a group has come."""

from __future__ import annotations

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.delete_groups import DeleteGroupsRequest
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.messages.offset_fetch import OffsetFetchRequest
from tests.parity.story import Story, story

BY_NAME = range(2, 10)
BY_ID = (10,)
NO_TOPIC = bytes.fromhex("0102030405060708090a0b0c0d0e0f10")


def rows(*offsets: tuple[int, int]) -> list[OffsetCommitRequestPartition]:
    return [OffsetCommitRequestPartition(partition, offset) for partition, offset in offsets]


def ask(s: Story, *topics: OffsetCommitRequestTopic, generation: int = -1, member_id: str = "") -> None:
    s.ask(ApiKey.OFFSET_COMMIT, OffsetCommitRequest(s.group, generation, member_id, None, -1, list(topics)))


@story(ApiKey.OFFSET_COMMIT)
def offsets_without_any_members_make_a_group(s: Story) -> None:
    topic = s.peer.create(partitions=2)
    s.commit({(topic, 0): 5, (topic, 1): 7}, metadata="why", leader_epoch=0)
    s.fetch({topic: [0, 1]})
    s.describe()
    s.list_groups()


@story(ApiKey.OFFSET_COMMIT)
def a_later_commit_replaces_an_earlier_one(s: Story) -> None:
    topic = s.peer.create()
    for offset in (5, 3, 8):
        s.commit({(topic, 0): offset}, metadata=str(offset))
        s.fetch({topic: [0]})


@story(ApiKey.OFFSET_COMMIT)
def members_commit_in_each_state(s: Story) -> None:
    topic = s.peer.create()
    a, b = s.completing(2)
    a.commit({(topic, 0): 1})
    b.send_sync()
    a.sync([a, b])
    b.take()
    b.commit({(topic, 0): 2})
    a.send_join()
    s.until("PreparingRebalance", 2)
    b.commit({(topic, 0): 3})
    b.join()
    a.take()
    b.commit({(topic, 0): 4})
    s.fetch({topic: [0]})
    b.leave()
    a.leave()
    a.commit({(topic, 0): 5})
    s.fetch({topic: [0]})


@story(ApiKey.OFFSET_COMMIT)
def commits_of_the_same_partitions_come_again_and_again_whatever_happens(s: Story) -> None:
    topic, other = s.peer.create(partitions=3), s.peer.create("-other")
    a, b = s.stable(2)

    def commit_often() -> None:
        for offset in (4, 9, 2, 7):
            a.commit({(topic, 0): offset, (topic, 2): offset + 1, (other, 0): offset + 2}, leader_epoch=0)
            b.commit({(topic, 1): offset})
        s.fetch({topic: [0, 1, 2], other: [0]})

    commit_often()
    a.send_join()
    s.until("PreparingRebalance", 2)
    for offset in (1, 2, 3, 4):
        b.commit({(topic, 1): offset})
    b.join()
    a.take()
    for offset in (1, 2, 3, 4):
        b.commit({(topic, 1): offset})
        a.commit({(topic, 0): offset}, generation=a.generation - 1)
    s.fetch({topic: [0, 1, 2], other: [0]})
    b.leave()
    commit_often()


@story(ApiKey.OFFSET_COMMIT)
def a_commit_of_another_generation_is_refused(s: Story) -> None:
    topic = s.peer.create()
    a, _ = s.stable(2)
    for generation in (a.generation - 1, a.generation + 1, 0, -1, -2):
        a.commit({(topic, 0): 1}, generation=generation)
    s.fetch({topic: [0]})


@story(ApiKey.OFFSET_COMMIT)
def strangers_do_not_commit_to_a_group_with_members(s: Story) -> None:
    topic = s.peer.create()
    s.stable()
    s.commit({(topic, 0): 1})
    stranger = s.member()
    stranger.commit({(topic, 0): 2}, member_id="stranger", generation=1)
    stranger.commit({(topic, 0): 2}, member_id="stranger", generation=-1)
    stranger.commit({(topic, 0): 2}, member_id="", generation=1)
    s.fetch({topic: [0]})


@story(ApiKey.OFFSET_COMMIT)
def a_generation_of_a_group_that_nobody_knows(s: Story) -> None:
    topic = s.peer.create()
    stranger = s.member()
    stranger.commit({(topic, 0): 2}, member_id="stranger", generation=1)
    stranger.commit({(topic, 0): 2}, member_id="", generation=0)
    s.describe()
    stranger.commit({(topic, 0): 3}, member_id="stranger", generation=-1)
    s.describe()
    s.fetch({topic: [0]})


@story(ApiKey.OFFSET_COMMIT)
def an_empty_group_takes_commits_without_a_generation(s: Story) -> None:
    topic = s.peer.create()
    (a,) = s.stable()
    a.leave()
    a.commit({(topic, 0): 1}, generation=-1)
    a.commit({(topic, 0): 2}, generation=1)
    a.commit({(topic, 0): 3}, generation=-7, member_id="stranger")
    s.commit({(topic, 0): 4})
    s.fetch({topic: [0]})


@story(ApiKey.OFFSET_COMMIT)
def an_id_that_was_given_out_commits_nothing_with_a_generation(s: Story) -> None:
    topic = s.peer.create()
    b = s.member()
    b.join()
    b.commit({(topic, 0): 1}, generation=0)
    b.commit({(topic, 0): 2}, generation=-1)
    s.fetch({topic: [0]})


@story(ApiKey.OFFSET_COMMIT, (2, 3, 4))
def old_clients_say_how_long_to_keep_an_offset(s: Story) -> None:
    topic = s.peer.create(partitions=3)
    s.commit({(topic, 0): 5}, retention_ms=3_600_000, metadata="an hour")
    s.commit({(topic, 1): 6}, retention_ms=0)
    s.commit({(topic, 2): 7}, retention_ms=-1)
    s.fetch({topic: [0, 2]})


@story(ApiKey.OFFSET_COMMIT)
def metadata_may_have_4096_units_of_utf16(s: Story) -> None:
    topic = s.peer.create(partitions=4)
    for partition, text in enumerate(("x" * 4096, "x" * 4097, "ü" * 4096, "ü" * 4097)):
        s.commit({(topic, partition): 1}, metadata=text)
    s.commit({(topic, 0): 2}, metadata="😀" * 2048)
    s.commit({(topic, 0): 3}, metadata="😀" * 2048 + "x")
    s.fetch({topic: [0, 1, 2, 3]})


@story(ApiKey.OFFSET_COMMIT)
def too_much_metadata_fails_alone(s: Story) -> None:
    topic = s.peer.create(partitions=3)
    request = s.commit_request({(topic, 0): 1, (topic, 1): 2, (topic, 2): 3}, s.group, -1, "")
    request.topics[0].partitions[1].committed_metadata = "x" * 5000
    s.ask(ApiKey.OFFSET_COMMIT, request)
    s.fetch({topic: [0, 1, 2]})


@story(ApiKey.OFFSET_COMMIT)
def only_too_much_metadata_makes_a_group_all_the_same(s: Story) -> None:
    topic = s.peer.create()
    s.commit({(topic, 0): 1}, metadata="x" * 5000)
    s.describe()
    s.fetch({topic: [0]})


@story(ApiKey.OFFSET_COMMIT)
def no_metadata_is_kept_as_empty(s: Story) -> None:
    topic = s.peer.create()
    s.commit({(topic, 0): 1}, metadata=None)
    s.fetch({topic: [0]})
    s.commit({(topic, 0): 1}, metadata="")
    s.fetch({topic: [0]})


@story(ApiKey.OFFSET_COMMIT)
def any_offset_is_kept(s: Story) -> None:
    topic = s.peer.create()
    for offset in (0, -1, -5, 2**63 - 1, -(2**63)):
        s.commit({(topic, 0): offset})
        s.fetch({topic: [0]})


@story(ApiKey.OFFSET_COMMIT, range(6, 11))
def the_leader_epoch_is_kept(s: Story) -> None:
    topic = s.peer.create()
    for epoch in (0, 7, -1, -2):
        s.commit({(topic, 0): 1}, leader_epoch=epoch)
        s.fetch({topic: [0]})


@story(ApiKey.OFFSET_COMMIT, BY_NAME)
def topics_and_partitions_that_do_not_exist_fail_alone(s: Story) -> None:
    topic = s.peer.create(partitions=2)
    missing = s.peer.topic("-missing")
    ask(
        s,
        OffsetCommitRequestTopic(missing, partitions=rows((0, 1), (1, 1))),
        OffsetCommitRequestTopic(topic, partitions=rows((2, 1), (0, 5), (-1, 1))),
        OffsetCommitRequestTopic("", partitions=rows((0, 1))),
        OffsetCommitRequestTopic("not a name!", partitions=rows((0, 1))),
    )
    s.fetch({topic: [0, 1, 2]})


@story(ApiKey.OFFSET_COMMIT, BY_ID)
def topic_ids_that_do_not_exist_fail_alone(s: Story) -> None:
    topic = s.peer.create(partitions=2)
    ask(
        s,
        OffsetCommitRequestTopic(topic_id=NO_TOPIC, partitions=rows((0, 1), (1, 1))),
        OffsetCommitRequestTopic(topic_id=s.peer.topic_id(topic), partitions=rows((2, 1), (0, 5), (-1, 1))),
        OffsetCommitRequestTopic(topic_id=bytes(16), partitions=rows((0, 1))),
    )
    s.fetch({topic: [0, 1, 2]})


@story(ApiKey.OFFSET_COMMIT, BY_NAME)
def nothing_but_unknown_topics_reaches_no_group(s: Story) -> None:
    missing = OffsetCommitRequestTopic(s.peer.topic("-missing"), partitions=rows((0, 1)))
    ask(s, missing, generation=7, member_id="stranger")
    ask(s, missing)
    s.describe()


@story(ApiKey.OFFSET_COMMIT)
def nothing_to_commit_is_no_group_either(s: Story) -> None:
    ask(s)
    ask(s, generation=7, member_id="stranger")
    s.describe()
    s.list_groups()


@story(ApiKey.OFFSET_COMMIT, BY_NAME)
def a_topic_without_partitions_is_answered_or_not(s: Story) -> None:
    topic = s.peer.create()
    ask(s, OffsetCommitRequestTopic(topic))
    ask(s, OffsetCommitRequestTopic(s.peer.topic("-missing")))
    ask(s, OffsetCommitRequestTopic(topic), OffsetCommitRequestTopic(topic, partitions=rows((0, 3))))
    s.describe()


@story(ApiKey.OFFSET_COMMIT, BY_NAME)
def the_same_partition_twice(s: Story) -> None:
    topic = s.peer.create()
    ask(s, OffsetCommitRequestTopic(topic, partitions=rows((0, 3), (0, 4))))
    s.fetch({topic: [0]})
    ask(
        s,
        OffsetCommitRequestTopic(topic, partitions=rows((0, 5))),
        OffsetCommitRequestTopic(topic, partitions=rows((0, 6), (1, 1))),
    )
    s.fetch({topic: [0]})


@story(ApiKey.OFFSET_COMMIT)
def a_group_id_may_be_empty_to_commit(s: Story) -> None:
    topic = s.peer.create()
    s.commit({(topic, 0): s.version}, "")
    s.fetch({topic: [0]}, "")


@story(ApiKey.OFFSET_COMMIT)
def a_commit_of_many_partitions(s: Story) -> None:
    topic = s.peer.create(partitions=60)
    s.commit({(topic, partition): partition for partition in range(60)}, metadata="m" * 100)
    s.fetch({topic: list(range(60))})


@story(ApiKey.OFFSET_COMMIT)
def offsets_go_with_their_topic(s: Story) -> None:
    topic, other = s.peer.create(), s.peer.create("-other")
    s.commit({(topic, 0): 5, (other, 0): 6})
    s.peer.delete(topic)
    s.peer.wait_until(lambda: gone(s, topic), "offsets to go with their topic")
    s.fetch(group=s.group)
    s.describe()


def gone(s: Story, topic: str) -> bool:
    answer = s.peer.quietly(ApiKey.OFFSET_FETCH, OffsetFetchRequest(s.group, None), 7)
    return topic not in [each.name for each in answer.topics]


@story(ApiKey.OFFSET_COMMIT)
def a_topic_made_again_has_no_offsets(s: Story) -> None:
    topic = s.peer.create()
    s.commit({(topic, 0): 5})
    s.peer.delete(topic)
    s.peer.wait_until(lambda: gone(s, topic), "offsets to go with their topic")
    s.peer.create()
    s.fetch({topic: [0]})
    s.commit({(topic, 0): 6})
    s.fetch({topic: [0]})


@story(ApiKey.OFFSET_COMMIT, range(2, 5))
def a_retention_time_of_its_own_may_be_forever(s: Story) -> None:
    topic = s.peer.create()
    for offset, retention_time_ms in enumerate((2**63 - 1, 86_400_000)):
        asked = [OffsetCommitRequestTopic(topic, partitions=rows((0, offset)))]
        s.ask(ApiKey.OFFSET_COMMIT, OffsetCommitRequest(s.group, -1, "", None, retention_time_ms, asked))
        s.fetch({topic: [0]})


@story(ApiKey.OFFSET_COMMIT, versions=BY_NAME)
def a_commit_that_does_not_fit_into_one_batch(s: Story) -> None:
    topic = s.peer.create()
    group = s.group + "g" * 32_000
    known, unknown = OffsetCommitRequestPartition(0, 5), OffsetCommitRequestPartition(7, 5)
    for times in (40, 5):
        asked = [OffsetCommitRequestTopic(topic, partitions=[unknown, *[known] * times])]
        s.ask(ApiKey.OFFSET_COMMIT, OffsetCommitRequest(group, -1, "", None, -1, asked))
    s.ask(ApiKey.DELETE_GROUPS, DeleteGroupsRequest([group]))
