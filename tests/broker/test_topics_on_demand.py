"""Topics that come into being because somebody asks for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kohort.broker.config import Listener
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.broker_box import BrokerBox


def ask_for(box: BrokerBox, name: str) -> int:
    """The error code that Metadata gives for the topic."""
    request = MetadataRequest([MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)
    code: int = box.send(ApiKey.METADATA, request, 12).topics[0].error_code
    return code


def a_broker(folder: Path, factor: str) -> BrokerBox:
    box = BrokerBox(folder, default_replication_factor=factor)
    box.broker.advertised = [Listener("PLAINTEXT", "localhost", 9092)]
    return box


def test_a_topic_that_is_asked_for_is_made(tmp_path: Path) -> None:
    box = a_broker(tmp_path / "data", factor="1")
    assert ask_for(box, "t") == 0
    assert box.broker.catalog.get("t") is not None
    box.close()


def test_no_topic_is_made_if_the_default_replication_factor_cannot_be_reached(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    box = a_broker(tmp_path / "data", factor="3")
    assert [ask_for(box, "t") for _ in range(3)] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 3
    assert box.broker.catalog.get("t") is None
    assert ask_for(box, "__consumer_offsets") == 0  # it has a replication factor of its own
    assert caplog.text.count("default.replication.factor=3 cannot be reached with one broker") == 1
    box.close()
