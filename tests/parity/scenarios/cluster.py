"""ApiVersions, Metadata, DescribeCluster, DescribeTopicPartitions, and what the connection itself answers."""

from __future__ import annotations

from struct import pack

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.frames import framed
from kohort.protocol.headers import request_header
from kohort.protocol.messages.api_versions import ApiVersionsRequest
from kohort.protocol.messages.describe_cluster import DescribeClusterRequest
from kohort.protocol.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from kohort.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.parity.peer import Peer
from tests.parity.scenario import requests, scenario

NO_SUCH_ID = bytes(range(1, 17))

# --- Metadata of an empty broker: before any topic was made


@scenario(ApiKey.METADATA, alone=True)
def metadata_of_all_topics_of_a_fresh_broker_is_empty(peer: Peer) -> None:
    peer.ask(ApiKey.METADATA, MetadataRequest([] if peer.version == 0 else None))


requests(
    ApiKey.DESCRIBE_CLUSTER,
    {
        "the cluster describes itself": DescribeClusterRequest(),
        "the cluster tells what its client may do": DescribeClusterRequest(include_cluster_authorized_operations=True),
    },
)

requests(
    ApiKey.DESCRIBE_CLUSTER,
    {
        "controllers are not reached through a broker": DescribeClusterRequest(endpoint_type=2),
        "an unknown endpoint type is refused": DescribeClusterRequest(endpoint_type=7),
    },
    versions=(1, 2),
)

requests(
    ApiKey.DESCRIBE_CLUSTER,
    {"fenced brokers may be asked for": DescribeClusterRequest(include_fenced_brokers=True)},
    versions=(2,),
)

# --- ApiVersions


requests(
    ApiKey.API_VERSIONS,
    {
        "a client introduces itself": ApiVersionsRequest("kohort-parity", "1.0"),
        "a client without a name is refused where names are sent": ApiVersionsRequest("", "1.0"),
        "a client without a version is refused where versions are sent": ApiVersionsRequest("kohort", ""),
        "a client name with a space is refused": ApiVersionsRequest("my client", "1.0"),
        "a client name that ends with a dot is refused": ApiVersionsRequest("client.", "1.0"),
        "a client name that starts with a dash is refused": ApiVersionsRequest("-client", "1.0"),
        "a client name of one letter is fine": ApiVersionsRequest("c", "1"),
        "a client version with dots and dashes is fine": ApiVersionsRequest("c", "1.2.3-rc.4"),
    },
)


@scenario(ApiKey.API_VERSIONS, versions=(4,))
def versions_may_be_asked_for_twice(peer: Peer) -> None:
    peer.ask(ApiKey.API_VERSIONS, ApiVersionsRequest("c", "1"))
    peer.ask(ApiKey.API_VERSIONS, ApiVersionsRequest("c", "1"), 0)


@scenario(ApiKey.API_VERSIONS, versions=(4,))
def an_unknown_version_of_ApiVersions_is_answered_in_version_0(peer: Peer) -> None:
    for version in (5, 99, 32767):
        header = request_header(ApiKey.API_VERSIONS, version, 5, "c")
        peer.ask_frame(framed(header, b"\x02c\x021\x00"), ApiKey.API_VERSIONS, version, answer_version=0)
    peer.ask(ApiKey.API_VERSIONS, ApiVersionsRequest("c", "1"))


@scenario(ApiKey.API_VERSIONS, versions=(4,))
def a_negative_version_of_ApiVersions(peer: Peer) -> None:
    peer.ask_frame(framed(pack(">hhih", 18, -1, 5, -1)), ApiKey.API_VERSIONS, -1, answer_version=0)


@scenario(ApiKey.API_VERSIONS)
def trailing_bytes_after_ApiVersions_are_ignored(peer: Peer) -> None:
    body = b"\x02c\x021\x00" if peer.version >= 3 else b""
    peer.ask_body(ApiKey.API_VERSIONS, body + b"trailing")


@scenario(ApiKey.API_VERSIONS, versions=(3, 4))
def a_body_that_stops_early_closes_the_connection(peer: Peer) -> None:
    peer.ask_body(ApiKey.API_VERSIONS, b"\x02c\x09")


@scenario(ApiKey.API_VERSIONS, versions=(3, 4))
def a_null_client_name_closes_the_connection(peer: Peer) -> None:
    peer.ask_body(ApiKey.API_VERSIONS, b"\x00\x021\x00")


@scenario(ApiKey.API_VERSIONS, versions=(3, 4))
def unknown_tagged_fields_are_skipped(peer: Peer) -> None:
    peer.ask_body(ApiKey.API_VERSIONS, b"\x02c\x021\x02\x05\x01x\x7f\x00")


# --- the connection


@scenario(ApiKey.API_VERSIONS, versions=(0,))
def unknown_apis_and_versions_close_the_connection(peer: Peer) -> None:
    for api_key, version in ((999, 0), (-1, 0), (32767, 0), (4, 0), (3, 14), (3, -1), (12, 9), (1, 3), (1, 19), (0, 2)):
        frame = framed(pack(">hhih", api_key, version, 1, -1) + bytes(20))
        peer.ask_frame(frame, ApiKey.API_VERSIONS, 0)


@scenario(ApiKey.API_VERSIONS, versions=(0,))
def apis_between_brokers_close_the_connection(peer: Peer) -> None:
    for api_key in (52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 82):
        frame = framed(pack(">hhih", api_key, 0, 1, -1) + bytes(40))
        peer.ask_frame(frame, ApiKey.API_VERSIONS, 0)


@scenario(ApiKey.API_VERSIONS, versions=(0,))
def impossible_frame_sizes_close_the_connection(peer: Peer) -> None:
    for size in (-1, 0, 104857601, 2147483647, -2147483648):
        peer.ask_frame(pack(">i", size), ApiKey.API_VERSIONS, 0)


@scenario(ApiKey.API_VERSIONS, versions=(0,))
def a_header_that_stops_early_closes_the_connection(peer: Peer) -> None:
    for header in (
        b"\x00",
        b"\x00\x12\x00\x00",
        b"\x00\x12\x00\x00\x00\x00\x00\x01",
        b"\x00\x12\x00\x00\x00\x00\x00\x01\x00",
    ):
        peer.ask_frame(framed(header), ApiKey.API_VERSIONS, 0)


@scenario(ApiKey.API_VERSIONS, versions=(0,))
def client_ids_may_be_null_empty_or_long_but_not_longer_than_the_frame(peer: Peer) -> None:
    for length, text in (
        (-1, b""),
        (0, b""),
        (2000, b"x" * 2000),
        (7, b"a\xc3\xa9\xf0\x9f\x98"),
        (-2, b""),
        (9, b"short"),
    ):
        peer.ask_frame(framed(pack(">hhih", 18, 0, 7, length) + text), ApiKey.API_VERSIONS, 0)


# --- Metadata


@scenario(ApiKey.METADATA)
def metadata_of_an_existing_topic(peer: Peer) -> None:
    topic = peer.create(partitions=3)
    peer.ask(ApiKey.METADATA, MetadataRequest([MetadataRequestTopic(name=topic)]))


@scenario(ApiKey.METADATA, alone=True)
def metadata_of_all_topics_names_every_one(peer: Peer) -> None:
    peer.create("-b", partitions=2)
    peer.create("-a")
    peer.ask(ApiKey.METADATA, MetadataRequest([] if peer.version == 0 else None))


@scenario(ApiKey.METADATA, versions=range(1, 14))
def metadata_of_no_topics_names_only_the_brokers(peer: Peer) -> None:
    peer.create()
    peer.ask(ApiKey.METADATA, MetadataRequest([]))


@scenario(ApiKey.METADATA, versions=range(4, 14))
def a_topic_that_nobody_made_is_unknown_if_it_may_not_be_made(peer: Peer) -> None:
    request = MetadataRequest([MetadataRequestTopic(name=peer.topic())], allow_auto_topic_creation=False)
    peer.ask(ApiKey.METADATA, request)
    peer.ask(ApiKey.METADATA, request)


@scenario(ApiKey.METADATA)
def a_topic_that_nobody_made_is_made_by_asking_for_it(peer: Peer) -> None:
    request = MetadataRequest([MetadataRequestTopic(name=peer.topic())])
    peer.ask(ApiKey.METADATA, request)
    peer.settle(peer.topic())
    peer.ask(ApiKey.METADATA, request)


@scenario(ApiKey.METADATA)
def names_that_no_topic_can_have_are_refused(peer: Peer) -> None:
    for name in ("", ".", "..", "a b", "a/b", "ü", "x" * 250, "a:b", "tab\t"):
        for may_create in (True, False):
            peer.ask(ApiKey.METADATA, MetadataRequest([MetadataRequestTopic(name=name)], may_create))


@scenario(ApiKey.METADATA, versions=range(4, 14))
def the_longest_name_is_only_unknown(peer: Peer) -> None:
    peer.ask(ApiKey.METADATA, MetadataRequest([MetadataRequestTopic(name="x" * 249)], False))


@scenario(ApiKey.METADATA)
def the_same_topic_asked_for_twice_is_answered(peer: Peer) -> None:
    topic = peer.create()
    peer.ask(ApiKey.METADATA, MetadataRequest([MetadataRequestTopic(name=topic)] * 2))


@scenario(ApiKey.METADATA, versions=range(4, 14))
def known_and_unknown_topics_are_answered_together(peer: Peer) -> None:
    names = [peer.topic("-z"), peer.create("-m"), peer.topic("-a"), "bad name", peer.create("-b")]
    peer.ask(ApiKey.METADATA, MetadataRequest([MetadataRequestTopic(name=name) for name in names], False))


@scenario(ApiKey.METADATA, versions=range(8, 14))
def metadata_tells_what_its_client_may_do(peer: Peer) -> None:
    topic = peer.create()
    peer.ask(ApiKey.METADATA, MetadataRequest([MetadataRequestTopic(name=topic)], False, True, True))


@scenario(ApiKey.METADATA, versions=(12, 13))
def a_topic_is_found_by_its_id(peer: Peer) -> None:
    topic_id = peer.topic_id(peer.create(partitions=2))
    peer.ask(ApiKey.METADATA, MetadataRequest([MetadataRequestTopic(topic_id, None)]))


@scenario(ApiKey.METADATA, versions=(12, 13))
def an_unknown_topic_id_is_answered_as_such(peer: Peer) -> None:
    peer.ask(ApiKey.METADATA, MetadataRequest([MetadataRequestTopic(NO_SUCH_ID, None)]))


@scenario(ApiKey.METADATA, versions=(12, 13))
def a_topic_id_and_a_name_together(peer: Peer) -> None:
    topic = peer.create()
    peer.ask(ApiKey.METADATA, MetadataRequest([MetadataRequestTopic(peer.topic_id(topic), topic)]))
    peer.ask(ApiKey.METADATA, MetadataRequest([MetadataRequestTopic(NO_SUCH_ID, topic)]))


@scenario(ApiKey.METADATA, versions=(12, 13))
def ids_and_names_in_one_request(peer: Peer) -> None:
    one, other = peer.create("-1"), peer.create("-2")
    topics = [MetadataRequestTopic(name=one), MetadataRequestTopic(peer.topic_id(other), None)]
    peer.ask(ApiKey.METADATA, MetadataRequest(topics))


@scenario(ApiKey.METADATA, versions=(10, 11, 12, 13))
def neither_id_nor_name(peer: Peer) -> None:
    peer.ask(ApiKey.METADATA, MetadataRequest([MetadataRequestTopic(bytes(16), None)]))


@scenario(ApiKey.METADATA, versions=(10, 11))
def topic_ids_before_they_were_allowed(peer: Peer) -> None:
    topic = peer.create()
    peer.ask(ApiKey.METADATA, MetadataRequest([MetadataRequestTopic(NO_SUCH_ID, topic)], False))


@scenario(ApiKey.METADATA)
def a_metadata_request_that_stops_early_closes_the_connection(peer: Peer) -> None:
    peer.ask_body(ApiKey.METADATA, b"\x05" if peer.version >= 9 else b"\x00\x00\x00\x05")


@scenario(ApiKey.METADATA, versions=(0, 8))
def a_metadata_request_with_an_impossible_count_closes_the_connection(peer: Peer) -> None:
    for count in (-2, 2147483647, 1000):
        peer.ask_body(ApiKey.METADATA, pack(">i", count))


@scenario(ApiKey.METADATA, versions=range(4, 14), alone=True)
def metadata_for_an_internal_topic_that_is_not_there_yet(peer: Peer) -> None:
    peer.ask(ApiKey.METADATA, MetadataRequest([MetadataRequestTopic(name="__transaction_state")], False))


# --- DescribeTopicPartitions


@scenario(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
def topics_are_described_in_the_order_of_their_names(peer: Peer) -> None:
    names = [peer.create("-b", partitions=3), peer.create("-a", partitions=2)]
    peer.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, DescribeTopicPartitionsRequest([TopicRequest(name) for name in names]))


@scenario(ApiKey.DESCRIBE_TOPIC_PARTITIONS, alone=True)
def no_names_means_all_topics(peer: Peer) -> None:
    peer.create("-b")
    peer.create("-a", partitions=2)
    peer.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, DescribeTopicPartitionsRequest([]))


@scenario(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
def an_unknown_topic_has_no_partitions_to_describe(peer: Peer) -> None:
    names = [peer.topic("-none"), peer.create("-some"), "bad name"]
    peer.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, DescribeTopicPartitionsRequest([TopicRequest(name) for name in names]))


@scenario(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
def an_empty_topic_name_that_Kafka_stumbles_over(peer: Peer) -> None:
    names = [peer.create("-some"), ""]
    peer.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, DescribeTopicPartitionsRequest([TopicRequest(name) for name in names]))


@scenario(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
def a_limit_cuts_the_answer_and_a_cursor_goes_on(peer: Peer) -> None:
    names = [peer.create("-a", partitions=3), peer.create("-b", partitions=2), peer.create("-c")]
    topics = [TopicRequest(name) for name in names]
    cursor = None
    for _ in range(8):
        answer = peer.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, DescribeTopicPartitionsRequest(topics, 2, cursor))
        if answer.next_cursor is None:
            return
        cursor = Cursor(answer.next_cursor.topic_name, answer.next_cursor.partition_index)


@scenario(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
def borderline_limits_of_partitions(peer: Peer) -> None:
    topics = [TopicRequest(peer.create(partitions=3))]
    for limit in (3, 1, 0, -1, 2001):
        peer.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, DescribeTopicPartitionsRequest(topics, limit))


@scenario(ApiKey.DESCRIBE_TOPIC_PARTITIONS, alone=True)
def borderline_cursors(peer: Peer) -> None:
    one, two = peer.create("-a", partitions=3), peer.create("-c", partitions=2)
    topics = [TopicRequest(one), TopicRequest(two)]
    for name, index in (
        (one, 2),
        (one, 3),
        (one, 99),
        (one, -1),
        (two, 1),
        (peer.topic("-b"), 1),
        (peer.topic("-z"), 0),
    ):
        request = DescribeTopicPartitionsRequest(topics, 2000, Cursor(name, index))
        peer.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, request)
        peer.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, DescribeTopicPartitionsRequest([], 2000, Cursor(name, index)))


@scenario(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
def the_same_topic_described_twice(peer: Peer) -> None:
    topic = TopicRequest(peer.create(partitions=2))
    peer.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, DescribeTopicPartitionsRequest([topic, topic]))
