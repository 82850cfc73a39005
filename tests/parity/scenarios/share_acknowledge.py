"""ShareAcknowledge, and acknowledgements that come with a ShareFetch: what becomes of records, and what is refused."""

from __future__ import annotations

from kohort.protocol.api_keys import ApiKey
from tests.parity.batches import batch
from tests.parity.share_story import Sharer, ShareStory, accept, gap, reject, release, renew, share_story
from tests.share_requests import ACCEPT, GAP, REJECT, RELEASE, RENEW, Acknowledgement, Partition

ACKNOWLEDGE = ApiKey.SHARE_ACKNOWLEDGE
BOTH = (1, 2)


def reader(s: ShareStory, at: Partition, name: str = "a") -> Sharer:
    """A member that has acquired all records."""
    sharer = s.sharer(name)
    sharer.fetch(at)
    return sharer


# --- each kind


@share_story(ACKNOWLEDGE, BOTH)
def accepted_records_do_not_come_again(s: ShareStory) -> None:
    at = s.shared(5)
    a = reader(s, at)
    a.acknowledge({at: accept(0, 2)})
    s.share_offsets(at)
    a.acknowledge({at: accept(3, 4)})
    s.share_offsets(at)
    a.close_session()
    s.sharer("b").find_nothing(at)


@share_story(ACKNOWLEDGE, BOTH)
def released_records_come_again(s: ShareStory) -> None:
    at = s.shared(6)
    a = reader(s, at)
    a.acknowledge({at: release(1, 3)})
    reader(s, at, "b")
    s.share_offsets(at)


@share_story(ACKNOWLEDGE, BOTH)
def rejected_records_do_not_come_again(s: ShareStory) -> None:
    at = s.shared(6)
    a = reader(s, at)
    a.acknowledge({at: reject(0, 1) + reject(4)})
    s.share_offsets(at)
    a.close_session()
    reader(s, at, "b")


@share_story(ACKNOWLEDGE, BOTH)
def gaps_are_done_with(s: ShareStory) -> None:
    at = s.shared(6)
    a = reader(s, at)
    a.acknowledge({at: gap(0, 2) + accept(3) + gap(5)})
    s.share_offsets(at)
    a.close_session()
    reader(s, at, "b")


@share_story(ACKNOWLEDGE, BOTH)
def each_record_of_a_batch_has_its_own_kind(s: ShareStory) -> None:
    at = s.shared(8)
    a = reader(s, at)
    kinds = [ACCEPT, RELEASE, REJECT, GAP, ACCEPT, RELEASE, REJECT, ACCEPT]
    a.acknowledge({at: [(0, 7, kinds)]})
    s.share_offsets(at)
    reader(s, at, "b")


@share_story(ACKNOWLEDGE, BOTH)
def records_of_several_batches_are_acknowledged_at_once(s: ShareStory) -> None:
    at = s.shared(3, 3, 3)
    a = reader(s, at)
    a.acknowledge({at: accept(1, 6)})
    s.share_offsets(at)
    a.acknowledge({at: release(0) + release(7, 8)})
    reader(s, at, "b")


@share_story(ACKNOWLEDGE, BOTH)
def partitions_are_acknowledged_together(s: ShareStory) -> None:
    one, other = s.shared_partitions(2, 3)
    a = s.sharer("a")
    a.fetch(one, other)
    a.acknowledge({one: accept(1, 3), other: release(1, 3)})
    s.share_offsets(one, other)


@share_story()
def acknowledgements_come_with_a_fetch(s: ShareStory) -> None:
    at = s.shared(5, 5)
    a = s.sharer("a")
    a.fetch(at, max_records=5)
    a.fetch(at, ack={at: accept(0, 1) + release(2) + reject(3, 4)}, max_records=5)
    a.fetch(ack={at: accept(2) + accept(5, 9)}, max_wait_ms=100)
    s.share_offsets(at)


@share_story()
def a_fetch_with_a_bad_acknowledgement_fetches_all_the_same(s: ShareStory) -> None:
    at = s.shared(2, 2)
    a = s.sharer("a")
    a.fetch(at, max_records=2)
    a.fetch(ack={at: accept(7)}, max_records=2)
    a.find_nothing(ack={at: [(0, 1, [9])]})


@share_story()
def what_is_released_counts_as_delivered(s: ShareStory) -> None:
    at = s.shared(3)
    a = reader(s, at)
    for _ in range(3):
        a.fetch(ack={at: release(0, 2)})
    s.share_offsets(at)


@share_story()
def records_are_delivered_no_more_often_than_the_limit(s: ShareStory) -> None:
    at = s.shared(4)
    s.set_share(delivery_count_limit="3")
    a = reader(s, at)
    a.fetch(ack={at: release(0, 3)})
    a.fetch(ack={at: release(0, 1) + accept(2)})
    a.find_nothing(ack={at: release(0)})
    a.acknowledge({at: release(1) + release(3)})
    s.share_offsets(at)
    a.fetch()


@share_story()
def records_that_were_delivered_often_come_alone(s: ShareStory) -> None:
    at = s.shared(4, 3)
    a = s.sharer("a")
    a.fetch(at)
    for _ in range(12):
        answer = a.find_nothing(ack={at: release(0, 6)}) if a.session_epoch == 1 else a.find_nothing()
        got = [each for row in answer.responses for p in row.partitions for each in p.acquired_records]
        if not got:
            break
        a.acknowledge({at: [each for row in got for each in release(row.first_offset, row.last_offset)]})
    s.share_offsets(at)


@share_story()
def records_that_were_delivered_often_come_alone_among_new_ones(s: ShareStory) -> None:
    at = s.shared(4)
    a = reader(s, at)
    a.fetch(ack={at: release(0, 3)})
    s.peer.append(at[0], batch(5), batch(5))
    a.fetch(ack={at: release(0, 3)})
    s.sharer("b").fetch(at)
    s.sharer("c").find_nothing(at)


# --- what is refused


@share_story(ACKNOWLEDGE, BOTH)
def acknowledgements_that_cannot_be(s: ShareStory) -> None:
    at = s.shared(6)
    a = reader(s, at)
    said: list[list[Acknowledgement]] = [
        [(3, 2, [ACCEPT])],
        [(-1, 2, [ACCEPT])],
        [(0, 2, [])],
        [(0, 2, [ACCEPT, ACCEPT])],
        [(0, 2, [ACCEPT] * 4)],
        [(0, 2, [5])],
        [(0, 2, [-1])],
        [(0, 2, [ACCEPT, 77, ACCEPT])],
        [(0, 2, [RENEW])],
        [(4, 5, [ACCEPT]), (0, 1, [ACCEPT])],
        [(0, 3, [ACCEPT]), (3, 5, [ACCEPT])],
        [(0, 3, [ACCEPT]), (2, 5, [ACCEPT])],
        [(0, 6, [ACCEPT])],
        [(6, 6, [ACCEPT])],
        [(100, 200, [ACCEPT])],
    ]
    for each in said:
        a.acknowledge({at: each})
    a.acknowledge({at: []})
    a.acknowledge({})
    s.share_offsets(at)
    a.acknowledge({at: accept(0, 5)})


@share_story(ACKNOWLEDGE, BOTH)
def records_of_somebody_else(s: ShareStory) -> None:
    at = s.shared(4, 4)
    a, b = s.sharer("a"), s.sharer("b")
    a.fetch(at, max_records=4)
    b.fetch(at)
    a.acknowledge({at: accept(4, 7)})
    a.acknowledge({at: accept(2, 5)})
    b.acknowledge({at: accept(0)})
    b.acknowledge({at: accept(4, 7)})
    a.acknowledge({at: accept(0, 3)})
    s.share_offsets(at)


@share_story(ACKNOWLEDGE, BOTH)
def records_that_are_done_with_already(s: ShareStory) -> None:
    at = s.shared(6)
    a = reader(s, at)
    a.acknowledge({at: accept(2, 3) + reject(4) + release(5)})
    for first, last in ((2, 3), (4, 4), (5, 5), (1, 2), (3, 4)):
        a.acknowledge({at: accept(first, last)})
    a.acknowledge({at: accept(0, 1)})
    for first, last in ((0, 1), (0, 4), (3, 5), (0, 5)):
        a.acknowledge({at: accept(first, last)})
    s.share_offsets(at)


@share_story(ACKNOWLEDGE, BOTH)
def one_bad_acknowledgement_undoes_its_neighbours(s: ShareStory) -> None:
    at = s.shared(3, 3)
    a, b = s.sharer("a"), s.sharer("b")
    a.fetch(at, max_records=3)
    b.fetch(at)
    a.acknowledge({at: accept(0, 1) + release(2) + accept(3)})
    s.share_offsets(at)
    a.acknowledge({at: accept(0, 1) + release(2)})
    s.share_offsets(at)


@share_story(ACKNOWLEDGE, BOTH)
def a_bad_partition_does_not_hurt_the_other(s: ShareStory) -> None:
    one, other = s.shared_partitions(2, 3)
    a = s.sharer("a")
    a.fetch(one, other)
    a.acknowledge({one: accept(1, 9), other: accept(1, 3), (one[0], 9): accept(1), ("none", 0): accept(0)})
    s.share_offsets(one, other)


@share_story(ACKNOWLEDGE, BOTH)
def a_partition_that_nobody_has_fetched(s: ShareStory) -> None:
    at = s.shared(3)
    topic = s.topic("-other", 1)
    a = reader(s, at)
    a.acknowledge({(topic, 0): accept(0)})
    a.acknowledge({at: accept(0, 2)})


@share_story(ACKNOWLEDGE, BOTH)
def an_acknowledgement_of_more_than_the_batch(s: ShareStory) -> None:
    at = s.shared(3, 3)
    a = s.sharer("a")
    a.fetch(at, max_records=3)
    a.acknowledge({at: accept(0, 5)})
    a.acknowledge({at: accept(0, 3)})
    a.acknowledge({at: accept(0, 2)})


@share_story(ACKNOWLEDGE, BOTH)
def ids_that_an_acknowledgement_cannot_have(s: ShareStory) -> None:
    at = s.shared(3)
    a = reader(s, at)
    for member_id in (None, "", "m" * 37, "m" * 36):
        a.acknowledge({at: accept(0)}, member_id=member_id)
    a.acknowledge({at: accept(0)}, group=None)
    a.acknowledge({at: accept(0)}, group="")


# --- renewal


@share_story(ACKNOWLEDGE, (2,))
def locks_are_renewed(s: ShareStory) -> None:
    at = s.shared(4)
    a = reader(s, at)
    a.acknowledge({at: renew(0, 3)}, renew=True)
    s.sharer("b").find_nothing(at)
    a.acknowledge({at: renew(0) + accept(1) + release(2) + renew(3)}, renew=True)
    a.acknowledge({at: accept(0) + accept(3)})
    s.share_offsets(at)


@share_story(ACKNOWLEDGE, (2,))
def a_renewal_that_does_not_say_so(s: ShareStory) -> None:
    at = s.shared(4)
    a = reader(s, at)
    a.acknowledge({at: renew(0, 1)})
    a.find_nothing(ack={at: renew(0, 1)})
    a.acknowledge({at: accept(2, 3)}, renew=True)


@share_story(ACKNOWLEDGE, (2,))
def a_group_without_renewal(s: ShareStory) -> None:
    at = s.shared(4)
    s.set_share(renew_acknowledge_enable="false")
    a = reader(s, at)
    a.acknowledge({at: renew(0, 3)}, renew=True)
    a.acknowledge({at: accept(0) + renew(1, 3)}, renew=True)
    s.share_offsets(at)


@share_story()
def a_fetch_that_renews_fetches_nothing(s: ShareStory) -> None:
    at = s.shared(2, 2)
    nothing = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0, "batch_size": 0}
    a = s.sharer("a")
    a.fetch(at, max_records=2)
    a.fetch(ack={at: renew(0, 1)}, renew=True, **nothing)
    a.fetch(renew=True, **nothing)
    for name in ("max_wait_ms", "min_bytes", "max_bytes", "max_records", "batch_size"):
        a.fetch(ack={at: renew(0, 1)}, renew=True, **nothing | {name: 1})
    a.fetch(ack={at: renew(3)}, renew=True, **nothing)
    a.fetch(max_records=2)


@share_story(ACKNOWLEDGE, (2,))
def renewals_that_cannot_be(s: ShareStory) -> None:
    at = s.shared(3, 3)
    a, b = s.sharer("a"), s.sharer("b")
    a.fetch(at, max_records=3)
    b.fetch(at)
    a.acknowledge({at: renew(3)}, renew=True)
    a.acknowledge({at: renew(0, 6)}, renew=True)
    a.acknowledge({at: accept(0, 2)})
    a.acknowledge({at: renew(0, 2)}, renew=True)
    b.acknowledge({at: renew(3, 4) + release(5)}, renew=True)
    b.acknowledge({at: renew(5)}, renew=True)
