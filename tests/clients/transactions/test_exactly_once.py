"""Three members of a group copy records exactly once while members and the broker are killed.

A read_committed reader finds a copy of every original up to the group's committed offsets, once, and no other: at the
end, and whenever all members have been killed in between. KOHORT_TEST_BROKER=kafka tells the stories to a real Kafka,
and KOHORT_TEST_KILLS=50 makes them longer.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.clients.group_broker import GroupBroker, KafkaBroker
from tests.clients.transactions.copying import copying

SETTINGS = {
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": "500",
    "group_initial_rebalance_delay_ms": "200",
    "group_min_session_timeout_ms": "1000",
    "group_consumer_min_session_timeout_ms": "10000",
    "group_consumer_session_timeout_ms": "10000",
    "group_consumer_heartbeat_interval_ms": "4000",
    "group_consumer_min_heartbeat_interval_ms": "4000",
}


def broker(folder: Path) -> GroupBroker | KafkaBroker:
    kind = KafkaBroker if os.environ.get("KOHORT_TEST_BROKER") == "kafka" else GroupBroker
    return kind(folder, **SETTINGS)


CONFLUENT, JAVA, PYTHON = ["confluent"] * 3, ["java"] * 3, ["kafka_python"] * 3
MIXED = ["confluent", "java", "franz_go"]
CREWS = [
    pytest.param(clients, protocol, id=f"{name}-{protocol}")
    for name, clients in (("confluent", CONFLUENT), ("java", JAVA), ("mixed", MIXED), ("kafka_python", PYTHON))
    for protocol in ("classic", "consumer")
    if protocol == "classic" or clients is not PYTHON  # which knows the classic protocol only
]


@pytest.mark.story
@pytest.mark.kafka
@pytest.mark.parametrize(("clients", "protocol"), CREWS)
def test_every_record_is_copied_once_through_kills_of_members_and_broker(
    clients: list[str], protocol: str, tmp_path: Path
) -> None:
    with broker(tmp_path) as running, copying(running, clients, protocol, tmp_path) as story:
        story.until_copied(300)
        for number in range(int(os.environ.get("KOHORT_TEST_KILLS", "10"))):
            story.kill_somebody()
            story.until_copied(200)
            if number % 5 == 4:
                story.kill_everybody_and_check()
        story.finish()
