"""Transactions outlive the broker: SIGKILL, and the broker again on what it had written."""

from __future__ import annotations

from kohort.protocol.api_keys import ApiKey
from tests.parity.batches import batch
from tests.parity.pairs import CRASHES
from tests.parity.story import story_of
from tests.parity.transaction_story import TV0, TransactionStory

END = ApiKey.END_TXN
SHORT_MS = 1_000

crash_story = story_of(TransactionStory, END, (5,), CRASHES, alone=True)
old_crash_story = story_of(TransactionStory, END, (4,), CRASHES, alone=True)


@crash_story
def open_transactions_go_on_after_a_crash(s: TransactionStory) -> None:
    topic = s.topic("", 2)
    p, other = s.begun(), s.begun("-other")
    s.commit({(topic, 0): 1})
    p.begin((topic, 0), records=2)
    p.commit_offsets({(topic, 0): 7})
    other.begin((topic, 0), (topic, 1))
    s.crash()
    s.describe_transactions(s.group, s.group + "-other")
    s.note_records((topic, 0), (topic, 1))
    s.fetch({topic: [0]}, stable=True)
    p.produce((topic, 0))
    p.produce((topic, 1))
    p.commit_it()
    s.fetch({topic: [0]}, stable=True)
    other.abort()
    s.note_records((topic, 0), (topic, 1))


@old_crash_story
def open_transactions_of_old_clients_go_on_after_a_crash(s: TransactionStory) -> None:
    topic = s.topic("", 2)
    p = s.begun(versions=TV0)
    p.begin((topic, 0), records=2)
    p.add_offsets()
    s.crash()
    p.produce((topic, 0), sequence=0)
    p.produce((topic, 0))
    p.produce((topic, 1))
    p.add((topic, 1))
    p.produce((topic, 1))
    p.commit_offsets({(topic, 0): 3})
    p.commit_it()
    s.fetch({topic: [0]}, stable=True)
    s.note_records((topic, 0), (topic, 1))


@crash_story
def transactions_that_were_ended_before_a_crash_are_complete_after_it(s: TransactionStory) -> None:
    topic = s.topic("", 3)
    places = [(topic, index) for index in range(3)]
    producers = [s.begun(f"-{number}") for number in range(6)]
    for number, p in enumerate(producers):
        p.begin(*places)
        p.commit_offsets({(topic, 0): number}, f"{s.group}-{number}")
    for number, p in enumerate(producers):
        p.end_at_once(number % 2 == 0)
    s.crash()
    for number in range(6):
        s.until_complete(f"{s.group}-{number}")
        s.describe_transactions(f"{s.group}-{number}")
        s.fetch({topic: [0]}, f"{s.group}-{number}", stable=True)
    for each in places:
        s.note_stable(each)


@crash_story
def who_was_fenced_stays_fenced_after_a_crash(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p, newcomer = s.begun(), s.producer()
    p.begin(at)
    newcomer.init()
    s.until_complete(s.group)
    newcomer.init()
    s.crash()
    p.produce(at)
    p.commit_it()
    p.init_again()
    newcomer.produce(at)
    newcomer.commit_it()
    s.note_records(at)


@crash_story
def a_repeated_request_for_an_epoch_is_not_known_any_more_after_a_crash(s: TransactionStory) -> None:
    p = s.begun()
    old = (p.producer_id, p.epoch)
    p.init(producer_id=old[0], epoch=old[1])
    s.crash()
    p.init(producer_id=old[0], epoch=old[1])
    p.init_again()


@crash_story
def a_retried_end_is_known_after_a_crash(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p = s.begun()
    p.begin(at)
    epoch = p.epoch
    p.commit_it()
    s.crash()
    p.end(epoch=epoch)
    p.end(False, epoch=epoch)


@crash_story
def aborted_transactions_are_listed_after_a_crash(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p = s.begun()
    for commit in (False, True, False):
        p.begin(at, records=2)
        p.end(commit)
    s.peer.append(at[0], batch(1))
    p.begin(at)
    s.crash()
    s.note_records(at)
    p.abort()
    s.note_records(at)


@crash_story
def a_transaction_takes_too_long_over_a_crash(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p = s.begun(timeout_ms=SHORT_MS)
    p.begin(at)
    s.crash()
    s.until_state("CompleteAbort")
    p.commit_it()
    p.abort()
    s.note_records(at)


@crash_story
def sequences_are_known_after_a_crash(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p = s.begun()
    p.begin(at, records=2)
    s.crash()
    p.produce(at, 2, sequence=0)
    p.produce(at, sequence=3)
    p.produce(at, sequence=2)
    p.commit_it()
    s.crash()
    p.produce(at, sequence=3)
    p.produce(at, sequence=0)
    p.abort()
    s.note_records(at)
