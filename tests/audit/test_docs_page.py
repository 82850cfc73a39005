"""docs/audit.md says what the code does."""

from __future__ import annotations

import re

import pytest

from kohort.broker.cli import parse

pytest.importorskip("pyspark")

from tests.audit.docs_page import PAGE, page


def test_every_table_column_and_check_is_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == page(text), "run `python -m tests.audit.docs_page` and look at the difference"


def test_every_command_on_the_page_is_one_that_kohort_understands() -> None:
    commands = re.findall(r"^    kohort ([^#\n]+)", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(commands) > 5
    for command in commands:
        assert parse(command.split())[0] is not None
