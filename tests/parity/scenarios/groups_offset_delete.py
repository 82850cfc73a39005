"""OffsetDelete: offsets that a group does not need any more."""

from __future__ import annotations

from kohort.protocol.api_keys import ApiKey
from tests.group_requests import delete_offsets_request, subscription
from tests.parity.story import Story, story


def forget(s: Story, *topics: tuple[str, list[int]], group: str | None = None) -> None:
    s.ask(ApiKey.OFFSET_DELETE, delete_offsets_request(s.group if group is None else group, *topics))


@story(ApiKey.OFFSET_DELETE)
def offsets_of_a_group_without_members_are_forgotten(s: Story) -> None:
    topic = s.peer.create(partitions=3)
    s.commit({(topic, 0): 1, (topic, 1): 2})
    forget(s, (topic, [0, 2]))
    s.fetch({topic: [0, 1, 2]})
    forget(s, (topic, [1]))
    s.fetch()
    s.describe()


@story(ApiKey.OFFSET_DELETE)
def offsets_of_an_empty_group_are_forgotten(s: Story) -> None:
    topic = s.peer.create()
    (a,) = s.stable(protocols=(("range", subscription(topic)),))
    a.commit({(topic, 0): 1})
    a.leave()
    forget(s, (topic, [0]))
    s.fetch()


@story(ApiKey.OFFSET_DELETE)
def there_is_nothing_to_forget_without_a_group(s: Story) -> None:
    topic = s.peer.create()
    forget(s, (topic, [0]))
    forget(s)
    forget(s, (topic, [0]), group="")
    forget(s, (s.peer.topic("-missing"), [0]))
    forget(s, (s.peer.topic("-missing"), [0]), group="")


@story(ApiKey.OFFSET_DELETE)
def topics_and_partitions_that_do_not_exist_are_not_forgotten(s: Story) -> None:
    topic = s.peer.create()
    s.commit({(topic, 0): 1})
    forget(s, (s.peer.topic("-missing"), [0, 1]), (topic, [7, 0, -1]))
    forget(s, ("", [0]))
    s.fetch({topic: [0]})


@story(ApiKey.OFFSET_DELETE)
def offsets_of_a_topic_that_the_group_consumes_are_kept(s: Story) -> None:
    topic, other = s.peer.create(partitions=2), s.peer.create("-other")
    (a,) = s.stable(protocols=(("range", subscription(topic)),))
    a.commit({(topic, 0): 1, (other, 0): 2})
    forget(s, (topic, [0, 1]), (other, [0]))
    s.fetch({topic: [0], other: [0]})


@story(ApiKey.OFFSET_DELETE)
def what_a_rebalancing_group_consumes(s: Story) -> None:
    topic, other = s.peer.create(), s.peer.create("-other")
    protocols = (("range", subscription(topic)),)
    a, b = s.completing(2, protocols=protocols)
    forget(s, (topic, [0]), (other, [0]))
    a.send_join((("range", subscription(other)),))
    s.until("PreparingRebalance", 2)
    forget(s, (topic, [0]), (other, [0]))
    b.join(protocols)
    a.take()
    forget(s, (topic, [0]), (other, [0]))


@story(ApiKey.OFFSET_DELETE)
def a_subscription_that_nobody_can_read_covers_everything(s: Story) -> None:
    topic = s.peer.create()
    s.stable(protocols=(("range", b"\0"),))
    forget(s, (topic, [0]))


@story(ApiKey.OFFSET_DELETE)
def members_of_another_kind_keep_all_offsets(s: Story) -> None:
    topic = s.peer.create()
    s.stable(protocols=(("default", b""),), protocol_type="connect")
    forget(s, (topic, [0]))
    forget(s)


@story(ApiKey.OFFSET_DELETE)
def nothing_to_forget(s: Story) -> None:
    topic = s.peer.create()
    s.commit({(topic, 0): 1})
    forget(s)
    forget(s, (topic, []))
    s.fetch({topic: [0]})


@story(ApiKey.OFFSET_DELETE)
def the_same_partition_forgotten_twice(s: Story) -> None:
    topic = s.peer.create()
    s.commit({(topic, 0): 1})
    forget(s, (topic, [0, 0]))
    forget(s, (topic, [0]))
    s.fetch()


@story(ApiKey.OFFSET_DELETE)
def a_topic_that_is_named_twice_is_answered_in_full(s: Story) -> None:
    topic = s.peer.create(partitions=4)
    s.commit({(topic, partition): partition for partition in range(4)})
    forget(s, (topic, [0, 1]), (topic, [1, 2]))
    s.fetch({topic: [0, 1, 2, 3]})
    forget(s, (topic, [3, 3]), (s.peer.topic("-missing"), [0]), (topic, [9]))
    s.fetch({topic: [3]})
