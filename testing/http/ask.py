"""Reads the fields of a request to a control, from its JSON body or its query, by name and kind.

A field that is missing, of another kind, out of bounds or unknown is a BadAsk, whose text says what would be right.
"""

from __future__ import annotations

import json
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Mapping, Sequence
from typing import Final

INT64_MAX: Final = 2**63 - 1
TEXT_CHARACTERS: Final = 100  # of what was sent, in the text of an error


class BadAsk(ValueError):
    """What is asked cannot be understood. The text says what to send instead."""


class UnknownFault(LookupError):
    """There is no fault of this number."""


class Ask:
    def __init__(
        self, given: Mapping[str, object], parts: Mapping[str, str] | None = None, *, query: bool = False
    ) -> None:
        """`parts`: the values of the names in the path. `query`: fields of a query, where numbers are text."""
        self._given = given
        self._parts = parts or {}
        self._query = query
        self._known: list[str] = []

    def part(self, name: str) -> str:
        return self._parts[name]

    def text(self, name: str, choices: Sequence[str] = ()) -> str:
        found = self.text_or_none(name, choices)
        if found is None:
            raise BadAsk(f"{name} is missing" + (f": one of {', '.join(choices)}" if choices else ""))
        return found

    def text_or_none(self, name: str, choices: Sequence[str] = ()) -> str | None:
        found = self._field(name)
        if found is None:
            return None
        if not isinstance(found, str):
            raise BadAsk(f"{name} must be text, not {_shown(found)}")
        if choices and found not in choices:
            raise BadAsk(f"{name} must be one of {', '.join(choices)}, not {_shown(found)}")
        return found

    def number(self, name: str, default: int, low: int = 0, high: int = INT64_MAX) -> int:
        found = self.number_or_none(name, low, high)
        return default if found is None else found

    def number_or_none(self, name: str, low: int = 0, high: int = INT64_MAX) -> int | None:
        found = self._field(name)
        if found is None:
            return None
        if self._query and isinstance(found, str) and found.isascii() and found.isdecimal() and len(found) < 20:
            found = int(found)
        if not isinstance(found, int) or isinstance(found, bool):
            raise BadAsk(f"{name} must be a whole number, not {_shown(found)}")
        if not low <= found <= high:
            raise BadAsk(f"{name} must be between {low} and {high}, not {_shown(found)}")
        return found

    def texts(self, name: str) -> dict[str, str]:
        """An object whose values are text, numbers or booleans; each becomes text, as in a settings file."""
        found = self._field(name)
        if found is None:
            return {}
        if not isinstance(found, dict) or not all(isinstance(each, str | int | float) for each in found.values()):
            raise BadAsk(f'{name} must be an object of text, like {{"name": "value"}}, not {_shown(found)}')
        return {key: value if isinstance(value, str) else json.dumps(value) for key, value in found.items()}

    def decimals(self, name: str) -> dict[str, float]:
        """An object whose values are numbers."""
        found = self._field(name)
        if found is None:
            return {}
        if not isinstance(found, dict) or not all(_is_number(each) for each in found.values()):
            raise BadAsk(f'{name} must be an object of numbers, like {{"name": 3}}, not {_shown(found)}')
        return found

    def words(self, name: str) -> list[str] | None:
        """An array of text. None: it is missing."""
        found = self._field(name)
        if found is None:
            return None
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            raise BadAsk(f'{name} must be an array of text, like ["name"], not {_shown(found)}')
        return found

    def nested(self, name: str) -> Ask:
        """An object with fields of its own. It is empty if it is missing."""
        found = self._field(name)
        if found is not None and not isinstance(found, dict):
            raise BadAsk(f"{name} must be an object, not {_shown(found)}")
        return Ask(found or {})

    def names(self) -> list[str]:
        """The names of all fields that are given."""
        return list(self._given)

    def several(self, name: str) -> list[Ask]:
        """An array of objects with fields of their own. It is empty if it is missing."""
        found = self._field(name)
        if found is None:
            return []
        if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
            raise BadAsk(f"{name} must be an array of objects, not {_shown(found)}")
        return [Ask(each) for each in found]

    def content(self, name: str) -> bytes | None:
        """Bytes: as text under this name, which becomes UTF-8, or under `<name>_base64`."""
        text, encoded = self.text_or_none(name), self.text_or_none(f"{name}_base64")
        if text is not None and encoded is not None:
            raise BadAsk(f"give {name} or {name}_base64, not both")
        if encoded is None:
            return None if text is None else text.encode("utf-8", "surrogatepass")
        try:
            return b64decode(encoded, validate=True)
        except (NotBase64, ValueError):
            raise BadAsk(f"{name}_base64 is not base64: {_shown(encoded)}") from None

    def end(self) -> None:
        """All fields are read. Refuse what is still there: a misspelt name would otherwise do nothing, silently."""
        unknown = [name for name in self._given if name not in self._known]
        if unknown:
            known = f"; known here: {', '.join(self._known)}" if self._known else "; nothing can be set here"
            raise BadAsk(f"there is no field {_shown(unknown[0])}{known}")

    def _field(self, name: str) -> object:
        if name not in self._known:
            self._known.append(name)
        return self._given.get(name)


def read_json(body: bytes) -> dict[str, object]:
    """The object in a body. Without a body it is empty."""
    if not body:
        return {}
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as problem:
        raise BadAsk(f"the body is not JSON: {problem}") from None
    if not isinstance(found, dict):
        raise BadAsk(f'the body must be a JSON object, like {{"name": "value"}}, not {_shown(found)}')
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(value: object) -> str:
    try:
        text = json.dumps(value)
    except RecursionError:
        text = "what is nested so deeply"
    return text if len(text) <= TEXT_CHARACTERS else f"{text[:TEXT_CHARACTERS]}..."
