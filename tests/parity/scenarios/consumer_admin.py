"""What administrators see and do: lists, deletions, and the features that are announced."""

from __future__ import annotations

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.api_versions import ApiVersionsRequest
from kohort.protocol.messages.delete_groups import DeleteGroupsRequest
from tests.parity.consumer_story import LEAVE_FOR_NOW, Consumer, ConsumerStory, consumer_story
from tests.parity.pairs import CONSUMERS
from tests.parity.peer import Peer
from tests.parity.scenario import scenario


def groups_of_all_kinds(s: ConsumerStory) -> tuple[Consumer, Consumer]:
    """A classic group, an empty consumer group, one that reconciles, and one that is stable."""
    topic = s.topic()
    s.stable(1, f"{s.group}-classic")
    gone = s.consumer("a", f"{s.group}-empty")
    gone.start(topic)
    gone.leave_group()
    a, b = s.consumer("a", f"{s.group}-reconciling"), s.consumer("b", f"{s.group}-reconciling")
    a.start(topic)
    b.start(topic)
    s.consumer("a", f"{s.group}-stable").start(topic)
    return a, b


@consumer_story(ApiKey.LIST_GROUPS, None)
def consumer_groups_are_listed_with_type_and_state(s: ConsumerStory) -> None:
    groups_of_all_kinds(s)
    s.list_groups()


@consumer_story(ApiKey.LIST_GROUPS, (4, 5))
def groups_of_all_kinds_are_listed_by_state(s: ConsumerStory) -> None:
    groups_of_all_kinds(s)
    for states in (["Stable"], ["stable"], ["Reconciling", "Empty"], ["Assigning"], ["Dead"], ["nonsense"]):
        s.list_groups(states)


@consumer_story(ApiKey.LIST_GROUPS, (5,))
def groups_of_all_kinds_are_listed_by_type(s: ConsumerStory) -> None:
    groups_of_all_kinds(s)
    for types in (["consumer"], ["Consumer"], ["classic"], ["CLASSIC", "consumer"], ["share"], ["nonsense"]):
        s.list_groups(types=types)
    s.list_groups(["Stable"], ["consumer"])
    s.list_groups(["Empty"], ["classic"])


@consumer_story(ApiKey.DESCRIBE_GROUPS, None)
def a_consumer_group_is_not_a_classic_group(s: ConsumerStory) -> None:
    groups_of_all_kinds(s)
    s.describe(f"{s.group}-stable", f"{s.group}-empty", f"{s.group}-classic", f"{s.group}-none")
    s.describe(f"{s.group}-reconciling", operations=s.version >= 3)


@consumer_story(ApiKey.DELETE_GROUPS, None)
def a_consumer_group_is_deleted_when_it_is_empty(s: ConsumerStory) -> None:
    topic = s.topic()
    (a,) = s.consumers(topic, "a")
    a.commit_as({(topic, 0): 7})
    s.ask(ApiKey.DELETE_GROUPS, DeleteGroupsRequest([s.group]))
    s.describe_consumers()
    a.leave_group()
    s.ask(ApiKey.DELETE_GROUPS, DeleteGroupsRequest([s.group, f"{s.group}-none"]))
    s.describe_consumers()
    s.list_groups()
    s.fetch({topic: [0]})
    a.beat(epoch=2)
    a.start(topic)
    s.describe_consumers()


@consumer_story(ApiKey.DELETE_GROUPS, (2,))
def a_group_with_a_member_that_left_for_now_is_not_empty(s: ConsumerStory) -> None:
    topic = s.topic()
    a = s.consumer("a", instance="one")
    a.start(topic)
    a.leave_group(LEAVE_FOR_NOW)
    s.ask(ApiKey.DELETE_GROUPS, DeleteGroupsRequest([s.group]))
    s.list_groups()


@consumer_story(ApiKey.DELETE_GROUPS, (2,))
def a_deleted_group_starts_with_its_first_epoch_again(s: ConsumerStory) -> None:
    topic = s.topic()
    a, b = s.consumers(topic, "a", "b")
    a.leave_group()
    b.leave_group()
    s.describe_consumers()
    s.ask(ApiKey.DELETE_GROUPS, DeleteGroupsRequest([s.group]))
    a.start(topic)
    s.describe_consumers()


@consumer_story(ApiKey.DELETE_GROUPS, (2,))
def a_group_with_a_resolved_regular_expression_is_deleted(s: ConsumerStory) -> None:
    s.topic("-one")
    a = s.consumer("a")
    a.start(regex=f"{s.peer.topic()}.*")
    s.until_epoch(2)
    a.leave_group()
    s.ask(ApiKey.DELETE_GROUPS, DeleteGroupsRequest([s.group]))
    a.start(regex=f"{s.peer.topic()}.*")
    s.until_epoch(2)
    s.describe_consumers()


@consumer_story(ApiKey.OFFSET_COMMIT, (2, 9, 10))
def a_group_of_offsets_becomes_a_consumer_group(s: ConsumerStory) -> None:
    topic = s.topic()
    s.commit({(topic, 0): 7})
    s.list_groups()
    a = s.consumer("a")
    a.start(topic)
    s.describe_consumers()
    s.list_groups()
    s.fetch({topic: [0]})
    s.commit({(topic, 0): 8})


@scenario(ApiKey.API_VERSIONS, (3, 4), pair=CONSUMERS)
def the_feature_of_consumer_groups_is_announced(peer: Peer) -> None:
    answer = peer.ask(ApiKey.API_VERSIONS, ApiVersionsRequest("parity", "1"))
    supported = [each for each in answer.supported_features if each.name == "group.version"]
    finalized = [each for each in answer.finalized_features if each.name == "group.version"]
    peer.note("supported", [(each.min_version, each.max_version) for each in supported])
    peer.note("finalized", [(each.min_version_level, each.max_version_level) for each in finalized])
    peer.note("apis", [(each.api_key, each.max_version) for each in answer.api_keys if each.api_key in (68, 69)])
