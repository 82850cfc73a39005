"""The report in a real browser: it draws, it complains of nothing, it asks nobody, and it shows what the tables hold.

SCREENSHOTS=DIR keeps the pictures.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from kohort.audit.report.gather import gather
from kohort.audit.report.page import page as html_page
from kohort.audit.report.payload import payload
from tests.audit.report.example import START_MS, Example
from tests.audit.report.frames import source_without_spark
from tests.audit.report.stories import EVIL, a_troubled_night, many_groups
from tests.browser.chromium import Browser, Page, chromium, need_chromium
from tests.browser.pictures import picture_folder

ABOUT = {"command": "kohort audit /var/lib/kohort/data", "log folders": ["/var/lib/kohort/data"]}


def write(example: Example, report: Path) -> None:
    report.write_text(html_page(payload(gather(source_without_spark(example), {}), ABOUT)), encoding="utf-8")


def open_groups(page: Page, count: int) -> None:
    page.run(
        f"[...document.querySelectorAll('details.group')].slice(0, {count}).forEach((card) => {{ card.open = true; }})"
    )
    page.until(f"document.querySelectorAll('details.group[open] svg.chart').length >= {count}")


def check_that_it_is_quiet(page: Page, report: Path) -> None:
    assert page.complaints() == []
    outside = [address for address in page.requests() if address not in (report.as_uri(), "data:,")]
    assert outside == []


def test_the_report_shows_a_troubled_night(tmp_path: Path) -> None:
    need_chromium()
    pictures = picture_folder(tmp_path)
    night = a_troubled_night()
    report = tmp_path / "report.html"
    write(night, report)
    with chromium(tmp_path) as browser:
        _look_at_it_in_light(browser, report, pictures, [row["message"] for row in night.rows["findings"]])
        _look_at_it_in_dark(browser, report, pictures)


def _look_at_it_in_light(browser: Browser, report: Path, pictures: Path, messages: list[str]) -> None:
    with browser.open(report.as_uri()) as page:
        assert page.run("document.documentElement.dataset.theme") == "light"
        assert page.run("typeof window.alert === 'function' && !document.querySelector('script[src]')")
        page.run("document.querySelectorAll('details.rule').forEach((rule) => { rule.open = true; })")
        page.until("[...document.querySelectorAll('details.rule')].every((rule) => rule.querySelector('table'))")
        page.run("document.querySelectorAll('details.rule .more').forEach((more) => more.click())")
        shown = page.text()
        missing = [message for message in messages if message not in shown]
        assert missing == []
        assert "evil\\x1b[31m\\u{202e}knab\\u{2066}\\u{200b}" in shown
        assert not set(shown) & set(EVIL).difference("evil[31mknab")
        for said in ("orders-billing", "not a log folder", "no broker was named with --baseline", "fraud-scoring"):
            assert said in shown
        page.run("document.querySelectorAll('details.rule').forEach((rule) => { rule.open = false; })")
        open_groups(page, 3)
        _check_the_drawings(page)
        page.screenshot(pictures / "night-light.png")
        check_that_it_is_quiet(page, report)


def _check_the_drawings(page: Page) -> None:
    """Of the worst group: as many colours as members, its rewinds, every assignor of the what-if."""
    card = "document.querySelector('details.group[data-group=\"orders-billing\"]')"
    members = page.run(f"new Set([...{card}.querySelectorAll('rect.own')].map((bar) => bar.classList[1])).size")
    colours = page.run(
        f"new Set([...{card}.querySelectorAll('rect.own')].map((bar) => bar.style.fill).filter((fill) => fill)).size"
    )
    assert members == colours > 20
    assert page.run(f"{card}.querySelectorAll('g.rewind').length") == 5
    table = page.run(f"{card}.querySelector('.whatif').innerText")
    for assignor in ("range (the group's own)", "roundrobin", "sticky", "cooperative-sticky", "as it was"):
        assert assignor in table
    assert page.run(f"[...{card}.querySelectorAll('svg.chart')].every((drawing) => drawing.getAttribute('aria-label'))")
    page.run(f"[...{card}.querySelectorAll('.chip')].find((chip) => chip.textContent === 'By time').click()")
    assert page.run(f"{card}.querySelectorAll('rect.own').length") > members
    page.run(f"[...{card}.querySelectorAll('.chip')].find((chip) => chip.textContent === 'By generation').click()")


def _look_at_it_in_dark(browser: Browser, report: Path, pictures: Path) -> None:
    with browser.open(report.as_uri() + "#group=fraud-scoring", dark=True) as page:
        assert page.run("document.documentElement.dataset.theme") == "dark"
        page.until("document.querySelector('details.group[open] svg.chart')")
        assert page.run("document.querySelector('details.group[open]').dataset.group") == "fraud-scoring"
        open_groups(page, 1)
        page.screenshot(pictures / "night-dark.png")
        page.size(420, 900)
        page.until("document.body.clientWidth === 420")
        assert page.run("document.documentElement.scrollWidth") == 420, "nothing sticks out on a telephone"
        page.screenshot(pictures / "night-narrow.png")
        page.run("document.getElementById('theme').click()")
        assert page.run("document.documentElement.dataset.theme") == "light"
        assert page.complaints() == []


def test_ten_thousand_groups_are_ranked_and_searched(tmp_path: Path) -> None:
    need_chromium()
    pictures = picture_folder(tmp_path)
    report = tmp_path / "report.html"
    write(many_groups(10_000), report)
    assert report.stat().st_size < 3_000_000
    with chromium(tmp_path) as browser, browser.open(report.as_uri()) as page:
        assert page.run("groups.length") == 10_000
        assert page.run("document.querySelectorAll('details.group').length") == 40, "the rest is shown when asked for"
        assert page.run("document.querySelector('details.group .badge.error') !== null"), "the worst come first"
        _search(page, "mail-00003")
        assert page.run("[...document.querySelectorAll('details.group')].map((card) => card.dataset.group)") == [
            "service-003-mail-00003"
        ]
        page.run("document.querySelector('details.group').open = true")
        page.until("document.querySelector('details.group .empty')")
        assert "kohort audit PATH --group 'service-003-mail-00003'" in page.text()
        _search(page, "no such group")
        assert "No group matches." in page.text()
        _search(page, "")
        open_groups(page, 1)
        page.screenshot(pictures / "ten-thousand.png")
        check_that_it_is_quiet(page, report)


def test_groups_called_like_properties_of_every_object_are_groups_as_others(tmp_path: Path) -> None:
    need_chromium()
    report = tmp_path / "report.html"
    example = many_groups(150)
    example.generations("__proto__", {"events": 6}, rebalances=400)
    inherited = ("constructor", "toString", "hasOwnProperty", "valueOf", "it's; true 'here'")
    for name in inherited:  # with fewer commits than the others, so that the page has no drawings of them
        example.add(
            "partition_facts", group_id=name, topic="events", partition=0, log_partition=0, commits=0, tombstones=0,
            first_time=START_MS, last_time=START_MS, first_offset=1, last_offset=1, max_offset=1, rewinds=0,
        )  # fmt: skip
    write(example, report)
    with chromium(tmp_path) as browser, browser.open(report.as_uri()) as page:
        for name in inherited:
            _search(page, name)
            page.run("document.querySelector('details.group').open = true")
            page.until("document.querySelector('details.group .empty')")
            assert _command(page) == ["kohort", "audit", "PATH", "--group", name]
        _search(page, "__proto__")
        open_groups(page, 1)
        check_that_it_is_quiet(page, report)


def _search(page: Page, text: str) -> None:
    field = "document.querySelector('#groups input[type=search]')"
    page.run(f"{field}.value = {json.dumps(text)}; {field}.dispatchEvent(new Event('input'))")


def _command(page: Page) -> list[str]:
    """The words of the command that the page offers for a group without drawings, as a shell reads them."""
    return shlex.split(page.run("document.querySelector('details.group .empty code').textContent"))
