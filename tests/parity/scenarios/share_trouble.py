"""Records are in flight while something else happens: records and topics are deleted, settings change, groups end."""

from __future__ import annotations

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.delete_groups import DeleteGroupsRequest
from tests.parity.batches import batch
from tests.parity.share_story import ShareStory, accept, reject, release, renew, share_story
from tests.share_requests import CLOSE, RECORD_LIMIT

MAX = 2**63 - 1


# --- the log


@share_story()
def records_are_deleted_within_what_a_member_has(s: ShareStory) -> None:
    at = s.shared(6, 4)
    a, b = s.sharer("a"), s.sharer("b")
    a.fetch(at, max_records=6)
    s.peer.delete_records(at[0], 3)
    a.acknowledge({at: accept(0, 1)})
    s.share_offsets(at)
    a.acknowledge({at: release(2, 3)})
    b.find_nothing(at)
    b.acknowledge({at: accept(3) + reject(6)})
    a.acknowledge({at: accept(4, 5)})
    s.share_offsets(at)


@share_story()
def records_are_deleted_below_what_was_released(s: ShareStory) -> None:
    at = s.shared(3, 3, 3)
    a, b = s.sharer("a"), s.sharer("b")
    a.fetch(at)
    a.acknowledge({at: release(0, 5)})
    s.peer.delete_records(at[0], 4)
    b.find_nothing(at)
    b.find_nothing()
    b.acknowledge({at: accept(4, 5)})
    s.share_offsets(at)
    a.acknowledge({at: accept(6, 8)})
    s.share_offsets(at)


@share_story()
def everything_is_deleted_and_new_records_come(s: ShareStory) -> None:
    at = s.shared(3, 3)
    a = s.sharer("a")
    a.fetch(at, max_records=1)
    s.peer.delete_records(at[0], 6)
    s.peer.append(at[0], batch(2))
    a.acknowledge({at: accept(0, 2)})
    a.find_nothing()
    a.find_nothing()
    a.acknowledge({at: accept(6, 7)})
    s.share_offsets(at)


@share_story()
def a_topic_is_deleted_and_made_anew_while_records_are_in_flight(s: ShareStory) -> None:
    at = s.shared(4)
    a = s.sharer("a")
    a.fetch(at)
    s.delete_topic(at[0])
    s.topic("", 1)
    s.peer.append(at[0], batch(2))
    a.acknowledge({at: accept(0, 1)})
    s.share_offsets(at)


# --- settings


@share_story()
def fewer_locks_are_allowed_than_there_are(s: ShareStory) -> None:
    at = s.shared(150, 150)
    a, b = s.sharer("a"), s.sharer("b")
    a.fetch(at, max_records=150)
    s.set_share(partition_max_record_locks="100")
    b.find_nothing(at)
    a.acknowledge({at: accept(0, 99)})
    b.find_nothing()
    a.acknowledge({at: release(120, 149)})
    b.find_nothing()
    s.set_share(partition_max_record_locks="300")
    b.find_nothing()
    s.share_offsets(at)


@share_story()
def fewer_deliveries_are_allowed_than_there_were(s: ShareStory) -> None:
    at = s.shared(4, 2)
    a = s.sharer("a")
    a.fetch(at)
    for _ in range(2):
        a.acknowledge({at: release(0, 3)})
        a.fetch()
    s.set_share(delivery_count_limit="2")
    a.acknowledge({at: release(0, 1)})
    a.find_nothing()
    a.acknowledge({at: accept(2, 5)})
    s.share_offsets(at)


@share_story()
def more_deliveries_are_allowed_than_before(s: ShareStory) -> None:
    at = s.shared(4)
    s.set_share(delivery_count_limit="2")
    a = s.sharer("a")
    a.fetch(at)
    a.acknowledge({at: release(0, 3)})
    a.fetch()
    s.set_share(delivery_count_limit="5")
    a.acknowledge({at: release(0, 3)})
    for _ in range(4):
        a.find_nothing()
    s.share_offsets(at)


@share_story()
def renewal_is_forbidden_meanwhile(s: ShareStory) -> None:
    at = s.shared(2)
    a = s.sharer("a")
    a.fetch(at)
    a.acknowledge({at: renew(0)}, renew=True)
    s.set_share(renew_acknowledge_enable="false")
    a.acknowledge({at: renew(0)}, renew=True)
    a.acknowledge({at: accept(0) + renew(1)}, renew=True)
    a.acknowledge({at: accept(0, 1)})


# --- groups


@share_story()
def a_group_whose_deletion_Kafka_stumbles_over_while_records_are_in_flight(s: ShareStory) -> None:
    at = s.shared(4)
    a = s.sharer("a")
    a.fetch(at)
    s.ask(ApiKey.DELETE_GROUPS, DeleteGroupsRequest([s.group]))
    a.acknowledge({at: accept(0, 1)})
    s.share_offsets(at)


@share_story()
def offsets_are_altered_while_records_are_in_flight(s: ShareStory) -> None:
    at = s.shared(4, 4)
    a = s.sharer("a")
    a.fetch(at, max_records=4)
    s.begin({at: 6})
    a.acknowledge({at: accept(0, 3)})
    a.find_nothing()
    s.share_offsets(at)


# --- ranges


@share_story(ApiKey.SHARE_ACKNOWLEDGE, (1, 2))
def ranges_of_the_largest_offsets(s: ShareStory) -> None:
    at = s.shared(3)
    a = s.sharer("a")
    a.fetch(at)
    for first, last in ((0, MAX), (MAX, MAX), (1, MAX - 1), (-MAX - 1, MAX), (-5, -1), (MAX - 1, MAX)):
        a.acknowledge({at: [(first, last, [1])]})
    a.acknowledge({at: accept(0) + accept(0)})
    a.acknowledge({at: accept(0) + accept(1) + accept(1) + accept(2)})
    a.acknowledge({at: accept(0, 2)}, epoch=CLOSE)


@share_story(ApiKey.SHARE_FETCH, (1, 2))
def wishes_of_the_largest_numbers(s: ShareStory) -> None:
    at = s.shared(3, 3)
    a, b = s.sharer("a"), s.sharer("b")
    a.fetch(at, max_records=2**31 - 1, batch_size=2**31 - 1, max_bytes=2**31 - 1)
    a.acknowledge({at: release(0, 5)})
    for fields in ({"max_records": -1}, {"min_bytes": -1}, {"max_wait_ms": -1}):
        b.find_nothing(at, **fields) if "max_wait_ms" not in fields else b.fetch(at, **fields)
        b.acknowledge({at: release(0, 5)})
    b.find_nothing(at, min_bytes=2**31 - 1)
    if s.version > 1:
        b.find_nothing(max_records=1, mode=RECORD_LIMIT)
