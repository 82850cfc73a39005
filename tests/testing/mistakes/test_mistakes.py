"""The test of each mistake lets the right consumer pass, and catches the wrong one."""

from __future__ import annotations

import inspect
import re
from importlib import import_module

import pytest

from kohort.testing import Broker
from tests.testing.mistakes.page import MISTAKES, PAGE, page

MAX_LINES = 25
SLOW = ("blocks_between_polls", "two_services_in_one_group")  # all others together take less than 30 s
RUN = [pytest.param(name, marks=[pytest.mark.story] if name in SLOW else []) for name in MISTAKES]


@pytest.mark.parametrize("name", RUN)
def test_the_right_consumer_passes(name: str) -> None:
    mistake = import_module(f"tests.testing.mistakes.{name}")
    with Broker() as kafka:
        mistake.test(kafka, mistake.right)


@pytest.mark.parametrize("name", RUN)
def test_the_wrong_consumer_is_caught(name: str) -> None:
    mistake = import_module(f"tests.testing.mistakes.{name}")
    with Broker() as kafka, pytest.raises(AssertionError, match=re.escape(mistake.CAUGHT)):
        mistake.test(kafka, mistake.wrong)


@pytest.mark.parametrize("name", MISTAKES)
def test_the_consumers_are_small(name: str) -> None:
    mistake = import_module(f"tests.testing.mistakes.{name}")
    for consumer in (mistake.wrong, mistake.right):
        assert len(inspect.getsource(consumer).splitlines()) <= MAX_LINES


def test_the_page_shows_these_consumers_and_tests() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m tests.testing.mistakes.page"
