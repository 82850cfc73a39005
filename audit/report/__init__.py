"""Tables -> one HTML file that loads nothing from elsewhere, for light and dark screens.

stored.py   the tables of a store, narrowed to what the user asked for
source.py   scans of the tables
gather.py   which scans are done, in which order
shrink.py   rows of the scans -> the few rows that are shown
ranking.py  which groups come first, and which part of a long history is drawn
share.py    members and progress of share groups
rows.py     the rows that were gathered
payload.py  these rows -> the data of the page
details.py  these rows -> the data of the drawings of one group
page.py     the data and assets/ -> HTML
assets/     style and scripts of the page; the scripts draw everything from the data inside the file
limits.py   how much data goes into the page
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
    """Write the report. `about`: label -> text about this run; the label `title` is the title of the report."""
    from kohort.audit.checks import ALL

    gathered = gather(source, {name: check.about for name, check in ALL.items()})
    Path(path).write_text(page(payload(gathered, about)), encoding="utf-8")
