"""JoinGroup: how a group comes together."""

from __future__ import annotations

from itertools import pairwise

from kohort.protocol.api_keys import ApiKey
from tests.group_requests import subscription
from tests.parity.story import BOTH, RANGE, Story, story

WITH_REQUIRED_ID = range(4, 10)
WITHOUT_REQUIRED_ID = range(4)


@story(ApiKey.JOIN_GROUP)
def the_first_member_leads_a_new_group(s: Story) -> None:
    a = s.member()
    a.enter()
    s.describe()
    a.sync([a])
    s.describe()


@story(ApiKey.JOIN_GROUP, WITH_REQUIRED_ID)
def a_new_member_gets_an_id_and_comes_again(s: Story) -> None:
    a = s.member()
    a.join()
    s.until("Empty")
    s.describe()
    a.join()


@story(ApiKey.JOIN_GROUP, WITHOUT_REQUIRED_ID)
def an_old_client_joins_in_one_step(s: Story) -> None:
    a = s.member()
    a.join()
    a.heartbeat()


@story(ApiKey.JOIN_GROUP)
def the_leader_sees_what_everyone_says(s: Story) -> None:
    first, second = (("range", subscription("t", user_data=b"1")),), (("range", subscription("u")),)
    a, b = s.member(), s.member()
    a.enter(first)
    a.sync([a])
    b.send_enter(second)
    s.until("PreparingRebalance", 2)
    a.join(first)
    b.take()


@story(ApiKey.JOIN_GROUP)
def three_members_come_together(s: Story) -> None:
    a, b, c = s.stable(3)
    for member in (a, b, c):
        member.heartbeat()
    s.describe()


@story(ApiKey.JOIN_GROUP)
def a_follower_that_joins_again_unchanged_is_answered_at_once(s: Story) -> None:
    _, b = s.stable(2)
    b.join()
    b.sync()
    s.describe()


@story(ApiKey.JOIN_GROUP)
def a_leader_that_joins_again_starts_a_new_generation(s: Story) -> None:
    a, b = s.stable(2)
    a.send_join()
    s.until("PreparingRebalance", 2)
    b.heartbeat()
    b.join()
    a.take()


@story(ApiKey.JOIN_GROUP)
def a_follower_with_other_metadata_starts_a_new_generation(s: Story) -> None:
    a, b = s.stable(2)
    b.send_join((("range", subscription("t", "u")), ("roundrobin", subscription("t"))))
    s.until("PreparingRebalance", 2)
    a.join()
    b.take()


@story(ApiKey.JOIN_GROUP)
def a_follower_with_its_protocols_in_another_order_starts_a_new_generation(s: Story) -> None:
    a, b = s.stable(2)
    b.send_join(tuple(reversed(BOTH)))
    s.until("PreparingRebalance", 2)
    a.join()
    b.take()


@story(ApiKey.JOIN_GROUP)
def members_that_join_again_while_the_leader_assigns_get_the_same_answer(s: Story) -> None:
    a, b = s.completing(2)
    b.join()
    a.join()
    a.join()
    s.describe()


@story(ApiKey.JOIN_GROUP)
def other_metadata_while_the_leader_assigns_starts_over(s: Story) -> None:
    a, b = s.completing(2)
    b.join()
    b.send_join(RANGE)
    s.until("PreparingRebalance", 2)
    a.sync([a, b])
    a.join()
    b.take()


@story(ApiKey.JOIN_GROUP)
def a_newcomer_while_the_leader_assigns_sends_waiting_syncs_back(s: Story) -> None:
    a, b = s.completing(2)
    b.send_sync()
    c = s.member()
    c.send_enter()
    s.until("PreparingRebalance", 3)
    b.take()
    a.send_join()
    b.join()
    a.take()
    c.take()


@story(ApiKey.JOIN_GROUP)
def a_group_needs_an_id(s: Story) -> None:
    a = s.member("")
    a.join()
    a.join(member_id="somebody")


@story(ApiKey.JOIN_GROUP)
def session_timeouts_have_bounds(s: Story) -> None:
    for session_ms in (5_999, 1_800_001, 0, -1, 2_147_483_647):
        s.member().join(session_ms=session_ms)
        s.member().join(session_ms=session_ms, member_id="somebody")
    s.describe()


@story(ApiKey.JOIN_GROUP)
def the_bounds_of_session_timeouts_are_allowed(s: Story) -> None:
    s.member(s.group + "-short").enter(session_ms=6_000)
    s.member(s.group + "-long").enter(session_ms=1_800_000)


@story(ApiKey.JOIN_GROUP)
def an_id_that_nobody_gave_out_is_unknown(s: Story) -> None:
    s.member().join(member_id="stranger")
    s.describe()
    s.stable()
    s.member().join(member_id="stranger")


@story(ApiKey.JOIN_GROUP)
def a_new_group_needs_a_protocol(s: Story) -> None:
    s.member().join(())
    s.until("Empty")
    s.describe()
    s.list_groups()
    s.member().enter()


@story(ApiKey.JOIN_GROUP)
def a_new_group_needs_a_protocol_type(s: Story) -> None:
    s.member().join(protocol_type="")
    s.until("Empty")
    s.describe()
    s.member().join((), protocol_type="")


@story(ApiKey.JOIN_GROUP)
def a_group_has_one_protocol_type(s: Story) -> None:
    (a,) = s.stable()
    s.member().join(protocol_type="connect")
    s.member().join(protocol_type="")
    a.join(protocol_type="connect")
    a.heartbeat()


@story(ApiKey.JOIN_GROUP)
def a_newcomer_needs_a_protocol_that_all_know(s: Story) -> None:
    s.stable(protocols=RANGE)
    s.member().join((("sticky", subscription("t")),))
    s.member().join(())
    s.member().join((("RANGE", subscription("t")),))
    s.describe()


@story(ApiKey.JOIN_GROUP)
def a_member_that_drops_the_common_protocol_is_refused(s: Story) -> None:
    _, b = s.stable(2, protocols=RANGE)
    b.join((("sticky", subscription("t")),))
    b.heartbeat()


@story(ApiKey.JOIN_GROUP)
def the_only_member_may_not_change_to_other_protocols(s: Story) -> None:
    (a,) = s.stable(protocols=RANGE)
    a.join((("sticky", subscription("t")),))
    a.join((("sticky", subscription("t")), ("range", subscription("u"))))


@story(ApiKey.JOIN_GROUP)
def what_most_members_like_best_wins(s: Story) -> None:
    one, other = BOTH, tuple(reversed(BOTH))
    a, b, c = s.member(), s.member(), s.member()
    a.enter(one)
    a.sync([a])
    b.send_enter(other)
    s.until("PreparingRebalance", 2)
    a.join(one)
    b.take()
    c.send_enter(other)
    s.until("PreparingRebalance", 3)
    a.send_join(one)
    b.join(other)
    a.take()
    c.take()


@story(ApiKey.JOIN_GROUP, (3, 9))
def ties_between_protocols_are_broken_as_kafka_does(s: Story) -> None:
    names = ("range", "roundrobin", "sticky", "cooperative-sticky", "default", "a", "b", "consistent")
    for number, (first, second) in enumerate(pairwise(names)):
        one = ((first, b"1"), (second, b"2"))
        other = ((second, b"2"), (first, b"1"))
        group = f"{s.group}-{number}"
        a, b = s.member(group), s.member(group)
        a.enter(one, protocol_type="x")
        a.sync([a])
        b.send_enter(other, protocol_type="x")
        s.until("PreparingRebalance", 2, group)
        a.join(one, protocol_type="x")
        b.take()


@story(ApiKey.JOIN_GROUP, WITH_REQUIRED_ID)
def an_id_that_was_given_out_holds_a_rebalance_up_until_it_joins(s: Story) -> None:
    (a,) = s.stable()
    b = s.member()
    b.join()
    a.send_join()
    s.until("PreparingRebalance", 1)
    s.describe()
    a.note_whether_it_waits()
    b.send_join()
    a.take()
    b.take()


@story(ApiKey.JOIN_GROUP, WITH_REQUIRED_ID)
def an_id_that_was_given_out_holds_a_rebalance_up_until_it_leaves(s: Story) -> None:
    (a,) = s.stable()
    b = s.member()
    b.join()
    a.send_join()
    s.until("PreparingRebalance", 1)
    b.leave()
    a.take()


@story(ApiKey.JOIN_GROUP, WITH_REQUIRED_ID)
def an_id_that_was_given_out_is_good_for_joining_only(s: Story) -> None:
    s.stable()
    b = s.member()
    b.join()
    b.heartbeat(generation=1)
    b.sync(generation=1, protocol_type="consumer", protocol="range")
    b.leave()
    b.leave()
    b.join()


@story(ApiKey.JOIN_GROUP, range(5, 10))
def an_id_that_was_given_out_is_not_for_static_members(s: Story) -> None:
    b = s.member()
    b.join()
    b.join(instance="i")
    s.describe()


@story(ApiKey.JOIN_GROUP)
def the_second_of_two_waiting_joins_of_a_member_is_the_one_answered(s: Story) -> None:
    a, b = s.stable(2)
    a.send_join()
    s.until("PreparingRebalance", 2)
    again = s.twin(a)
    again.heartbeat()  # its connection is made, so that its join is not overtaken by what others send
    again.send_join(RANGE)
    s.describe()
    b.join()
    again.take()
    a.note_whether_it_waits()


@story(ApiKey.JOIN_GROUP)
def a_waiting_join_of_a_member_that_is_sent_away_is_answered(s: Story) -> None:
    a, b = s.stable(2)
    a.send_join()
    s.until("PreparingRebalance", 2)
    b.leave((a.id, None))
    a.take()
    s.describe()


@story(ApiKey.JOIN_GROUP)
def a_group_that_became_empty_goes_on_counting(s: Story) -> None:
    (a,) = s.stable()
    a.leave()
    s.describe()
    a.join()
    s.member().enter()


@story(ApiKey.JOIN_GROUP)
def an_empty_group_takes_another_protocol_type(s: Story) -> None:
    (a,) = s.stable()
    a.leave()
    b = s.member()
    b.enter((("default", b"x"),), protocol_type="connect")
    b.sync([b])
    s.describe()


@story(ApiKey.JOIN_GROUP)
def a_group_that_had_only_offsets_can_be_joined(s: Story) -> None:
    topic = s.peer.create()
    s.commit({(topic, 0): 5})
    s.describe()
    a = s.member()
    a.enter()
    a.sync([a])
    s.describe()
    s.fetch({topic: [0]})


@story(ApiKey.JOIN_GROUP)
def metadata_is_kept_as_it_is_whatever_the_type(s: Story) -> None:
    protocols = (("default", bytes(range(256))), ("second", b""))
    (a,) = s.stable(protocols=protocols, protocol_type="connect")
    s.describe()
    a.join(protocols, protocol_type="connect")


@story(ApiKey.JOIN_GROUP)
def a_consumer_may_say_what_nobody_can_read(s: Story) -> None:
    # Not compared: a count or a length beyond the end, with which Kafka 4.3.1 never ends the join phase.
    for number, metadata in enumerate((b"", b"\0", b"\0\0\0")):
        a = s.member(f"{s.group}-{number}")
        a.enter((("range", metadata),))
        a.sync([a])
        s.describe(a.group)


@story(ApiKey.JOIN_GROUP, (8, 9))
def reasons_change_nothing(s: Story) -> None:
    for reason in ("", "because", "ü" * 300):
        s.member(f"{s.group}-{len(reason)}").enter(reason=reason)


@story(ApiKey.JOIN_GROUP)
def member_ids_begin_with_the_clients_name(s: Story) -> None:
    for number, client_id in enumerate(("", "a b", "ü-1", "x" * 300)):
        s.member(f"{s.group}-{number}", client_id=client_id).enter()
        s.describe(f"{s.group}-{number}")


@story(ApiKey.JOIN_GROUP)
def the_same_protocol_twice_in_a_list(s: Story) -> None:
    s.member().enter((("range", b"1"), ("roundrobin", b"3"), ("range", b"2")), protocol_type="x")


@story(ApiKey.JOIN_GROUP)
def a_member_is_described_with_its_new_metadata_after_a_rebalance(s: Story) -> None:
    (a,) = s.stable()
    a.join((("range", subscription("other")), ("roundrobin", subscription("t"))))
    s.describe()
    a.sync([a])
    s.describe()


@story(ApiKey.JOIN_GROUP, WITH_REQUIRED_ID)  # in earlier versions Kafka never answers
def a_client_id_that_leaves_no_room_for_a_member_id_is_refused(s: Story) -> None:
    (a,) = s.stable()
    s.member(client_id="c" * 32_731).join()
    s.member(client_id="c" * 32_767).join()
    a.heartbeat()
    s.describe()
