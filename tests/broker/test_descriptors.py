"""A process may open so many files and no more. Connections must not take those that the logs need."""

from __future__ import annotations

import errno
import os
import re
import resource
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import time

import pytest

from kohort.client.ask import commit
from kohort.client.client import Client
from kohort.client.cluster import Cluster
from kohort.client.errors import ClientError
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.api_versions import ApiVersionsRequest
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.protocol.record_batch import build_batch
from kohort.storage.disk import RealDisk
from kohort.storage.errors import OutOfSpace
from kohort.storage.log_config import LogConfig
from kohort.storage.partition_log import PartitionLog
from tests.broker.broker_box import BrokerBox
from tests.clients.kohort import KohortProcess

MAX_FILES = 400


class FewFiles(KohortProcess):
    """A broker that may open only MAX_FILES files."""

    def __init__(self, folder: Path, **overrides: str) -> None:
        script = folder / "few-files"
        script.write_text(f'#!/bin/sh\nulimit -n {MAX_FILES}\nexec {KohortProcess.executable} "$@"\n')
        script.chmod(0o755)
        self.executable = script
        super().__init__(folder, **overrides)


def is_answered(client: Client | Cluster) -> bool:
    try:
        return bool(client.send(ApiKey.API_VERSIONS, ApiVersionsRequest("test", "1.0"), 3).api_keys)
    except ClientError:
        return False


def test_connections_up_to_the_limit_leave_descriptors_to_the_logs(tmp_path: Path) -> None:
    with FewFiles(tmp_path) as broker, ExitStack() as opened, Cluster(broker.address) as client:
        assert is_answered(client)  # at once: housekeeping has not started yet
        others = [opened.enter_context(Client(broker.address)) for _ in range(MAX_FILES + 50)]
        served = sum(map(is_answered, others))
        assert 50 < served < MAX_FILES - 100
        partitions = 60
        client.send(ApiKey.CREATE_TOPICS, CreateTopicsRequest([CreatableTopic("t", partitions, 1)]))
        batch = build_batch([(None, b"x")], timestamp=int(time() * 1000))
        data = [PartitionProduceData(index, batch) for index in range(partitions)]
        answer = client.send(
            ApiKey.PRODUCE, ProduceRequest(None, -1, 1000, [TopicProduceData("t", partition_data=data)]), 9
        )
        (topic,) = answer.responses
        assert [each.error_code for each in topic.partition_responses] == [0] * partitions
        for number in range(10):
            commit(client, f"group-{number}", {("t", 0): number})
        refusals = [line for line in broker.log_tail().splitlines() if "refused" in line]
        assert 1 <= len(refusals) <= 3, refusals
        assert re.search(r"of 400 open files, 20\d are for logs and the others are in use: .*ulimit -n", refusals[0])
    assert "could not start" not in broker.log_tail()


def has_housekeeping(box: BrokerBox) -> bool:
    return box.broker.housekeeping is not None


def test_housekeeping_that_cannot_be_imported_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    box = BrokerBox(tmp_path)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "kohort.broker.housekeeping", None)
        box.broker._start_housekeeping(lambda work: work())
        assert not has_housekeeping(box)
        assert "tried again" in caplog.text
    box.pass_time(2_000)
    assert has_housekeeping(box)
    assert box.broker.housekeeping is not None
    box.broker.housekeeping.stop()
    box.close()


@contextmanager
def no_more_files() -> Iterator[None]:
    """During this block the process can open no file."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
    try:
        with pytest.raises(OSError, match="Too many open files") as raised:
            os.open(os.devnull, os.O_RDONLY)
        assert raised.value.errno == errno.EMFILE
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def record() -> bytes:
    return build_batch([(b"k", b"v")], timestamp=1_800_000_000_000)


@pytest.mark.parametrize("policy", ["delete", "compact"])
@pytest.mark.parametrize("situation", ["first append", "roll", "after a restart"])
def test_a_log_takes_appends_again_when_files_can_be_opened_again(tmp_path: Path, situation: str, policy: str) -> None:
    disk = RealDisk()
    lock = disk.lock(f"{tmp_path}/.lock")
    config = LogConfig(segment_bytes=len(record()), cleanup_policy=policy)
    log = PartitionLog.open(disk, f"{tmp_path}/t-0", config, now=0)
    if situation != "first append":
        log.append(record(), now=0)
        log.flush()
    if situation == "after a restart":
        log.close()
        log = PartitionLog.open(disk, f"{tmp_path}/t-0", LogConfig(cleanup_policy=policy), clean=True, now=0)
    before = log.log_end_offset
    with no_more_files(), pytest.raises(OutOfSpace, match="Too many open files"):
        log.append(record(), now=0)
    assert (log.failed, log.log_end_offset) == (None, before)
    assert log.append(record(), now=0).first_offset == before
    log.close()
    lock.release()


def test_a_folder_is_synced_with_the_spare_descriptor(tmp_path: Path) -> None:
    disk = RealDisk()
    lock = disk.lock(f"{tmp_path}/.lock")
    log = PartitionLog.open(disk, f"{tmp_path}/t-0", LogConfig(), now=0)
    log.append(record(), now=0)
    with no_more_files():
        log.flush()
        log.append(record(), now=0)
        disk.sync_folder(str(tmp_path))
    assert log.failed is None
    log.close()
    lock.release()
