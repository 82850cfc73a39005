"""`kohort ui`: any cluster, a recording, a data folder; and what it says if it cannot."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from kohort.client.client import Client
from kohort.protocol.api_keys import ApiKey
from tests.clients.kohort import KohortProcess
from tests.live.members import ClassicMember, Consumer, ShareMember, commit, make_topic, produce, settle
from tests.live.web import ask
from tests.share_requests import alter_offsets_request

KOHORT = str(Path(sys.executable).with_name("kohort"))
PATIENCE_S = 30.0


@contextmanager
def ui(*arguments: str) -> Iterator[str]:
    """Where the page is."""
    command = [KOHORT, "ui", "--port", "0", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert "live page at " in line, process.stderr and process.stderr.read()
            yield line.split()[3].rstrip("/")
        finally:
            process.terminate()
            assert process.wait(30) == 0
            assert process.stderr is not None
            assert process.stderr.read() == ""


def until(look: Callable[[], Any]) -> Any:
    """What `look` returns, as soon as that is something."""
    deadline = monotonic() + PATIENCE_S
    while not (found := look()):
        assert monotonic() < deadline, "it did not come"
        sleep(0.02)
    return found


def row(page: str, group: str) -> dict[str, Any] | None:
    return next((each for each in ask(f"{page}/api/groups").json["groups"] if each["group"] == group), None)


def test_a_cluster_and_its_folders_show_the_same_groups_and_follow_them(tmp_path: Path) -> None:
    settings = {"group.initial.rebalance.delay.ms": "0", "group.consumer.assignment.interval.ms": "0"}
    settings |= {"group.share.assignment.interval.ms": "0"}
    recording = tmp_path / "recording"
    with KohortProcess(tmp_path / "broker", **settings) as process, Client(process.address) as client:
        make_topic(client, "t", 4)
        produce(client, "t", 0, 10)
        first = Consumer(client, "new", "first", ["t"])
        settle(first)
        first.commit("t", {0: 4})
        ClassicMember(client, "old", {"t": [0, 1]}, instance="static")
        _a_share_group(client, "shared")
        record = subprocess.Popen(
            [KOHORT, "record", str(recording), "--bootstrap-server", process.address], stderr=subprocess.DEVNULL
        )
        until(lambda: list(recording.glob("__consumer_offsets-*/*.log")))
        try:
            with (
                ui("--bootstrap-server", process.address) as cluster,
                ui(str(process.data)) as data,
                ui(str(recording)) as copy,
            ):
                for page in (cluster, data, copy):
                    _looks_right(page, has_ends=page != copy)
                second = Consumer(client, "new", "second", ["t"])
                settle(first, second)
                commit(client, "simple", "t", {1: 1})
                for page in (cluster, data, copy):
                    _has_grown(page)
                shared = until(lambda: (found := row(cluster, "shared")) and found["lag"] is not None and found)
                assert (shared["type"], shared["lag"]) == ("share", 6), "how far it has come stands in no offsets topic"
                assert 'kohort_group_member_count{group="new"} 2' in ask(f"{cluster}/metrics").body.decode()
        finally:
            record.terminate()
            record.wait(30)


def _a_share_group(client: Client, group: str) -> None:
    """Its only member gets all partitions, and somebody says that it has read four records of the first."""
    member = ShareMember(client, group, "sharer", ["t"])
    while len(member.assigned) < 4:
        member.beat()
    member.leave()
    answer = client.send(ApiKey.ALTER_SHARE_GROUP_OFFSETS, alter_offsets_request(group, {("t", 0): 4}))
    assert not answer.error_code, answer


def _looks_right(page: str, *, has_ends: bool) -> None:
    known = until(lambda: (found := row(page, "new")) and (not has_ends or found["lag"] is not None) and found)
    assert (known["type"], known["state"], known["members"]) == ("consumer", "Stable", 1)
    assert known["lag"] == (6 if has_ends else None)
    told = until(lambda: (found := ask(f"{page}/api/groups/new").json)["rows"] and found)
    assert [each["id"] for each in told["people"].values()] == ["first"]
    assert [topic for topic, _ in told["rows"]] == ["t"] * 4
    assert [each["cause"] for each in told["rebalances"]] == ["member joined"]
    old = until(lambda: row(page, "old"))
    assert (old["type"], old["members"]) == ("classic", 1)


def _has_grown(page: str) -> None:
    grown = until(lambda: (found := row(page, "new")) and found["members"] == 2 and found)
    assert grown["rebalances_in_hour"] == 2
    assert until(lambda: row(page, "simple"))["members"] == 0


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--bootstrap-server", "127.0.0.1:1"], 1, "no broker answers"),
        (["/no/such/folder"], 1, "No such file or directory"),
        (["/tmp"], 1, "no logs of __consumer_offsets"),
        (["--host", "0.0.0.0"], 2, "give a token"),
        (["--host", "0.0.0.0", "--token-file", "/no/file"], 1, "/no/file"),
    ],
)
def test_what_cannot_be_shown_is_said_in_a_line(arguments: list[str], status: int, said: str) -> None:
    done = subprocess.run([KOHORT, "ui", *arguments], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr.count("\n"), said in done.stderr) == (status, 1, True), done.stderr
