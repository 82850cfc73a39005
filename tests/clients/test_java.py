"""Kafka's own Java client, from Maven."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients import story
from tests.kafka.jars import java

PROGRAM = Path(__file__).parent / "java" / "MatrixClient.java"


@pytest.mark.kafka
def test_the_java_client_writes_reads_seeks_and_deletes(bootstrap: str) -> None:
    told = java(str(PROGRAM), bootstrap, str(story.START_MS)).splitlines()
    kinds = [*story.COMPRESSIONS, "idempotent", "acks-0", "acks-1", "acks-all"]
    assert told == [f"java-{kind} ok" for kind in kinds]
