"""The same incidents with consumers of confluent-kafka, on Kohort and on a real Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.group_broker import GroupBroker, KafkaBroker
from tests.why import incidents
from tests.why.incidents import Incident
from tests.why.real_consumers import RealStage
from tests.why.staged import SETTINGS, explanations, problem_of, stage_all

SOME: tuple[Incident, ...] = (
    incidents.a_member_joins_an_eager_group_and_partitions_move_needlessly,
    incidents.a_member_leaves,
    incidents.a_member_crashes,
    incidents.the_leader_of_the_group_is_lost,
    incidents.everybody_waits_for_a_slow_member,
    incidents.a_member_polls_too_slowly,
    incidents.a_member_pauses_and_comes_back,
    incidents.a_deploy_restarts_one_member_after_the_other,
    incidents.a_static_member_is_restarted_in_time,
    incidents.a_topic_grows,
    incidents.a_topic_is_deleted,
    incidents.a_member_subscribes_to_another_topic,
    incidents.a_cooperative_group_takes_two_steps,
    incidents.a_group_migrates_to_kip_848,
    incidents.a_member_joins_a_new_group,
    incidents.a_member_leaves_a_new_group,
    incidents.a_member_of_a_new_group_is_fenced,
    incidents.a_topic_of_a_new_group_grows,
)


@pytest.mark.story
@pytest.mark.parametrize("kind", ["kohort", "kafka"])
def test_incidents_of_real_consumers_are_explained(tmp_path: Path, kind: str) -> None:
    """Up to ten at a time, with up to three processes each."""
    broker = GroupBroker(tmp_path, **SETTINGS) if kind == "kohort" else KafkaBroker(tmp_path, **SETTINGS)
    data = tmp_path / "data" if kind == "kohort" else tmp_path / "kafka" / "data"
    with broker:
        expected = stage_all(broker, SOME, RealStage)
    problems = {
        group: problem
        for group, each in expected.items()
        if (problem := problem_of(explanations(data, group), each)) is not None
    }
    assert not problems, "\n\n".join(problems.values())
