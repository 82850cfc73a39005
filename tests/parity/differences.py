"""The differences between Kafka's answers and ours that are allowed, each with its reason.

docs/protocol-support.md shows this table, and a test keeps it in step. `make parity` says which entries were not
needed, so that the list can only shrink by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    SHAPE = "the value"  # both null, both empty, both zero, or both set
    ANY = "anything"


@dataclass(frozen=True)
class Allowed:
    """`api`, `field` and `scenario` are shell patterns; list indexes are left out of fields."""

    api: str
    field: str
    reason: str
    kind: Kind = Kind.SHAPE
    scenario: str = "*"


@dataclass(frozen=True)
class Unordered:
    """A list that Kafka answers in the order of a hash table: compared sorted by these fields, or as a whole."""

    api: str
    field: str
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class Optional:
    """A list of which we may leave elements out, but not add any."""

    api: str
    field: str
    key: str
    reason: str


OWN_TIME = "*brokers own time*"
NOT_HONOURED = "*not honoured*"
NO_TIME = "a timeout of nothing"
STUMBLES = "*Kafka stumbles over*"
FIRST_ANSWER = "a topic that nobody made is made by asking for it"

ALLOWED = [
    Allowed("*", "*port", "two brokers on one machine listen on two ports"),
    Allowed("*", "cluster_id", "random, made when the data folder is made"),
    Allowed("*", "*topic_id", "random, made with the topic; where both are known by name, the name is compared"),
    Allowed("*", "*error_message", "texts for people are our own; whether there is one is compared"),
    Allowed("DescribeConfigs", "*documentation", "no such texts are kept", Kind.ANY),
    Allowed(
        "*",
        "*(min.insync.replicas).config_source",
        "Kafka sets the default for the whole cluster where eligible leader replicas are tracked; we have one replica",
    ),
    Allowed("DescribeConfigs", "*(min.insync.replicas).synonyms.*", "the same", Kind.ANY),
    Allowed(
        "DescribeConfigs",
        "*(log.retention.ms).*",
        "null in Kafka, where the setting in hours has the default; we have this one alone and show it",
        Kind.ANY,
        "configs of the broker by name",
    ),
    Allowed("*", "*", "settings that we would not honour are refused, not ignored", Kind.ANY, NOT_HONOURED),
    Allowed("CreateTopics", "*", "Kafka says that time is up and makes the topic all the same", Kind.ANY, NO_TIME),
    Allowed("*", "*", "Kafka stumbles: an exception of its own becomes UNKNOWN_SERVER_ERROR", Kind.ANY, STUMBLES),
    Allowed(
        "Produce",
        "*",
        "Kafka does not look at the offsets of records that are not compressed; we refuse what no reader could use",
        Kind.ANY,
        "records whose offsets are not in order",
    ),
    Allowed(
        "ListOffsets",
        "*",
        "Kafka answers from segments that it has not removed yet",
        Kind.ANY,
        "the newest time after all records were deleted",
    ),
    Allowed("InitProducerId", "producer_id", "a counter, which other scenarios move too"),
    Allowed("DescribeTransactions", "*transaction_start_time_ms", "the clock"),
    Allowed("DescribeProducers", "*last_timestamp", "the clock, after a marker"),
    Allowed(
        "WriteTxnMarkers",
        "*error_code",
        "Kafka writes markers into __transaction_state, and cannot read its own log behind them; we refuse them",
        Kind.ANY,
        "*without a coordinator*",
    ),
    *(
        Allowed(
            api,
            field,
            "in Kafka the last stable offset is then where the batch begins that was cut into, before the log's start",
            Kind.ANY,
            "records of an open transaction are deleted",
        )
        for api, field in (("Fetch", "*last_stable_offset"), ("ListOffsets", "*offset"))
    ),
    Allowed(
        "DescribeTransactions",
        "*topics.*",
        "while markers are written, Kafka leaves out partitions that have theirs; we tell all until the end",
        Kind.ANY,
        "a topic that is deleted while its transaction is stuck",
    ),
    *(
        Allowed(
            what,
            "*",
            "a Kafka that has just started skips the markers of partitions without a leader, and nobody ends them then",
            Kind.ANY,
            scenario,
        )
        for scenario, told in (
            ("transactions that were ended before a crash are complete after it", ("OffsetFetch", "stable")),
            ("a transaction takes too long over a crash", ("batches", "aborted", "last stable offset")),
        )
        for what in told
    ),
    Allowed("Fetch", "session_id", "random"),
    Allowed("Produce", "*log_append_time_ms", "the clock", scenario=OWN_TIME),
    Allowed("Fetch", "*timestamp", "the clock", scenario=OWN_TIME),
    Allowed("Fetch", "*crc", "covers the clock's time", scenario=OWN_TIME),
    Allowed("ListOffsets", "*timestamp", "the clock", scenario=OWN_TIME),
    Allowed("DescribeLogDirs", "results.log_dir", "two brokers keep two folders"),
    Allowed("DescribeLogDirs", "results.*_bytes", "both look at the same disk, one after the other"),
    Allowed("ApiVersions", "finalized_features_epoch", "Kafka's is the end of its metadata log", Kind.ANY),
    Allowed(
        "Metadata",
        "#1 topics.*",
        "we have made the topic when we answer; Kafka's broker says unknown first and learns of it a moment later",
        Kind.ANY,
        FIRST_ANSWER,
    ),
    Allowed(
        "still waits",
        "(answer)",
        "Kafka never answers the waiting SyncGroup of a member that is sent away; we say UNKNOWN_MEMBER_ID at once",
        Kind.ANY,
        "a member that is sent away while its sync waits",
    ),
    Allowed(
        "JoinGroup",
        "*",
        "in Kafka a protocol that a member lists twice counts as two members' and is then not known to all",
        Kind.ANY,
        "the same protocol twice in a list",
    ),
    Allowed(
        "*",
        "*",
        "Kafka takes the newcomer for one that wants what the others want, and nobody has what it would get",
        Kind.ANY,
        "a member without topics joins when a target is due",
    ),
    Allowed(
        "*",
        "*",
        "Kafka forgets the group and writes nothing, so its epochs begin anew; ours only rise",
        Kind.ANY,
        "a classic member with an id comes to an empty consumer group",
    ),
]

OPTIONAL = [
    Optional("ApiVersions", "api_keys", "api_key", "APIs that are not served are not announced"),
    Optional("ApiVersions", "supported_features", "name", "only features that mean something here"),
    Optional("ApiVersions", "finalized_features", "name", "only features that mean something here"),
]

UNORDERED = [
    Unordered("ApiVersions", "supported_features", ("name",)),
    Unordered("ApiVersions", "finalized_features", ("name",)),
    Unordered("Metadata", "topics", ("name", "topic_id")),
    Unordered("CreateTopics", "topics", ("name",)),
    Unordered("DeleteTopics", "responses", ("name", "topic_id")),
    Unordered("CreatePartitions", "results", ("name",)),
    Unordered("DescribeConfigs", "results", ("resource_type", "resource_name")),
    Unordered("DescribeConfigs", "results.configs", ("name",)),
    Unordered("IncrementalAlterConfigs", "responses", ("resource_type", "resource_name")),
    Unordered("AlterConfigs", "responses", ("resource_type", "resource_name")),
    Unordered("ElectLeaders", "replica_election_results", ("topic", "partition_result")),
    Unordered("DescribeUserScramCredentials", "results", ("user",)),
    Unordered("AlterClientQuotas", "entries", ("error_code", "entity")),
    Unordered("AlterClientQuotas", "entries.entity", ("entity_type",)),
    Unordered("Produce", "responses", ("name", "topic_id")),
    Unordered("Produce", "responses.partition_responses", ("index",)),
    Unordered("ListOffsets", "topics", ("name",)),
    Unordered("ListOffsets", "topics.partitions", ("partition_index",)),
    Unordered("OffsetForLeaderEpoch", "topics", ("topic",)),
    Unordered("OffsetForLeaderEpoch", "topics.partitions", ("partition",)),
    Unordered("DeleteRecords", "topics", ("name",)),
    Unordered("DeleteRecords", "topics.partitions", ("partition_index",)),
    Unordered("DescribeLogDirs", "results.topics", ("name",)),
    Unordered("DescribeLogDirs", "results.topics.partitions", ("partition_index",)),
    Unordered("JoinGroup", "members", ("member_id",)),
    Unordered("DescribeGroups", "groups", ("group_id",)),
    Unordered("DescribeGroups", "groups.members", ("member_id",)),
    Unordered("ListGroups", "groups", ("group_id",)),
    Unordered("DeleteGroups", "results", ("group_id",)),
    Unordered("ConsumerGroupHeartbeat", "assignment.topic_partitions", ("topic_id",)),
    Unordered("ConsumerGroupHeartbeat", "assignment.topic_partitions.partitions"),
    Unordered("ConsumerGroupDescribe", "groups", ("group_id",)),
    Unordered("ConsumerGroupDescribe", "groups.members", ("member_id",)),
    Unordered("ConsumerGroupDescribe", "groups.members.subscribed_topic_names"),
    Unordered("ConsumerGroupDescribe", "groups.members.*assignment.topic_partitions", ("topic_name",)),
    Unordered("ConsumerGroupDescribe", "groups.members.*assignment.topic_partitions.partitions"),
    *(Unordered(api, "responses", ("topic_id",)) for api in ("ShareFetch", "ShareAcknowledge")),
    *(Unordered(api, "responses.partitions", ("partition_index",)) for api in ("ShareFetch", "ShareAcknowledge")),
    Unordered("DescribeShareGroupOffsets", "groups.topics", ("topic_name",)),
    Unordered("DescribeShareGroupOffsets", "groups.topics.partitions", ("partition_index",)),
    Unordered("AlterShareGroupOffsets", "responses", ("topic_name",)),
    Unordered("AlterShareGroupOffsets", "responses.partitions", ("partition_index",)),
    Unordered("DeleteShareGroupOffsets", "responses", ("topic_name",)),
    Unordered("ShareGroupHeartbeat", "assignment.topic_partitions", ("topic_id",)),
    Unordered("ShareGroupHeartbeat", "assignment.topic_partitions.partitions"),
    Unordered("ShareGroupDescribe", "groups", ("group_id",)),
    Unordered("ShareGroupDescribe", "groups.members", ("member_id",)),
    Unordered("ShareGroupDescribe", "groups.members.subscribed_topic_names"),
    Unordered("ShareGroupDescribe", "groups.members.assignment.topic_partitions", ("topic_name",)),
    Unordered("ShareGroupDescribe", "groups.members.assignment.topic_partitions.partitions"),
    Unordered("AddPartitionsToTxn", "results_by_transaction", ("transactional_id",)),
    Unordered("AddPartitionsToTxn", "results_by_transaction.topic_results", ("name",)),
    Unordered("AddPartitionsToTxn", "results_by_transaction.topic_results.results_by_partition", ("partition_index",)),
    Unordered("AddPartitionsToTxn", "results_by_topic_v3_and_below", ("name",)),
    Unordered("AddPartitionsToTxn", "results_by_topic_v3_and_below.results_by_partition", ("partition_index",)),
    Unordered("WriteTxnMarkers", "markers.topics", ("name",)),
    Unordered("WriteTxnMarkers", "markers.topics.partitions", ("partition_index",)),
    Unordered("TxnOffsetCommit", "topics", ("name",)),
    Unordered("TxnOffsetCommit", "topics.partitions", ("partition_index",)),
    Unordered("DescribeProducers", "topics", ("name",)),
    Unordered("DescribeProducers", "topics.partitions", ("partition_index",)),
    Unordered("DescribeProducers", "topics.partitions.active_producers", ("producer_id",)),
    Unordered("DescribeTransactions", "transaction_states.topics", ("topic",)),
    Unordered("DescribeTransactions", "transaction_states.topics.partitions"),
    Unordered("ListTransactions", "transaction_states", ("transactional_id",)),
    Unordered("ListTransactions", "unknown_state_filters"),
    Unordered("Fetch", "responses.partitions.aborted_transactions", ("first_offset", "producer_id")),
]
