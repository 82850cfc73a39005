"""docs/audit.md says what the code does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kohort.broker.cli import parse

pytest.importorskip("pyspark")

from tests.audit.docs_page import PAGE, page
from tests.audit.logs import Logs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_every_table_column_and_check_is_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == page(text), "run `python -m tests.audit.docs_page` and look at the difference"


def test_every_command_on_the_page_is_one_that_kohort_understands() -> None:
    commands = re.findall(r"^    kohort ([^#\n]+)", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(commands) > 5
    for command in commands:
        assert parse(command.split())[0] is not None


def test_the_program_on_the_page_reads_a_log_with_spark(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = Logs(tmp_path)
    logs.group("billing").commits("orders-0", [1, 2, 3])
    names = run_program("spark.read", logs.close())
    assert [tuple(row) for row in names["commits"].groupBy("group_id").count().collect()] == [("billing", 3)]
    assert "billing" in capsys.readouterr().out
    assert names["spark"] is spark


def test_the_program_on_the_page_checks_what_a_test_has_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = Logs(tmp_path)
    group = logs.group("billing")
    group.generation({"m1": ["orders-0"], "m2": ["orders-1"]})
    group.commit({"orders-0": 5}, by="m2")
    run_program("check_log", logs.close())
    assert "commit_by_non_owner billing orders 0 m2 1 commit by m2 while m1 owned" in capsys.readouterr().out


def run_program(word: str, data: Path) -> dict[str, Any]:
    """Run the program of the page that has this word; the names that it has defined."""
    programs = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (program,) = (each for each in programs if word in each)
    names: dict[str, Any] = {}
    exec(program.replace("kohort-data", str(data)), names)
    return names
