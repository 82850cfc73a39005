"""What readers see of transactions: the last stable offset, lists of aborted ones, waiting, sessions, share groups."""

from __future__ import annotations

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.fetch import ForgottenTopic
from tests.parity.batches import START_MS, batch
from tests.parity.share_story import ShareStory, accept, share_story
from tests.parity.transaction_story import (
    FIRST_FETCH_WITH_IDS,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    TV0,
    TransactionStory,
    transaction_story,
)

FETCH = ApiKey.FETCH
NEW = (13, 18)
EARLIEST, LATEST, NEWEST_TIME, EARLIEST_LOCAL = -2, -1, -3, -4
LONG_MS = 20_000


@transaction_story(FETCH, None)
def open_data_is_not_read(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    s.peer.append(at[0], batch(2))
    p = s.begun()
    p.begin(at, records=3)
    s.peer.append(at[0], batch(1))
    s.read_all(at)
    for offset in (2, 3, 5, 6, 7):
        s.read(at, offset=offset)
    p.commit_it()
    s.read_all(at)


@transaction_story(FETCH, None)
def an_isolation_level_that_does_not_exist(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    s.peer.append(at[0], batch(2))
    for isolation in (2, -1, 127):
        s.read(at, isolation=isolation)


@transaction_story(FETCH, None)
def aborted_transactions_are_listed_where_they_are_read(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    a, b = s.begun("-a"), s.begun("-b", versions=TV0)
    a.begin(at, records=2)
    b.begin(at)
    a.produce(at)
    a.abort()
    s.read(at)
    b.produce(at, 2)
    b.abort()
    a.begin(at)
    a.commit_it()
    for offset in range(12):
        s.read(at, offset=offset)


@transaction_story(FETCH, NEW)
def a_transaction_that_began_first_and_ends_last(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    outer, inner = s.begun("-outer"), s.begun("-inner")
    outer.begin(at)
    for commit in (False, True, False):
        inner.begin(at)
        inner.end(commit)
        s.read(at)
    outer.abort()
    for offset in range(9):
        s.read(at, offset=offset)


@transaction_story(FETCH, NEW)
def a_few_bytes_of_committed_and_aborted_data(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p = s.begun()
    for commit in (True, False, True, False):
        p.begin(at, records=2)
        p.end(commit)
    for max_bytes in (1, 100, 300):
        for offset in (0, 3, 6, 9):
            s.read(at, offset=offset, max_bytes=max_bytes)


@transaction_story(FETCH, NEW)
def a_reader_waits_for_the_marker(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p, reader = s.begun(), s.member()
    for commit in (True, False):
        p.begin(at)
        reader.send(FETCH, s.fetch_records([at], 0 if commit else 2, READ_COMMITTED, max_wait_ms=LONG_MS))
        s.read(at, offset=0 if commit else 2)
        reader.note_whether_it_waits()
        p.end(commit)
        reader.take()


@transaction_story(FETCH, (7, 12, 13, 18))
def a_session_that_reads_committed_records(s: TransactionStory) -> None:
    topic = s.topic("", 2)
    p = s.begun()
    p.begin((topic, 0))
    s.peer.append(topic, batch(2), partition=1)
    answer = s.read((topic, 0), (topic, 1), session=(0, 0))
    session = answer.session_id if answer is not None else 0
    s.read(session=(session, 1))
    p.commit_it()
    s.read(session=(session, 2))
    s.read((topic, 0), offset=2, session=(session, 3))
    p.begin((topic, 1))
    p.abort()
    s.read((topic, 1), offset=2, session=(session, 4))
    s.read(session=(session, 5), isolation=READ_UNCOMMITTED)
    request = s.fetch_records([], 0, READ_COMMITTED, session=(session, 6))
    topic_id = s.peer.topic_id(topic) if s.version >= FIRST_FETCH_WITH_IDS else bytes(16)
    request.forgotten_topics_data = [ForgottenTopic(topic, topic_id, [1])]
    s.ask(FETCH, request)


@transaction_story(ApiKey.LIST_OFFSETS, range(2, 12))
def offsets_while_a_transaction_is_open(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    s.peer.append(at[0], batch(2, start_ms=START_MS))
    p = s.begun()
    p.produce(at, 2, start_ms=START_MS + 10_000)
    s.peer.append(at[0], batch(1, start_ms=START_MS + 20_000))
    times = [LATEST, EARLIEST, START_MS, START_MS + 10_000, START_MS + 20_000]
    if s.version >= 7:
        times.append(NEWEST_TIME)
    for isolation in (READ_UNCOMMITTED, READ_COMMITTED):
        s.list_offsets(at, *times, isolation=isolation)
    p.abort()
    for isolation in (READ_UNCOMMITTED, READ_COMMITTED):
        s.list_offsets(at, *times[:5], isolation=isolation)
    s.list_offsets(at, LATEST, isolation=2)


@transaction_story(ApiKey.LIST_OFFSETS, (7, 11))
def a_marker_is_the_newest_record(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p = s.begun()
    p.begin(at, records=2)
    p.commit_it()
    asked = s.peer.exchanges
    s.list_offsets(at, NEWEST_TIME)
    for row in asked[-1].answer.topics[0].partitions:
        row.timestamp = int(row.timestamp > START_MS + 3_000_000)


@transaction_story(ApiKey.DELETE_RECORDS, None)
def records_of_an_open_transaction_are_deleted(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p = s.begun()
    p.begin(at, records=3)
    s.peer.append(at[0], batch(2))
    s.peer.delete_records(at[0], 2)
    s.read_all(at)
    s.read(at, offset=2)
    s.list_offsets(at, LATEST, EARLIEST)
    s.describe_producers(at)
    s.peer.delete_records(at[0], 4)
    s.read(at, offset=4)
    p.produce(at)
    s.read(at, offset=4)
    p.commit_it()
    s.read(at, offset=4)


@transaction_story(ApiKey.DELETE_RECORDS, (2,))
def records_are_deleted_up_to_the_high_watermark(s: TransactionStory) -> None:
    """-1 stands for the high watermark, beyond the last stable offset."""
    at = (s.topic("", 1), 0)
    p = s.begun()
    p.begin(at, records=3)
    s.peer.delete_records(at[0], -1)
    s.read(at, offset=3)
    s.describe_producers(at)
    p.abort()
    s.read(at, offset=3)
    s.list_offsets(at, LATEST, EARLIEST)


@transaction_story(ApiKey.FETCH, NEW)
def readers_of_the_brokers_own_topics(s: TransactionStory) -> None:
    """A transaction with offsets has a marker in the group's partition."""
    topic = s.topic("", 1)
    p = s.begun()
    p.commit_offsets({(topic, 0): 5})
    p.commit_it()
    s.fetch({topic: [0]})


# --- share groups


@share_story(ApiKey.SHARE_FETCH, (1, 2))
def a_share_group_that_reads_committed_records(s: ShareStory) -> None:
    at = s.shared(1)
    s.set_share(isolation_level="read_committed")
    _share_with_transactions(s, at)


@share_story(ApiKey.SHARE_FETCH, (1, 2))
def a_share_group_that_reads_uncommitted_records(s: ShareStory) -> None:
    at = s.shared(1)
    _share_with_transactions(s, at)


def _share_with_transactions(s: ShareStory, at: tuple[str, int]) -> None:
    t = TransactionStory(s.peer, ApiKey.END_TXN)
    t.version = 5
    p = t.begun()
    sharer = s.sharer("sharer")
    sharer.fetch(at)
    sharer.acknowledge({at: accept(0)})
    p.begin(at, records=2)
    sharer.find_nothing()
    p.commit_it()
    sharer.find_nothing()
    p.begin(at, records=2)
    p.abort()
    p.begin(at)
    p.commit_it()
    sharer.find_nothing()
    sharer.find_nothing()
    s.share_offsets(at)
    t.close()
