"""`kohort serve --test`: a broker for tests in any language, with its controls as JSON on the HTTP port.

The broker runs on a thread of its own, as in a Python test. The HTTP port is on the main thread's event loop, so it
stays open while the broker restarts.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from kohort.broker.config import Config, load_config
from kohort.broker.http.endpoint import HttpEndpoint
from kohort.broker.server import CannotListen, why_not_listen
from kohort.testing.broker import Broker
from kohort.testing.http.control_site import ControlSite
from kohort.testing.http.controls import add_controls
from kohort.testing.settings import MEMORY, TEST_DEFAULTS

MAX_THREADS: Final = 64  # controls that wait at the same time
DEFAULTS: Final = {
    **TEST_DEFAULTS,
    "log.dir": MEMORY,  # Kafka's other name of log.dirs, which wins over this one
    "kohort.http.host": "127.0.0.1",
    "kohort.http.port": 0,
}


class Started(NamedTuple):
    """A broker for tests that clients can connect to."""

    bootstrap_servers: str
    data: str | None  # the folder; None: the data is in memory
    http: tuple[str, int] | None
    stop: Callable[[], None]  # on the main thread's event loop


def load_test_config(properties: str, environment: Mapping[str, str], overrides: Sequence[str]) -> Config:
    """As for any broker, with other defaults: those of Python tests, data in memory, and an HTTP port on loopback."""
    defaults = "".join(f"{name}={value}\n" for name, value in DEFAULTS.items())
    return load_config(defaults + properties, environment, overrides)


async def serve_test(config: Config, started: Callable[[Started], None]) -> None:
    """Run until a signal comes. `started` is called when clients can connect."""
    host, port = config.kohort_http_host, config.http_port
    config.kohort_http_port = config.kohort_metrics_port = -1  # the port is ours, not the broker's
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    async with Broker(config) as kafka:
        with ThreadPoolExecutor(MAX_THREADS, "kohort-control") as executor:
            http = await _open_http(kafka, executor, host, port) if port >= 0 else None
            try:
                data = None if config.data_folder == MEMORY else config.data_folder
                address = http.sockets[0].getsockname()[:2] if http is not None else None
                started(Started(kafka.bootstrap_servers, data, address, stopping.set))
                await stopping.wait()
            finally:
                if http is not None:
                    http.close()
                kafka.stop()  # first: controls that wait for something end with it


async def _open_http(kafka: Broker, executor: ThreadPoolExecutor, host: str, port: int) -> asyncio.Server:
    site = ControlSite(host, executor)
    add_controls(site, kafka)
    endpoints: set[HttpEndpoint] = set()
    try:
        return await asyncio.get_running_loop().create_server(lambda: HttpEndpoint(site, endpoints), host or None, port)
    except OSError as problem:
        raise CannotListen(why_not_listen(problem, host, port, f"kohort.http.port={port + 1}")) from problem
