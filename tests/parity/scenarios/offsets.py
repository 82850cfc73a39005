"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords."""

from __future__ import annotations

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kohort.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kohort.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.parity.batches import START_MS, batch
from tests.parity.peer import Peer
from tests.parity.scenario import scenario

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
TIMEOUT_MS = 10_000


def list_offsets(
    peer: Peer, topic: str, *timestamps: int, partition: int = 0, isolation_level: int = 0, replica_id: int = -1
) -> None:
    for timestamp in timestamps:
        asked = ListOffsetsTopic(topic, [ListOffsetsPartition(partition, -1, timestamp)])
        peer.ask(ApiKey.LIST_OFFSETS, ListOffsetsRequest(replica_id, isolation_level, [asked], TIMEOUT_MS))


@scenario(ApiKey.LIST_OFFSETS)
def the_ends_of_an_empty_partition(peer: Peer) -> None:
    list_offsets(peer, peer.create(), LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, 0, START_MS)


@scenario(ApiKey.LIST_OFFSETS)
def the_ends_of_a_partition(peer: Peer) -> None:
    topic = peer.create()
    peer.append(topic, batch(3), batch(2, start_ms=START_MS + 10_000))
    list_offsets(peer, topic, LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED)


@scenario(ApiKey.LIST_OFFSETS)
def special_timestamps_that_do_not_exist_yet(peer: Peer) -> None:
    list_offsets(peer, peer.create(), EARLIEST_PENDING_UPLOAD, -7, -100)


@scenario(ApiKey.LIST_OFFSETS)
def offsets_for_times(peer: Peer) -> None:
    topic = peer.create()
    peer.append(
        topic, batch(3), batch(3, start_ms=START_MS + 10_000, compression=1), batch(1, start_ms=START_MS + 5_000)
    )
    times = (0, 1, 999, 1000, 1001, 2000, 2001, 9_999, 10_000, 10_500, 11_000, 12_000, 12_001, 99_999)
    list_offsets(peer, topic, *(START_MS + time for time in times))
    list_offsets(peer, topic, 0, 9223372036854775807)


@scenario(ApiKey.LIST_OFFSETS)
def the_newest_time_is_not_always_the_last_record(peer: Peer) -> None:
    topic = peer.create()
    peer.append(topic, batch(3, start_ms=START_MS + 50_000, step_ms=-1000), batch(2, compression=1), batch(1))
    list_offsets(peer, topic, MAX_TIMESTAMP, START_MS + 49_000, START_MS + 50_000)


@scenario(ApiKey.LIST_OFFSETS)
def the_newest_time_in_a_compressed_batch(peer: Peer) -> None:
    topic = peer.create()
    peer.append(topic, batch(1), batch(5, start_ms=START_MS + 50_000, step_ms=-1000, compression=1))
    list_offsets(peer, topic, MAX_TIMESTAMP)


@scenario(ApiKey.LIST_OFFSETS)
def several_records_of_the_same_newest_time(peer: Peer) -> None:
    topic = peer.create()
    peer.append(topic, batch(3, step_ms=0), batch(3, step_ms=0))
    list_offsets(peer, topic, MAX_TIMESTAMP, START_MS)


@scenario(ApiKey.LIST_OFFSETS)
def offsets_after_records_were_deleted(peer: Peer) -> None:
    topic = peer.create()
    peer.append(topic, batch(3), batch(3, start_ms=START_MS + 10_000))
    peer.delete_records(topic, 4)
    list_offsets(peer, topic, EARLIEST, LATEST, MAX_TIMESTAMP, EARLIEST_LOCAL, 0, START_MS, START_MS + 10_000)
    peer.delete_records(topic, 6)
    list_offsets(peer, topic, EARLIEST, LATEST, 0, START_MS + 10_000)


@scenario(ApiKey.LIST_OFFSETS)
def the_newest_time_after_all_records_were_deleted(peer: Peer) -> None:
    topic = peer.create()
    peer.append(topic, batch(3))
    peer.delete_records(topic, 3)
    list_offsets(peer, topic, MAX_TIMESTAMP)


@scenario(ApiKey.LIST_OFFSETS)
def offsets_of_unknown_topics_and_partitions(peer: Peer) -> None:
    topic = peer.create()
    list_offsets(peer, topic, LATEST, partition=1)
    list_offsets(peer, topic, LATEST, partition=-1)
    list_offsets(peer, peer.topic("-unknown"), LATEST, START_MS)
    list_offsets(peer, "bad name", LATEST)
    list_offsets(peer, "", LATEST)


@scenario(ApiKey.LIST_OFFSETS)
def offsets_of_several_topics_and_partitions(peer: Peer) -> None:
    one, two = peer.create("-b", partitions=2), peer.create("-a")
    peer.append(one, batch(3), partition=1)
    topics = [
        ListOffsetsTopic(one, [ListOffsetsPartition(1, -1, LATEST), ListOffsetsPartition(0, -1, LATEST)]),
        ListOffsetsTopic(peer.topic("-unknown"), [ListOffsetsPartition(0, -1, LATEST)]),
        ListOffsetsTopic(two, [ListOffsetsPartition(0, -1, EARLIEST)]),
    ]
    peer.ask(ApiKey.LIST_OFFSETS, ListOffsetsRequest(-1, 0, topics, TIMEOUT_MS))
    peer.ask(ApiKey.LIST_OFFSETS, ListOffsetsRequest(-1, 0, [], TIMEOUT_MS))


@scenario(ApiKey.LIST_OFFSETS)
def the_same_partition_listed_twice_is_refused(peer: Peer) -> None:
    topic = peer.create()
    asked = [ListOffsetsPartition(0, -1, LATEST), ListOffsetsPartition(0, -1, EARLIEST)]
    peer.ask(ApiKey.LIST_OFFSETS, ListOffsetsRequest(-1, 0, [ListOffsetsTopic(topic, asked)], TIMEOUT_MS))


@scenario(ApiKey.LIST_OFFSETS, versions=range(4, 12))
def leader_epochs_are_checked_when_offsets_are_listed(peer: Peer) -> None:
    topic = peer.create()
    peer.append(topic, batch(3))
    for epoch in (0, 1, 99, -2):
        for timestamp in (LATEST, START_MS):
            asked = ListOffsetsTopic(topic, [ListOffsetsPartition(0, epoch, timestamp)])
            peer.ask(ApiKey.LIST_OFFSETS, ListOffsetsRequest(-1, 0, [asked], TIMEOUT_MS))


@scenario(ApiKey.LIST_OFFSETS, versions=range(2, 12))
def isolation_levels_of_listed_offsets(peer: Peer) -> None:
    topic = peer.create()
    peer.append(topic, batch(3))
    for isolation_level in (0, 1):
        list_offsets(peer, topic, LATEST, EARLIEST, START_MS, isolation_level=isolation_level)


@scenario(ApiKey.LIST_OFFSETS, versions=(2, 11))
def isolation_levels_of_listed_offsets_that_Kafka_stumbles_over(peer: Peer) -> None:
    topic = peer.create()
    for isolation_level in (2, -1):
        list_offsets(peer, topic, LATEST, isolation_level=isolation_level)


@scenario(ApiKey.LIST_OFFSETS)
def offsets_asked_for_by_debuggers_and_replicas(peer: Peer) -> None:
    topic = peer.create()
    peer.append(topic, batch(3))
    for replica_id in (-2, -3, 1, 99):
        list_offsets(peer, topic, LATEST, replica_id=replica_id)


@scenario(ApiKey.LIST_OFFSETS)
def offsets_with_the_brokers_own_time(peer: Peer) -> None:
    topic = peer.create(message_timestamp_type="LogAppendTime")
    peer.append(topic, batch(3), batch(2))
    list_offsets(peer, topic, START_MS, EARLIEST, LATEST, START_MS + 48 * 3_600_000)


# --- OffsetForLeaderEpoch


def epoch_end(
    peer: Peer, topic: str, *epochs: int, current: int = -1, partition: int = 0, replica_id: int = -1
) -> None:
    for epoch in epochs:
        asked = OffsetForLeaderTopic(topic, [OffsetForLeaderPartition(partition, current, epoch)])
        peer.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, OffsetForLeaderEpochRequest(replica_id, [asked]))


@scenario(ApiKey.OFFSET_FOR_LEADER_EPOCH)
def the_end_of_an_epoch(peer: Peer) -> None:
    topic = peer.create()
    epoch_end(peer, topic, 0, 1, -1, -2)
    peer.append(topic, batch(3))
    epoch_end(peer, topic, 0, 1, 99, -1, -2)


@scenario(ApiKey.OFFSET_FOR_LEADER_EPOCH)
def the_current_epoch_is_checked(peer: Peer) -> None:
    topic = peer.create()
    peer.append(topic, batch(3))
    for current in (0, 1, 99, -2):
        epoch_end(peer, topic, 0, current=current)


@scenario(ApiKey.OFFSET_FOR_LEADER_EPOCH)
def epochs_of_unknown_topics_and_partitions(peer: Peer) -> None:
    topic = peer.create()
    epoch_end(peer, topic, 0, partition=5)
    epoch_end(peer, topic, 0, partition=-1)
    epoch_end(peer, peer.topic("-unknown"), 0)
    epoch_end(peer, "bad name", 0)
    peer.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, OffsetForLeaderEpochRequest(-1, []))


@scenario(ApiKey.OFFSET_FOR_LEADER_EPOCH)
def epochs_of_several_partitions(peer: Peer) -> None:
    topic, other = peer.create(partitions=2), peer.create("-a")
    peer.append(topic, batch(2), partition=1)
    topics = [
        OffsetForLeaderTopic(topic, [OffsetForLeaderPartition(1, -1, 0), OffsetForLeaderPartition(0, -1, 0)]),
        OffsetForLeaderTopic(other, [OffsetForLeaderPartition(0, -1, 0)]),
    ]
    peer.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, OffsetForLeaderEpochRequest(-1, topics))


@scenario(ApiKey.OFFSET_FOR_LEADER_EPOCH)
def an_epoch_after_all_its_records_were_deleted(peer: Peer) -> None:
    topic = peer.create()
    peer.append(topic, batch(3))
    peer.delete_records(topic, 3)
    epoch_end(peer, topic, 0, 1)


# --- DeleteRecords


def delete_records(peer: Peer, topic: str, *offsets: int, partition: int = 0) -> None:
    for offset in offsets:
        asked = DeleteRecordsTopic(topic, [DeleteRecordsPartition(partition, offset)])
        peer.ask(ApiKey.DELETE_RECORDS, DeleteRecordsRequest([asked], TIMEOUT_MS))


@scenario(ApiKey.DELETE_RECORDS)
def records_are_deleted_up_to_an_offset(peer: Peer) -> None:
    topic = peer.create()
    peer.append(topic, batch(3), batch(3))
    delete_records(peer, topic, 0, 2, 2, 1, 3, 5, 6)


@scenario(ApiKey.DELETE_RECORDS)
def all_records_are_deleted(peer: Peer) -> None:
    topic = peer.create()
    delete_records(peer, topic, -1, 0)
    peer.append(topic, batch(3))
    delete_records(peer, topic, -1, -1)
    peer.append(topic, batch(1))
    peer.look_at_log(topic, offset=3)


@scenario(ApiKey.DELETE_RECORDS)
def offsets_that_records_cannot_be_deleted_up_to(peer: Peer) -> None:
    topic = peer.create()
    peer.append(topic, batch(3))
    delete_records(peer, topic, 4, 99, -2, 9223372036854775807)


@scenario(ApiKey.DELETE_RECORDS)
def records_of_unknown_topics_and_partitions(peer: Peer) -> None:
    topic = peer.create()
    delete_records(peer, topic, 0, partition=1)
    delete_records(peer, topic, 0, partition=-1)
    delete_records(peer, peer.topic("-unknown"), 0)
    delete_records(peer, "bad name", 0)
    peer.ask(ApiKey.DELETE_RECORDS, DeleteRecordsRequest([], TIMEOUT_MS))


@scenario(ApiKey.DELETE_RECORDS)
def records_of_several_partitions_are_deleted(peer: Peer) -> None:
    one, two = peer.create("-b", partitions=2), peer.create("-a")
    for topic, partition in ((one, 0), (one, 1), (two, 0)):
        peer.append(topic, batch(3), partition=partition)
    topics = [
        DeleteRecordsTopic(one, [DeleteRecordsPartition(1, 2), DeleteRecordsPartition(0, 99)]),
        DeleteRecordsTopic(two, [DeleteRecordsPartition(0, -1)]),
    ]
    peer.ask(ApiKey.DELETE_RECORDS, DeleteRecordsRequest(topics, TIMEOUT_MS))


@scenario(ApiKey.DELETE_RECORDS)
def a_partition_is_named_twice(peer: Peer) -> None:
    topic = peer.create(partitions=2)
    peer.append(topic, batch(3))
    asked = [DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, 1), DeleteRecordsPartition(0, 2)])]
    peer.ask(ApiKey.DELETE_RECORDS, DeleteRecordsRequest(asked, TIMEOUT_MS))
    asked = [DeleteRecordsTopic(topic, [DeleteRecordsPartition(each, 0)]) for each in (1, 0)]
    peer.ask(ApiKey.DELETE_RECORDS, DeleteRecordsRequest(asked, TIMEOUT_MS))
    peer.look_at_log(topic, offset=2)


@scenario(ApiKey.DELETE_RECORDS)
def a_compacted_topic_keeps_its_records(peer: Peer) -> None:
    topic = peer.create(cleanup_policy="compact")
    peer.append(topic, batch(3))
    delete_records(peer, topic, 1)
    both = peer.create("-both", cleanup_policy="compact,delete")
    peer.append(both, batch(3))
    delete_records(peer, both, 1)
