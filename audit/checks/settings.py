"""Thresholds as a user sets them: `--set offset_jump.factor=50`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import NamedTuple

from kohort.audit.checks.kit.check import Check, Limits


class Settings(NamedTuple):
    """The thresholds that differ from the defaults: check -> threshold -> value."""

    thresholds: Mapping[str, Limits] = {}

    def of(self, check: Check) -> Limits:
        return {**check.thresholds, **self.thresholds.get(check.name, {})}

    def in_words(self, check: Check) -> str:
        return ", ".join(f"{name}={value:g}" for name, value in self.of(check).items())


def parse_settings(texts: Iterable[str]) -> Settings:
    """Parse "check.threshold=value". ValueError, with a message for users, if the threshold or value is wrong."""
    from kohort.audit.checks import ALL

    thresholds: dict[str, dict[str, float]] = {}
    for text in texts:
        place, equals, value = text.partition("=")
        check_name, dot, name = place.strip().partition(".")
        if not equals or not dot:
            raise ValueError(f"{text!r} is not of the form check.threshold=value")
        check = ALL.get(check_name)
        if check is None:
            raise ValueError(f"{text!r}: there is no check {check_name!r}")
        if name not in check.thresholds:
            known = ", ".join(check.thresholds) or "none"
            raise ValueError(f"{text!r}: {check_name} has no threshold {name!r}; it has {known}")
        try:
            number = float(value)
        except ValueError:
            raise ValueError(f"{text!r}: {value!r} is not a number") from None
        if not 0 <= number < inf:
            raise ValueError(f"{text!r}: {value!r} is not a number from 0 on")
        thresholds.setdefault(check_name, {})[name] = number
    return Settings(thresholds)
