"""Produce: what is taken, what is refused and with which words, and what idempotent producers see."""

from __future__ import annotations

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.parity.batches import START_MS, batch, changed
from tests.parity.peer import Peer
from tests.parity.scenario import scenario

TIMEOUT_MS = 10_000
TOPIC_IDS_FROM = 13
NO_SUCH_ID = bytes(range(1, 17))
HOUR_MS = 3_600_000
NEWEST = (3, 9, 12, 13)  # borderline batches do not depend on the version: one of each shape is enough


def produce(
    peer: Peer, topic: str, *partitions: tuple[int, bytes], acks: int = -1, transactional_id: str | None = None
) -> None:
    data = [PartitionProduceData(index, records) for index, records in partitions]
    topic_data = TopicProduceData(topic, partition_data=data)
    if peer.version >= TOPIC_IDS_FROM:
        topic_data.topic_id = peer.topic_id(topic)
    peer.ask(ApiKey.PRODUCE, ProduceRequest(transactional_id, acks, TIMEOUT_MS, [topic_data]))


@scenario(ApiKey.PRODUCE)
def records_are_appended_one_after_the_other(peer: Peer) -> None:
    topic = peer.create(partitions=2)
    produce(peer, topic, (0, batch(3)))
    produce(peer, topic, (0, batch(2)), acks=1)
    produce(peer, topic, (1, batch(1)), (0, batch(1)))
    peer.look_at_log(topic)


@scenario(ApiKey.PRODUCE)
def two_topics_in_one_request(peer: Peer) -> None:
    topics = [peer.create("-b"), peer.create("-a")]
    data = [TopicProduceData(topic, peer.topic_id(topic), [PartitionProduceData(0, batch(2))]) for topic in topics]
    peer.ask(ApiKey.PRODUCE, ProduceRequest(None, -1, TIMEOUT_MS, data))


@scenario(ApiKey.PRODUCE)
def without_acks_there_is_no_answer(peer: Peer) -> None:
    topic = peer.create()
    data = TopicProduceData(topic, peer.topic_id(topic), [PartitionProduceData(0, batch(3))])
    peer.send_only(ApiKey.PRODUCE, ProduceRequest(None, 0, TIMEOUT_MS, [data]))
    peer.wait_for_end(topic, 3)
    produce(peer, topic, (0, batch(1)))


@scenario(ApiKey.PRODUCE, versions=(3, 12))
def without_acks_an_error_closes_the_connection(peer: Peer) -> None:
    data = TopicProduceData(peer.topic("-unknown"), partition_data=[PartitionProduceData(0, batch(3))])
    peer.ask(ApiKey.PRODUCE, ProduceRequest(None, 0, TIMEOUT_MS, [data]))


@scenario(ApiKey.PRODUCE)
def acks_that_mean_nothing_are_refused(peer: Peer) -> None:
    topic = peer.create()
    for acks in (2, -2, 32767):
        produce(peer, topic, (0, batch(1)), acks=acks)


@scenario(ApiKey.PRODUCE, versions=range(3, 13))
def an_unknown_topic_takes_no_records(peer: Peer) -> None:
    for name in (peer.topic("-unknown"), "bad name", ""):
        produce(peer, name, (0, batch(1)))


@scenario(ApiKey.PRODUCE, versions=(13,))
def an_unknown_topic_id_takes_no_records(peer: Peer) -> None:
    for topic_id in (NO_SUCH_ID, bytes(16)):
        data = [TopicProduceData("", topic_id, [PartitionProduceData(0, batch(1))])]
        peer.ask(ApiKey.PRODUCE, ProduceRequest(None, -1, TIMEOUT_MS, data))


@scenario(ApiKey.PRODUCE)
def an_unknown_partition_takes_no_records(peer: Peer) -> None:
    topic = peer.create()
    produce(peer, topic, (1, batch(1)), (0, batch(1)))
    produce(peer, topic, (-1, batch(1)))


@scenario(ApiKey.PRODUCE)
def the_same_partition_twice_in_one_request(peer: Peer) -> None:
    topic = peer.create()
    produce(peer, topic, (0, batch(1)), (0, batch(2)))
    peer.look_at_log(topic)
    data = TopicProduceData(topic, peer.topic_id(topic), [PartitionProduceData(0, batch(3))])
    peer.ask(ApiKey.PRODUCE, ProduceRequest(None, -1, TIMEOUT_MS, [data, data]))
    peer.look_at_log(topic)


@scenario(ApiKey.PRODUCE)
def nothing_to_append(peer: Peer) -> None:
    topic = peer.create()
    produce(peer, topic)
    peer.ask(ApiKey.PRODUCE, ProduceRequest(None, -1, TIMEOUT_MS, []))


@scenario(ApiKey.PRODUCE)
def empty_records(peer: Peer) -> None:
    """Null records are left out: Kafka 4.3.1 stumbles over them and never answers."""
    produce(peer, peer.create(), (0, b""))


@scenario(ApiKey.PRODUCE)
def two_batches_in_one_partition_are_refused(peer: Peer) -> None:
    topic = peer.create()
    produce(peer, topic, (0, batch(1) + batch(2)))


@scenario(ApiKey.PRODUCE, versions=NEWEST)
def every_compression_is_taken_as_it_is(peer: Peer) -> None:
    topic = peer.create()
    for compression in range(5):
        produce(peer, topic, (0, batch(20, compression=compression)))


@scenario(ApiKey.PRODUCE)
def zstd_is_refused_in_old_versions(peer: Peer) -> None:
    produce(peer, peer.create(), (0, batch(20, compression=4)))


@scenario(ApiKey.PRODUCE, versions=NEWEST)
def offsets_in_the_batch_do_not_matter_if_they_are_dense(peer: Peer) -> None:
    topic = peer.create()
    produce(peer, topic, (0, batch(3, base_offset=1000)))
    produce(peer, topic, (0, changed(batch(3), base_offset=-5)))
    produce(peer, topic, (0, changed(batch(3), partition_leader_epoch=77)))
    peer.look_at_log(topic)


@scenario(ApiKey.PRODUCE, versions=NEWEST)
def batches_with_impossible_headers(peer: Peer) -> None:
    topic = peer.create()
    good = batch(3)
    for bad in (
        changed(good, crc=1),
        changed(good, magic=3),
        changed(good, magic=1),
        changed(good, magic=0),
        changed(good, magic=-1),
        changed(good, record_count=2),
        changed(good, record_count=4),
        changed(good, record_count=0),
        changed(good, record_count=-1),
        changed(good, last_offset_delta=5),
        changed(good, last_offset_delta=1),
        changed(good, last_offset_delta=-1),
        changed(good, attributes=0x20),
        changed(good, attributes=0x10),
        changed(good, attributes=0x40),
        changed(good, attributes=0x05),
        changed(good, attributes=0x07),
        changed(good, attributes=0x08),
        changed(good, attributes=0x80),
        changed(good, max_timestamp=0),
        changed(good, max_timestamp=START_MS + 99 * HOUR_MS),
        changed(good, base_timestamp=-1),
    ):
        produce(peer, topic, (0, bad))


@scenario(ApiKey.PRODUCE, versions=NEWEST)
def batches_with_impossible_lengths(peer: Peer) -> None:
    topic = peer.create()
    good = batch(3)
    for bad in (good[:-1], good[:61], good[:60], good[:17], good[:12], good[:5], good + b"\0", good + good[:30]):
        produce(peer, topic, (0, bad))
    for length in (0, -1, 48, 49, 1_000_000):
        produce(peer, topic, (0, changed(good, keep_crc=True, batch_length=length)))


@scenario(ApiKey.PRODUCE, versions=NEWEST)
def a_length_that_Kafka_stumbles_over(peer: Peer) -> None:
    """Its sum with the bytes before it does not fit into 32 bits."""
    produce(peer, peer.create(), (0, changed(batch(3), keep_crc=True, batch_length=2147483647)))


@scenario(ApiKey.PRODUCE, versions=NEWEST)
def records_that_do_not_parse(peer: Peer) -> None:
    topic = peer.create()
    good = bytearray(batch(3))
    for position, byte in ((61, 0), (61, 0x7F), (62, 1), (len(good) - 1, 0x7F), (66, 0xFF)):
        bad = bytearray(good)
        bad[position] = byte
        produce(peer, topic, (0, changed(bytes(bad))))


@scenario(ApiKey.PRODUCE, versions=NEWEST)
def records_whose_offsets_are_not_in_order(peer: Peer) -> None:
    bad = bytearray(batch(3))
    bad[64] = 0x7F  # the first record's offset is -64 from the base
    produce(peer, peer.create(), (0, changed(bytes(bad))))


@scenario(ApiKey.PRODUCE, versions=NEWEST)
def compressed_records_that_do_not_inflate(peer: Peer) -> None:
    topic = peer.create()
    for compression in range(1, 5):
        good = batch(20, compression=compression)
        produce(peer, topic, (0, changed(good[:61] + b"garbage" + good[68:])))
        produce(peer, topic, (0, changed(batch(3), attributes=compression)))


@scenario(ApiKey.PRODUCE, versions=NEWEST)
def batches_larger_than_the_topic_allows(peer: Peer) -> None:
    topic = peer.create(max_message_bytes="500")
    for size in (429, 430, 431, 1000):
        produce(peer, topic, (0, batch(1, size_bytes=size, key=None)))
    produce(peer, topic, (0, batch(10, size_bytes=1000, compression=1)))


@scenario(ApiKey.PRODUCE, versions=NEWEST)
def times_out_of_the_topics_range(peer: Peer) -> None:
    topic = peer.create(message_timestamp_before_max_ms=str(2 * HOUR_MS), message_timestamp_after_max_ms=str(HOUR_MS))
    for start_ms in (START_MS, START_MS - 5 * HOUR_MS, START_MS + 24 * HOUR_MS, 0, -1, -2):
        produce(peer, topic, (0, batch(2, start_ms=start_ms)))


@scenario(ApiKey.PRODUCE, versions=NEWEST)
def some_records_out_of_the_topics_range(peer: Peer) -> None:
    topic = peer.create(message_timestamp_before_max_ms=str(2 * HOUR_MS))
    produce(peer, topic, (0, batch(3, start_ms=START_MS - 5 * HOUR_MS, step_ms=5 * HOUR_MS)))


@scenario(ApiKey.PRODUCE, versions=NEWEST)
def the_brokers_own_time_is_put_if_the_topic_says_so(peer: Peer) -> None:
    topic = peer.create(message_timestamp_type="LogAppendTime")
    produce(peer, topic, (0, batch(3)))
    produce(peer, topic, (0, batch(20, compression=1)))
    peer.look_at_log(topic)


@scenario(ApiKey.PRODUCE, versions=NEWEST)
def a_compacted_topic_wants_keys(peer: Peer) -> None:
    topic = peer.create(cleanup_policy="compact")
    produce(peer, topic, (0, batch(2)))
    produce(peer, topic, (0, batch(2, key=None)))
    produce(peer, topic, (0, batch(2, key=None, compression=1)))
    peer.look_at_log(topic)


@scenario(ApiKey.PRODUCE, versions=NEWEST)
def a_compression_of_the_topic_is_not_honoured_by_us(peer: Peer) -> None:
    topic = peer.create(compression_type="gzip")
    produce(peer, topic, (0, batch(20, compression=1)))
    produce(peer, topic, (0, batch(20)))
    produce(peer, topic, (0, batch(20, compression=3)))
    plain = peer.create("-plain", compression_type="uncompressed")
    produce(peer, plain, (0, batch(20, compression=2)))
    peer.look_at_log(plain)


# --- idempotent producers


def sequences(peer: Peer, topic: str, *batches: tuple[int, int, int, int]) -> None:
    """(producer id, epoch, first sequence, records) each."""
    for producer_id, epoch, sequence, count in batches:
        produce(peer, topic, (0, batch(count, producer=(producer_id, epoch, sequence))))


@scenario(ApiKey.PRODUCE)
def sequences_in_order_are_taken_and_repeats_recognised(peer: Peer) -> None:
    topic = peer.create()
    sequences(peer, topic, (7, 0, 0, 2), (7, 0, 2, 3), (7, 0, 0, 2), (7, 0, 2, 3), (7, 0, 5, 1))
    peer.look_at_log(topic)


@scenario(ApiKey.PRODUCE, versions=NEWEST)
def gaps_and_old_sequences_are_refused(peer: Peer) -> None:
    topic = peer.create()
    sequences(peer, topic, (7, 0, 0, 2), (7, 0, 3, 1), (7, 0, 1, 1), (7, 0, 0, 1), (7, 0, 0, 3), (7, 0, 2, 1))


@scenario(ApiKey.PRODUCE, versions=NEWEST)
def the_last_five_batches_are_remembered(peer: Peer) -> None:
    topic = peer.create()
    sequences(peer, topic, *((7, 0, 2 * index, 2) for index in range(7)))
    sequences(peer, topic, *((7, 0, 2 * index, 2) for index in range(7)))


@scenario(ApiKey.PRODUCE, versions=NEWEST)
def an_unknown_producer_may_start_anywhere(peer: Peer) -> None:
    topic = peer.create()
    sequences(peer, topic, (8, 0, 5, 1), (8, 0, 6, 1), (9, 3, 0, 1), (9, 3, 9, 1))


@scenario(ApiKey.PRODUCE, versions=NEWEST)
def a_new_epoch_starts_at_sequence_zero(peer: Peer) -> None:
    topic = peer.create()
    sequences(peer, topic, (7, 0, 0, 2), (7, 1, 2, 1), (7, 1, 0, 1), (7, 0, 2, 1), (7, 1, 1, 1), (7, 3, 0, 1))


@scenario(ApiKey.PRODUCE, versions=NEWEST)
def sequences_wrap_around(peer: Peer) -> None:
    topic = peer.create()
    sequences(peer, topic, (7, 0, 2147483646, 2), (7, 0, 0, 1), (7, 0, 1, 1))
    other = peer.create("-middle")
    sequences(peer, other, (7, 0, 2147483646, 3), (7, 0, 1, 1))


@scenario(ApiKey.PRODUCE, versions=NEWEST)
def borderline_producer_fields(peer: Peer) -> None:
    topic = peer.create()
    sequences(peer, topic, (7, 0, -1, 1), (7, -1, 0, 1), (-1, 0, 0, 1), (-2, 0, 0, 1), (7, 0, -2, 1), (0, 0, 0, 1))


@scenario(ApiKey.PRODUCE, versions=NEWEST)
def each_partition_counts_for_itself(peer: Peer) -> None:
    topic = peer.create(partitions=2)
    one, two = batch(1, producer=(7, 0, 0)), batch(1, producer=(7, 0, 0))
    produce(peer, topic, (0, one), (1, two))
    produce(peer, topic, (0, batch(1, producer=(7, 0, 1))), (1, batch(1, producer=(7, 0, 2))))
