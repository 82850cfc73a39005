"""docs/architecture.md and docs/tours.md name files, folders and functions: each of them exists."""

from __future__ import annotations

import re
from functools import reduce
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = "audit|broker|client|coordinator|history|protocol|storage|testing"
MAP, TOURS = (" ".join((ROOT / "docs" / page).read_text().split()) for page in ("architecture.md", "tours.md"))
PLACES = re.findall(rf"`((?:{PACKAGES})/[\w/]+\.py)(?:: ([\w.]+))?`", MAP + TOURS)


@pytest.mark.parametrize(("file", "name"), sorted(set(PLACES)))
def test_what_the_pages_name_exists(file: str, name: str) -> None:
    assert (ROOT / file).is_file()
    if name:
        module = import_module("kohort." + file.removesuffix(".py").replace("/", "."))
        assert reduce(getattr, name.split("."), module) is not None


def test_the_tours_name_functions_of_every_layer_on_their_way() -> None:
    named = [file for file, name in re.findall(r"`([\w/]+\.py): ([\w.]+)`", TOURS) if name]
    assert {file.split("/")[0] for file in named} == {"broker", "coordinator", "storage"}
    assert len(named) >= 20


def test_other_files_and_folders_of_the_pages_exist() -> None:
    for path in re.findall(rf"`((?:{PACKAGES}|src|docs)/[\w/]*)`", MAP + TOURS):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("package", PACKAGES.split("|"))
def test_every_folder_with_much_in_it_is_on_the_map(package: str) -> None:
    """Or in the table of contents of its package."""
    contents = import_module(f"kohort.{package}").__doc__ or ""
    folders = [each.name for each in (ROOT / package).iterdir() if len(list(each.glob("*.py"))) > 5]
    missing = [each for each in folders if f"{package}/{each}/" not in MAP and f" {each}/ " not in contents]
    assert f"`{package}/" in MAP
    assert not missing
