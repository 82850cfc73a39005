"""What an operator learns of rebalances: a line in the log, for people or for machines, and metrics."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from kohort.client.client import Client
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.protocol.wire import NO_UUID
from tests.clients.kohort import KohortProcess
from tests.group_requests import subscription
from tests.kafka.members_848 import NewMember, settle
from tests.parity.peer import Peer
from tests.parity.story import Member, Story

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
    with KohortProcess(tmp_path, group_initial_rebalance_delay_ms="0", kohort_http_port="0") as process:
        assert process.process.stdout is not None
        url = process.process.stdout.readline().split()[-1]
        quiet = read_metrics(url)
        story = story_on(process.address)
        rebalance_twice(story, "orders-billing")
        story.commit({}, "idle")
        busy = read_metrics(url)
        story.close()
    assert quiet['kohort_groups{type="classic",state="Stable"}'] == "0"
    assert quiet['kohort_rebalance_seconds_count{type="classic"}'] == "0"
    assert busy['kohort_groups{type="classic",state="Stable"}'] == "1"
    assert busy['kohort_group_members{type="classic"}'] == "2"
    assert busy['kohort_rebalances_total{type="classic",cause="member joined"}'] == "2"
    assert busy['kohort_rebalance_seconds_count{type="classic"}'] == "2"
    assert busy['kohort_rebalance_seconds_bucket{type="classic",le="+Inf"}'] == "2"
    assert busy['kohort_rebalance_moved_partitions_total{type="classic"}'] == "0"
    assert busy['kohort_groups{type="consumer",state="Stable"}'] == "0"


@contextmanager
def consumer_members(process: KohortProcess) -> Iterator[list[NewMember]]:
    """Three members for a consumer group; the first two have come to share six partitions."""
    with Client(process.address) as admin:
        admin.send(ApiKey.CREATE_TOPICS, CreateTopicsRequest([CreatableTopic("orders", 6, 1)], 10_000), 7)
        asked = MetadataRequest([MetadataRequestTopic(NO_UUID, "orders")], False)
        (topic,) = admin.send(ApiKey.METADATA, asked, 12).topics
    ids = {"orders": bytes(topic.topic_id)}
    members = [NewMember(process.address, ids, "billing", name) for name in ("m1", "m2", "m3")]
    for member in members[:2]:
        member.join("orders")
    settle(*members[:2])
    try:
        yield members
    finally:
        for member in members:
            member.client.close()


def test_the_log_tells_when_all_members_of_a_consumer_group_have_reconciled(tmp_path: Path) -> None:
    settings = {"group_consumer_assignment_interval_ms": "0"}
    with (
        KohortProcess(tmp_path, "--log-format", "json", **settings) as process,
        consumer_members(process) as (first, second, _),
    ):
        first.leave()
        settle(second)
        lines: list[dict[str, Any]] = [json.loads(line) for line in rebalance_lines(process)]
    names = ("epoch", "cause", "trigger", "slowest", "members", "moved")
    assert [tuple(line[name] for name in names) for line in lines] == [
        (2, "member joined", "m1", "m1", 1, 0),
        (3, "member joined", "m2", "m2", 2, 3),
        (4, "member left", "m1", "m2", 1, 3),
    ]
    assert [(line["trigger_client"], line["slowest_client"]) for line in lines] == [
        ("client-m1", "client-m1"), ("client-m2", "client-m2"), ("client-m1", "client-m2")
    ]  # fmt: skip
    assert all(isinstance(line["duration_ms"], int) for line in lines)
    assert all("generation" not in line for line in lines)


def test_the_line_for_people_tells_the_epoch(tmp_path: Path) -> None:
    with KohortProcess(tmp_path, group_consumer_assignment_interval_ms="0") as process, consumer_members(process):
        lines = rebalance_lines(process)
    told = "rebalanced group=billing epoch=2 cause='member joined' trigger='m1' trigger_client='client-m1' "
    assert f"{told}slowest='m1' slowest_client='client-m1' duration_ms=" in lines[0]


def test_metrics_tell_of_consumer_groups_and_the_states_of_their_members(tmp_path: Path) -> None:
    settings = {"kohort_http_port": "0", "group_consumer_assignment_interval_ms": "0"}
    with KohortProcess(tmp_path, **settings) as process:
        assert process.process.stdout is not None
        url = process.process.stdout.readline().split()[-1]
        with consumer_members(process) as (first, _, third):
            calm = read_metrics(url)
            third.join("orders")
            first.beat()
            busy = read_metrics(url)
    assert calm['kohort_groups{type="consumer",state="Stable"}'] == "1"
    assert calm['kohort_group_members{type="consumer"}'] == "2"
    assert calm['kohort_consumer_group_members{state="stable"}'] == "2"
    assert calm['kohort_rebalances_total{type="consumer",cause="member joined"}'] == "2"
    assert calm['kohort_rebalance_moved_partitions_total{type="consumer"}'] == "3"
    assert calm['kohort_rebalance_seconds_count{type="consumer"}'] == "2"
    assert calm['kohort_groups{type="classic",state="Stable"}'] == "0"
    assert busy['kohort_groups{type="consumer",state="Reconciling"}'] == "1"
    assert busy['kohort_consumer_group_members{state="unrevoked partitions"}'] == "1"
    assert busy['kohort_consumer_group_members{state="unreleased partitions"}'] == "1"


def read_metrics(url: str) -> dict[str, str]:
    with urlopen(url) as page:
        lines = [line for line in page.read().decode().splitlines() if not line.startswith("#")]
    return dict(line.rsplit(" ", 1) for line in lines)
