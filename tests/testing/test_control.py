"""The controls over HTTP, as a test in another language uses them: a real `kohort serve --test`, and JSON."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.clients.kohort import STOP_TIMEOUT_S, KohortProcess


class Control:
    """What `--print-json` tells, and requests to the HTTP port."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.bootstrap_servers = told["bootstrap_servers"]
        self.url = told["http"]

    def ask(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """`body` is sent as JSON, or as it is if it is bytes."""
        connection = HTTPConnection(urlsplit(self.url).netloc, timeout=30)
        try:
            sent = body if isinstance(body, bytes) else json.dumps({} if body is None else body).encode()
            content = {"Content-Type": "application/json"} if method == "POST" else {}
            connection.request(method, path, sent if method == "POST" else None, content | (headers or {}))
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        status, told = self.ask("GET", path)
        assert status == 200, told
        return told

    def post(self, path: str, **fields: object) -> Any:
        status, told = self.ask("POST", path, fields)
        assert status == 200, told
        return told


@contextmanager
def serve_test(*arguments: str, folder: Path | None = None) -> Iterator[Control]:
    command = [str(KohortProcess.executable), "serve", "--test", "--print-json", "--stop-with-stdin"]
    process = subprocess.Popen(
        [*command, "--log-level", "warning", *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield Control(json.loads(process.stdout.readline()))
    finally:
        process.stdin.close()
        status = process.wait(STOP_TIMEOUT_S)
        process.stdout.close()
    assert status == 0


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Control]:
    folder = tmp_path_factory.mktemp("empty")
    with serve_test(folder=folder) as made:
        yield made
    assert list(folder.iterdir()) == [], "data is in memory"


@contextmanager
def member(control: Control, group: str, topic: str, **settings: object) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": control.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest",
            "enable.auto.commit": False, **settings,
        }
    )  # fmt: skip
    consumer.subscribe([topic])
    try:
        yield consumer
    finally:
        consumer.close()


def poll(consumer: Consumer) -> bytes:
    for _ in range(100):
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            value = message.value()
            assert isinstance(value, bytes)
            return value
    raise AssertionError("no record came")


# --- a test in another language


def test_a_group_is_seen_and_waited_for(control: Control) -> None:
    assert control.post("/test/topics", topic="seen", partitions=2)["partitions"] == 2
    control.post("/test/topics/seen/records", records=[{"value": "order 1", "key": "7", "partition": 1}])
    with member(control, "seen", "seen", **{"client.id": "m 1"}) as consumer:
        assert poll(consumer) == b"order 1"
        group = control.post("/test/groups/seen/wait", state="Stable", members=1, rebalances=1)
        consumer.commit(asynchronous=False)
        assert group["owners"] == {
            "seen": {"0": group["members"][0]["member_id"], "1": group["members"][0]["member_id"]}
        }
        assert group["members"][0]["assignment"] == {"seen": [0, 1]}
        told = control.post("/test/groups/seen/wait", committed={"seen": {"1": 1}})
        assert told["committed"] == {"seen": {"1": 1}}
        assert told["lag"] == {"seen": {"1": 0}}
        (commit,) = control.get("/test/groups/seen/commits")["commits"]
        assert (commit["partition"], commit["offset"], commit["client_id"]) == (1, 1, "m 1")
        assert len(control.get("/test/groups/seen/rebalances")["rebalances"]) == 1
        asked = control.get("/test/requests?api=OffsetCommit&client_id=m+1&group=seen")["requests"]
        assert [each["errors"] for each in asked] == [[]]
        assert {"group": "seen", "type": "classic", "state": "Stable"} in control.get("/test/groups")["groups"]


def test_what_was_waited_for_in_vain_is_told_with_what_was_seen(control: Control) -> None:
    status, told = control.ask("POST", "/test/groups/nobody/wait", {"state": "Stable", "timeout_ms": 10})
    assert status == 504
    assert "did not reach state='Stable' in 0.01 s: it is Dead" in told["error"]


def test_a_zombie_is_refused_and_a_fault_meets_what_it_is_meant_for(control: Control) -> None:
    control.post("/test/topics/faulty/records", records=[{"value": "order 1"}])
    with member(control, "faulty", "faulty") as consumer:
        assert poll(consumer) == b"order 1"
        control.post("/test/faults", kind="error", api="OffsetCommit", error="NOT_COORDINATOR", group="faulty", times=1)
        consumer.commit(asynchronous=False)  # the client asks for the coordinator, and tries again
        asked = control.get("/test/requests?api=OffsetCommit&group=faulty")["requests"]
        assert [each["errors"] for each in asked] == [["NOT_COORDINATOR"], []]
        assert [each["fault"] for each in asked] == ["answered NOT_COORDINATOR", None]
        (zombie,) = control.get("/test/groups/faulty")["members"]
        control.post("/test/groups/faulty/expire", member_id=zombie["member_id"])
        with pytest.raises(KafkaException, match="UNKNOWN_MEMBER_ID"):
            consumer.commit(offsets=[TopicPartition("faulty", 0, 0)], asynchronous=False)
    assert [each["offset"] for each in control.get("/test/groups/faulty/commits")["commits"]] == [1]


def test_findings_are_refused_and_told_or_listed_if_they_are_not_severe(control: Control) -> None:
    control.post("/test/topics/judged/records", records=[{"value": "order"}] * 3)
    with member(control, "judged", "judged") as consumer:
        poll(consumer)
        for offset in (3, 1):
            consumer.commit(offsets=[TopicPartition("judged", 0, offset)], asynchronous=False)
    status, told = control.ask("POST", "/test/check", {"group": "judged"})
    assert status == 409
    assert "1 commit went back, at most by 2 records" in told["error"]
    found = control.post("/test/check", group="judged", fail_on="critical")["findings"]
    assert [(each["check"], each["group"], each["partition"]) for each in found] == [("offset_rewind", "judged", 0)]
    assert control.post("/test/check", group="judged", ignore=["offset_rewind"])["findings"] == []
    assert "group 'judged': it is" in control.get("/test/story")["story"]


def test_chaos_makes_trouble_and_tells_it(control: Control) -> None:
    control.post("/test/topics/wild/records", records=[{"value": "order"}])
    chaos = control.post("/test/faults", kind="chaos", seed=1, every=5, kinds=["rebalance"], group="wild")
    with member(control, "wild", "wild") as consumer:
        poll(consumer)
        while not (told := control.get("/test/faults")["faults"][-1])["hits"]:
            consumer.poll(0.1)
    assert (told["id"], told["what"]) == (chaos["id"], "chaos with seed 1: group=wild")
    assert "group 'wild' rebalances" in told["troubles"][0]
    control.ask("DELETE", f"/test/faults/{chaos['id']}")
    assert control.ask("POST", "/test/faults", {"kind": "chaos", "kinds": ["restarts"]})[0] == 400


def test_records_are_text_or_base64(control: Control) -> None:
    records: list[dict[str, Any]] = [
        {"value": "ä"}, {"value": "b"}, {"value_base64": "/wA=", "key": None}, {"value": None, "key": "k"},
        {"value": "h", "headers": [{"name": "a", "value": "1"}, {"name": "a", "value_base64": "/w=="}]},
    ]  # fmt: skip
    offsets = control.post("/test/topics/new-one/records", records=records)["records"]
    assert offsets == [{"partition": 0, "offset": number} for number in range(5)]
    told = control.get("/test/topics/new-one/records?partition=0&limit=10")["records"]
    for record in told:
        del record["timestamp_ms"]
    where = {"topic": "new-one", "partition": 0}
    assert told == [
        {**where, "offset": 0, "key": None, "value": "ä", "headers": []},
        {**where, "offset": 1, "key": None, "value": "b", "headers": []},
        {**where, "offset": 2, "key": None, "value_base64": "/wA=", "headers": []},
        {**where, "offset": 3, "key": "k", "value": None, "headers": []},
        {**where, "offset": 4, "key": None, "value": "h", "headers": records[4]["headers"]},
    ]
    assert control.get("/test/topics/new-one")["end_offsets"] == {"0": 5}


def test_time_is_advanced_frozen_and_goes_on(control: Control) -> None:
    before = control.get("/test/clock")["time_ms"]
    assert control.post("/test/clock/advance", ms=600_000)["time_ms"] >= before + 600_000
    frozen = control.post("/test/clock/freeze")["time_ms"]
    assert control.get("/test/clock")["time_ms"] == frozen
    assert control.post("/test/clock/resume")["time_ms"] >= frozen


@pytest.mark.parametrize(("way", "kept"), [("restart", 1), ("crash", 0)])
def test_the_broker_comes_back_at_the_same_address_with_what_was_synced(control: Control, way: str, kept: int) -> None:
    control.post(f"/test/topics/{way}/records", records=[{"value": way}])
    control.post(f"/test/{way}")
    assert control.get("/test")["bootstrap_servers"] == control.bootstrap_servers
    assert len(control.get(f"/test/topics/{way}/records")["records"]) == kept


def test_data_is_in_a_folder_if_one_is_given(tmp_path: Path) -> None:
    with serve_test("--override", f"log.dirs={tmp_path}/data", folder=tmp_path) as control:
        control.post("/test/topics/kept/records", records=[{"value": "1"}])
    assert (tmp_path / "data" / "kept-0").is_dir()
    with serve_test("--override", f"log.dirs={tmp_path}/data", folder=tmp_path) as control:
        assert control.get("/test/topics/kept")["end_offsets"] == {"0": 1}


# --- who may ask, and how


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "localhost.evil"])
def test_a_web_page_with_a_name_of_its_own_is_refused(control: Control, host: str) -> None:
    status, told = control.ask("GET", "/test", headers={"Host": host})
    assert status == 403
    assert "Host header" in told["error"]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:80", "192.0.2.1:8080"])
def test_an_address_or_localhost_may_ask(control: Control, host: str) -> None:
    assert control.ask("GET", "/test", headers={"Host": host})[0] == 200


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_a_post_that_is_no_json_is_refused(control: Control, content_type: str) -> None:
    """A web page may send these three without asking whether it may."""
    status, told = control.ask("POST", "/test/restart", headers={"Content-Type": content_type})
    assert status == 415
    assert "application/json" in told["error"]


@pytest.mark.parametrize(
    ("path", "body", "status", "error"),
    [
        ("/test/topics", b"{", 400, "the body is not JSON"),
        ("/test/topics", b"[" * 100_000, 400, "the body is not JSON"),
        ("/test/topics", b"\xff", 400, "the body is not JSON"),
        ("/test/topics", [], 400, "the body must be a JSON object"),
        ("/test/topics", {}, 400, "topic is missing"),
        ("/test/topics", {"topic": 7}, 400, "topic must be text, not 7"),
        ("/test/topics", {"topic": "a", "partitions": 0}, 400, "partitions must be between 1 and 10000, not 0"),
        ("/test/topics", {"topic": "a", "partitions": True}, 400, "partitions must be a whole number, not true"),
        ("/test/topics", {"topic": "a", "partition": 1}, 400, 'there is no field "partition"; known here: topic, part'),
        ("/test/topics", {"topic": "a", "config": {"b": []}}, 400, "config must be an object of text"),
        ("/test/topics", {"topic": "a b"}, 409, "INVALID_TOPIC_EXCEPTION"),
        ("/test/topics/t/records", {}, 400, "between 1 and 10000 records"),
        ("/test/topics/t/records", {"records": ["a"]}, 400, "records must be an array of objects"),
        ("/test/topics/t/records", {"records": [{"value_base64": "?"}]}, 400, "value_base64 is not base64"),
        ("/test/topics/t/records", {"records": [{"key": "a", "key_base64": "YQ=="}]}, 400, "not both"),
        ("/test/groups/g/wait", {"state": "stable"}, 400, "did you mean Stable?"),
        ("/test/groups/g/wait", {"committed": {"t": {"x": 1}}}, 400, "is no partition"),
        ("/test/groups/g/wait", {"timeout_ms": 10**9}, 400, "timeout_ms must be between 0 and 300000"),
        ("/test/groups/nobody/rebalance", {}, 404, "there is no group 'nobody'"),
        ("/test/faults", {"kind": "lose"}, 400, "kind must be one of error, delay"),
        ("/test/faults", {"kind": "error", "api": "Commit", "error": "X"}, 400, "Kafka has no API 'Commit'"),
        ("/test/faults", {"kind": "drop", "ms": 1}, 400, 'there is no field "ms"'),
        ("/test/clock/advance", {"ms": -1}, 400, "ms must be between 0"),
        ("/test/nothing", {}, 404, "there is nothing at this path"),
        ("/test", {}, 405, "/test takes GET"),
    ],
)
def test_what_cannot_be_done_is_told_with_what_to_do(
    control: Control, path: str, body: object, status: int, error: str
) -> None:
    found, told = control.ask("POST", path, body)
    assert (found, set(told)) == (status, {"error"})
    assert error in told["error"]


@pytest.mark.parametrize(
    ("path", "status", "error"),
    [
        ("/test/topics/nowhere", 404, "there is no topic 'nowhere'"),
        ("/test/requests?api=Commit", 400, "Kafka has no API 'Commit'"),
        ("/test/requests?limit=many", 400, 'limit must be a whole number, not "many"'),
    ],
)
def test_what_cannot_be_looked_at_is_told(control: Control, path: str, status: int, error: str) -> None:
    found, told = control.ask("GET", path)
    assert found == status
    assert error in told["error"]


def test_the_controls_are_on_loopback_whatever_the_listeners_are() -> None:
    with serve_test("--override", "listeners=PLAINTEXT://:0") as control:
        assert urlsplit(control.url).hostname == "127.0.0.1"


def test_without_test_there_are_no_controls(tmp_path: Path) -> None:
    with KohortProcess(tmp_path, kohort_http_port="0") as process:
        assert process.process.stdout is not None
        address = process.process.stdout.readline().split("http://")[1].partition("/")[0]
        connection = HTTPConnection(address, timeout=10)
        connection.request("GET", "/test")
        assert connection.getresponse().status == 404
        connection.close()
