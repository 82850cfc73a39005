"""Transactions beside everything else: several groups, static members, new partitions, offsets that expire, markers of
strangers in a group's partition, and requests that come at once behind the end.
"""

from __future__ import annotations

from typing import Any

from kohort.coordinator.partitioner import partition_of
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from tests.parity.pairs import OLD_TRANSACTIONS
from tests.parity.transaction_story import TV0, TransactionalProducer, TransactionStory, transaction_story
from tests.transaction_requests import Partition

COMMIT = ApiKey.TXN_OFFSET_COMMIT
OFFSETS_TOPIC = "__consumer_offsets"
PARTITIONS = 50
ADDS_FROM = 5


@transaction_story(COMMIT, None)
def several_groups_in_one_transaction(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    groups = [f"{s.group}-{number}" for number in range(3)]
    p = s.begun(versions=TV0)
    for commit in (True, False):
        for number, group in enumerate(groups):
            p.add_offsets(group)
            p.commit_offsets({at: 10 + number}, group)
        s.describe_transactions()
        for group in groups:
            s.fetch({at[0]: [0]}, group, stable=True)
        p.end(commit)
        for group in groups:
            s.fetch({at[0]: [0]}, group, stable=True)


@transaction_story(ApiKey.END_TXN, None)
def transactional_ids_of_one_partition_of_the_log(s: TransactionStory) -> None:
    """What one of them does is nothing to the others."""
    topic = s.topic("", 3)
    wanted = partition_of(s.group, PARTITIONS)
    suffixes = (f"-{number}" for number in range(10_000))
    neighbours = [each for each in suffixes if partition_of(s.group + each, PARTITIONS) == wanted][:3]
    s.watch_log()
    producers = [s.begun(suffix, versions=s.of_its_time()) for suffix in ("", *neighbours)]
    for number, p in enumerate(producers):
        p.begin((topic, number % 3))
    producers[1].commit_it()
    producers[2].abort()
    s.producer(neighbours[2]).init()
    s.until_complete(s.group + neighbours[2])
    s.describe_transactions(*(s.group + suffix for suffix in ("", *neighbours)))
    producers[0].commit_it()
    s.list_transactions()
    s.note_log()


@transaction_story(ApiKey.PRODUCE, (3, 9, 11, 12, 13))
def partitions_are_made_in_the_middle_of_a_transaction(s: TransactionStory) -> None:
    topic = s.topic("", 1)
    p = s.begun(versions=TV0)
    p.add((topic, 0))
    p.produce((topic, 0))
    p.add((topic, 1))
    s.grow(topic, 3)
    p.add((topic, 1))
    p.produce((topic, 1))
    p.produce((topic, 2))
    s.describe_transactions()
    p.commit_it()
    s.read_all((topic, 0), (topic, 1), (topic, 2))


@transaction_story(ApiKey.PRODUCE, (12, 13))
def records_at_once_behind_the_end(s: TransactionStory) -> None:
    """The broker lets them wait for the markers, or the client comes again."""
    at = (s.topic("", 1), 0)
    p = s.begun()
    p.produce(at)
    for _ in range(3):
        p.end_at_once()
        _until_taken(p, at)
    p.abort()
    s.read_all(at)
    s.describe_transactions()


def _until_taken(p: TransactionalProducer, at: Partition) -> None:
    asked = p.story.peer.exchanges
    while True:
        answer: Any = p.produce(at)
        if answer.responses[0].partition_responses[0].error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
            return
        del asked[-1]


@transaction_story(ApiKey.INIT_PRODUCER_ID, None)
def a_newcomer_at_once_behind_the_end(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p, newcomer = s.begun(), s.producer()
    p.begin(at)
    p.end_at_once()
    s.until_complete(s.group)
    newcomer.init()
    p.produce(at)
    p.commit_it()
    newcomer.begin(at)
    newcomer.commit_it()
    s.read_all(at)


@transaction_story(COMMIT, range(3, 6))
def static_members_of_a_consumer_group(s: TransactionStory) -> None:
    """KIP-848: while a static member is away, its offsets can be committed by nobody but simple clients."""
    topic = s.topic("", 1)
    at = (topic, 0)
    a = s.consumer("a", instance="one")
    a.start(topic)
    s.reconcile(a)
    p = _with_group(s)
    p.commit_offsets({at: 1}, generation=a.epoch, member_id=a.id, instance="one")
    p.commit_offsets({at: 2}, generation=a.epoch, member_id=a.id, instance="two")
    p.commit_offsets({at: 3}, generation=a.epoch, member_id=a.id)
    p.commit_offsets({at: 4}, generation=a.epoch - 1, member_id=a.id, instance="one")
    epoch = a.epoch
    a.leave_group(-2)
    p.commit_offsets({at: 5}, generation=epoch, member_id=a.id, instance="one")
    p.commit_offsets({at: 6}, generation=-2, member_id=a.id, instance="one")
    back = s.consumer("b", instance="one")
    back.start(topic)
    p.commit_offsets({at: 7}, generation=epoch, member_id=a.id, instance="one")
    p.commit_offsets({at: 8}, generation=back.epoch, member_id=back.id, instance="one")
    p.commit_it()
    s.fetch({topic: [0]}, stable=True)


@transaction_story(COMMIT, range(3, 6))
def a_member_that_is_behind_the_groups_epoch(s: TransactionStory) -> None:
    """KIP-848: the epoch of the member counts, not that of its group."""
    topic = s.topic("", 2)
    at = (topic, 0)
    (a,) = s.consumers(topic, "a")
    old = a.epoch
    b = s.consumer("b")
    b.start(topic)
    p = _with_group(s)
    for generation in (old - 1, old, old + 1):
        p.commit_offsets({at: generation}, generation=generation, member_id=a.id)
    s.reconcile(a, b)
    for generation in (old, a.epoch, a.epoch + 1):
        p.commit_offsets({at: 10 + generation}, generation=generation, member_id=a.id)
    p.commit_it()
    s.fetch({topic: [0]}, stable=True)


def _with_group(s: TransactionStory) -> TransactionalProducer:
    p = s.begun(versions={ApiKey.END_TXN: 5})
    if s.version < ADDS_FROM:
        p.add_offsets()
    return p


@transaction_story(ApiKey.WRITE_TXN_MARKERS, None)
def markers_by_hand_into_a_groups_partition(s: TransactionStory) -> None:
    """They decide about pending offsets, and the coordinator's own marker comes too late."""
    topic = s.topic("", 1)
    place = (OFFSETS_TOPIC, partition_of(s.group, PARTITIONS))
    p = s.begun()
    p.init()
    s.commit({(topic, 0): 1})
    for commit in (False, True):
        p.commit_offsets({(topic, 0): 5 + commit})
        s.write_markers(p, place, commit=commit, epoch=p.epoch - 1)
        s.fetch({topic: [0]}, stable=True)
        s.write_markers(p, place, commit=commit)
        s.fetch({topic: [0]}, stable=True)
        p.end(not commit)
        s.fetch({topic: [0]}, stable=True)


@transaction_story(ApiKey.OFFSET_COMMIT, (2, 3, 4), pair=OLD_TRANSACTIONS)
def offsets_expire_beside_pending_ones(s: TransactionStory) -> None:
    """A partition with a pending offset keeps the old one until the transaction has ended."""
    topic = s.topic("", 2)
    p = s.begun()
    p.commit_offsets({(topic, 0): 7})
    s.commit({(topic, 0): 1, (topic, 1): 2}, retention_ms=1)
    _until_offset(s, topic, 1, -1)
    s.fetch({topic: [0, 1]})
    s.fetch({topic: [0, 1]}, stable=True)
    p.abort()
    _until_offset(s, topic, 0, -1)
    s.fetch({topic: [0, 1]}, stable=True)


def _until_offset(s: TransactionStory, topic: str, partition: int, offset: int) -> None:
    def reached() -> bool:
        request = s.fetch_request([(s.group, {topic: [partition]})])
        answer: Any = s.peer.quietly(ApiKey.OFFSET_FETCH, request, s.version_of(ApiKey.OFFSET_FETCH))
        return bool(answer.groups[0].topics[0].partitions[0].committed_offset == offset)

    s.peer.wait_until(reached, f"offset {offset} of partition {partition}")


@transaction_story(ApiKey.DELETE_RECORDS, None)
def records_before_an_open_transaction_are_deleted(s: TransactionStory) -> None:
    """Those of an aborted one, too: it is not listed any more."""
    at = (s.topic("", 1), 0)
    p, q = s.begun("-p"), s.begun("-q")
    p.begin(at, records=2)
    p.abort()
    q.begin(at, records=2)
    s.peer.delete_records(at[0], 3)
    s.read_all(at)
    s.read(at, offset=3)
    q.commit_it()
    s.read(at, offset=3)
    s.list_offsets(at, -1, -2)


@transaction_story(ApiKey.DELETE_TOPICS, (6,))
def a_topic_that_is_deleted_while_its_transaction_is_stuck(s: TransactionStory) -> None:
    """The partition that refuses its marker goes, and the transaction stays as it is: nobody tries again."""
    topic, other = s.topic("-goes", 1), s.topic("-stays", 1)
    p = s.begun()
    p.begin((other, 0))
    p.get_stuck((topic, 0))
    s.delete_topic(topic)
    s.describe_transactions()
    p.end_at_once()
    s.read_all((other, 0))
