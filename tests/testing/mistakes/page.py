"""Writes docs/consumer-mistakes.md from the files of this folder: `python -m tests.testing.mistakes.page`.

A test compares the page with what this would write, so that page and tests cannot differ.
"""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from textwrap import dedent

FOLDER = Path(__file__).parent
PAGE = FOLDER.parents[2] / "docs" / "consumer-mistakes.md"
COMMON = "commits_before_processing"  # the one to begin with
HELPERS = {"__init__", "page", "service", "test_mistakes"}
MISTAKES = sorted({path.stem for path in FOLDER.glob("*.py")} - HELPERS, key=lambda name: (name != COMMON, name))

INTRODUCTION = """\
# Mistakes that consumers make, and the tests that find them

<!-- written by tests/testing/mistakes/page.py from the files in that folder -->

Each section has a small consumer with a mistake, a test that fails because of it, and the same consumer without the
mistake, which passes that test. The tests use `kohort.testing`: `kafka` is a broker inside the test.

```python
from kohort.testing import Broker

with Broker() as kafka:
    test(kafka, consume)
```

The consumers are functions with confluent-kafka's client in them; they end when `stop` is set. What they and the tests
share stands [at the end](#what-the-tests-share) of this page. Kohort's own tests run all of this: each test lets the
right consumer pass, and fails with the wrong one. The code is in `tests/testing/mistakes`.
"""


def page() -> str:
    titles = {name: _title(name) for name in MISTAKES}
    contents = "\n".join(f"- [{title}](#{_anchor(title)})" for title in titles.values())
    shared = _block(_without_docstring((FOLDER / "service.py").read_text(encoding="utf-8")))
    sections = [_section(name) for name in MISTAKES]
    return "\n".join([INTRODUCTION, contents + "\n", *sections, f"## What the tests share\n\n{shared}"])


def _section(name: str) -> str:
    mistake = import_module(f"tests.testing.mistakes.{name}")
    title, _, about = (mistake.__doc__ or "").partition("\n\n")
    source = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    wrong, right = _parts(source, "wrong"), _parts(source, "right")
    rest = [node.name for node in ast.parse(source).body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    test = _parts(source, *(part for part in rest if part not in ("wrong", "right")))
    return "\n".join(
        [
            f"## {title}\n\n{about}",
            f"Wrong:\n\n{_block(wrong)}",
            f'The test, which fails with "{mistake.CAUGHT}":\n\n{_block(test)}',
            f"Right:\n\n{_block(right)}",
        ]
    )


def _title(name: str) -> str:
    return (import_module(f"tests.testing.mistakes.{name}").__doc__ or "").partition("\n")[0]


def _anchor(title: str) -> str:
    """As GitHub makes it of a heading."""
    return "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c in "-_")


def _parts(source: str, *names: str) -> str:
    """The source of these functions and classes."""
    nodes = [node for node in ast.parse(source).body if getattr(node, "name", None) in names]
    return "\n\n\n".join(dedent(ast.get_source_segment(source, node) or "") for node in nodes)


def _without_docstring(source: str) -> str:
    first = ast.parse(source).body[0]
    return "".join(source.splitlines(keepends=True)[first.end_lineno :])


def _block(code: str) -> str:
    return f"```python\n{code.strip()}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
