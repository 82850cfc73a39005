"""Runs all incidents on a broker, several at a time, and reads afterwards what its log tells about each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kohort.broker.why.folders import Folders
from kohort.broker.why.source import read_history
from kohort.client.ask import wait_for_coordinator
from kohort.client.cluster import Cluster
from kohort.history.explain import Explanation, explain
from kohort.history.text import text_of
from tests.why.incidents import ALL, Expected, Incident, the_broker_is_restarted_while_a_member_dies
from tests.why.stage import Restartable, Stage

AT_A_TIME = 10
SETTINGS = {
    "group_initial_rebalance_delay_ms": "0",
    "group_min_session_timeout_ms": "500",
    "group_consumer_min_session_timeout_ms": "1000",
    "group_consumer_session_timeout_ms": "3000",
    "group_consumer_min_heartbeat_interval_ms": "100",
    "group_consumer_heartbeat_interval_ms": "200",
    "group_consumer_assignment_interval_ms": "0",
    "group_share_min_session_timeout_ms": "1000",
    "group_share_session_timeout_ms": "3000",
    "group_share_min_heartbeat_interval_ms": "100",
    "group_share_heartbeat_interval_ms": "200",
    "group_share_assignment_interval_ms": "0",
}


class Silent:
    def show(self, done_bytes: int, total_bytes: int) -> None:
        pass


def group_of(incident: Incident) -> str:
    return incident.__name__.replace("_", "-")


def stage_all(
    broker: Restartable, incidents: Sequence[Incident] = ALL, stages: type[Stage] = Stage
) -> dict[str, Expected]:
    """By group, which is named after the incident."""

    def run(incident: Incident) -> tuple[str, Expected]:
        stage = stages(broker, group_of(incident))
        try:
            return stage.group, incident(stage)
        finally:
            stage.end()

    with Cluster(broker.address) as cluster:
        wait_for_coordinator(cluster, "any")  # a new Kafka has no __consumer_offsets yet
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        expected = dict(pool.map(run, incidents))
    if incidents is ALL:
        expected |= [run(the_broker_is_restarted_while_a_member_dies)]
    return expected


def explanations(data: Path, group: str) -> list[Explanation]:
    return explain(read_history(Folders([str(data)]), group, 1_000, Silent()).history)


def problem_of(found: Iterable[Explanation], expected: Expected) -> str | None:
    """None if one of the explanations names the cause and the culprit. Otherwise all of them as text."""
    listed = list(found)
    for explanation in listed:
        if explanation.cause.code == expected.code and _names(explanation, expected.culprit):
            text = text_of(explanation)
            if expected.also is None or expected.also in text:
                return None
    return f"expected {expected}\n\n" + "\n\n".join(text_of(explanation) for explanation in listed)


def _names(explanation: Explanation, culprit: str | None) -> bool:
    cause = explanation.cause
    if culprit is None:
        return True
    return culprit in cause.topics or any(culprit in (member.client_id, member.instance_id) for member in cause.who)
