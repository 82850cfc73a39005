"""`kohort audit follow`: new findings of a running broker, a line each, as they happen; until Ctrl-C."""

from __future__ import annotations

import argparse
import json
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from kohort.audit.cli.common import (
    COULD_NOT_RUN,
    Spark,
    add_common,
    add_input,
    complain,
    finding_line,
    is_installed,
)
from kohort.audit.moments import in_words, window_s
from kohort.audit.result import SEVERITIES, AuditError

if TYPE_CHECKING:
    from kohort.audit.checks import Settings
    from kohort.audit.decode.folders import LogFolder
    from kohort.audit.follow.news import Finding

WAIT_S = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser)
    parser.add_argument(
        "--window",
        type=window_s,
        default="1h",
        metavar="TIME",
        help="how far back it looks, as 2h or P1DT2H (default: 1h)",
    )
    parser.add_argument("--min-severity", choices=SEVERITIES, default="info", help="leave out what matters less")
    add_common(parser)


def run(options: argparse.Namespace) -> int:
    if not is_installed():
        return COULD_NOT_RUN
    from kohort.audit.checks import parse_settings
    from kohort.audit.decode.folders import find_logs

    wanted = SEVERITIES[: SEVERITIES.index(options.min_severity) + 1]

    def tell(finding: Finding) -> None:
        if finding["severity"] in wanted:
            line = json.dumps(finding, default=in_words) if options.json else finding_line(finding)
            print(line, flush=True)

    try:
        settings = parse_settings(options.settings)
    except ValueError as problem:
        complain(problem)
        return COULD_NOT_RUN
    folders, problems = find_logs(options.path, options.command_config)
    for line in problems:
        complain(line)
    if not folders:
        return COULD_NOT_RUN
    try:
        return _follow(options, settings, folders, tell)
    except AuditError as problem:
        complain(problem)
        return COULD_NOT_RUN


def _follow(
    options: argparse.Namespace, settings: Settings, folders: list[LogFolder], tell: Callable[[Finding], None]
) -> int:
    from kohort.audit.follow.follower import Follower

    with Spark(options) as made:
        spark = made.session()
        signal.signal(signal.SIGINT, signal.default_int_handler)  # Spark's own handler cancels jobs and prints errors
        follower = Follower(
            spark, options.path, tell, group=options.group, settings=settings, window_s=options.window,
            command_config=options.command_config,
        )  # fmt: skip
        try:
            earlier = follower.look_back(folders)
            query = follower.start()
            complain(f"following {len(folders)} log folders; {earlier} earlier findings are not shown")
            while query.isActive:
                time.sleep(WAIT_S)
            complain(AuditError(f"the stream has ended: {query.exception()}"))
            return COULD_NOT_RUN
        except KeyboardInterrupt:
            return 0
        finally:
            follower.close()
