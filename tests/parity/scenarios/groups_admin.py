"""DescribeGroups, ListGroups and DeleteGroups."""

from __future__ import annotations

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.delete_groups import DeleteGroupsRequest
from kohort.protocol.messages.describe_groups import DescribeGroupsRequest
from tests.parity.story import Story, story


def delete(s: Story, *groups: str) -> None:
    s.ask(ApiKey.DELETE_GROUPS, DeleteGroupsRequest(list(groups)))


# --- DescribeGroups


@story(ApiKey.DESCRIBE_GROUPS)
def a_group_is_described_in_each_state(s: Story) -> None:
    a, b = s.completing(2)
    s.describe()
    b.send_sync()
    a.sync([a, b])
    b.take()
    s.describe()
    a.send_join()
    s.until("PreparingRebalance", 2)
    s.describe()
    b.join()
    a.take()
    s.describe()
    b.leave()
    s.describe()
    a.leave()
    s.describe()


@story(ApiKey.DESCRIBE_GROUPS)
def a_group_that_nobody_knows_is_described_as_dead_or_missing(s: Story) -> None:
    s.describe()
    s.describe("")
    s.describe(operations=True)


@story(ApiKey.DESCRIBE_GROUPS)
def several_groups_are_described(s: Story) -> None:
    s.stable(group=s.group + "-1")
    s.stable(group=s.group + "-2")
    s.describe(s.group + "-2", s.group + "-unknown", s.group + "-1")


@story(ApiKey.DESCRIBE_GROUPS)
def a_group_described_twice(s: Story) -> None:
    s.stable()
    s.describe(s.group, s.group)
    s.describe("nobody knows it", "nobody knows it")


@story(ApiKey.DESCRIBE_GROUPS)
def no_groups_to_describe(s: Story) -> None:
    s.ask(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest([]))


@story(ApiKey.DESCRIBE_GROUPS, range(3, 7))
def what_one_may_do_with_a_group(s: Story) -> None:
    s.stable()
    s.describe(operations=True)


@story(ApiKey.DESCRIBE_GROUPS)
def a_group_of_offsets_is_described(s: Story) -> None:
    topic = s.peer.create()
    s.commit({(topic, 0): 1})
    s.describe()


@story(ApiKey.DESCRIBE_GROUPS)
def static_members_are_described(s: Story) -> None:
    a = s.member(instance="one")
    a.join()
    a.sync([a])
    s.describe()


@story(ApiKey.DESCRIBE_GROUPS)
def a_group_of_another_kind_is_described(s: Story) -> None:
    s.stable(protocols=(("default", b"\1\2"),), protocol_type="connect")
    s.describe()


@story(ApiKey.DESCRIBE_GROUPS)
def a_group_that_was_deleted_is_described_as_unknown(s: Story) -> None:
    topic = s.peer.create()
    s.commit({(topic, 0): 1})
    delete(s, s.group)
    s.describe()


# --- ListGroups


def one_of_each(s: Story) -> None:
    topic = s.peer.create()
    s.commit({(topic, 0): 1}, s.group + "-simple")
    (gone,) = s.stable(group=s.group + "-empty")
    gone.leave()
    s.stable(group=s.group + "-stable")
    s.stable(group=s.group + "-connect", protocols=(("default", b""),), protocol_type="connect")
    s.completing(group=s.group + "-completing")
    a, _ = s.stable(2, group=s.group + "-preparing")
    a.send_join()
    s.until("PreparingRebalance", 2, s.group + "-preparing")
    pending = s.member(s.group + "-pending")
    pending.join()
    s.until("Empty", 0, pending.group)


@story(ApiKey.LIST_GROUPS)
def groups_of_each_state_are_listed(s: Story) -> None:
    one_of_each(s)
    s.list_groups()


@story(ApiKey.LIST_GROUPS, (4, 5))
def groups_are_listed_by_state(s: Story) -> None:
    one_of_each(s)
    for states in (
        ["Empty"],
        ["Stable"],
        ["stable"],
        [" STABLE "],
        ["PreparingRebalance", "CompletingRebalance"],
        ["preparing_rebalance"],
        ["Dead"],
        ["Nonsense"],
        ["Stable", "Nonsense"],
        [""],
        ["Assigning", "Reconciling"],
    ):
        s.list_groups(states)


@story(ApiKey.LIST_GROUPS, (5,))
def groups_are_listed_by_type(s: Story) -> None:
    one_of_each(s)
    for types in (["classic"], ["Classic"], ["CONSUMER"], ["share"], ["streams"], ["unknown"], ["nonsense"], [""]):
        s.list_groups(types=types)
    s.list_groups(["Stable"], ["classic"])
    s.list_groups(["Stable"], ["consumer", "classic"])
    s.list_groups(types=[" classic "])


@story(ApiKey.LIST_GROUPS)
def a_deleted_group_is_not_listed(s: Story) -> None:
    topic = s.peer.create()
    s.commit({(topic, 0): 1})
    s.list_groups()
    delete(s, s.group)
    s.list_groups()


# --- DeleteGroups


@story(ApiKey.DELETE_GROUPS)
def an_empty_group_is_deleted(s: Story) -> None:
    topic = s.peer.create()
    (a,) = s.stable()
    a.commit({(topic, 0): 1})
    a.leave()
    delete(s, s.group)
    s.describe()
    s.fetch({topic: [0]})
    a.heartbeat()


@story(ApiKey.DELETE_GROUPS)
def a_group_of_offsets_is_deleted(s: Story) -> None:
    topic = s.peer.create(partitions=3)
    s.commit({(topic, 0): 1, (topic, 1): 2, (topic, 2): 3})
    delete(s, s.group)
    s.list_groups()
    s.fetch()
    s.commit({(topic, 1): 9})
    s.fetch()


@story(ApiKey.DELETE_GROUPS)
def a_group_with_members_is_not_deleted(s: Story) -> None:
    a, b = s.completing(2)
    delete(s, s.group)
    b.send_sync()
    a.sync([a, b])
    b.take()
    delete(s, s.group)
    a.send_join()
    s.until("PreparingRebalance", 2)
    delete(s, s.group)
    b.join()
    a.take()


@story(ApiKey.DELETE_GROUPS)
def groups_that_nobody_knows_are_not_deleted(s: Story) -> None:
    delete(s, s.group)
    delete(s, "")
    delete(s)


@story(ApiKey.DELETE_GROUPS)
def several_groups_are_deleted_at_once(s: Story) -> None:
    topic = s.peer.create()
    for number in range(4):
        s.commit({(topic, 0): number}, f"{s.group}-{number}")
    s.stable(group=s.group + "-stable")
    delete(s, *[f"{s.group}-{number}" for number in range(3)], s.group + "-stable", s.group + "-unknown")
    s.list_groups()


@story(ApiKey.DELETE_GROUPS)
def a_group_deleted_twice_in_one_request(s: Story) -> None:
    topic = s.peer.create()
    s.commit({(topic, 0): 1})
    delete(s, s.group, s.group)
    delete(s, s.group + "-unknown", s.group + "-unknown")


@story(ApiKey.DELETE_GROUPS)
def a_group_with_nothing_but_ids_given_out_is_deleted(s: Story) -> None:
    b = s.member()
    b.join()
    s.until("Empty")
    delete(s, s.group)
    b.join()
    s.describe()


@story(ApiKey.DELETE_GROUPS)
def a_group_that_was_deleted_starts_anew(s: Story) -> None:
    (a,) = s.stable()
    a.leave()
    delete(s, s.group)
    b = s.member()
    b.enter()
    b.sync([b])
    s.describe()
