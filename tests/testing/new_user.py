"""A new user: an empty environment, Kohort as a wheel, everything else from PyPI; and what a page tells them to do."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
NO_NETWORK = re.compile(r"NewConnectionError|ConnectTimeout|Temporary failure in name resolution|Max retries exceeded")
NOT_THEIRS = ("PYTHON", "PYTEST", "VIRTUAL_ENV", "PIP_")  # variables of our own test run begin so


@dataclass(frozen=True)
class Page:
    path: Path
    blocks: Sequence[tuple[str, str]]  # language and text

    @classmethod
    def read(cls, name: str) -> Page:
        text = (DOCS / name).read_text()
        return cls(DOCS / name, re.findall(r"^```(\w+)\n(.*?)^```", text, re.DOTALL | re.MULTILINE))

    @property
    def python(self) -> list[str]:
        return [text for language, text in self.blocks if language == "python"]

    def first_steps(self) -> tuple[str, str, str]:
        """How to install it, a test, and how to run it."""
        (first, install), (second, code), (third, run) = self.blocks[:3]
        assert (first, second, third) == ("sh", "python", "sh")
        assert [language for language, _ in self.blocks[3:] if language != "python"] == [], "a block that nothing runs"
        return install, code, run


class PlainEnvironment:
    """An empty folder. `pip install kohort` finds the wheel."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.folder = folder
        constraint = wheel.parent / "constraint.txt"
        constraint.write_text(f"kohort @ {wheel.as_uri()}\n")
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(NOT_THEIRS)},
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PIP_CONSTRAINT": str(constraint),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }

    def shell(self, commands: str) -> str:
        """What the commands print. They must succeed."""
        done = subprocess.run(
            ["sh", "-e", "-c", commands], cwd=self.folder, env=self._environment, capture_output=True, text=True,
            timeout=500,
        )  # fmt: skip
        if done.returncode and NO_NETWORK.search(done.stderr):
            pytest.skip("needs PyPI, which cannot be reached")
        assert done.returncode == 0, f"{commands}\n{done.stdout}\n{done.stderr}"
        return done.stdout
