"""Random stories of a share group whose members make mistakes and whose sessions end while somebody changes the group.

Three partitions of two topics are read together. Members lose their connections, open sessions anew, use wrong epochs,
acknowledge with a fetch and without, in wrong orders, twice, and what others have; partitions are forgotten, and named
twice in a request. Meanwhile start offsets are altered and deleted, records are deleted, topics grow, and settings
change. KOHORT_SHARE_STORIES=100 tells more stories than usual.

Kafka does some things after its answer: it unlocks the share partitions of a fetch, releases the records of a session
that has ended, and reads the state of a share partition. So a story waits: `released` looks into the persisted state,
and `warm_up` fetches until every share partition is there. Which of several partitions Kafka fills first depends on the
offsets whose place in the log it remembers from earlier fetches; so a fetch of several wants all that is there. Whether
a fetch finds what it releases itself depends on which is quicker; so a fetch that acknowledges wants no records.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages import read_share_group_state, share_fetch
from tests.parity.batches import batch
from tests.parity.share_story import Sharer, ShareStory, share_story
from tests.share_requests import (
    ACCEPT,
    BATCH_OPTIMIZED,
    CLOSE,
    GAP,
    OPEN,
    RECORD_LIMIT,
    REJECT,
    RELEASE,
    RENEW,
    Acknowledgement,
    Partition,
    alter_offsets_request,
    delete_share_offsets_request,
)

STORIES = int(os.environ.get("KOHORT_SHARE_STORIES", "12"))
STEPS = 45
SOON_MS = 300  # a fetch that finds nothing waits this long
MAX_EPOCH = 2**31 - 1

Said = dict[Partition, list[Acknowledgement]]
Held = dict[Partition, dict[int, int]]  # offsets, and how often they were delivered


class Storm:
    def __init__(self, s: ShareStory, chance: Random) -> None:
        self.s, self.chance = s, chance
        self.pairs = s.topic("-pairs", 2)
        self.single = s.topic("-single", 1)
        self.partitions: list[Partition] = [(self.pairs, 0), (self.pairs, 1), (self.single, 0)]
        s.begin(dict.fromkeys(self.partitions, 0))
        s.set_share(record_lock_duration_ms="60000")
        if chance.random() < 0.3:
            s.set_share(delivery_count_limit=str(chance.choice((2, 3, 10))))
        if chance.random() < 0.3:
            s.set_share(partition_max_record_locks="100")
        self.ends = dict.fromkeys(self.partitions, 0)
        self.anchor = s.sharer("anchor")  # as long as it has a session, the leader keeps the group in memory
        self.members = [s.sharer(name) for name in "abc"[: chance.choice((2, 3))]]
        self.has: dict[str, Held] = {each.id: {} for each in self.members}
        self.reads: dict[str, set[Partition]] = {each.id: set() for each in self.members}  # in its session
        for at in self.partitions:
            self.append(at)
        self.warm_up(*self.partitions)

    # --- what is not compared

    def warm_up(self, *partitions: Partition) -> None:
        """Until the leader has the newest state of each share partition."""
        with self.s.unwritten():
            for at in partitions:
                self.s.peer.wait_until(lambda at=at: self._is_warm(at), f"the state of {at}")

    def _is_warm(self, at: Partition) -> bool:
        answer = self.anchor.fetch(at, epoch=OPEN, max_records=1, mode=RECORD_LIMIT, max_wait_ms=1_000)
        acquired = ranges(answer, self.s, at)
        self.unlocked()
        if not acquired:
            return True
        first = acquired[0].first_offset
        answer = self.anchor.acknowledge({at: [(first, first, [RELEASE])]})
        return not answer.responses[0].partitions[0].error_code

    def released(self, member: Sharer) -> None:
        """The session of the member has ended: until what it had is persisted as available, or as archived."""
        for at in self.reads[member.id]:
            held = self.has[member.id].pop(at, {})
            if held:
                self.s.peer.wait_until(lambda at=at, held=held: self._is_free(at, held), "a release")
        self.reads[member.id] = set()

    def unlocked(self) -> None:
        """Kafka unlocks the share partitions of a fetch a moment after its answer; until then others pass over them."""
        for at in self.partitions:
            self._is_free(at, {})

    def _is_free(self, at: Partition, held: dict[int, int]) -> bool:
        asked = read_share_group_state.PartitionData(at[1], 0)
        topic = read_share_group_state.ReadStateData(self.s.topic_id(at[0]), [asked])
        request = read_share_group_state.ReadShareGroupStateRequest(self.s.group, [topic])
        answer = self.s.peer.quietly(ApiKey.READ_SHARE_GROUP_STATE, request, 0)
        (row,) = answer.results[0].partitions
        counts = {
            offset: each.delivery_count
            for each in row.state_batches
            for offset in range(each.first_offset, each.last_offset + 1)
        }
        return bool(row.error_code) or all(
            offset < row.start_offset or counts.get(offset, -1) >= count for offset, count in held.items()
        )

    # --- steps

    def step(self) -> None:
        chance = self.chance
        member = chance.choice(self.members)
        roll = chance.random()
        if roll < 0.12:
            self.append(chance.choice(self.partitions))
        elif roll < 0.15:
            self.change_settings()
        elif roll < 0.19:
            self.s.share_offsets(*self.partitions)
        elif roll < 0.22:
            self.delete_records()
        elif roll < 0.24:
            self.alter(chance.choice(self.partitions))
        elif roll < 0.25:
            self.delete_offsets(member)
        elif roll < 0.26:
            self.grow(member)
        elif roll < 0.30:
            self.wrong_epoch(member)
        elif roll < 0.36:
            self.end(member)
        elif member.session_epoch == OPEN or roll < 0.62:
            self.fetch(member)
        else:
            self.acknowledge(member)

    def append(self, at: Partition) -> None:
        for _ in range(self.chance.choice((1, 1, 2, 3))):
            count = self.chance.choice((1, 2, 5, 12, 40))
            self.s.peer.append(at[0], batch(count), partition=at[1])
            self.ends[at] += count

    def change_settings(self) -> None:
        name, values = self.chance.choice((
            ("partition_max_record_locks", ("100", "200", "2000")),
            ("delivery_count_limit", ("2", "3", "5", "10")),
            ("renew_acknowledge_enable", ("true", "false")),
            ("isolation_level", ("read_committed", "read_uncommitted")),
        ))  # fmt: skip
        self.s.set_share(**{name: self.chance.choice(values)})

    def delete_records(self) -> None:
        at = self.chance.choice([each for each in self.partitions if each[1] == 0])
        if self.ends[at]:
            self.s.peer.delete_records(at[0], self.chance.randrange(self.ends[at]))

    def alter(self, at: Partition) -> None:
        """Those who have records learn of it with their next acknowledgement."""
        self.s.ask(
            ApiKey.ALTER_SHARE_GROUP_OFFSETS,
            alter_offsets_request(self.s.group, {at: self.chance.randrange(self.ends[at] + 2)}),
        )
        for member in self.members:
            held = self.has[member.id].pop(at, {})
            if held and self.chance.random() < 0.5:
                offset = min(held)
                member.acknowledge({at: [(offset, offset, [ACCEPT])]})
        self.warm_up(at)

    def delete_offsets(self, member: Sharer) -> None:
        at = (self.single, 0)
        self.s.ask(ApiKey.DELETE_SHARE_GROUP_OFFSETS, delete_share_offsets_request(self.s.group, self.single))
        self.s.share_offsets(at)
        held = self.has[member.id].get(at)
        if held:
            for _ in range(2):
                member.acknowledge({at: [(min(held), min(held), [ACCEPT])]})
        self.alter(at)

    def grow(self, member: Sharer) -> None:
        count = max(index for topic, index in self.partitions if topic == self.pairs) + 1
        at = self.pairs, count
        if member.session_epoch != OPEN:
            member.find_nothing(at)
            self.reads[member.id].add(at)
        self.s.grow(self.pairs, count + 1)
        self.s.peer.append(at[0], batch(3), partition=count)
        self.s.share_offsets(at)
        self.ends[at] = 3
        self.partitions.append(at)
        self.alter(at)

    def wrong_epoch(self, member: Sharer) -> None:
        epoch = self.chance.choice((-2, OPEN, member.session_epoch - 1, member.session_epoch + 1, MAX_EPOCH))
        if epoch in (CLOSE, member.session_epoch):
            return
        said = self.all_said(member)
        if self.chance.random() < 0.5:
            if epoch == OPEN and not said:
                return
            self.send_fetch(member, [], said, epoch=epoch)
        else:
            member.send_acknowledge(said, epoch=epoch)
        member.take()
        self.unlocked()

    def end(self, member: Sharer) -> None:
        way = self.chance.choice(("hang up", "fetch", "acknowledge", "anew"))
        if way == "hang up":
            member.hang_up()
            member.session_epoch = OPEN
            self.released(member)
        elif way == "anew":
            self.fetch(member, OPEN)
        else:
            said = self.all_said(member) if self.chance.random() < 0.5 else {}
            if way == "fetch":
                self.send_fetch(member, [], said, epoch=CLOSE)
            else:
                member.send_acknowledge(said, epoch=CLOSE)
            answer = member.take()
            if not answer.error_code:
                self.forget(member, said, answer)
                self.released(member)

    def fetch(self, member: Sharer, epoch: int | None = None) -> None:
        chance = self.chance
        is_new = OPEN in (member.session_epoch, epoch)
        named = chance.sample(self.partitions, chance.choice((1, 1, 2, 3) if is_new else (0, 0, 0, 1, 2)))
        if chance.random() < 0.1:
            named.append((self.pairs, 7))
        if named and chance.random() < (0.03 if is_new else 0.15):
            named.append(chance.choice(named))
        said = {} if is_new or chance.random() < 0.5 else self.all_said(member)
        forget = [] if is_new or chance.random() < 0.85 else [chance.choice(self.partitions)]
        is_renewal = chance.random() < (0.5 if says(said, RENEW) else 0.03)
        is_single = len({*named, *said, *(() if is_new else self.reads[member.id])}) == 1
        options: dict[str, Any]
        if is_renewal and chance.random() < 0.9:
            options = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
        else:
            options = {
                "max_records": 0 if said else chance.choice((0, 1, 3, 10, 500) if is_single else (0, 5_000)),
                "batch_size": chance.choice((1, 4, 500)),
                "max_bytes": chance.choice((1, 250, 700, 50 << 20, 50 << 20)) if is_single else 50 << 20,
                "mode": chance.choice((BATCH_OPTIMIZED, RECORD_LIMIT)),
            }
        self.send_fetch(member, named, said, epoch=epoch, forget=forget, renew=is_renewal, **options)
        answer = member.take()
        self.unlocked()
        if answer.error_code:
            return
        if is_new:
            self.reads[member.id] = set()
        self.reads[member.id] |= set(named) | set(said)
        self.reads[member.id] -= set(forget)
        self.forget(member, said, answer)
        for at in self.partitions:
            for each in ranges(answer, self.s, at):
                held = self.has[member.id].setdefault(at, {})
                held.update(dict.fromkeys(range(each.first_offset, each.last_offset + 1), each.delivery_count))

    def acknowledge(self, member: Sharer) -> None:
        said = self.all_said(member)
        if said and self.chance.random() < 0.06:
            said[self.chance.choice(((self.pairs, 7), ("none", 0)))] = [(0, 0, [ACCEPT])]
        answer = member.acknowledge(said, renew=says(said, RENEW) and self.chance.random() < 0.9)
        if not answer.error_code:
            self.forget(member, said, answer)

    def forget(self, member: Sharer, said: Said, answer: Any) -> None:
        """What the member has acknowledged it has no more."""
        for at, batches in said.items():
            errors = [
                row.acknowledge_error_code if hasattr(row, "acknowledge_error_code") else row.error_code
                for row in rows_of(answer, self.s, at)
            ]
            if any(errors) or not errors:
                continue
            held = self.has[member.id].get(at, {})
            for first, last, types in batches:
                for offset in range(first, last + 1):
                    if (types[0] if len(types) == 1 else types[offset - first]) != RENEW:
                        held.pop(offset, None)

    # --- what a member says

    def all_said(self, member: Sharer) -> Said:
        """About one partition or more; mostly of what it has."""
        said: Said = {}
        for at in self.chance.sample(self.partitions, self.chance.choice((1, 1, 2, 3))):
            roll = self.chance.random()
            has = sorted(self.has[member.id].get(at, ()))
            if roll < 0.1:
                batches = self.somebody(at)
            elif has:
                batches = self.of(has)
                if roll < 0.25:
                    batches = self.spoilt(batches)
            else:
                continue
            if batches:
                said[at] = batches
        return said

    def of(self, has: list[int]) -> list[Acknowledgement]:
        said: list[Acknowledgement] = []
        while has and len(said) < self.chance.choice((1, 1, 2, 4)):
            first = self.chance.choice(has[: self.chance.choice((1, 3, 10))])
            last = first
            while last + 1 in has and self.chance.random() < 0.8:
                last += 1
            kinds = [self.kind() for _ in range(first, last + 1)]
            said.append((first, last, kinds if self.chance.random() < 0.3 else kinds[:1]))
            has = [offset for offset in has if offset > last]
        return said

    def kind(self) -> int:
        return self.chance.choice((ACCEPT, ACCEPT, ACCEPT, RELEASE, RELEASE, RELEASE, REJECT, GAP, RENEW))

    def spoilt(self, said: list[Acknowledgement]) -> list[Acknowledgement]:
        """One thing is wrong with it, or only unusual."""
        index = self.chance.randrange(len(said))
        first, last, types = said[index]
        wrong: list[list[Acknowledgement]] = [
            [(first, last + 1, types)],
            [(first, last, [*types, ACCEPT])],
            [(first, last, [])],
            [(first, last, [5])],
            [(first, last, [-1])],
            [(last + 1, first, types)],
            [(first, last, types), (first, last, types)],
            [(first, last, types), (last, last, [ACCEPT])],
            [(last, last, [RELEASE]), (first, last, types)],
            [(first, last + 3, [ACCEPT])],
            [(max(0, first - 2), last, [ACCEPT])],
            [(first, last, [RELEASE] * (last - first + 1))],
        ]
        said = [*said[:index], *self.chance.choice(wrong), *said[index + 1 :]]
        if self.chance.random() < 0.1:
            said.reverse()
        return said

    def somebody(self, at: Partition) -> list[Acknowledgement]:
        """Offsets that may be anybody's, or nobody's."""
        first = self.chance.randrange(self.ends[at] + 3)
        return [(first, first + self.chance.choice((0, 1, 5)), [self.chance.choice((ACCEPT, RELEASE, REJECT))])]

    # --- requests in which a partition may stand twice

    def send_fetch(
        self,
        member: Sharer,
        named: list[Partition],
        said: Said,
        *,
        epoch: int | None = None,
        forget: Sequence[Partition] = (),
        max_wait_ms: int = SOON_MS,
        min_bytes: int = 1,
        max_bytes: int = 50 << 20,
        max_records: int = 500,
        batch_size: int = 500,
        mode: int = BATCH_OPTIMIZED,
        renew: bool = False,
    ) -> None:
        epoch = member.session_epoch if epoch is None else epoch
        rows = [(at, said.get(at, [])) for at in named] + [(at, said[at]) for at in said if at not in named]
        topics = [
            share_fetch.FetchTopic(
                self.s.topic_id(topic),
                [share_fetch.FetchPartition(index, [share_fetch.AcknowledgementBatch(*each) for each in batches])],
            )
            for (topic, index), batches in rows
        ]
        member.send_share_fetch(
            share_fetch.ShareFetchRequest(
                member.group, member.id, epoch, max_wait_ms, min_bytes, max_bytes, max_records, batch_size, mode, renew,
                topics, [share_fetch.ForgottenTopic(self.s.topic_id(topic), [index]) for topic, index in forget],
            )
        )  # fmt: skip


def says(said: Said, kind: int) -> bool:
    return any(kind in types for batches in said.values() for _, _, types in batches)


def rows_of(answer: Any, s: ShareStory, at: Partition) -> list[Any]:
    if at[0] not in s.topic_ids:
        return []
    words = s.peer.words_for(s.topic_id(at[0]))
    topics = [topic for topic in answer.responses if topic.topic_id == words]
    return [row for topic in topics for row in topic.partitions if row.partition_index == at[1]]


def ranges(answer: Any, s: ShareStory, at: Partition) -> list[Any]:
    return [each for row in rows_of(answer, s, at) for each in row.acquired_records]


def telling(seed: int) -> Callable[[ShareStory], None]:
    def tell(s: ShareStory) -> None:
        storm = Storm(s, Random(f"storm {seed}"))
        for _ in range(STEPS):
            storm.step()
        s.share_offsets(*storm.partitions)

    tell.__name__ = f"a_storm_in_a_share_group_{seed}"
    return tell


for number in range(STORIES):
    share_story(ApiKey.SHARE_FETCH, (2,))(telling(number))
