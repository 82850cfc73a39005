"""__transaction_state over time: it is compacted, its transactional ids expire, and a restart knows what is left."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from kohort.coordinator.partitioner import partition_of
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest
from kohort.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.clients.kohort import KohortProcess
from tests.parity.peer import Peer
from tests.parity.transaction_story import TransactionStory

SETTINGS = {
    "transaction_state_log_segment_bytes": "4096",
    "transaction_state_log_num_partitions": "3",
    "log_cleaner_backoff_ms": "100",
    "log_cleaner_min_cleanable_ratio": "0.1",
    "log_flush_offset_checkpoint_interval_ms": "100",
    "log_cleaner_delete_retention_ms": "0",
    "transaction_remove_expired_transaction_cleanup_interval_ms": "100",
}
PATIENCE_S = 60
TRANSACTIONS = 60


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.05)


def story_on(process: KohortProcess) -> TransactionStory:
    peer = Peer("broker", process.address)
    peer.begin("state", 5)
    return TransactionStory(peer, ApiKey.END_TXN)


def described(story: TransactionStory, transactional_id: str) -> tuple[object, ...]:
    found = story.look_at(transactional_id)
    topics = sorted((topic.topic, sorted(topic.partitions)) for topic in found.topics)
    return found.error_code, found.transaction_state, found.producer_id, found.producer_epoch, topics


def size_of(process: KohortProcess, partition: int) -> int:
    folder = process.data / f"__transaction_state-{partition}"
    return sum(file.stat().st_size for file in folder.glob("*.log"))


def test_it_is_compacted_and_a_restart_knows_every_transactional_id(tmp_path: Path) -> None:
    with KohortProcess(tmp_path, **SETTINGS) as process:
        story = story_on(process)
        topic = story.topic("", 2)
        busy, still_open = story.begun("-busy"), story.begun("-open")
        still_open.begin((topic, 1))
        for number in range(TRANSACTIONS):
            busy.begin((topic, 0))
            busy.end(number % 3 != 0)
        partition = partition_of(busy.transactional_id, 3)
        wait_until(lambda: size_of(process, partition) < 2 * 4096, "the log to be compacted")
        before = [described(story, each.transactional_id) for each in (busy, still_open)]
        story.close()
    with KohortProcess(tmp_path, **SETTINGS | {"transaction_state_log_num_partitions": "7"}) as process:
        again = story_on(process)  # the topic keeps its partitions
        assert [described(again, each.transactional_id) for each in (busy, still_open)] == before
        assert before[1][:2] == (ErrorCode.NONE, "Ongoing")
        for producer in (busy, still_open):
            producer.story = again
            again._members.append(producer)
        assert busy.init_again().error_code == ErrorCode.NONE
        assert still_open.commit_it().error_code == ErrorCode.NONE
        again.close()


def test_transactional_ids_expire_for_good(tmp_path: Path) -> None:
    soon = SETTINGS | {"transactional_id_expiration_ms": "500"}
    with KohortProcess(tmp_path, **soon) as process:
        story = story_on(process)
        topic = story.topic("", 1)
        still_open = story.begun("-open", timeout_ms=900_000)
        still_open.begin((topic, 0))
        names = [story.begun(f"-{number}").transactional_id for number in range(20)]
        unknown = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        wait_until(lambda: {described(story, name)[0] for name in names} == {unknown}, "ids to expire")
        assert described(story, still_open.transactional_id)[1] == "Ongoing"
        story.close()
    with KohortProcess(tmp_path, **SETTINGS) as process:
        again = story_on(process)
        assert {described(again, name)[0] for name in names} == {unknown}
        assert described(again, still_open.transactional_id)[1] == "Ongoing"
        again.close()


def test_nobody_coordinates_before_the_first_question_has_made_it(tmp_path: Path) -> None:
    with KohortProcess(tmp_path) as process:
        peer = Peer("broker", process.address)
        begin = InitProducerIdRequest("shop", 60_000)
        assert peer.quietly(ApiKey.INIT_PRODUCER_ID, begin, 5).error_code == ErrorCode.NOT_COORDINATOR
        assert not list(process.data.glob("__transaction_state-*"))
        asked = FindCoordinatorRequest("", 1, ["shop"])
        assert peer.quietly(ApiKey.FIND_COORDINATOR, asked, 6).coordinators[0].error_code == ErrorCode.NONE
        assert peer.quietly(ApiKey.INIT_PRODUCER_ID, begin, 5).error_code == ErrorCode.NONE
