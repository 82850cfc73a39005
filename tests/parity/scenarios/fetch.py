"""Fetch: bounds, errors, long polls and sessions."""

from __future__ import annotations

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from tests.parity.batches import batch
from tests.parity.peer import Peer
from tests.parity.scenario import scenario

TOPIC_IDS_FROM = 13
SESSIONS = range(7, 19)
NO_SUCH_ID = bytes(range(1, 17))
MB = 1 << 20


def want(
    partition: int, offset: int, max_bytes: int = MB, *, current_leader_epoch: int = -1, last_fetched_epoch: int = -1
) -> FetchPartition:
    return FetchPartition(partition, current_leader_epoch, offset, last_fetched_epoch, partition_max_bytes=max_bytes)


def topic_of(peer: Peer, name: str, *partitions: FetchPartition) -> FetchTopic:
    topic_id = peer.topic_id(name) if peer.version >= TOPIC_IDS_FROM else bytes(16)
    return FetchTopic(name, topic_id, list(partitions))


def fetch(
    peer: Peer,
    *topics: FetchTopic,
    min_bytes: int = 1,
    max_bytes: int = 50 * MB,
    max_wait_ms: int = 100,
    isolation_level: int = 0,
    session: tuple[int, int] = (0, -1),
    forget: list[ForgottenTopic] | None = None,
    replica_id: int = -1,
) -> int:
    """Asks; returns the session id."""
    request = FetchRequest(
        replica_id=replica_id,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session[0],
        session_epoch=session[1],
        topics=list(topics),
        forgotten_topics_data=forget or [],
    )
    answer = peer.ask(ApiKey.FETCH, request)
    return int(answer.session_id) if answer is not None else 0


@scenario(ApiKey.FETCH)
def records_are_fetched_from_every_offset(peer: Peer) -> None:
    topic = peer.create()
    peer.append(topic, batch(3), batch(2), batch(1))
    for offset in range(7):
        fetch(peer, topic_of(peer, topic, want(0, offset)), max_wait_ms=1)


@scenario(ApiKey.FETCH)
def an_empty_partition_gives_nothing(peer: Peer) -> None:
    fetch(peer, topic_of(peer, peer.create(), want(0, 0)))
    fetch(peer, topic_of(peer, peer.topic(), want(0, 0)), min_bytes=0)


@scenario(ApiKey.FETCH)
def offsets_out_of_range(peer: Peer) -> None:
    topic = peer.create()
    peer.append(topic, batch(3))
    for offset in (4, 1000, -1, -2, 9223372036854775807):
        fetch(peer, topic_of(peer, topic, want(0, offset)))


@scenario(ApiKey.FETCH)
def offsets_that_were_deleted(peer: Peer) -> None:
    topic = peer.create()
    peer.append(topic, batch(3), batch(3))
    peer.delete_records(topic, 4)
    for offset in (0, 3, 4, 5):
        fetch(peer, topic_of(peer, topic, want(0, offset)))


@scenario(ApiKey.FETCH, versions=range(4, 13))
def unknown_topics_and_partitions(peer: Peer) -> None:
    topic = peer.create()
    fetch(peer, topic_of(peer, topic, want(1, 0), want(-1, 0), want(0, 0)), max_wait_ms=1)
    fetch(peer, topic_of(peer, peer.topic("-unknown"), want(0, 0)))
    fetch(peer, topic_of(peer, "bad name", want(0, 0)), topic_of(peer, topic, want(0, 0)))
    fetch(peer, topic_of(peer, "", want(0, 0)))


@scenario(ApiKey.FETCH, versions=range(13, 19))
def unknown_topic_ids_and_partitions(peer: Peer) -> None:
    topic = peer.create()
    fetch(peer, topic_of(peer, topic, want(1, 0), want(-1, 0), want(0, 0)), max_wait_ms=1)
    fetch(peer, FetchTopic("", NO_SUCH_ID, [want(0, 0)]))
    fetch(peer, FetchTopic("", bytes(16), [want(0, 0)]))
    fetch(peer, FetchTopic("", NO_SUCH_ID, [want(0, 0)]), topic_of(peer, topic, want(0, 0)))


@scenario(ApiKey.FETCH)
def nothing_is_asked_for(peer: Peer) -> None:
    fetch(peer)
    fetch(peer, topic_of(peer, peer.create()))


@scenario(ApiKey.FETCH)
def size_bounds_give_at_least_one_batch(peer: Peer) -> None:
    topic = peer.create(partitions=2)
    for partition in (0, 1):
        peer.append(topic, batch(5, size_bytes=100), batch(5, size_bytes=100), partition=partition)
    whole = len(batch(5, size_bytes=100))
    for partition_bytes, max_bytes in (
        (0, MB),
        (1, MB),
        (MB, 1),
        (MB, 0),
        (whole, MB),
        (whole - 1, MB),
        (whole + 1, MB),
        (2 * whole, MB),
        (2 * whole - 1, MB),
        (MB, whole),
        (MB, whole + 1),
        (MB, 3 * whole),
        (MB, 3 * whole + 5),
    ):
        asked = [want(partition, 0, partition_bytes) for partition in (0, 1)]
        fetch(peer, topic_of(peer, topic, *asked), max_bytes=max_bytes)


@scenario(ApiKey.FETCH, versions=(4, 12, 18))
def negative_sizes_that_Kafka_stumbles_over(peer: Peer) -> None:
    topic = peer.create()
    peer.append(topic, batch(5))
    fetch(peer, topic_of(peer, topic, want(0, 0, -1)))
    fetch(peer, topic_of(peer, topic, want(0, 0)), max_bytes=-1)


@scenario(ApiKey.FETCH)
def a_fetch_in_the_middle_of_a_batch_gives_the_whole_batch(peer: Peer) -> None:
    topic = peer.create()
    peer.append(topic, batch(10, compression=1), batch(10))
    for offset in (5, 9, 10, 15):
        fetch(peer, topic_of(peer, topic, want(0, offset)))


@scenario(ApiKey.FETCH)
def several_partitions_come_in_the_order_asked_for(peer: Peer) -> None:
    one, two = peer.create("-one", partitions=3), peer.create("-two")
    for partition in range(3):
        peer.append(one, batch(partition + 1), partition=partition)
    peer.append(two, batch(4))
    fetch(peer, topic_of(peer, two, want(0, 0)), topic_of(peer, one, want(2, 0), want(0, 0), want(1, 1)))


@scenario(ApiKey.FETCH)
def the_same_partition_asked_for_twice(peer: Peer) -> None:
    topic = peer.create()
    peer.append(topic, batch(2))
    fetch(peer, topic_of(peer, topic, want(0, 0), want(0, 1)))


@scenario(ApiKey.FETCH)
def a_long_poll_ends_with_nothing_when_its_time_is_up(peer: Peer) -> None:
    topic = peer.create()
    fetch(peer, topic_of(peer, topic, want(0, 0)), min_bytes=1000, max_wait_ms=50)
    peer.append(topic, batch(1))
    fetch(peer, topic_of(peer, topic, want(0, 0)), min_bytes=MB, max_wait_ms=50)


@scenario(ApiKey.FETCH)
def borderline_waits(peer: Peer) -> None:
    topic = peer.create()
    for max_wait_ms, min_bytes in ((0, 1), (-1, 1), (0, 0), (50, -1)):
        fetch(peer, topic_of(peer, topic, want(0, 0)), max_wait_ms=max_wait_ms, min_bytes=min_bytes)


@scenario(ApiKey.FETCH)
def committed_reads_see_records_outside_transactions(peer: Peer) -> None:
    topic = peer.create()
    peer.append(topic, batch(3))
    for isolation_level in (1, 0):
        fetch(peer, topic_of(peer, topic, want(0, 0)), isolation_level=isolation_level)


@scenario(ApiKey.FETCH, versions=(4, 12, 18))
def isolation_levels_that_Kafka_stumbles_over(peer: Peer) -> None:
    topic = peer.create()
    for isolation_level in (2, -1):
        fetch(peer, topic_of(peer, topic, want(0, 0)), isolation_level=isolation_level, min_bytes=0)


@scenario(ApiKey.FETCH, versions=range(9, 19))
def leader_epochs_are_checked(peer: Peer) -> None:
    topic = peer.create()
    peer.append(topic, batch(2))
    for epoch in (0, 1, 99, -1, -2):
        fetch(peer, topic_of(peer, topic, want(0, 0, current_leader_epoch=epoch)))


@scenario(ApiKey.FETCH, versions=range(12, 19))
def the_last_fetched_epoch_tells_divergence(peer: Peer) -> None:
    topic = peer.create()
    peer.append(topic, batch(2))
    for epoch in (0, 1, 5, -2):
        fetch(peer, topic_of(peer, topic, want(0, 1, last_fetched_epoch=epoch)))


@scenario(ApiKey.FETCH, versions=range(4, 15))
def consumers_that_read_as_a_debugger(peer: Peer) -> None:
    topic = peer.create()
    peer.append(topic, batch(2))
    fetch(peer, topic_of(peer, topic, want(0, 0)), replica_id=-2)


# --- sessions


@scenario(ApiKey.FETCH, versions=SESSIONS)
def a_session_answers_only_what_changed(peer: Peer) -> None:
    topic = peer.create(partitions=2)
    peer.append(topic, batch(2))
    both = topic_of(peer, topic, want(0, 0), want(1, 0))
    session = fetch(peer, both, session=(0, 0), max_wait_ms=1)
    fetch(peer, session=(session, 1), max_wait_ms=1)
    fetch(peer, topic_of(peer, topic, want(0, 2)), session=(session, 2), max_wait_ms=1)
    peer.append(topic, batch(1), partition=1)
    fetch(peer, session=(session, 3), max_wait_ms=1)
    fetch(peer, session=(session, 4), max_wait_ms=1)


@scenario(ApiKey.FETCH, versions=SESSIONS)
def a_partition_leaves_its_session(peer: Peer) -> None:
    topic = peer.create(partitions=2)
    peer.append(topic, batch(2))
    peer.append(topic, batch(2), partition=1)
    session = fetch(peer, topic_of(peer, topic, want(0, 0), want(1, 0)), session=(0, 0))
    gone = topic_of(peer, topic)
    forget = [ForgottenTopic(gone.topic, gone.topic_id, [0])]
    fetch(peer, session=(session, 1), forget=forget, max_wait_ms=1)
    fetch(peer, session=(session, 2), max_wait_ms=1)


@scenario(ApiKey.FETCH, versions=SESSIONS)
def sessions_that_are_not_there(peer: Peer) -> None:
    topic = peer.create()
    asked = topic_of(peer, topic, want(0, 0))
    for session in ((12345, 1), (12345, 0), (-1, 5), (0, 1), (12345, -1), (0, 2147483647)):
        fetch(peer, asked, session=session, max_wait_ms=1)


@scenario(ApiKey.FETCH, versions=SESSIONS)
def a_wrong_epoch_is_refused_and_the_session_goes_on(peer: Peer) -> None:
    topic = peer.create()
    peer.append(topic, batch(2))
    session = fetch(peer, topic_of(peer, topic, want(0, 0)), session=(0, 0))
    for epoch in (2, 5, 1, 1, 2):
        fetch(peer, session=(session, epoch), max_wait_ms=1)


@scenario(ApiKey.FETCH, versions=SESSIONS)
def a_session_is_closed_with_a_last_full_fetch(peer: Peer) -> None:
    topic = peer.create()
    peer.append(topic, batch(2))
    asked = topic_of(peer, topic, want(0, 0))
    session = fetch(peer, asked, session=(0, 0))
    fetch(peer, asked, session=(session, -1))
    fetch(peer, session=(session, 1), max_wait_ms=1)


@scenario(ApiKey.FETCH, versions=SESSIONS)
def a_session_is_replaced_by_a_new_one(peer: Peer) -> None:
    topic = peer.create()
    peer.append(topic, batch(2))
    asked = topic_of(peer, topic, want(0, 0))
    session = fetch(peer, asked, session=(0, 0))
    renewed = fetch(peer, asked, session=(session, 0))
    peer.note("the new session has another id", renewed != session)
    fetch(peer, session=(session, 1), max_wait_ms=1)
    fetch(peer, session=(renewed, 1), max_wait_ms=1)


@scenario(ApiKey.FETCH, versions=SESSIONS)
def a_session_of_nothing_is_no_session(peer: Peer) -> None:
    fetch(peer, session=(0, 0), max_wait_ms=1)


@scenario(ApiKey.FETCH, versions=range(7, 13))
def an_unknown_topic_in_a_session_is_told_each_time(peer: Peer) -> None:
    topic = peer.create()
    unknown = topic_of(peer, peer.topic("-unknown"), want(0, 0))
    session = fetch(peer, unknown, topic_of(peer, topic, want(0, 0)), session=(0, 0), max_wait_ms=1)
    for epoch in (1, 2):
        fetch(peer, session=(session, epoch), max_wait_ms=1)


@scenario(ApiKey.FETCH, versions=range(13, 19))
def an_unknown_topic_id_in_a_session_is_told_each_time(peer: Peer) -> None:
    topic = peer.create()
    unknown = FetchTopic("", NO_SUCH_ID, [want(0, 0)])
    session = fetch(peer, unknown, topic_of(peer, topic, want(0, 0)), session=(0, 0), max_wait_ms=1)
    for epoch in (1, 2):
        fetch(peer, session=(session, epoch), max_wait_ms=1)


@scenario(ApiKey.FETCH, versions=(7, 12, 13, 18))
def a_deleted_topic_leaves_its_session(peer: Peer) -> None:
    topic = peer.create()
    peer.append(topic, batch(2))
    session = fetch(peer, topic_of(peer, topic, want(0, 0)), session=(0, 0))
    peer.delete(topic)
    fetch(peer, session=(session, 1), max_wait_ms=1)
    fetch(peer, session=(session, 2), max_wait_ms=1)
