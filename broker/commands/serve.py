"""`kohort serve`: start the broker, and run it until SIGTERM or Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
from collections.abc import Callable, Iterable
from math import inf
from threading import Thread
from time import time
from typing import Protocol

from kohort.broker.config import ConfigError, load_config
from kohort.broker.logs import announce, start_logging
from kohort.broker.server import CannotListen, Server, serve
from kohort.broker.terminal import complain, in_plain_words
from kohort.storage.errors import StorageError

logger = logging.getLogger(__name__)

WRONG_COMMAND_LINE = 2
# Where the hard limit of open files is "infinite", as on macOS, the kernel still refuses more than a limit of its own.
# Not every system tells that limit, so these are tried in turn; 10,240 is macOS's OPEN_MAX.
FILE_LIMITS_TO_TRY = (1_048_576, 65_536, 10_240)
MIN_FILES = 64  # Python, the event loop and the listeners need some 20 before the first client connects

EPILOG = """\
Settings have Kafka's names and defaults. They come from FILE, then from the environment (KOHORT_CFG_LOG_DIRS for
log.dirs), then from --override; a later one wins. For instance, on another port and with data in another folder:

  kohort serve --override listeners=PLAINTEXT://localhost:9192 --override log.dirs=/var/lib/kohort

Only programs on this machine can connect, until a listener names another address, or none for all of them:

  kohort serve --override listeners=PLAINTEXT://:9092
"""


class BrokerForTests(Protocol):
    """What kohort.testing.serve tells of a broker for tests."""

    @property
    def bootstrap_servers(self) -> str: ...
    @property
    def data(self) -> str | None: ...
    @property
    def http(self) -> tuple[str, int] | None: ...
    @property
    def stop(self) -> Callable[[], None]: ...


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("properties", nargs="?", metavar="FILE", help="a server.properties file, as for Kafka")
    parser.add_argument(
        "--override", action="append", default=[], metavar="KEY=VALUE",
        help="a setting, as it would stand in the file; may be given several times",
    )  # fmt: skip
    parser.add_argument(
        "--log-level", default="info", choices=("debug", "info", "warning", "error"), help="default: info"
    )
    parser.add_argument(
        "--log-format", default="text", choices=("text", "json"), help="json: one object a line, for machines"
    )
    parser.add_argument(
        "--test", action="store_true",
        help="a broker for tests: groups form at once, data is in memory, and the HTTP port has controls as JSON",
    )  # fmt: skip
    parser.add_argument(
        "--print-json", action="store_true",
        help="tell a program, in one line of JSON on standard output, where it can connect",
    )  # fmt: skip
    parser.add_argument(
        "--stop-with-stdin", action="store_true",
        help="stop when standard input ends: the program that started the broker has closed it, or has died",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    _settle_garbage_collector()
    start_logging(options.log_level, options.log_format)
    max_files = _allow_many_files()
    if max_files < MIN_FILES:
        _complain(
            options, [f"only {max_files} files may be open, and Kohort needs {MIN_FILES}: raise the limit (ulimit -Hn)"]
        )
        return 1
    try:
        with asyncio.Runner(loop_factory=_event_loop()) as runner:
            runner.run(_serve_test(options) if options.test else _serve(options))
    except ConfigError as problem:
        _complain(options, problem.problems)
        return WRONG_COMMAND_LINE if problem.in_command_line else 1
    except (CannotListen, StorageError) as problem:
        _complain(options, [str(problem)])
        return 1
    except OSError as problem:
        _complain(options, [in_plain_words(problem)])
        return 1
    return 0


def _complain(options: argparse.Namespace, problems: Iterable[str]) -> None:
    """Report the problems: as text for people, or as lines of the log with --log-format json."""
    for problem in problems:
        if options.log_format == "json":
            logger.error(problem)
        else:
            complain(problem)


async def _serve(options: argparse.Namespace) -> None:
    config = load_config(_read_properties(options.properties), os.environ, options.override)
    await serve(config, lambda server: _started(server, options))


async def _serve_test(options: argparse.Namespace) -> None:
    """Import the package for tests by name: it stands above the broker, which must not depend on it."""
    from importlib import import_module

    testing = import_module("kohort.testing.serve")
    config = testing.load_test_config(_read_properties(options.properties), os.environ, options.override)
    loop = asyncio.get_running_loop()

    def started(broker: BrokerForTests) -> None:
        _settle_garbage_collector()
        if options.stop_with_stdin:
            when_stdin_ends(loop, broker.stop)
        if options.print_json:
            print_addresses([broker.bootstrap_servers], broker.http)
        else:
            _announce_test(broker, options.log_format)

    await testing.serve_test(config, started)


def _read_properties(path: str | None) -> str:
    """The file's text: UTF-8, as most people write it, or else Latin-1, as Java reads it. Empty without a file."""
    if path is None:
        return ""
    with open(path, "rb") as file:
        raw = file.read()
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _allow_many_files() -> float:
    """Raise the limit of open files as far as the system allows, and return it: each connection and each segment is a
    file, and shells often start with a limit of 1024 or less."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for limit in file_limits(soft, hard, resource.RLIM_INFINITY):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            return limit
        except (ValueError, OSError):
            continue  # the kernel refuses this many: try fewer
    return inf if soft == resource.RLIM_INFINITY else soft


def file_limits(soft: int, hard: int, infinity: int) -> list[int]:
    """The limits to try, from the highest to the lowest; only limits that are higher than the present one, `soft`."""
    if soft == infinity:
        return []
    wanted = (
        FILE_LIMITS_TO_TRY if hard == infinity else (hard, *(limit for limit in FILE_LIMITS_TO_TRY if limit < hard))
    )
    return [limit for limit in wanted if limit > soft]


def _started(server: Server, options: argparse.Namespace) -> None:
    _settle_garbage_collector()
    if options.stop_with_stdin:
        when_stdin_ends(server.loop, server.stop_soon)
    if options.print_json:
        print_addresses([_address(each.host, each.port) for each in server.broker.advertised], server.http_address)
    else:
        _announce(server, options.log_format)


def print_addresses(bootstrap_servers: Iterable[str], http: tuple[str, int] | None) -> None:
    """Tell the program that has started the broker that clients can connect now, and where."""
    import json

    url = None if http is None else f"http://{_address(*http)}"
    told = {"bootstrap_servers": ",".join(bootstrap_servers), "http": url, "pid": os.getpid()}
    print(json.dumps(told), flush=True)


def when_stdin_ends(loop: asyncio.AbstractEventLoop, work: Callable[[], object]) -> None:
    """Call `work` when there is nothing more to be read from standard input."""

    def read() -> None:
        while os.read(0, 4096):  # no lock is held while this waits, so Python can end
            pass
        loop.call_soon_threadsafe(work)

    Thread(target=read, name="kohort-stdin", daemon=True).start()


def _announce(server: Server, form: str) -> None:
    """Tell people that clients can connect now, and where."""
    listeners = [_address(host or "*", port) for host, port in server.addresses]
    advertised = [_address(listener.host, listener.port) for listener in server.broker.advertised]
    told = "" if advertised == listeners else f", tells clients to use {', '.join(advertised)}"
    data = os.path.abspath(server.broker.config.data_folder)
    seconds = round(time() - _process_start(), 2)
    announce(
        f"Kohort listens on {', '.join(listeners)}{told}, keeps its data in {data}, started in {seconds:.2f} s", form,
        {"listeners": listeners, "advertised": advertised, "data": data, "started_in_s": seconds},
    )  # fmt: skip
    if server.http_address is not None:
        page = f"http://{_address(*server.http_address)}/"
        announce(f"live page at {page}, metrics at {page}metrics", form, {"page": page, "metrics": f"{page}metrics"})


def _announce_test(broker: BrokerForTests, form: str) -> None:
    data = "in memory" if broker.data is None else f"in {os.path.abspath(broker.data)}"
    fields = {"listeners": [broker.bootstrap_servers], "data": broker.data}
    announce(f"Kohort listens on {broker.bootstrap_servers} for tests, keeps its data {data}", form, fields)
    if broker.http is not None:
        url = f"http://{_address(*broker.http)}/test"
        announce(f"controls for tests at {url}", form, {"controls": url})


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _settle_garbage_collector() -> None:
    """Collect garbage less often than every 700 objects, because requests hardly make reference cycles. Never look at
    the objects of start-up, which stay for good. A look at the second generation, 100,000 objects, takes some 15 ms."""
    gc.freeze()
    gc.set_threshold(25_000, 4, 250)


def _event_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop, if it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _process_start() -> float:
    """When the operating system started this process. Importing Python's own modules counts as start-up too."""
    try:
        with open("/proc/self/stat", encoding="ascii") as file:
            ticks = int(file.read().rpartition(")")[2].split()[19])
        with open("/proc/uptime", encoding="ascii") as file:
            up_s = float(file.read().split()[0])
        return time() - up_s + ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return time()
