"""What strangers chose is safe to print: no escapes for the terminal, no forged lines, and JSON stays JSON."""

from __future__ import annotations

import io
import json
import logging
import sys
from pathlib import Path

import pytest

from kohort.audit.cli.common import complain, finding_line
from kohort.broker.dump import dump
from kohort.broker.logs import start_logging
from kohort.broker.terminal import table
from kohort.printable import printable, printable_json
from kohort.protocol.record_batch import build_batch
from tests.audit.logs import Logs

HOSTILE = "two\nlines\r\x1b]0;title\x07\x1b[2J\x7f\x9b31m\x85\u2028\u202eright\u2066\ud800\U000e0001"
FINDING = {"severity": "error", "check": "c", "topic": "t", "partition": 0, "message": HOSTILE, "time": None}


def test_every_character_that_does_not_print_is_written_out() -> None:
    assert printable(HOSTILE).isprintable()
    assert printable("Zürich 東京") == "Zürich 東京"
    assert printable("a\nb\x9b") == "a\\nb\\x9b"


@pytest.mark.parametrize("indent", [None, 2])
def test_json_without_such_characters_means_the_same(indent: int | None) -> None:
    value = {HOSTILE: [HOSTILE, 1]}
    text = printable_json(json.dumps(value, ensure_ascii=False, indent=indent))
    assert all(line.isprintable() for line in text.split("\n"))
    assert json.loads(text) == value


def test_a_dump_shows_names_headers_keys_and_values_without_escapes(tmp_path: Path) -> None:
    name = HOSTILE.replace("\ud800", "")  # names are UTF-8
    logs = Logs(tmp_path / "data")
    group = logs.group(name)
    group.generation({name: ["orders-0"]})
    group.commit({"orders-0": 1}, by=name, metadata=name)
    folder = logs.close()
    other = tmp_path / "orders-0"
    other.mkdir()
    raw = HOSTILE.encode("utf-8", "surrogatepass")
    batch = build_batch([(raw, raw, ((raw, raw),))], timestamp=1)
    (other / f"{0:020}.log").write_bytes(batch)
    for path in (folder, other):
        text, rows = io.StringIO(), io.StringIO()
        assert dump([str(path)], out=text) == 0
        assert dump([str(path)], out=rows, as_json=True) == 0
        for line in (text.getvalue() + rows.getvalue()).split("\n"):
            assert line.isprintable(), line
        shown = [json.loads(line) for line in rows.getvalue().splitlines()]
        assert path is other or {batch["records"][0]["key"]["data"]["group"] for batch in shown} == {name}
        payloads = [line.rpartition(" payload: ")[2] for line in text.getvalue().splitlines() if " key: {" in line]
        for payload in payloads:
            json.loads(payload)


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_line_of_the_log_stays_one_line(form: str, capfd: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        start_logging("info", form)
        logging.getLogger("kohort.test").info("group %s", HOSTILE)
        try:
            raise ValueError(f"{HOSTILE}\n2026-11-18T00:00:00.000Z ERROR   forged")
        except ValueError:
            logging.getLogger("kohort.test").exception("group %s", HOSTILE)
        sys.stderr.flush()
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    first, second, *trace = capfd.readouterr().err.splitlines()
    assert all(line.isprintable() for line in (first, second, *trace))
    if form == "json":
        assert trace == []
        assert json.loads(first)["message"] == f"group {HOSTILE}"
    else:
        assert all(line.startswith("    ") for line in trace)


def test_findings_and_complaints_of_the_audit_are_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert finding_line(FINDING | {"group_id": HOSTILE}).isprintable()
    complain(f"group {HOSTILE}")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.isprintable()


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_name_of_32_kb_does_not_make_a_line_of_the_log_as_long(form: str, capfd: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    name = "\x1b" * 32_767
    try:
        start_logging("info", form)
        logging.getLogger("kohort.test").info("group %s", name, extra={"fields": {"group": name, "members": 1}})
        sys.stderr.flush()
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    (line,) = capfd.readouterr().err.splitlines()
    assert len(line) < 60_000
    assert "... and 28,7" in line
    if form == "json":
        assert json.loads(line)["members"] == 1


def test_a_name_of_32_kb_does_not_widen_the_lines_of_others() -> None:
    lines = table(("GROUP", "STATE"), [("a", "Stable"), ("b" * 32_767, "Empty")]).splitlines()
    assert [len(line) for line in lines] == [207, 208, 32_774]
