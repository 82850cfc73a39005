"""`kohort why` as people run it: which rebalances it shows, what it says when it cannot, and that names do no harm."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from kohort.broker.cli import main
from kohort.coordinator.partitioner import partition_of
from kohort.protocol.record_batch import build_batch
from tests.clients.group_broker import GroupBroker
from tests.record.fake_cluster import FakeCluster
from tests.why.incidents import a_member_leaves
from tests.why.log import commits, generation
from tests.why.recorded_kafka import unpack
from tests.why.staged import SETTINGS, group_of, stage_all

FLAPPING = "a-static-member-flaps"
HOSTILE = "evil\x1b[31m\n\u202egroup<script>" + "x" * 30_000


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("kafka")
    unpack(folder)
    return str(folder)


def write(folder: Path, group: str, *batches: bytes) -> Path:
    place = folder / f"__consumer_offsets-{partition_of(group, 50)}"
    place.mkdir(parents=True)
    (place / "00000000000000000000.log").write_bytes(b"".join(batches))
    return folder


def test_it_shows_the_last_three_rebalances_unless_told_otherwise(
    kafka: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["why", FLAPPING, kafka, "--last", "100", "--json"])
    titles = [each["title"] for each in json.loads(capsys.readouterr().out)]
    assert len(titles) > 5
    assert main(["why", FLAPPING, kafka]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith(FLAPPING)] == titles[-3:]
    assert main(["why", FLAPPING, kafka, "--last", "1"]) == 0
    assert capsys.readouterr().out.count(f"{FLAPPING}: generation") == 1


def test_at_a_time_it_shows_the_rebalance_that_was_in_force_then(
    kafka: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["why", FLAPPING, kafka, "--json", "--last", "100"])
    third, fourth = json.loads(capsys.readouterr().out)[2:4]
    for moment in (third["time_ms"], fourth["time_ms"] - 1):
        assert main(["why", FLAPPING, kafka, "--json", "--at", str(moment)]) == 0
        (found,) = json.loads(capsys.readouterr().out)
        assert found["generation"] == third["generation"]
    assert main(["why", FLAPPING, kafka, "--at", "2020-01-01T00:00"]) == 0
    assert "had no rebalance before 2020-01-01" in capsys.readouterr().out


def test_json_has_cause_culprit_and_the_lines_of_the_text(kafka: str, capsys: pytest.CaptureFixture[str]) -> None:
    group = "a-member-crashes"
    assert main(["why", group, kafka, "--json", "--last", "10"]) == 0
    found = next(each for each in json.loads(capsys.readouterr().out) if each["cause"]["code"] == "session expired")
    assert [who["client_id"] for who in found["cause"]["who"]] == ["bert"]
    assert found["is_inferred"]
    main(["why", group, kafka, "--last", "10"])
    text = capsys.readouterr().out
    for line in found["lines"]:
        assert line["text"] in text


def test_an_unknown_group_is_told_with_those_that_look_alike(kafka: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "a-member-crash", kafka]) == 1
    assert "did you mean a-member-crashes" in capsys.readouterr().err
    assert main(["why", "zzz", kafka]) == 1
    assert "none of its 29 groups looks like it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["why"], 2, "GROUP"),
        (["why", "g", "FOLDER", "--bootstrap-server", "localhost:1"], 2, "not both"),
        (["why", "g", "FOLDER", "--at", "yesterday"], 2, "is no time: write 2026-11-16T06:30"),
        (["why", "g", "FOLDER", "--last", "0"], 2, "write 1 to 100000"),
        (["why", "g", "FOLDER"], 1, "no log of __consumer_offsets in it; name a data folder"),
        (["why", "g", "FOLDER/missing"], 1, "No such file or directory"),
        (["why", "g", "--bootstrap-server", "127.0.0.1:1"], 1, "127.0.0.1:1"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, words: str
) -> None:
    try:
        found = main([argument.replace("FOLDER", str(tmp_path)) for argument in arguments])
    except SystemExit as ended:
        found = ended.code if isinstance(ended.code, int) else -1
    assert found == status
    assert words in capsys.readouterr().err


def test_a_folder_in_the_place_of_the_group_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "__consumer_offsets-7").mkdir()
    assert main(["why", str(tmp_path)]) == 2
    assert f"name a group before it: kohort why GROUP {tmp_path}" in capsys.readouterr().err


def test_a_damaged_batch_is_passed_over_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damaged = bytearray(generation("g", 2, {"a-1": ("a", [0]), "b-1": ("b", [1])}, 2_000, offset=1))
    damaged[-1] ^= 0xFF
    folder = write(
        tmp_path, "g",
        generation("g", 1, {"a-1": ("a", [0, 1])}, 1_000), bytes(damaged),
        generation("g", 3, {"a-1": ("a", [0, 1])}, 3_000, offset=2), b"torn",
    )  # fmt: skip
    assert main(["why", "g", str(folder)]) == 0
    printed = capsys.readouterr()
    assert "generation 1 -> 3" in printed.out
    assert "1 damaged batches" in printed.err


def test_a_group_that_only_commits_has_nothing_to_explain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write(tmp_path, "g", commits("g", [0, 1], 1_000))
    assert main(["why", "g", str(folder)]) == 0
    assert "assigns partitions itself" in capsys.readouterr().out


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_names_that_attack_are_shown_harmlessly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: list[str]
) -> None:
    folder = write(
        tmp_path, HOSTILE,
        generation(HOSTILE, 1, {HOSTILE: (HOSTILE, [0, 1])}, 1_000, topic=HOSTILE),
        generation(HOSTILE, 2, {HOSTILE + "2": (HOSTILE, [0, 1])}, 9_000, topic=HOSTILE, offset=1),
    )  # fmt: skip
    assert main(["why", HOSTILE, str(folder), *form]) == 0
    out = capsys.readouterr().out
    assert not any(char in out for char in "\x1b\u202e")
    if not form:
        assert max(map(len, out.splitlines())) < 1_000
        assert all(line == "" or line.startswith(("  ", "evil", "Inferred")) for line in out.splitlines())


def test_colour_is_for_terminals_only(kafka: str) -> None:
    command = [sys.executable, "-m", "kohort", "why", FLAPPING, kafka, "--last", "1"]
    plain = subprocess.run(command, capture_output=True, check=True).stdout
    assert b"\x1b" not in plain
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm"}
    environment.pop("NO_COLOR", None)
    with subprocess.Popen(command, stdout=slave, env=environment) as process:
        os.close(slave)
        shown = b""
        while piece := _read(master):
            shown += piece
        process.wait()
    os.close(master)
    assert b"\x1b[1m" in shown


def _read(master: int) -> bytes:
    try:
        return os.read(master, 65_536)
    except OSError:  # so Linux says that nobody has the other side open any more
        return b""


def test_a_running_broker_tells_the_same_as_its_data_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with GroupBroker(tmp_path, **SETTINGS) as broker:
        stage_all(broker, (a_member_leaves,))
        group = group_of(a_member_leaves)
        assert main(["why", group, "--bootstrap-server", broker.address, "--last", "2"]) == 0
        asked = capsys.readouterr().out
        assert main(["why", group, str(tmp_path / "data"), "--last", "2"]) == 0
        assert capsys.readouterr().out == asked
        assert main(["why", "a-member-leave", "--bootstrap-server", broker.address]) == 1
        assert f"did you mean {group}" in capsys.readouterr().err


def test_a_log_without_groups_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write(tmp_path, "g", build_batch([(None, b"")], timestamp=1))
    assert main(["why", "g", str(folder)]) == 1
    assert "it has no groups at all" in capsys.readouterr().err


def test_a_group_whose_partition_is_another_by_now_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    """The topic has got more partitions, and the broker goes on with the old number until it is started again."""
    with FakeCluster() as cluster:
        cluster.partitions = 3
        assert partition_of("g", cluster.partitions) != 0
        cluster.batches = [generation("g", 1, {"a-1": ("anna", [0])}, 1_790_000_000_000)]
        assert main(["why", "g", "--bootstrap-server", cluster.address]) == 1
        assert "there is no group g" in capsys.readouterr().err
        cluster.groups = ["g"]
        assert main(["why", "g", "--bootstrap-server", cluster.address]) == 0
        assert "The group is new, and anna (10.0.0.1) joined." in capsys.readouterr().out
