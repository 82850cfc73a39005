"""Produce with transactional batches: who may write, which sequences count, and what older versions ask for."""

from __future__ import annotations

from kohort.protocol.api_keys import ApiKey
from tests.parity.batches import changed
from tests.parity.transaction_story import TV0, TransactionStory, transaction_story
from tests.transaction_requests import produce_request

PRODUCE = ApiKey.PRODUCE
ADDS_FROM = 12  # from this version of Produce on, partitions are added without a word
ADDING = (12, 13)
VERIFYING = (3, 8, 9, 10, 11)
SOME = (3, 9, 11, 12, 13)
CONTROL = 0x30  # attributes of a transactional control batch


@transaction_story(PRODUCE, None)
def a_partition_is_added_by_new_versions_and_refused_by_old_ones(s: TransactionStory) -> None:
    topic = s.topic("", 2)
    p = s.begun()
    p.produce((topic, 0), 2)
    s.describe_transactions()
    p.add((topic, 1))
    p.produce((topic, 1), 2)
    p.produce((topic, 1), 3)
    p.produce((topic, 0))
    p.commit_it()
    s.read_all((topic, 0), (topic, 1))


@transaction_story(PRODUCE, None)
def records_of_nobodys_transaction_are_refused(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p, other = s.begun(), s.begun("-other")
    p.init()
    p.produce(at, transactional_id=s.group + "-nobody")
    p.produce(at, transactional_id=other.transactional_id)
    p.produce(at, transactional_id="")
    p.produce(at, transactional_id=None)
    for epoch in (p.epoch - 1, p.epoch + 1):
        p.produce(at, epoch=epoch)
    p.produce(at, producer_id=77_777)
    s.describe_transactions()
    p.add(at)
    for epoch in (p.epoch - 1, p.epoch + 1):
        p.produce(at, epoch=epoch)
    p.produce(at, transactional_id=None)
    p.produce(at)
    for epoch in (p.epoch - 1, p.epoch + 1):
        p.produce(at, epoch=epoch)
    p.produce(at, transactional_id=None)
    p.produce(at, transactional_id=other.transactional_id)
    s.describe_transactions()
    s.read_all(at)


@transaction_story(PRODUCE, None)
def two_producers_in_one_request_are_refused(s: TransactionStory) -> None:
    topic = s.topic("", 3)
    p, other = s.begun(), s.begun("-other")
    p.add((topic, 0), (topic, 1))
    p.send_records({
        (topic, 0): p.batch((topic, 0)),
        (topic, 1): other.batch((topic, 1)),
    })  # fmt: skip
    p.take()
    p.send_records({
        (topic, 0): p.batch((topic, 0)),
        (topic, 1): p.batch((topic, 1), epoch=7),
    })  # fmt: skip
    p.take()
    s.describe_transactions()


@transaction_story(PRODUCE, None)
def transactional_and_plain_batches_in_one_request(s: TransactionStory) -> None:
    topic = s.topic("", 3)
    p = s.begun()
    p.add((topic, 0), (topic, 1))
    batches = {(topic, index): p.batch((topic, index), transactional=index == 0) for index in range(2)}
    p.send_records(batches)
    p.take()
    p.send_records({(topic, 2): p.batch((topic, 2), producer_id=-1, epoch=-1, sequence=-1, transactional=False)})
    p.take()
    s.describe_transactions()
    p.commit_it()
    s.read_all((topic, 0), (topic, 1), (topic, 2))


@transaction_story(PRODUCE, None)
def several_partitions_some_of_them_unknown(s: TransactionStory) -> None:
    topic = s.topic("", 2)
    p = s.begun()
    p.add((topic, 0))
    p.send_records({(topic, index): p.batch((topic, index)) for index in (0, 1, 5)})
    p.take()
    s.describe_transactions()


@transaction_story(PRODUCE, range(3, 13))
def an_unknown_topic_is_not_added(s: TransactionStory) -> None:
    p = s.begun()
    p.produce((s.peer.topic("-unknown"), 0))
    s.describe_transactions()


@transaction_story(PRODUCE, None)
def the_first_sequence_of_a_producer_that_the_partition_does_not_know(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p = s.begun()
    p.add(at)
    p.produce(at, sequence=5)
    p.produce(at, sequence=6)
    p.produce(at, sequence=0)
    p.produce(at, sequence=1)
    s.describe_transactions()
    p.commit_it()
    s.read_all(at)


@transaction_story(PRODUCE, None)
def sequences_within_a_transaction(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p = s.begun()
    p.add(at)
    for sequence in (0, 2, 0, 1, 1, 3):
        p.produce(at, sequence=sequence)
    p.commit_it()
    s.read_all(at)


@transaction_story(PRODUCE, SOME)
def the_next_transaction_of_a_new_client_begins_at_sequence_zero(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p = s.begun()
    p.add(at)
    p.produce(at, 2)
    old = p.epoch
    p.commit_it()
    p.add(at)
    p.produce(at, sequence=2, epoch=old)
    p.produce(at, sequence=2)
    p.produce(at, sequence=1)
    p.produce(at, sequence=0)
    p.produce(at, sequence=1, epoch=old)
    s.describe_producers(at)
    p.abort()
    s.describe_producers(at)
    s.read_all(at)


@transaction_story(PRODUCE, SOME)
def the_next_transaction_of_an_old_client_goes_on_counting(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p = s.begun(versions=TV0)
    p.add(at)
    p.produce(at, 2)
    p.commit_it()
    p.add(at)
    p.produce(at, sequence=3)
    p.produce(at, sequence=2)
    s.describe_producers(at)
    p.abort()
    s.describe_producers(at)
    s.read_all(at)


@transaction_story(PRODUCE, (3, 9, 11))
def what_the_coordinator_was_asked_about_first_is_written_first(s: TransactionStory) -> None:
    """A batch that the log refuses was asked about, too: nothing may overtake it.

    No client that ends its transactions in an old way writes with version 12. There Kafka remembers it for longer.
    """
    topic = s.topic("", 2)
    p = s.begun(versions=TV0)
    p.add((topic, 0))
    p.produce((topic, 0), 2)
    p.commit_it()
    p.add((topic, 0))
    p.produce((topic, 0), sequence=0)
    for sequence in (3, 2, 1):
        p.produce((topic, 0), sequence=sequence)
    p.abort()
    p.add((topic, 0), (topic, 1))
    p.produce((topic, 0), sequence=2)
    for sequence in (7, 6, 8, 7):
        p.produce((topic, 1), sequence=sequence)
    s.describe_producers((topic, 0), (topic, 1))
    p.commit_it()
    s.read_all((topic, 0), (topic, 1))


@transaction_story(PRODUCE, SOME)
def records_wait_while_markers_are_on_their_way(s: TransactionStory) -> None:
    topic = s.topic("", 2)
    p = s.begun(versions=TV0 | {PRODUCE: 12})
    p.get_stuck((topic, 0))
    p.produce((topic, 1))
    p.produce((topic, 0))
    p.produce((topic, 0), epoch=p.epoch + 1)
    p.produce((topic, 1), epoch=p.epoch + 1)
    s.describe_producers((topic, 0), (topic, 1))


@transaction_story(PRODUCE, None)
def a_plain_batch_within_the_producers_transaction(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p = s.begun()
    p.add(at)
    p.produce(at)
    p.produce(at, transactional=False, transactional_id=None)
    p.produce(at, transactional=False)
    p.commit_it()
    p.produce(at, transactional=False, transactional_id=None, sequence=1)
    p.produce(at, transactional=False, transactional_id=None, sequence=0)
    p.add(at)
    p.produce(at)
    s.read_all(at)


@transaction_story(PRODUCE, SOME)
def clients_write_no_markers(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p = s.begun()
    p.add(at)
    for attributes in (CONTROL, 0x20):
        p.send_records({at: changed(p.batch(at), attributes=attributes)})
        p.take()
    s.read_all(at)


@transaction_story(PRODUCE, SOME)
def a_transactional_batch_without_a_producer_id(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p = s.begun()
    p.add(at)
    p.produce(at, producer_id=-1, epoch=-1, sequence=-1)
    p.produce(at, producer_id=-1, epoch=-1, sequence=-1, transactional_id=None)
    s.read_all(at)
    s.describe_producers(at)


@transaction_story(PRODUCE, SOME)
def acks_of_transactional_records(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p = s.begun()
    p.add(at)
    for index, acks in enumerate((1, -1, 2)):
        request_of = p.batch(at, sequence=index)
        ids = {at[0]: s.peer.topic_id(at[0])} if s.version >= 13 else None
        p.ask(PRODUCE, _with_acks(p.transactional_id, at, request_of, acks, ids))
    p.commit_it()
    s.read_all(at)


def _with_acks(
    transactional_id: str, at: tuple[str, int], data: bytes, acks: int, ids: dict[str, bytes] | None
) -> object:
    return produce_request(transactional_id, {at: data}, acks=acks, ids=ids)


@transaction_story(PRODUCE, ADDING)
def new_and_old_requests_in_one_transaction(s: TransactionStory) -> None:
    topic = s.topic("", 3)
    p = s.begun(versions=TV0)
    p.produce((topic, 0))
    p.add((topic, 1))
    p.produce((topic, 1))
    p.end()
    p.produce((topic, 2))
    p.produce((topic, 2), sequence=0)
    p.end(False)
    s.describe_producers((topic, 0), (topic, 1), (topic, 2))
    s.read_all((topic, 0), (topic, 1), (topic, 2))


@transaction_story(PRODUCE, VERIFYING)
def an_old_client_whose_transactions_end_as_a_new_clients(s: TransactionStory) -> None:
    topic = s.topic("", 2)
    p = s.begun()
    for commit in (True, False, True):
        p.add((topic, 0))
        p.produce((topic, 0), 2)
        p.end(commit)
    p.produce((topic, 1))
    s.describe_producers((topic, 0), (topic, 1))
    s.read_all((topic, 0))


@transaction_story(PRODUCE, (9, 13))
def what_is_added_stays_when_the_log_refuses_the_batch(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p = s.begun()
    p.produce(at, sequence=9)
    s.describe_transactions()
    p.commit_it()
    s.read_all(at)
    s.describe_producers(at)


@transaction_story(PRODUCE, (3, 11, 12, 13))
def a_topic_of_the_broker_takes_no_transactional_records(s: TransactionStory) -> None:
    p = s.begun()
    p.produce(("__consumer_offsets", 0))
    p.produce(("__transaction_state", 0))
    s.describe_transactions()


@transaction_story(ApiKey.PRODUCE, (9, 11, 12, 13))
def a_zombie_does_not_hold_its_successor_up(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    zombie, successor = s.begun(), s.begun()
    if s.version < 12:
        successor.add(at)
    successor.produce(at)
    zombie.produce(at)
    successor.produce(at)
    successor.commit_it()
    s.read_all(at)
