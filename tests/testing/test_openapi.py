"""docs/test-control.openapi.yaml says what there is: each path, and the form of each answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka import Producer
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from kohort.testing import Broker
from kohort.testing.http.control_site import ControlSite
from kohort.testing.http.controls import FAULTS, add_controls
from tests.testing.test_control import Control, member, poll, serve_test

FILE = Path(__file__).parent.parent.parent / "docs" / "test-control.openapi.yaml"
DOCUMENT: dict[str, Any] = yaml.safe_load(FILE.read_text())
PAGE = FILE.with_name("testing-other-languages.md").read_text()
METHODS = ("get", "post", "delete")


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in DOCUMENT["paths"].items():
        for method in METHODS:
            if method in item:
                yield method.upper(), path, item[method]


def resolved(node: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in node:
        return node
    found = DOCUMENT
    for name in node["$ref"].removeprefix("#/").split("/"):
        found = found[name]
    return found


class CheckedControl(Control):
    """Compares each request and each answer with the file."""

    def __init__(self, control: Control) -> None:
        super().__init__({"bootstrap_servers": control.bootstrap_servers, "http": control.url})
        self.seen: set[tuple[str, str]] = set()  # answered well

    def ask(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        status, told = super().ask(method, path, body, headers)
        template, operation = operation_of(method, path.partition("?")[0])
        answers = operation["responses"]
        content = resolved(answers.get(str(status), answers["default"]))["content"]
        _check(content["application/json"]["schema"], told)
        if status < 400:
            self.seen.add((method, template))
            if body and method == "POST":
                _check(operation["requestBody"]["content"]["application/json"]["schema"], body)
        return status, told


def operation_of(method: str, path: str) -> tuple[str, dict[str, Any]]:
    for known, template, operation in operations():
        if known == method and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path):
            return template, operation
    raise AssertionError(f"the file does not have {method} {path}")


def _check(schema: dict[str, Any], value: object) -> None:
    Draft202012Validator({**schema, "components": DOCUMENT["components"]}).validate(value)


def test_it_is_an_openapi_file() -> None:
    validate(DOCUMENT)


def test_the_requests_that_the_page_for_other_languages_shows_are_as_the_file_says() -> None:
    shown = re.findall(r"^    curl (?:-X (\w+) |--json '(.*)' )?\$HTTP(/\S+)(?: +#.*)?$", PAGE, re.MULTILINE)
    assert len(shown) == PAGE.count("    curl ") > 10
    for method, body, path in shown:
        _, operation = operation_of(method or ("POST" if body else "GET"), path)
        if body:
            fields = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            _check(fields, json.loads(body))


def test_it_has_every_control_and_none_else() -> None:
    with ThreadPoolExecutor(1) as executor:
        site = ControlSite("127.0.0.1", executor)
        add_controls(site, Broker())
    assert sorted(site.pages()) == sorted((method, path) for method, path, _ in operations())


def test_answers_are_as_it_says() -> None:
    with serve_test() as plain:
        control = CheckedControl(plain)
        use_everything(control)
        assert control.seen == {(method, path) for method, path, _ in operations()}


def test_examples_are_as_it_says() -> None:
    for _, _, operation in operations():
        body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
        if "example" in body:
            _check(body["schema"], body["example"])


def use_everything(control: CheckedControl) -> None:
    control.get("/test")
    control.post("/test/topics", topic="orders", partitions=2, config={"retention.ms": 1000_000})
    control.ask("POST", "/test/topics", {"topic": "orders"})
    control.post(
        "/test/topics/orders/records", records=[{"value": "1", "headers": [{"name": "h"}]}, {"value_base64": "/w=="}]
    )
    control.get("/test/topics/orders")
    control.ask("GET", "/test/topics/nowhere")
    control.get("/test/topics/orders/records")
    for protocol, way in (("classic", "expire"), ("consumer", "evict")):
        use_group(control, protocol, way, {"group.protocol": protocol})
    use_transactions(control)
    use_faults(control)
    control.post("/test/check", group="nobody", ignore=["two_owners"], thresholds={"rebalance_storm.rebalances": 9})
    control.get("/test/story")
    control.get("/test/groups")
    control.get("/test/groups/nobody")
    control.get("/test/requests")
    control.get("/test/clock")
    control.post("/test/clock/freeze")
    control.post("/test/clock/advance", ms=1000)
    control.post("/test/clock/resume")
    control.post("/test/restart")
    control.post("/test/crash")


def use_group(control: CheckedControl, name: str, way: str, settings: dict[str, object]) -> None:
    with member(control, name, "orders", **settings) as consumer:
        poll(consumer)
        consumer.commit(asynchronous=False)
        control.post(f"/test/groups/{name}/wait", state="Stable", members=1, rebalances=1)
        control.ask("POST", f"/test/groups/{name}/wait", {"members": 7, "timeout_ms": 1})
        control.get(f"/test/groups/{name}")
        assert control.get(f"/test/groups/{name}/rebalances")["rebalances"]
        assert control.get(f"/test/groups/{name}/commits")["commits"]
        control.post(f"/test/groups/{name}/rebalance", reason="a test")
        control.ask("POST", f"/test/groups/{name}/expire", {"member_id": "nobody"})
        assert control.post(f"/test/groups/{name}/expire-locks", member_id="nobody") == {"records": 0}
        control.post(
            f"/test/groups/{name}/{way}", member_id=control.get(f"/test/groups/{name}")["members"][0]["member_id"]
        )


def use_transactions(control: CheckedControl) -> None:
    producer = Producer({"bootstrap.servers": control.bootstrap_servers, "transactional.id": "shop", "log_level": 0})
    producer.init_transactions(30)
    for way in ("time-out", "fence"):
        if way == "time-out":
            producer.begin_transaction()
            producer.produce("orders", b"1")
            producer.flush(30)
            assert list(control.get("/test/transactions/shop")["partitions"]) == ["orders"]
        control.post("/test/transactions/shop/wait", state="Ongoing" if way == "time-out" else "CompleteAbort")
        control.post(f"/test/transactions/shop/{way}")
        assert control.ask("POST", f"/test/transactions/nobody/{way}", {})[0] == 404
    control.ask("POST", "/test/transactions/shop/time-out", {})
    control.ask("POST", "/test/transactions/shop/wait", {"state": "Ongoing", "timeout_ms": 1})
    assert control.get("/test/transactions")["transactions"] == [control.get("/test/transactions/shop")]
    assert control.get("/test/transactions/nobody")["state"] == "Dead"


def use_faults(control: CheckedControl) -> None:
    """Each kind that the file names, and no other."""
    kinds = DOCUMENT["components"]["schemas"]["NewFault"]["properties"]["kind"]["enum"]
    assert kinds == list(FAULTS)
    for kind in kinds:
        fields: dict[str, object] = {"group": "nobody"}
        if "disk" not in kind:
            fields["client_id"] = "nobody"
        if kind != "chaos":
            fields["times"] = 1
        if kind == "error":
            fields |= {"api": "OffsetCommit", "error": "NOT_COORDINATOR"}
        begun = control.post("/test/faults", kind=kind, **fields)
        assert begun in control.get("/test/faults")["faults"]
        control.ask("DELETE", f"/test/faults/{begun['id']}")
    assert control.ask("DELETE", "/test/faults/1")[0] == 404
    control.post("/test/faults", kind="drop", client_id="nobody")
    control.ask("DELETE", "/test/faults")
    assert control.get("/test/faults") == {"faults": []}
