"""The page without Spark: what it says at once, what it keeps out, how it copes with little and with strange names."""

from __future__ import annotations

import base64
import json
import re
import zlib
from typing import Any

from kohort.audit.report.details import _shortened
from kohort.audit.report.limits import GENERATIONS
from kohort.audit.report.page import page
from kohort.audit.report.payload import payload
from kohort.audit.report.ranking import THE_END, window
from kohort.audit.report.rows import Gathered

EVIL = "</script><script>alert('x')</script>\u2028{{payload}}"


def data_of(html: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="payload">(.*?)</script>', html, re.DOTALL)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


def detail_of(data: dict[str, Any], group_id: str) -> dict[str, Any]:
    detail: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(data["details"][group_id])))
    return detail


def a_group(group_id: str, **values: Any) -> dict[str, Any]:
    empty = {"group_type": None, "rebalances": 0, "members": None, "partitions": 1, "commits": 3, "rewinds": 0}
    return {"group_id": group_id, **empty, "last": 5, "longest": None, "updates": 0, **values}


def a_finding(**values: Any) -> dict[str, Any]:
    names = "check severity group_id topic partition member_id generation log_partition log_offset time until value"
    return {**dict.fromkeys(names.split()), "message": "seen", "advice": "do this", **values}


def found(check: str, severity: str, group_id: str | None, count: int = 1) -> dict[str, Any]:
    return {"check": check, "severity": severity, "group_id": group_id, "found": count}


def rebalances(count: int) -> list[dict[str, Any]]:
    return [{"log_offset": 10 * number} for number in range(count)]


def test_nothing_at_all_makes_a_page_that_says_so() -> None:
    html = page(payload(Gathered(), {}))
    assert "0 groups with 0 commits and 0 rebalances in 0 log partitions. No checks were run." in html
    assert data_of(html)["groups"] == {"rows": [], "left_out": 0}


def test_the_first_lines_say_what_was_found_even_without_scripts() -> None:
    counts = [
        found("offset_rewind", "critical", "g", 2),
        found("stall", "warning", "g"),
        found("stall", "info", None, 3),
    ]
    results = [{"check": "stall", "status": "found", "severity": "warning", "findings": 4, "threshold": "1",
                "group_id": None, "reason": None}]  # fmt: skip
    html = page(payload(Gathered(finding_counts=counts, check_results=results, group_count=1), {"title": "Night run"}))
    assert "<title>Night run</title>" in html
    assert "The checks found 2 critical findings, 1 warning and 3 notes." in html


def test_names_from_the_log_cannot_leave_the_data() -> None:
    gathered = Gathered(groups=[a_group(EVIL)], group_count=1, detailed=[EVIL])
    html = page(payload(gathered, {"title": EVIL, "path": EVIL}))
    assert "alert('x')</script>" not in html
    assert html.count("<script") == 3, "the theme, the data and the page's own"
    assert data_of(html)["groups"]["rows"][0][0] == EVIL


def test_the_file_loads_nothing() -> None:
    html = page(payload(Gathered(groups=[a_group("g")], group_count=1, detailed=["g"]), {}))
    outside = [
        address for address in re.findall(r"(?:src|href)=\"([^\"]*)\"", html) if not address.startswith(("#", "data:"))
    ]
    assert outside == []
    assert "default-src 'none'" in html
    assert "@import" not in html
    assert "url(http" not in html


def test_the_worst_group_comes_first_then_the_busiest() -> None:
    groups = [a_group("quiet"), a_group("busy", commits=900), a_group("warned"), a_group("broken")]
    counts = [found("x", "warning", "warned", 50), found("y", "critical", "broken", 1)]
    data = payload(Gathered(groups=groups, finding_counts=counts, group_count=4), {})
    assert [row[0] for row in data["groups"]["rows"]] == ["broken", "warned", "busy", "quiet"]


def test_a_rule_shows_its_worst_and_says_how_many_there_are() -> None:
    rows = [a_finding(check="stall", severity="info", time=2), a_finding(check="stall", severity="error", time=1)]
    counts = [found("stall", "error", "g", 700), found("stall", "info", "h", 1)]
    (rule,) = payload(Gathered(findings=rows, finding_counts=counts), {})["findings"]["rules"]
    assert (rule["severity"], rule["count"], rule["groups"], rule["advice"]) == ("error", 701, 2, "do this")
    assert [row[1] for row in rule["rows"]] == ["error", "info"]


def test_what_is_not_evaluable_is_told_once_for_all_its_groups() -> None:
    row = {"check": "stall", "status": "not evaluable", "severity": "error", "findings": 0, "threshold": None,
           "reason": "compacted"}  # fmt: skip
    results = [{**row, "group_id": f"g{number:02}", "reason": f"{number} are gone"} for number in range(30)]
    (told,) = payload(Gathered(check_results=results), {})["not_evaluable"]
    assert (told["reason"], told["groups"], told["examples"][:2]) == ("some are gone", 30, ["g00", "g01"])
    assert len(told["examples"]) < 30


def test_a_long_history_is_drawn_where_it_ends_or_around_its_worst_finding() -> None:
    history = rebalances(2_000)
    assert window([], []) is None
    assert window(rebalances(3), []) == (0, THE_END)
    assert window(history, []) == (10 * (2_000 - GENERATIONS), THE_END)
    old = a_finding(severity="critical", log_offset=5_000)
    late = a_finding(severity="warning", log_offset=19_000)
    first, last = window(history, [late, old]) or (0, 0)
    assert first < 5_000 < last
    assert (last - first) // 10 + 1 == GENERATIONS
    assert window(history, [late]) == window(history, [])


def test_only_the_last_run_is_listed_and_what_failed_in_it_comes_first() -> None:
    columns = ["first_log_offset", "from_log_offset", "end_log_offset", "cleaned_to", "records"]
    row = {**dict.fromkeys(columns, 0), "finished": 9, "problem": None}
    runs = [
        {**row, "run_id": "old", "started": 1, "path": "a", "log_partition": 1},
        {**row, "run_id": "new", "started": 2, "path": "b", "log_partition": 1},
        {**row, "run_id": "new", "started": 2, "path": "c", "log_partition": None, "problem": "no rights"},
    ]
    told = payload(Gathered(runs=runs), {})["runs"]
    assert (told["runs"], [line[0] for line in told["rows"]]) == (2, ["c", "b"])


def test_member_names_are_short_but_still_differ() -> None:
    assert _shortened("billing-096d3737-1234-4123-8123-abcdefabcdef") == "billing-096d3737"
    assert _shortened("kafka-python-3.0.12") == "kafka-python-3.0.12"
    assert len(_shortened("x" * 500)) < 50
