"""Random stories of producers that share transactional ids: old clients and new ones, in odd orders.

They begin with and without their ids, write before they have added anything, repeat what they have sent, are fenced, go
on as zombies, commit offsets, end transactions that are open, over, or of somebody else; markers come from outside.
In some stories the brokers are killed. KOHORT_TRANSACTION_STORIES=200 tells more stories than usual.

What happens next depends on what the brokers have answered, so a story goes apart from itself after the first
difference. A step is done when the markers of its transaction are written. Each story is told alone: Kafka mixes up
its answers to clients that know TRANSACTION_ABORTABLE and to others if they ask at the same time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random
from typing import Any

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.delete_groups import DeleteGroupsRequest
from tests.group_requests import delete_offsets_request
from tests.parity.pairs import CRASHES, TRANSACTIONS
from tests.parity.story import story_of
from tests.parity.transaction_story import (
    READ_UNCOMMITTED,
    TIMEOUT_MS,
    TransactionalProducer,
    TransactionStory,
)
from tests.transaction_requests import Partition

STORIES = int(os.environ.get("KOHORT_TRANSACTION_STORIES", "16"))
STORIES_WITH_CRASHES = STORIES // 8
STEPS = 40
SUFFIXES = ("-a", "-b")
LATER_END = 5  # EndTxn from here on gives a new epoch

# Versions of Produce, InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit and EndTxn.
APIS = (
    ApiKey.PRODUCE, ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN,
)  # fmt: skip
CLIENTS = (
    (13, 5, 3, 4, 5, 5), (12, 5, 3, 4, 5, 5), (12, 5, 3, 4, 5, 5), (11, 5, 3, 4, 4, 4), (10, 4, 0, 0, 3, 1),
    (9, 4, 3, 3, 3, 3), (7, 0, 0, 0, 0, 0), (3, 1, 1, 1, 1, 1),
    (12, 4, 3, 4, 4, 4), (11, 5, 3, 4, 5, 5), (9, 5, 3, 4, 3, 5),  # which no client mixes like this
)  # fmt: skip


class Troupe:
    """The producers of a story: of each transactional id the newest one, and those that it has fenced."""

    def __init__(self, s: TransactionStory, chance: Random, *, with_crashes: bool = False) -> None:
        """With crashes there are no coordinator epochs in the story: Kafka's rise, and ours do not."""
        self.s, self.chance, self.with_crashes = s, chance, with_crashes
        self.topic = s.topic("", 2)
        self.places: list[Partition] = [(self.topic, 0), (self.topic, 1)]
        self.producers: dict[str, list[TransactionalProducer]] = {suffix: [] for suffix in SUFFIXES}
        self.last_batch: dict[str, tuple[TransactionalProducer, Partition, int, int, int]] = {}
        self.ended_by_old: set[str] = set()
        self.stuck: set[str] = set()
        self.clients = [chance.choice(CLIENTS) for _ in range(chance.choice((1, 2, 3)))]
        for suffix in SUFFIXES:
            self.newcomer(suffix)

    def step(self) -> None:
        suffix = self.chance.choice(SUFFIXES)
        p = self.one_of(suffix)
        steps: list[tuple[int, Callable[[str, TransactionalProducer], None]]] = [
            (2, lambda suffix, p: self.newcomer(suffix)), (2, self.init_again), (5, self.add), (8, self.begin),
            (10, self.produce), (3, self.repeat_batch), (3, self.add_offsets), (6, self.commit_offsets), (12, self.end),
            (2, self.plain_batch), (2, self.plain_commit), (1, self.forget_offsets), (4, self.look), (1, self.time_out),
            *([(2, self.crash)] if self.with_crashes else [(2, self.marker), (1, self.get_stuck)]),
        ]  # fmt: skip
        weights, actions = zip(*steps, strict=True)
        self.chance.choices(actions, weights)[0](suffix, p)
        self.settle(suffix)

    def one_of(self, suffix: str) -> TransactionalProducer:
        """Mostly the newest."""
        known = self.producers[suffix]
        return known[-1] if self.chance.random() < 0.8 else self.chance.choice(known)

    def settle(self, suffix: str) -> None:
        if suffix not in self.stuck:
            self.s.until_complete(self.s.group + suffix)

    def wrong(self, p: TransactionalProducer) -> dict[str, Any]:
        """Fields of an identity that is sometimes not its own."""
        if self.chance.random() < 0.9:
            return {}
        other = self.chance.choice(self.producers[self.chance.choice(SUFFIXES)])
        return self.chance.choice((
            {"epoch": p.epoch + 1}, {"epoch": p.epoch - 1}, {"producer_id": other.producer_id},
            {"transactional_id": other.transactional_id},
        ))  # fmt: skip

    # --- beginning

    def newcomer(self, suffix: str) -> None:
        p = self.s.producer(suffix, dict(zip(APIS, self.chance.choice(self.clients), strict=True)))
        self.producers[suffix].append(p)
        if p.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS and suffix not in self.stuck:
            self.settle(suffix)
            p.init()

    def init_again(self, suffix: str, p: TransactionalProducer) -> None:
        if p.version_of(ApiKey.INIT_PRODUCER_ID) < 3:
            p.init()
        else:
            wrong = {key: value for key, value in self.wrong(p).items() if key != "transactional_id"}
            p.init(**{"producer_id": p.producer_id, "epoch": p.epoch} | wrong)

    # --- in a transaction

    def add(self, suffix: str, p: TransactionalProducer) -> None:
        p.add(*self.chance.choice((self.places, self.places[:1], self.places[1:], [])), **self.wrong(p))

    def begin(self, suffix: str, p: TransactionalProducer) -> None:
        """As a client would."""
        if p.version_of(ApiKey.PRODUCE) < 12:
            p.add(*self.places)
            p.add_offsets()
        p.produce(self.chance.choice(self.places), 2)

    def produce(self, suffix: str, p: TransactionalProducer) -> None:
        at = self.chance.choice(self.places)
        wrong = self.wrong(p)
        if self.chance.random() < 0.05:
            wrong["sequence"] = self.chance.choice((0, 1, 7))
        self.last_batch[suffix] = p, at, p._sequences.get(at, 0), p.producer_id, p.epoch
        p.produce(at, self.chance.choice((1, 1, 3)), **wrong)

    def repeat_batch(self, suffix: str, p: TransactionalProducer) -> None:
        """A batch of before, maybe of another transaction or epoch, with another number of records."""
        if suffix in self.last_batch:
            p, at, sequence, producer_id, epoch = self.last_batch[suffix]
            p.produce(at, 1, sequence=sequence, producer_id=producer_id, epoch=epoch)

    def add_offsets(self, suffix: str, p: TransactionalProducer) -> None:
        p.add_offsets(**self.wrong(p))

    def commit_offsets(self, suffix: str, p: TransactionalProducer) -> None:
        offsets = {at: self.chance.randrange(1_000) for at in self.places if self.chance.random() < 0.7}
        if not offsets:
            return
        member: dict[str, Any] = {}
        if p.version_of(ApiKey.TXN_OFFSET_COMMIT) >= 3 and self.chance.random() < 0.1:
            member = self.chance.choice(({"generation": 0}, {"member_id": "nobody"}, {"instance": "one"}))
        p.commit_offsets(offsets, **member, **self.wrong(p))

    # --- the end

    def end(self, suffix: str, p: TransactionalProducer) -> None:
        wrong = self.wrong(p)
        is_new = p.version_of(ApiKey.END_TXN) >= LATER_END
        if is_new and suffix in self.ended_by_old:
            # Kafka takes an older epoch for that of a repetition: see docs/protocol-support.md.
            wrong = {}
            if p is not self.producers[suffix][-1]:
                return
        if wrong.get("transactional_id", p.transactional_id) != p.transactional_id:
            wrong = {}
        answer = p.end_at_once(self.chance.random() < 0.6, **wrong)
        if not answer.error_code:
            (self.ended_by_old.discard if is_new else self.ended_by_old.add)(suffix)

    def time_out(self, suffix: str, p: TransactionalProducer) -> None:
        if suffix in self.stuck:
            return
        newest = self.producers[suffix][-1]
        if newest.init(timeout_ms=1).error_code:
            self.settle(suffix)
            newest.init(timeout_ms=1)
        newest.add(self.chance.choice(self.places))
        self.s.until_state("CompleteAbort", newest.transactional_id)
        for _ in range(self.chance.randrange(3)):
            newest.end_at_once(self.chance.random() < 0.5)
            self.settle(suffix)
        newest.init(TIMEOUT_MS)
        self.ended_by_old.discard(suffix)

    def get_stuck(self, suffix: str, p: TransactionalProducer) -> None:
        """A partition refuses the coordinator's markers from here on: see TransactionStory.get_stuck."""
        if suffix in self.stuck or self.chance.random() < 0.7:
            return
        newest = self.producers[suffix][-1]
        at = self.chance.choice(self.places)
        newest.add(at)
        transaction = self.s.look_at(newest.transactional_id)
        if transaction.transaction_state != "Ongoing":
            return
        self.s.write_markers(newest, at, commit=False, coordinator_epoch=1_000)
        others = [(t.topic, index) for t in transaction.topics for index in t.partitions if t.topic == self.topic]
        others = [each for each in others if each != at]
        ends = {each: self.s.end_of(each) for each in others}
        if newest.end_at_once(self.chance.random() < 0.5).error_code == 0:
            self.stuck.add(suffix)
            for each, end in ends.items():
                self.s.until_end_is_behind(each, end)

    # --- from outside

    def marker(self, suffix: str, p: TransactionalProducer) -> None:
        """With the epoch of a producer that is there, or an older one: a higher one would fence them all."""
        places = self.chance.choice((self.places, self.places[:1]))
        self.s.write_markers(
            p, *places, commit=self.chance.random() < 0.5, epoch=max(0, p.epoch - self.chance.choice((0, 0, 1))),
            coordinator_epoch=self.chance.choice((0, 0, -1)), transaction_version=self.chance.choice((0, 2)),
        )  # fmt: skip

    def plain_batch(self, suffix: str, p: TransactionalProducer) -> None:
        p.produce(self.chance.choice(self.places), sequence=0, transactional=False, transactional_id=None)

    def plain_commit(self, suffix: str, p: TransactionalProducer) -> None:
        self.s.commit({self.chance.choice(self.places): self.chance.randrange(1_000)})

    def forget_offsets(self, suffix: str, p: TransactionalProducer) -> None:
        if self.chance.random() < 0.5:
            self.s.ask(ApiKey.OFFSET_DELETE, delete_offsets_request(self.s.group, (self.topic, [0, 1])))
        else:
            self.s.ask(ApiKey.DELETE_GROUPS, DeleteGroupsRequest([self.s.group]))

    # --- looking

    def crash(self, suffix: str, p: TransactionalProducer) -> None:
        self.s.crash()
        self.s.note_records(*self.places)

    def look(self, suffix: str, p: TransactionalProducer) -> None:
        if self.with_crashes:
            self.s.note_records(*self.places)
        else:
            self.s.read(*self.places, isolation=READ_UNCOMMITTED)
            without_later_ones(self.s.read(*self.places))
            self.s.describe_producers(*self.places)
            self.s.list_offsets(self.chance.choice(self.places), -1, -2)
        self.s.fetch({self.topic: [0, 1]}, stable=self.chance.random() < 0.6)
        if suffix not in self.stuck:
            self.s.describe_transactions(p.transactional_id)


def without_later_ones(answer: Any) -> None:
    """Kafka also names aborted transactions that begin behind the last stable offset. Nobody reads anything of them."""
    for topic in answer.responses:
        for row in topic.partitions:
            row.aborted_transactions = [
                each for each in row.aborted_transactions or () if each.first_offset < row.last_stable_offset
            ]


def telling(seed: int, *, with_crashes: bool = False) -> Callable[[TransactionStory], None]:
    def tell(s: TransactionStory) -> None:
        troupe = Troupe(s, Random(seed), with_crashes=with_crashes)
        for _ in range(STEPS):
            troupe.step()
        for suffix in SUFFIXES:
            troupe.look(suffix, troupe.one_of(suffix))

    tell.__name__ = f"random_transactions_{'with_crashes_' if with_crashes else ''}{seed}"
    return tell


def register(pair: str, tell: Callable[[TransactionStory], None]) -> None:
    story_of(TransactionStory, ApiKey.LIST_TRANSACTIONS, (2,), pair, alone=True)(tell)


for number in range(STORIES):
    register(TRANSACTIONS, telling(number))
for number in range(STORIES_WITH_CRASHES):
    register(CRASHES, telling(number, with_crashes=True))
