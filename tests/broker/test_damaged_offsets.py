"""Damaged logs: groups that stood in one are not served, and nobody takes them for new; partitions that cannot be read
are not taken for missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from kohort.client import ask
from kohort.client.cluster import Cluster
from kohort.coordinator.partitioner import partition_of
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.broker.test_groups_command import Operator
from tests.clients.kohort import KohortProcess
from tests.parity.batches import batch

OFFSETS_PARTITIONS = 50
DAMAGED, WHOLE = "damaged", "whole"
OFFSETS = {("orders", 0): 7}


def log_of(data: Path, group: str) -> Path:
    return data / f"__consumer_offsets-{partition_of(group, OFFSETS_PARTITIONS)}" / "00000000000000000000.log"


def damage(log: Path) -> bytes:
    """What it was before."""
    good = log.read_bytes()
    log.write_bytes(good[:70] + bytes(byte ^ 255 for byte in good[70:80]) + good[80:])
    return good


def errors(client: Cluster, group: str) -> tuple[int, int]:
    """What OffsetFetch and JoinGroup say."""
    fetch = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, None, -1, None)])
    fetched = client.send(ApiKey.OFFSET_FETCH, fetch, 8).groups[0]
    join = JoinGroupRequest(group, 10_000, 10_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")])
    return fetched.error_code, client.send(ApiKey.JOIN_GROUP, join, 5).error_code


@pytest.mark.parametrize("crashed", [True, False], ids=["after a crash", "after a clean stop"])
def test_groups_of_a_damaged_log_are_not_served_until_it_is_restored(tmp_path: Path, crashed: bool) -> None:
    assert partition_of(DAMAGED, OFFSETS_PARTITIONS) != partition_of(WHOLE, OFFSETS_PARTITIONS)
    with KohortProcess(tmp_path) as broker, Cluster(broker.address) as client:
        client.send(ApiKey.CREATE_TOPICS, CreateTopicsRequest([CreatableTopic("orders", 1, 1)]))
        for group in (DAMAGED, WHOLE):
            ask.commit(client, group, OFFSETS)
        data = broker.data
    log = log_of(data, DAMAGED)
    good = damage(log)
    if crashed:
        (data / ".kafka_cleanshutdown").unlink()
    broker = KohortProcess(tmp_path)
    try:
        with Cluster(broker.address) as client:
            assert errors(client, DAMAGED) == (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR)
            assert ask.committed_offsets(client, WHOLE) == OFFSETS
        assert f"shard {partition_of(DAMAGED, OFFSETS_PARTITIONS)} cannot be loaded" in broker.log_tail()
    finally:
        broker.stop()  # with status 1 if the log was not even opened: then it is no clean stop
    log.write_bytes(good)
    with KohortProcess(tmp_path) as broker, Cluster(broker.address) as client:
        assert ask.committed_offsets(client, DAMAGED) == OFFSETS


def test_offsets_are_not_reset_where_the_partition_is_offline(tmp_path: Path) -> None:
    with KohortProcess(tmp_path) as broker:
        operator = Operator(broker.address)
        operator.make_topic("orders", 2)
        for partition in range(2):
            operator.peer.append("orders", batch(10), partition=partition)
        operator.story.commit({("orders", 0): 4, ("orders", 1): 4}, WHOLE)
        operator.story.close()
        operator.peer.hang_up()
    damage(broker.data / "orders-0" / "00000000000000000000.log")
    (broker.data / ".kafka_cleanshutdown").unlink()
    broker = KohortProcess(tmp_path)
    try:
        operator = Operator(broker.address)
        said = operator.refused("reset-offsets", WHOLE, "--by-duration", "P1D", "--execute")
        assert said == "orders-0 is offline: its offsets cannot be read"
        assert (
            operator.groups("reset-offsets", WHOLE, "--topic", "orders:1", "--to-latest", "--execute").returncode == 0
        )
        assert operator.offsets(WHOLE) == {("orders", 0): 4, ("orders", 1): 10}
    finally:
        broker.stop()
