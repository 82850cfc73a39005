"""What one request of an administrator may cost: partitions, saves, bytes of the answer, and work between two steps."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import GeneratorType
from typing import Any

import pytest

from kohort.broker.call import Call
from kohort.broker.config import Listener
from kohort.broker.coordinator_host import CoordinatorHost
from kohort.broker.steps import all_steps
from kohort.broker.topics import create_partitions as create_partitions_module
from kohort.broker.topics import create_topics as create_topics_module
from kohort.broker.topics.catalog import Topic
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.codec import response_encoder
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages import alter_client_quotas as quotas
from kohort.protocol.messages import alter_configs, incremental_alter_configs
from kohort.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kohort.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kohort.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kohort.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kohort.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kohort.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kohort.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from kohort.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kohort.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kohort.protocol.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from kohort.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResult,
    UserName,
)
from kohort.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest
from kohort.protocol.messages.list_config_resources import ListConfigResourcesRequest
from kohort.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.broker_box import BrokerBox, FakeConnection
from tests.broker.small_files import FullDisk

TOPIC, BROKER = 2, 4
UUID = bytes(16)


@pytest.fixture
def disk() -> FullDisk:
    return FullDisk()


@pytest.fixture
def box(tmp_path: Path, disk: FullDisk) -> Iterator[BrokerBox]:
    made = BrokerBox(tmp_path, disk)
    made.broker.advertised = [Listener("PLAINTEXT", "localhost", 9092)]
    made.broker.coordinator = CoordinatorHost(made.broker, made.clock)
    made.broker.coordinator.start()
    yield made
    made.close()


# --- partitions


def create(box: BrokerBox, *topics: tuple[str, int], validate_only: bool = False) -> dict[str, int]:
    wanted = [CreatableTopic(name, count, 1) for name, count in topics]
    answer = box.send(ApiKey.CREATE_TOPICS, CreateTopicsRequest(wanted, 1_000, validate_only), 5)
    return {topic.name: topic.error_code for topic in answer.topics}


def grow(box: BrokerBox, *topics: tuple[str, int], validate_only: bool = False) -> dict[str, int]:
    wanted = [CreatePartitionsTopic(name, count, None) for name, count in topics]
    answer = box.send(ApiKey.CREATE_PARTITIONS, CreatePartitionsRequest(wanted, 1_000, validate_only), 3)
    return {each.name: each.error_code for each in answer.results}


def counts(box: BrokerBox) -> dict[str, int]:
    return {topic.name: len(topic.partitions) for topic in box.broker.catalog}


def test_a_request_for_millions_of_partitions_is_refused(box: BrokerBox) -> None:
    for count in (10_001, 3_000_000, 2**31 - 1):
        assert create(box, ("t", count), ("u", 1)) == dict.fromkeys("tu", ErrorCode.POLICY_VIOLATION)
    assert counts(box) == {}
    assert create(box, ("t", 1)) == {"t": 0}
    for count in (10_002, 3_000_000, 2**31 - 1):
        assert grow(box, ("t", count)) == {"t": ErrorCode.POLICY_VIOLATION}
    assert counts(box) == {"t": 1}


def test_partitions_that_are_added_count_together(box: BrokerBox) -> None:
    assert create(box, ("t", 1), ("u", 1), ("v", 1)) == {"t": 0, "u": 0, "v": 0}
    wanted = ("t", 6_001), ("u", 6_001), ("v", 4_001)
    expected = {"t": 0, "u": ErrorCode.POLICY_VIOLATION, "v": 0}
    assert grow(box, *wanted, validate_only=True) == expected
    assert counts(box) == {"t": 1, "u": 1, "v": 1}
    assert grow(box, *wanted) == expected
    assert counts(box) == {"t": 6_001, "u": 1, "v": 4_001}


def test_all_topics_together_have_a_limit(
    box: BrokerBox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for module in (create_topics_module, create_partitions_module):
        monkeypatch.setattr(module, "MAX_PARTITIONS", 10)
    assert create(box, ("t", 4), ("u", 5), ("v", 2), ("w", 1)) == {
        "t": 0, "u": 0, "v": ErrorCode.POLICY_VIOLATION, "w": 0,
    }  # fmt: skip
    assert grow(box, ("t", 5)) == {"t": ErrorCode.POLICY_VIOLATION}
    request = MetadataRequest([MetadataRequestTopic(name="t"), MetadataRequestTopic(name="new")], True)
    answer = box.send(ApiKey.METADATA, request, 9)
    assert [topic.error_code for topic in answer.topics] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert caplog.text.count("there would be too many partitions") == 1
    delete = DeleteTopicsRequest(topic_names=["u"])
    assert box.send(ApiKey.DELETE_TOPICS, delete, 5).responses[0].error_code == 0
    assert grow(box, ("t", 9)) == {"t": 0}
    assert counts(box) == {"t": 9, "w": 1}
    box.crash()
    again = BrokerBox(tmp_path)
    assert again.broker.catalog.all_partitions == 10
    again.crash()


# --- saves


def test_a_topic_named_many_times_is_not_altered(box: BrokerBox, disk: FullDisk) -> None:
    box.topic("t")
    disk.written_bytes = 0
    new = [alter_configs.AlterableConfig("retention.ms", "5")]
    old_way = [alter_configs.AlterConfigsResource(TOPIC, "t", new)] * 5_000
    answer = box.send(ApiKey.ALTER_CONFIGS, alter_configs.AlterConfigsRequest(old_way), 2)
    said = Counter((each.error_code, each.error_message) for each in answer.responses)
    assert said == {(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."): 5_000}
    assert disk.written_bytes == 0


def test_settings_of_many_topics_are_saved_together(box: BrokerBox, disk: FullDisk) -> None:
    names = [f"t-{number}" for number in range(400)]
    create(box, *((name, 1) for name in names))
    disk.syncs = disk.written_bytes = 0
    replaced = [alter_configs.AlterableConfig("retention.ms", "5")]
    resources = [alter_configs.AlterConfigsResource(TOPIC, name, replaced) for name in names]
    answer = box.send(ApiKey.ALTER_CONFIGS, alter_configs.AlterConfigsRequest(resources), 2)
    assert {each.error_code for each in answer.responses} == {0}
    changed = [incremental_alter_configs.AlterableConfig("segment.ms", 0, "6")]
    more = [incremental_alter_configs.AlterConfigsResource(TOPIC, name, changed) for name in names]
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(more)
    answer = box.send(ApiKey.INCREMENTAL_ALTER_CONFIGS, request, 1)
    assert {each.error_code for each in answer.responses} == {0}
    assert disk.syncs <= 4
    assert disk.written_bytes < 400 * 300
    assert {tuple(topic.configs.items()) for topic in box.broker.catalog} == {
        (("retention.ms", "5"), ("segment.ms", "6"))
    }


def test_a_broker_named_in_many_ways_is_altered_by_none(box: BrokerBox, disk: FullDisk) -> None:
    new = [alter_configs.AlterableConfig("log.retention.ms", "5")]
    names = ["1", "01", "001"]
    resources = [alter_configs.AlterConfigsResource(BROKER, name, new) for name in names]
    answer = box.send(ApiKey.ALTER_CONFIGS, alter_configs.AlterConfigsRequest(resources), 2)
    assert [each.error_code for each in answer.responses] == [ErrorCode.INVALID_REQUEST] * 3
    assert disk.written_bytes == 0


def test_settings_that_nobody_knows_are_not_kept_without_end(box: BrokerBox) -> None:
    changed = [incremental_alter_configs.AlterableConfig(f"plug.in.{number}", 0, "x") for number in range(1_001)]
    for first, last, error in (
        (0, 1_001, ErrorCode.INVALID_REQUEST),
        (0, 1_000, 0),
        (1_000, 1_001, ErrorCode.INVALID_REQUEST),
    ):
        resource = incremental_alter_configs.AlterConfigsResource(BROKER, "", changed[first:last])
        request = incremental_alter_configs.IncrementalAlterConfigsRequest([resource])
        answer = box.send(ApiKey.INCREMENTAL_ALTER_CONFIGS, request, 1)
        assert answer.responses[0].error_code == error


def test_a_list_that_is_appended_to_does_not_grow_without_end(box: BrokerBox) -> None:
    topic = box.topic("t")
    said = []
    for start in (0, 4_000):
        words = ",".join(f"{index}:1" for index in range(start, start + 4_000))
        changed = incremental_alter_configs.AlterableConfig("leader.replication.throttled.replicas", 2, words)
        resource = incremental_alter_configs.AlterConfigsResource(TOPIC, "t", [changed])
        request = incremental_alter_configs.IncrementalAlterConfigsRequest([resource])
        said.append(box.send(ApiKey.INCREMENTAL_ALTER_CONFIGS, request, 1).responses[0].error_code)
    assert said == [0, ErrorCode.INVALID_CONFIG]
    assert len(topic.configs["leader.replication.throttled.replicas"]) < 32_768


@pytest.mark.parametrize("name", ["9" * 5_000, "²", "٣", "-", "--1", ""])
def test_what_is_no_number_of_a_broker_is_answered(box: BrokerBox, name: str) -> None:
    request = DescribeConfigsRequest([DescribeConfigsResource(BROKER, name, None)])
    answer = box.send(ApiKey.DESCRIBE_CONFIGS, request, 4)
    assert answer.results[0].error_code == (ErrorCode.INVALID_REQUEST if name else 0)


# --- bytes of the answer


def answer_bytes(box: BrokerBox, api_key: ApiKey, request: Any, version: int) -> int:
    encoded = response_encoder(api_key, version)(box.send(api_key, request, version))
    return len(encoded) if isinstance(encoded, bytes) else sum(map(len, encoded))


def test_an_unknown_long_name_is_not_repeated_for_every_partition(box: BrokerBox) -> None:
    name, partitions = "n" * 32_000, list(range(1_000))
    elect = ElectLeadersRequest(0, [TopicPartitions(name, partitions)], 1_000)
    assert answer_bytes(box, ApiKey.ELECT_LEADERS, elect, 2) < 500_000
    moved = [ReassignablePartition(index, [1]) for index in partitions]
    reassign = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name, moved)])
    assert answer_bytes(box, ApiKey.ALTER_PARTITION_REASSIGNMENTS, reassign, 0) < 500_000


def test_a_topic_named_many_times_is_described_a_bounded_number_of_times(box: BrokerBox) -> None:
    box.topic("t")
    for kind, name in ((TOPIC, "t"), (BROKER, "1")):
        request = DescribeConfigsRequest([DescribeConfigsResource(kind, name, None)] * 20_000, True)
        assert answer_bytes(box, ApiKey.DESCRIBE_CONFIGS, request, 4) < 5_000_000


# --- work between two steps

N = 300
NAMES = [f"name-{number}" for number in range(N)]
UNKNOWN_CONFIG = incremental_alter_configs.AlterableConfig("retention.ms", 0, "5")

LONG: dict[str, tuple[ApiKey, int, Any]] = {
    "metadata": (ApiKey.METADATA, 12, MetadataRequest([MetadataRequestTopic(name=name) for name in NAMES], False)),
    "metadata, creating": (
        ApiKey.METADATA, 12, MetadataRequest([MetadataRequestTopic(name=name) for name in NAMES], True),
    ),
    "metadata of all": (ApiKey.METADATA, 12, MetadataRequest(None, False)),
    "metadata, malformed": (ApiKey.METADATA, 12, MetadataRequest([MetadataRequestTopic(name=None)] * N, False)),
    "describe topic partitions": (
        ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, DescribeTopicPartitionsRequest([TopicRequest(name) for name in NAMES], 9),
    ),
    "describe topic partitions, wrong cursor": (
        ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0,
        DescribeTopicPartitionsRequest([TopicRequest(name) for name in NAMES], 9, Cursor("elsewhere", 0)),
    ),
    "describe topic partitions of all": (ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, DescribeTopicPartitionsRequest([], N)),
    "find coordinator": (ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(key_type=0, coordinator_keys=NAMES)),
    "create acls": (
        ApiKey.CREATE_ACLS, 3, CreateAclsRequest([AclCreation(2, "t", 3, "User:a", "*", 3, 3) for _ in NAMES]),
    ),
    "delete acls": (
        ApiKey.DELETE_ACLS, 3, DeleteAclsRequest([DeleteAclsFilter(2, "t", 3, "User:a", "*", 3, 3) for _ in NAMES]),
    ),
    "alter client quotas": (
        ApiKey.ALTER_CLIENT_QUOTAS, 1,
        quotas.AlterClientQuotasRequest([
            quotas.EntryData([quotas.EntityData("user", name)], [quotas.OpData("x", 1.0, False)]) for name in NAMES
        ], False),
    ),
    "scram credentials": (
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, DescribeUserScramCredentialsRequest([UserName(n) for n in NAMES]),
    ),
    "create topics": (ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest([CreatableTopic(n, 1, 1) for n in NAMES], 1_000)),
    "create too many": (
        ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest([CreatableTopic(n, 9_999, 1) for n in NAMES], 1_000),
    ),
    "create partitions": (
        ApiKey.CREATE_PARTITIONS, 3, CreatePartitionsRequest([CreatePartitionsTopic(n, 2, None) for n in NAMES], 1_000),
    ),
    "create a topic with assignments": (
        ApiKey.CREATE_TOPICS, 7,
        CreateTopicsRequest([
            CreatableTopic("new", -1, -1, [CreatableReplicaAssignment(index, [1]) for index in range(N)])
        ], 1_000),
    ),
    "create a topic with settings": (
        ApiKey.CREATE_TOPICS, 7,
        CreateTopicsRequest([CreatableTopic("new", 1, 1, (), [CreatableTopicConfig("retention.ms", "5")] * N)], 1_000),
    ),
    "create partitions with assignments": (
        ApiKey.CREATE_PARTITIONS, 3,
        CreatePartitionsRequest([
            CreatePartitionsTopic("existing-0", N + 1, [CreatePartitionsAssignment([1]) for _ in range(N)])
        ], 1_000),
    ),
    "describe many settings": (
        ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest([DescribeConfigsResource(TOPIC, "existing-0", NAMES)]),
    ),
    "alter many quotas": (
        ApiKey.ALTER_CLIENT_QUOTAS, 1,
        quotas.AlterClientQuotasRequest([
            quotas.EntryData([quotas.EntityData("user", "u")], [quotas.OpData(name, 1.0, True) for name in NAMES])
        ], False),
    ),
    "delete topics": (ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=NAMES)),
    "delete topics by id": (
        ApiKey.DELETE_TOPICS, 6,
        DeleteTopicsRequest([DeleteTopicState(None, number.to_bytes(16, "big")) for number in range(1, N + 1)]),
    ),
    "describe configs": (
        ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest([DescribeConfigsResource(TOPIC, n, None) for n in NAMES]),
    ),
    "alter configs": (
        ApiKey.ALTER_CONFIGS, 2,
        alter_configs.AlterConfigsRequest([alter_configs.AlterConfigsResource(TOPIC, n, []) for n in NAMES]),
    ),
    "incremental alter configs": (
        ApiKey.INCREMENTAL_ALTER_CONFIGS, 1,
        incremental_alter_configs.IncrementalAlterConfigsRequest([
            incremental_alter_configs.AlterConfigsResource(TOPIC, name, [UNKNOWN_CONFIG]) for name in NAMES
        ]),
    ),
    "describe log dirs": (
        ApiKey.DESCRIBE_LOG_DIRS, 4,
        DescribeLogDirsRequest([DescribableLogDirTopic("existing-0", list(range(N)))]),
    ),
    "describe all log dirs": (ApiKey.DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(None)),
    "elect leaders": (
        ApiKey.ELECT_LEADERS, 2, ElectLeadersRequest(0, [TopicPartitions("existing-0", list(range(N)))], 1_000),
    ),
    "elect leaders of an unknown type": (
        ApiKey.ELECT_LEADERS, 2, ElectLeadersRequest(9, [TopicPartitions("existing-0", list(range(N)))], 1_000),
    ),
    "elect all leaders": (ApiKey.ELECT_LEADERS, 2, ElectLeadersRequest(0, None, 1_000)),
    "reassign": (
        ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0,
        AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic("existing-0", [ReassignablePartition(index, [1]) for index in range(N)])]
        ),
    ),
    "list config resources": (ApiKey.LIST_CONFIG_RESOURCES, 1, ListConfigResourcesRequest([TOPIC])),
}  # fmt: skip


@pytest.mark.parametrize("what", LONG)
def test_a_long_request_is_done_in_as_many_steps_as_it_has_elements(box: BrokerBox, what: str) -> None:
    for start in range(0, N, 100):
        create(box, *((f"existing-{number}", 1) for number in range(start, start + 100)))
    api_key, version, request = LONG[what]
    route = box.broker.apis.route(api_key, version)
    call = Call(FakeConnection(), route, "test")  # type: ignore[arg-type]
    call.now = call.steady_ms = box.now
    steps = route.handler(box.broker, request, call)
    assert isinstance(steps, GeneratorType)
    # Names are sorted a thousand at a time; the first step is what comes before the first element.
    least = 2 * N if "cursor" in what else N
    assert sum(1 for _ in steps) >= least, what


def test_many_components_of_a_filter_of_quotas_are_compared_once(box: BrokerBox) -> None:
    components = [ComponentData("user", 0, "a")] + [ComponentData("nobody knows it", 0, "a")] * 1_000
    answer = box.send(ApiKey.DESCRIBE_CLIENT_QUOTAS, DescribeClientQuotasRequest(components, False), 1)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION


# --- others go on meanwhile


def test_what_another_request_has_done_meanwhile_is_respected(box: BrokerBox) -> None:
    """Between two steps of a request others are served; none of these changes is lost, or made twice."""

    def begun(api_key: ApiKey, version: int, request: Any, steps_before: int) -> Any:
        route = box.broker.apis.route(api_key, version)
        call = Call(FakeConnection(), route, "test")  # type: ignore[arg-type]
        call.now = call.steady_ms = box.now
        steps: Any = route.handler(box.broker, request, call)
        for _ in range(steps_before):
            next(steps)
        return steps

    def rest(steps: Any) -> Any:
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return end.value

    def the(name: str) -> Topic:
        topic = box.broker.catalog.get(name)
        assert topic is not None
        return topic

    # In each case the first topic was looked at before the others' change, and the second one is after it.
    wanted = CreateTopicsRequest([CreatableTopic(name, 2, 1) for name in "ab"], 1_000)
    creation = begun(ApiKey.CREATE_TOPICS, 5, wanted, 6)
    box.topic("a")
    assert [topic.error_code for topic in rest(creation).topics] == [ErrorCode.TOPIC_ALREADY_EXISTS, 0]
    assert counts(box) == {"a": 1, "b": 2}
    more = CreatePartitionsRequest([CreatePartitionsTopic(name, 4, None) for name in "ab"], 1_000, False)
    growth = begun(ApiKey.CREATE_PARTITIONS, 3, more, 4)
    box.broker.catalog.make(box.broker.catalog.growth_of([(the("a"), 6)]))
    box.broker.catalog.make(box.broker.catalog.deletion_of([the("b")]))
    refusals = [ErrorCode.INVALID_PARTITIONS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert [each.error_code for each in rest(growth).results] == refusals
    assert counts(box) == {"a": 6}
    box.topic("b")
    new = [alter_configs.AlterableConfig("retention.ms", "5")]
    resources = [alter_configs.AlterConfigsResource(TOPIC, name, new) for name in "ab"]
    alteration = begun(ApiKey.ALTER_CONFIGS, 2, alter_configs.AlterConfigsRequest(resources), 4)
    box.broker.catalog.make(box.broker.catalog.deletion_of([the("a")]))
    box.topic("a")
    assert [each.error_code for each in rest(alteration).responses] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
    assert [(topic.name, topic.configs) for topic in box.broker.catalog] == [("b", {"retention.ms": "5"}), ("a", {})]
    deletion = begun(ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=["a", "b"]), 4)
    box.broker.catalog.make(box.broker.catalog.deletion_of([the("a")]))
    box.topic("a", partitions=3)
    assert [each.error_code for each in rest(deletion).responses] == [0, 0]
    assert counts(box) == {"a": 3}


def test_answers_about_many_users_are_made_when_they_are_encoded(box: BrokerBox) -> None:
    """Each has a long text of its own, so that a hundred thousand would take much memory."""
    route = box.broker.apis.route(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0)
    call = Call(FakeConnection(), route, "test")  # type: ignore[arg-type]
    call.is_long = True
    users = [UserName(f"u{number}") for number in range(2_500)]
    steps: Any = route.handler(box.broker, DescribeUserScramCredentialsRequest(users), call)
    response = all_steps(steps)
    results = DescribeUserScramCredentialsResult
    assert not [each for each in gc.get_objects() if type(each) is results]
    assert [each.user for each in response.results] == [user.name for user in users]
    assert len(response_encoder(route.api_key, 0)(response)) > 2_500 * 60


@pytest.mark.parametrize("messages", [alter_configs, incremental_alter_configs], ids=["Alter", "IncrementalAlter"])
def test_answers_about_many_resources_are_made_when_they_are_encoded(box: BrokerBox, messages: Any) -> None:
    is_old = messages is alter_configs
    api_key = ApiKey.ALTER_CONFIGS if is_old else ApiKey.INCREMENTAL_ALTER_CONFIGS
    request = messages.AlterConfigsRequest if is_old else messages.IncrementalAlterConfigsRequest
    route = box.broker.apis.route(api_key, 1)
    names = [f"no-topic-{number}" for number in range(2_500)]
    steps: Any = route.handler(
        box.broker,
        request([messages.AlterConfigsResource(TOPIC, name, []) for name in names]),
        Call(FakeConnection(), route, "test"),  # type: ignore[arg-type]
    )
    response = all_steps(steps)
    assert not [each for each in gc.get_objects() if type(each) is messages.AlterConfigsResourceResponse]
    assert [each.resource_name for each in response.responses] == names
    assert len(response_encoder(api_key, 1)(response)) > 2_500 * 40


def test_texts_about_coordinators_that_cannot_be_are_told_a_thousand_times(box: BrokerBox) -> None:
    """A hundred thousand keys of one byte would make an answer of 20 MB."""
    unknown_type = 9
    answer = box.send(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest("", unknown_type, ["k"] * 1_500), 4)
    told = [(each.key, each.error_code) for each in answer.coordinators]
    assert told == [("k", ErrorCode.INVALID_REQUEST)] * 1_500
    assert [number for number, each in enumerate(answer.coordinators) if each.error_message] == list(range(1_000))
