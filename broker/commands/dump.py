"""`kohort dump`: show what is in a log folder, as kafka-dump-log does."""

from __future__ import annotations

import argparse
import sys


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path", nargs="+", metavar="LOG_FOLDER", help="a data folder, a partition's folder in it, or a .log file"
    )
    parser.add_argument(
        "--json", action="store_true", help="print a JSON object for each batch, a line each, for programs"
    )


def run(options: argparse.Namespace) -> int:
    from kohort.broker.dump import dump

    return dump(options.path, out=sys.stdout, as_json=options.json)
