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
    program = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert program is not None
    names: dict[str, Any] = {}
    exec(program[1].replace("kohort-data", str(logs.close())), names)
    assert [tuple(row) for row in names["commits"].groupBy("group_id").count().collect()] == [("billing", 3)]
    assert "billing" in capsys.readouterr().out
    assert names["spark"] is spark
