"""kill -9 at random moments while members commit: nothing acknowledged is lost, nothing moves back.

Two groups at once: twenty members with confluent-kafka in four processes, and twenty made of plain requests, one of
which comes and goes so that rebalances are hit as well. After each kill the log is read from the disk before a broker
touches it; then the broker must serve what is written there.
"""

from __future__ import annotations

import queue
import random
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.broker.offsets_log import OffsetsLog
from tests.broker.raw_members import Crew, RawMember
from tests.clients.group_broker import GroupBroker
from tests.clients.group_checks import MemberProcess

TOPIC = "work"
PARTITIONS = 40
RAW, REAL = "raw", "real"
RAW_MEMBERS = 20
REAL_PROCESSES, REAL_MEMBERS_EACH = 4, 5
KILLS, MANY_KILLS = 20, 50
TIMEOUT_S = 120.0  # for a busy machine; nothing is measured by it
COMMITS_BETWEEN_KILLS = 30
REAL_COMMITS_BETWEEN_KILLS = 5
REAL_SESSION_MS = 6000
KILLS_BETWEEN_REPLACEMENTS = 20
MAX_EXTRA_S = 0.25


class RealMembers:
    """Processes of confluent-kafka consumers, and the offsets that they were told are committed."""

    def __init__(self, address: str, folder: Path) -> None:
        self._said: queue.Queue[tuple[MemberProcess, dict[str, Any]]] = queue.Queue()
        self._folder = folder
        memberships = [f"{REAL}=range"] * REAL_MEMBERS_EACH
        program = [sys.executable, "-m", "tests.clients.group_committer"]
        self._command = [*program, address, TOPIC, str(REAL_SESSION_MS), *memberships]
        self._started = 0
        self.processes = [self._start() for _ in range(REAL_PROCESSES)]
        self.acknowledged: dict[int, int] = {}
        self.commits = 0

    def _start(self) -> MemberProcess:
        self._started += 1
        return MemberProcess(f"real-{self._started}", self._command, [REAL], self._said, self._folder)

    def replace_one(self) -> None:
        """Five members leave, five others join: the next kill finds a rebalance, or what came of it."""
        leaving = self.processes.pop(0)
        leaving.ask_to_close()
        leaving.wait_until_closed()
        self.processes.append(self._start())

    def listen(self, block: bool = False) -> None:
        """Take in what was said since."""
        try:
            while True:
                _, event = self._said.get(block, TIMEOUT_S)
                block = False
                assert event["event"] != "problem", event
                if event["event"] == "committed":
                    self.commits += 1
                    for partition, offset in event["offsets"].items():
                        known = self.acknowledged.get(int(partition), -1)  # of another process, perhaps later
                        self.acknowledged[int(partition)] = max(known, offset)
        except queue.Empty:
            assert not block, "the real members have nothing to say"

    def wait_for_commits(self, count: int) -> None:
        goal = self.commits + count
        while self.commits < goal:
            self.listen(block=True)

    def close(self) -> None:
        for process in self.processes:
            process.ask_to_close()
        for process in self.processes:
            process.wait_until_closed()

    def abandon(self) -> None:
        for process in self.processes:
            if process.process.poll() is None:
                process.kill()


def create_topic(broker: GroupBroker) -> None:
    request = CreateTopicsRequest([CreatableTopic(TOPIC, PARTITIONS, 1)], 30_000)
    (answer,) = broker.client.send(ApiKey.CREATE_TOPICS, request).topics
    assert answer.error_code == 0, answer


def check(log: OffsetsLog, acknowledged: dict[int, int], what: Any) -> None:
    for partition, offset in acknowledged.items():
        assert log.offsets[TOPIC, partition] >= offset, f"{what}: partition {partition}, {offset} is lost"


@pytest.mark.parametrize("kills", [KILLS, pytest.param(MANY_KILLS, marks=pytest.mark.story)])
def test_kills_lose_no_acknowledged_offset(tmp_path: Path, kills: int) -> None:
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    rng = random.Random(seed)
    crew = Crew(RAW, TOPIC, PARTITIONS)
    members = [RawMember(crew, f"raw-{number}", restless=number == 0) for number in range(RAW_MEMBERS)]
    with GroupBroker(tmp_path, group_initial_rebalance_delay_ms="100") as broker:
        create_topic(broker)
        real = RealMembers(broker.address, tmp_path)
        try:
            for member in members:
                member.start()
            kill_again_and_again(broker, crew, real, rng, kills)
        finally:
            crew.stop()
            real.abandon()
            for member in members:
                member.join(TIMEOUT_S)


def kill_again_and_again(broker: GroupBroker, crew: Crew, real: RealMembers, rng: random.Random, kills: int) -> None:
    logs = {RAW: OffsetsLog(broker.process.data, RAW), REAL: OffsetsLog(broker.process.data, REAL)}
    crew.go(broker.address)
    real.wait_for_commits(REAL_PROCESSES * REAL_MEMBERS_EACH)
    for kill in range(kills):
        crew.wait_for_commits(COMMITS_BETWEEN_KILLS, TIMEOUT_S)
        real.wait_for_commits(REAL_COMMITS_BETWEEN_KILLS)
        if kill % KILLS_BETWEEN_REPLACEMENTS == 5:
            real.replace_one()
        time.sleep(rng.uniform(0, MAX_EXTRA_S))  # the random moment
        crew.expect_crash()
        broker.kill()
        crew.wait_until_all_noticed(RAW_MEMBERS, TIMEOUT_S)
        real.listen()
        for log in logs.values():
            log.read()
        check(logs[RAW], crew.acknowledged, kill)
        check(logs[REAL], real.acknowledged, kill)
        broker.start_again()
        served = broker.committed(RAW)
        assert served == logs[RAW].offsets
        assert all(offset <= crew.sent[partition] for (_, partition), offset in served.items())
        served = broker.committed(REAL)  # whose members commit already
        assert all(served[place] >= offset for place, offset in logs[REAL].offsets.items())
        assert crew.problems == []
        crew.go(broker.address)
    crew.wait_for_commits(COMMITS_BETWEEN_KILLS, TIMEOUT_S)
    real.close()
    assert crew.problems == []
    print(f"{KILLS} kills: {crew.commits} commits in {logs[RAW].generation} generations by plain requests")
    print(f"{KILLS} kills: {real.commits} commits in {logs[REAL].generation} generations by confluent-kafka")
