"""What administrators' tools ask: ACLs, elections, reassignments, quotas, SCRAM credentials, features."""

from __future__ import annotations

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kohort.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kohort.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kohort.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kohort.protocol.messages.describe_acls import DescribeAclsRequest
from kohort.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from kohort.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from kohort.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kohort.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from kohort.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.parity.peer import Peer
from tests.parity.scenario import requests, scenario

TIMEOUT_MS = 10_000
TOPIC, LITERAL, READ, ALLOW = 2, 3, 3, 3
ANY = 1

# --- ACLs


requests(
    ApiKey.DESCRIBE_ACLS,
    {
        "ACLs cannot be listed without an authorizer": DescribeAclsRequest(ANY, None, ANY, None, None, ANY, ANY),
        "the ACLs of a topic cannot be listed without an authorizer": DescribeAclsRequest(
            TOPIC, "x", LITERAL, "User:a", "*", READ, ALLOW
        ),
        "a filter of an unknown resource type": DescribeAclsRequest(0, None, ANY, None, None, ANY, ANY),
        "a filter of an unknown pattern type": DescribeAclsRequest(ANY, None, 0, None, None, ANY, ANY),
        "a filter of an unknown operation": DescribeAclsRequest(ANY, None, ANY, None, None, 0, ANY),
        "a filter of an unknown permission": DescribeAclsRequest(ANY, None, ANY, None, None, ANY, 0),
        "a filter of types that Kafka does not have": DescribeAclsRequest(99, None, 99, None, None, 99, 99),
    },
)


@scenario(ApiKey.DESCRIBE_ACLS)
def brokers_without_an_authorizer_say_the_same_words(peer: Peer) -> None:
    """Texts may differ elsewhere; people look these up."""
    everything = DescribeAclsRequest(ANY, None, ANY, None, None, ANY, ANY)
    peer.note("DescribeAcls", peer.ask(ApiKey.DESCRIBE_ACLS, everything).error_message)
    made = peer.ask(ApiKey.CREATE_ACLS, CreateAclsRequest([AclCreation(*ACL)]))
    peer.note("CreateAcls", made.results[0].error_message)
    deleted = peer.ask(ApiKey.DELETE_ACLS, DeleteAclsRequest([DeleteAclsFilter(*ACL)]))
    peer.note("DeleteAcls", deleted.filter_results[0].error_message)


ACL = (TOPIC, "x", LITERAL, "User:a", "*", READ, ALLOW)
# Each list is one request; a 0 stands for a type, operation or permission that is not known.
ACL_LISTS: tuple[list[tuple[int, str, int, str, str, int, int]], ...] = (
    [],
    [ACL],
    [ACL, ACL],
    [(ANY, "x", LITERAL, "User:a", "*", READ, ALLOW)],
    [(TOPIC, "", LITERAL, "nobody", "", READ, ALLOW)],
    [(TOPIC, "x", ANY, "User:a", "*", ANY, ANY)],
    [(99, "x", 99, "User:a", "*", 99, 99)],
    [ACL, (0, "x", LITERAL, "User:a", "*", READ, ALLOW)],
    [(TOPIC, "x", 0, "User:a", "*", READ, ALLOW)],
    [(TOPIC, "x", LITERAL, "User:a", "*", 0, ALLOW)],
    [(TOPIC, "x", LITERAL, "User:a", "*", READ, 0)],
)


@scenario(ApiKey.CREATE_ACLS)
def ACLs_cannot_be_made_without_an_authorizer(peer: Peer) -> None:
    for each in ACL_LISTS:
        peer.ask(ApiKey.CREATE_ACLS, CreateAclsRequest([AclCreation(*acl) for acl in each]))


@scenario(ApiKey.DELETE_ACLS)
def ACLs_cannot_be_deleted_without_an_authorizer(peer: Peer) -> None:
    for each in ACL_LISTS:
        peer.ask(ApiKey.DELETE_ACLS, DeleteAclsRequest([DeleteAclsFilter(*acl) for acl in each]))
    everything = DeleteAclsFilter(ANY, None, ANY, None, None, ANY, ANY)
    peer.ask(ApiKey.DELETE_ACLS, DeleteAclsRequest([everything]))


# --- ElectLeaders


@scenario(ApiKey.ELECT_LEADERS)
def a_leader_of_the_only_replica_needs_no_election(peer: Peer) -> None:
    topic, other = peer.create("-a", partitions=2), peer.create("-b")
    for asked in (
        [TopicPartitions(topic, [0, 1])],
        [TopicPartitions(topic, [0, 0])],
        [TopicPartitions(topic, [0]), TopicPartitions(other, [0])],
        [TopicPartitions(topic, [])],
        [TopicPartitions(topic, [0, 9, -1])],
        [TopicPartitions(topic, [0]), TopicPartitions(peer.topic("-unknown"), [0]), TopicPartitions("bad name", [0])],
        [],
    ):
        peer.ask(ApiKey.ELECT_LEADERS, ElectLeadersRequest(0, asked, TIMEOUT_MS))


@scenario(ApiKey.ELECT_LEADERS, versions=(1, 2))
def unclean_and_unknown_kinds_of_elections(peer: Peer) -> None:
    topic = peer.create(partitions=2)
    for election_type in (1, 2, -1):
        for asked in ([TopicPartitions(topic, [0, 7])], [TopicPartitions(peer.topic("-unknown"), [0])], []):
            peer.ask(ApiKey.ELECT_LEADERS, ElectLeadersRequest(election_type, asked, TIMEOUT_MS))


@scenario(ApiKey.ELECT_LEADERS, alone=True)
def an_election_for_all_partitions_leaves_out_those_that_need_none(peer: Peer) -> None:
    peer.create("-a", partitions=2)
    peer.create("-b")
    peer.ask(ApiKey.ELECT_LEADERS, ElectLeadersRequest(0, None, TIMEOUT_MS))
    if peer.version > 0:
        peer.ask(ApiKey.ELECT_LEADERS, ElectLeadersRequest(1, None, TIMEOUT_MS))
        peer.ask(ApiKey.ELECT_LEADERS, ElectLeadersRequest(2, None, TIMEOUT_MS))


# --- AlterPartitionReassignments, ListPartitionReassignments


def reassign(peer: Peer, *topics: tuple[str, dict[int, list[int] | None]], may_change_factor: bool = True) -> None:
    """Ask for these replicas by topic and partition; None cancels."""
    wanted = [
        ReassignableTopic(name, [ReassignablePartition(index, replicas) for index, replicas in partitions.items()])
        for name, partitions in topics
    ]
    request = AlterPartitionReassignmentsRequest(TIMEOUT_MS, may_change_factor, wanted)
    peer.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, request)


@scenario(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
def the_assignment_in_force_can_be_asked_for_again(peer: Peer) -> None:
    topic = peer.create(partitions=2)
    for may_change_factor in (True, False):
        reassign(peer, (topic, {0: [1], 1: [1]}), may_change_factor=may_change_factor)
        reassign(peer, (topic, {}), may_change_factor=may_change_factor)
        reassign(peer, may_change_factor=may_change_factor)


@scenario(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
def assignments_to_brokers_that_are_not_there(peer: Peer) -> None:
    topic = peer.create(partitions=2)
    for may_change_factor in (True, False):
        for replicas in ([2], [1, 2], [2, 1], [1, 1], [], [-1]):
            reassign(peer, (topic, {0: replicas, 1: [1]}), may_change_factor=may_change_factor)


@scenario(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
def a_reassignment_that_is_not_in_progress_cannot_be_cancelled(peer: Peer) -> None:
    topic = peer.create()
    reassign(peer, (topic, {0: None}))
    reassign(peer, (topic, {0: None, 9: None}), (peer.topic("-unknown"), {0: None}))


@scenario(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
def reassignments_of_partitions_that_are_not_there(peer: Peer) -> None:
    topic = peer.create()
    reassign(peer, (topic, {0: [1], 9: [1], -1: [1]}))
    reassign(peer, (peer.topic("-unknown"), {0: [1]}), (topic, {0: [1]}), ("bad name", {0: [5]}))
    reassign(peer, (topic, {0: [1]}), (topic, {0: [2]}))


@scenario(ApiKey.LIST_PARTITION_REASSIGNMENTS)
def no_partition_is_on_the_move(peer: Peer) -> None:
    topic = peer.create()
    named = [ListPartitionReassignmentsTopics(name, [0, 9]) for name in (topic, peer.topic("-unknown"))]
    for asked in (None, [], named):
        peer.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, ListPartitionReassignmentsRequest(TIMEOUT_MS, asked))


# --- client quotas

EXACT, DEFAULT, SPECIFIED = 0, 1, 2


@scenario(ApiKey.DESCRIBE_CLIENT_QUOTAS)
def there_are_no_quotas_to_describe(peer: Peer) -> None:
    user, client = ComponentData("user", SPECIFIED, None), ComponentData("client-id", SPECIFIED, None)
    for components in (
        [],
        [user],
        [user, client],
        [ComponentData("user", EXACT, "alice")],
        [ComponentData("user", EXACT, "")],
        [ComponentData("user", DEFAULT, None)],
        [ComponentData("ip", EXACT, "no address")],
        [ComponentData("ip", DEFAULT, None)],
    ):
        for strict in (False, True):
            peer.ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, DescribeClientQuotasRequest(components, strict))


@scenario(ApiKey.DESCRIBE_CLIENT_QUOTAS)
def filters_of_quotas_that_cannot_be(peer: Peer) -> None:
    user, ip = ComponentData("user", SPECIFIED, None), ComponentData("ip", SPECIFIED, None)
    for components in (
        [ComponentData("planet", EXACT, "mars")],
        [user, ComponentData("planet", EXACT, "mars")],
        [ComponentData("planet", 7, None), user],
        [ComponentData("", EXACT, "x")],
        [ComponentData("user", 7, None)],
        [ComponentData("user", EXACT, None)],
        [ComponentData("user", DEFAULT, "x")],
        [ComponentData("user", SPECIFIED, "x")],
        [user, user],
        [ip, user],
        [ip, ip],
    ):
        peer.ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, DescribeClientQuotasRequest(components, False))


def alter_quotas(peer: Peer, *entries: tuple[list[tuple[str, str | None]], list[OpData]]) -> None:
    made = [EntryData([EntityData(*part) for part in entity], operations) for entity, operations in entries]
    for validate_only in (True, False):
        peer.ask(ApiKey.ALTER_CLIENT_QUOTAS, AlterClientQuotasRequest(made, validate_only))


REMOVE = OpData("producer_byte_rate", 0.0, True)


@scenario(ApiKey.ALTER_CLIENT_QUOTAS)
def quotas_that_are_not_there_can_be_removed(peer: Peer) -> None:
    alter_quotas(peer)
    alter_quotas(peer, ([("user", "alice")], []))
    alter_quotas(peer, ([("user", "alice")], [REMOVE]), ([("user", "bob")], [REMOVE]))
    alter_quotas(peer, ([("user", "alice"), ("client-id", None)], [REMOVE]))
    alter_quotas(peer, ([("user", "alice")], [OpData("no_such_rate", 1.0, True)]))
    alter_quotas(peer, ([("user", None)], [REMOVE]))
    alter_quotas(peer, ([("ip", "127.0.0.1")], [OpData("connection_creation_rate", 0.0, True)]))
    alter_quotas(peer, ([("user", "alice"), ("user", "bob")], [REMOVE]))


@scenario(ApiKey.ALTER_CLIENT_QUOTAS)
def quotas_that_cannot_be(peer: Peer) -> None:
    alter_quotas(peer, ([], [REMOVE]))
    alter_quotas(peer, ([("planet", "mars")], [REMOVE]))
    alter_quotas(peer, ([("", "mars")], [REMOVE]))
    alter_quotas(peer, ([("user", "")], [REMOVE]))
    alter_quotas(peer, ([("user", "alice"), ("ip", "127.0.0.1")], [REMOVE]))
    alter_quotas(peer, ([("user", "alice")], [REMOVE, REMOVE]))
    alter_quotas(peer, ([("user", "alice")], [REMOVE]), ([("user", "alice")], [REMOVE]))
    alter_quotas(peer, ([("user", "alice")], [OpData("no_such_rate", 1.0)]))
    alter_quotas(peer, ([("user", "alice")], [OpData("producer_byte_rate", -1.0)]))
    alter_quotas(peer, ([("user", "alice")], [OpData("producer_byte_rate", 0.5)]), ([("user", "bob")], [REMOVE]))


# --- a replication factor that one broker cannot reach


@scenario(ApiKey.CREATE_TOPICS, versions=(4, 7), pair="hurried")
def topics_whose_default_replication_factor_cannot_be_reached(peer: Peer) -> None:
    for number, factor in enumerate((-1, 1, 3)):
        topic = CreatableTopic(peer.topic(f"-{number}"), 1, factor)
        peer.ask(ApiKey.CREATE_TOPICS, CreateTopicsRequest([topic], TIMEOUT_MS))
    assigned = CreatableTopic(peer.topic("-assigned"), -1, -1, [CreatableReplicaAssignment(0, [1])])
    peer.ask(ApiKey.CREATE_TOPICS, CreateTopicsRequest([assigned], TIMEOUT_MS))


@scenario(ApiKey.METADATA, versions=(1, 12, 13), pair="hurried")
def topics_that_cannot_be_made_on_demand_stay_unknown(peer: Peer) -> None:
    for name in (peer.topic(), peer.topic(), "bad name", peer.create("-there")):
        peer.ask(ApiKey.METADATA, MetadataRequest([MetadataRequestTopic(name=name)]))


# --- SCRAM credentials


@scenario(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
def nobody_has_SCRAM_credentials(peer: Peer) -> None:
    for names in (None, [], ["nobody"], ["nobody", "noone"], ["nobody", "nobody"], [""]):
        users = None if names is None else [UserName(name) for name in names]
        peer.ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, DescribeUserScramCredentialsRequest(users))


# --- features


@scenario(ApiKey.UPDATE_FEATURES)
def features_that_are_not_there_cannot_be_updated(peer: Peer) -> None:
    for updates in (
        [],
        [("no.such.version", 1)],
        [("no.such.version", 0)],
        [("no.such.version", -1)],
        [("no.such.version", 1), ("no.such.version", 2)],
        [("no.such.version", 1), ("another.version", 1)],
        [("", 1)],
    ):
        for validate_only in (False, True):
            keys = [FeatureUpdateKey(name, level) for name, level in updates]
            peer.ask(ApiKey.UPDATE_FEATURES, UpdateFeaturesRequest(TIMEOUT_MS, keys, validate_only))


@scenario(ApiKey.UPDATE_FEATURES, versions=(1, 2))
def kinds_of_updates_of_features(peer: Peer) -> None:
    for kind in (0, 1, 2, 3, 9):
        keys = [FeatureUpdateKey("no.such.version", 1, upgrade_type=kind)]
        peer.ask(ApiKey.UPDATE_FEATURES, UpdateFeaturesRequest(TIMEOUT_MS, keys, True))
