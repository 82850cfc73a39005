"""`kohort serve`: start the broker, and run it until SIGTERM or Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import sys
from collections.abc import Callable
from time import time

from kohort.broker.config import Config, ConfigError, load_config
from kohort.broker.logs import start_logging
from kohort.broker.server import Server, serve
from kohort.storage.errors import StorageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("properties", nargs="?", metavar="FILE", help="a server.properties file")
    parser.add_argument(
        "--override", action="append", default=[], metavar="KEY=VALUE", help="a setting, as it would stand in the file"
    )
    parser.add_argument("--log-level", default="info", choices=("debug", "info", "warning", "error"))
    parser.add_argument("--log-format", default="text", choices=("text", "json"))


def run(options: argparse.Namespace) -> int:
    start_logging(options.log_level, options.log_format)
    _allow_many_files()
    try:
        config = _load(options)
        with asyncio.Runner(loop_factory=_event_loop()) as runner:
            runner.run(serve(config, _announce))
    except (ConfigError, StorageError, OSError) as problem:
        print(f"kohort: {problem}", file=sys.stderr)
        return 1
    return 0


def _load(options: argparse.Namespace) -> Config:
    text = ""
    if options.properties is not None:
        with open(options.properties, encoding="utf-8") as file:
            text = file.read()
    return load_config(text, os.environ, options.override)


def _allow_many_files() -> None:
    """As many connections and segments as the system lets us have; shells often start with 1024."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _announce(server: Server) -> None:
    _settle_garbage_collector()
    where = ", ".join(f"{listener.host}:{listener.port}" for listener in server.broker.advertised)
    data = os.path.abspath(server.broker.config.data_folder)
    seconds = time() - _process_start()
    print(f"Kohort listens on {where}, keeps its data in {data}, started in {seconds:.2f} s", flush=True)
    if server.metrics_address is not None:
        print(f"metrics at http://{server.metrics_address[0]}:{server.metrics_address[1]}/metrics", flush=True)


def _settle_garbage_collector() -> None:
    """What start-up made stays for good, and requests hardly make cycles: look for garbage less often than every 700
    objects, and never among the code."""
    gc.freeze()
    gc.set_threshold(25_000, 20, 50)


def _event_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where there is one."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _process_start() -> float:
    """When the operating system started us: what comes before our first line of Python counts too."""
    try:
        with open("/proc/self/stat", encoding="ascii") as file:
            ticks = int(file.read().rpartition(")")[2].split()[19])
        with open("/proc/uptime", encoding="ascii") as file:
            up_s = float(file.read().split()[0])
        return time() - up_s + ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return time()
