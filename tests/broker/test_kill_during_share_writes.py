"""kill -9 while the states of a share group are written: what was answered is there, and nothing that was not asked."""

from __future__ import annotations

import threading
from pathlib import Path

from kohort.client.client import Client
from kohort.client.errors import ClientError
from kohort.coordinator.share_state.keys import SharePartitionKey
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.clients.kohort import KohortProcess
from tests.kafka.share_states import ShareStates

KILLS = 6
WRITES_BETWEEN_KILLS = 30
PARTITIONS = 4
TIMEOUT_S = 60


class Writer:
    """A leader that moves the start of one share partition on, one offset with each write."""

    def __init__(self, address: str, key: SharePartitionKey, start: int) -> None:
        self.key = key
        self.asked = self.answered = start
        self.has_enough = threading.Event()
        self._first = start
        self._address = address
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            with ShareStates(self._address) as states:
                while True:
                    self.asked += 1
                    batch = (self.asked, self.asked + 3, 2, 1)
                    assert states.write(self.key, 1, 0, self.asked, 4, batch) is ErrorCode.NONE
                    self.answered = self.asked
                    if self.answered - self._first >= WRITES_BETWEEN_KILLS:
                        self.has_enough.set()
        except ClientError:
            return  # the broker was killed

    def wait_until_done(self) -> None:
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive()


def test_after_each_kill_the_states_are_those_that_were_answered(tmp_path: Path) -> None:
    # A snapshot after ten updates: kills hit those, too.
    settings = {
        "share_coordinator_snapshot_update_records_per_snapshot": "10",
        "share_coordinator_state_topic_prune_interval_ms": "50",
    }  # fmt: skip
    starts = [0] * PARTITIONS
    keys: list[SharePartitionKey] = []
    for kill in range(KILLS):
        broker = KohortProcess(tmp_path, **settings)
        with ShareStates(broker.address) as states:
            if kill == 0:
                keys = make_topic(broker.address)
                for key in keys:
                    states.wait_for_coordinator(key)
                    assert states.initialize(key, 1, 0) is ErrorCode.NONE
            for number, key in enumerate(keys):
                states.wait_for_coordinator(key)
                error, state_epoch, start, batches = states.read(key, 0)
                assert (error, state_epoch) == (0, 1)
                assert batches == ([(start, start + 3, 2, 1)] if start else [])
                assert start >= starts[number]
                starts[number] = start
        writers = [Writer(broker.address, key, start) for key, start in zip(keys, starts, strict=True)]
        for writer in writers:
            assert writer.has_enough.wait(TIMEOUT_S)
        broker.process.kill()
        broker.process.wait()
        assert broker.process.stdout is not None
        broker.process.stdout.close()
        for writer in writers:
            writer.wait_until_done()
        starts = [writer.answered for writer in writers]
    with KohortProcess(tmp_path, **settings) as again, ShareStates(again.address) as states:
        for key, writer in zip(keys, writers, strict=True):
            states.wait_for_coordinator(key)
            assert writer.answered <= states.read(key, 0)[2] <= writer.asked


def make_topic(address: str) -> list[SharePartitionKey]:
    with Client(address) as client:
        request = CreateTopicsRequest([CreatableTopic("work", PARTITIONS, 1, (), ())], 30_000)
        (made,) = client.send(ApiKey.CREATE_TOPICS, request, 7).topics
        assert made.error_code == 0
    return [SharePartitionKey("workers", made.topic_id, number) for number in range(PARTITIONS)]
