"""Groups in which the broker assigns the partitions (KIP-848), of each client that offers it, through what can happen.

Three members, twelve partitions. All clients go through the steps side by side on one broker; each process is a member
of each of its client's groups.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients import group_programs as programs
from tests.clients.server_side import Assignors, Crew, ServerSideScenario, abandoned_at_the_end, group_broker, starter


def groups_of(client: str) -> Assignors:
    """The client's own groups, and one that it shares with the others."""
    return {
        f"{client}-dynamic": "consumer",
        f"{client}-static": "consumer-range",
        f"{client}-regex": "consumer-regex",
        "mixed": "consumer",
    }


@pytest.mark.story
@pytest.mark.kafka
def test_members_join_leave_and_die_and_nobody_gives_up_a_partition_that_it_keeps(tmp_path: Path) -> None:
    crew: Crew = [
        (programs.confluent, groups_of("confluent")),
        (programs.java, groups_of("java")),
        (programs.franz_go, groups_of("franz-go")),
    ]
    groups = list(dict.fromkeys(group for _, assignors in crew for group in assignors))
    with (
        group_broker(tmp_path) as broker,
        abandoned_at_the_end(ServerSideScenario(broker, groups, tmp_path)) as scenario,
    ):
        start = starter(scenario, dict.fromkeys((1, 2, 3), crew))
        start(1)
        second = start(2)
        scenario.settle("two members")
        third = start(3)
        scenario.settle("one joins")

        scenario.broker.restart()
        scenario.settle_unchanged("the broker is restarted")
        scenario.broker.kill()
        scenario.broker.start_again()
        scenario.settle_unchanged("the broker is killed")
        assert set(scenario.duplicates().values()) == {0}

        scenario.kill(*third)
        scenario.settle("one is killed")
        start(3)
        scenario.settle("it comes back")
        scenario.close(*second)
        scenario.settle("one leaves")
        scenario.finish()
