"""Share sessions: their epochs, what they remember, and what becomes of records when they end."""

from __future__ import annotations

from typing import Any

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages import share_acknowledge, share_fetch
from tests.parity.batches import batch
from tests.parity.pairs import FEW_SHARES
from tests.parity.share_story import AT_ONCE_MS, Sharer, ShareStory, accept, release, share_story
from tests.share_requests import CLOSE, OPEN, Acknowledgement, Partition

BOTH = (1, 2)


@share_story(versions=BOTH)
def epochs_of_a_session(s: ShareStory) -> None:
    at = s.shared(3)
    a = s.sharer("a")
    a.find_nothing(at, epoch=1)
    a.find_nothing(at, epoch=-1)
    a.find_nothing(at, epoch=-2)
    a.fetch(at)
    for epoch in (2, 7, -2, 2_147_483_647):
        a.find_nothing(epoch=epoch)
    a.find_nothing()
    a.find_nothing(epoch=1)
    a.find_nothing()
    a.close_session()
    a.find_nothing(epoch=4)
    a.fetch(at)


@share_story(ApiKey.SHARE_ACKNOWLEDGE, BOTH)
def epochs_of_acknowledgements(s: ShareStory) -> None:
    at = s.shared(5)
    a = s.sharer("a")
    for epoch in (1, 0, -1, -2):
        a.acknowledge({at: accept(0)}, epoch=epoch)
    a.fetch(at)
    for epoch in (0, 2, -2):
        a.acknowledge({at: accept(0)}, epoch=epoch)
    a.acknowledge({at: accept(0)})
    a.find_nothing()
    a.acknowledge({at: accept(1)})
    a.acknowledge({at: accept(2)}, epoch=CLOSE)
    a.acknowledge({at: accept(3)}, epoch=4)
    s.share_offsets(at)
    s.sharer("b").fetch(at)


@share_story(versions=BOTH)
def a_session_is_opened_anew(s: ShareStory) -> None:
    at = s.shared(3, 3)
    a = s.sharer("a")
    a.fetch(at, max_records=3)
    a.find_nothing()
    a.find_nothing(at, epoch=OPEN, max_records=3)
    a.find_nothing(epoch=2)
    a.find_nothing()
    a.acknowledge({at: accept(0, 5)})


@share_story(versions=BOTH)
def a_new_session_has_nothing_to_acknowledge(s: ShareStory) -> None:
    at = s.shared(3)
    a = s.sharer("a")
    a.find_nothing(at, ack={at: accept(0)})
    a.fetch(at)
    a.fetch(at, epoch=OPEN, ack={at: accept(0)})
    a.find_nothing(ack={at: accept(0)})


@share_story(versions=BOTH)
def a_closed_session_releases_its_records(s: ShareStory) -> None:
    at = s.shared(5)
    a, b = s.sharer("a"), s.sharer("b")
    a.fetch(at)
    a.fetch(ack={at: accept(0, 1)}, epoch=CLOSE)
    b.fetch(at)
    a.fetch(at, max_wait_ms=AT_ONCE_MS)
    b.acknowledge({at: accept(2)}, epoch=CLOSE)
    a.fetch()
    s.share_offsets(at)


@share_story(versions=BOTH)
def a_broken_connection_releases_the_records_of_its_session(s: ShareStory) -> None:
    at = s.shared(5)
    a, b = s.sharer("a"), s.sharer("b")
    a.fetch(at)
    a.acknowledge({at: accept(0)})
    b.fetch(at, max_records=0)  # a group without sessions would be forgotten
    b.send_fetch()
    a.hang_up()
    b.take()
    a.find_nothing()
    a.find_nothing(at, epoch=OPEN)


@share_story(versions=BOTH)
def two_members_are_told_that_they_have_accepted_a_record(s: ShareStory) -> None:
    """The first one has lost its session and knows nothing of it. It is told so while an earlier record is open."""
    at = s.shared(3, 2)
    a, b, c = s.sharer("a"), s.sharer("b"), s.sharer("c")
    a.fetch(at, max_records=1)
    c.fetch(at, max_records=1)
    b.send_fetch(at)
    a.hang_up()
    b.take()
    a.fetch(at, epoch=OPEN, max_wait_ms=300)
    b.acknowledge({at: accept(1, 2)})
    a.acknowledge({at: accept(1, 2)})
    b.acknowledge({at: accept(0)})
    a.acknowledge({at: accept(0, 2)})
    c.acknowledge({at: accept(3, 4)})
    a.acknowledge({at: accept(0, 4)})
    s.share_offsets(at)


@share_story(versions=BOTH)
def a_member_fetches_once_more_what_it_has(s: ShareStory) -> None:
    """As a client does that still has records of its last session."""
    at = s.shared(3)
    a, b = s.sharer("a"), s.sharer("b")
    b.find_nothing(at, max_records=0)
    a.fetch(at)
    a.hang_up()
    b.send_fetch(at)
    b.take()
    b.acknowledge({at: release(0, 2)})
    a.fetch(at, epoch=OPEN)
    a.acknowledge({at: accept(0, 2)})
    a.acknowledge({at: accept(0, 2)})
    s.share_offsets(at)


@share_story(versions=BOTH)
def another_connection_of_the_member_breaks(s: ShareStory) -> None:
    at = s.shared(5)
    a, twin = s.sharer("a"), s.sharer("a")
    a.fetch(at)
    twin.session_epoch = a.session_epoch
    twin.find_nothing()
    twin.hang_up()
    a.session_epoch = 2
    a.acknowledge({at: accept(0, 1)})
    s.sharer("b").find_nothing(at)
    a.find_nothing()


@share_story(versions=BOTH)
def a_session_remembers_its_partitions(s: ShareStory) -> None:
    one, other = s.shared_partitions(2, 2)
    a = s.sharer("a")
    a.fetch(one)
    a.find_nothing()
    a.fetch(other)
    a.find_nothing()
    s.peer.append(one[0], batch(2), partition=0)
    a.fetch()
    s.peer.append(one[0], batch(2), partition=1)
    a.fetch()


@share_story(versions=BOTH)
def a_session_forgets_partitions(s: ShareStory) -> None:
    one, other = s.shared_partitions(2, 2)
    a = s.sharer("a")
    a.fetch(one, other)
    a.find_nothing(forget=[other])
    s.peer.append(one[0], batch(2), partition=1)
    a.find_nothing()
    a.find_nothing(ack={other: accept(1, 2)})
    a.find_nothing(other)
    a.find_nothing(forget=[(one[0], 9), ("none", 0)])
    a.close_session()
    s.sharer("b").fetch(one)
    s.sharer("c").fetch(other)


@share_story()
def a_session_is_closed_after_it_has_forgotten_a_partition(s: ShareStory) -> None:
    at = s.shared(2)
    a = s.sharer("a")
    a.fetch(at)
    a.find_nothing(forget=[at])
    a.close_session()
    s.sharer("b").find_nothing(at)


@share_story(versions=BOTH)
def a_partition_is_added_and_forgotten_in_one_request(s: ShareStory) -> None:
    one, other = s.shared_partitions(2, 2)
    a = s.sharer("a")
    a.fetch(one)
    a.find_nothing(other, forget=[other])
    a.find_nothing(forget=[one])
    a.find_nothing()
    a.acknowledge({one: accept(1, 2)})


@share_story(versions=BOTH)
def an_empty_session(s: ShareStory) -> None:
    at = s.shared(2)
    a = s.sharer("a")
    a.find_nothing()
    a.find_nothing()
    a.fetch(at)
    a.close_session()
    a.close_session()


@share_story()
def one_member_id_in_two_groups(s: ShareStory) -> None:
    at = s.shared(2)
    other = f"{s.group}-other"
    s.begin({at: 0}, other)
    a, b = s.sharer("a"), s.sharer("a", other)
    a.fetch(at)
    b.fetch(at)
    a.close_session()
    b.acknowledge({at: accept(0, 1)})


def send_twice(a: Sharer, at: Partition, *lists: list[Acknowledgement], as_topics: bool, fetches: bool) -> Any:
    """A request that names the partition once for each list of acknowledgements; or the topic, with the partition."""
    topic_id = a.story.topic_id(at[0])
    batches: Any = share_fetch.AcknowledgementBatch if fetches else share_acknowledge.AcknowledgementBatch
    row: Any = share_fetch.FetchPartition if fetches else share_acknowledge.AcknowledgePartition
    topic: Any = share_fetch.FetchTopic if fetches else share_acknowledge.AcknowledgeTopic
    rows = [row(at[1], [batches(*each) for each in said]) for said in lists]
    topics: Any = [topic(topic_id, [each]) for each in rows] if as_topics else [topic(topic_id, rows)]
    if fetches:
        size = 50 << 20
        request = share_fetch.ShareFetchRequest(
            a.group, a.id, a.session_epoch, AT_ONCE_MS, 1, size, 500, 500, 0, False, topics
        )
        a.send_share_fetch(request)
    else:
        a.send_share_acknowledge(
            share_acknowledge.ShareAcknowledgeRequest(a.group, a.id, a.session_epoch, False, topics)
        )
    return a.take()


@share_story(versions=BOTH)
def a_session_begins_with_a_partition_named_twice(s: ShareStory) -> None:
    at = s.shared(2)
    for as_topics in (False, True):
        a = s.sharer("a" if as_topics else "b")
        send_twice(a, at, [], [], as_topics=as_topics, fetches=True)
        a.find_nothing()
    c = s.sharer("c")
    c.fetch(at)
    c.session_epoch = OPEN
    send_twice(c, at, [], [], as_topics=True, fetches=True)
    c.find_nothing(epoch=1)
    s.sharer("d").find_nothing(at)


@share_story(versions=BOTH)
def a_partition_named_twice_in_a_fetch(s: ShareStory) -> None:
    at = s.shared(8)
    a = s.sharer("a")
    a.fetch(at)
    for first, as_topics in ((0, False), (4, True)):
        send_twice(a, at, accept(first), release(first + 1), as_topics=as_topics, fetches=True)
        send_twice(a, at, accept(first + 2), [], as_topics=as_topics, fetches=True)
        send_twice(a, at, [], accept(first + 3), as_topics=as_topics, fetches=True)
    send_twice(a, at, accept(90), accept(7), as_topics=False, fetches=True)
    a.close_session()
    s.sharer("b").fetch(at)


@share_story(ApiKey.SHARE_ACKNOWLEDGE, BOTH)
def a_partition_named_twice_in_an_acknowledgement(s: ShareStory) -> None:
    at = s.shared(8)
    a = s.sharer("a")
    a.fetch(at)
    for first, as_topics in ((0, False), (4, True)):
        send_twice(a, at, accept(first), release(first + 1), as_topics=as_topics, fetches=False)
        send_twice(a, at, accept(first + 2), [], as_topics=as_topics, fetches=False)
        send_twice(a, at, [], accept(first + 3), as_topics=as_topics, fetches=False)
    send_twice(a, at, accept(90), accept(7), as_topics=False, fetches=False)
    send_twice(a, at, [(3, 1, [1])], accept(7), as_topics=False, fetches=False)
    send_twice(a, at, accept(7), [(3, 1, [1])], as_topics=False, fetches=False)
    a.fetch(at)  # what was released, so that b has to wait until the session's end has released it all
    a.close_session()
    s.sharer("b").fetch(at)


@share_story(pair=FEW_SHARES)
def there_is_no_room_for_another_session(s: ShareStory) -> None:
    at = s.shared(4)
    a, b, c = s.sharer("a"), s.sharer("b"), s.sharer("c")
    a.fetch(at)
    b.find_nothing(at)
    c.find_nothing(at)
    a.find_nothing(at, epoch=OPEN)
    b.close_session()
    c.find_nothing(at)


@share_story()
def a_member_that_is_gone_from_the_group_still_fetches(s: ShareStory) -> None:
    at = s.shared(4)
    a = s.sharer("a")
    a.start(at[0])
    a.fetch(at)
    a.leave_group()
    a.acknowledge({at: accept(0)})
    a.find_nothing()
    a.close_session()
    s.sharer("b").fetch(at)
