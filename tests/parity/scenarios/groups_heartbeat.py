"""Heartbeat: a sign of life, and news of a rebalance."""

from __future__ import annotations

from kohort.protocol.api_keys import ApiKey
from tests.parity.story import Story, story


@story(ApiKey.HEARTBEAT)
def heartbeats_in_each_state(s: Story) -> None:
    a, b = s.completing(2)
    a.heartbeat()
    b.heartbeat()
    b.send_sync()
    a.sync([a, b])
    b.take()
    a.heartbeat()
    b.heartbeat()
    a.send_join()
    s.until("PreparingRebalance", 2)
    b.heartbeat()
    b.join()
    a.take()
    b.leave()
    a.heartbeat()
    a.leave()
    a.heartbeat()
    b.heartbeat()


@story(ApiKey.HEARTBEAT)
def heartbeats_come_again_and_again_whatever_happens(s: Story) -> None:
    a, b = s.stable(2)

    def beat_often() -> None:
        for member in (a, b, a, b, a, a, a, b, b, b):
            member.heartbeat()

    beat_often()
    old = b.generation
    a.send_join()
    s.until("PreparingRebalance", 2)
    for _ in range(4):
        b.heartbeat()
    b.join()
    a.take()
    for generation in (old, None, old, None, None, None):
        b.heartbeat(generation=generation)
    b.leave()
    a.heartbeat()
    for _ in range(4):
        b.heartbeat()


@story(ApiKey.HEARTBEAT)
def a_heartbeat_needs_a_group_and_a_member(s: Story) -> None:
    stranger = s.member()
    stranger.heartbeat(member_id="stranger", generation=1)
    stranger.heartbeat(member_id="", generation=-1)
    s.member("").heartbeat(member_id="stranger", generation=1)
    s.stable()
    stranger.heartbeat(member_id="stranger", generation=1)
    stranger.heartbeat(member_id="", generation=1)


@story(ApiKey.HEARTBEAT)
def a_heartbeat_of_another_generation_is_refused(s: Story) -> None:
    a, b = s.stable(2)
    for generation in (a.generation - 1, a.generation + 1, -1, 0):
        a.heartbeat(generation=generation)
        b.heartbeat(generation=generation)


@story(ApiKey.HEARTBEAT)
def the_generation_counts_before_the_rebalance(s: Story) -> None:
    a, b = s.stable(2)
    a.send_join()
    s.until("PreparingRebalance", 2)
    b.heartbeat(generation=99)
    b.heartbeat()


@story(ApiKey.HEARTBEAT)
def an_id_that_was_given_out_has_no_heartbeat(s: Story) -> None:
    b = s.member()
    b.join()
    b.heartbeat(generation=0)
    b.heartbeat(generation=-1)
    s.stable()
    b.heartbeat(generation=1)


@story(ApiKey.HEARTBEAT)
def a_group_of_offsets_has_no_members(s: Story) -> None:
    topic = s.peer.create()
    s.commit({(topic, 0): 1})
    s.member().heartbeat(member_id="stranger", generation=0)
    s.member().heartbeat(member_id="stranger", generation=-1)


@story(ApiKey.HEARTBEAT)
def who_was_sent_away_is_unknown(s: Story) -> None:
    a, b = s.stable(2)
    a.leave((b.id, None))
    b.heartbeat()
    a.heartbeat()


@story(ApiKey.HEARTBEAT, (3, 4))
def a_dynamic_member_has_no_instance(s: Story) -> None:
    a, _ = s.stable(2)
    a.heartbeat(instance="made up")
    a.heartbeat(instance="")
