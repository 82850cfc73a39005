"""InitProducerId with a transactional id: epochs, ids that a client gives back, and who is fenced."""

from __future__ import annotations

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest
from kohort.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.parity.transaction_story import (
    TIMEOUT_MS,
    TRANSACTION_KEY,
    TV0,
    TransactionStory,
    transaction_story,
)

INIT = ApiKey.INIT_PRODUCER_ID
WITH_IDS = range(3, 6)  # the client may say which id and epoch it has
LAST_EPOCH = 32_766


@transaction_story(INIT, None)
def a_transactional_id_gets_one_producer_id_and_growing_epochs(s: TransactionStory) -> None:
    p = s.producer()
    for _ in range(3):
        p.init()
    s.describe_transactions()


@transaction_story(INIT, None)
def transaction_timeouts_have_bounds(s: TransactionStory) -> None:
    p = s.producer()
    for timeout_ms in (0, -1, -2147483648, 900_001, 2147483647, 1, 900_000):
        p.init(timeout_ms)
    s.describe_transactions()


@transaction_story(INIT, None)
def odd_transactional_ids(s: TransactionStory) -> None:
    for name in ("", "ü" + s.group, "x" * 5000 + s.group, s.group + " \n\0"):
        p = s.producer()
        p.transactional_id = name
        p.init()


@transaction_story(INIT, WITH_IDS)
def a_producer_id_without_an_epoch_is_refused(s: TransactionStory) -> None:
    p = s.begun()
    for producer_id, epoch in ((p.producer_id, -1), (-1, p.epoch), (-1, 0), (-2, -1), (-2, -2), (p.producer_id, -2)):
        p.init(producer_id=producer_id, epoch=epoch)
    s.describe_transactions()


@transaction_story(INIT, WITH_IDS)
def a_given_producer_id_means_nothing_to_an_unknown_transactional_id(s: TransactionStory) -> None:
    p = s.producer()
    p.init(producer_id=77_777, epoch=5)
    p.init(producer_id=p.producer_id, epoch=5)
    p.init()


@transaction_story(INIT, WITH_IDS)
def who_gives_its_ids_gets_the_next_epoch_and_may_ask_again(s: TransactionStory) -> None:
    p = s.begun()
    for _ in range(2):
        p.init(producer_id=p.producer_id, epoch=0)
    p.init_again()
    p.init(producer_id=p.producer_id, epoch=0)


@transaction_story(INIT, WITH_IDS)
def older_higher_and_foreign_ids_are_fenced(s: TransactionStory) -> None:
    p, other = s.begun(), s.begun("-other")
    for _ in range(3):
        p.init()
    for epoch in (0, p.epoch - 1, p.epoch + 1, 32_767):
        p.init(producer_id=p.producer_id, epoch=epoch)
    p.init(producer_id=other.producer_id, epoch=p.epoch)
    p.init(producer_id=77_777, epoch=p.epoch)
    s.describe_transactions()


@transaction_story(INIT, WITH_IDS)
def ids_given_before_somebody_came_without_ids_are_fenced(s: TransactionStory) -> None:
    p, newcomer = s.begun(), s.producer()
    newcomer.init()
    p.init_again()
    newcomer.init_again()
    p.init_again()


@transaction_story(INIT, None)
def an_open_transaction_is_aborted_for_a_newcomer(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p, newcomer = s.begun(), s.producer()
    p.begin(at)
    newcomer.init()
    s.until_complete(s.group)
    newcomer.init()
    s.read_all(at)
    s.describe_transactions()


@transaction_story(INIT, WITH_IDS)
def an_open_transaction_is_aborted_for_its_own_producer(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p = s.begun()
    p.begin(at)
    old = (p.producer_id, p.epoch)
    p.init_again()
    s.until_complete(s.group)
    for _ in range(2):
        p.init(producer_id=old[0], epoch=old[1])
    p.produce(at)
    p.commit_it()
    s.read_all(at)


@transaction_story(INIT, WITH_IDS)
def in_an_open_transaction_a_foreign_id_is_fenced_and_a_wrong_epoch_fences(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p = s.begun()
    p.begin(at)
    p.init(producer_id=77_777, epoch=p.epoch)
    s.describe_transactions()
    p.init(producer_id=p.producer_id, epoch=p.epoch + 7)
    s.until_complete(s.group)
    s.describe_transactions()


@transaction_story(INIT, WITH_IDS)
def a_fenced_producer_may_abort_and_go_on(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p, newcomer = s.begun(), s.producer()
    p.begin(at)
    newcomer.init()
    s.until_complete(s.group)
    p.commit_it()
    p.produce(at)
    p.abort()
    p.produce(at)
    p.commit_it()
    s.read_all(at)


@transaction_story(INIT, (0, 3, 5))
def an_old_client_that_was_fenced(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p, newcomer = s.begun(versions=TV0), s.producer()
    p.begin(at)
    newcomer.init()
    s.until_complete(s.group)
    newcomer.init()
    p.abort()
    p.commit_it()
    p.add(at)
    p.produce(at)
    s.read_all(at)


@transaction_story(INIT, None)
def a_transaction_that_is_being_completed_keeps_newcomers_waiting(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p = s.begun()
    p.get_stuck(at)
    s.producer().init()
    p.init_again()
    s.describe_transactions()


@transaction_story(INIT, (5,))
def the_last_epoch_is_followed_by_a_new_producer_id(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    s.watch_log()
    p = s.begun()
    p.go_on_to_epoch(LAST_EPOCH)
    first = (p.producer_id, p.epoch)
    p.begin(at)
    p.commit_it()
    p.end(producer_id=first[0], epoch=first[1])
    p.end(False, producer_id=first[0], epoch=first[1])
    p.begin(at)
    p.commit_it()
    p.go_on_to_epoch(LAST_EPOCH)
    first = (p.producer_id, p.epoch)
    p.init(producer_id=first[0], epoch=first[1])
    p.init(producer_id=first[0], epoch=first[1])
    p.init(producer_id=first[0], epoch=first[1] - 1)
    s.read_all(at)
    s.describe_transactions()


@transaction_story(INIT, (4,))
def a_transaction_at_the_last_epoch_is_aborted_for_a_newcomer(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p, newcomer = s.begun(), s.producer()
    p.go_on_to_epoch(LAST_EPOCH)
    p.begin(at)
    newcomer.init()
    s.until_complete(s.group)
    newcomer.init()
    p.init_again()
    s.read_all(at)
    s.describe_producers(at)


@transaction_story(INIT, (3, 4, 5))
def the_last_epoch_without_ids_is_followed_by_a_new_producer_id(s: TransactionStory) -> None:
    """The client of version 3 is told that its epoch is invalid; newer ones that they are fenced."""
    p = s.begun(versions=TV0)
    for _ in range(2):
        p.init()
    p.init(producer_id=p.producer_id, epoch=LAST_EPOCH)


@transaction_story(INIT, (5,))
def what_is_written_for_each_step_of_a_producer(s: TransactionStory) -> None:
    topic = s.topic("", 3)
    s.watch_log()
    p = s.begun()
    p.init(900)
    p.begin((topic, 2), (topic, 0))
    p.begin((topic, 1))
    p.commit_it()
    p.commit_it()
    p.abort()
    p.add_offsets()
    p.abort()
    p.begin((topic, 1))
    s.producer().init()
    s.until_complete(s.group)
    p.init()
    s.note_log()


@transaction_story(ApiKey.END_TXN, (0, 3, 4))
def what_is_written_for_an_old_client(s: TransactionStory) -> None:
    topic = s.topic("", 2)
    s.watch_log()
    p = s.begun(versions=s.of_its_time())
    p.add((topic, 1))
    p.add((topic, 1), (topic, 0))
    p.add((topic, 0))
    p.produce((topic, 0), 3)
    p.commit_it()
    p.begin((topic, 1))
    p.abort()
    p.add()
    p.abort()
    s.note_log()
    s.read_all((topic, 0))


@transaction_story(ApiKey.FIND_COORDINATOR, range(1, 7))
def every_transactional_id_has_a_coordinator(s: TransactionStory) -> None:
    for key in ("t", "", "ü", "x" * 1000):
        keys = [key] if s.version >= 4 else []
        s.ask(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest(key, TRANSACTION_KEY, keys))
    if s.version >= 4:
        s.ask(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest("", TRANSACTION_KEY, ["b", "a", "b", ""]))


@transaction_story(INIT, None)
def a_producer_without_a_transactional_id_is_no_transaction(s: TransactionStory) -> None:
    s.ask(INIT, InitProducerIdRequest(None, TIMEOUT_MS))
    s.list_transactions(pattern=".*no-transaction.*")
