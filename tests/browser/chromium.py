"""Headless Chromium, driven over the pipe of its DevTools protocol: JSON messages, each ended by a zero byte."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
    "--remote-debugging-pipe",
)  # fmt: skip
TIMEOUT_S = 120
Message = dict[str, Any]


def need_chromium() -> str:
    """Debian's package; the calling test is skipped where it is missing and cannot be installed."""
    for name in ("chromium", "chromium-browser"):
        if found := shutil.which(name):
            return found
    if os.geteuid() == 0 and shutil.which("apt-get"):
        install = ["apt-get", "install", "-y", "--no-install-recommends", "chromium"]
        if subprocess.run(install, capture_output=True, timeout=300).returncode:  # a new machine knows no packages yet
            subprocess.run(["apt-get", "update"], capture_output=True, timeout=120)
            subprocess.run(install, capture_output=True, timeout=300)
    return shutil.which("chromium") or pytest.skip("needs headless Chromium: `apt-get install chromium`")


@contextmanager
def chromium(folder: Path) -> Iterator[Browser]:
    """A browser with an empty profile in `folder`."""
    program = need_chromium()
    to_browser, from_browser = os.pipe(), os.pipe()

    def as_three_and_four() -> None:
        os.dup2(os.dup(to_browser[0]), 3)  # the numbers that Chromium expects
        os.dup2(os.dup(from_browser[1]), 4)

    with (folder / "chromium.log").open("wb") as log:
        process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=as_three_and_four, close_fds=False,
        )  # fmt: skip
    os.close(to_browser[0])
    os.close(from_browser[1])
    browser = Browser(process, to_browser[1], from_browser[0])
    try:
        yield browser
    finally:
        browser.close()


class Browser:
    def __init__(self, process: subprocess.Popen[bytes], out: int, into: int) -> None:
        self._process = process
        self._out = out
        self._into = into
        self._ids = itertools.count(1)
        self._unread = b""
        self.events: list[Message] = []  # whatever was told without having been asked for

    def open(self, address: str, *, width: int = 1280, height: int = 900, dark: bool = False) -> Page:
        target = self.ask("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.ask("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        page = Page(self, session, target)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.ask(f"{domain}.enable")
        page.size(width, height)
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        page.ask("Emulation.setEmulatedMedia", {"features": [theme]})
        page.ask("Page.navigate", {"url": address})
        page.wait_for("Page.loadEventFired")
        return page

    def ask(self, method: str, parameters: Message | None = None, session: str | None = None) -> Message:
        number = next(self._ids)
        message: Message = {"id": number, "method": method, "params": parameters or {}}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        while True:
            answer = self.next_message()
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer["error"])
                result: Message = answer["result"]
                return result
            self.events.append(answer)

    def next_message(self) -> Message:
        deadline = time.monotonic() + TIMEOUT_S
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._into], [], [], max(0, deadline - time.monotonic()))
            assert ready, "Chromium does not answer"
            data = os.read(self._into, 1 << 20)
            assert data, "Chromium has gone away"
            self._unread += data
        message, _, self._unread = self._unread.partition(b"\0")
        told: Message = json.loads(message)
        return told

    def close(self) -> None:
        os.close(self._out)  # Chromium ends when its pipe does
        os.close(self._into)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Page:
    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self._browser = browser
        self._session = session
        self._target = target

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._browser.ask("Target.closeTarget", {"targetId": self._target})

    def ask(self, method: str, parameters: Message | None = None) -> Message:
        return self._browser.ask(method, parameters, self._session)

    def events(self, *methods: str) -> list[Message]:
        told = [event for event in self._browser.events if event.get("sessionId") == self._session]
        return [event["params"] for event in told if event["method"] in methods]

    def wait_for(self, method: str) -> None:
        while not self.events(method):
            self._browser.events.append(self._browser.next_message())

    def size(self, width: int, height: int) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.ask("Emulation.setDeviceMetricsOverride", metrics)

    def run(self, script: str) -> Any:
        """The value of an expression; a promise is waited for."""
        asked = {"expression": script, "returnByValue": True, "awaitPromise": True}
        answer = self.ask("Runtime.evaluate", asked)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, condition: str) -> None:
        """Waits, a drawn frame at a time, until the condition holds."""
        look = f"const look = () => ({condition}) ? done(true) : requestAnimationFrame(look); look();"
        self.run(f"new Promise((done) => {{ {look} }})")

    def wait_until(self, condition: str) -> None:
        """Likewise, while the page may be replaced by another one: each look is a question of its own."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            with contextlib.suppress(AssertionError):  # there is no page just now
                if self.run(condition):
                    return
            assert time.monotonic() < deadline, condition

    def text(self) -> str:
        shown: str = self.run("document.body.innerText")
        return shown

    def complaints(self) -> list[Message]:
        """Errors and warnings in the console, and exceptions."""
        console = [
            told for told in self.events("Runtime.consoleAPICalled") if told["type"] in ("error", "warning", "assert")
        ]
        entries = [told for told in self.events("Log.entryAdded") if told["entry"]["level"] in ("error", "warning")]
        return [*console, *entries, *self.events("Runtime.exceptionThrown")]

    def requests(self) -> list[str]:
        return [told["request"]["url"] for told in self.events("Network.requestWillBeSent")]

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """The whole page, however long (up to what Chromium can draw in one piece)."""
        options: Message = {"format": "png"}
        if whole:
            size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 16_000), "scale": 1}
            options |= {"captureBeyondViewport": True, "clip": clip}
        path.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", options)["data"]))
