"""Random stories of members that fetch from one partition, and accept, release, reject and renew what they get.

Meanwhile the settings of the group change, and in some stories old records are deleted. KOHORT_SHARE_STORIES=100 tells
more stories than usual.

What a member says next depends on what it has, so a story goes apart from itself after the first difference. Kafka's
answers depend on nothing but the requests: what is released is released before the next request is sent.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random
from typing import Any

from kohort.protocol.api_keys import ApiKey
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
)

STORIES = int(os.environ.get("KOHORT_SHARE_STORIES", "24"))
STEPS = 50
SOON_MS = 500  # a fetch that finds nothing waits this long


class Readers:
    """Some members of a group, and the offsets that each of them has acquired."""

    def __init__(self, s: ShareStory, chance: Random) -> None:
        self.s, self.chance = s, chance
        self.at: Partition = s.shared(start=chance.choice((0, 0, 2)))
        if chance.random() < 0.4:
            s.set_share(partition_max_record_locks="100")
        if chance.random() < 0.4:
            s.set_share(delivery_count_limit=str(chance.choice((2, 3, 10))))
        self.members = [s.sharer(name) for name in "abc"[: chance.choice((1, 2, 3))]]
        self.has: dict[str, list[int]] = {each.id: [] for each in self.members}
        self.end = 0
        self.append()
        with s.unwritten():  # until the leader has read the state
            self.fetch(self.members[0])
            self.release_all(self.members[0])

    def step(self) -> None:
        member = self.chance.choice(self.members)
        if self.chance.random() < 0.15:
            self.append()
        elif member.session_epoch == OPEN or self.chance.random() < 0.4:
            self.fetch(member)
        elif self.chance.random() < 0.06:
            self.close(member)
        elif self.chance.random() < 0.1:
            self.s.share_offsets(self.at)
        elif self.chance.random() < 0.08:
            self.change_settings()
        else:
            self.acknowledge(member)

    def append(self) -> None:
        for _ in range(self.chance.choice((1, 1, 2, 4))):
            count = self.chance.choice((1, 2, 5, 12, 40))
            self.s.peer.append(self.at[0], batch(count, compression=self.chance.choice((0, 0, 1))))
            self.end += count

    def change_settings(self) -> None:
        """While records are in flight."""
        name, values = self.chance.choice((
            ("partition_max_record_locks", ("100", "200", "2000")),
            ("delivery_count_limit", ("2", "3", "5", "10")),
            ("record_lock_duration_ms", ("20000", "60000")),
        ))  # fmt: skip
        self.s.set_share(**{name: self.chance.choice(values)})

    def fetch(self, member: Sharer) -> None:
        partitions = [self.at] if member.session_epoch == OPEN else []
        answer = member.fetch(
            *partitions,
            max_wait_ms=10_000 if not self.s.peer.exchanges else SOON_MS,
            max_records=self.chance.choice((1, 3, 10, 500)),
            batch_size=self.chance.choice((1, 4, 500)),
            max_bytes=self.chance.choice((1, 250, 700, 50 << 20, 50 << 20)),
            mode=self.chance.choice((BATCH_OPTIMIZED, RECORD_LIMIT)),
        )
        for each in acquired(answer):
            self.has[member.id] += range(each.first_offset, each.last_offset + 1)

    def close(self, member: Sharer) -> None:
        """Kafka releases the records of a closed session after its answer: so they are released before."""
        self.release_all(member)
        member.acknowledge({}, epoch=CLOSE)

    def release_all(self, member: Sharer) -> None:
        if self.has[member.id]:
            member.acknowledge({self.at: [(offset, offset, [RELEASE]) for offset in sorted(self.has[member.id])]})
        self.has[member.id] = []

    def acknowledge(self, member: Sharer) -> None:
        said = self.nonsense() if self.chance.random() < 0.15 else self.said(member)
        renews = any(RENEW in types for _, _, types in said)
        answer = member.acknowledge({self.at: said}, renew=renews)
        errors = [each.error_code for topic in answer.responses for each in topic.partitions]
        if answer.error_code or any(errors):
            return
        for first, last, types in said:
            for offset in range(first, last + 1):
                kind = types[0] if len(types) == 1 else types[offset - first]
                if kind != RENEW and offset in self.has[member.id]:
                    self.has[member.id].remove(offset)

    def said(self, member: Sharer) -> list[Acknowledgement]:
        """About runs of what the member has, in order."""
        said: list[Acknowledgement] = []
        has = sorted(self.has[member.id])
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

    def nonsense(self) -> list[Acknowledgement]:
        """Offsets that may be anybody's, or nobody's. Kafka stumbles over those before the first one in flight."""
        held = [offset for has in self.has.values() for offset in has]
        if not held:
            return []
        first = self.chance.randrange(min(held), self.end + 3)
        return [(first, first + self.chance.choice((0, 1, 5)), [self.chance.choice((ACCEPT, RELEASE, REJECT))])]


def acquired(answer: Any) -> list[Any]:
    return [each for topic in answer.responses for row in topic.partitions for each in row.acquired_records]


def telling(seed: int) -> Callable[[ShareStory], None]:
    def tell(s: ShareStory) -> None:
        readers = Readers(s, Random(seed))
        for _ in range(STEPS):
            readers.step()
        s.share_offsets(readers.at)

    tell.__name__ = f"random_delivery_{seed}"
    return tell


for number in range(STORIES):
    share_story(ApiKey.SHARE_FETCH, (2,))(telling(number))
