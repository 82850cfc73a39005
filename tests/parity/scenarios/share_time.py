"""Share groups when time passes: locks of records, sessions of members, the interval between assignments."""

from __future__ import annotations

from kohort.protocol.api_keys import ApiKey
from tests.parity.pairs import FEW_SHARES
from tests.parity.share_story import ShareStory, accept, reject, release, renew, share_story
from tests.share_requests import RECORD_LIMIT, Partition

SHORT_MS = 1_000


def short_locks(s: ShareStory) -> None:
    s.set_share(record_lock_duration_ms=f"{SHORT_MS}")


def until_locks_have_expired(s: ShareStory, at: Partition) -> None:
    """Another group locks records now, and its locks expire. Kafka wakes a waiting member up for each lock alone."""
    clock = f"{s.group}-clock"
    s.set_share_of(clock, record_lock_duration_ms=f"{SHORT_MS}")
    s.begin({at: 0}, clock)
    with s.unwritten():
        s.sharer("a", clock).fetch(at)
        s.sharer("b", clock).fetch(at)


@share_story(versions=(1, 2))
def a_lock_expires(s: ShareStory) -> None:
    at = s.shared(5)
    short_locks(s)
    a, b = s.sharer("a"), s.sharer("b")
    a.fetch(at)
    a.acknowledge({at: accept(0) + reject(2)})
    until_locks_have_expired(s, at)
    b.fetch(at)
    a.acknowledge({at: accept(1)})
    b.acknowledge({at: accept(1) + accept(3, 4)})
    s.share_offsets(at)


@share_story()
def a_record_whose_lock_expired_cannot_be_accepted(s: ShareStory) -> None:
    at = s.shared(3)
    short_locks(s)
    a, b = s.sharer("a"), s.sharer("b")
    a.fetch(at)
    b.fetch(at)
    with s.unwritten():
        b.close_session()
    for said in (accept(0), release(1), reject(2)):
        a.acknowledge({at: said})
    a.fetch()


@share_story()
def a_lock_expires_as_often_as_records_may_be_delivered(s: ShareStory) -> None:
    at = s.shared(2)
    s.set_share(record_lock_duration_ms=f"{SHORT_MS}", delivery_count_limit="2")
    a, b = s.sharer("a"), s.sharer("b")
    a.fetch(at)
    b.fetch(at)
    b.acknowledge({at: accept(0)})
    s.peer.wait_until(lambda: _lag(s, at) == 0, "the last lock to expire")
    s.share_offsets(at)
    a.find_nothing()


def _lag(s: ShareStory, at: Partition) -> int:
    with s.unwritten():
        answer = s.share_offsets(at)
    return int(answer.groups[0].topics[0].partitions[0].lag)


@share_story()
def a_renewed_lock_expires_later(s: ShareStory) -> None:
    at = s.shared(2, 2)
    short_locks(s)
    a, b = s.sharer("a"), s.sharer("b")
    a.fetch(at)
    with s.unwritten():  # a second of somebody else's lock goes by three times
        for _ in range(6):
            a.acknowledge({at: renew(0, 1)}, renew=True)
            b.find_nothing(*((at,) if b.session_epoch == 0 else ()))
            b.find_nothing(max_wait_ms=400)
    a.acknowledge({at: accept(0, 1)})
    a.acknowledge({at: accept(2, 3)})
    s.share_offsets(at)


@share_story()
def records_with_a_limit_expire_one_by_one(s: ShareStory) -> None:
    at = s.shared(6)
    short_locks(s)
    a, b = s.sharer("a"), s.sharer("b")
    a.fetch(at, max_records=2, mode=RECORD_LIMIT)
    b.fetch(at, max_records=4, mode=RECORD_LIMIT)
    b.acknowledge({at: accept(2, 3)})
    s.sharer("c").fetch(at, max_records=1, mode=RECORD_LIMIT)


@share_story()
def a_lock_as_long_as_the_setting_says(s: ShareStory) -> None:
    at = s.shared(2)
    s.set_share(record_lock_duration_ms="45000")
    a = s.sharer("a")
    a.fetch(at)
    a.acknowledge({at: accept(0)})
    s.set_share(record_lock_duration_ms="20000")
    a.acknowledge({at: accept(1)})
    a.find_nothing()


# --- the window of records in flight


@share_story()
def no_more_records_are_locked_than_allowed(s: ShareStory) -> None:
    at = s.shared(60, 60, 60)
    s.set_share(partition_max_record_locks="100")
    a, b = s.sharer("a"), s.sharer("b")
    a.fetch(at)
    b.find_nothing(at)
    a.acknowledge({at: accept(0, 29)})
    b.find_nothing()
    a.acknowledge({at: accept(40, 119)})
    b.find_nothing()
    a.acknowledge({at: accept(30, 39)})
    b.fetch()


@share_story()
def released_records_of_a_full_window_come_again(s: ShareStory) -> None:
    at = s.shared(100, 20)
    s.set_share(partition_max_record_locks="100")
    a, b = s.sharer("a"), s.sharer("b")
    a.fetch(at)
    a.acknowledge({at: release(90, 99)})
    b.fetch(at)
    b.find_nothing()
    a.acknowledge({at: accept(0, 50)})
    b.fetch()


@share_story()
def a_window_is_filled_one_by_one(s: ShareStory) -> None:
    at = s.shared(80, 80)
    s.set_share(partition_max_record_locks="100")
    a, b = s.sharer("a"), s.sharer("b")
    a.fetch(at, max_records=70, mode=RECORD_LIMIT)
    b.fetch(at, max_records=70, mode=RECORD_LIMIT)
    b.find_nothing(max_records=70, mode=RECORD_LIMIT)
    a.acknowledge({at: accept(0, 69)})
    b.find_nothing(max_records=70, mode=RECORD_LIMIT)


# --- members


@share_story(ApiKey.SHARE_GROUP_HEARTBEAT, (1,))
def a_sharer_that_is_not_heard_from_is_gone(s: ShareStory) -> None:
    topic = s.topic("", 2)
    s.set_share(session_timeout_ms=f"{SHORT_MS}", heartbeat_interval_ms="200")
    (a,) = s.sharers(topic, "a", partitions=2)
    s.until_group_epoch(4)
    s.describe_sharers()
    a.beat()


@share_story(ApiKey.SHARE_GROUP_HEARTBEAT, (1,), pair=FEW_SHARES)
def a_full_share_group_takes_nobody_more(s: ShareStory) -> None:
    topic = s.topic("", 1)
    a, b, c = s.sharer("a"), s.sharer("b"), s.sharer("c")
    a.start(topic)
    b.start(topic)
    c.start(topic)
    c.beat(epoch=1)
    a.start(topic)
    b.leave_group()
    c.start(topic)


@share_story(ApiKey.SHARE_GROUP_HEARTBEAT, (1,), pair=FEW_SHARES)
def a_second_assignment_of_a_share_group_waits_for_its_time(s: ShareStory) -> None:
    topic = s.topic("", 1)
    (a,) = s.sharers(topic, "a", partitions=1)
    s.set_share(assignment_interval_ms="15000")
    b = s.sharer("b")
    b.start(topic)
    s.describe_sharers()
    b.beat()
    s.set_share(assignment_interval_ms="0")
    b.beat()
    a.beat()
    s.describe_sharers()


@share_story(ApiKey.SHARE_GROUP_HEARTBEAT, (1,))
def a_share_group_has_a_heartbeat_interval_of_its_own(s: ShareStory) -> None:
    topic = s.topic("", 1)
    a = s.sharer("a")
    a.start(topic)
    s.set_share(heartbeat_interval_ms="1234")
    a.beat()
    s.sharer("b", f"{s.group}-other").start(topic)
