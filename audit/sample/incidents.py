"""The incidents of the sample, group by group, with real clients on a real broker. The audit has to find them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

from kohort.audit.sample.member import Member
from kohort.audit.sample.sharer import ACCEPT, RELEASE, Sharer
from kohort.coordinator.partitioner import partition_of
from kohort.storage.layout import LOG

TOPICS = {"orders": 6, "parcels": 4, "clicks": 2, "pages": 3, "scans": 2}
STORM_ROUNDS = 8
SLOW_ROUNDS = 4  # in which a member loses its lock of the same record; with the fifth delivery it would be given up
BAD_SCAN = 3  # its offset
LOG_PARTITIONS = 50


class Sample:
    """A broker's address, and a producer for its topics."""

    def __init__(self, address: str) -> None:
        from kafka import KafkaProducer
        from kafka.admin import KafkaAdminClient, NewTopic

        self.address = address
        admin = KafkaAdminClient(bootstrap_servers=address)
        admin.create_topics([NewTopic(name, num_partitions=n, replication_factor=1) for name, n in TOPICS.items()])
        admin.close()
        self._producer = KafkaProducer(bootstrap_servers=address)

    def produce(self, topic: str, each: int) -> None:
        """Produce `each` records to each partition."""
        for partition in range(TOPICS[topic]):
            for number in range(each):
                self._producer.send(topic, b"%d" % number, partition=partition)
        self._producer.flush()

    def close(self) -> None:
        self._producer.close()

    @contextmanager
    def members(self) -> Iterator[Callable[..., Member]]:
        """A function that starts members. At the end, members that are still running leave the group."""
        started: list[Member] = []

        def start(group: str, topic: str, name: str, **settings: Any) -> Member:
            started.append(Member(self.address, group, topic, name, **settings))
            return started[-1]

        try:
            yield start
        finally:
            for member in started:
                member.leave()


def crash_and_rewinds(sample: Sample) -> None:
    """billing: a third member joins and one is killed. Two step back; one of them regains what it lost."""
    with sample.members() as start:
        anna, bert = (start("billing", "orders", name) for name in ("anna", "bert"))
        for member in (anna, bert):
            member.wait_for_partitions(3)
        sample.produce("orders", 100)
        for member in (anna, bert):
            member.wait_for_offsets(300)
        carl = start("billing", "orders", "carl")
        for member in (anna, bert, carl):
            member.wait_for_partitions(2)
        bert.crash()
        for member in (anna, carl):
            member.wait_for_partitions(3)
        anna.rewind(40)
        sample.produce("orders", 20)
        for member in (anna, carl):
            member.wait_for_offsets(360)
        anna.leave()
        carl.wait_for_partitions(6)
        carl.commit(2, 30)


def storm(sample: Sample) -> None:
    """shipping: one member comes and goes, over and over, and each time everybody has to stop."""
    with sample.members() as start:
        sample.produce("parcels", 50)
        dora = start("shipping", "parcels", "dora", assignor="roundrobin")
        dora.wait_for_partitions(4)
        for _ in range(STORM_ROUNDS):
            erik = start("shipping", "parcels", "erik", assignor="roundrobin")
            erik.wait_for_partitions(2)
            erik.leave()
            dora.wait_for_partitions(4)


def idle_members(sample: Sample) -> None:
    """search: four members for two partitions."""
    with sample.members() as start:
        members = [start("search", "clicks", name) for name in ("fay", "gus", "hal", "ida")]
        sample.produce("clicks", 50)
        for member in members:
            member.wait_until_assigned()


def commits_of_others(sample: Sample) -> None:
    """index: a member commits for a partition that is not its own."""
    with sample.members() as start:
        sample.produce("pages", 80)
        kim = start("index", "pages", "kim")
        kim.wait_for_offsets(240)
        jan = start("index", "pages", "jan")
        jan.wait("some of the partitions", lambda member: 0 < len(member.partitions) < TOPICS["pages"])
        kim.wait("the others", lambda member: len(member.partitions | jan.partitions) == TOPICS["pages"])
        kim.wait("only those", lambda member: not member.partitions & jan.partitions)
        jan.commit(min(kim.partitions), 7)


def restarts_of_a_static_member(sample: Sample) -> None:
    """press: a static member is killed and comes back, again and again; each time it has another member id."""
    with sample.members() as start:
        sample.produce("clicks", 20)
        for _ in range(STORM_ROUNDS):
            lea = start("press", "clicks", "lea", instance="lea-1", session_ms=20_000)
            lea.wait_until_assigned()  # perhaps no partitions: it gets what the killed member had
            lea.crash()


def bad_record_and_slow_member(sample: Sample) -> None:
    """ocr, a share group: one record that nobody can read, and a slow member that loses its locks."""
    nora, otto = (Sharer(sample.address, "ocr", "scans", name) for name in ("nora", "otto"))
    nora.begin_at_the_start()
    for member in (nora, otto):
        member.join(TOPICS["scans"])
    for rounds in (SLOW_ROUNDS, SLOW_ROUNDS // 2):
        sample.produce("scans", 5)
        for _ in range(rounds):
            otto.fetch_until_some(1, 1)  # nothing else is there: it waits until its last lock has expired
            sample.produce("scans", 5)
            for partition in range(TOPICS["scans"]):
                _read(nora, partition, nora.fetch(partition, 10))
        _read(nora, 1, nora.fetch_until_some(1, 10))  # what the slow member had
    for member in (nora, otto):
        member.close()


def _read(nora: Sharer, partition: int, scans: Sequence[int]) -> None:
    for offset in scans:
        is_bad = (partition, offset) == (0, BAD_SCAN)
        nora.tell(partition, [offset], RELEASE if is_bad else ACCEPT)


INCIDENTS = (
    crash_and_rewinds,
    storm,
    idle_members,
    commits_of_others,
    restarts_of_a_static_member,
    bad_record_and_slow_member,
)
ATTIC = "attic"


def quiet_commits(sample: Sample) -> None:
    """attic: commits without membership, a batch each; their log is what the disk fails on later."""
    from kafka import KafkaConsumer, TopicPartition
    from kafka.structs import OffsetAndMetadata

    consumer = KafkaConsumer(bootstrap_servers=sample.address, group_id=ATTIC, enable_auto_commit=False)
    consumer.assign([TopicPartition("pages", 0)])
    for offset in range(10, 60, 10):
        consumer.commit({TopicPartition("pages", 0): OffsetAndMetadata(offset, "", -1)})
    consumer.close()


def run_all(sample: Sample) -> None:
    """Run all incidents at the same time; they concern different groups."""
    failed: list[BaseException] = []

    def guarded(incident: Callable[[Sample], None]) -> None:
        try:
            incident(sample)
        except Exception as problem:  # raised again below, after the threads have ended
            failed.append(problem)

    threads = [Thread(target=guarded, args=[incident]) for incident in (*INCIDENTS, quiet_commits)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def damage(data: Path) -> None:
    """Damage the log like a failing disk: change a byte in the third batch of `attic`, and cut off its last batch."""
    file = next((data / f"__consumer_offsets-{partition_of(ATTIC, LOG_PARTITIONS)}").glob(f"*{LOG}"))
    content = bytearray(file.read_bytes())
    batch = len(content) // 5
    content[2 * batch + batch // 2] ^= 0xFF
    file.write_bytes(content[:-7])
