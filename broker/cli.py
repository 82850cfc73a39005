"""The command `kohort`.

kohort serve        start the broker
kohort dump         show what is in a log folder
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from time import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output, `head` for instance, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="kohort", description="A Kafka group coordinator in Python.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    serve = commands.add_parser("serve", help="start the broker")
    serve.add_argument("properties", nargs="?", metavar="FILE", help="a server.properties file")
    serve.add_argument("--override", action="append", default=[], metavar="KEY=VALUE", help="a setting, as in the file")
    serve.add_argument("--log-level", default="info", choices=("debug", "info", "warning", "error"))
    serve.add_argument("--log-format", default="text", choices=("text", "json"))
    serve.set_defaults(run=_serve)
    return parser


def _serve(options: argparse.Namespace) -> int:
    from broker.logs import start_logging

    start_logging(options.log_level, options.log_format)
    from broker.config import ConfigError, load_config

    try:
        text = ""
        if options.properties is not None:
            with open(options.properties, encoding="utf-8") as file:
                text = file.read()
        config = load_config(text, os.environ, options.override)
    except (ConfigError, OSError) as problem:
        return _complain(problem)

    import asyncio

    from broker.server import Server, serve
    from storage.errors import StorageError

    def announce(server: Server) -> None:
        where = ", ".join(f"{listener.host}:{listener.port}" for listener in server.broker.advertised)
        data = os.path.abspath(config.data_folder)
        seconds = time() - _process_start()
        print(f"Kohort listens on {where}, keeps its data in {data}, started in {seconds:.2f} s", flush=True)
        if server.metrics_address is not None:
            print(f"metrics at http://{server.metrics_address[0]}:{server.metrics_address[1]}/metrics", flush=True)

    try:
        with asyncio.Runner(loop_factory=_event_loop()) as runner:
            runner.run(serve(config, announce))
    except (StorageError, OSError) as problem:
        return _complain(problem)
    return 0


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


def _complain(problem: object) -> int:
    print(f"kohort: {problem}", file=sys.stderr)
    return 1
