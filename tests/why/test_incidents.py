"""`kohort why` names cause and culprit of each staged incident: on Kohort, live; on a real Kafka, as recorded.

tests/kafka/test_why.py stages them on a real Kafka anew.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.group_broker import GroupBroker
from tests.why.incidents import ALL, Expected, Incident, the_broker_is_restarted_while_a_member_dies
from tests.why.recorded_kafka import unpack
from tests.why.staged import SETTINGS, explanations, group_of, problem_of, stage_all

INCIDENTS = (*ALL, the_broker_is_restarted_while_a_member_dies)
Staged = tuple[Path, dict[str, Expected]]


@pytest.fixture(scope="module")
def kohort(tmp_path_factory: pytest.TempPathFactory) -> Staged:
    folder = tmp_path_factory.mktemp("kohort")
    with GroupBroker(folder, **SETTINGS) as broker:
        expected = stage_all(broker)
    return folder / "data", expected


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Staged:
    folder = tmp_path_factory.mktemp("kafka")
    return folder, unpack(folder)


@pytest.mark.parametrize("incident", INCIDENTS, ids=lambda incident: incident.__name__)
def test_the_cause_and_the_culprit_are_named_on_kohort(kohort: Staged, incident: Incident) -> None:
    data, expected = kohort
    found = explanations(data, group_of(incident))
    problem = problem_of(found, expected[group_of(incident)])
    assert problem is None, problem
    assert not any(explanation.is_inferred for explanation in found if explanation.is_rebalance)


@pytest.mark.parametrize("incident", INCIDENTS, ids=lambda incident: incident.__name__)
def test_the_cause_and_the_culprit_are_inferred_on_a_real_kafka(kafka: Staged, incident: Incident) -> None:
    data, expected = kafka
    found = explanations(data, group_of(incident))
    problem = problem_of(found, expected[group_of(incident)])
    assert problem is None, problem
    assert all(explanation.is_inferred for explanation in found)
