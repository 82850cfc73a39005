"""Kohort on the logs of a real Kafka 4.3.1, and Kafka on ours: both show the same groups.

tests/data holds __consumer_offsets of two Kafka brokers, with what each answered just before it stopped: state.json has
all groups and offsets, describe_*.txt what kafka-consumer-groups printed.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest

from kohort.client.client import Client
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.delete_groups import DeleteGroupsRequest
from kohort.protocol.messages.offset_fetch import OffsetFetchRequest
from tests.clients.kohort import KohortProcess
from tests.group_requests import subscription
from tests.kafka.server import KafkaServer
from tests.parity.peer import Peer
from tests.parity.story import Story

DATA = Path(__file__).parent.parent / "data"
ARCHIVES = ["consumer_offsets_4.3.1", "consumer_offsets_compacted_4.3.1"]
LOADING_TIMEOUT_S = 60
NO_OFFSET = -1  # somebody has committed it; for all tools it means that there is none
PLAIN_NAME = r"([\w.-]+)"
STATE_ROW = re.compile(rf"^{PLAIN_NAME} +\S+:\d+ +\(1\) +(\S+) +(\S+) +(\d+)$", re.MULTILINE)
MEMBER_ROW = re.compile(
    rf"^{PLAIN_NAME}\s+(\S+-[0-9a-f-]{{36}})\s+(?:(\S+)\s+)?(/\S+)\s+(\S+)\s+(\d+)\s+-\s+(\S+)\s", re.MULTILINE
)


def unpack(archive: str, folder: Path) -> Path:
    with tarfile.open(DATA / f"{archive}.tar.gz") as tar:
        tar.extractall(folder, filter="data")
    return folder / archive


def kohort_groups(address: str, *arguments: str) -> Any:
    """What `kohort groups` shows, of Kohort or of Kafka."""
    command = [str(Path(sys.executable).with_name("kohort")), "groups", *arguments]
    done = subprocess.run(
        [*command, "--json", "--bootstrap-server", address], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("archive", ARCHIVES)
def test_kohort_lists_and_describes_what_kafka_did(archive: str, tmp_path: Path) -> None:
    logs = unpack(archive, tmp_path)
    theirs = json.loads((logs / "state" / "state.json").read_text())
    with KohortProcess(tmp_path / "kohort", log_dirs=str(logs)) as kohort:
        listed = kohort_groups(kohort.address, "list")
        described = {group["group"]: group for group in kohort_groups(kohort.address, "describe")}
    assert {(each["group"], each["type"], each["protocol"] or "", each["state"]) for each in listed} == {
        (each["group"], each["type"], each["protocol_type"], each["state"]) for each in theirs["groups"]
    }
    committed = {
        name: {
            (row["topic"], row["partition"]): row["current_offset"]
            for row in group["partitions"]
            if row["current_offset"] is not None
        }
        for name, group in described.items()
    }
    assert committed == {
        name: {(row["topic"], row["partition"]): row["offset"] for row in rows if row["offset"] != NO_OFFSET}
        for name, rows in theirs["offsets"].items()
    }
    compare_with_the_tool(described, logs / "state")


def compare_with_the_tool(described: dict[str, Any], shown: Path) -> None:
    """State, assignor, number of members; who they are and what they own."""
    states = STATE_ROW.findall((shown / "describe_state.txt").read_text())
    assert states
    for name, assignor, state, count in states:
        group = described[name]
        assert group["state"] == state
        if group["type"] == "classic":
            assert (group["assignor"] or "-", len(group["members"])) == (assignor, int(count))
    members = MEMBER_ROW.findall((shown / "describe_members.txt").read_text())
    assert members
    for name, member_id, instance_id, host, client_id, count, assigned in members:
        (member,) = [each for each in described[name]["members"] if each["member_id"] == member_id]
        assert (member["instance_id"] or "", member["host"], member["client_id"]) == (instance_id, host, client_id)
        by_topic: dict[str, list[str]] = {}
        for topic, partition in sorted(member["partitions"]):
            by_topic.setdefault(topic, []).append(str(partition))
        text = ";".join(f"{topic}:{','.join(partitions)}" for topic, partitions in by_topic.items())
        assert (text, len(member["partitions"])) == (assigned, int(count))


@pytest.mark.parametrize("archive", ARCHIVES)
def test_looking_at_kafkas_logs_changes_nothing_in_them(archive: str, tmp_path: Path) -> None:
    logs = unpack(archive, tmp_path)
    before = {path: path.read_bytes() for path in sorted(logs.glob("__consumer_offsets-*/*.log"))}
    for _ in range(2):
        with KohortProcess(tmp_path / "kohort", log_dirs=str(logs)) as kohort:
            kohort_groups(kohort.address, "list")
        assert {path: path.read_bytes() for path in before} == before


@pytest.mark.kafka
def test_kafka_shows_what_kohort_shows(tmp_path: Path) -> None:
    """Kohort goes on where a Kafka stopped, works, and stops; another Kafka starts on its files."""
    logs = unpack(ARCHIVES[0], tmp_path)
    settings = {"log_dirs": str(logs), "group_initial_rebalance_delay_ms": "0"}
    with KohortProcess(tmp_path / "kohort", **settings) as kohort:
        work(kohort.address)
    with KohortProcess(tmp_path / "kohort", **settings) as kohort:  # again: a rebalance in progress is not in the log
        ours = shown_by(kohort.address)
    names = ("kohort stable", "kohort static", "kohort completing")
    assert [len(ours[name][1]["members"]) for name in names] == [2, 1, 0]
    assert (ours["modern-two"][1]["type"], ours["java-modern"][1]["type"]) == ("classic", "consumer")
    assert not {"kohort deleted", "classic-two", "modern-static-left"} & set(ours)
    with KafkaServer(tmp_path / "kafka") as kafka:
        kafka.take_over_offsets(logs)
        wait_until_loaded(kafka.address, list(ours))
        assert shown_by(kafka.address) == ours


def work(address: str) -> None:
    """Something of everything that leaves records."""
    peer = Peer("Kohort", address)
    peer.begin("both ways", 2)
    topic = peer.create(partitions=4)
    story = Story(peer, ApiKey.OFFSET_COMMIT)  # in version 2, which can say how long to keep an offset
    a, b = story.stable(2, group="kohort stable", protocols=(("range", subscription(topic)),))
    a.commit({(topic, 0): 11, (topic, 1): 12}, metadata="ü😀")
    b.commit({(topic, 2): 13})
    wide = peer.create("-wide", partitions=80)
    for offset in range(5):  # from the third on they are packed from a template
        b.commit({(topic, 2): 13 + offset, (topic, 3): offset})
        story.commit({(wide, index): offset for index in range(80)}, "kohort wide")
    static = story.member("kohort static", instance="one")
    static.join()
    static.sync([static])
    story.member("kohort static", instance="one").join()
    story.stable(group="kohort connect", protocols=(("default", b"\0\1\2"),), protocol_type="connect")
    (gone,) = story.stable(group="kohort empty")
    gone.commit({(topic, 3): 14})
    gone.leave()
    story.member("kohort pending").join()
    story.completing(group="kohort completing")
    story.commit({(topic, 0): 1}, "kohort simple")
    story.commit({(topic, 0): 2}, "kohort simple", metadata="x" * 4096)
    story.commit({(topic, 1): 3}, "kohort retention", retention_ms=3_600_000)
    story.commit({(topic, 1): 3}, "kohort deleted")
    story.commit({(topic, 1): 3}, "")
    story.commit({(topic, 1): 4}, "java-modern")  # an empty group of the newer protocol
    story.ask(ApiKey.DELETE_GROUPS, DeleteGroupsRequest(["kohort deleted", "classic-two", "modern-static-left"]))
    story.stable(group="modern-two")  # which was such a group, and is a classic one from now on
    for exchange in peer.exchanges:
        assert not getattr(exchange.answer, "error_code", 0) or exchange.answer.error_code == 79, exchange
    story.close()


def shown_by(address: str) -> dict[str, Any]:
    """All that both brokers can know: where the partitions end is a matter of other files."""
    groups = {each["group"]: each for each in kohort_groups(address, "describe")}
    listed = {each["group"]: each for each in kohort_groups(address, "list")}
    for row in listed.values():
        del row["lag"]
    for group in groups.values():
        for row in group["partitions"]:
            del row["log_end_offset"], row["lag"]
        if group["members"]:
            group["members"].sort(key=lambda member: member["member_id"])
    return {name: (listed[name], group) for name, group in groups.items()}


def wait_until_loaded(address: str, groups: list[str]) -> None:
    deadline = time.monotonic() + LOADING_TIMEOUT_S
    with Client(address) as client:
        while any(client.send(ApiKey.OFFSET_FETCH, OffsetFetchRequest(each, None), 7).error_code for each in groups):
            assert time.monotonic() < deadline, "Kafka did not load all groups"
