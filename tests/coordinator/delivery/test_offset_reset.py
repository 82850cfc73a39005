"""share.auto.offset.reset: durations as Java reads them."""

from __future__ import annotations

import pytest

from kohort.coordinator.delivery.offset_reset import duration_ms, timestamp_to_begin_at


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("PT1H", 3_600_000),
        ("P1D", 86_400_000),
        ("P1DT2H3M4S", 93_784_000),
        ("PT0.5S", 500),
        ("PT1.0009S", 1_000),
        ("pt15m", 900_000),
        ("PT-6H+3M", -21_420_000),
        ("-PT6H", -21_600_000),
        ("PT-0.5S", -500),
    ],
)
def test_durations(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1H", "PT1", "P1H", "PT1D", "P1Y", "PT1.5H", "PT1H ", "PTH"])
def test_other_text_is_no_duration(text: str) -> None:
    assert duration_ms(text) is None


def test_only_by_duration_has_a_timestamp() -> None:
    assert timestamp_to_begin_at("by_duration:PT1H", 10_000_000) == 6_400_000
    assert timestamp_to_begin_at("latest", 10_000_000) is None
    assert timestamp_to_begin_at("earliest", 10_000_000) is None
