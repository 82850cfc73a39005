"""Offsets of a group of KIP-848: who may commit and fetch them with which member epoch."""

from __future__ import annotations

from typing import Any

from kohort.protocol.api_keys import ApiKey
from tests.group_requests import delete_offsets_request
from tests.parity.consumer_story import LEAVE_FOR_NOW, Consumer, ConsumerStory, consumer_story

COMMITS = (2, 5, 7, 8, 9, 10)
FETCHES = (1, 7, 8, 9, 10)
MEMBERS = (9, 10)  # versions in which members of this protocol may commit, and fetch with their epoch


def revoking(s: ConsumerStory, topic: str) -> tuple[Consumer, Consumer]:
    """`a` has to revoke partition 2 of three, for `b`, which has nothing yet."""
    a, b = s.consumer("a"), s.consumer("b")
    a.start(topic)
    b.start(topic)
    a.beat()
    return a, b


@consumer_story(ApiKey.OFFSET_COMMIT, COMMITS)
def a_member_commits_with_its_epoch_from_version_9(s: ConsumerStory) -> None:
    topic = s.topic()
    (a,) = s.consumers(topic, "a")
    a.commit_as({(topic, 0): 7, (topic, 2): 9})
    s.fetch({topic: [0, 1, 2]})


@consumer_story(ApiKey.OFFSET_COMMIT, COMMITS)
def a_member_commits_with_an_epoch_that_it_never_had(s: ConsumerStory) -> None:
    topic = s.topic()
    (a,) = s.consumers(topic, "a")
    for epoch in (a.epoch + 1, 99, 0, -1, -2):
        a.commit_as({(topic, 0): 7}, epoch)
    s.fetch({topic: [0]})


@consumer_story(ApiKey.OFFSET_COMMIT, COMMITS)
def a_stranger_does_not_commit(s: ConsumerStory) -> None:
    topic = s.topic()
    (a,) = s.consumers(topic, "a")
    for member_id in ("stranger", ""):
        for epoch in (a.epoch, 0, -1):
            a.commit_as({(topic, 0): 7}, epoch, member_id=member_id)
    s.fetch({topic: [0]})


@consumer_story(ApiKey.OFFSET_COMMIT, COMMITS)
def anybody_commits_to_an_empty_consumer_group(s: ConsumerStory) -> None:
    topic = s.topic()
    (a,) = s.consumers(topic, "a")
    a.leave_group()
    s.commit({(topic, 0): 7})
    for epoch in (-1, -2, 0, 2):
        a.commit_as({(topic, 1): epoch + 100}, epoch)
    s.fetch({topic: [0, 1]})


@consumer_story(ApiKey.OFFSET_COMMIT, MEMBERS)
def a_member_that_lags_commits_what_it_had_before(s: ConsumerStory) -> None:
    """An older epoch will do for partitions that were assigned in it or before, also while they are revoked."""
    topic = s.topic()
    a, b = revoking(s, topic)
    a.commit_as({(topic, 0): 7, (topic, 2): 8})
    a.beat(owned=a.assigned)
    a.commit_as({(topic, 0): 9}, 2)
    a.commit_as({(topic, 0): 10, (topic, 2): 11}, 2)
    a.commit_as({(topic, 2): 12}, 2)
    a.commit_as({(topic, 2): 13}, 3)
    a.commit_as({(topic, 0): 14}, 1)
    a.commit_as({(topic, 0): 15}, 0)
    b.beat()
    b.commit_as({(topic, 2): 16})
    b.commit_as({(topic, 2): 17}, 2)
    s.fetch({topic: [0, 1, 2]})


@consumer_story(ApiKey.OFFSET_COMMIT, MEMBERS)
def a_member_commits_partitions_that_it_does_not_have(s: ConsumerStory) -> None:
    topic, other = s.topic(), s.topic("-other", 1)
    a, b = s.consumers(topic, "a", "b")
    mine, theirs = a.assigned[topic][0], b.assigned[topic][0]
    a.commit_as({(topic, theirs): 7, (other, 0): 8, (topic, 77): 9})
    a.commit_as({(topic, mine): 7, (topic, theirs): 8, (other, 0): 9}, a.epoch - 1)
    s.fetch({topic: [0, 1, 2], other: [0]})


@consumer_story(ApiKey.OFFSET_COMMIT, MEMBERS)
def a_static_member_commits(s: ConsumerStory) -> None:
    topic = s.topic()
    a = s.consumer("a", instance="one")
    a.start(topic)
    a.commit_as({(topic, 0): 7})
    a.commit_as({(topic, 0): 8}, instance="unheard of")
    epoch = a.epoch
    a.leave_group(LEAVE_FOR_NOW)
    for each in (epoch, -2, -1):
        a.commit_as({(topic, 0): 9}, each)
    again = s.consumer("a again", instance="one")
    again.start(topic)
    again.commit_as({(topic, 0): 10})
    a.commit_as({(topic, 0): 11}, epoch)
    s.fetch({topic: [0]})


@consumer_story(ApiKey.OFFSET_COMMIT, MEMBERS)
def a_member_that_came_back_commits_with_its_old_epoch(s: ConsumerStory) -> None:
    topic = s.topic()
    a = s.consumer("a", instance="one")
    a.start(topic)
    s.consumer("b").start(topic)
    a.leave_group(LEAVE_FOR_NOW)
    again = s.consumer("a again", instance="one")
    again.start(topic)
    for epoch in (again.epoch, 2, 1, 0):
        again.commit_as({(topic, 0): epoch}, epoch)
    s.describe_consumers()


@consumer_story(ApiKey.OFFSET_FETCH, MEMBERS)
def a_member_fetches_with_its_epoch(s: ConsumerStory) -> None:
    topic = s.topic()
    (a,) = s.consumers(topic, "a")
    a.commit_as({(topic, 0): 7})
    for epoch in (a.epoch, a.epoch + 1, a.epoch - 1, 0, -1, -2):
        s.fetch({topic: [0, 1]}, member_id="a", epoch=epoch)
    s.fetch(member_id="a", epoch=a.epoch)


@consumer_story(ApiKey.OFFSET_FETCH, MEMBERS)
def a_stranger_fetches(s: ConsumerStory) -> None:
    topic = s.topic()
    (a,) = s.consumers(topic, "a")
    a.commit_as({(topic, 0): 7})
    wanted: dict[str, Any] = {topic: [0]}
    for member_id in ("stranger", ""):
        for epoch in (a.epoch, 0, -1, -2):
            s.fetch(wanted, member_id=member_id, epoch=epoch)
    for epoch in (-1, -2):
        s.fetch(wanted, member_id=None, epoch=epoch)


@consumer_story(ApiKey.OFFSET_FETCH, MEMBERS)
def an_epoch_without_a_member_id_which_Kafka_stumbles_over(s: ConsumerStory) -> None:
    topic = s.topic()
    (a,) = s.consumers(topic, "a")
    s.fetch({topic: [0]}, member_id=None, epoch=a.epoch)


@consumer_story(ApiKey.OFFSET_FETCH, FETCHES)
def offsets_of_a_consumer_group_are_fetched_by_anybody(s: ConsumerStory) -> None:
    topic = s.topic()
    (a,) = s.consumers(topic, "a")
    a.commit_as({(topic, 0): 7, (topic, 1): 8}, metadata="word", leader_epoch=0)
    s.fetch({topic: [0, 1, 2, 3]})
    if s.version > 1:
        s.fetch()


@consumer_story(ApiKey.OFFSET_FETCH, MEMBERS)
def a_member_of_no_group_fetches(s: ConsumerStory) -> None:
    topic = s.topic()
    (a,) = s.consumers(topic, "a")
    a.leave_group()
    for member_id, epoch in (("a", 2), ("a", -1), ("", -1), (None, -1)):
        s.fetch({topic: [0]}, member_id=member_id, epoch=epoch)
        s.fetch({topic: [0]}, f"{s.group}-none", member_id=member_id, epoch=epoch)


@consumer_story(ApiKey.OFFSET_FETCH, MEMBERS)
def a_member_that_revokes_fetches(s: ConsumerStory) -> None:
    topic = s.topic()
    a, b = revoking(s, topic)
    s.fetch({topic: [0, 2]}, member_id="a", epoch=2)
    s.fetch({topic: [0, 2]}, member_id="b", epoch=3)
    a.beat(owned=a.assigned)
    s.fetch({topic: [0, 2]}, member_id="a", epoch=2)
    s.fetch({topic: [0, 2]}, member_id="a", epoch=3)
    b.beat()


@consumer_story(ApiKey.OFFSET_DELETE, None)
def offsets_of_topics_that_a_consumer_group_subscribes_to_stay(s: ConsumerStory) -> None:
    topic, other = s.topic(), s.topic("-other", 1)
    (a,) = s.consumers(topic, "a")
    a.commit_as({(topic, 0): 7, (other, 0): 8})
    request = delete_offsets_request(s.group, (topic, [0, 1]), (other, [0, 3]), (f"{topic}-none", [0]))
    s.ask(ApiKey.OFFSET_DELETE, request)
    s.fetch({topic: [0], other: [0]})
    a.leave_group()
    s.ask(ApiKey.OFFSET_DELETE, request)
    s.fetch({topic: [0], other: [0]})


@consumer_story(ApiKey.OFFSET_DELETE, None)
def offsets_of_topics_that_a_regular_expression_matches_stay(s: ConsumerStory) -> None:
    topic, other = s.topic("-one", 1), s.topic("-two", 1)
    a = s.consumer("a")
    a.start(regex=f"{s.peer.topic()}-o.*")
    s.until_epoch(2)
    a.beat(owned={})
    a.commit_as({(topic, 0): 7, (other, 0): 8})
    s.ask(ApiKey.OFFSET_DELETE, delete_offsets_request(s.group, (topic, [0]), (other, [0])))
    s.fetch({topic: [0], other: [0]})
