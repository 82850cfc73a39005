"""The live page in a real browser, against a running broker: it follows, it can be searched, it complains of nothing
and asks nobody else. SCREENSHOTS=DIR keeps the pictures.

How soon it follows, and how smoothly 10,000 groups scroll, is measured by benchmarks/live_page.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kohort.client.client import Client
from kohort.protocol.api_keys import ApiKey
from tests.browser.chromium import Browser, Page, chromium, need_chromium
from tests.browser.pictures import picture_folder
from tests.clients.kohort import KohortProcess
from tests.live.members import ClassicMember, Consumer, ShareMember, commit, make_topic, produce, settle
from tests.live.test_live_api import page_of
from tests.share_requests import share_fetch_request

GROUPS = 3_000
ATTACKS = {
    "markup": "<img src=x onerror=\"window.attacked='markup'\"><script>window.attacked='script'</script>",
    "marks": "abc\u202egnp.exe\u2066\u200f",
    "controls": "bell\x07 esc\x1b[31m null\x00 line\nbreak\u2028",
    "address": "../../api/groups?x=1&y=#/group/%2e%2e/",
    "braces": "{{constructor.constructor('window.attacked=1')()}}${1+1}",
    "long": "g" * 30_000,
}


class Stage:
    """A broker with a few groups that live, some with bad names, and many that are at rest."""

    def __init__(self, process: KohortProcess) -> None:
        self.page = page_of(process)
        self.client = Client(process.address)
        client = self.client
        for topic in ("orders", "clicks"):
            make_topic(client, topic, 8)
            for partition in range(8):
                produce(client, topic, partition, 100 + partition)
        self.billing = [Consumer(client, "billing", f"billing-{number}", ["orders"]) for number in (1, 2)]
        settle(*self.billing)
        self.billing[0].commit("orders", dict.fromkeys(range(8), 50))
        ClassicMember(client, "ledger", {"orders": [0, 1, 2]}, instance="ledger-host")
        self.sharers = self._share("workers", ["clicks"])
        for name in ATTACKS.values():
            commit(client, name, "orders", {0: 1}, metadata=name[:4_000])
        Consumer(client, "attacked members", ATTACKS["markup"], ["orders"])
        for number in range(GROUPS):
            commit(client, f"rest-{number:05d}", "orders", {number % 8: number % 100})

    def _share(self, group: str, topics: list[str]) -> list[ShareMember]:
        """Two members; they get partitions when states of these have been made."""
        members = [ShareMember(self.client, group, f"worker-{number}", topics) for number in (1, 2)]
        while len({place for each in members for place in each.assigned}) < 8:
            for each in members:
                each.beat()
        return members


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    need_chromium()
    settings = {
        "kohort.http.port": "0", "group.initial.rebalance.delay.ms": "0", "group.consumer.assignment.interval.ms": "0",
        "group.share.assignment.interval.ms": "0", "kohort.offsets.sync.before.reply": "false",
    }  # fmt: skip
    with KohortProcess(tmp_path_factory.mktemp("live"), **settings) as process:
        made = Stage(process)
        with made.client:
            yield made


@pytest.fixture(scope="module")
def browser(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("chromium")) as opened:
        yield opened


def is_quiet(page: Page, stage: Stage) -> None:
    assert page.complaints() == []
    assert [at for at in page.requests() if not at.startswith(stage.page)] == []
    assert page.run("window.attacked === undefined")


def type_in(page: Page, text: str) -> None:
    for char in text:
        press(page, char)


def press(page: Page, key: str) -> None:
    text = {"text": key} if len(key) == 1 else {}
    page.ask("Input.dispatchKeyEvent", {"type": "keyDown", "key": key, **text})
    page.ask("Input.dispatchKeyEvent", {"type": "keyUp", "key": key})


def all_groups(page: Page) -> None:
    page.until(f"document.querySelector('.count')?.textContent.startsWith('{GROUPS + 4 + len(ATTACKS):,} groups')")


ROWS = "[...document.querySelectorAll('.list .row:not([hidden])')]"


def test_all_groups_are_shown_though_few_are_in_the_page(stage: Stage, browser: Browser, tmp_path: Path) -> None:
    with browser.open(f"{stage.page}/") as page:
        all_groups(page)
        assert page.run(f"{ROWS}.length") < 60
        page.run("document.querySelector('.list').scrollTop = 1e9")
        page.until(f"{ROWS}.some((row) => row.textContent.includes('workers'))")
        page.screenshot(picture_folder(tmp_path) / "live-many.png", whole=False)
        is_quiet(page, stage)


def test_groups_are_searched_sorted_and_opened_with_the_keyboard(stage: Stage, browser: Browser) -> None:
    with browser.open(f"{stage.page}/") as page:
        all_groups(page)
        press(page, "/")
        type_in(page, "REST -0299")
        page.until("document.querySelector('.count')?.textContent.startsWith('10 of')")
        page.run("[...document.querySelectorAll('button.head')].find((head) => head.textContent === 'Lag').click()")
        first = f"{ROWS}.sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top)[0].textContent"
        page.until(f"{first}.includes('rest-02990')")
        page.run("document.getElementById('search').focus()")
        press(page, "Escape")
        type_in(page, "billing")
        page.until("document.querySelector('.count')?.textContent.startsWith('1 of')")
        press(page, "ArrowDown")
        press(page, "Enter")
        page.until("location.hash === '#/group/billing' && document.querySelector('h1')?.textContent === 'billing'")
        page.until("document.querySelectorAll('.timeline li').length > 1")
        press(page, "Escape")
        page.until("location.hash === '#/'")
        page.until("document.getElementById('search')?.value === 'billing'")
        is_quiet(page, stage)


def test_a_rebalance_is_shown_as_it_happens_on_the_page_of_the_group(stage: Stage, browser: Browser) -> None:
    with browser.open(f"{stage.page}/#/group/billing") as page:
        page.until("document.querySelectorAll('.timeline li[data-over=\"true\"]').length === 2")
        third = Consumer(stage.client, "billing", "billing-3", ["orders"])
        settle(*stage.billing, third)
        page.until("document.querySelectorAll('.timeline li[data-over=\"true\"]').length === 3")
        assert "Member joined" in page.run("document.querySelector('.timeline li').innerText")
        page.until("document.querySelectorAll('.members .row:not([hidden])').length === 3")
        third.leave()
        settle(*stage.billing)
        page.until("document.querySelectorAll('.timeline li[data-over=\"true\"]').length === 4")
        is_quiet(page, stage)


def test_a_rebalance_is_shown_as_it_happens_among_all_groups(stage: Stage, browser: Browser) -> None:
    with browser.open(f"{stage.page}/") as page:
        all_groups(page)
        search(page, "billing")
        page.until(f"{ROWS}.length === 1")
        third = Consumer(stage.client, "billing", "billing-3", ["orders"])
        settle(*stage.billing, third)
        page.until(f"{ROWS}[0].querySelector('.cell.members').textContent === '3'")
        third.leave()
        settle(*stage.billing)
        page.until(f"{ROWS}[0].querySelector('.cell.members').textContent === '2'")
        is_quiet(page, stage)


@pytest.mark.parametrize("dark", [False, True])
def test_groups_of_all_types_are_drawn(stage: Stage, browser: Browser, tmp_path: Path, dark: bool) -> None:
    for name, rows in (("billing", 8), ("ledger", 3), ("workers", 8)):
        with browser.open(f"{stage.page}/#/group/{name}", dark=dark) as page:
            label = f"Owners of {rows} partitions over time"
            page.until(f"document.querySelector('canvas')?.getAttribute('aria-label') === '{label}'")
            page.until("document.querySelectorAll('.partitions .row:not([hidden])').length > 2")
            assert page.run("document.documentElement.dataset.theme") == ("dark" if dark else "light")
            assert page.run(DRAWN), "nothing is drawn in the strip"
            page.screenshot(picture_folder(tmp_path) / f"live-{name}-{'dark' if dark else 'light'}.png")
            is_quiet(page, stage)


def test_a_share_group_shows_what_became_of_its_records(stage: Stage, browser: Browser, tmp_path: Path) -> None:
    rows = "[...document.querySelectorAll('.deliveries .row:not([hidden])')].map((row) => row.textContent)"
    with browser.open(f"{stage.page}/#/group/workers") as page:
        page.until("document.querySelectorAll('.partitions:not(.deliveries) .row:not([hidden])').length === 8")
        assert page.run("document.querySelector('.deliveries').parentElement.hidden"), "nobody has fetched yet"
        member = stage.sharers[0]
        (fetched, *_) = (number for _, number in member.assigned)
        place, ids = ("clicks", fetched), {"clicks": member.topic_id}.__getitem__
        produce(stage.client, "clicks", fetched, 5)  # while nothing was fetched, the group begins at the end
        fetch = share_fetch_request("workers", "worker-1", 0, [place], id_of=ids, max_wait_ms=1)
        stage.client.send(ApiKey.SHARE_FETCH, fetch, 2)
        produce(stage.client, "clicks", fetched, 5)
        fetch = share_fetch_request("workers", "worker-1", 1, id_of=ids)
        assert stage.client.send(ApiKey.SHARE_FETCH, fetch, 2).responses[0].partitions[0].acquired_records
        page.until(f"{rows}.join() === 'clicks{fetched}5500000'")
        page.screenshot(picture_folder(tmp_path) / "live-deliveries.png")
        is_quiet(page, stage)


DRAWN = """(() => {
  const canvas = document.querySelector('canvas');
  const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  const seen = new Set();
  for (let at = 0; at < data.length; at += 4) {
    if (data[at + 3] === 255) seen.add(`${data[at]} ${data[at + 1]} ${data[at + 2]}`);
  }
  return seen.size > 5;
})()"""


def search(page: Page, text: str) -> None:
    page.run(f"document.getElementById('search').value = '{text}'")
    page.run("document.getElementById('search').dispatchEvent(new Event('input'))")


SHOWN = (
    ("onerror", "<img src=x"),
    ("gnp", "abc\\u{202e}gnp"),
    ("esc", "bell\\x07 esc\\x1b[31m null\\x00 line\\x0abreak\\u{2028}"),
    ("api/groups", "../../api/groups?x=1&y=#"),
    ("constructor", "{{constructor"),
    ("ggg", "(30,000 characters)"),
)


def test_names_that_attack_are_shown_harmlessly(stage: Stage, browser: Browser, tmp_path: Path) -> None:
    with browser.open(f"{stage.page}/") as page:
        all_groups(page)
        for part, named in SHOWN:
            search(page, part)
            page.until(f"{ROWS}.length === 1 && {ROWS}[0].textContent.includes({json.dumps(named)})")
            page.run(f"{ROWS}[0].querySelector('.name').click()")
            page.until("document.querySelectorAll('.partitions .row:not([hidden])').length === 1")
            assert named in page.run("document.querySelector('h1').textContent")
            is_quiet(page, stage)
            page.run("location.hash = '#/'")
            page.until("document.getElementById('search') !== null")
    with browser.open(f"{stage.page}/#/group/attacked members") as page:
        page.until("document.querySelector('.members .row:not([hidden])')")
        assert "<img src=x" in page.run("document.querySelector('.members .cell.member').textContent")
        page.screenshot(picture_folder(tmp_path) / "live-attacked.png")
        is_quiet(page, stage)


def test_partitions_are_sorted_by_lag_and_owners_have_a_legend(stage: Stage, browser: Browser) -> None:
    with browser.open(f"{stage.page}/#/group/billing") as page:
        page.until("document.querySelectorAll('.partitions .row:not([hidden])').length === 8")
        page.run("document.querySelector('.partitions button.head.lag').click()")
        lags = """[...document.querySelectorAll('.partitions .row:not([hidden])')]
          .sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top)
          .map((row) => Number(row.querySelector('.cell.lag').textContent)).join()"""
        page.until(f"{lags} === '57,56,55,54,53,52,51,50'")
        names = page.run("[...document.querySelectorAll('.legend .key bdi')].map((each) => each.textContent)")
        assert {"kohort-cli · billing-1", "kohort-cli · billing-2"} <= set(names)
        is_quiet(page, stage)


def test_lag_is_judged_and_a_search_without_result_says_so(stage: Stage, browser: Browser) -> None:
    with browser.open(f"{stage.page}/#/group/rest-00001") as page:
        page.until("document.querySelector('.verdict')?.textContent.startsWith('nobody reads')")
        page.run("location.hash = '#/group/attacked%20members'")
        page.until("document.querySelector('.verdict')?.textContent.includes('has not committed anything yet')")
        page.run("location.hash = '#/'")
        all_groups(page)
        search(page, "no such group")
        page.until("!document.querySelector('.none').hidden")
        page.run("document.querySelector('.none button').click()")
        all_groups(page)
        is_quiet(page, stage)


TREND = """import('/live/trend.js').then(({ Trend }) => {
  const told = { known: new Trend(), saw: new Trend(), grows: new Trend(), falls: new Trend() };
  told.known.tell(0, 100);
  for (let second = 0; second <= 60; second += 1) {
    told.saw.tell(second * 1000, 5 + second % 5 * 100);
    told.grows.tell(second * 1000, second * 30 + second % 5 * 100);
    told.falls.tell(second * 1000, 10_000 - second * 50);
  }
  return Object.fromEntries(Object.entries(told).map(([name, trend]) => [name, trend.perSecond()]));
})"""


def test_the_trend_of_lag_is_that_of_its_troughs(stage: Stage, browser: Browser) -> None:
    with browser.open(f"{stage.page}/") as page:
        assert page.run(TREND) == {"known": None, "saw": 0, "grows": 30, "falls": -50}


@pytest.mark.parametrize("dark", [False, True])
def test_who_brings_the_token_comes_to_the_group_that_was_asked_for(
    browser: Browser, tmp_path: Path, dark: bool
) -> None:
    token = f"the token of this test: {dark}"
    with KohortProcess(tmp_path, **{"kohort.http.port": "0", "kohort.http.token": token}) as process:
        address = page_of(process)
        with Client(process.address) as client:
            commit(client, "one", "t", {0: 1})
        with browser.open(f"{address}/#/group/one", dark=dark) as page:
            for given, answer in (("wrong", "This is not the token."), (token, "one")):
                page.screenshot(picture_folder(tmp_path) / f"live-login-{given[:5]}.png")
                page.run(f"document.getElementById('token').value = '{given}'")
                page.run("document.querySelector('form').requestSubmit()")
                look = "document.querySelector('.wrong:not([hidden]), h1 bdi')?.textContent"
                page.wait_until(f"{look} === '{answer}' && document.readyState === 'complete'")
            assert page.run("location.hash") == "#/group/one"
            assert page.run("document.documentElement.dataset.theme") == ("dark" if dark else "light")


def test_a_broker_that_goes_away_is_said_to_be_gone_and_found_again(browser: Browser, tmp_path: Path) -> None:
    settings = {"kohort.http.port": "0"}
    with KohortProcess(tmp_path, **settings) as process:
        address = page_of(process)
        with Client(process.address) as client:
            commit(client, "one", "t", {0: 1})
        page = browser.open(f"{address}/")
        page.until("document.getElementById('link').dataset.state === 'live'")
    with page:
        page.until("document.getElementById('link').dataset.state === 'lost'")
        with KohortProcess(tmp_path, **{"kohort.http.port": address.rpartition(":")[2]}):
            page.until("document.getElementById('link').dataset.state === 'live'")
