"""Regular expressions of subscriptions: what Kafka takes, what each matches, and what they can cost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kohort.coordinator.api import all_steps
from kohort.coordinator.consumer.regex import InvalidRegularExpression, compile_pattern

# What a real Kafka says: `python -m tests.kafka.make_regular_expressions`.
KAFKA = json.loads((Path(__file__).parents[2] / "data" / "regular_expressions.json").read_text())
TOPICS: list[str] = KAFKA["topics"]
EXPRESSIONS: dict[str, list[str] | None] = KAFKA["expressions"]

# Where Kohort differs, as docs/protocol-support.md says.
SCRIPTS_THAT_RE2J_DOES_NOT_KNOW = {r"\p{Kawi}", r"\p{Vithkuqi}", r"\p{Nag_Mundari}"}
NESTED_REPETITIONS_ABOVE_1000 = {"(a{100}){11}", "((a{10}){10}){11}"}
DIFFERENT = SCRIPTS_THAT_RE2J_DOES_NOT_KNOW | NESTED_REPETITIONS_ABOVE_1000


def matches(text: str, names: list[str] | None = None) -> list[str] | None:
    """None: it is refused."""
    try:
        return sorted(all_steps(compile_pattern(text).matching(TOPICS if names is None else names)))
    except InvalidRegularExpression:
        return None


def test_expressions_are_taken_and_match_as_in_kafka() -> None:
    ours = {text: matches(text) for text in EXPRESSIONS}
    theirs = {text: None if topics is None else sorted(topics) for text, topics in EXPRESSIONS.items()}
    assert {text for text in ours if ours[text] != theirs[text]} == DIFFERENT
    assert sum(topics is None for topics in theirs.values()) > 90
    assert sum(bool(topics) for topics in theirs.values()) > 90


def test_what_differs_matches_no_topic_that_kafka_would_not_match() -> None:
    for text in SCRIPTS_THAT_RE2J_DOES_NOT_KNOW:
        assert matches(text) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("or(d", "missing ): or(d"),
        ("(?=a)b", "invalid perl operator: (?="),
        (r"(a)\1", r"invalid escape sequence: \1"),
        (r"a\C", r"invalid escape sequence: \C"),
        ("(?P<n>a)(?P<n>b)", "duplicate capture group name: n"),
        ("(?P<n\u00e9>a)", "invalid named capture: n\u00e9"),
        ("a" * 4_097, "it is longer than 4096 characters"),
        ("." * 1_000, "pattern too large"),
        (r"\pL" * 11, "it has more than 10 Unicode classes"),
        (r"[\pL]" * 11, "it has more than 10 Unicode classes"),
        ("a{500}b{501}", "its repetitions are more than 1000 together"),
        ("a{0,1000}b{1,}", "its repetitions are more than 1000 together"),
        ("a{99999999999999999999}", "invalid repetition size: 99999999999999999999"),
        ("a{?", "invalid nested repetition operator: {"),
        ("\ud800", "it is not Unicode"),
    ],
)
def test_what_is_wrong_is_said(text: str, why: str) -> None:
    with pytest.raises(InvalidRegularExpression) as refused:
        compile_pattern(text)
    assert str(refused.value) == why


def test_limits_are_not_reached_by_what_is_quoted_or_in_a_class() -> None:
    assert matches(r"\Q" + "(?P<n>" * 2 + r"\E|foo") == ["foo"]
    assert matches("[(?P<n>][(?P<n>]|foo", ["foo", "Pn"]) == ["Pn", "foo"]
    assert matches("[a{600}][b{600}]", ["ab", "a{"]) == ["ab", "a{"]
    assert matches(r"\\Coo", ["\\Coo"]) == ["\\Coo"]
    assert matches("\\(?P?<n>x", ["(P<n>x"]) == ["(P<n>x"]


def test_an_escaped_letter_beyond_ascii_is_that_letter() -> None:
    assert matches("(?i)\\\u212a", ["k", "K", "x"]) == ["K", "k"]  # the sign of Kelvin


def test_many_names_are_matched_in_steps_and_large_expressions_in_more_of_them() -> None:
    def steps_of(text: str) -> int:
        return sum(1 for _ in compile_pattern(text).matching([f"topic-{number}" for number in range(1_000)]))

    assert 5 <= steps_of("topic-.*") <= 50
    assert steps_of("(?:(?:(?:a?){10}){10}){10}") == 1_000


def test_re2_is_imported_with_the_first_expression() -> None:
    program = "import sys, kohort.coordinator.consumer.regex; sys.exit('re2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
