"""What the HTTP port costs a broker with 10,000 members, with a page open and metrics scraped; and how the page feels.

    python -m benchmarks.live_page [--members 10000] [--seconds 20] [--rounds 3]
    python -m benchmarks.live_page --browser

Two brokers have the same members, each with a connection to itself and a heartbeat every three seconds. One of them has
the HTTP port open, the overview and a group watched, and metrics scraped every five seconds. They take turns. With
--browser: 10,000 groups in Chromium, scrolled, sorted and searched, and how soon a rebalance is shown.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
from contextlib import ExitStack
from http.client import HTTPConnection
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from threading import Event, Thread
from time import perf_counter
from typing import TYPE_CHECKING, Self

from benchmarks.broker import Broker, own_broker
from benchmarks.groups import OVERRIDES, wait_for_coordinator
from benchmarks.members import Sender, heartbeats, join_all

if TYPE_CHECKING:
    from kohort.client.client import Client
    from tests.browser.chromium import Page
    from tests.live.members import Consumer

SCRAPE_EVERY_S = 5.0
SESSION_MS = 600_000  # the members of one broker are silent while those of the other are measured
GROUPS = 10_000
LONG_TASKS = """
window.longest = 0; window.gaps = [];
new PerformanceObserver((list) => {
  for (const each of list.getEntries()) window.longest = Math.max(window.longest, each.duration);
}).observe({ entryTypes: ['longtask'] });
let last = performance.now();
const beat = (now) => { window.gaps.push(now - last); last = now; requestAnimationFrame(beat); };
requestAnimationFrame(beat);
"""
SCROLL = """new Promise((done) => {
  const list = document.querySelector('.list');
  let at = 0;
  const step = () => { list.scrollTop = at += 700; at < list.scrollHeight ? requestAnimationFrame(step) : done(true); };
  step();
})"""
TWO_FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


class Watcher(Thread):
    """Reads a stream of the page, as a browser does."""

    def __init__(self, port: int, path: str) -> None:
        super().__init__(daemon=True)
        self.bytes = 0
        self._connection = HTTPConnection("127.0.0.1", port, timeout=60)
        self._connection.request("GET", path)
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200, self._answer.read()
        self.stopping = False

    def run(self) -> None:
        try:
            while not self.stopping and (data := self._answer.read1(65_536)):
                self.bytes += len(data)
        except (OSError, ValueError, AttributeError):  # it was closed under us
            pass

    def stop(self) -> None:
        self.stopping = True
        self._connection.close()


class Scraper(Thread):
    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._stop_now = Event()
        self.sizes: list[int] = []

    def run(self) -> None:
        while not self._stop_now.wait(SCRAPE_EVERY_S):
            connection = HTTPConnection("127.0.0.1", self._port, timeout=60)
            connection.request("GET", "/metrics")
            self.sizes.append(len(connection.getresponse().read()))
            connection.close()

    def stop(self) -> None:
        self._stop_now.set()


class Crowd:
    """The members of one broker, each with a connection to itself: as a process, for its many descriptors."""

    def __init__(self, broker: Broker, members: int) -> None:
        self._pipe, other = Pipe()
        self._process = Process(target=_be_a_crowd, args=(broker, members, other), daemon=True)
        self._process.start()
        assert self._pipe.recv() == "joined"

    def cpu_per_heartbeat(self, seconds: float) -> tuple[float, float]:
        """Microseconds of the broker's CPU, and its share of a core."""
        self._pipe.send(seconds)
        told: tuple[float, float] = self._pipe.recv()
        return told

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.send(None)
        self._process.join()


def _be_a_crowd(broker: Broker, members: int, pipe: Connection) -> None:
    with ExitStack() as opened:
        senders = join_all(broker, members, opened, SESSION_MS, members_per_connection=1)
        pipe.send("joined")
        while (seconds := pipe.recv()) is not None:
            pipe.send(cpu_per_heartbeat(broker, senders, seconds))


def cpu_per_heartbeat(broker: Broker, senders: list[Sender], seconds: float) -> tuple[float, float]:
    before, began, sent, failed = broker.cpu_s(), perf_counter(), 0, 0
    for sent, failed in heartbeats(senders, seconds):  # noqa: B007
        assert not failed
    took, used = perf_counter() - began, broker.cpu_s() - before
    return used / sent * 1e6, used / took


def cost(members: int, seconds: float, rounds: int) -> None:
    port = 19_480
    with ExitStack() as opened:
        plain = opened.enter_context(own_broker(OVERRIDES))
        watched = opened.enter_context(own_broker((*OVERRIDES, f"kohort.http.port={port}")))
        for broker in (plain, watched):
            wait_for_coordinator(broker, "storm-0")
        crowd = opened.enter_context(Crowd(plain, members))
        watched_crowd = opened.enter_context(Crowd(watched, members))
        results: dict[str, list[tuple[float, float]]] = {"without": [], "port open": [], "page and metrics": []}
        for number in range(rounds):
            results["without"].append(crowd.cpu_per_heartbeat(seconds))
            results["port open"].append(watched_crowd.cpu_per_heartbeat(seconds))
            threads: list[Watcher | Scraper] = [
                Watcher(port, "/api/watch"),
                Watcher(port, "/api/watch/storm-0"),
                Scraper(port),
            ]
            for thread in threads:
                thread.start()
            results["page and metrics"].append(watched_crowd.cpu_per_heartbeat(seconds))
            for thread in threads:
                thread.stop()
            print(f"round {number + 1}: " + ", ".join(f"{name} {told[-1][0]:.2f} us" for name, told in results.items()))
        base = median(each for each, _ in results["without"])
        for name, told in results.items():
            each, share = median(one for one, _ in told), median(part for _, part in told)
            print(f"{name:<18} {each:6.2f} us of CPU a heartbeat, {share:.1%} of a core, {each / base - 1:+.1%}")


def report(page: Page, what: str) -> None:
    page.run("new Promise((done) => setTimeout(done, 300))")
    gaps = sorted(page.run("window.gaps"))
    longest = page.run("window.longest")
    page.run("(() => { window.gaps = []; window.longest = 0; })()")
    task = f"{longest:.0f} ms" if longest else "under 50 ms"
    print(f"{what}: longest task {task}, frames {gaps[int(len(gaps) * 0.99)]:.0f} ms (99 %), {gaps[-1]:.0f} ms at most")


def feel() -> None:
    """Pauses while 10,000 groups are scrolled, sorted and searched; and the delay of a rebalance."""
    from kohort.client.client import Client
    from tests.browser.chromium import chromium
    from tests.clients.kohort import KohortProcess
    from tests.live.members import Consumer, commit, make_topic, settle
    from tests.live.test_live_api import page_of

    settings = {"kohort.http.port": "0", "group.consumer.assignment.interval.ms": "0"}
    settings |= {"kohort.offsets.sync.before.reply": "false"}
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        process = opened.enter_context(KohortProcess(folder, **settings))
        client = opened.enter_context(Client(process.address))
        browser = opened.enter_context(chromium(folder))
        address = page_of(process)
        make_topic(client, "t", 4)
        first = Consumer(client, "busy", "first", ["t"])
        settle(first)
        for number in range(GROUPS - 1):
            commit(client, f"group-{number:05d}", "t", {number % 4: number % 50})
        with browser.open(f"{address}/") as page:
            _use(page)
        with browser.open(f"{address}/#/group/busy") as page:
            page.until("document.querySelectorAll('.timeline li').length === 1")
            delays = [_rebalance(page, client, first, f"other-{number}") for number in range(10)]
    print(f"a rebalance is shown after {median(delays) * 1000:.0f} ms, {max(delays) * 1000:.0f} ms at most")


def _use(page: Page) -> None:
    page.ask("Page.addScriptToEvaluateOnNewDocument", {"source": LONG_TASKS})
    page.ask("Page.reload")
    page.until("document.querySelector('.count')?.textContent === '10,000 groups'")
    report(page, "10,000 groups: loaded")
    page.run(SCROLL)
    report(page, "scrolled from top to bottom")
    for head in ("Lag", "Members", "Group"):
        find = "[...document.querySelectorAll('button.head')].find"
        page.run(f"{find}((each) => each.textContent.startsWith('{head}')).click()")
        page.run(TWO_FRAMES)
    report(page, "sorted three times")
    for length in range(1, 9):
        page.run(f"document.getElementById('search').value = '{'group-07'[:length]}'")
        page.run("document.getElementById('search').dispatchEvent(new Event('input'))")
        page.run(TWO_FRAMES)
    report(page, "searched, letter by letter")


def _rebalance(page: Page, client: Client, first: Consumer, name: str) -> float:
    """Seconds from the JoinGroup of a second member until the page shows the rebalance."""
    from tests.live.members import Consumer, settle

    before = page.run("document.querySelectorAll('.timeline li').length")
    began = perf_counter()
    other = Consumer(client, "busy", name, ["t"])
    settle(first, other, rounds=3)
    page.until(f"document.querySelectorAll('.timeline li').length > {before}")
    took = perf_counter() - began
    other.leave()
    settle(first, rounds=3)
    page.until(f"document.querySelectorAll('.timeline li').length > {before + 1}")
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description="What the live page costs the broker, and how it feels.")
    parser.add_argument("--members", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--browser", action="store_true", help="measure the page in Chromium instead")
    options = parser.parse_args()
    if options.browser:
        feel()
        return
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    cost(options.members, options.seconds, options.rounds)


if __name__ == "__main__":
    main()
