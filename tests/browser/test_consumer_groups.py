"""The report of the story of consumer groups, in a browser: epochs, what is to be revoked, the change of protocols.

SCREENSHOTS=DIR keeps the pictures.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.audit.consumer_story import CLICKS, ORDERS, PARCELS, Told
from tests.browser.chromium import Page, chromium, need_chromium
from tests.browser.pictures import picture_folder


def test_the_report_shows_members_of_kip_848_a_regular_expression_and_a_migration(
    consumer_story: Told, tmp_path: Path
) -> None:
    pytest.importorskip("pyspark")
    need_chromium()
    pictures = picture_folder(tmp_path)
    out = tmp_path / "out"
    command = [str(Path(sys.executable).with_name("kohort")), "audit", str(consumer_story.data), "--out", str(out)]
    made = subprocess.run([*command, "--fail-on", "critical"], capture_output=True, text=True, timeout=300)
    assert made.returncode == 0, made.stdout[-2000:] + made.stderr[-4000:]
    report = out / "report.html"
    with chromium(tmp_path) as browser:
        for group, dark in ((ORDERS, False), (CLICKS, True), (PARCELS, False)):
            with browser.open(f"{report.as_uri()}#group={group}", dark=dark) as page:
                page.until("document.querySelector('details.group[open] svg.chart')")
                look_at(page, group)
                page.screenshot(pictures / f"{group}.png")
                assert page.complaints() == []
                assert [at for at in page.requests() if not at.startswith((report.as_uri(), "data:,"))] == []


def look_at(page: Page, group: str) -> None:
    shown: str = page.run("document.querySelector('details.group[open]').innerText")
    labels: list[str] = page.run(
        "[...document.querySelectorAll('details.group[open] svg text')].map((text) => text.textContent)"
    )
    assert "from the new epoch until every member had its partitions" in shown
    if group == PARCELS:
        for said in ("upgrade to consumer group", "downgrade to classic group", "By generation", "classic rebalances"):
            assert said in shown
        assert "consumer protocol" in labels
        assert "classic protocol" in labels
        return
    assert "By epoch" in shown
    assert "The coordinator assigns partitions of a consumer group itself" in shown
    assert "epoch" in labels, "the ticks of epochs below the owners"
    assert ("session expired" if group == ORDERS else "regular expression matches other topics") in shown
