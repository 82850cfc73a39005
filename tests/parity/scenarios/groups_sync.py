"""SyncGroup: the leader brings the assignment."""

from __future__ import annotations

from kohort.protocol.api_keys import ApiKey
from tests.parity.story import Story, story


@story(ApiKey.SYNC_GROUP)
def followers_wait_for_the_leaders_assignment(s: Story) -> None:
    a, b, c = s.completing(3)
    b.send_sync()
    c.send_sync()
    s.describe()
    b.note_whether_it_waits()
    a.sync([a, b, c])
    b.take()
    c.take()
    s.describe()


@story(ApiKey.SYNC_GROUP)
def who_comes_after_the_leader_is_answered_at_once(s: Story) -> None:
    a, b = s.completing(2)
    a.sync([a, b])
    b.sync()
    b.sync()


@story(ApiKey.SYNC_GROUP)
def an_assignment_is_not_changed_by_a_second_one(s: Story) -> None:
    a, b = s.completing(2)
    a.sync([a, b])
    a.sync([b, a])
    b.sync()
    s.describe()


@story(ApiKey.SYNC_GROUP)
def members_that_the_leader_forgot_get_nothing_and_unknown_ones_are_passed_over(s: Story) -> None:
    a, b = s.completing(2)
    b.send_sync()
    a.sync(assignments={a.id: b"mine", "stranger": b"theirs"})
    b.take()
    s.describe()


@story(ApiKey.SYNC_GROUP)
def a_leader_may_assign_nothing_at_all(s: Story) -> None:
    a, b = s.completing(2)
    b.send_sync()
    a.sync()
    b.take()
    s.describe()


@story(ApiKey.SYNC_GROUP)
def what_a_follower_assigns_is_ignored(s: Story) -> None:
    a, b = s.completing(2)
    b.send_sync([b, a])
    s.describe()
    a.sync([a, b])
    b.take()


@story(ApiKey.SYNC_GROUP)
def a_large_assignment_arrives(s: Story) -> None:
    (a,) = s.completing()
    a.sync(assignments={a.id: bytes(range(256)) * 2000})
    s.describe()


@story(ApiKey.SYNC_GROUP)
def a_sync_needs_a_group_and_a_member(s: Story) -> None:
    stranger = s.member()
    stranger.sync(generation=1, member_id="stranger", protocol_type="consumer", protocol="range")
    nameless = s.member("")
    nameless.sync(generation=1, member_id="stranger", protocol_type="consumer", protocol="range")
    s.stable()
    stranger.sync(generation=1, member_id="stranger", protocol_type="consumer", protocol="range")
    stranger.sync(generation=1, member_id="", protocol_type="consumer", protocol="range")


@story(ApiKey.SYNC_GROUP)
def a_sync_to_an_empty_group_is_from_nobody(s: Story) -> None:
    (a,) = s.stable()
    a.leave()
    a.sync([a])


@story(ApiKey.SYNC_GROUP)
def a_sync_of_another_generation_is_refused(s: Story) -> None:
    a, b = s.completing(2)
    for generation in (a.generation - 1, a.generation + 1, -1, 0):
        a.sync([a, b], generation=generation)
    a.sync([a, b])
    a.sync([a, b], generation=a.generation + 1)


@story(ApiKey.SYNC_GROUP, (5,))
def protocol_type_and_name_must_be_those_of_the_group(s: Story) -> None:
    a, b = s.completing(2)
    a.sync([a, b], protocol="sticky")
    a.sync([a, b], protocol="roundrobin")
    a.sync([a, b], protocol_type="connect")
    a.sync([a, b], protocol=None)
    a.sync([a, b], protocol_type=None)
    a.sync([a, b], generation=99, protocol="sticky")
    stranger = s.member("")
    stranger.sync(member_id="x", protocol=None, protocol_type=None)
    a.sync([a, b])
    a.sync([a, b], protocol="sticky")


@story(ApiKey.SYNC_GROUP)
def a_sync_while_all_join_is_sent_back(s: Story) -> None:
    a, b = s.stable(2)
    a.send_join()
    s.until("PreparingRebalance", 2)
    b.sync()
    b.sync(generation=99)
    b.join()
    a.take()


@story(ApiKey.SYNC_GROUP)
def waiting_syncs_are_sent_back_when_the_leader_leaves(s: Story) -> None:
    a, b = s.completing(2)
    b.send_sync()
    s.describe()
    a.leave()
    b.take()
    b.join()
    b.sync([b])


@story(ApiKey.SYNC_GROUP)
def a_member_that_is_sent_away_while_its_sync_waits(s: Story) -> None:
    a, b, c = s.completing(3)
    b.send_sync()
    c.send_sync()
    s.describe()
    a.leave((b.id, None))
    c.take()
    b.note_whether_it_waits()
    s.describe()


@story(ApiKey.SYNC_GROUP)
def the_second_of_two_waiting_syncs_of_a_member_is_the_one_answered(s: Story) -> None:
    a, b = s.completing(2)
    b.send_sync()
    s.describe()
    again = s.twin(b)
    again.send_sync()
    s.describe()
    a.sync([a, b])
    again.take()
    b.note_whether_it_waits()


@story(ApiKey.SYNC_GROUP, (4, 5))
def an_id_that_was_given_out_cannot_sync(s: Story) -> None:
    (a,) = s.stable()
    b = s.member()
    b.join()
    b.sync(generation=a.generation, protocol_type="consumer", protocol="range")


@story(ApiKey.SYNC_GROUP)
def an_assignment_that_no_log_takes_fails_for_all(s: Story) -> None:
    a, b = s.completing(2)
    b.send_sync()
    s.describe()
    a.sync([a, b], assignments={a.id: bytes(1_048_588)})
    b.take()
    a.heartbeat()
    b.heartbeat()
    s.describe()
