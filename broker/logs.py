"""Log lines: for people as text, for machines as JSON, one line each, to standard error.

The banner goes to standard output, so that a program which starts Kohort can wait for it. If the log is JSON, so is the
banner.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from time import gmtime, strftime

from kohort.printable import printable, printable_json, shortened


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = f"{_timestamp(record)} {record.levelname:<7} {printable(shortened(record.getMessage()))}"
        if not record.exc_info:
            return line
        # Indented, because an exception's text may hold what looks like a line of the log.
        return "\n    ".join([line, *map(printable, self.formatException(record.exc_info).splitlines())])


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        import json

        line = {
            "time": _timestamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": shortened(record.getMessage()),
            **_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return printable_json(json.dumps(line, ensure_ascii=False))


def _fields(record: logging.LogRecord) -> dict[str, object]:
    """The numbers and names in the message, each under a name of its own."""
    fields: Mapping[str, object] = getattr(record, "fields", {})
    return {name: shortened(value) if isinstance(value, str) else value for name, value in fields.items()}


def _timestamp(record: logging.LogRecord) -> str:
    return f"{strftime('%Y-%m-%dT%H:%M:%S', gmtime(record.created))}.{int(record.msecs):03d}Z"


def start_logging(level: str, form: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if form == "json" else _TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def announce(message: str, form: str, fields: Mapping[str, object]) -> None:
    """Print one line to standard output; as JSON with the same members as a line of the log, and `fields`."""
    if form == "json":
        line = {"name": "kohort", "levelno": logging.INFO, "levelname": "INFO", "msg": message, "fields": fields}
        message = _JsonFormatter().format(logging.makeLogRecord(line))
    print(message, flush=True)
