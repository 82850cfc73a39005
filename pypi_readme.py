"""Makes the README that PyPI shows from README.md. hatchling runs this whenever it builds (see pyproject.toml).

README.md links to other files of the repository, and shows a picture of it. PyPI has none of these files. If
[project.urls] in pyproject.toml names the `Source`, links lead there; as long as it does not, the text of a link stays
and the link goes, because a link that leads nowhere is worse.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PICTURE = re.compile(r"!\[([^]]*)\]\((?!https?:)([^)]+)\)\n*")
LINK = re.compile(r"(?<!!)\[([^]]*)\]\((?!https?:|#)([^)]+)\)")


class PypiReadme(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        source = metadata.get("urls", {}).get("Source")
        metadata["readme"] = {"content-type": "text/markdown", "text": for_pypi(text, source, metadata["version"])}


def for_pypi(text: str, source: str | None, version: str) -> str:
    """The README with links to `source` at the tag of `version`, in the layout of GitHub and its like; or without."""
    if source is None:
        return LINK.sub(r"\1", PICTURE.sub("", text))
    base = source.rstrip("/")
    text = PICTURE.sub(rf"![\1]({base}/raw/v{version}/\2)\n\n", text)
    return LINK.sub(rf"[\1]({base}/blob/v{version}/\2)", text)
