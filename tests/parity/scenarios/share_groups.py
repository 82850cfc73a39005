"""Share groups beside groups of other kinds: who may ask what of them, lists, and deletion."""

from __future__ import annotations

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.api_versions import ApiVersionsRequest
from kohort.protocol.messages.delete_groups import DeleteGroupsRequest
from tests.group_requests import delete_offsets_request
from tests.parity.pairs import SHARES
from tests.parity.peer import Peer
from tests.parity.scenario import scenario
from tests.parity.share_story import ShareStory, accept, share_story

NEWEST = (1,)


def groups_of_all_kinds(s: ShareStory) -> None:
    """Share groups with and without members, one that only has a start, and a classic and a consumer group."""
    topic = s.topic("", 1)
    s.stable(1, f"{s.group}-classic")
    s.consumer("a", f"{s.group}-consumer").start(topic)
    a, gone = s.sharer("a", f"{s.group}-stable"), s.sharer("a", f"{s.group}-empty")
    a.start(topic)
    s.settle(a, partitions=1, group=a.group)
    gone.start(topic)
    s.settle(gone, partitions=1, group=gone.group)
    gone.leave_group()
    s.begin({(topic, 0): 0}, f"{s.group}-begun")


@share_story(ApiKey.LIST_GROUPS, None)
def share_groups_are_listed(s: ShareStory) -> None:
    groups_of_all_kinds(s)
    s.list_groups()


@share_story(ApiKey.LIST_GROUPS, (4, 5))
def share_groups_are_listed_by_state(s: ShareStory) -> None:
    groups_of_all_kinds(s)
    for states in (["Stable"], ["Empty"], ["Dead"], ["stable", "empty"]):
        s.list_groups(states)


@share_story(ApiKey.LIST_GROUPS, (5,))
def share_groups_are_listed_by_type(s: ShareStory) -> None:
    groups_of_all_kinds(s)
    for types in (["share"], ["Share"], ["share", "classic"], ["consumer"]):
        s.list_groups(types=types)
    s.list_groups(["Empty"], ["share"])


@share_story(ApiKey.DESCRIBE_GROUPS, None)
def a_share_group_is_not_a_classic_group(s: ShareStory) -> None:
    groups_of_all_kinds(s)
    s.describe(f"{s.group}-stable", f"{s.group}-empty", f"{s.group}-begun")


@share_story(ApiKey.SHARE_GROUP_DESCRIBE, NEWEST)
def groups_of_all_kinds_are_described_as_share_groups(s: ShareStory) -> None:
    groups_of_all_kinds(s)
    names = [f"{s.group}-{kind}" for kind in ("classic", "consumer", "stable", "empty", "begun", "none")]
    s.describe_sharers(*names)
    s.describe_consumers(*names)


@share_story(ApiKey.DELETE_GROUPS, None)
def a_share_group_is_deleted_when_it_is_empty(s: ShareStory) -> None:
    at = s.shared(4)
    (a,) = s.sharers(at[0], "a", partitions=1)
    a.fetch(at)
    a.acknowledge({at: accept(0, 1)})
    s.ask(ApiKey.DELETE_GROUPS, DeleteGroupsRequest([s.group]))
    a.close_session()
    a.leave_group()
    s.ask(ApiKey.DELETE_GROUPS, DeleteGroupsRequest([s.group, f"{s.group}-none"]))
    s.describe_sharers()
    s.list_groups()
    s.share_offsets(at)
    s.share_offsets()
    a.beat(epoch=3)
    a.start(at[0])
    s.settle(a, partitions=1)
    s.describe_sharers()
    s.share_offsets(at)


@share_story(ApiKey.DELETE_GROUPS, (2,))
def a_share_group_that_never_had_members_is_deleted(s: ShareStory) -> None:
    at = s.shared(4)
    s.ask(ApiKey.DELETE_GROUPS, DeleteGroupsRequest([s.group, s.group]))
    s.share_offsets(at)
    s.describe_sharers()


@share_story(ApiKey.DELETE_GROUPS, (2,))
def groups_of_all_kinds_are_deleted_together(s: ShareStory) -> None:
    groups_of_all_kinds(s)
    kinds = ("classic", "consumer", "stable", "empty", "begun", "none")
    s.ask(ApiKey.DELETE_GROUPS, DeleteGroupsRequest([f"{s.group}-{kind}" for kind in kinds]))
    s.list_groups()


@share_story(ApiKey.CONSUMER_GROUP_HEARTBEAT, NEWEST)
def a_consumer_comes_to_a_share_group(s: ShareStory) -> None:
    topic = s.topic("", 1)
    (a,) = s.sharers(topic, "a", partitions=1)
    c = s.consumer("c")
    c.start(topic)
    c.beat(epoch=1)
    c.leave_group()
    a.leave_group()
    c.start(topic)
    s.describe_sharers()


@share_story(ApiKey.JOIN_GROUP, (3, 5, 9))
def a_classic_member_comes_to_a_share_group(s: ShareStory) -> None:
    topic = s.topic("", 1)
    (a,) = s.sharers(topic, "a", partitions=1)
    m = s.member()
    m.join()
    m.join(member_id="a")
    m.join(instance="one")
    m.sync(generation=3, member_id="a", protocol="range", protocol_type="consumer")
    m.heartbeat(generation=3, member_id="a")
    m.leave(("a", None))
    m.leave(("none", None))
    a.leave_group()
    m.join()
    s.describe_sharers()


@share_story(ApiKey.SHARE_GROUP_HEARTBEAT, NEWEST)
def a_sharer_comes_to_groups_of_other_kinds(s: ShareStory) -> None:
    topic = s.topic("", 1)
    s.stable(1, f"{s.group}-classic")
    s.consumer("a", f"{s.group}-consumer").start(topic)
    left = s.consumer("a", f"{s.group}-left")
    left.start(topic)
    left.leave_group()
    s.commit({(topic, 0): 7}, f"{s.group}-offsets")
    for kind in ("classic", "consumer", "left", "offsets"):
        a = s.sharer("a", f"{s.group}-{kind}")
        a.start(topic)
        a.beat(epoch=1)
        a.leave_group()
    s.describe_sharers(f"{s.group}-offsets")


@share_story(ApiKey.OFFSET_COMMIT, (2, 9, 10))
def offsets_are_committed_to_a_share_group(s: ShareStory) -> None:
    topic = s.topic("", 1)
    (a,) = s.sharers(topic, "a", partitions=1)
    s.commit({(topic, 0): 7})
    a.commit({(topic, 0): 7}, generation=a.epoch)
    a.leave_group()
    s.commit({(topic, 0): 7})


@share_story(ApiKey.OFFSET_FETCH, (1, 7, 8, 9, 10))
def offsets_of_a_share_group_are_fetched(s: ShareStory) -> None:
    topic = s.topic("", 1)
    (a,) = s.sharers(topic, "a", partitions=1)
    s.fetch({topic: [0]})
    if s.version >= 2:
        s.fetch()
    if s.version >= 9:
        s.fetch({topic: [0]}, member_id="a", epoch=a.epoch)
    a.leave_group()
    s.fetch({topic: [0]})


@share_story(ApiKey.OFFSET_DELETE, (0,))
def offsets_of_a_share_group_are_deleted_the_classic_way(s: ShareStory) -> None:
    topic = s.topic("", 1)
    (a,) = s.sharers(topic, "a", partitions=1)
    s.ask(ApiKey.OFFSET_DELETE, delete_offsets_request(s.group, (topic, [0])))
    a.leave_group()
    s.ask(ApiKey.OFFSET_DELETE, delete_offsets_request(s.group, (topic, [0])))
    s.share_offsets((topic, 0))


@scenario(ApiKey.API_VERSIONS, (3, 4), pair=SHARES)
def the_feature_of_share_groups_is_announced(peer: Peer) -> None:
    answer = peer.ask(ApiKey.API_VERSIONS, ApiVersionsRequest("parity", "1"))
    supported = [each for each in answer.supported_features if each.name == "share.version"]
    finalized = [each for each in answer.finalized_features if each.name == "share.version"]
    peer.note("supported", [(each.min_version, each.max_version) for each in supported])
    peer.note("finalized", [(each.min_version_level, each.max_version_level) for each in finalized])
    shares = [(each.api_key, each.min_version, each.max_version) for each in answer.api_keys if each.api_key >= 76]
    peer.note("apis", [each for each in shares if each[0] not in (80, 81, 88, 89)])
