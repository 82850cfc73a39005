"""A part of `make parity` in the suite: the data plane and topics in their newest versions, and a few random groups."""

from __future__ import annotations

import pytest

from tests.kafka.jars import kafka_jars
from tests.parity import assignments
from tests.parity.run import main


@pytest.mark.kafka
def test_kafka_and_kohort_answer_alike_in_the_newest_versions(capsys: pytest.CaptureFixture[str]) -> None:
    kafka_jars()  # skips where there is no Java
    files = ("cluster", "topics", "produce", "fetch", "offsets")
    status = main(["--newest", *(argument for name in files for argument in ("--file", name))])
    assert status == 0, capsys.readouterr().out


@pytest.mark.kafka
def test_kafka_and_kohort_assign_random_groups_alike(capsys: pytest.CaptureFixture[str]) -> None:
    kafka_jars()
    assert assignments.main(["--groups", "20"]) == 0, capsys.readouterr().out
