"""What an operator learns of rebalances: a line in the log, for people or for machines, and metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from kohort.protocol.api_keys import ApiKey
from tests.clients.kohort import KohortProcess
from tests.parity.peer import Peer
from tests.parity.story import Member, Story, subscription

STRANGE = "two words\n2026-11-17T00:00:00.000Z INFO    rebalanced group=forged"
PROTOCOLS = (("range", subscription("orders")),)


def story_on(address: str) -> Story:
    peer = Peer("broker", address)
    peer.begin("rebalances", 9)
    return Story(peer, ApiKey.JOIN_GROUP)


def rebalance_twice(story: Story, group: str) -> list[Member]:
    return story.stable(2, group, protocols=PROTOCOLS)


def rebalance_lines(process: KohortProcess) -> list[str]:
    return [line for line in process.log.read_text(encoding="utf-8").splitlines() if "rebalanced" in line]


def test_the_log_has_a_line_for_each_rebalance_whatever_the_group_is_called(tmp_path: Path) -> None:
    with KohortProcess(tmp_path, group_initial_rebalance_delay_ms="0") as process:
        story = story_on(process.address)
        rebalance_twice(story, "orders-billing")
        rebalance_twice(story, STRANGE)
        lines = rebalance_lines(process)
        story.close()
    shown = [line.partition(" rebalanced ")[2].partition(" cause=")[0] for line in lines]
    assert shown == [
        *(f"group=orders-billing generation={generation}" for generation in (1, 2)),
        *(f"group={STRANGE!r} generation={generation}" for generation in (1, 2)),
    ]


def test_log_lines_for_machines_have_a_field_for_everything_that_is_told(tmp_path: Path) -> None:
    with KohortProcess(tmp_path, "--log-format", "json", group_initial_rebalance_delay_ms="0") as process:
        story = story_on(process.address)
        first, second = rebalance_twice(story, STRANGE)
        lines: list[dict[str, Any]] = [json.loads(line) for line in rebalance_lines(process)]
        ids = {first.id, second.id}
        newcomer = second.id
        story.close()
    told = lines[-1]
    assert {name: told[name] for name in ("group", "generation", "cause", "trigger", "members")} == {
        "group": STRANGE,
        "generation": 2,
        "cause": "member joined",
        "trigger": newcomer,
        "members": 2,
    }
    assert told["slowest"] in ids
    assert isinstance(told["duration_ms"], int)
    assert isinstance(told["moved"], int)


def test_metrics_tell_of_groups_and_their_rebalances(tmp_path: Path) -> None:
    with KohortProcess(tmp_path, group_initial_rebalance_delay_ms="0", kohort_metrics_port="0") as process:
        assert process.process.stdout is not None
        url = process.process.stdout.readline().split()[-1]
        quiet = read_metrics(url)
        story = story_on(process.address)
        rebalance_twice(story, "orders-billing")
        story.commit({}, "idle")
        busy = read_metrics(url)
        story.close()
    assert quiet['kohort_groups{state="Stable"}'] == "0"
    assert quiet["kohort_rebalance_seconds_count"] == "0"
    assert busy['kohort_groups{state="Stable"}'] == "1"
    assert busy["kohort_group_members"] == "2"
    assert busy['kohort_rebalances_total{cause="member joined"}'] == "2"
    assert busy["kohort_rebalance_seconds_count"] == busy['kohort_rebalance_seconds_bucket{le="+Inf"}'] == "2"
    assert busy["kohort_rebalance_moved_partitions_total"] == "0"


def read_metrics(url: str) -> dict[str, str]:
    with urlopen(url) as page:
        lines = [line for line in page.read().decode().splitlines() if not line.startswith("#")]
    return dict(line.rsplit(" ", 1) for line in lines)
