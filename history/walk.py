"""What the walks of both protocols share: the group so far, its last commits, and partitions without an owner."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kohort.history.members import Member, Place, id_key
from kohort.history.rebalance import Gap, Rebalance, Sign
from kohort.history.records import Commit, LogRecord, told_ms

MAX_PLACES = 200_000  # partitions whose commits are remembered


class Walk:
    def __init__(self, rebalanced: Callable[[Rebalance], None]) -> None:
        self._tell = rebalanced
        self._names: dict[str, str] = {}  # of topics, by `id_key`
        self._commits: dict[Place, Sign] = {}  # by topic name
        self._leader_epoch = -1
        self._coordinator_start_ms: int | None = None
        self.topics_of_tasks: dict[str, tuple[str, ...]] = {}  # streams groups: what tasks read, by the keys of places
        self.has_rebalances = False
        self.restarted_ms: int | None = None
        self.last: Rebalance | None = None
        self.forget()

    def forget(self) -> None:
        """The group begins anew."""
        self.kind: str | None = None
        self.generation: int | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}  # of the last generation or target
        self.owners: dict[Place, str] = {}  # the last owner of each partition, since the group was last empty
        self.free_since: dict[Place, int] = {}
        self.converted_from: str | None = None

    def rebalanced(self, rebalance: Rebalance) -> None:
        rebalance.restarted_ms, self.restarted_ms = self.restarted_ms, None
        rebalance.converted_from, self.converted_from = self.converted_from, None
        self.last = rebalance
        self.has_rebalances = True
        self._tell(rebalance)

    # --- the log

    def saw(self, record: LogRecord) -> None:
        if record.leader_epoch > self._leader_epoch >= 0:
            self.restarted_ms = record.time_ms
        self._leader_epoch = max(self._leader_epoch, record.leader_epoch)
        start_ms = told_ms(record.headers, b"kohort.coordinator.start.ms")
        if start_ms is not None:
            if self._coordinator_start_ms not in (None, start_ms):
                self.restarted_ms = start_ms
            self._coordinator_start_ms = start_ms

    def committed(self, commit: Commit) -> None:
        if commit.topic_key is not None:
            self._names[commit.topic_key] = commit.topic
        place = commit.topic, commit.partition
        before = self._commits.get(place)
        if before is None:
            if len(self._commits) < MAX_PLACES:
                self._commits[place] = Sign(commit.time_ms, None)
            return
        passed = commit.time_ms - before.last_ms
        interval = passed if before.interval_ms is None else (before.interval_ms + passed) // 2
        self._commits[place] = Sign(commit.time_ms, interval)

    # --- names of topics

    def learn_name(self, topic_id: bytes, name: str) -> None:
        self._names[id_key(topic_id)] = name

    def names_of_ids(self) -> dict[str, str]:
        return self._names

    def learn_by_elimination(self) -> None:
        """If one name and one id are left over, they belong together."""
        wanted = {topic for member in self.members.values() for topic in member.topics or ()}
        assigned = {place[0] for member in self.members.values() for place in member.assigned or ()}
        unknown = [key for key in assigned if key not in self._names and key.startswith("\0")]
        unused = wanted - set(self._names.values())
        if len(unknown) == len(unused) == 1:
            self._names[unknown[0]] = unused.pop()

    def named(self, place: Place) -> Place:
        return self._names.get(place[0], place[0]), place[1]

    # --- signs of life

    def sign_of_place(self, place: Place) -> Sign | None:
        topics = self.topics_of_tasks.get(place[0])
        if topics is None:
            return self._commits.get(self.named(place))
        signs = [sign for topic in topics if (sign := self._commits.get((topic, place[1]))) is not None]
        return max(signs, key=lambda sign: sign.last_ms, default=None)

    def sign_of(self, member: Member, since_ms: int) -> Sign | None:
        """The last commit for the member's partitions since it got them, at `since_ms`."""
        found: Sign | None = None
        for place in member.assigned or ():
            sign = self.sign_of_place(place)
            if sign is not None and sign.last_ms >= since_ms and (found is None or sign.last_ms > found.last_ms):
                found = sign
        return found

    # --- partitions without an owner

    def freed(self, places: Iterable[Place], since_ms: int) -> None:
        for place in places:
            self.free_since.setdefault(place, since_ms)

    def taken(self, places: Iterable[Place], now_ms: int, gaps: list[Gap], *, is_inferred: bool = False) -> None:
        for place in places:
            since = self.free_since.pop(place, None)
            if since is not None and now_ms > since:
                gaps.append(Gap(place, since, now_ms, is_inferred))
