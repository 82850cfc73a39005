"""Makes the HTML file from the data, the style and the scripts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from typing import Any

from kohort.audit.report.details import compact
from kohort.audit.report.rows import SEVERITIES

SCRIPTS = ("dom.js", "colours.js", "charts.js", "group.js", "share.js", "page.js", "health.js")
ASSETS = files("kohort.audit.report") / "assets"


def page(data: Mapping[str, Any]) -> str:
    parts = {
        "title": escape(data["title"]),
        "lead": escape(lead(data)),
        "style": _asset("style.css"),
        "payload": _inside_script(compact(data)),
        "script": '"use strict";\n' + "\n".join(_asset(name) for name in SCRIPTS),
    }
    return re.sub(r"{{(\w+)}}", lambda match: parts[match[1]], _asset("page.html"))


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def _inside_script(text: str) -> str:
    """Escape JSON so that it cannot end its script element, whatever the name of a group is."""
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def lead(data: Mapping[str, Any]) -> str:
    """The summary in two sentences. It is all that is shown if scripts do not run."""
    counts, totals = data["findings"]["counts"], data["totals"]
    found = [f"{counts[name]:,} {_severity_word(name, counts[name])}" for name in SEVERITIES if counts[name]]
    groups, commits, rebalances, parts = (
        _count(totals[f"{noun.replace(' ', '_')}s"], noun) for noun in ("group", "commit", "rebalance", "log partition")
    )
    said = f"The checks found {_listed(found)}." if found else "The checks found nothing wrong."
    if not data["checks"]:
        said = "No checks were run."
    unjudged = len({row["check"] for row in data["not_evaluable"]})
    open_checks = f" {_count(unjudged, 'check')} could not be judged everywhere." if unjudged else ""
    return f"{groups} with {commits} and {rebalances} in {parts}. {said}{open_checks}"


def _severity_word(severity: str, count: int) -> str:
    noun = {"critical": "critical finding", "info": "note"}.get(severity, severity)
    return noun if count == 1 else noun + "s"


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]
