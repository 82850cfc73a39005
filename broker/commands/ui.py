"""`kohort ui`: show in a browser what the groups of a cluster, or of a folder, do now and did before.

The folder is a recording, or the data folder of a broker. Without a folder it is a cluster: any that speaks Kafka's
protocol.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

from kohort.broker.commands.common import REFUSED, WRONG_COMMAND_LINE, add_cluster
from kohort.broker.terminal import complain, in_plain_words
from kohort.client.errors import ClientError, WrongSettings
from kohort.client.settings import load_settings

if TYPE_CHECKING:
    from kohort.broker.live.guard import Guard

PORT = 9393
TOKEN_VARIABLE = "KOHORT_UI_TOKEN"  # noqa: S105 - the name of a variable

EPILOG = f"""\
It only reads: it joins no group and writes nothing. The user needs READ and DESCRIBE on the topic __consumer_offsets;
with DESCRIBE on topics there is lag, with DESCRIBE on groups there are the states that coordinators tell.

Where the port can be reached from other machines, a token is needed: in a file, or in {TOKEN_VARIABLE}.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("folder", nargs="?", metavar="DIR", help="a recording, or a data folder; default: a cluster")
    add_cluster(parser)
    parser.add_argument("--port", type=int, default=PORT, help=f"where the page is (default: {PORT}; 0: any free port)")
    parser.add_argument("--host", default="127.0.0.1", help="the address of the page (default: 127.0.0.1)")
    parser.add_argument("--token-file", metavar="FILE", help="its first line is what people must know to see the page")


def run(options: argparse.Namespace) -> int:
    from kohort.broker.live.folder_tail import NoLogs
    from kohort.broker.live.guard import Guard, WrongToken
    from kohort.broker.live.serve import CannotServe
    from kohort.broker.record.follower import CannotFollow

    try:
        guard = Guard(options.host, _token(options))
        if not guard.is_open:
            complain(
                f"other machines can come to {options.host}: give a token (--token-file FILE or {TOKEN_VARIABLE}), or"
                " leave --host out"
            )
            return WRONG_COMMAND_LINE
        _serve(options, guard)
        return 0
    except (WrongSettings, WrongToken) as problem:
        complain(str(problem))
        return WRONG_COMMAND_LINE
    except (ClientError, CannotFollow, CannotServe, NoLogs) as problem:
        complain(str(problem))
    except OSError as problem:
        complain(in_plain_words(problem))
    return REFUSED


def _serve(options: argparse.Namespace, guard: Guard) -> None:
    from kohort.broker.live.serve import serve_cluster, serve_folder

    def started(page: str) -> None:
        print(f"live page at {page} (stop it with Ctrl-C)", flush=True)

    if options.folder is not None:
        asyncio.run(serve_folder(options.folder, guard, options.port, started))
    else:
        settings = load_settings(options.bootstrap_server, options.command_config, os.environ)
        asyncio.run(serve_cluster(settings, guard, options.port, started))


def _token(options: argparse.Namespace) -> str | None:
    if options.token_file is None:
        return os.environ.get(TOKEN_VARIABLE) or None
    lines = Path(options.token_file).read_text(encoding="utf-8").splitlines()
    return lines[0].strip() if lines else ""
