"""The APIs that Kohort has codecs for, with their numbers and versions: one table.

The versions are those that Apache Kafka 4.3.1 serves. Which of them the broker announces is decided by the handlers
that exist (broker/api_table.py): having a codec does not mean that an API is served.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

NEVER_FLEXIBLE = 32767


class ApiKey(IntEnum):
    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    UPDATE_FEATURES = 57
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92


class Api(NamedTuple):
    key: ApiKey
    name: str  # Kafka's, as in JoinGroup
    min_version: int
    max_version: int
    first_flexible: int  # from here on compact lengths and tagged fields

    @property
    def module(self) -> str:
        return self.key.name.lower()


APIS: dict[int, Api] = {
    api.key: api
    for api in (
        Api(ApiKey.PRODUCE, "Produce", 3, 13, 9),
        Api(ApiKey.FETCH, "Fetch", 4, 18, 12),
        Api(ApiKey.LIST_OFFSETS, "ListOffsets", 1, 11, 6),
        Api(ApiKey.METADATA, "Metadata", 0, 13, 9),
        Api(ApiKey.OFFSET_COMMIT, "OffsetCommit", 2, 10, 8),
        Api(ApiKey.OFFSET_FETCH, "OffsetFetch", 1, 10, 6),
        Api(ApiKey.FIND_COORDINATOR, "FindCoordinator", 0, 6, 3),
        Api(ApiKey.JOIN_GROUP, "JoinGroup", 0, 9, 6),
        Api(ApiKey.HEARTBEAT, "Heartbeat", 0, 4, 4),
        Api(ApiKey.LEAVE_GROUP, "LeaveGroup", 0, 5, 4),
        Api(ApiKey.SYNC_GROUP, "SyncGroup", 0, 5, 4),
        Api(ApiKey.DESCRIBE_GROUPS, "DescribeGroups", 0, 6, 5),
        Api(ApiKey.LIST_GROUPS, "ListGroups", 0, 5, 3),
        Api(ApiKey.SASL_HANDSHAKE, "SaslHandshake", 0, 1, NEVER_FLEXIBLE),
        Api(ApiKey.API_VERSIONS, "ApiVersions", 0, 4, 3),
        Api(ApiKey.CREATE_TOPICS, "CreateTopics", 2, 7, 5),
        Api(ApiKey.DELETE_TOPICS, "DeleteTopics", 1, 6, 4),
        Api(ApiKey.DELETE_RECORDS, "DeleteRecords", 0, 2, 2),
        Api(ApiKey.INIT_PRODUCER_ID, "InitProducerId", 0, 5, 2),
        Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, "OffsetForLeaderEpoch", 2, 4, 4),
        Api(ApiKey.ADD_PARTITIONS_TO_TXN, "AddPartitionsToTxn", 0, 5, 3),
        Api(ApiKey.ADD_OFFSETS_TO_TXN, "AddOffsetsToTxn", 0, 4, 3),
        Api(ApiKey.END_TXN, "EndTxn", 0, 5, 3),
        Api(ApiKey.WRITE_TXN_MARKERS, "WriteTxnMarkers", 1, 2, 1),
        Api(ApiKey.TXN_OFFSET_COMMIT, "TxnOffsetCommit", 0, 5, 3),
        Api(ApiKey.DESCRIBE_ACLS, "DescribeAcls", 1, 3, 2),
        Api(ApiKey.CREATE_ACLS, "CreateAcls", 1, 3, 2),
        Api(ApiKey.DELETE_ACLS, "DeleteAcls", 1, 3, 2),
        Api(ApiKey.DESCRIBE_CONFIGS, "DescribeConfigs", 1, 4, 4),
        Api(ApiKey.ALTER_CONFIGS, "AlterConfigs", 0, 2, 2),
        Api(ApiKey.DESCRIBE_LOG_DIRS, "DescribeLogDirs", 1, 5, 2),
        Api(ApiKey.SASL_AUTHENTICATE, "SaslAuthenticate", 0, 2, 2),
        Api(ApiKey.CREATE_PARTITIONS, "CreatePartitions", 0, 3, 2),
        Api(ApiKey.DELETE_GROUPS, "DeleteGroups", 0, 2, 2),
        Api(ApiKey.ELECT_LEADERS, "ElectLeaders", 0, 2, 2),
        Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, "IncrementalAlterConfigs", 0, 1, 1),
        Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "AlterPartitionReassignments", 0, 1, 0),
        Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, "ListPartitionReassignments", 0, 0, 0),
        Api(ApiKey.OFFSET_DELETE, "OffsetDelete", 0, 0, NEVER_FLEXIBLE),
        Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, "DescribeClientQuotas", 0, 1, 1),
        Api(ApiKey.ALTER_CLIENT_QUOTAS, "AlterClientQuotas", 0, 1, 1),
        Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "DescribeUserScramCredentials", 0, 0, 0),
        Api(ApiKey.UPDATE_FEATURES, "UpdateFeatures", 0, 2, 0),
        Api(ApiKey.DESCRIBE_CLUSTER, "DescribeCluster", 0, 2, 0),
        Api(ApiKey.DESCRIBE_PRODUCERS, "DescribeProducers", 0, 0, 0),
        Api(ApiKey.DESCRIBE_TRANSACTIONS, "DescribeTransactions", 0, 0, 0),
        Api(ApiKey.LIST_TRANSACTIONS, "ListTransactions", 0, 2, 0),
        Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeat", 0, 1, 0),
        Api(ApiKey.CONSUMER_GROUP_DESCRIBE, "ConsumerGroupDescribe", 0, 1, 0),
        Api(ApiKey.LIST_CONFIG_RESOURCES, "ListConfigResources", 0, 1, 0),
        Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "DescribeTopicPartitions", 0, 0, 0),
        Api(ApiKey.SHARE_GROUP_HEARTBEAT, "ShareGroupHeartbeat", 1, 1, 0),
        Api(ApiKey.SHARE_GROUP_DESCRIBE, "ShareGroupDescribe", 1, 1, 0),
        Api(ApiKey.SHARE_FETCH, "ShareFetch", 1, 2, 0),
        Api(ApiKey.SHARE_ACKNOWLEDGE, "ShareAcknowledge", 1, 2, 0),
        Api(ApiKey.INITIALIZE_SHARE_GROUP_STATE, "InitializeShareGroupState", 0, 0, 0),
        Api(ApiKey.READ_SHARE_GROUP_STATE, "ReadShareGroupState", 0, 0, 0),
        Api(ApiKey.WRITE_SHARE_GROUP_STATE, "WriteShareGroupState", 0, 1, 0),
        Api(ApiKey.DELETE_SHARE_GROUP_STATE, "DeleteShareGroupState", 0, 0, 0),
        Api(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, "ReadShareGroupStateSummary", 0, 1, 0),
        Api(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, "DescribeShareGroupOffsets", 0, 1, 0),
        Api(ApiKey.ALTER_SHARE_GROUP_OFFSETS, "AlterShareGroupOffsets", 0, 0, 0),
        Api(ApiKey.DELETE_SHARE_GROUP_OFFSETS, "DeleteShareGroupOffsets", 0, 0, 0),
    )
}
