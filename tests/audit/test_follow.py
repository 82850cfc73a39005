"""`kohort audit follow` beside a real broker with real clients: what goes wrong is told, once."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kohort.audit.sample.broker import BrokerProcess
from kohort.audit.sample.incidents import Sample
from kohort.audit.sample.member import Member
from tests.audit.logs import Logs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE_S = 120  # not a goal: docs/performance.md has the delays that were measured

Findings = queue.SimpleQueue[dict[str, Any]]


@contextmanager
def following(spark: SparkSession, data: Path) -> Iterator[tuple[Findings, int]]:
    from kohort.audit.decode.folders import find_logs
    from kohort.audit.follow.follower import Follower

    told: Findings = queue.SimpleQueue()
    follower = Follower(spark, [str(data)], told.put)
    earlier = follower.look_back(find_logs([str(data)])[0])
    follower.start()
    try:
        yield told, earlier
    finally:
        follower.close()


def wait_for(told: Findings, is_it: Callable[[dict[str, Any]], bool]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The finding, and what was told before it."""
    before: list[dict[str, Any]] = []
    while True:
        finding = told.get(timeout=PATIENCE_S)
        if is_it(finding):
            return finding, before
        before.append(finding)


def test_a_rewind_and_a_storm_are_told_while_they_happen_and_once(spark: SparkSession, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        sample = Sample(broker.address)
        sample.produce("parcels", 50)
        with sample.members() as start:
            dora: Member = start("shipping", "parcels", "dora")
            dora.wait_for_partitions(4)
            dora.wait_for_offsets(200)
            with following(spark, broker.data) as (told, _):
                dora.rewind(20)
                rewind, before = wait_for(told, lambda one: one["check"] == "offset_rewind")
                assert (rewind["group_id"], rewind["topic"]) == ("shipping", "parcels")
                assert [one["check"] for one in before if one["check"] == "rebalance_storm"] == []
                for _ in range(4):
                    erik = start("shipping", "parcels", "erik")
                    erik.wait_for_partitions(2)
                    erik.leave()
                    dora.wait_for_partitions(4)
                storm, before = wait_for(told, lambda one: one["check"] == "rebalance_storm")
                assert storm["group_id"] == "shipping"
                places = [
                    (one["topic"], one["partition"], one["log_offset"])
                    for one in [rewind, *before]
                    if one["check"] == "offset_rewind"
                ]
                assert len(places) == len(set(places))
        sample.close()


def test_a_damaged_batch_is_told_and_what_comes_after_it_too(spark: SparkSession, tmp_path: Path) -> None:
    from kohort.audit.decode.folders import find_logs
    from kohort.audit.follow.follower import Follower
    from kohort.audit.spark.source import read

    logs = Logs(tmp_path, start=time.time_ns() // 1_000_000)
    shop = logs.group("shop")
    shop.commits("orders-0", [10, 20])
    (segment,) = logs.segments(shop.log_partition)
    ends = [segment.stat().st_size]
    for offset in (30, 5):
        shop.commit({"orders-0": offset})
        ends.append(segment.stat().st_size)
    logs.close()
    whole = bytearray(segment.read_bytes())
    whole[ends[0] + 23] ^= 0x55  # how many records the third batch claims to have, in its header
    told: list[dict[str, Any]] = []
    follower = Follower(spark, [str(tmp_path)], told.append)
    for end in ends:
        segment.write_bytes(whole[:end])
        folders, _ = find_logs([str(tmp_path)])
        if end == ends[0]:
            follower.look_back(folders)
        else:
            follower._take(read(spark, "log_batches", folders), 0)
    follower.close()
    assert sorted(one["check"] for one in told) == ["crc_mismatch", "offset_rewind"]
