"""`kohort record`: copy a cluster's log of consumer offsets into a folder, batch for batch, and follow it.

The folder is what `kohort audit` reads. History stays there when the cluster compacts it away.
"""

from __future__ import annotations

import argparse
import os
import signal
from contextlib import ExitStack
from dataclasses import replace

from kohort.broker.commands.common import REFUSED, WRONG_COMMAND_LINE, add_cluster, option
from kohort.broker.record.limits import parse_rate
from kohort.broker.terminal import complain, in_plain_words
from kohort.client.errors import ClientError, WrongSettings
from kohort.client.settings import load_settings

EPILOG = """\
It only reads: it joins no group and commits nothing. The user needs READ and DESCRIBE on the topic __consumer_offsets.
Stop it with Ctrl-C or SIGTERM; the next start goes on where it stopped.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("folder", metavar="DIR", help="where the recording is, or will be made")
    add_cluster(parser)
    parser.add_argument("--once", action="store_true", help="stop when everything is there that the cluster has now")
    parser.add_argument(
        "--max-rate", type=option(parse_rate), metavar="BYTES", help="fetch at most so much a second: 5MB, 500kB"
    )
    parser.add_argument("--metrics-port", type=int, metavar="PORT", help="serve /metrics for Prometheus (0: any port)")
    parser.add_argument(
        "--metrics-host", default="127.0.0.1", metavar="HOST", help="where /metrics listens (default: 127.0.0.1)"
    )


def run(options: argparse.Namespace) -> int:
    from kohort.broker.record.follower import CannotFollow
    from kohort.storage.errors import StorageError

    try:
        return _record(options)
    except WrongSettings as problem:
        complain(str(problem))
        return WRONG_COMMAND_LINE
    except (ClientError, CannotFollow, StorageError) as problem:
        complain(str(problem))
    except OSError as problem:
        complain(in_plain_words(problem))
    return REFUSED


def _record(options: argparse.Namespace) -> int:
    from kohort.broker.record.progress import Progress
    from kohort.broker.record.recorder import Recorder

    settings = load_settings(options.bootstrap_server, options.command_config, os.environ)
    if settings.client_id == "kohort-cli":
        settings = replace(settings, client_id="kohort-record")
    progress = Progress()
    recorder = Recorder(settings, options.folder, max_rate=options.max_rate, tell=progress.tell)
    with ExitStack() as opened:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, lambda *_: recorder.stop())
        if options.metrics_port is not None:
            from kohort.broker.record.metrics import MetricsServer

            server = MetricsServer(recorder, options.metrics_host, options.metrics_port)
            opened.callback(server.close)
            progress.tell(f"metrics at http://{options.metrics_host}:{server.port}/metrics")
        recorder.run(once=options.once, tick=lambda: progress.show(recorder))
    progress.end(recorder)
    return 0
