"""docs/architecture.md names files and functions: each of them exists."""

from __future__ import annotations

import re
from functools import reduce
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEXT = " ".join((ROOT / "docs" / "architecture.md").read_text().split())
PLACES = re.findall(r"`((?:broker|coordinator|history|protocol|storage|audit)/[\w/]+\.py)(?:: ([\w.]+))?`", TEXT)
TOUR = TEXT[TEXT.index("## A JoinGroup") : TEXT.index("## Groups")]


@pytest.mark.parametrize(("file", "name"), sorted(set(PLACES)))
def test_what_the_page_names_exists(file: str, name: str) -> None:
    assert (ROOT / file).is_file()
    if name:
        module = import_module("kohort." + file.removesuffix(".py").replace("/", "."))
        assert reduce(getattr, name.split("."), module) is not None


def test_the_tour_names_functions_of_every_layer_on_its_way() -> None:
    named = [file for file, name in re.findall(r"`([\w/]+\.py): ([\w.]+)`", TOUR) if name]
    assert {file.split("/")[0] for file in named} == {"broker", "coordinator", "storage"}
    assert len(named) >= 20


def test_other_files_and_folders_of_the_page_exist() -> None:
    for path in re.findall(r"`((?:coordinator|audit|src|protocol|docs)/[\w/]*)`", TEXT):
        assert (ROOT / path).exists(), path
