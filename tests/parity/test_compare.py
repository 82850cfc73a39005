"""The comparison itself: it must see what differs, and overlook only what the list allows."""

from __future__ import annotations

from typing import Any

from kohort.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from kohort.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker, MetadataResponseTopic
from kohort.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from tests.parity.batches import batch
from tests.parity.compare import Comparison, read_batches
from tests.parity.peer import CLOSED, Exchange, name_topic_ids
from tests.parity.run import difference_lines


def differing_fields(api: str, kafka: Any, ours: Any) -> list[str]:
    comparison = Comparison()
    comparison.transcripts("a scenario", [Exchange(api, 1, kafka, b"")], [Exchange(api, 1, ours, b"")])
    return [each.field for each in comparison.differences]


def produced(*indexes: int, error_code: int = 0) -> ProduceResponse:
    return ProduceResponse(
        [TopicProduceResponse("t", partition_responses=[PartitionProduceResponse(i, error_code) for i in indexes])]
    )


def test_equal_answers_do_not_differ() -> None:
    assert differing_fields("Produce", produced(0, 1), produced(0, 1)) == []


def test_a_field_that_differs_is_named_with_its_place() -> None:
    differing = differing_fields("Produce", produced(0), produced(0, error_code=3))
    assert differing == ["responses[0].partition_responses[0].error_code"]


def test_a_missing_element_differs() -> None:
    fields = differing_fields("Produce", produced(0, 1), produced(0))
    assert fields == ["responses[0].partition_responses.count", "responses[0].partition_responses.names"]


def test_the_order_of_a_hash_table_does_not_count() -> None:
    assert differing_fields("Produce", produced(0, 1), produced(1, 0)) == []


def test_a_closed_connection_is_not_an_answer() -> None:
    assert differing_fields("Produce", produced(0), CLOSED) == ["(answer)"]


def test_what_is_random_may_differ_but_not_be_missing() -> None:
    def answer(topic_id: bytes, port: int) -> MetadataResponse:
        topics = [MetadataResponseTopic(name="t", topic_id=topic_id)]
        return MetadataResponse(brokers=[MetadataResponseBroker(1, "h", port)], topics=topics)

    one, other, none = b"1" * 16, b"2" * 16, bytes(16)
    assert differing_fields("Metadata", answer(one, 1), answer(other, 2)) == []
    assert differing_fields("Metadata", answer(one, 1), answer(none, 1)) == ["topics[0].topic_id"]


def test_an_id_of_another_topic_differs_where_both_topics_are_known() -> None:
    def answer(topic_id: bytes) -> MetadataResponse:
        answer = MetadataResponse(topics=[MetadataResponseTopic(name="t", topic_id=topic_id)])
        name_topic_ids(answer, {b"1" * 16: "orders", b"2" * 16: "orders", b"3" * 16: "payments"})
        return answer

    assert differing_fields("Metadata", answer(b"1" * 16), answer(b"2" * 16)) == []
    assert differing_fields("Metadata", answer(b"1" * 16), answer(b"3" * 16)) == ["topics[0].topic_id"]


def test_apis_may_be_left_out_but_not_added_or_announced_otherwise() -> None:
    two = ApiVersionsResponse(api_keys=[ApiVersion(1, 4, 18), ApiVersion(2, 1, 11)])
    assert differing_fields("ApiVersions", two, ApiVersionsResponse(api_keys=[ApiVersion(2, 1, 11)])) == []
    fewer = ApiVersionsResponse(api_keys=[ApiVersion(2, 1, 10)])
    assert differing_fields("ApiVersions", two, fewer) == ["api_keys[0].max_version"]
    assert "api_keys.count" in differing_fields("ApiVersions", fewer, two)


def test_record_batches_are_compared_as_fields() -> None:
    (read,) = read_batches(batch(2))
    assert read["record_count"] == 2
    assert [record["offset"] for record in read["records"]] == [0, 1]
    assert read_batches(b"no batch at all") == b"no batch at all"


def test_the_same_difference_in_several_versions_is_one_line() -> None:
    comparison = Comparison()
    for version in (3, 4, 6):
        theirs, ours = produced(0), produced(0, error_code=3)
        comparison.transcripts(
            "a scenario", [Exchange("Produce", version, theirs, b"")], [Exchange("Produce", version, ours, b"")]
        )
    assert list(difference_lines(comparison.differences)) == [
        "a scenario | Produce v3-4,v6 | responses[0].partition_responses[0].error_code | Kafka: 0 | ours: 3"
    ]
