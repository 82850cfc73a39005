"""Records of __share_group_state as rows of share_states, and the tables that follow from them."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa

from kohort.audit import pipeline
from kohort.audit.decode import EVERYTHING, Wanted
from kohort.audit.decode.folders import LogFolder, find_logs
from kohort.audit.tables import STATE_LOGS, log_name
from kohort.coordinator.share_state.headers import Cause
from kohort.protocol.messages.log_share_snapshot import ShareSnapshotKey, ShareSnapshotValue, StateBatch
from kohort.protocol.share_state_records import SHARE_GROUP_STATE, SHARE_SNAPSHOT, SHARE_UPDATE
from tests.audit.logs import START, Logs, topic_id
from tests.audit.share_groups import ACKNOWLEDGED, ARCHIVED, AVAILABLE, ShareState, assigned, joined, left


def logs_in(path: Path) -> dict[int, LogFolder]:
    found, problems = find_logs([str(path)])
    assert not problems
    return {folder.log_partition: folder for folder in found}


def states_of(path: Path, state: ShareState, wanted: Wanted = EVERYTHING) -> pa.Table:
    folder = logs_in(path)[STATE_LOGS + state.log_partition]
    return pipeline.decode(folder, wanted)["share_states"]


def test_snapshots_and_updates_are_rows_with_everything_that_the_records_say(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    shop = logs.group("shop")
    joined(shop, "m1", ["t-3"])
    state = ShareState(shop, "t-3")
    state.snapshot(7)
    state.at(9).update((9, 11, ACKNOWLEDGED, 1), (12, 12, AVAILABLE, 2), by="m1", complete=3)
    state.returned(13, 13, 1, Cause.LOCK_TIMEOUT, by="Wärter")
    state.delete()
    log = logs.close()
    rows = states_of(log, state).to_pylist()
    assert [row["log_offset"] for row in rows] == [0, 1, 2, 3]
    first, second, third, last = rows
    assert {first[name] for name in ("group_id", "partition", "record_type", "start_offset")} == {"shop", 3, 0, 7}
    assert first["cause"] == "initialize"
    assert (first["state_epoch"], first["batches"], first["member_id"], first["tombstone"]) == (1, [], None, False)
    assert first["create_time"] == first["write_time"] == first["record_time"]
    assert (second["record_type"], second["start_offset"], second["complete_count"]) == (1, 9, 3)
    assert second["batches"] == [
        {"first": 9, "last": 11, "state": 2, "deliveries": 1}, {"first": 12, "last": 12, "state": 0, "deliveries": 2},
    ]  # fmt: skip
    assert (second["cause"], second["member_id"], second["create_time"]) == ("acknowledge", "m1", None)
    assert (third["cause"], third["member_id"], third["complete_count"]) == ("lock timeout", "Wärter", None)
    assert (last["tombstone"], last["batches"], last["start_offset"], last["value_version"]) == (True, None, None, None)
    assert log_name(STATE_LOGS + 3) == "__share_group_state-3"


def test_unusual_records_are_decoded_too_and_unreadable_ones_are_told(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    state = ShareState(logs.group("shop"), "t-0")
    key = SHARE_GROUP_STATE.encode_key(SHARE_SNAPSHOT, ShareSnapshotKey("shop", topic_id("t"), 0))
    value = SHARE_GROUP_STATE.encode_value(
        SHARE_SNAPSHOT, ShareSnapshotValue(1, 2, 3, 4, -1, START, START, [StateBatch(4, 4, 0, 1)])
    )
    state.raw(key, value[:-2] + bytes([1, 9, 1, 0]) + value[-1:])  # a tagged field of a newer Kafka in the batch
    state.raw(SHARE_GROUP_STATE.encode_key(SHARE_SNAPSHOT, ShareSnapshotKey("g" * 300, topic_id("t"), 1)), None)
    state.raw(None, b"x")
    state.raw(b"\0\x63abc", b"x")
    state.raw(key, value[:-3])
    state.raw(key, b"\0\x07" + value[2:])
    log = logs.close()
    tables = pipeline.decode(logs_in(log)[STATE_LOGS + state.log_partition])
    rows = tables["share_states"].to_pylist()
    assert [(row["group_id"][:4], row["start_offset"], row["state_epoch"]) for row in rows] == [
        ("shop", 4, 2), ("gggg", None, None),
    ]  # fmt: skip
    assert rows[0]["batches"] == [{"first": 4, "last": 4, "state": 0, "deliveries": 1}]
    others = tables["other_records"].to_pylist()
    assert [row["problem"] for row in others] == ["no key", "unknown", "undecodable", "undecodable"]


def test_the_quick_way_and_the_generated_codecs_agree_on_random_records(tmp_path: Path) -> None:
    chance = random.Random(932)
    logs = Logs(tmp_path)
    groups = [logs.group(name) for name in ("a", "ü", "a longer name of a group")]
    states = [ShareState(group, f"{topic}-{n}", log_partition=5) for group in groups for topic in "tu" for n in (0, 7)]
    expected: list[tuple[int, int | None, int, list[tuple[int, int, int, int]]]] = []
    for number in range(600):
        state = chance.choice(states)
        batches = [
            (
                first,
                first + chance.randrange(1 << chance.randrange(40)),
                chance.choice((0, 2, 4)),
                chance.randrange(32768),
            )
            for first in (chance.randrange(1 << 40) for _ in range(chance.choice((0, 1, 1, 2, 5, 200))))
        ]
        state.at(chance.choice((-1, chance.randrange(1 << 60))))
        kind = chance.randrange(20)
        if kind == 0:
            state.delete()
            expected.append((number, None, 0, []))
        elif kind < 4:
            state.snapshot(state.start, batches, chance.choice((None, Cause.ALTER)))
            expected.append((number, SHARE_SNAPSHOT, state.start, batches))
        else:
            complete = chance.choice((-1, 5))
            state.update(*batches, by="m", complete=complete)
            expected.append((number, SHARE_UPDATE, state.start, batches))
    rows = states_of(logs.close(), states[0]).to_pylist()
    assert len(rows) == 600
    for row, (number, wanted, start, batches) in zip(rows, expected, strict=True):
        assert row["log_offset"] == number
        if wanted is None:
            assert row["tombstone"]
            continue
        assert (row["record_type"], row["start_offset"]) == (wanted, start)
        assert [tuple(batch.values()) for batch in row["batches"]] == batches
        assert row["value_version"] == 0


def test_one_group_and_the_name_of_its_topic_can_be_asked_for(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    ours, theirs = (ShareState(logs.group(name), "t-0", log_partition=5) for name in ("ours", "theirs"))
    for state in (theirs, ours):
        state.snapshot(1)
    (row,) = states_of(logs.close(), ours, Wanted("ours")).to_pylist()
    assert (row["group_id"], row["topic"]) == ("ours", None)  # nothing in this folder says how the topic is called


def test_steps_and_the_final_state_follow_from_snapshots_and_updates(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    shop = logs.group("shop")
    state = ShareState(shop, "t-0", log_partition=5)
    state.snapshot(0)
    state.accept(0, 9)
    state.at(10).returned(10, 14, 1, Cause.RELEASE)
    state.accept(11, 12, deliveries=2)
    state.returned(10, 10, 2, Cause.LOCK_TIMEOUT)
    state.archive(20, 20, 1, Cause.ACKNOWLEDGE)
    folder = logs_in(logs.close())[STATE_LOGS + 5]
    tables = pipeline.derive(folder.log_partition, pipeline.decode(folder))
    steps = tables["share_steps"].to_pylist()
    assert [row["step"] for row in steps] == [None, 0, 10, 0, 0, 0]
    assert [(row["accepted"], row["returned"], row["archived"]) for row in steps] == [
        (0, 0, 0), (10, 0, 0), (0, 5, 0), (2, 0, 0), (0, 1, 0), (0, 0, 1),
    ]  # fmt: skip
    assert [row["end_offset"] for row in steps] == [None, 10, 15, 13, 11, 21]
    (row,) = tables["share_partitions"].to_pylist()
    assert (row["updates"], row["snapshots"], row["timeouts"], row["accepted"]) == (5, 1, 1, 12)
    assert (row["first_start"], row["start_offset"], row["finished"], row["waiting"]) == (0, 10, 3, 3)
    assert (row["deliveries"], row["most_delivered"], row["start_deliveries"]) == (2, 10, 2)


def test_a_snapshot_replaces_what_was_before_and_a_tombstone_ends_it(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    one, other = (ShareState(logs.group("shop"), f"t-{n}", log_partition=5) for n in (0, 1))
    for state in (one, other):
        state.snapshot(0)
        state.returned(0, 0, 3, Cause.RELEASE)
        state.snapshot(5, [(6, 6, ARCHIVED, 1), (7, 7, AVAILABLE, 1)], None)
    other.delete()
    folder = logs_in(logs.close())[STATE_LOGS + 5]
    rows = pipeline.derive(folder.log_partition, pipeline.decode(folder))["share_partitions"].to_pylist()
    assert [(row["partition"], row["deleted"], row["start_offset"]) for row in rows] == [(0, False, 5), (1, True, None)]
    assert [(row["finished"], row["waiting"], row["deliveries"]) for row in rows] == [(1, 1, 1), (0, 0, None)]


def test_members_of_a_share_group_have_their_assignments_from_when_to_when(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    shop = logs.group("shop")
    joined(shop, "m1", ["t-0"])
    joined(shop, "m2", ["t-0", "t-1"])
    assigned(shop, "m1", ["t-0"])
    assigned(shop, "m1", ["t-1"])
    left(shop, "m2")
    folder = logs_in(logs.close())[shop.log_partition]
    rows = pipeline.derive(folder.log_partition, pipeline.decode(folder))["share_members"].to_pylist()
    assert [
        (row["member_id"], [(one["topic"], one["partition"]) for one in row["partitions"]], row["ended_by"])
        for row in rows
    ] == [
        ("m1", [("t", 0)], "assigned"), ("m2", [("t", 0), ("t", 1)], "left"), ("m1", [("t", 1)], None),
    ]  # fmt: skip
    assert [(row["first_epoch"], row["last_epoch"]) for row in rows] == [(1, 3), (2, 2), (4, 4)]
    assert {row["client_id"] for row in rows} == {"client-of-m1", "client-of-m2"}
    assert rows[0]["end_time"] == rows[2]["start_time"]


def test_what_a_broker_has_cut_off_is_not_missed(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    state = ShareState(logs.group("shop"), "t-0", log_partition=5)
    state.snapshot(0)
    state.accept(0, 9)
    logs.roll(5, topic="__share_group_state")
    at = state.snapshot(10, cause=None)
    state.accept(10, 19)
    logs.cut_off("__share_group_state", 5, at)
    folder = logs_in(logs.close())[STATE_LOGS + 5]
    assert (folder.first_offset, folder.cleaned_to) == (2, 0)
    (row,) = pipeline.derive(folder.log_partition, pipeline.decode(folder))["share_partitions"].to_pylist()
    assert (row["first_start"], row["accepted"], row["finished"]) == (10, 10, 10)
