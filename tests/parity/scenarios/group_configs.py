"""Settings of single groups: DescribeConfigs, IncrementalAlterConfigs, AlterConfigs and ListConfigResources."""

from __future__ import annotations

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages import alter_configs, incremental_alter_configs
from kohort.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kohort.protocol.messages.list_config_resources import ListConfigResourcesRequest
from tests.parity.peer import Peer
from tests.parity.scenario import scenario
from tests.parity.scenarios.configs import APPEND, BROKER, DELETE, SET, SUBTRACT, alter, describe, replace

GROUP = 32
SESSION, HEARTBEAT, INTERVAL = (
    "consumer.session.timeout.ms",
    "consumer.heartbeat.interval.ms",
    "consumer.assignment.interval.ms",
)
CONSUMER = (SESSION, HEARTBEAT, INTERVAL)


def group(peer: Peer, suffix: str = "") -> str:
    """The same on both brokers."""
    return f"group-{peer.scenario.replace(' ', '-')[:60]}-v{peer.version}{suffix}"


def alter_group(
    peer: Peer, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False
) -> None:  # fmt: skip
    alter(peer, name, *changes, kind=GROUP, validate_only=validate_only)


def forget(peer: Peer, *names: str) -> None:
    for name in names:
        resource = alter_configs.AlterConfigsResource(GROUP, name, [])
        peer.quietly(ApiKey.ALTER_CONFIGS, alter_configs.AlterConfigsRequest([resource]), 2)


@scenario(ApiKey.DESCRIBE_CONFIGS)
def all_configs_of_a_group_that_has_none_of_its_own(peer: Peer) -> None:
    describe(peer, group(peer), kind=GROUP, version=peer.version)
    describe(peer, group(peer), kind=GROUP, synonyms=True, docs=True, version=peer.version)


@scenario(ApiKey.DESCRIBE_CONFIGS)
def some_configs_of_a_group(peer: Peer) -> None:
    for keys in ((SESSION,), CONSUMER, ("no.such.config",), ("share.isolation.level", ""), ("retention.ms",)):
        describe(peer, group(peer), *keys, kind=GROUP, synonyms=True, version=peer.version)


@scenario(ApiKey.DESCRIBE_CONFIGS)
def configs_of_groups_with_odd_names(peer: Peer) -> None:
    for name in ("", " ", "bad/name *", "x" * 300, "gr\u00fc\u00dfe"):
        describe(peer, name, SESSION, kind=GROUP, version=peer.version)


@scenario(ApiKey.DESCRIBE_CONFIGS)
def the_same_group_described_twice_in_one_request(peer: Peer) -> None:
    resource = DescribeConfigsResource(GROUP, group(peer), [SESSION])
    peer.ask(ApiKey.DESCRIBE_CONFIGS, DescribeConfigsRequest([resource, resource]))


@scenario(ApiKey.DESCRIBE_CONFIGS)
def settings_of_the_broker_for_consumer_groups(peer: Peer) -> None:
    keys = [
        *(f"group.consumer.{limit}{each}" for limit in ("", "min.", "max.") for each in ("session.timeout.ms",)),
        *(f"group.consumer.{limit}{each}" for limit in ("", "min.", "max.") for each in ("heartbeat.interval.ms",)),
        *(f"group.consumer.{limit}{each}" for limit in ("", "min.", "max.") for each in ("assignment.interval.ms",)),
        "group.consumer.max.size",
        "group.consumer.assignors",
        "group.consumer.migration.policy",
        "group.coordinator.rebalance.protocols",
        "group.consumer.regex.refresh.interval.ms",
    ]
    describe(peer, "1", *keys, kind=BROKER, synonyms=True, version=peer.version)


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def a_config_of_a_group_is_set_and_taken_back(peer: Peer) -> None:
    name = group(peer)
    for change in (
        (SESSION, SET, "50000"),
        (HEARTBEAT, SET, " 6000 "),
        (INTERVAL, SET, "0"),
        (SESSION, SET, "55000"),
        (SESSION, DELETE, None),
        (HEARTBEAT, DELETE, None),
        (INTERVAL, DELETE, None),
        (INTERVAL, DELETE, None),
    ):
        alter_group(peer, name, change)
        peer.wait_for_configs()
        describe(peer, name, *CONSUMER, kind=GROUP, synonyms=True)


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def every_config_of_a_group_is_set(peer: Peer) -> None:
    name = group(peer)
    alter_group(
        peer,
        name,
        (SESSION, SET, "60000"),
        (HEARTBEAT, SET, "15000"),
        (INTERVAL, SET, "15000"),
        ("share.session.timeout.ms", SET, "60000"),
        ("share.heartbeat.interval.ms", SET, "15000"),
        ("share.record.lock.duration.ms", SET, "15000"),
        ("share.delivery.count.limit", SET, "10"),
        ("share.partition.max.record.locks", SET, "4000"),
        ("share.auto.offset.reset", SET, "by_duration:P1DT2H3M4.5S"),
        ("share.isolation.level", SET, "read_committed"),
        ("share.renew.acknowledge.enable", SET, "FALSE"),
        ("share.assignment.interval.ms", SET, "15000"),
        ("streams.session.timeout.ms", SET, "60000"),
        ("streams.heartbeat.interval.ms", SET, "15000"),
        ("streams.num.standby.replicas", SET, "2"),
        ("streams.initial.rebalance.delay.ms", SET, "0"),
        ("streams.assignment.interval.ms", SET, "0"),
    )
    peer.wait_for_configs()
    describe(peer, name, kind=GROUP, synonyms=True)
    forget(peer, name)


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def changes_of_a_group_that_cannot_be(peer: Peer) -> None:
    name = group(peer)
    for change in (
        (SESSION, SET, "44999"),
        (SESSION, SET, "60001"),
        (SESSION, SET, "0"),
        (SESSION, SET, "-1"),
        (SESSION, SET, "abc"),
        (SESSION, SET, ""),
        (SESSION, SET, "99999999999"),
        (SESSION, SET, "45000.0"),
        (SESSION, SET, None),
        (HEARTBEAT, SET, "4999"),
        (HEARTBEAT, SET, "15001"),
        (INTERVAL, SET, "-1"),
        (INTERVAL, SET, "15001"),
        ("no.such.config", SET, "1"),
        ("retention.ms", SET, "1"),
        ("group.consumer.session.timeout.ms", SET, "45000"),
        ("consumer.assignor.offload.enable", SET, "true"),
        ("", SET, "1"),
        (SESSION, 4, "45000"),
        (SESSION, -1, "45000"),
        (SESSION, APPEND, "45000"),
        (SESSION, SUBTRACT, "45000"),
        (SESSION, APPEND, None),
        ("no.such.config", APPEND, "1"),
        ("no.such.config", DELETE, None),
        (SESSION, DELETE, "7"),
    ):
        alter_group(peer, name, change)
    describe(peer, name, kind=GROUP)


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def changes_of_share_and_streams_settings_that_cannot_be(peer: Peer) -> None:
    for name, *values in (
        ("share.session.timeout.ms", "44999", "60001", "60000"),
        ("share.heartbeat.interval.ms", "4999", "15001"),
        ("share.record.lock.duration.ms", "14999", "60001", "999"),
        ("share.delivery.count.limit", "1", "11"),
        ("share.partition.max.record.locks", "99", "4001"),
        ("share.auto.offset.reset", "none", "", "by_duration", "by_duration:", "by_duration:P", "Earliest"),
        ("share.auto.offset.reset", "by_duration:PT", "by_duration:P1D", "by_duration:-PT1S", "by_duration:PT-1S"),
        ("share.auto.offset.reset", "by_duration:pt1s", "by_duration:PT1.S", "by_duration:P1H", "by_duration:-PT-1S"),
        ("share.isolation.level", "read", "READ_COMMITTED", "read_committed"),
        ("share.renew.acknowledge.enable", "yes", "True"),
        ("share.assignment.interval.ms", "-1", "15001"),
        ("streams.session.timeout.ms", "44999", "60001"),
        ("streams.heartbeat.interval.ms", "4999", "15001"),
        ("streams.num.standby.replicas", "-1", "3"),
        ("streams.initial.rebalance.delay.ms", "-1", "2147483647"),
        ("streams.assignment.interval.ms", "-1", "15001"),
    ):
        for value in values:
            alter_group(peer, group(peer), (name, SET, value), validate_only=True)


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def a_bad_change_of_a_group_undoes_its_good_neighbour(peer: Peer) -> None:
    name = group(peer)
    alter_group(peer, name, (SESSION, SET, "50000"), (HEARTBEAT, SET, "1"))
    alter_group(peer, name, (SESSION, SET, "50000"), ("no.such.config", SET, "1"))
    alter_group(peer, name, (SESSION, SET, "50000"), (SESSION, DELETE, None))
    peer.wait_for_configs()
    describe(peer, name, *CONSUMER, kind=GROUP)


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def a_dry_run_changes_nothing_of_a_group(peer: Peer) -> None:
    name = group(peer)
    alter_group(peer, name, (SESSION, SET, "50000"), validate_only=True)
    alter_group(peer, name, (SESSION, SET, "1"), validate_only=True)
    alter_group(peer, name)
    peer.wait_for_configs()
    describe(peer, name, *CONSUMER, kind=GROUP)


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def groups_with_odd_names_have_configs(peer: Peer) -> None:
    for name in ("", "."):
        alter_group(peer, name, (SESSION, SET, "50000"), validate_only=True)
    for name in (group(peer, " /*"), group(peer, "-\u00fc")):
        alter_group(peer, name, (SESSION, SET, "50000"))
        peer.wait_for_configs()
        describe(peer, name, SESSION, kind=GROUP)
        forget(peer, name)


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def several_groups_and_a_topic_in_one_request(peer: Peer) -> None:
    topic, first, second = peer.create(), group(peer, "-1"), group(peer, "-2")
    session = incremental_alter_configs.AlterableConfig(SESSION, SET, "50000")
    low = incremental_alter_configs.AlterableConfig(SESSION, SET, "1")
    retention = incremental_alter_configs.AlterableConfig("retention.ms", SET, "5000")
    resources = [
        incremental_alter_configs.AlterConfigsResource(GROUP, first, [session]),
        incremental_alter_configs.AlterConfigsResource(2, topic, [retention]),
        incremental_alter_configs.AlterConfigsResource(GROUP, second, [low]),
        incremental_alter_configs.AlterConfigsResource(GROUP, topic, [session]),
    ]
    peer.ask(
        ApiKey.INCREMENTAL_ALTER_CONFIGS, incremental_alter_configs.IncrementalAlterConfigsRequest(resources)
    )  # fmt: skip
    twice = incremental_alter_configs.IncrementalAlterConfigsRequest([resources[0], resources[0]])
    peer.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, twice)
    peer.wait_for_configs()
    for name in (first, second, topic):
        describe(peer, name, SESSION, kind=GROUP)
    forget(peer, first, topic)


@scenario(ApiKey.ALTER_CONFIGS)
def all_configs_of_a_group_are_replaced(peer: Peer) -> None:
    name = group(peer)
    for configs in (
        {"consumer_session_timeout_ms": "50000", "consumer_heartbeat_interval_ms": "6000"},
        {"consumer_assignment_interval_ms": "5"},
        {"consumer_session_timeout_ms": "1"},
        {"consumer_session_timeout_ms": None},
        {"no_such_config": "1"},
        {},
    ):
        replace(peer, name, GROUP, False, **configs)
        peer.wait_for_configs()
        describe(peer, name, *CONSUMER, kind=GROUP, synonyms=True)
    replace(peer, name, GROUP, True, consumer_session_timeout_ms="50000")
    replace(peer, "", GROUP, True, consumer_session_timeout_ms="50000")
    peer.wait_for_configs()
    describe(peer, name, SESSION, kind=GROUP)


@scenario(ApiKey.INCREMENTAL_ALTER_CONFIGS, alone=True)
def the_assignment_interval_of_all_groups_is_changed_while_the_broker_runs(peer: Peer) -> None:
    key, name = "group.consumer.assignment.interval.ms", group(peer)
    for value in ("15001", "-1", "x", "0", "15000"):
        alter(peer, "1", (key, SET, value), kind=BROKER, validate_only=True)
        alter(peer, "", (key, SET, value), kind=BROKER, validate_only=True)
    for change in ((key, SET, "2000"), (key, DELETE, None)):
        alter(peer, "1", change, kind=BROKER)
        peer.wait_for_configs()
        describe(peer, "1", key, kind=BROKER, synonyms=True)
        describe(peer, name, SESSION, kind=GROUP, synonyms=True)


@scenario(ApiKey.LIST_CONFIG_RESOURCES, alone=True)
def groups_with_configs_are_listed(peer: Peer) -> None:
    first, second = group(peer, "-1"), group(peer, "-2")
    peer.ask(ApiKey.LIST_CONFIG_RESOURCES, ListConfigResourcesRequest([GROUP] if peer.version else []))
    for name in (first, second):
        alter_group(peer, name, (SESSION, SET, "50000"))
    alter_group(peer, second, (SESSION, DELETE, None))
    peer.wait_for_configs()
    peer.ask(ApiKey.LIST_CONFIG_RESOURCES, ListConfigResourcesRequest([GROUP] if peer.version else []))
    forget(peer, first)
    peer.wait_for_configs()
    peer.ask(ApiKey.LIST_CONFIG_RESOURCES, ListConfigResourcesRequest([GROUP] if peer.version else []))
