"""Share groups with share.isolation.level=read_committed: open, committed and aborted transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kohort.protocol.api_keys import ApiKey
from tests.parity.batches import batch
from tests.parity.share_story import Sharer, ShareStory, accept, gap, reject, release, share_story
from tests.parity.transaction_story import TransactionalProducer, TransactionStory
from tests.share_requests import CLOSE, RECORD_LIMIT, Partition

LONG_MS = 20_000
Producers = Callable[[str], TransactionalProducer]


@contextmanager
def transactions(s: ShareStory) -> Iterator[Producers]:
    """Makes producers; what they do is compared, too."""
    story = TransactionStory(s.peer, ApiKey.END_TXN)
    story.version = 5
    yield story.begun
    story.close()


def committed_reader(s: ShareStory, name: str = "a") -> Sharer:
    s.set_share(isolation_level="read_committed")
    return s.sharer(name)


def read_one(at: Partition, a: Sharer) -> None:
    """The first record; from here on the story's session has the partition."""
    a.fetch(at)
    a.acknowledge({at: accept(0)})


@share_story(ApiKey.SHARE_FETCH, (1, 2))
def a_fetch_waits_for_the_end_of_the_transaction(s: ShareStory) -> None:
    at, a = s.shared(1), committed_reader(s)
    read_one(at, a)
    with transactions(s) as begun:
        p = begun("-p")
        for commit, said in ((True, accept(1, 2) + gap(3)), (False, gap(6))):
            p.begin(at, records=2)
            a.send_fetch(max_wait_ms=LONG_MS)
            s.sharer("b").find_nothing(at)
            a.note_whether_it_waits()
            p.end(commit)
            a.take()
            a.acknowledge({at: said})
            s.share_offsets(at)
        a.find_nothing()


@share_story()
def aborted_batches_between_others(s: ShareStory) -> None:
    at, a = s.shared(1), committed_reader(s)
    read_one(at, a)
    with transactions(s) as begun:
        p, q = begun("-p"), begun("-q")
        p.begin(at, records=3)
        q.begin(at, records=2)
        s.peer.append(at[0], batch(2))
        p.produce(at, 2)
        p.abort()
        a.find_nothing()
        q.produce(at)
        q.commit_it()
        a.fetch()
        s.share_offsets(at)
        a.acknowledge({at: accept(1, 3)})
        a.acknowledge({at: accept(4, 7)})
        s.share_offsets(at)
        a.acknowledge({at: release(10, 12)})
        a.fetch(epoch=CLOSE)
        b = s.sharer("b")
        b.find_nothing(at)
        b.acknowledge({at: accept(4, 12)})
        s.share_offsets(at)


@share_story()
def a_few_records_at_a_time_of_aborted_batches(s: ShareStory) -> None:
    at, a = s.shared(1), committed_reader(s)
    read_one(at, a)
    with transactions(s) as begun:
        p = begun("-p")
        p.begin(at, records=5)
        p.abort()
        p.begin(at, records=4)
        p.commit_it()
        s.peer.append(at[0], batch(2))
        for _ in range(6):
            a.find_nothing(max_records=3, mode=RECORD_LIMIT)
        s.share_offsets(at)
        a.acknowledge({at: reject(6)})
        s.share_offsets(at)
        for _ in range(3):
            a.find_nothing(max_records=1)


@share_story()
def ranges_are_cut_where_batches_were_aborted(s: ShareStory) -> None:
    at, a = s.shared(1), committed_reader(s)
    read_one(at, a)
    with transactions(s) as begun:
        p = begun("-p")
        for commit in (False, True, False):
            s.peer.append(at[0], batch(2))
            p.begin(at, records=2)
            p.end(commit)
        a.fetch(batch_size=3)
        a.acknowledge({at: accept(1, 2) + accept(5, 10)})
        s.share_offsets(at)
        a.acknowledge({at: accept(1, 2)})
        a.acknowledge({at: accept(5, 11)})
        a.acknowledge({at: accept(5, 10)})
        a.acknowledge({at: accept(11, 12) + gap(15)})
        s.share_offsets(at)


@share_story()
def the_level_changes_while_somebody_has_aborted_records(s: ShareStory) -> None:
    at = s.shared(1)
    a, b = s.sharer("a"), s.sharer("b")
    read_one(at, a)
    with transactions(s) as begun:
        p = begun("-p")
        p.begin(at, records=4)
        p.produce(at, 2)
        p.abort()
        a.fetch()
        s.set_share(isolation_level="read_committed")
        a.acknowledge({at: release(2)})
        b.find_nothing(at)
        s.share_offsets(at)
        a.acknowledge({at: accept(1)})
        a.acknowledge({at: accept(5, 7)})
        s.share_offsets(at)
        s.set_share(isolation_level="read_uncommitted")
        b.find_nothing()


@share_story()
def the_level_changes_while_a_transaction_is_open(s: ShareStory) -> None:
    at = s.shared(1)
    a = s.sharer("a")
    read_one(at, a)
    with transactions(s) as begun:
        p = begun("-p")
        p.begin(at, records=2)
        a.fetch()
        s.set_share(isolation_level="read_committed")
        a.acknowledge({at: release(1) + accept(2)})
        a.find_nothing()
        p.produce(at, 2)
        a.find_nothing()
        p.abort()
        a.find_nothing()
        s.share_offsets(at)


@share_story()
def records_of_an_open_transaction_are_deleted_below_a_share_group(s: ShareStory) -> None:
    at, a = s.shared(1), committed_reader(s)
    read_one(at, a)
    with transactions(s) as begun:
        p = begun("-p")
        p.begin(at, records=4)
        s.peer.delete_records(at[0], 3)
        a.find_nothing()
        s.share_offsets(at)
        p.commit_it()
        a.find_nothing()
        a.find_nothing()
        s.share_offsets(at)


@share_story()
def committed_readers_begin_at_the_latest_offset(s: ShareStory) -> None:
    topic = s.topic("", 1)
    a = committed_reader(s)
    s.set_share(auto_offset_reset="latest")
    a.start(topic)
    s.settle(a, partitions=1)
    with transactions(s) as begun:
        p = begun("-p")
        p.begin((topic, 0), records=4)
        s.peer.append(topic, batch(2))
        a.find_nothing((topic, 0))
        p.produce((topic, 0), 2)
        p.commit_it()
        a.find_nothing()
        s.share_offsets((topic, 0))


@share_story(ApiKey.SHARE_FETCH, (1, 2))
def small_fetches_of_committed_records(s: ShareStory) -> None:
    at, a = s.shared(1), committed_reader(s)
    read_one(at, a)
    with transactions(s) as begun:
        p = begun("-p")
        p.begin(at, records=2)
        p.abort()
        p.begin(at)
        p.commit_it()
        p.begin(at)
        for max_bytes in (1, 100, 200):
            a.find_nothing(max_bytes=max_bytes)
        a.find_nothing(min_bytes=1_000)
        p.commit_it()
        a.find_nothing(min_bytes=1_000)
        s.share_offsets(at)


@share_story(ApiKey.SHARE_FETCH, (1, 2))
def fetches_that_end_within_a_batch(s: ShareStory) -> None:
    at = s.shared(1, 1, 1, 1)
    a = s.sharer("a")
    a.fetch(at, max_bytes=100)
    a.fetch(max_bytes=100, max_records=1)
    a.acknowledge({at: release(0, 1)})
    a.fetch(max_bytes=250)
