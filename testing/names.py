"""APIs, errors and states by Kafka's names. A name that does not exist is refused, with the one that was meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from kohort.protocol.api_keys import APIS, ApiKey
from kohort.protocol.error_codes import ErrorCode

API_KEYS = {api.name: ApiKey(key) for key, api in APIS.items()}


class UnknownName(ValueError):
    """The name is not one of Kafka's."""


def api_key(name: str) -> ApiKey:
    """The API of this name: JoinGroup, OffsetCommit, ..."""
    try:
        return API_KEYS[name]
    except KeyError:
        raise UnknownName(f"Kafka has no API {name!r}{did_you_mean(name, API_KEYS)}") from None


def error_code(name: str) -> ErrorCode:
    """The error of this name: REBALANCE_IN_PROGRESS, NOT_COORDINATOR, ..."""
    try:
        return ErrorCode[name]
    except KeyError:
        known = ErrorCode.__members__
        raise UnknownName(f"Kafka has no error {name!r}{did_you_mean(name, known)}") from None


def error_name(code: int) -> str:
    return ErrorCode(code).name if code in ErrorCode._value2member_map_ else str(code)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean X?`, if one of the known names is like it. Case and underscores do not count."""
    by_letters = {_letters(each): each for each in known}
    close = get_close_matches(_letters(name), by_letters, 1, 0.7)
    return f"; did you mean {by_letters[close[0]]}?" if close else ""


def _letters(name: str) -> str:
    return name.replace("_", "").lower()
