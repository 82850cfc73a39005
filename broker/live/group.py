"""One group over time.

A person is a member as people see it: a static member comes back with other member ids and remains the same person. All
that is kept of the past is bounded: the oldest goes first.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

Place = tuple[str, int]  # topic, partition

MAX_REBALANCES: Final = 200
MAX_CAUSES: Final = 20
MAX_NAMED: Final = 20  # members that joined or left, of one rebalance
MAX_PEOPLE: Final = 5_000  # that are gone
MINUTE_MS: Final = 60_000
HOUR_MINUTES: Final = 60
SETTLED, UNREVOKED, UNRELEASED = 0, 1, 2  # states of a member, as the log numbers them
OTHER: Final = "other causes"
CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"


class Person:
    """A member; `index` chooses its colour, and is never used again."""

    __slots__ = (
        "client_id",
        "epoch",
        "host",
        "index",
        "instance_id",
        "member_id",
        "places",
        "raw",
        "since_ms",
        "state",
    )

    def __init__(self, index: int, member_id: str, since_ms: int) -> None:
        self.index = index
        self.member_id = member_id
        self.since_ms = since_ms
        self.instance_id: str | None = None
        self.client_id = ""
        self.host = ""
        self.epoch = -1  # of groups of KIP-848 and share groups
        self.state = SETTLED
        self.places: frozenset[Place] = frozenset()
        self.raw = b""  # the assignment of a member of a classic group, as it stands in the log


class Owned(NamedTuple):
    """A person had a partition for a while, which is over."""

    place: Place
    start_ms: int
    end_ms: int
    person: int


class Rebalance:
    __slots__ = (
        "at_ms", "began_ms", "cause", "duration_ms", "epoch", "is_over", "joined", "joined_count", "left", "left_count",
        "members", "moved", "number", "slowest", "trigger", "unowned",
    )  # fmt: skip

    def __init__(self, epoch: int, at_ms: int, number: int) -> None:
        self.number = number  # counts the rebalances of the group since its history began
        self.epoch = epoch
        self.at_ms = at_ms  # of the assignment, or of the new epoch
        self.began_ms: int | None = None
        self.duration_ms: int | None = None
        self.cause = ""  # empty: the log does not say
        self.trigger = ""  # the member that caused it
        self.slowest = ""
        self.members = 0
        self.moved = 0  # partitions that got another owner than their last one
        self.unowned = 0  # partitions that had an owner before, and have none after it
        self.joined: list[str] = []
        self.left: list[str] = []
        self.joined_count = self.left_count = 0
        self.is_over = True

    def joins(self, name: str) -> None:
        self.joined_count += 1
        if len(self.joined) < MAX_NAMED:
            self.joined.append(name)

    def leaves(self, name: str) -> None:
        self.left_count += 1
        if len(self.left) < MAX_NAMED:
            self.left.append(name)


class Progress:
    """How far the commits of one partition have come. The rate counts the last half minute most."""

    __slots__ = ("at_ms", "count", "offset", "rate")

    WINDOW_MS: Final = 30_000

    def __init__(self, offset: int, at_ms: int) -> None:
        self.offset = offset
        self.at_ms = at_ms
        self.rate = 0.0  # offsets per second
        self.count = 0

    def committed(self, offset: int, at_ms: int) -> None:
        passed = at_ms - self.at_ms
        if passed > 0:
            self.count += 1
            weight = min(1.0, max(passed / self.WINDOW_MS, 1 / self.count))
            self.rate += weight * ((offset - self.offset) * 1000 / passed - self.rate)
            self.at_ms = at_ms
            self.offset = offset
        else:
            self.offset = offset

    def rate_at(self, now_ms: int) -> float | None:
        """A partition that is not committed any more comes to rest. None: only one commit is known, and it is new."""
        silent = now_ms - self.at_ms
        if not self.count and silent <= self.WINDOW_MS:
            return None
        return self.rate if silent <= self.WINDOW_MS else self.rate * self.WINDOW_MS / silent


class GroupHistory:
    __slots__ = (
        "assignor",
        "at_epoch",
        "by_cause",
        "by_index",
        "commits",
        "epoch",
        "group_id",
        "held",
        "is_kept",
        "last_commit_ms",
        "last_owners",
        "minutes",
        "news",
        "next_index",
        "past",
        "people",
        "present",
        "protocol_type",
        "rebalance_count",
        "rebalances",
        "since_ms",
        "target_epoch",
        "type",
        "unowned",
        "unowned_ms",
        "unowned_since",
        "unsettled",
        "version",
    )  # fmt: skip

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.type = CLASSIC
        self.protocol_type: str | None = None
        self.assignor: str | None = None
        self.epoch = -1  # the generation of a classic group
        self.target_epoch = -1
        self.since_ms: int | None = None  # when this history begins
        self.is_kept = True  # False: too many partitions for owners to be kept
        self.people: dict[str, Person] = {}  # by instance id or member id; also those that are gone
        self.by_index: dict[int, Person] = {}
        self.next_index = 0
        self.present: dict[str, Person] = {}  # by member id
        self.at_epoch: Counter[int] = Counter()  # members by epoch
        self.unsettled = 0  # members that wait for a partition, or have to give one up
        self.held: dict[Place, dict[int, int]] = {}  # person: since when
        self.past: deque[Owned] = deque()
        self.last_owners: dict[Place, int] = {}  # of partitions that have none now
        self.unowned: dict[Place, int] = {}  # since when
        self.unowned_since: int | None = None
        self.unowned_ms = 0  # how long at least one partition had no owner, up to `unowned_since`
        self.rebalances: deque[Rebalance] = deque(maxlen=MAX_REBALANCES)
        self.rebalance_count = 0
        self.news: list[tuple[str, bool]] = []  # who came (True) and went since the last rebalance
        self.by_cause: Counter[str] = Counter()
        self.minutes: dict[int, int] = {}  # minute: rebalances
        self.commits: dict[Place, Progress] = {}
        self.last_commit_ms: int | None = None
        self.version = 0  # rises with every change but commits

    # --- members

    def enters(self, member_id: str, instance_id: str | None, client_id: str, host: str, at_ms: int) -> Person:
        """The member is in the group, perhaps for long. Returns the person that it is."""
        name = instance_id or member_id
        person = self.people.get(name)
        if person is None:
            person = self.people[name] = Person(self.next_index, member_id, at_ms)
            self.by_index[person.index] = person
            self.next_index += 1
        was_present = self.present.pop(person.member_id, None) is not None
        person.member_id = member_id
        self.present[member_id] = person
        if not was_present:
            person.since_ms = at_ms
            if self.type != CLASSIC:
                self.at_epoch[person.epoch] += 1
        person.instance_id, person.client_id, person.host = instance_id, client_id, host
        return person

    def leaves(self, member_id: str, at_ms: int) -> Person | None:
        person = self.present.pop(member_id, None)
        if person is None:
            return None
        self.assign(person, frozenset(), at_ms)
        if self.type != CLASSIC:
            self._count_epoch(person, -1)
            self._counts_state(person, SETTLED)
            person.epoch = -1
        person.raw = b""
        if len(self.people) - len(self.present) > MAX_PEOPLE:
            self._forget_people()
        return person

    def _forget_people(self) -> None:
        """Of those that are gone, keep the people that the strip shows."""
        shown = {owned.person for owned in self.past} | set(self.last_owners.values())
        for name, person in list(self.people.items()):
            if person.member_id not in self.present and person.index not in shown:
                del self.people[name], self.by_index[person.index]

    def reaches(self, person: Person, epoch: int, state: int) -> None:
        """A member of a group with epochs has come to this one."""
        if epoch != person.epoch:
            self._count_epoch(person, -1)
            person.epoch = epoch
            self.at_epoch[epoch] += 1
        self._counts_state(person, state)

    def _count_epoch(self, person: Person, by: int) -> None:
        self.at_epoch[person.epoch] += by
        if self.at_epoch[person.epoch] <= 0:
            del self.at_epoch[person.epoch]

    def _counts_state(self, person: Person, state: int) -> None:
        self.unsettled += (state != SETTLED) - (person.state != SETTLED)
        person.state = state

    @property
    def is_reconciled(self) -> bool:
        return self.unsettled == 0 and self.at_epoch[self.epoch] == len(self.present)

    @property
    def state(self) -> str:
        """What the log tells. Who waits for whom in a classic group is known to its coordinator alone."""
        if not self.present:
            return "Empty"
        if self.type != CONSUMER or self.is_reconciled:
            return "Stable"
        return "Assigning" if self.target_epoch < self.epoch else "Reconciling"

    # --- owners

    def assign(self, person: Person, places: frozenset[Place], at_ms: int) -> int:
        """From now on the person has these partitions. Returns how many of them had another last owner."""
        before, person.places = person.places, places
        if not self.is_kept or before == places:
            return 0
        for place in before - places:
            self._gives_up(person.index, place, at_ms)
        moved = 0
        for place in places - before:
            moved += self._takes(person.index, place, at_ms)
        self._watch_unowned(at_ms)
        return moved

    def _gives_up(self, index: int, place: Place, at_ms: int) -> None:
        holders = self.held.get(place)
        if holders is None or index not in holders:
            return
        since = holders.pop(index)
        if at_ms > since:
            self.past.append(Owned(place, since, at_ms, index))
        if not holders:
            del self.held[place]
            self.last_owners[place] = index
            self.unowned[place] = at_ms

    def _takes(self, index: int, place: Place, at_ms: int) -> bool:
        holders = self.held.get(place)
        if holders is None:
            holders = self.held[place] = {}
        others = [other for other in holders if other != index]
        holders[index] = at_ms
        last = self.last_owners.pop(place, index)
        self.unowned.pop(place, None)
        return last != index or (bool(others) and self.type != SHARE)

    def _watch_unowned(self, at_ms: int) -> None:
        if self.unowned and self.unowned_since is None:
            self.unowned_since = at_ms
        elif not self.unowned and self.unowned_since is not None:
            self.unowned_ms += max(0, at_ms - self.unowned_since)
            self.unowned_since = None

    def unowned_ms_at(self, now_ms: int) -> int:
        """How long at least one partition had no owner that had one before, all times together."""
        return self.unowned_ms + (0 if self.unowned_since is None else max(0, now_ms - self.unowned_since))

    def forget_owners(self) -> None:
        """There are too many partitions: owners are not kept any more."""
        self.is_kept = False
        self.held, self.last_owners, self.unowned = {}, {}, {}
        self.past.clear()
        self.unowned_since = None
        for person in self.people.values():
            person.places = frozenset()

    def rename(self, topic: str, name: str) -> None:
        """The topic's name was not known before."""

        def renamed(place: Place) -> Place:
            return (name, place[1]) if place[0] == topic else place

        if not any(place[0] == topic for places in (self.held, self.unowned, self.last_owners) for place in places):
            return
        self.held = {renamed(place): holders for place, holders in self.held.items()}
        self.unowned = {renamed(place): since for place, since in self.unowned.items()}
        self.last_owners = {renamed(place): person for place, person in self.last_owners.items()}
        self.past = deque(owned._replace(place=renamed(owned.place)) for owned in self.past)
        for person in self.people.values():
            person.places = frozenset(map(renamed, person.places))
        self.version += 1

    # --- rebalances

    def rebalances_at(self, epoch: int, at_ms: int) -> Rebalance:
        """A rebalance has ended, or begins."""
        self.rebalance_count += 1
        rebalance = Rebalance(epoch, at_ms, self.rebalance_count)
        self.rebalances.append(rebalance)
        minute = at_ms // MINUTE_MS
        self.minutes[minute] = self.minutes.get(minute, 0) + 1
        if len(self.minutes) > HOUR_MINUTES:
            self.minutes = {each: n for each, n in self.minutes.items() if each > minute - HOUR_MINUTES}
        return rebalance

    def counts_cause(self, cause: str) -> None:
        """What follows the colon is the reason that a client gave, which could be anything."""
        name = cause.partition(": ")[0] or "unknown"
        self.by_cause[name if name in self.by_cause or len(self.by_cause) < MAX_CAUSES else OTHER] += 1

    def in_last_hour(self, now_ms: int) -> int:
        first = now_ms // MINUTE_MS - HOUR_MINUTES
        return sum(count for minute, count in self.minutes.items() if minute > first)

    def came(self, name: str) -> None:
        """A member of a group with epochs. Its record stands before the one of the epoch that it causes."""
        if self.unfinished is not None:
            self.unfinished.joins(name)
        elif len(self.news) < MAX_NAMED:
            self.news.append((name, True))

    def went(self, name: str) -> None:
        if self.unfinished is not None:
            self.unfinished.leaves(name)
        elif len(self.news) < MAX_NAMED:
            self.news.append((name, False))

    def news_into(self, rebalance: Rebalance) -> None:
        for name, has_come in self.news:
            (rebalance.joins if has_come else rebalance.leaves)(name)
        self.news = []

    @property
    def unfinished(self) -> Rebalance | None:
        return self.rebalances[-1] if self.rebalances and not self.rebalances[-1].is_over else None

    # --- commits

    def committed(self, place: Place, offset: int, at_ms: int) -> None:
        progress = self.commits.get(place)
        if progress is None:
            self.commits[place] = Progress(offset, at_ms)
        else:
            progress.committed(offset, at_ms)
        if self.last_commit_ms is None or at_ms > self.last_commit_ms:
            self.last_commit_ms = at_ms

    def forget_commits(self, places: Iterable[Place]) -> None:
        for place in places:
            self.commits.pop(place, None)

    # --- the end

    def ends(self, at_ms: int) -> None:
        """The group was deleted, or becomes one of another type."""
        for member_id in list(self.present):
            self.leaves(member_id, at_ms)
        self.last_owners, self.unowned = {}, {}
        self._watch_unowned(at_ms)

    def owned(self) -> Iterator[tuple[Place, int, int]]:
        """Who has what now: partition, person, since when."""
        for place, holders in self.held.items():
            for person, since in holders.items():
                yield place, person, since
