"""Share groups on a running broker: membership and the share coordinator together, start offsets, deletion, restarts,
and `kohort groups`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.delete_groups import DeleteGroupsRequest
from tests.broker.test_rebalance_news import read_metrics
from tests.clients.group_broker import GroupBroker
from tests.parity.batches import batch
from tests.parity.peer import Peer
from tests.parity.share_story import Sharer, ShareStory, accept, release
from tests.share_requests import alter_offsets_request, delete_share_offsets_request

KOHORT = str(Path(sys.executable).with_name("kohort"))
NON_EMPTY, UNKNOWN = ErrorCode.NON_EMPTY_GROUP, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
SETTINGS = {"group_share_assignment_interval_ms": "0", "kohort_http_port": "0"}


class Stage:
    """A broker, and what a test does with it. `name` is the group's."""

    def __init__(self, broker: GroupBroker, name: str) -> None:
        self.broker = broker
        self.peer = Peer("broker", broker.address)
        self.peer.begin(name, 1)
        self.story = ShareStory(self.peer, ApiKey.SHARE_GROUP_HEARTBEAT)
        self.group = self.story.group
        self.topic = self.story.topic("", 3)

    def reading(self, *names: str) -> list[Sharer]:
        return self.story.sharers(self.topic, *names, partitions=3)

    def close(self) -> None:
        self.story.close()
        self.peer.end()
        self.peer.hang_up()

    def offsets(self) -> dict[tuple[str, int], tuple[int, int]]:
        """Start offset and lag of all partitions."""
        (group,) = self.story.share_offsets().groups
        assert group.error_code == 0, group
        return {
            (topic.topic_name, row.partition_index): (row.start_offset, row.lag)
            for topic in group.topics
            for row in topic.partitions
        }

    def alter(self, **starts: int) -> Any:
        """Partition p0=5 and so on."""
        request = alter_offsets_request(self.group, {(self.topic, int(name[1:])): at for name, at in starts.items()})
        return self.peer.quietly(ApiKey.ALTER_SHARE_GROUP_OFFSETS, request, 0)

    def delete_offsets(self, *topics: str) -> Any:
        request = delete_share_offsets_request(self.group, *topics)
        return self.peer.quietly(ApiKey.DELETE_SHARE_GROUP_OFFSETS, request, 0)

    def delete_group(self) -> int:
        (result,) = self.peer.quietly(ApiKey.DELETE_GROUPS, DeleteGroupsRequest([self.group]), 2).results
        code: int = result.error_code
        return code

    def command(self, *arguments: str) -> str:
        done = self._run(*arguments)
        assert done.returncode == 0, done
        return done.stdout

    def refused(self, *arguments: str) -> str:
        done = self._run(*arguments)
        assert done.returncode == 1, done
        return done.stderr

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [KOHORT, "groups", *arguments, "--bootstrap-server", self.broker.address]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def acquired(answer: Any) -> list[tuple[int, int]]:
    rows = [row for topic in answer.responses for row in topic.partitions]
    return [(each.first_offset, each.last_offset) for row in rows for each in row.acquired_records]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GroupBroker]:
    with GroupBroker(tmp_path_factory.mktemp("share"), **SETTINGS) as running:
        yield running


@pytest.fixture
def stage(broker: GroupBroker, request: pytest.FixtureRequest) -> Iterator[Stage]:
    made = Stage(broker, request.node.name)
    yield made
    made.close()


def test_members_get_partitions_once_the_share_coordinator_has_their_states(stage: Stage) -> None:
    first, second = stage.reading("m1", "m2")
    assert sorted([*first.assigned[stage.topic], *second.assigned[stage.topic]]) == [0, 1, 2]
    assert stage.offsets() == {(stage.topic, each): (-1, -1) for each in range(3)}


def test_offsets_are_altered_while_nobody_reads(stage: Stage) -> None:
    stage.peer.append(stage.topic, batch(10), partition=1)
    altered = stage.alter(p1=4)
    assert [row.error_code for topic in altered.responses for row in topic.partitions] == [0]
    assert stage.offsets() == {(stage.topic, 1): (4, 6)}
    (member,) = stage.reading("m1")
    assert stage.alter(p1=0).error_code == NON_EMPTY
    assert stage.offsets() == {(stage.topic, 0): (-1, -1), (stage.topic, 1): (4, 6), (stage.topic, 2): (-1, -1)}
    member.leave_group()
    assert [row.error_code for row in stage.alter(p1=0, p7=0).responses[0].partitions] == [0, UNKNOWN]
    assert stage.offsets()[stage.topic, 1] == (0, 10)


def test_offsets_are_deleted_and_a_member_that_comes_again_begins_anew(stage: Stage) -> None:
    stage.alter(p0=0)
    (member,) = stage.reading("m1")
    assert stage.delete_offsets(stage.topic).error_code == NON_EMPTY
    member.leave_group()
    deleted = stage.delete_offsets(stage.topic, "nowhere")
    assert {row.topic_name: row.error_code for row in deleted.responses} == {stage.topic: 0, "nowhere": UNKNOWN}
    assert stage.offsets() == {}
    (again,) = stage.delete_offsets(stage.topic).responses
    assert (again.error_code, again.error_message) == (UNKNOWN, "There is no offset information to delete.")
    stage.reading("m2")
    assert stage.offsets()[stage.topic, 0] == (-1, -1)


def test_a_group_is_deleted_with_its_states(stage: Stage) -> None:
    stage.alter(p0=3, p1=4, p2=5)
    (member,) = stage.reading("m1")
    assert stage.delete_group() == NON_EMPTY
    member.leave_group()
    assert stage.delete_group() == ErrorCode.NONE
    assert stage.delete_group() == ErrorCode.GROUP_ID_NOT_FOUND
    assert stage.offsets() == {}
    stage.reading("m2")
    assert set(stage.offsets().values()) == {(-1, -1)}


def test_groups_and_their_offsets_survive_a_restart_and_kill_9(tmp_path: Path) -> None:
    with GroupBroker(tmp_path, **SETTINGS) as broker:
        stage = Stage(broker, "restarts")
        stage.alter(p0=3)
        first, second = stage.reading("m1", "m2")
        had = [first.assigned, second.assigned]
        for is_killed in (False, True):
            stage.story.close()
            stage.peer.hang_up()
            if is_killed:
                broker.kill()
                broker.start_again()
            else:
                broker.restart()
            stage.story = ShareStory(stage.peer, ApiKey.SHARE_GROUP_HEARTBEAT)
            seen = stage.story.look_at_sharers()
            assert (seen.group_state, len(seen.members)) == ("Stable", 2)
            members = []
            for old in (first, second):
                member = stage.story.sharer(old.id)
                member.epoch, member.assigned = old.epoch, old.assigned
                assert member.beat().error_code == 0
                members.append(member)
            first, second = members
            assert [first.assigned, second.assigned] == had
            assert stage.offsets()[stage.topic, 0] == (3, -3)
        stage.close()


def test_kohort_groups_shows_start_offsets_lag_members_and_deliveries(stage: Stage) -> None:
    at = (stage.topic, 0)
    stage.alter(p0=0)
    stage.peer.append(stage.topic, batch(10))
    (member,) = stage.reading("m1")
    member.fetch(at)
    member.acknowledge({at: accept(0, 3) + release(4, 5)})
    member.close_session()
    (listed,) = [each for each in json.loads(stage.command("list", "--json")) if each["group"] == stage.group]
    assert (listed["type"], listed["protocol"], listed["state"]) == ("share", "share", "Stable")
    assert (listed["members"], listed["lag"]) == (1, 6)
    (shown,) = json.loads(stage.command("describe", stage.group, "--json"))
    assert (shown["type"], shown["state"], shown["assignor"]) == ("share", "Stable", "simple")
    assert [each["member_id"] for each in shown["members"]] == ["m1"]
    row, *others = shown["partitions"]
    assert (row["start_offset"], row["log_end_offset"], row["lag"], row["members"]) == (4, 10, 6, 1)
    assert (row["returned"], row["deliveries"]) == (6, 1)
    assert [(each["start_offset"], each["lag"]) for each in others] == [(None, None)] * 2
    lines = stage.command("describe", stage.group).splitlines()
    assert lines[0].startswith(f"share group {stage.group}: Stable, 1 member, assignor simple, epoch ")
    assert lines[1].split() == [
        "TOPIC", "PARTITION", "START-OFFSET", "LOG-END-OFFSET", "LAG", "RETURNED", "DELIVERIES", "#MEMBERS"
    ]  # fmt: skip
    assert lines[2].split() == [stage.topic, "0", "4", "10", "6", "6", "1", "1"]
    members = stage.command("describe", stage.group, "--members").splitlines()
    assert members[2].split()[0] == "m1"
    assert members[2].endswith(f"{stage.topic}(0,1,2)")


def test_kohort_groups_sets_and_deletes_the_start_offsets_of_a_share_group(stage: Stage) -> None:
    stage.peer.append(stage.topic, batch(10))
    reset = ("reset-offsets", stage.group, "--json")
    assert "does not exist" in stage.refused("describe", stage.group)
    stage.command(*reset, "--share", "--topic", f"{stage.topic}:0", "--to-offset", "4", "--execute")
    assert stage.offsets()[stage.topic, 0] == (4, 6)
    (shown,) = json.loads(stage.command(*reset, "--to-earliest"))
    assert (shown["current_offset"], shown["new_offset"]) == (4, 0)
    assert stage.offsets()[stage.topic, 0] == (4, 6)
    stage.command(*reset, "--to-earliest", "--execute")
    assert stage.offsets()[stage.topic, 0] == (0, 10)
    stage.command(*reset, "--shift-by", "3", "--execute")
    (member,) = stage.reading("m1")
    assert acquired(member.fetch((stage.topic, 0))) == [(3, 9)]
    assert "stop its members first" in stage.refused(*reset, "--to-earliest", "--execute")
    assert "has members; stop them first" in stage.refused("delete-offsets", stage.group, "--topic", stage.topic)
    member.close_session()
    member.leave_group()
    assert "name no partitions" in stage.refused("delete-offsets", stage.group, "--topic", f"{stage.topic}:0")
    (deleted,) = json.loads(stage.command("delete-offsets", stage.group, "--topic", stage.topic, "--json"))
    assert deleted == {"topic": stage.topic, "error": "NONE"}
    assert stage.offsets() == {}
    assert "start offsets" in stage.refused(*reset, "--to-earliest")
    assert f"{stage.topic}: UNKNOWN_TOPIC" in stage.refused("delete-offsets", stage.group, "--topic", stage.topic)


def test_a_group_of_another_kind_is_no_share_group(stage: Stage) -> None:
    stage.story.commit({(stage.topic, 0): 0})
    said = stage.refused("reset-offsets", stage.group, "--share", "--topic", stage.topic, "--to-latest", "--execute")
    assert said == f"kohort: {stage.group} is a classic group, not a share group\n"


def test_metrics_and_the_log_tell_of_share_groups(tmp_path: Path) -> None:
    with GroupBroker(tmp_path, **SETTINGS) as broker:
        assert broker.process.process.stdout is not None
        url = broker.process.process.stdout.readline().split()[-1]
        stage = Stage(broker, "metrics")
        stage.reading("m1", "m2")
        metrics = read_metrics(url)
        stage.close()
        causes = [each.cause for each in broker.rebalances(stage.group)]
    assert metrics['kohort_groups{type="share",state="Stable"}'] == "1"
    assert metrics['kohort_group_members{type="share"}'] == "2"
    assert int(metrics['kohort_rebalances_total{type="share",cause="member joined"}']) >= 1
    assert metrics['kohort_groups{type="consumer",state="Stable"}'] == "0"
    assert "partitions initialized" in causes
