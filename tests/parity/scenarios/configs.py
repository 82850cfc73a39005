"""DescribeConfigs, IncrementalAlterConfigs and AlterConfigs."""

from __future__ import annotations

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages import alter_configs, incremental_alter_configs
from kohort.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tests.parity.peer import Peer
from tests.parity.scenario import scenario

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def describe(
    peer: Peer, name: str, *keys: str, kind: int = TOPIC, synonyms: bool = False, docs: bool = False, version: int = 4
) -> None:
    resource = DescribeConfigsResource(kind, name, list(keys) if keys else None)
    peer.ask(ApiKey.DESCRIBE_CONFIGS, DescribeConfigsRequest([resource], synonyms, docs), version)


# --- DescribeConfigs


@scenario(ApiKey.DESCRIBE_CONFIGS)
def all_configs_of_a_topic(peer: Peer) -> None:
    describe(peer, peer.create(), version=peer.version)


@scenario(ApiKey.DESCRIBE_CONFIGS)
def all_configs_of_a_topic_with_synonyms_and_documentation(peer: Peer) -> None:
    topic = peer.create(retention_ms="1000", cleanup_policy="compact")
    describe(peer, topic, synonyms=True, docs=True, version=peer.version)


@scenario(ApiKey.DESCRIBE_CONFIGS)
def some_configs_of_a_topic(peer: Peer) -> None:
    topic = peer.create(retention_ms="1000")
    for keys in (("retention.ms",), ("retention.ms", "cleanup.policy"), ("no.such.config",), ("retention.ms", "")):
        describe(peer, topic, *keys, synonyms=True, version=peer.version)


@scenario(ApiKey.DESCRIBE_CONFIGS)
def no_configs_of_a_topic_is_not_all_of_them(peer: Peer) -> None:
    resource = DescribeConfigsResource(TOPIC, peer.create(), [])
    peer.ask(ApiKey.DESCRIBE_CONFIGS, DescribeConfigsRequest([resource]))


@scenario(ApiKey.DESCRIBE_CONFIGS)
def configs_of_topics_that_are_not_there(peer: Peer) -> None:
    for name in (peer.topic(), "bad name", "", "x" * 300):
        describe(peer, name, version=peer.version)


@scenario(ApiKey.DESCRIBE_CONFIGS)
def configs_of_kinds_that_are_not_there(peer: Peer) -> None:
    for kind in (0, 1, 3, 8, 64, -1, 127):
        describe(peer, "1", "retention.ms", kind=kind, version=peer.version)


@scenario(ApiKey.DESCRIBE_CONFIGS)
def configs_of_several_topics(peer: Peer) -> None:
    names = [peer.create("-b"), peer.topic("-unknown"), peer.create("-a")]
    resources = [DescribeConfigsResource(TOPIC, name, ["retention.ms"]) for name in names]
    peer.ask(ApiKey.DESCRIBE_CONFIGS, DescribeConfigsRequest(resources))


@scenario(ApiKey.DESCRIBE_CONFIGS)
def the_same_topic_described_twice_in_one_request(peer: Peer) -> None:
    resource = DescribeConfigsResource(TOPIC, peer.create(), ["retention.ms"])
    peer.ask(ApiKey.DESCRIBE_CONFIGS, DescribeConfigsRequest([resource, resource]))


@scenario(ApiKey.DESCRIBE_CONFIGS)
def configs_of_the_broker_by_name(peer: Peer) -> None:
    keys = ("log.retention.ms", "num.partitions", "message.max.bytes", "log.cleanup.policy")
    describe(peer, "1", *keys, kind=BROKER, synonyms=True, version=peer.version)
    describe(peer, "1", "group.initial.rebalance.delay.ms", "no.such.config", kind=BROKER, version=peer.version)
    describe(peer, "1", "offsets.topic.num.partitions", "auto.create.topics.enable", kind=BROKER, version=peer.version)


@scenario(ApiKey.DESCRIBE_CONFIGS)
def configs_of_other_brokers(peer: Peer) -> None:
    for name in ("99", "", "x", "-1"):
        describe(peer, name, "num.partitions", kind=BROKER, version=peer.version)


# --- IncrementalAlterConfigs


def alter(
    peer: Peer, name: str, *changes: tuple[str, int, str | None], kind: int = TOPIC, validate_only: bool = False
) -> None:
    configs = [incremental_alter_configs.AlterableConfig(*change) for change in changes]
    resource = incremental_alter_configs.AlterConfigsResource(kind, name, configs)
    request = incremental_alter_configs.IncrementalAlterConfigsRequest([resource], validate_only)
    peer.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, request)


KEYS = ("retention.ms", "cleanup.policy", "max.message.bytes", "compression.type")


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def a_config_is_set_and_taken_back(peer: Peer) -> None:
    topic = peer.create(retention_ms="1000")
    for change in (("retention.ms", SET, "5000"), ("max.message.bytes", SET, "77"), ("retention.ms", DELETE, None)):
        alter(peer, topic, change)
        peer.wait_for_configs()
        describe(peer, topic, *KEYS, synonyms=True)


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def lists_are_appended_to_and_subtracted_from(peer: Peer) -> None:
    topic = peer.create()
    for operation, value in ((APPEND, "compact"), (APPEND, "compact"), (SUBTRACT, "delete"), (SUBTRACT, "delete")):
        alter(peer, topic, ("cleanup.policy", operation, value))
        peer.wait_for_configs()
        describe(peer, topic, "cleanup.policy")


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def only_lists_are_appended_to(peer: Peer) -> None:
    topic = peer.create()
    alter(peer, topic, ("retention.ms", APPEND, "1"))
    alter(peer, topic, ("retention.ms", SUBTRACT, "1"))
    alter(peer, topic, ("cleanup.policy", SUBTRACT, "delete"))
    alter(peer, topic, ("cleanup.policy", APPEND, "vanish"))


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def changes_that_cannot_be(peer: Peer) -> None:
    topic = peer.create()
    for change in (
        ("no.such.config", SET, "1"),
        ("retention.ms", SET, "abc"),
        ("retention.ms", SET, "-2"),
        ("retention.ms", SET, "1_000"),
        ("retention.ms", SET, "+1000"),
        ("retention.ms", SET, "\u0663\u0663"),
        ("retention.ms", SET, "1e3"),
        ("min.cleanable.dirty.ratio", SET, "0_0.5"),
        ("min.cleanable.dirty.ratio", SET, "1e-1"),
        ("retention.ms", SET, None),
        ("retention.ms", 4, "1"),
        ("retention.ms", -1, "1"),
        ("", SET, "1"),
        ("no.such.config", DELETE, None),
        ("retention.ms", DELETE, "7"),
        ("cleanup.policy", APPEND, None),
        ("cleanup.policy", SET, ""),
        ("compression.type", SET, "brotli"),
    ):
        alter(peer, topic, change)


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def throttled_replicas_are_a_star_or_a_list(peer: Peer) -> None:
    topic = peer.create()
    key = "leader.replication.throttled.replicas"
    for value in ("*", "0:1", "0:1,1:2", " 0:1", "", "none", "x", "0", "0:x", "0:1,*", "1:1;2:2"):
        alter(peer, topic, (key, SET, value), validate_only=True)
    for change in ((key, SET, "0:1"), (key, APPEND, "1:1"), (key, SUBTRACT, "0:1"), (key, DELETE, None)):
        alter(peer, topic, change)
        peer.wait_for_configs()
        describe(peer, topic, key, synonyms=True)


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def a_bad_change_undoes_its_good_neighbour(peer: Peer) -> None:
    topic = peer.create()
    alter(peer, topic, ("retention.ms", SET, "5000"), ("max.message.bytes", SET, "-5"))
    describe(peer, topic, *KEYS)


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def the_same_config_changed_twice_is_refused(peer: Peer) -> None:
    alter(peer, peer.create(), ("retention.ms", SET, "1"), ("retention.ms", DELETE, None))


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def a_dry_run_changes_nothing(peer: Peer) -> None:
    topic = peer.create()
    alter(peer, topic, ("retention.ms", SET, "5000"), validate_only=True)
    alter(peer, topic, ("retention.ms", SET, "x"), validate_only=True)
    describe(peer, topic, "retention.ms")


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def configs_of_an_unknown_topic_cannot_be_changed(peer: Peer) -> None:
    for name in (peer.topic(), "bad name", ""):
        alter(peer, name, ("retention.ms", SET, "5000"))


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def kinds_whose_configs_cannot_be_changed(peer: Peer) -> None:
    for kind in (0, 1, 3, 64, -1):
        alter(peer, "x", ("retention.ms", SET, "5000"), kind=kind)


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def a_list_cannot_grow_without_end(peer: Peer) -> None:
    topic = peer.create()
    for start in (0, 4_000):
        words = ",".join(f"{index}:1" for index in range(start, start + 4_000))
        alter(peer, topic, ("leader.replication.throttled.replicas", APPEND, words))


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def no_changes_at_all(peer: Peer) -> None:
    alter(peer, peer.create())
    peer.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, incremental_alter_configs.IncrementalAlterConfigsRequest([]))


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def the_same_resource_twice_is_refused(peer: Peer) -> None:
    config = incremental_alter_configs.AlterableConfig("retention.ms", SET, "5000")
    resource = incremental_alter_configs.AlterConfigsResource(TOPIC, peer.create(), [config])
    request = incremental_alter_configs.IncrementalAlterConfigsRequest([resource, resource])
    peer.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, request)


@scenario(ApiKey.ALTER_CONFIGS)
def the_same_config_replaced_twice_is_refused(peer: Peer) -> None:
    wanted = [alter_configs.AlterableConfig("retention.ms", "5000"), alter_configs.AlterableConfig("retention.ms", "6")]
    resource = alter_configs.AlterConfigsResource(TOPIC, peer.create(), wanted)
    peer.ask(ApiKey.ALTER_CONFIGS, alter_configs.AlterConfigsRequest([resource]))


# --- IncrementalAlterConfigs of the broker. What the brokers keep is removed again: other scenarios look at it.


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS, alone=True)
def a_setting_of_the_broker_is_changed_and_taken_back(peer: Peer) -> None:
    topic = peer.create()
    key = "log.segment.delete.delay.ms"
    for name, change in (
        ("1", (key, SET, "5000")),
        ("", (key, SET, "6000")),
        ("1", (key, DELETE, None)),
        ("", (key, DELETE, None)),
    ):
        alter(peer, name, change, kind=BROKER)
        peer.wait_for_configs()
        describe(peer, "1", key, "num.partitions", kind=BROKER, synonyms=True)
        describe(peer, "", key, kind=BROKER, synonyms=True)
        describe(peer, topic, "file.delete.delay.ms", synonyms=True)


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS, alone=True)
def the_retention_of_all_topics_is_changed_and_taken_back(peer: Peer) -> None:
    topic, own = peer.create(), peer.create("-own", retention_ms="1000")
    for operation in (SET, DELETE):
        value = "3600000" if operation == SET else None
        alter(peer, "1", ("log.retention.ms", operation, value), ("log.roll.ms", operation, value), kind=BROKER)
        peer.wait_for_configs()
        describe(peer, topic, "retention.ms", "segment.ms", synonyms=True)
        describe(peer, own, "retention.ms", "segment.ms", synonyms=True)
        if operation == SET:
            describe(peer, "1", "log.retention.ms", "log.roll.ms", kind=BROKER, synonyms=True)


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS, alone=True)
def settings_of_the_broker_that_change_nothing_here_are_kept(peer: Peer) -> None:
    changes = (("num.io.threads", "9"), ("log.cleaner.threads", "2"), ("leader.replication.throttled.rate", "1000"))
    for name in ("1", ""):
        alter(peer, name, *((key, SET, value) for key, value in changes), kind=BROKER)
        peer.wait_for_configs()
        describe(peer, name, *(key for key, _ in changes), kind=BROKER, synonyms=True)
        alter(peer, name, *((key, DELETE, None) for key, _ in changes), kind=BROKER)
        peer.wait_for_configs()
        describe(peer, name, "leader.replication.throttled.rate", kind=BROKER, synonyms=True)


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS, alone=True)
def throttles_that_are_not_there_can_be_removed(peer: Peer) -> None:
    rates = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
    for name in ("1", ""):
        alter(peer, name, *((rate, DELETE, None) for rate in rates), kind=BROKER)
        alter(peer, name, *((rate, DELETE, "") for rate in rates), kind=BROKER)


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS, alone=True)
def a_setting_of_the_broker_that_nobody_knows_is_kept_and_not_shown(peer: Peer) -> None:
    for name in ("1", ""):
        alter(peer, name, ("my.plugin.password", SET, "secret"), kind=BROKER)
        peer.wait_for_configs()
        describe(peer, name, "my.plugin.password", kind=BROKER, synonyms=True)
        alter(peer, name, ("my.plugin.password", DELETE, None), kind=BROKER)


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS, alone=True)
def lists_of_the_broker_are_appended_to_and_subtracted_from(peer: Peer) -> None:
    key = "log.cleanup.policy"
    for change in ((key, APPEND, "compact"), (key, SUBTRACT, "delete"), (key, APPEND, "vanish"), (key, DELETE, None)):
        alter(peer, "1", change, kind=BROKER)
        peer.wait_for_configs()
        describe(peer, "1", key, kind=BROKER, synonyms=True)
    alter(peer, "1", ("num.io.threads", APPEND, "9"), kind=BROKER)


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def changes_of_the_broker_that_cannot_be(peer: Peer) -> None:
    for name in ("1", ""):
        for change in (
            ("log.retention.ms", SET, "abc"),
            ("log.retention.ms", SET, "0"),
            ("log.retention.ms", SET, None),
            ("log.retention.ms", 9, "1"),
            ("log.segment.bytes", SET, "5"),
            ("log.cleanup.policy", SET, "vanish"),
            ("log.message.timestamp.type", SET, "bad"),
            ("log.cleaner.backoff.ms", SET, "-1"),
            ("log.cleaner.min.cleanable.ratio", SET, "1.5"),
            ("max.connections", SET, "-1"),
            ("min.insync.replicas", SET, "0"),
            ("producer.id.expiration.ms", SET, "0"),
            ("num.io.threads", SET, "0"),
            ("num.io.threads", SET, "x"),
            ("compression.type", SET, "zip"),
            ("unclean.leader.election.enable", SET, "maybe"),
            ("leader.replication.throttled.rate", SET, "-5"),
            ("group.coordinator.cached.buffer.max.bytes", SET, "5"),
        ):
            alter(peer, name, change, kind=BROKER, validate_only=True)
        alter(peer, name, ("num.io.threads", SET, "9"), ("num.io.threads", DELETE, None), kind=BROKER)
        alter(peer, name, kind=BROKER)


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def a_dry_run_changes_nothing_of_the_broker(peer: Peer) -> None:
    for name in ("1", ""):
        alter(peer, name, ("num.io.threads", SET, "9"), kind=BROKER, validate_only=True)
        alter(peer, name, ("log.cleaner.backoff.ms", SET, "9"), kind=BROKER, validate_only=True)
    describe(peer, "1", "log.cleaner.backoff.ms", kind=BROKER, synonyms=True)


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def read_only_broker_configs_cannot_be_changed(peer: Peer) -> None:
    for key in ("broker.id", "num.partitions", "log.dirs", "log.retention.hours", "auto.create.topics.enable"):
        alter(peer, "1", (key, SET, "5"), kind=BROKER)
        alter(peer, "", (key, SET, "5"), kind=BROKER)
    alter(peer, "1", ("num.io.threads", SET, "9"), ("log.dirs", SET, "/x"), kind=BROKER)
    for other in ("99", "x", "-1"):
        alter(peer, other, ("log.retention.ms", SET, "5"), kind=BROKER)


# --- AlterConfigs


def replace(peer: Peer, name: str, kind: int = TOPIC, validate_only: bool = False, **configs: str | None) -> None:
    pairs = [alter_configs.AlterableConfig(key.replace("_", "."), value) for key, value in configs.items()]
    resource = alter_configs.AlterConfigsResource(kind, name, pairs)
    peer.ask(ApiKey.ALTER_CONFIGS, alter_configs.AlterConfigsRequest([resource], validate_only))


@scenario(ApiKey.ALTER_CONFIGS)
def all_configs_are_replaced(peer: Peer) -> None:
    topic = peer.create(retention_ms="1000", max_message_bytes="77")
    replace(peer, topic, retention_ms="5000", cleanup_policy="compact")
    peer.wait_for_configs()
    describe(peer, topic, *KEYS)
    replace(peer, topic)
    peer.wait_for_configs()
    describe(peer, topic, *KEYS)


@scenario(ApiKey.ALTER_CONFIGS)
def replacements_that_cannot_be(peer: Peer) -> None:
    topic = peer.create()
    replace(peer, topic, no_such_config="1")
    replace(peer, topic, retention_ms="abc")
    replace(peer, topic, retention_ms=None)
    replace(peer, topic, retention_ms="5000", max_message_bytes="-5")
    replace(peer, peer.topic("-unknown"), retention_ms="5000")
    replace(peer, topic, kind=3, retention_ms="5000")
    describe(peer, topic, *KEYS)


@scenario(ApiKey.ALTER_CONFIGS)
def a_dry_run_replaces_nothing(peer: Peer) -> None:
    topic = peer.create(retention_ms="1000")
    replace(peer, topic, validate_only=True, retention_ms="5000")
    describe(peer, topic, *KEYS)


@scenario(ApiKey.ALTER_CONFIGS, alone=True)
def all_changed_settings_of_the_broker_are_replaced(peer: Peer) -> None:
    for configs in (
        {"log_cleaner_backoff_ms": "5000", "num_io_threads": "9"},
        {"log_cleaner_backoff_ms": "6000"},
        {"log_dirs": "/x"},
        {"log_cleaner_backoff_ms": "x"},
        {},
    ):
        replace(peer, "1", BROKER, False, **configs)
        peer.wait_for_configs()
        describe(peer, "1", "log.cleaner.backoff.ms", kind=BROKER, synonyms=True)
