"""The report of share groups, in a browser: members, progress, what came back and what was given up.

SCREENSHOTS=DIR keeps the pictures.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

from kohort.audit.checks import ALL
from kohort.audit.decode.schemas import schema
from kohort.audit.report.gather import gather
from kohort.audit.report.page import page as html_page
from kohort.audit.report.payload import payload
from kohort.audit.report.source import Source
from kohort.coordinator.share_state.headers import Cause
from tests.audit.checks.audited import check_tables, tables_of
from tests.audit.checks.planted_share import SECOND, a_topic_is_deleted_and_the_offsets_are_set_back, rolling_restart
from tests.audit.logs import Group, Logs
from tests.audit.share_groups import ACKNOWLEDGED, AVAILABLE, ShareState, assigned, joined, left
from tests.browser.chromium import Page, chromium, need_chromium
from tests.browser.pictures import picture_folder

MINUTE = 60 * SECOND


def invoices(group: Group) -> None:
    """Three members, one of them slow; a record that nobody can process; a member that keeps one for long."""
    for who in ("m-1", "m-2", "slow"):
        joined(group, who, ["invoices-0", "invoices-1"])
    one, other = ShareState(group, "invoices-0"), ShareState(group, "invoices-1")
    one.snapshot(0)
    other.snapshot(1_000)
    at = 0
    for turn in range(60):
        if turn == 30:
            joined(group, "m-3", ["invoices-1"])
            assigned(group, "m-1", ["invoices-0"])
        if turn == 45:
            left(group, "m-2")
        if turn % 3 == 0:
            one.at(at).returned(at, at + 9, 1, Cause.LOCK_TIMEOUT, by="slow")
        one.at(at).accept(at, at + 39, by=f"m-{turn % 2 + 1}", deliveries=2)
        at += 40
        stands = 1_000 + min(turn, 20) * 20
        if turn < 20 or turn % 8:
            other.at(stands).update(
                (1_000 + turn * 20 + (1 if turn >= 20 else 0), 1_019 + turn * 20, ACKNOWLEDGED, 1), by="m-1"
            )
        else:
            other.at(stands).returned(stands, stands, min(4, turn // 8 - 1), Cause.RELEASE, by="m-2")
        group.later(28 * SECOND)
    other.archive(1_400, 1_400, 5, Cause.LOCK_TIMEOUT, by="slow")
    other.at(2_200).update((2_200, 2_204, AVAILABLE, 1), cause=Cause.SESSION_CLOSED, by="m-1")


def write_report(tmp_path: Path) -> Path:
    logs = Logs(tmp_path / "data")
    invoices(logs.group("invoices-workers"))
    rolling_restart(logs.group_in(3, "restart"))
    a_topic_is_deleted_and_the_offsets_are_set_back(logs.group_in(4, "set-back"))
    joined(logs.group("members-only <b>"), "m1", ["x-0"], named=False)
    ShareState(logs.group("progress-only"), "y-0").snapshot(7)
    tables = tables_of(logs.close())
    findings, results = check_tables(tables)
    told = {
        name: pa.Table.from_pylist(rows, schema=schema(name))
        for name, rows in (("findings", findings), ("check_results", results))
    }
    source = Source({name: ds.dataset(table) for name, table in {**tables, **told}.items()})
    report = tmp_path / "report.html"
    data = payload(gather(source, {name: check.about for name, check in ALL.items()}), {"log folders": ["data"]})
    report.write_text(html_page(data), encoding="utf-8")
    return report


def test_the_report_shows_members_and_progress_of_share_groups(tmp_path: Path) -> None:
    need_chromium()
    pictures = picture_folder(tmp_path)
    report = write_report(tmp_path)
    with chromium(tmp_path) as browser:
        for dark in (False, True):
            with browser.open(f"{report.as_uri()}#group=invoices-workers", dark=dark) as page:
                page.until("document.querySelector('details.group[open] svg.chart rect.own')")
                look_at_the_busy_one(page)
                page.screenshot(pictures / f"share-{'dark' if dark else 'light'}.png")
                page.run("document.querySelectorAll('details.group').forEach((card) => { card.open = true; })")
                page.until("[...document.querySelectorAll('details.group')].every((card) => card.querySelector('h3'))")
                shown = page.text()
                for said in (
                    "this group: only its progress was read", "Nothing in __share_group_state was read",
                    "members-only <b>", "5 members", "share group",
                ):  # fmt: skip
                    assert said in shown
                page.screenshot(pictures / f"share-all-{'dark' if dark else 'light'}.png")
                assert page.complaints() == []
                assert [at for at in page.requests() if not at.startswith((report.as_uri(), "data:,"))] == []


def look_at_the_busy_one(page: Page) -> None:
    card = "document.querySelector('details.group[data-group=\"invoices-workers\"]')"
    assert page.run(f"new Set([...{card}.querySelectorAll('rect.own')].map((bar) => bar.style.fill)).size") == 4
    assert page.run(f"{card}.querySelectorAll('.multiples figure').length") == 2
    assert page.run(f"{card}.querySelectorAll('rect.fate').length") > 10
    shown: str = page.run(f"{card}.innerText")
    for said in ("offset 1400 was given up after 5 deliveries", "locks expired", "stood still at 1400", "invoices-1"):
        assert said in shown
