"""The live page's API on a running broker: what it says, how soon, and to whom."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from kohort.client.client import Client
from kohort.protocol.api_keys import ApiKey
from tests.clients.kohort import KohortProcess
from tests.live.members import ClassicMember, Consumer, ShareMember, commit, make_topic, produce, settle
from tests.live.web import Events, ask, events
from tests.share_requests import (
    ACCEPT,
    REJECT,
    RELEASE,
    alter_offsets_request,
    share_acknowledge_request,
    share_fetch_request,
)

TOKEN = "a token of more than sixteen"
numbers = count()


def page_of(process: KohortProcess) -> str:
    """Where the broker's page is."""
    assert process.process.stdout is not None
    told = process.process.stdout.readline()
    return told.split("live page at ")[1].split(",")[0].rstrip("/").replace("0.0.0.0", "127.0.0.1")


class Box:
    """A broker with its page."""

    def __init__(self, process: KohortProcess) -> None:
        self.page = page_of(process)
        self.client = Client(process.address)

    def group(self, name: str) -> str:
        return f"{name}-{next(numbers)}"


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    settings = {
        "kohort.http.port": "0",
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.assignment.interval.ms": "0",
        "group.share.assignment.interval.ms": "0",
    }
    with KohortProcess(tmp_path_factory.mktemp("live"), **settings) as process:
        made = Box(process)
        make_topic(made.client, "t", 4)
        produce(made.client, "t", 0, 10)
        produce(made.client, "t", 1, 5)
        with made.client:
            yield made


def test_groups_of_all_types_are_told_with_members_lag_and_the_last_commit(box: Box) -> None:
    consumer, share, classic = (box.group(name) for name in ("consumer", "share", "classic"))
    member = Consumer(box.client, consumer, "m", ["t"])
    settle(member)
    member.commit("t", {0: 4, 1: 5})
    ShareMember(box.client, share, "s", ["t"]).beat()
    ClassicMember(box.client, classic, {"t": [0, 1, 2, 3]})
    told = {row["group"]: row for row in ask(f"{box.page}/api/groups").json["groups"]}
    for group, kind in ((consumer, "consumer"), (share, "share"), (classic, "classic")):
        assert (told[group]["type"], told[group]["state"], told[group]["members"]) == (kind, "Stable", 1)
    assert (told[consumer]["lag"], told[consumer]["max_lag"]) == (6, 6)
    assert told[consumer]["last_commit_ms"] > 0
    assert (told[classic]["lag"], told[classic]["last_commit_ms"]) == (None, None)


def test_one_group_is_told_with_owners_partitions_and_rebalances(box: Box) -> None:
    group = box.group("one")
    first = Consumer(box.client, group, "first", ["t"])
    settle(first)
    second = Consumer(box.client, group, "second", ["t"])
    settle(first, second)
    first.commit("t", {0: 3})
    told = ask(f"{box.page}/api/groups/{group}").json
    assert (told["type"], told["state"], told["member_count"]) == ("consumer", "Stable", 2)
    assert sorted(member["partitions"] for member in told["members"]) == [2, 2]
    assert [each["cause"] for each in told["rebalances"]] == ["member joined", "member joined"]
    assert told["rebalances"][0]["moved"] == 2
    assert [bar[2] for bar in told["bars"]].count(None) == 4
    by_partition = {row["partition"]: row for row in told["partitions"]}
    assert (by_partition[0]["offset"], by_partition[0]["end"], by_partition[0]["lag"]) == (3, 10, 7)
    assert len({row["owner"] for row in told["partitions"]}) == 2
    assert ask(f"{box.page}/api/groups/{group}/rebalances").json["rebalances"] == told["rebalances"]
    assert group in {each["group"] for each in ask(f"{box.page}/api/rebalances?count=3").json["rebalances"]}


def test_a_share_group_tells_what_became_of_its_records(box: Box) -> None:
    group, place = box.group("deliveries"), ("t", 0)
    member = ShareMember(box.client, group, "m", ["t"])
    while not member.assigned:
        member.beat()
    member.leave()
    box.client.send(ApiKey.ALTER_SHARE_GROUP_OFFSETS, alter_offsets_request(group, {place: 0}))
    topic_ids = {"t": member.topic_id}
    fetch = share_fetch_request(group, "m", 0, [place], id_of=topic_ids.__getitem__)
    answer = box.client.send(ApiKey.SHARE_FETCH, fetch, 2)
    assert answer.responses[0].partitions[0].acquired_records, answer
    told = {place: [(0, 3, [ACCEPT]), (4, 5, [RELEASE]), (6, 6, [REJECT])]}
    acknowledge = share_acknowledge_request(group, "m", 1, told, id_of=topic_ids.__getitem__)
    box.client.send(ApiKey.SHARE_ACKNOWLEDGE, acknowledge, 2)
    rows = {row["partition"]: row for row in ask(f"{box.page}/api/groups/{group}").json["partitions"]}
    assert rows[0]["offset"] == 4
    counts = {"acquired": 10, "accepted": 4, "released": 2, "rejected": 1, "timed_out": 0, "archived": 0}
    assert rows[0]["deliveries"] == {"in_flight": 6, **counts}
    consumer = box.group("no-deliveries")
    commit(box.client, consumer, "t", {0: 1})
    (row,) = ask(f"{box.page}/api/groups/{consumer}").json["partitions"]
    assert row["deliveries"] is None


def test_rebalances_are_explained_as_kohort_why_explains_them(box: Box) -> None:
    group = box.group("why")
    first = Consumer(box.client, group, "first", ["t"])
    settle(first)
    second = Consumer(box.client, group, "second", ["t"])
    settle(first, second)
    second.leave()
    settle(first)
    told = ask(f"{box.page}/api/groups/{group}/why").json["explanations"]
    assert [each["epoch"] for each in told] == [rebalance["epoch"] for rebalance in _rebalances(box, group)]
    assert [each["inferred"] for each in told] == [False] * 3
    (label, text), *_ = told[0]["lines"]
    assert (label, " left" in text) == ("why", True)
    assert ask(f"{box.page}/api/groups/nobody/why").json["explanations"] == []


def _rebalances(box: Box, group: str) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = ask(f"{box.page}/api/groups/{group}/rebalances").json["rebalances"]
    return told


def test_a_group_that_is_not_there_and_a_bad_question_get_words(box: Box) -> None:
    missing = ask(f"{box.page}/api/groups/nobody")
    assert (missing.status, b"GET /api/groups lists them" in missing.body) == (404, True)
    assert ask(f"{box.page}/api/rebalances?count=x").status == 400
    assert ask(f"{box.page}/api/groups", "POST").status == 405


def test_a_rebalance_is_told_within_a_second(box: Box) -> None:
    group = box.group("quick")
    first = Consumer(box.client, group, "first", ["t"])
    settle(first)
    with closing(events(f"{box.page}/api/watch")) as overview, closing(events(f"{box.page}/api/watch/{group}")) as one:
        _a_rebalance_is_told(box, group, first, overview, one)


def _a_rebalance_is_told(box: Box, group: str, first: Consumer, overview: Events, one: Events) -> None:
    while next(overview)[0] != "now":
        pass
    assert next(one)[0] == "about"
    name, told = next(one)
    assert (name, told["rebalance_count"]) == ("group", 1)
    second = Consumer(box.client, group, "second", ["t"])
    settle(first, second)
    began = told["now"]
    changed = next(row for kind, rows in overview if kind == "rows" for row in rows if row[0] == group and row[4] == 2)
    while name != "group" or told["rebalance_count"] < 2 or told["state"] != "Stable":
        name, told = next(one)
    assert changed[2] == "consumer"
    assert told["member_count"] == 2
    assert told["now"] - began < 60_000  # how soon is measured in the browser, when the machine is quiet


def test_what_happened_before_the_page_was_asked_for_is_there_after_a_restart(tmp_path: Path) -> None:
    with (
        KohortProcess(tmp_path, **{"group.initial.rebalance.delay.ms": "0"}) as process,
        Client(process.address) as client,
    ):
        make_topic(client, "t", 2)
        settle(Consumer(client, "new", "m", ["t"]))
        ClassicMember(client, "old", {"t": [0, 1]}, instance="i")
    with KohortProcess(tmp_path, **{"kohort.http.port": "0"}) as process:
        page = page_of(process)
        for group, name in (("new", "m"), ("old", "i")):
            told = ask(f"{page}/api/groups/{group}").json
            assert [each["id"] for each in told["people"].values()] == [name]
            assert [row["owner"] for row in told["partitions"]] == [0, 0]


def test_names_of_any_length_with_anything_in_them_can_be_asked_for(box: Box) -> None:
    long, markup = "g" * 30_000, "<script>alert(1)</script>\u202e\x07/../%2f"
    for group in (long, markup):
        commit(box.client, group, "t", {0: 1}, metadata="<b>\x00")
    rows = ask(f"{box.page}/api/groups").json["groups"]
    (key,) = [row["key"] for row in rows if row["group"].startswith("ggg")]
    for address, offset in ((key, 1), (quote(markup, safe=""), 1)):
        told = ask(f"{box.page}/api/groups/{address}").json
        assert [row["offset"] for row in told["partitions"]] == [offset]
    assert len(max((row["group"] for row in rows), key=len)) < 400


def test_every_answer_forbids_scripts_from_elsewhere_and_being_framed(box: Box) -> None:
    for path in ("/", "/live/page.js", "/live/style.css", "/api/groups", "/api/about"):
        told = ask(f"{box.page}{path}")
        assert told.status == 200, path
        policy = told.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert told.headers["x-content-type-options"] == "nosniff"
    assert ask(f"{box.page}/healthz").body == b"ok\n"


def test_a_page_of_another_name_is_not_answered_without_a_token(box: Box) -> None:
    for path in ("/", "/api/groups", "/api/watch"):
        refused = ask(f"{box.page}{path}", Host="evil.example:80")
        assert (refused.status, b"Host header" in refused.body) == (403, True)
    for name in ("localhost@evil.example", "127.0.0.1.evil.example", "[::1].evil.example", "evil.example#localhost"):
        assert ask(f"{box.page}/api/groups", Host=name).status == 403, name
    assert ask(f"{box.page}/api/groups", Host="localhost").status == 200
    assert ask(f"{box.page}/api/groups", Host="[::1]:9").status == 200


def test_where_others_can_come_a_token_is_asked_for(tmp_path: Path) -> None:
    settings = {"kohort.http.port": "0", "kohort.http.host": "0.0.0.0"}
    with KohortProcess(tmp_path / "closed", **settings) as process:
        page = page_of(process).replace("0.0.0.0", "127.0.0.1")
        closed = ask(f"{page}/api/groups")
        assert (closed.status, b"kohort.http.token" in closed.body) == (403, True)
        assert ask(f"{page}/").status == 403
        assert ask(f"{page}/metrics").status == 200
    with KohortProcess(tmp_path / "open", **settings, **{"kohort.http.token": TOKEN}) as process:
        page = page_of(process).replace("0.0.0.0", "127.0.0.1")
        assert [ask(f"{page}{path}").status for path in ("/api/groups", "/api/watch", "/", "/healthz")] == [
            401,
            401,
            401,
            200,
        ]
        assert b'type="password"' in ask(f"{page}/").body
        assert ask(f"{page}/api/groups", Authorization=f"Bearer {TOKEN}x").status == 401
        assert ask(f"{page}/api/groups", Authorization=f"Bearer {TOKEN}", Host="any.example").status == 200
        wrong = ask(f"{page}/login", "POST", b"token=wrong")
        assert (wrong.status, "set-cookie" in wrong.headers) == (401, False)
        assert b'role="alert">This is not the token' in wrong.body
        right = ask(f"{page}/login", "POST", b"token=" + quote(TOKEN).encode())
        assert (right.status, right.headers["location"]) == (303, "/")
        cookie = right.headers["set-cookie"]
        assert {"HttpOnly", "SameSite=Strict"} <= set(cookie.split("; "))
        assert TOKEN not in cookie
        assert ask(f"{page}/", Cookie=cookie.partition(";")[0]).status == 200


def test_a_token_that_is_easily_guessed_is_refused(tmp_path: Path) -> None:
    command = [str(KohortProcess.executable), "serve", "--override", f"log.dirs={tmp_path}", "--override"]
    command += ["kohort.http.token=short", "--override", "kohort.http.port=0", "--override", "listeners=PLAINTEXT://:0"]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (refused.returncode, "at least 16 printable" in refused.stderr) == (1, True)
