"""Writes the tables of docs/audit.md from the code: `python -m tests.audit.docs_page`.

A test compares the page with what this would write, so that no column and no check can be missing there.
"""

from __future__ import annotations

import re
from pathlib import Path

from kohort.audit.checks import ALL
from kohort.audit.run.in_a_test import CHECKS, THRESHOLDS
from kohort.audit.tables import AUDIT_RUNS, BASE_TABLES, DERIVED_TABLES, Table

PAGE = Path(__file__).parent.parent.parent / "docs" / "audit.md"
BLOCK = "<!-- {name}: written by tests/audit/docs_page.py -->\n{text}\n<!-- end of {name} -->"


def page(text: str) -> str:
    """The page with its tables as the code says they are."""
    for name, content in (("tables", _tables()), ("checks", _checks()), ("checks in a test", _in_a_test())):
        place = BLOCK.format(name=name, text="(.*?)")
        assert re.search(place, text, re.DOTALL), f"docs/audit.md has no place for {name}"
        made = BLOCK.format(name=name, text=content)
        text = re.sub(place, lambda _, made=made: made, text, flags=re.DOTALL)  # type: ignore[misc]
    return text


def _tables() -> str:
    return "\n\n".join(
        [
            *map(_table, BASE_TABLES),
            *map(_table, DERIVED_TABLES),
            _table(AUDIT_RUNS),
        ]
    )


def _table(table: Table) -> str:
    rows = [f"| `{one.name}` | {_escaped(one.type)} | {_escaped(one.about)} |" for one in table.columns]
    return "\n".join([f"### {table.name}", "", table.about, "", "| column | type | meaning |", "|---|---|---|", *rows])


def _checks() -> str:
    lines = ["| check | severity | what it looks for | thresholds | what to do |", "|---|---|---|---|---|"]
    for check in ALL.values():
        thresholds = ", ".join(f"`{name}={value:g}`" for name, value in check.thresholds.items()) or "-"
        words = [f"`{check.name}`", check.severity, _escaped(check.about), thresholds, _escaped(check.advice)]
        lines.append(f"| {' | '.join(words)} |")
    return "\n".join(lines)


def _in_a_test() -> str:
    lines = ["| check | threshold in a test |", "|---|---|"]
    for name in CHECKS:
        changed = {key: value for key, value in THRESHOLDS.items() if key.startswith(f"{name}.")}
        shown = ", ".join(f"`{key.partition('.')[2]}={value:g}`" for key, value in changed.items())
        lines.append(f"| `{name}` | {shown or '-'} |")
    return "\n".join(lines)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace(">", "&gt;")


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
