"""CreateTopics and DeleteTopics."""

from __future__ import annotations

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kohort.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kohort.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.parity.peer import Peer
from tests.parity.scenario import scenario
from tests.parity.scenarios.coordinators import make_coordinator_topics

TIMEOUT_MS = 10_000
NO_SUCH_ID = bytes(range(1, 17))


def create(peer: Peer, *topics: CreatableTopic, validate_only: bool = False) -> None:
    peer.ask(ApiKey.CREATE_TOPICS, CreateTopicsRequest(list(topics), TIMEOUT_MS, validate_only))


def look(peer: Peer, *names: str) -> None:
    """What Metadata says afterwards."""
    asked = [MetadataRequestTopic(name=name) for name in names]
    peer.ask(ApiKey.METADATA, MetadataRequest(asked, allow_auto_topic_creation=False), 12)


def configured(name: str, **configs: str | None) -> CreatableTopic:
    pairs = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
    return CreatableTopic(name, 1, 1, configs=pairs)


@scenario(ApiKey.CREATE_TOPICS)
def a_topic_is_made(peer: Peer) -> None:
    create(peer, CreatableTopic(peer.topic(), 3, 1))
    peer.settle(peer.topic(), 3)
    look(peer, peer.topic())


@scenario(ApiKey.CREATE_TOPICS, versions=range(4, 8))
def partitions_and_replicas_have_defaults(peer: Peer) -> None:
    create(peer, CreatableTopic(peer.topic(), -1, -1))
    peer.settle(peer.topic())
    look(peer, peer.topic())


@scenario(ApiKey.CREATE_TOPICS)
def defaults_before_they_were_allowed_and_after(peer: Peer) -> None:
    create(peer, CreatableTopic(peer.topic("-p"), -1, 1), CreatableTopic(peer.topic("-r"), 1, -1))


@scenario(ApiKey.CREATE_TOPICS)
def several_topics_in_one_request(peer: Peer) -> None:
    create(peer, *(CreatableTopic(peer.topic(suffix), 1, 1) for suffix in ("-b", "-a", "-c")))


@scenario(ApiKey.CREATE_TOPICS)
def no_topics_at_all(peer: Peer) -> None:
    create(peer)


@scenario(ApiKey.CREATE_TOPICS)
def a_topic_that_exists_cannot_be_made_again(peer: Peer) -> None:
    create(peer, CreatableTopic(peer.create(), 1, 1))
    create(peer, CreatableTopic(peer.topic(), 2, 1), validate_only=True)


@scenario(ApiKey.CREATE_TOPICS)
def the_same_name_twice_in_one_request_makes_neither(peer: Peer) -> None:
    create(
        peer,
        CreatableTopic(peer.topic(), 1, 1),
        CreatableTopic(peer.topic(), 2, 1),
        CreatableTopic(peer.topic("-x"), 1, 1),
    )
    look(peer, peer.topic())


@scenario(ApiKey.CREATE_TOPICS)
def more_partitions_than_one_request_may_ask_for(peer: Peer) -> None:
    """All topics of the request are refused, also those that are named twice or could not be made anyway."""
    name, other, twice = peer.topic(), peer.topic("-other"), peer.topic("-twice")
    create(peer, CreatableTopic(name, 3_000_000, 1))
    create(peer, CreatableTopic(name, 6_000, 1), CreatableTopic(other, 6_000, 1), CreatableTopic("bad name", 1, 1))
    create(peer, CreatableTopic(twice, 1, 1), CreatableTopic(twice, 1, 1), CreatableTopic(name, 11_000, 3))
    create(peer, CreatableTopic(twice, 9_000, 1), CreatableTopic(twice, 9_000, 1), CreatableTopic(name, 1, 1))


@scenario(ApiKey.CREATE_TOPICS)
def more_records_than_the_controller_writes_for_one_request(peer: Peer) -> None:
    """The controller writes a record for each topic, partition and setting, and 10,000 of them at most."""
    name = peer.topic()
    settings = [CreatableTopicConfig("retention.ms", "5000")]
    create(peer, CreatableTopic(name, 9_999, 1), validate_only=True)
    create(peer, CreatableTopic(name, 10_000, 1), validate_only=True)
    create(peer, CreatableTopic(name, 9_999, 1, configs=settings), CreatableTopic("bad name", 1, 1), validate_only=True)


@scenario(ApiKey.CREATE_TOPICS)
def a_dry_run_makes_nothing(peer: Peer) -> None:
    create(peer, CreatableTopic(peer.topic(), 2, 1), validate_only=True)
    look(peer, peer.topic())


@scenario(ApiKey.CREATE_TOPICS)
def impossible_partition_counts(peer: Peer) -> None:
    for count in (0, -2, -2147483648):
        create(peer, CreatableTopic(peer.topic(), count, 1))


@scenario(ApiKey.CREATE_TOPICS)
def impossible_replication_factors(peer: Peer) -> None:
    for factor in (0, 2, -2, 32767):
        create(peer, CreatableTopic(peer.topic(), 1, factor))


@scenario(ApiKey.CREATE_TOPICS)
def names_that_no_topic_may_have(peer: Peer) -> None:
    for name in ("", ".", "..", "a b", "a/b", "ü", "x" * 250, "a\x00b"):
        create(peer, CreatableTopic(name, 1, 1))


@scenario(ApiKey.CREATE_TOPICS, versions=(2, 5, 7))
def borderline_names(peer: Peer) -> None:
    base = peer.topic()
    longest = base + "x" * (249 - len(base))
    peer.adopt(longest)
    peer.adopt(f"{base}.-_")
    create(peer, CreatableTopic(longest, 1, 1), CreatableTopic(f"{base}.-_", 1, 1))


@scenario(ApiKey.CREATE_TOPICS, versions=(2, 5, 7))
def names_that_differ_only_in_dots_and_underscores_collide(peer: Peer) -> None:
    one, other = peer.topic(".a"), peer.topic("_a")
    create(peer, CreatableTopic(one, 1, 1))
    peer.settle(one)
    create(peer, CreatableTopic(other, 1, 1))


@scenario(ApiKey.CREATE_TOPICS, versions=(2, 5, 7))
def colliding_names_in_one_request(peer: Peer) -> None:
    create(peer, CreatableTopic(peer.topic(".b"), 1, 1), CreatableTopic(peer.topic("_b"), 1, 1))


@scenario(ApiKey.CREATE_TOPICS)
def replicas_may_be_assigned_by_hand(peer: Peer) -> None:
    assignments = [CreatableReplicaAssignment(0, [1]), CreatableReplicaAssignment(1, [1])]
    create(peer, CreatableTopic(peer.topic(), -1, -1, assignments))
    peer.settle(peer.topic(), 2)
    look(peer, peer.topic())


@scenario(ApiKey.CREATE_TOPICS)
def assignments_that_cannot_be(peer: Peer) -> None:
    cases: list[list[tuple[int, list[int]]]] = [
        [(0, [])],
        [(0, [99])],
        [(0, [1, 1])],
        [(1, [1])],
        [(0, [1]), (2, [1])],
        [(0, [1]), (0, [1])],
        [(-1, [1])],
        [(0, [-1])],
    ]
    for index, case in enumerate(cases):
        assignments = [CreatableReplicaAssignment(partition, brokers) for partition, brokers in case]
        create(peer, CreatableTopic(peer.topic(f"-{index}"), -1, -1, assignments))


@scenario(ApiKey.CREATE_TOPICS)
def an_assignment_and_a_count_contradict_each_other(peer: Peer) -> None:
    assignments = [CreatableReplicaAssignment(0, [1])]
    create(peer, CreatableTopic(peer.topic("-1"), 1, -1, assignments))
    create(peer, CreatableTopic(peer.topic("-2"), -1, 1, assignments))
    create(peer, CreatableTopic(peer.topic("-3"), 1, 1, assignments))


@scenario(ApiKey.CREATE_TOPICS)
def configs_come_with_the_topic(peer: Peer) -> None:
    create(
        peer, configured(peer.topic(), retention_ms="1000", cleanup_policy="compact,delete", max_message_bytes="2000")
    )


@scenario(ApiKey.CREATE_TOPICS)
def configs_that_cannot_be(peer: Peer) -> None:
    cases: list[dict[str, str | None]] = [
        {"no_such_config": "1"},
        {"retention_ms": "abc"},
        {"retention_ms": "-2"},
        {"segment_bytes": "1"},
        {"cleanup_policy": "vanish"},
        {"cleanup_policy": ""},
        {"compression_type": "brotli"},
        {"min_cleanable_dirty_ratio": "1.5"},
        {"message_timestamp_type": "Yesterday"},
        {"retention_ms": None},
        {"max_message_bytes": "-1"},
        {"unclean_leader_election_enable": "maybe"},
        {"min_insync_replicas": "0"},
        {"min_compaction_lag_ms": "10", "max_compaction_lag_ms": "5"},
    ]
    for index, case in enumerate(cases):
        create(peer, configured(peer.topic(f"-{index}"), **case))


@scenario(ApiKey.CREATE_TOPICS, versions=(7,))
def borderline_configs(peer: Peer) -> None:
    cases: list[dict[str, str | None]] = [
        {"retention_ms": "-1"},
        {"retention_ms": " 5 "},
        {"retention_bytes": "-1"},
        {"segment_bytes": "1048576"},
        {"cleanup_policy": "delete,compact"},
        {"cleanup_policy": " compact "},
        {"compression_type": "GZIP"},
        {"min_cleanable_dirty_ratio": "1"},
        {"min_cleanable_dirty_ratio": "0.25"},
        {"message_timestamp_type": "LogAppendTime"},
        {"max_message_bytes": "0"},
        {"compression_gzip_level": "0"},
        {"message_downconversion_enable": "false"},
        {"message_format_version": "3.0"},
    ]
    for index, case in enumerate(cases):
        create(peer, configured(peer.topic(f"-{index}"), **case))


@scenario(ApiKey.CREATE_TOPICS, versions=(7,))
def settings_that_are_not_honoured_by_us(peer: Peer) -> None:
    cases = [
        {"compression_type": "zstd"},
        {"compression_gzip_level": "9"},
        {"compression_zstd_level": "22"},
        {"preallocate": "TRUE"},
    ]
    for index, case in enumerate(cases):
        create(peer, configured(peer.topic(f"-{index}"), **case))


@scenario(ApiKey.CREATE_TOPICS, versions=(2, 7))
def the_same_config_twice(peer: Peer) -> None:
    pairs = [CreatableTopicConfig("retention.ms", "1"), CreatableTopicConfig("retention.ms", "2")]
    create(peer, CreatableTopic(peer.topic(), 1, 1, configs=pairs))


@scenario(ApiKey.CREATE_TOPICS, versions=(2, 5, 7))
def internal_topics_by_hand(peer: Peer) -> None:
    make_coordinator_topics(peer)
    create(peer, CreatableTopic("__cluster_metadata", 1, 1), CreatableTopic("__consumer_offsets", 1, 1))


@scenario(ApiKey.CREATE_TOPICS)
def good_and_bad_topics_in_one_request(peer: Peer) -> None:
    good = CreatableTopic(peer.topic("-good"), 1, 1)
    create(peer, CreatableTopic("bad name", 1, 1), good, CreatableTopic(peer.topic("-zero"), 0, 1))


@scenario(ApiKey.CREATE_TOPICS, versions=(7,))
def a_timeout_of_nothing(peer: Peer) -> None:
    for timeout_ms in (0, -1):
        topic = CreatableTopic(peer.topic(f"{timeout_ms}"), 1, 1)
        peer.ask(ApiKey.CREATE_TOPICS, CreateTopicsRequest([topic], timeout_ms))


# --- DeleteTopics


def delete(peer: Peer, *names: str) -> None:
    """By name, as each version says it."""
    if peer.version >= 6:
        states = [DeleteTopicState(name=name) for name in names]
        peer.ask(ApiKey.DELETE_TOPICS, DeleteTopicsRequest(topics=states, timeout_ms=TIMEOUT_MS))
    else:
        peer.ask(ApiKey.DELETE_TOPICS, DeleteTopicsRequest(topic_names=list(names), timeout_ms=TIMEOUT_MS))


@scenario(ApiKey.DELETE_TOPICS)
def a_topic_is_deleted(peer: Peer) -> None:
    topic = peer.create(partitions=2)
    delete(peer, topic)
    peer.gone(topic)
    look(peer, topic)


@scenario(ApiKey.DELETE_TOPICS)
def a_deleted_topic_can_be_made_again_with_a_new_id(peer: Peer) -> None:
    topic = peer.create()
    before = peer.topic_id(topic)
    delete(peer, topic)
    peer.gone(topic)
    peer.create()
    peer.note("the id is new", peer.topic_id(topic) != before)


@scenario(ApiKey.DELETE_TOPICS)
def a_topic_that_is_not_there_cannot_be_deleted(peer: Peer) -> None:
    delete(peer, peer.topic())


@scenario(ApiKey.DELETE_TOPICS)
def names_that_no_topic_has_cannot_be_deleted(peer: Peer) -> None:
    for name in ("", "bad name", "x" * 300):
        delete(peer, name)


@scenario(ApiKey.DELETE_TOPICS)
def several_topics_are_deleted_and_the_unknown_one_named(peer: Peer) -> None:
    delete(peer, peer.create("-b"), peer.topic("-unknown"), peer.create("-a"))


@scenario(ApiKey.DELETE_TOPICS)
def the_same_topic_deleted_twice_in_one_request(peer: Peer) -> None:
    topic = peer.create()
    delete(peer, topic, topic)


@scenario(ApiKey.DELETE_TOPICS)
def nothing_to_delete(peer: Peer) -> None:
    delete(peer)


@scenario(ApiKey.DELETE_TOPICS, versions=(6,))
def a_topic_is_deleted_by_its_id(peer: Peer) -> None:
    topic = peer.create()
    state = DeleteTopicState(None, peer.topic_id(topic))
    peer.ask(ApiKey.DELETE_TOPICS, DeleteTopicsRequest([state], timeout_ms=TIMEOUT_MS))
    peer.gone(topic)
    peer.ask(ApiKey.DELETE_TOPICS, DeleteTopicsRequest([state], timeout_ms=TIMEOUT_MS))


@scenario(ApiKey.DELETE_TOPICS, versions=(6,))
def borderline_ways_to_name_a_topic_to_delete(peer: Peer) -> None:
    topic = peer.create()
    topic_id = peer.topic_id(topic)
    for states in (
        [DeleteTopicState(topic, topic_id)],
        [DeleteTopicState(topic, NO_SUCH_ID)],
        [DeleteTopicState(None, bytes(16))],
        [DeleteTopicState(None, NO_SUCH_ID)],
        [DeleteTopicState(None, NO_SUCH_ID), DeleteTopicState(None, NO_SUCH_ID)],
    ):
        peer.ask(ApiKey.DELETE_TOPICS, DeleteTopicsRequest(states, timeout_ms=TIMEOUT_MS))
    both = [DeleteTopicState(topic), DeleteTopicState(None, topic_id)]
    peer.ask(ApiKey.DELETE_TOPICS, DeleteTopicsRequest(both, timeout_ms=TIMEOUT_MS))
