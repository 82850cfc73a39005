"""Incidents, staged with consumers on a broker, and what `kohort why` has to say about each: cause and culprit."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kohort.history import cause as codes
from tests.why.stage import PARTITIONS, Stage

COOPERATIVE = ("cooperative-sticky",)


class Expected(NamedTuple):
    code: str
    culprit: str | None = None  # client id, instance id or topic; None: nobody in particular
    also: str | None = None  # words that the text has besides


Incident = Callable[[Stage], Expected]


# --- classic groups


def a_group_starts(stage: Stage) -> Expected:
    stage.join("anna")
    stage.settled()
    return Expected(codes.FIRST, "anna")


def a_member_joins_an_eager_group_and_partitions_move_needlessly(stage: Stage) -> Expected:
    stage.join("bert")
    stage.join("carl")
    stage.settled()
    stage.live()
    stage.join("anna")  # range goes by name, so everything shifts
    stage.settled()
    return Expected(codes.JOINED, "anna", "needless")


def a_member_leaves(stage: Stage) -> Expected:
    stage.join("anna")
    leaving = stage.join("bert")
    stage.settled()
    stage.live()
    stage.close(leaving)
    stage.settled()
    return Expected(codes.LEFT, "bert")


def a_member_crashes(stage: Stage) -> Expected:
    stage.join("anna")
    crashing = stage.join("bert")
    stage.settled()
    stage.live()
    stage.crash(crashing)
    stage.settled()
    return Expected(codes.SILENT, "bert", "session.timeout.ms")


def the_leader_of_the_group_is_lost(stage: Stage) -> Expected:
    leader = stage.join("anna")
    stage.settled()
    stage.join("bert")
    stage.join("carl")
    stage.settled()
    stage.live()
    stage.crash(leader)
    stage.settled()
    return Expected(codes.SILENT, "anna", "leader of the group")


def everybody_waits_for_a_slow_member(stage: Stage) -> Expected:
    slow = stage.join("slowpoke")
    stage.join("bert")
    stage.settled()
    stage.live()
    slow.work(5)
    stage.live()  # the other one commits on: of members that stop together, a Kafka's log tells nothing
    stage.join("carl")
    stage.settled()
    return Expected(codes.JOINED, "carl", "slowest  slowpoke")


def a_member_polls_too_slowly(stage: Stage) -> Expected:
    busy = stage.join("busy", poll_ms=3_500, session_ms=10_000)
    stage.join("bert", poll_ms=3_500, session_ms=10_000)
    stage.settled()
    stage.live(1.5)
    busy.work(6)
    stage.settled(count=1)
    stage.settled()
    return Expected(codes.SLOW_POLL, "busy", "max.poll.records")


def a_member_pauses_and_comes_back(stage: Stage) -> Expected:
    paused = stage.join("paused")
    stage.join("bert")
    stage.settled()
    stage.live()
    paused.freeze(6)
    stage.until(lambda: len(stage.members[1].share) == PARTITIONS)
    stage.settled()
    stage.live(0.5)
    return Expected(codes.SILENT, "paused", "was alive")


def a_deploy_restarts_one_member_after_the_other(stage: Stage) -> Expected:
    names = ("anna", "bert", "carl")
    for name in names:
        stage.join(name)
    stage.settled()
    for name, member in zip(names, list(stage.members), strict=True):
        stage.live(0.8)
        stage.close(member)
        stage.settled()
        stage.join(name)
        stage.settled()
    return Expected(codes.RETURNED, "bert", "rolling restart: 3 of 3")


def a_static_member_flaps(stage: Stage) -> Expected:
    stage.join("anna", instance="steady", session_ms=1_500)
    flapping = stage.join("bert", instance="flapping", session_ms=1_500)
    stage.settled()
    for _ in range(3):
        stage.live(0.8)
        stage.crash(flapping)
        stage.settled()
        flapping = stage.join("bert", instance="flapping", session_ms=1_500)
        stage.settled()
    return Expected(codes.SILENT, "flapping", "flapping (127.0.0.1) flaps")


def a_static_member_is_restarted_in_time(stage: Stage) -> Expected:
    stage.join("anna", instance="one", session_ms=10_000)
    stage.join("bert", instance="two", session_ms=10_000)
    stage.settled()
    stage.live()
    stage.close(stage.members[1])
    stage.join("bert", instance="two", session_ms=10_000)
    stage.settled()
    return Expected(codes.REPLACED, "two", "without a rebalance")


def two_members_have_one_static_id(stage: Stage) -> Expected:
    stage.join("anna", instance="one", session_ms=10_000)
    stage.join("bert", instance="same", session_ms=10_000)
    stage.settled()
    for _ in range(4):  # the one that is fenced is started again by whatever looks after it
        stage.live(0.4)
        stage.members.pop()
        stage.join("bert", instance="same", session_ms=10_000)
        stage.settled()
    return Expected(codes.SHARED_INSTANCE, "same", "group.instance.id of its own")


def a_topic_grows(stage: Stage) -> Expected:
    stage.join("anna")
    stage.join("bert")
    stage.settled()
    stage.live()
    stage.grow(stage.topic, PARTITIONS + 2)
    stage.settled(partitions=PARTITIONS + 2)
    return Expected(codes.GREW, stage.topic, f"from {PARTITIONS} to {PARTITIONS + 2}")


def a_topic_is_deleted(stage: Stage) -> Expected:
    doomed = stage.new_topic("doomed")
    stage.join("anna", stage.topic, doomed)
    stage.join("bert", stage.topic, doomed)
    stage.settled(stage.topic, doomed)
    stage.live()
    stage.delete(doomed)
    stage.settled()
    return Expected(codes.GONE_TOPIC, doomed)


def a_member_subscribes_to_another_topic(stage: Stage) -> Expected:
    other = stage.new_topic("other")
    stage.join("anna")
    stage.join("bert")
    stage.settled()
    stage.live()
    stage.members[1].subscribe(stage.topic, other)
    stage.settled(stage.topic, other)
    return Expected(codes.SUBSCRIPTION, "bert", other)


def a_regular_expression_of_clients_matches_a_new_topic(stage: Stage) -> Expected:
    stage.join("anna")
    stage.join("bert")
    stage.settled()
    stage.live()
    new = stage.new_topic("new")
    for member in stage.members:
        member.subscribe(stage.topic, new)
    stage.settled(stage.topic, new)
    return Expected(codes.SUBSCRIPTION, None, new)


def assignors_are_mixed(stage: Stage) -> Expected:
    both = ("cooperative-sticky", "range")
    stage.join("anna", assignors=both)
    stage.join("bert", assignors=both)
    stage.settled()
    stage.live()
    stage.join("old", assignors=("range",))
    stage.settled()
    return Expected(codes.JOINED, "old", "from cooperative-sticky to range: old")


def a_cooperative_group_takes_two_steps(stage: Stage) -> Expected:
    stage.join("anna", assignors=COOPERATIVE)
    stage.join("bert", assignors=COOPERATIVE)
    stage.settled()
    stage.live()
    stage.join("carl", assignors=COOPERATIVE)
    stage.settled()
    return Expected(codes.SECOND_STEP, None, "2 partitions that members gave up")


# --- from one protocol to the other


def a_group_migrates_to_kip_848(stage: Stage) -> Expected:
    stage.join("anna")
    stage.settled()
    stage.live()
    stage.join_new("modern")
    stage.settled()
    return Expected(codes.CONVERTED, "modern", "became a KIP-848 group")


def a_group_migrates_back(stage: Stage) -> Expected:
    stage.join("anna")
    stage.settled()
    modern = stage.join_new("modern")
    stage.settled()
    stage.live()
    stage.close(modern)
    stage.settled()
    return Expected(codes.CONVERTED, "modern", "classic group again")


# --- KIP-848 and share groups


def a_member_joins_a_new_group(stage: Stage) -> Expected:
    stage.join_new("anna")
    stage.settled()
    stage.live()
    stage.join_new("bert")
    stage.settled()
    return Expected(codes.JOINED, "bert")


def a_member_leaves_a_new_group(stage: Stage) -> Expected:
    stage.join_new("anna")
    leaving = stage.join_new("bert")
    stage.settled()
    stage.live()
    stage.close(leaving)
    stage.settled()
    return Expected(codes.LEFT, "bert")


def a_member_of_a_new_group_is_fenced(stage: Stage) -> Expected:
    stage.join_new("anna")
    crashing = stage.join_new("bert")
    stage.settled()
    stage.live()
    stage.crash(crashing)
    stage.settled()
    return Expected(codes.SILENT, "bert", "fell silent")


def a_member_does_not_give_up_partitions(stage: Stage) -> Expected:
    stubborn = stage.join_new("stubborn", poll_ms=2_500, keeps=True)
    stage.settled()
    stage.live()
    stage.join_new("bert", poll_ms=2_500)
    stage.until(lambda: len(stage.members[1].share) > 0)
    stage.crash(stubborn)
    stage.settled()
    return Expected(codes.NOT_GIVEN_UP, "stubborn", "did not give up partitions")


def a_topic_of_a_new_group_grows(stage: Stage) -> Expected:
    stage.join_new("anna")
    stage.settled()
    stage.live()
    stage.grow(stage.topic, PARTITIONS + 2)
    stage.settled(partitions=PARTITIONS + 2)
    return Expected(codes.GREW, stage.topic, f"from {PARTITIONS} to {PARTITIONS + 2}")


def a_regular_expression_of_a_new_group_matches_a_new_topic(stage: Stage) -> Expected:
    ids = stage.ids(stage.topic)
    stage.join_new("anna", regex=stage.name("[tn].*").replace(".", "[.]", 1), ids=ids)
    stage.settled()
    stage.live()
    new = stage.new_topic("new")
    ids.update(stage.ids(new))
    stage.settled(stage.topic, new)
    return Expected(codes.PATTERN, new)


def a_static_member_of_a_new_group_is_restarted(stage: Stage) -> Expected:
    stage.join_new("anna", instance="one")
    second = stage.join_new("bert", instance="two")
    stage.settled()
    stage.live()
    stage.close(second)
    stage.join_new("bert", instance="two")
    stage.settled()
    return Expected(codes.REPLACED, "two", "without a rebalance")


def a_member_joins_a_share_group(stage: Stage) -> Expected:
    first = stage.join_sharing("anna")
    stage.until(lambda: len(first.share) == PARTITIONS)
    second = stage.join_sharing("bert")
    stage.until(lambda: bool(second.share) and len(first.share) < PARTITIONS)
    return Expected(codes.JOINED, "bert")


ALL: tuple[Incident, ...] = (
    a_static_member_flaps,
    a_regular_expression_of_a_new_group_matches_a_new_topic,
    a_deploy_restarts_one_member_after_the_other,
    a_member_polls_too_slowly,
    a_member_pauses_and_comes_back,
    a_member_crashes,
    the_leader_of_the_group_is_lost,
    everybody_waits_for_a_slow_member,
    a_group_starts,
    a_member_joins_an_eager_group_and_partitions_move_needlessly,
    a_member_leaves,
    a_static_member_is_restarted_in_time,
    two_members_have_one_static_id,
    a_topic_grows,
    a_topic_is_deleted,
    a_member_subscribes_to_another_topic,
    a_regular_expression_of_clients_matches_a_new_topic,
    assignors_are_mixed,
    a_cooperative_group_takes_two_steps,
    a_group_migrates_to_kip_848,
    a_group_migrates_back,
    a_member_joins_a_new_group,
    a_member_leaves_a_new_group,
    a_member_of_a_new_group_is_fenced,
    a_member_does_not_give_up_partitions,
    a_topic_of_a_new_group_grows,
    a_static_member_of_a_new_group_is_restarted,
    a_member_joins_a_share_group,
)


def the_broker_is_restarted_while_a_member_dies(stage: Stage) -> Expected:
    """Alone: it disturbs all other groups."""
    stage.join("anna")
    crashing = stage.join("bert")
    stage.settled()
    stage.live()
    stage.crash(crashing)
    stage.broker.restart()
    stage.settled()
    return Expected(codes.SILENT, "bert", "coordinator of the group was started again")
