"""`kohort why` on a real Kafka: incidents staged anew, read from the cluster and from its data folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from kohort.broker.why.cluster import ClusterLog
from kohort.broker.why.source import read_history
from kohort.client.cluster import Cluster
from kohort.history.explain import explain
from kohort.history.text import text_of
from tests.clients.group_broker import KafkaBroker
from tests.why.incidents import a_group_migrates_to_kip_848, a_member_crashes, a_topic_grows
from tests.why.staged import SETTINGS, Silent, explanations, problem_of, stage_all

SOME = (a_member_crashes, a_topic_grows, a_group_migrates_to_kip_848)


@pytest.mark.kafka
@pytest.mark.story
def test_all_incidents_are_explained_on_a_real_kafka(tmp_path: Path) -> None:
    with KafkaBroker(tmp_path, **SETTINGS) as broker:
        expected = stage_all(broker)
    problems = {
        group: problem
        for group, each in expected.items()
        if (problem := problem_of(explanations(tmp_path / "kafka" / "data", group), each)) is not None
    }
    assert len(expected) > 20
    assert not problems, "\n\n".join(problems.values())


@pytest.mark.kafka
@pytest.mark.story
def test_a_cluster_tells_the_same_as_its_data_folder(tmp_path: Path) -> None:
    with KafkaBroker(tmp_path, **SETTINGS) as broker:
        expected = stage_all(broker, SOME)
        asked = {}
        with Cluster(broker.address) as cluster:
            for group in expected:
                found = explain(read_history(ClusterLog(cluster), group, 1_000, Silent()).history)
                asked[group] = [text_of(explanation) for explanation in found]
    for group, texts in asked.items():
        read = [text_of(explanation) for explanation in explanations(tmp_path / "kafka" / "data", group)]
        assert texts == read[: len(texts)]
        assert problem_of(explanations(tmp_path / "kafka" / "data", group), expected[group]) is None
