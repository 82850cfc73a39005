"""Where screenshots go."""

from __future__ import annotations

import os
from pathlib import Path


def picture_folder(tmp_path: Path) -> Path:
    """SCREENSHOTS=DIR keeps them."""
    folder = Path(os.environ.get("SCREENSHOTS") or tmp_path / "screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    print(f"screenshots: {folder}")
    return folder
