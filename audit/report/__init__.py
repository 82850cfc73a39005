"""Tables -> one HTML file that needs nothing else: no network, no library, light and dark.

source.py   scans of the tables
gather.py   which scans, in which order
shrink.py   what they bring -> the few rows that are shown
ranking.py  which groups come first, which part of a long history is drawn
payload.py  what was gathered -> the data of the page
details.py  likewise, for the drawings of one group
page.py     data + assets/ -> HTML
assets/     the page's style and scripts, which draw everything from the data inside the file
limits.py   how much of everything fits
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kohort.audit.report.gather import gather
from kohort.audit.report.page import page
from kohort.audit.report.payload import payload
from kohort.audit.report.source import Source

__all__ = ["write"]


def write(source: Source, path: str, about: Mapping[str, Any]) -> None:
    """`about`: what a reader should know of this run, label by label; `title` names the report."""
    from kohort.audit.checks import ALL

    gathered = gather(source, {name: check.about for name, check in ALL.items()})
    Path(path).write_text(page(payload(gathered, about)), encoding="utf-8")
