"""What `make audit` makes: its report, in a browser, shows each incident that the sample has planted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.chromium import Page, chromium, need_chromium
from tests.browser.pictures import picture_folder
from tests.conftest import AuditSample

PLANTED = {
    "offset_rewind": "billing",
    "rebalance_storm": "shipping",
    "commit_by_non_owner": "index",
    "idle_members": "search",
    "static_member_with_many_ids": "press",
    "crc_mismatch": None,  # in the log partition of `attic`, which cannot be read there
    "torn_tail": None,
}


def test_the_report_of_the_sample_shows_what_was_planted(audit_sample: AuditSample, tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    need_chromium()
    pictures = picture_folder(tmp_path)
    report = audit_sample.folder / "report.html"
    assert str(report) in audit_sample.printed
    with chromium(tmp_path) as browser:
        for dark in (False, True):
            with browser.open(report.as_uri(), dark=dark) as page:
                page.run("document.querySelectorAll('details.rule').forEach((rule) => { rule.open = true; })")
                page.until(
                    "[...document.querySelectorAll('details.rule')].every((rule) => rule.querySelector('table'))"
                )
                missing = [check for check, group in PLANTED.items() if not _shows(page, check, group)]
                assert missing == []
                page.run("document.querySelectorAll('details.group').forEach((card) => { card.open = true; })")
                page.until("document.querySelectorAll('details.group rect.own').length > 0")
                page.screenshot(pictures / f"sample-{'dark' if dark else 'light'}.png")
                assert page.complaints() == []
                assert [address for address in page.requests() if address not in (report.as_uri(), "data:,")] == []


def _shows(page: Page, check: str, group: str | None) -> bool:
    """Whether the rule is among the findings, with a link to the group."""
    rule = f"document.getElementById('rule-{check}')"
    shown: bool = page.run(
        f"Boolean({rule}) && {rule}.innerText.length > 20"
        + (f" && [...{rule}.querySelectorAll('a')].some((link) => link.textContent === '{group}')" if group else "")
    )
    return shown
