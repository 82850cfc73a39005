"""Tables -> one HTML file that needs nothing else: no network, no library, light and dark.

gather.py   few Spark queries, each bounded: only what is shown leaves the tables
payload.py  what was gathered -> the data of the page
details.py  likewise, for the drawings of one group
page.py     data + assets/ -> HTML
assets/     the page's style and scripts, which draw everything from the data inside the file
limits.py   how much of everything fits
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.report.page import page
from audit.report.payload import payload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["write"]


def write(tables: Mapping[str, DataFrame], path: str, about: Mapping[str, Any]) -> None:
    """`about`: what a reader should know of this run, label by label; `title` names the report."""
    from audit.report.gather import gather  # it wants Spark, the rest does not

    Path(path).write_text(page(payload(gather(tables), about)), encoding="utf-8")
