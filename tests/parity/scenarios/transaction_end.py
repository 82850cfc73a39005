"""EndTxn in every state and version, and the markers that it leads to."""

from __future__ import annotations

from kohort.protocol.api_keys import ApiKey
from tests.parity.transaction_story import TransactionStory, transaction_story

END = ApiKey.END_TXN
NEW, OLD = (5,), range(5)


@transaction_story(END, None)
def a_transaction_is_committed(s: TransactionStory) -> None:
    topic = s.topic("", 2)
    p = s.begun(versions=s.of_its_time())
    p.begin((topic, 0), (topic, 1), records=3)
    p.commit_it()
    s.describe_transactions()
    s.read_all((topic, 0), (topic, 1))
    s.describe_producers((topic, 0), (topic, 1))


@transaction_story(END, None)
def a_transaction_is_aborted(s: TransactionStory) -> None:
    topic = s.topic("", 2)
    p = s.begun(versions=s.of_its_time())
    p.begin((topic, 0), (topic, 1), records=3)
    p.abort()
    s.describe_transactions()
    s.read_all((topic, 0), (topic, 1))
    s.describe_producers((topic, 0), (topic, 1))


@transaction_story(END, None)
def an_end_that_is_asked_for_again(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p = s.begun(versions=s.of_its_time())
    for commit in (True, False):
        p.begin(at)
        epoch = p.epoch
        p.end(commit)
        p.end(commit, epoch=epoch)
        p.end(not commit, epoch=epoch)
        p.end(commit, epoch=epoch)
    s.describe_transactions()
    s.read_all(at)


@transaction_story(END, None)
def a_transaction_that_never_began(s: TransactionStory) -> None:
    p = s.begun(versions=s.of_its_time())
    s.watch_log()
    p.commit_it()
    p.abort()
    s.describe_transactions()
    p.commit_it()
    p.abort()
    p.abort()
    s.note_log()


@transaction_story(END, None)
def an_end_after_the_end(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p = s.begun(versions=s.of_its_time())
    for commit in (True, False):
        p.begin(at)
        p.end(commit)
        p.end(commit)
        p.end(not commit)
        p.end(commit)
    s.describe_transactions()


@transaction_story(END, None)
def who_is_not_the_producer_ends_nothing(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p, other = s.begun(versions=s.of_its_time()), s.begun("-other")
    p.init()
    p.init()
    for state in ("Empty", "Ongoing", "CompleteCommit"):
        if state != "Empty":
            p.begin(at)
        if state == "CompleteCommit":
            p.commit_it()
        for commit in (True, False):
            for epoch in (p.epoch - 2, p.epoch + 1, p.epoch + 2, -1, 32_767):
                p.end(commit, epoch=epoch)
            for producer_id in (other.producer_id, 77_777):
                p.end(commit, producer_id=producer_id)
            p.end(commit, transactional_id="")
            p.end(commit, transactional_id=p.transactional_id + "-nobody")
    s.describe_transactions()


@transaction_story(END, None)
def an_end_that_is_asked_for_again_after_the_next_began(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p = s.begun(versions=s.of_its_time())
    p.begin(at)
    epoch = p.epoch
    p.commit_it()
    p.begin(at)
    p.end(epoch=epoch - 1)
    p.end(False, epoch=epoch - 1)
    s.describe_transactions()


@transaction_story(END, None)
def no_end_while_markers_are_on_their_way(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p = s.begun()
    p.get_stuck(at)
    epoch = p.epoch
    for commit in (True, False):
        p.end_at_once(commit)
        p.end_at_once(commit, epoch=epoch - 1)
        p.end_at_once(commit, epoch=epoch + 5)
        p.end_at_once(commit, producer_id=77_777)
    s.describe_transactions()


@transaction_story(END, OLD)
def an_old_end_of_a_new_clients_transaction(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p = s.begun()
    for commit in (True, False, True):
        p.begin(at)
        p.end(commit)
    s.read_all(at)
    s.describe_transactions()


@transaction_story(END, NEW)
def a_transaction_of_many_partitions(s: TransactionStory) -> None:
    a, b = s.topic("-a", 5), s.topic("-b", 3)
    p = s.begun()
    places = [(a, index) for index in range(5)] + [(b, index) for index in range(3)]
    p.begin(*places)
    p.commit_it()
    for each in places:
        s.read(each)


@transaction_story(END, None)
def partitions_that_were_only_added_get_a_marker_too(s: TransactionStory) -> None:
    topic = s.topic("", 2)
    p = s.begun(versions=s.of_its_time())
    p.add((topic, 0), (topic, 1))
    p.commit_it()
    s.read_all((topic, 0))
    s.describe_producers((topic, 0))
    p.add((topic, 0))
    p.abort()
    s.read_all((topic, 0))
    p.begin((topic, 0))
    p.commit_it()
    s.read_all((topic, 0))


@transaction_story(END, None)
def a_topic_is_deleted_while_a_transaction_is_open(s: TransactionStory) -> None:
    stays, goes = s.topic("-stays", 1), s.topic("-goes", 1)
    p = s.begun(versions=s.of_its_time())
    p.begin((stays, 0), (goes, 0))
    s.peer.delete(goes)
    s.describe_transactions()
    p.commit_it()
    s.describe_transactions()
    s.read_all((stays, 0))


@transaction_story(END, NEW)
def a_topic_is_made_again_while_a_transaction_is_open(s: TransactionStory) -> None:
    topic = s.topic("", 1)
    p = s.begun()
    p.begin((topic, 0))
    s.peer.delete(topic)
    s.peer.create("", 1)
    p.commit_it()
    s.describe_transactions()
    s.read_all((topic, 0))


@transaction_story(END, None)
def ends_of_transactions_of_two_producers_in_one_partition(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    a, b = s.begun("-a", versions=s.of_its_time()), s.begun("-b", versions=s.of_its_time())
    a.begin(at, records=2)
    b.begin(at)
    s.read(at)
    b.abort()
    s.read(at)
    a.produce(at)
    a.commit_it()
    s.read_all(at)
    s.read(at, offset=3)
    s.read(at, offset=4)


@transaction_story(ApiKey.WRITE_TXN_MARKERS, None)
def markers_by_hand(s: TransactionStory) -> None:
    topic = s.topic("", 2)
    p = s.begun()
    p.begin((topic, 0))
    s.write_markers(p, (topic, 0), commit=False)
    s.read_all((topic, 0))
    s.write_markers(p, (topic, 0), commit=False)
    s.write_markers(p, (topic, 0), commit=True, coordinator_epoch=5)
    s.write_markers(p, (topic, 0), commit=True, coordinator_epoch=4)
    s.write_markers(p, (topic, 0), commit=True, coordinator_epoch=5, epoch=p.epoch + 1)
    s.write_markers(p, (topic, 0), commit=True, coordinator_epoch=5)
    s.write_markers(p, (topic, 1), (topic, 7), (topic + "-unknown", 0))
    s.read_all((topic, 0))
    s.read_all((topic, 1))
    s.describe_producers((topic, 0), (topic, 1))


@transaction_story(ApiKey.WRITE_TXN_MARKERS, None)
def markers_by_hand_into_open_transactions(s: TransactionStory) -> None:
    topic = s.topic("", 4)
    p = s.begun()
    for index, (version, step) in enumerate(((0, 0), (0, 1), (2, 0), (2, 1))):
        p.begin((topic, index))
        s.write_markers(p, (topic, index), commit=True, transaction_version=version, epoch=p.epoch + step)
        s.write_markers(p, (topic, index), commit=True, transaction_version=version, epoch=p.epoch + step)
        s.read_all((topic, index))
        s.describe_producers((topic, index))


@transaction_story(ApiKey.WRITE_TXN_MARKERS, None)
def markers_by_hand_for_producers_without_a_coordinator(s: TransactionStory) -> None:
    """A hanging transaction, as `kafka-transactions abort` ends it."""
    at = (s.topic("", 1), 0)
    p = s.producer()
    p.producer_id, p.epoch = 88_888, 3
    s.write_markers(p, at)
    s.describe_producers(at)
    s.write_markers(p, at, epoch=2)
    s.write_markers(p, ("__consumer_offsets", 9), commit=False)
    s.write_markers(p, ("__transaction_state", 9), commit=False)
    s.read_all(at)


@transaction_story(ApiKey.DESCRIBE_PRODUCERS, None)
def producers_of_a_partition(s: TransactionStory) -> None:
    topic = s.topic("", 3)
    a, b = s.begun("-a"), s.begun("-b")
    s.describe_producers((topic, 0))
    a.begin((topic, 0), records=2)
    b.begin((topic, 0), (topic, 1))
    s.describe_producers((topic, 0), (topic, 1), (topic, 2), (topic, 9), (topic + "-unknown", 0))
    a.commit_it()
    b.abort()
    s.describe_producers((topic, 0), (topic, 1))
    s.peer.append(topic, a.batch((topic, 2), transactional=False, sequence=0), partition=2)
    s.describe_producers((topic, 2))
    s.describe_producers()
