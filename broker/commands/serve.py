"""`kohort serve`: start the broker, and run it until SIGTERM or Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
from collections.abc import Callable, Iterable
from math import inf
from time import time

from kohort.broker.config import Config, ConfigError, load_config
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


def run(options: argparse.Namespace) -> int:
    start_logging(options.log_level, options.log_format)
    max_files = _allow_many_files()
    if max_files < MIN_FILES:
        _complain(
            options, [f"only {max_files} files may be open, and Kohort needs {MIN_FILES}: raise the limit (ulimit -Hn)"]
        )
        return 1
    try:
        config = _load(options)
        with asyncio.Runner(loop_factory=_event_loop()) as runner:
            runner.run(serve(config, lambda server: _announce(server, options.log_format)))
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
    """For people as text. With --log-format json as lines of the log, which a program reads."""
    for problem in problems:
        if options.log_format == "json":
            logger.error(problem)
        else:
            complain(problem)


def _load(options: argparse.Namespace) -> Config:
    text = "" if options.properties is None else _read_properties(options.properties)
    return load_config(text, os.environ, options.override)


def _read_properties(path: str) -> str:
    """The file's text: UTF-8, as most people write it, or else Latin-1, as Java reads it."""
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


def _announce(server: Server, form: str) -> None:
    """Tell whoever has started the broker that clients can connect now, and where."""
    _settle_garbage_collector()
    listeners = [_address(host or "*", port) for host, port in server.addresses]
    advertised = [_address(listener.host, listener.port) for listener in server.broker.advertised]
    told = "" if advertised == listeners else f", tells clients to use {', '.join(advertised)}"
    data = os.path.abspath(server.broker.config.data_folder)
    seconds = round(time() - _process_start(), 2)
    announce(
        f"Kohort listens on {', '.join(listeners)}{told}, keeps its data in {data}, started in {seconds:.2f} s", form,
        {"listeners": listeners, "advertised": advertised, "data": data, "started_in_s": seconds},
    )  # fmt: skip
    if server.metrics_address is not None:
        url = f"http://{_address(*server.metrics_address)}/metrics"
        announce(f"metrics at {url}", form, {"metrics": url})


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _settle_garbage_collector() -> None:
    """Look for garbage less often than every 700 objects, and never among what start-up has made: that stays for good,
    and requests hardly make reference cycles. A look at the second generation, 100,000 objects, takes some 15 ms."""
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
