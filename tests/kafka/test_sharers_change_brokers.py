"""A share group goes on from Kafka to Kohort and back, on the same folders; nothing is accepted twice or lost."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.clients.share_checks import GROUP, ShareScenario, java
from tests.clients.test_share_members import SETTINGS, check
from tests.kafka.jars import dump_log
from tests.kafka.test_members_change_brokers import KafkaOrKohort

SHARE_STATE_KEY = re.compile(r'key: \{"type":"([01])","data":\{"groupId":"([^"]*)"')


def check_dump(logs: Path) -> None:
    """Kafka's kafka-dump-log reads what both have written to __share_group_state: snapshots and updates."""
    files = [log for log in sorted(logs.glob("__share_group_state-*/*.log")) if log.stat().st_size]
    printed, complaints = dump_log("--share-group-state-decoder", "--files", ",".join(map(str, files)))
    assert complaints == ""
    assert "isvalid: false" not in printed
    assert set(SHARE_STATE_KEY.findall(printed)) == {("0", GROUP), ("1", GROUP)}


@pytest.mark.story
@pytest.mark.kafka
def test_sharers_carry_on_from_kafka_to_kohort_and_back(tmp_path: Path) -> None:
    with KafkaOrKohort(tmp_path, SETTINGS) as broker:
        scenario = ShareScenario(broker, tmp_path, partitions=3)
        try:
            scenario.begin_at_the_start()
            scenario.start("crew", java(broker.address, "i=implicit", "e=explicit", "n=renew", "l=release", "j=reject"))
            scenario.produce(3_000)
            scenario.until_delivered(1_500)
            scenario.end_broker(broker.become_kohort)
            scenario.until_delivered(2_500)
            scenario.produce(3_000)
            scenario.until_delivered(4_500)
            scenario.end_broker(lambda: broker.become_kafka(copied_to=tmp_path / "logs"))
            scenario.until_delivered(5_500)
            scenario.produce(3_000)
            summary = scenario.finish()
        finally:
            scenario.abandon()
    check(summary, broker.data)
    check_dump(tmp_path / "logs")
