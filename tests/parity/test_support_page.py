"""docs/protocol-support.md says what the code does."""

from __future__ import annotations

from kohort.broker.api_table import ApiTable
from kohort.broker.unserved import GAPS
from kohort.protocol.api_keys import APIS
from tests.parity.support_page import KAFKA_APIS, PAGE, WHY_NOT, page


def test_the_page_is_what_the_code_says() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == page(text), "run `python -m tests.parity.support_page` and look at the difference"


def test_every_api_is_served_or_its_absence_explained() -> None:
    served = {int(key) for key, _, _ in ApiTable().announced()}
    explained = {key for keys in WHY_NOT.values() for key in keys}
    assert set(KAFKA_APIS) == set(KAFKA_APIS) & (served | explained)


def test_every_version_that_kafka_announces_is_announced() -> None:
    for key, low, high in ApiTable().announced():
        assert (APIS[key].name, low, high) == KAFKA_APIS[key]


def test_gaps_have_kafkas_names() -> None:
    named = {key: name for gap in GAPS for key, name in gap.apis.items() if key in KAFKA_APIS}
    assert named == {key: KAFKA_APIS[key][0] for key in named}
