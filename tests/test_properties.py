"""Properties files, read as java.util.Properties reads them. Java's own class was asked for each of these answers."""

from __future__ import annotations

import pytest

from kohort.properties import parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("key=value", {"key": "value"}),
        ("key:value", {"key": "value"}),
        ("key value", {"key": "value"}),
        ("key\tvalue", {"key": "value"}),
        ("  key = value", {"key": "value"}),
        ("key : value", {"key": "value"}),
        ("key", {"key": ""}),
        ("key=", {"key": ""}),
        ("=v", {"": "v"}),
        ("a=b=c", {"a": "b=c"}),
        ("a:b=c", {"a": "b=c"}),
        ("a b=c", {"a": "b=c"}),
        ("k=1\nk=2", {"k": "2"}),
    ],
)
def test_a_key_ends_at_the_first_equals_sign_colon_or_blank(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_blanks_at_the_end_belong_to_the_value() -> None:
    assert parse_properties("key  =  a b  ") == {"key": "a b  "}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# c\n! d\n\n  # e\nk=v", {"k": "v"}),
        ("# c\\\nk=v", {"k": "v"}),
        ("k=#v", {"k": "#v"}),
        ("\\#k=v", {"#k": "v"}),
    ],
)
def test_a_comment_is_a_line_of_its_own_and_cannot_be_continued(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("k=a,\\\n   b", {"k": "a,b"}),
        ("k=a\\\r\n  b", {"k": "ab"}),
        ("a\\\n b=c", {"ab": "c"}),
        ("a=b\\\n\\\nc", {"a": "bc"}),
        ("k=a\\\\\nb=c", {"b": "c", "k": "a\\"}),
        ("k=a\\\n\nb=c", {"b": "c", "k": "a"}),
        ("k=a\\\n# no comment", {"k": "a# no comment"}),
        ("k=a\\", {"k": "a"}),
        ("\\\nk=v", {"k": "v"}),
        (" \\\n#x=1", {}),
    ],
)
def test_a_backslash_at_the_end_continues_the_line(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("k\\ e\\=y\\:z=v", {"k e=y:z": "v"}),
        ("k=\\u00e9\\t\\n\\q", {"k": "\u00e9\t\nq"}),
        ("a=\\\\u0041", {"a": "\\u0041"}),
        ("path=C:\\\\data", {"path": "C:\\data"}),
    ],
)
def test_a_backslash_makes_the_next_character_ordinary_or_special(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_only_newlines_and_carriage_returns_end_a_line() -> None:
    assert parse_properties("k=1\r\nj=2\ri=3") == {"k": "1", "j": "2", "i": "3"}
    assert parse_properties("k=a\u2028b\u000bc\u0085d") == {"k": "a\u2028b\u000bc\u0085d"}


def test_a_broken_unicode_escape_is_refused() -> None:
    with pytest.raises(ValueError, match="four hexadecimal digits"):
        parse_properties("k=\\u00e")
