"""The Grafana dashboard: every query names metrics and labels that a broker tells."""

from __future__ import annotations

import json
import re
from pathlib import Path

from kohort.client.client import Client
from tests.clients.kohort import KohortProcess
from tests.live.members import ClassicMember, Consumer, commit, make_topic, settle
from tests.live.test_live_api import page_of
from tests.live.web import ask

DASHBOARD = Path(__file__).parents[2] / "docs" / "grafana-dashboard.json"
FUNCTIONS = {"sum", "max", "rate", "increase", "histogram_quantile", "by", "le", "label_values"}


def queries() -> list[str]:
    board = json.loads(DASHBOARD.read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return asked + [each["query"]["query"] for each in board["templating"]["list"] if each["type"] == "query"]


def scraped(text: str) -> dict[str, set[str]]:
    """Metric: its labels. Metrics without a value yet have those of their help text alone."""
    told: dict[str, set[str]] = {name: set() for name in re.findall(r"^# TYPE (\w+)", text, re.MULTILINE)}
    for line in text.splitlines():
        if found := re.match(r"(\w+)(?:\{(.*)\})? ", line):
            told.setdefault(found[1], set()).update(re.findall(r'(\w+)="', found[2] or ""))
    return told


def test_every_query_of_the_dashboard_asks_for_what_is_scraped(tmp_path: Path) -> None:
    settings = {"kohort.http.port": "0", "group.initial.rebalance.delay.ms": "0"}
    with KohortProcess(tmp_path, **settings) as process, Client(process.address) as client:
        make_topic(client, "t", 2)
        settle(Consumer(client, "new", "m", ["t"]))
        ClassicMember(client, "old", {"t": [0, 1]}).leave()
        commit(client, "plain", "t", {0: 1})
        told = scraped(ask(f"{page_of(process)}/metrics").body.decode())
    assert len(queries()) > 20
    for query in queries():
        names = re.findall(r"\bkohort_\w+", query)
        assert names, query
        for name in names:
            assert name in told, f"{query}: {name} is not scraped"
        asked = {
            label
            for labels in re.findall(r"\{(.*?)\}", query)
            for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", labels)
        }
        asked |= {each.strip() for each in re.findall(r"label_values\(\w+, (\w+)\)", query)}
        asked |= {each.strip() for listed in re.findall(r"by \(([^)]*)\)", query) for each in listed.split(",")}
        for label in asked:
            assert any(label in told[name] for name in names) or _has_no_values(told, names), (
                f"{query}: no label {label}"
            )
        unknown = set(re.findall(r"\b[a-z_]+(?= ?\()", query)) - FUNCTIONS
        assert not unknown, query


def _has_no_values(told: dict[str, set[str]], names: list[str]) -> bool:
    """As those of share groups, where there are none: their labels cannot be seen."""
    return not any(told[name] for name in names)
