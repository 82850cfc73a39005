"""ShareFetch: which records a member of a share group gets, how many at once, and what it waits for."""

from __future__ import annotations

from kohort.protocol.api_keys import ApiKey
from tests.parity.batches import batch
from tests.parity.share_story import AT_ONCE_MS, ShareStory, accept, release, share_story
from tests.share_requests import RECORD_LIMIT

BOTH = (1, 2)


@share_story(versions=BOTH)
def records_are_acquired_once(s: ShareStory) -> None:
    at = s.shared(5)
    a, b = s.sharer("a"), s.sharer("b")
    a.fetch(at)
    b.find_nothing(at)
    a.find_nothing()


@share_story(versions=BOTH)
def records_of_several_batches_are_acquired_together(s: ShareStory) -> None:
    at = s.shared(3, 2, 4)
    s.sharer("a").fetch(at)


@share_story(versions=BOTH)
def compressed_records_are_acquired(s: ShareStory) -> None:
    at = s.shared(10, 10, compression=1)
    a = s.sharer("a")
    a.fetch(at, max_records=5)
    a.fetch(ack={at: accept(0, 9)}, max_records=5)


@share_story(versions=BOTH)
def a_group_that_starts_in_the_middle_of_a_batch_gets_its_end(s: ShareStory) -> None:
    at = s.shared(5, 5, start=3)
    s.sharer("a").fetch(at)


@share_story()
def a_group_that_starts_behind_the_end_waits_for_its_offset(s: ShareStory) -> None:
    at = s.shared(5, start=7)
    a = s.sharer("a")
    a.find_nothing(at)
    s.peer.append(at[0], batch(5))
    a.find_nothing()
    s.sharer("b").find_nothing(at)


@share_story(versions=BOTH)
def more_records_than_wanted_are_acquired_if_a_batch_has_more(s: ShareStory) -> None:
    at = s.shared(5, 5, 5)
    a, b = s.sharer("a"), s.sharer("b")
    a.fetch(at, max_records=1)
    b.fetch(at, max_records=6)


@share_story()
def a_member_with_a_record_limit_gets_no_more_than_it_wants(s: ShareStory) -> None:
    at = s.shared(5, 5, 5)
    a, b, c = s.sharer("a"), s.sharer("b"), s.sharer("c")
    a.fetch(at, max_records=2, mode=RECORD_LIMIT)
    b.fetch(at, max_records=6, mode=RECORD_LIMIT)
    c.fetch(at, max_records=100, mode=RECORD_LIMIT)


@share_story()
def both_kinds_of_members_share_a_partition(s: ShareStory) -> None:
    at = s.shared(10, 10)
    a, b = s.sharer("a"), s.sharer("b")
    a.fetch(at, max_records=3, mode=RECORD_LIMIT)
    b.fetch(at, max_records=1)
    a.fetch(ack={at: release(1) + accept(2)}, max_records=2, mode=RECORD_LIMIT)


@share_story(versions=(2,))
def acquire_modes_that_Kafka_stumbles_over(s: ShareStory) -> None:
    at = s.shared(5)
    for number, mode in enumerate((2, -1, 127)):
        s.sharer(f"m{number}").find_nothing(at, mode=mode, max_records=2)


@share_story(versions=BOTH)
def acquired_records_come_in_batches_of_the_size_wanted(s: ShareStory) -> None:
    at = s.shared(10, 10, 10)
    a, b, c = s.sharer("a"), s.sharer("b"), s.sharer("c")
    a.fetch(at, max_records=10, batch_size=3)
    b.fetch(at, max_records=10, batch_size=100)
    c.fetch(at, max_records=10, batch_size=1)
    a.fetch(ack={at: release(2, 4)}, batch_size=3)


@share_story(versions=BOTH)
def batch_sizes_that_Kafka_stumbles_over(s: ShareStory) -> None:
    at = s.shared(4, 4, 4)
    for number, size in enumerate((0, -1)):
        s.sharer(f"m{number}").find_nothing(at, max_records=4, batch_size=size)


@share_story(versions=BOTH)
def nobody_wants_records(s: ShareStory) -> None:
    at = s.shared(5)
    a = s.sharer("a")
    a.find_nothing(at, max_records=0)
    a.find_nothing(max_records=-1)
    a.find_nothing(max_bytes=0)
    a.fetch()


@share_story(versions=BOTH)
def a_single_batch_is_acquired_even_if_it_is_too_large(s: ShareStory) -> None:
    at = s.shared(5, 5)
    a = s.sharer("a")
    a.fetch(at, max_bytes=1)
    a.fetch(max_bytes=1)
    a.find_nothing(max_bytes=1)


@share_story()
def as_many_batches_as_fit_are_acquired(s: ShareStory) -> None:
    at = s.shared(1, 1, 1, 1, size_bytes=500)
    a = s.sharer("a")
    a.fetch(at, max_bytes=1_200)
    a.fetch(max_bytes=1_200)


@share_story()
def what_is_wanted_at_least_is_waited_for(s: ShareStory) -> None:
    at = s.shared(3)
    a = s.sharer("a")
    a.find_nothing(at, min_bytes=10_000)
    a.fetch(ack={at: release(0, 2)}, min_bytes=50)


@share_story(versions=BOTH)
def a_fetch_waits_for_records(s: ShareStory) -> None:
    at = s.shared()
    a = s.sharer("a")
    a.send_fetch(at)
    s.sharer("b").find_nothing(at)
    s.peer.append(at[0], batch(3))
    a.take()


@share_story()
def a_fetch_waits_for_records_that_somebody_releases(s: ShareStory) -> None:
    at = s.shared(3)
    a, b = s.sharer("a"), s.sharer("b")
    a.fetch(at)
    b.send_fetch(at)
    a.acknowledge({at: accept(0) + release(1, 2)})
    b.take()
    a.find_nothing()


@share_story()
def no_time_to_wait(s: ShareStory) -> None:
    at = s.shared(1)
    a = s.sharer("a")
    a.fetch(at)
    a.fetch(max_wait_ms=0)
    a.acknowledge({at: release(0)})
    a.fetch(max_wait_ms=0)


@share_story(versions=BOTH)
def partitions_are_fetched_together(s: ShareStory) -> None:
    one, other = s.shared_partitions(2, 3)
    a, b = s.sharer("a"), s.sharer("b")
    a.fetch(one, other)
    a.fetch(ack={one: release(2), other: release(3) + accept(1, 2)})
    b.find_nothing(one, other)


@share_story()
def the_limit_of_records_holds_for_all_partitions_together(s: ShareStory) -> None:
    three = s.shared_partitions(3, 4)
    a = s.sharer("a")
    a.fetch(*three, max_records=5)
    a.fetch(max_records=5)
    a.find_nothing(max_records=5)


@share_story()
def the_first_partition_changes_with_the_session_epoch(s: ShareStory) -> None:
    three = s.shared_partitions(3, 4)
    a = s.sharer("a")
    firsts = []
    with s.unwritten():
        a.fetch(*three)
        a.acknowledge({at: release(1, 4) for at in three})
        for _ in range(3):
            answer = a.fetch(max_bytes=1)
            (first,) = [each.partition_index for each in answer.responses[0].partitions if each.acquired_records]
            firsts.append(first)
            a.fetch(ack={(three[0][0], first): release(1, 4)}, max_records=0)
            a.fetch(max_records=0)
    s.peer.note("each partition is the first once", sorted(firsts))


@share_story(versions=BOTH)
def topics_and_partitions_that_are_not_there(s: ShareStory) -> None:
    at = s.shared(2)
    a = s.sharer("a")
    a.find_nothing((at[0], 7))
    a.find_nothing(at, (at[0], -1))
    a.find_nothing(ack={(at[0], 7): accept(0), at: accept(0)})
    a.find_nothing(forget=[(at[0], 7), (at[0], -1)])
    a.find_nothing()


@share_story(versions=BOTH)
def topics_whose_fetch_Kafka_stumbles_over(s: ShareStory) -> None:
    at = s.shared(2)
    s.sharer("a").find_nothing(("no such topic", 0))
    b = s.sharer("b")
    b.fetch(at)
    s.delete_topic(at[0])
    b.find_nothing()
    s.sharer("c").find_nothing(at)


@share_story()
def a_topic_is_deleted_while_its_records_are_read(s: ShareStory) -> None:
    at = s.shared(4)
    a = s.sharer("a")
    a.fetch(at)
    s.delete_topic(at[0])
    a.acknowledge({at: accept(0, 1)})
    a.acknowledge({at: accept(2, 3)}, epoch=-1)


@share_story(versions=BOTH)
def a_group_that_was_never_heard_of(s: ShareStory) -> None:
    topic = s.topic("", 1)
    s.peer.append(topic, batch(3))
    a = s.sharer("a")
    a.find_nothing((topic, 0))
    a.find_nothing()


@share_story()
def a_group_begins_where_its_setting_says(s: ShareStory) -> None:
    topic = s.topic("", 1)
    s.peer.append(topic, batch(3))
    for number, reset in enumerate(("earliest", "latest", "by_duration:PT30M", "by_duration:PT2H")):
        group = f"{s.group}-{number}"
        s.set_share_of(group, auto_offset_reset=reset)
        a = s.sharer("a", group)
        a.start(topic)
        s.settle(a, partitions=1, group=group)
        a.find_nothing((topic, 0))
        s.peer.append(topic, batch(1))
        a.fetch()
        s.share_offsets((topic, 0), group=group)


@share_story(versions=BOTH)
def a_group_reads_what_others_have_read(s: ShareStory) -> None:
    at = s.shared(3)
    other = f"{s.group}-other"
    s.begin({at: 1}, other)
    s.sharer("a").fetch(at)
    s.sharer("a", other).fetch(at)


@share_story(ApiKey.SHARE_FETCH, BOTH)
def ids_that_a_fetch_cannot_have(s: ShareStory) -> None:
    at = s.shared(3)
    for member_id in (None, "", "m" * 37, "m" * 36, " "):
        s.sharer("a").find_nothing(at, member_id=member_id)
    s.sharer("a").find_nothing(at, group=None)
    s.sharer("a").find_nothing(at, group="")


@share_story()
def records_that_were_deleted_are_passed_over(s: ShareStory) -> None:
    at = s.shared(5, 5, 5)
    a, b = s.sharer("a"), s.sharer("b")
    a.fetch(at, max_records=5)
    s.peer.delete_records(at[0], 7)
    b.find_nothing(at)
    b.fetch()
    a.acknowledge({at: accept(0, 4)})
    s.share_offsets(at)


@share_story()
def a_group_starts_before_the_log(s: ShareStory) -> None:
    at = s.shared(5, 5)
    s.peer.delete_records(at[0], 6)
    a = s.sharer("a")
    a.find_nothing(at)
    a.fetch()
    a.acknowledge({at: accept(6, 9)})
    s.share_offsets(at)


@share_story()
def the_log_is_emptied_while_records_are_acquired(s: ShareStory) -> None:
    at = s.shared(5)
    a, b = s.sharer("a"), s.sharer("b")
    a.fetch(at)
    s.peer.delete_records(at[0], 5)
    b.find_nothing(at)
    a.acknowledge({at: release(0, 4)})
    b.find_nothing()
    s.peer.append(at[0], batch(2))
    b.fetch()


@share_story()
def a_member_that_waits_gets_its_answer_in_time(s: ShareStory) -> None:
    at = s.shared()
    a = s.sharer("a")
    a.fetch(at, max_wait_ms=AT_ONCE_MS)
    a.fetch(max_wait_ms=AT_ONCE_MS)
    a.close_session()


@share_story()
def a_group_reads_committed_records_where_all_are(s: ShareStory) -> None:
    at = s.shared(3, 3)
    s.set_share(isolation_level="read_committed")
    a = s.sharer("a")
    a.fetch(at)
    a.acknowledge({at: accept(0, 5)})
    a.find_nothing()
    s.peer.append(at[0], batch(2))
    a.fetch()
