"""ConsumerGroupHeartbeat requests that are wrong whatever the group is, and which mistake counts first."""

from __future__ import annotations

from typing import Any

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from tests.parity.consumer_story import ConsumerStory, consumer_story

BOTH = (0, 1)
SOME_ID = b"1" * 16


def joining(s: ConsumerStory, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    """A request to join that nothing is wrong with, but for `fields`."""
    request = ConsumerGroupHeartbeatRequest(
        s.group, "a", rebalance_timeout_ms=60_000, subscribed_topic_names=["t"], topic_partitions=[]
    )
    for name, value in fields.items():
        setattr(request, name, value)
    return request


def try_each(s: ConsumerStory, *requests: ConsumerGroupHeartbeatRequest) -> None:
    for request in requests:
        s.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, request)


@consumer_story(versions=BOTH)
def a_member_without_an_id_gets_one_from_version_0_alone(s: ConsumerStory) -> None:
    try_each(s, joining(s, member_id=""))
    s.describe_consumers()


@consumer_story(versions=BOTH)
def a_member_id_of_blanks_is_no_id(s: ConsumerStory) -> None:
    try_each(s, joining(s, member_id=" "), joining(s, member_id="\t\n"), joining(s, member_id="\u3000"))
    s.describe_consumers()


@consumer_story(versions=BOTH)
def a_heartbeat_needs_a_member_id(s: ConsumerStory) -> None:
    try_each(s, *(joining(s, member_id="", member_epoch=epoch) for epoch in (1, 7, -1, -2, -3)))


@consumer_story(versions=BOTH)
def a_heartbeat_needs_a_group_id(s: ConsumerStory) -> None:
    for epoch in (0, 1, -1):
        try_each(s, joining(s, group_id="", member_epoch=epoch), joining(s, group_id="  ", member_epoch=epoch))


@consumer_story(versions=BOTH)
def an_instance_id_is_not_empty(s: ConsumerStory) -> None:
    for epoch in (0, 1, -1, -2):
        try_each(s, joining(s, instance_id="", member_epoch=epoch), joining(s, instance_id=" ", member_epoch=epoch))


@consumer_story(versions=BOTH)
def a_rack_id_is_not_empty(s: ConsumerStory) -> None:
    for epoch in (0, 1, -1):
        try_each(s, joining(s, rack_id="", member_epoch=epoch), joining(s, rack_id=" ", member_epoch=epoch))


@consumer_story(versions=BOTH)
def a_member_that_joins_says_how_long_it_may_take_to_revoke(s: ConsumerStory) -> None:
    try_each(s, joining(s, rebalance_timeout_ms=-1))


@consumer_story(versions=BOTH)
def strange_times_to_revoke_are_taken(s: ConsumerStory) -> None:
    for number, timeout_ms in enumerate((0, -2, -(2**31), 2**31 - 1)):
        try_each(s, joining(s, member_id=f"a{number}", rebalance_timeout_ms=timeout_ms))


@consumer_story(versions=BOTH)
def a_member_that_joins_says_that_it_owns_nothing(s: ConsumerStory) -> None:
    owned = [TopicPartitions(SOME_ID, [0])]
    try_each(s, joining(s, topic_partitions=None), joining(s, topic_partitions=owned))
    try_each(s, joining(s, topic_partitions=[TopicPartitions(SOME_ID, [])]))


@consumer_story(versions=BOTH)
def a_member_that_joins_subscribes(s: ConsumerStory) -> None:
    try_each(s, joining(s, subscribed_topic_names=None))


@consumer_story(versions=BOTH)
def a_member_may_subscribe_to_nothing(s: ConsumerStory) -> None:
    try_each(s, joining(s, subscribed_topic_names=[]))
    s.describe_consumers()


@consumer_story()
def an_empty_regular_expression_is_a_subscription_to_nothing(s: ConsumerStory) -> None:
    try_each(s, joining(s, subscribed_topic_names=None, subscribed_topic_regex=""))
    s.describe_consumers()


@consumer_story(versions=BOTH)
def only_a_static_member_leaves_for_now(s: ConsumerStory) -> None:
    try_each(s, joining(s, member_epoch=-2), joining(s, member_epoch=-2, instance_id="one"))


@consumer_story(versions=BOTH)
def there_are_no_epochs_below_minus_two(s: ConsumerStory) -> None:
    try_each(s, *(joining(s, member_epoch=epoch) for epoch in (-3, -100, -(2**31))))
    try_each(s, joining(s, member_epoch=-3, instance_id="one"))


@consumer_story(versions=BOTH)
def an_assignor_that_the_broker_does_not_have_is_refused(s: ConsumerStory) -> None:
    for assignor in ("none", "", "Uniform", "uniform ", "cooperative-sticky"):
        for epoch in (0, 1, -1):
            try_each(s, joining(s, server_assignor=assignor, member_epoch=epoch))


@consumer_story(versions=BOTH)
def the_first_mistake_of_several_is_told(s: ConsumerStory) -> None:
    """Only the codes tell: INVALID_REQUEST comes before UNSUPPORTED_ASSIGNOR, and both before the group."""
    try_each(s, joining(s, server_assignor="none", rack_id=""), joining(s, server_assignor="none", member_epoch=-9))
    try_each(s, joining(s, server_assignor="none", member_epoch=5), joining(s, group_id="", server_assignor="none"))
    try_each(s, joining(s, server_assignor="none", subscribed_topic_regex="("))


@consumer_story(versions=BOTH)
def a_group_that_is_not_there_has_no_members(s: ConsumerStory) -> None:
    try_each(s, joining(s, member_epoch=1), joining(s, member_epoch=-1))
    try_each(s, *(joining(s, member_epoch=epoch, instance_id="one") for epoch in (1, -1, -2)))
    s.describe_consumers()


@consumer_story(versions=BOTH)
def topics_that_do_not_exist_may_be_subscribed(s: ConsumerStory) -> None:
    try_each(s, joining(s, subscribed_topic_names=["no such topic", "", "x" * 300, "t", "t"]))
    s.describe_consumers()


@consumer_story(versions=BOTH)
def ids_may_be_long_and_strange(s: ConsumerStory) -> None:
    try_each(s, joining(s, member_id="ü/ \u20ac", instance_id="i \U0001f600", rack_id="r" * 300))
    try_each(s, joining(s, member_id="m" * 1000))
    s.describe_consumers()
