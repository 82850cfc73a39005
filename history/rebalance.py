"""What the log says about one rebalance: the group before and after, when, and what was learned on the way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from kohort.history.members import Member, Members, Place

CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"
COOPERATIVE = "cooperative-sticky"


class Told(NamedTuple):
    """What Kohort's record headers say. Kafka writes none."""

    cause: str
    trigger: str  # member ids
    begin_ms: int | None


class Sign(NamedTuple):
    """The last commits of a member's partitions: the only sign of life that a log has."""

    last_ms: int
    interval_ms: int | None  # how often it used to commit


class Removal(NamedTuple):
    """A member of a KIP-848 or share group is gone."""

    member: Member
    time_ms: int
    sign: Sign | None
    revoking_since_ms: int | None  # it had to give up partitions since then, and had not done so
    is_away: bool = False  # a static member that will come back


class Update(NamedTuple):
    """A member of a KIP-848 or share group subscribes to something else."""

    before: Member
    after: Member


class Bump(NamedTuple):
    """A new epoch of a KIP-848 or share group, with what had changed since the one before."""

    epoch: int
    time_ms: int
    told: Told | None
    joined: tuple[Member, ...]
    removed: tuple[Removal, ...]
    updated: tuple[Update, ...]
    patterns: tuple[str, ...]  # regular expressions that match other topics than before
    has_other_topics: bool  # the hash of the topics has changed


class Gap(NamedTuple):
    """Nobody had the partition."""

    place: Place
    from_ms: int
    to_ms: int
    is_inferred: bool  # from the last commit before


class Takeover(NamedTuple):
    """A static member came back with a new member id, or another process took its instance id. No rebalance."""

    before: Member
    after: Member
    time_ms: int


@dataclass(slots=True)
class Rebalance:
    group_type: str
    generation: int  # or epoch
    previous: int | None  # None: the log has nothing before
    offset: int  # in the log
    time_ms: int  # when the new assignment was written
    protocol: str | None  # the assignor
    protocol_before: str | None
    members: Members  # with what each is assigned
    before: Members | None  # None: the log has nothing before, or the group was empty
    owners: dict[Place, str]  # the last owner of each partition before, by identity
    leader: str | None = None
    leader_before: str | None = None
    join_end_ms: int | None = None  # classic: all had joined, and the leader began to assign
    told: Told | None = None
    last_joined: tuple[str, int] | None = None  # classic, on Kohort: member id and time of the last JoinGroup
    signs: dict[str, Sign] = field(default_factory=dict)  # by member id, of the members before
    bumps: list[Bump] = field(default_factory=list)  # KIP-848, share: of the epochs since the target before
    reached: dict[str, int] = field(default_factory=dict)  # KIP-848, share: member id -> when it had its new share
    behind: set[str] = field(default_factory=set)  # KIP-848, share: members that had not when the log ended
    gaps: list[Gap] = field(default_factory=list)
    still_free: dict[Place, int] = field(default_factory=dict)  # partitions that nobody has, since when
    takeovers: list[Takeover] = field(default_factory=list)  # since this rebalance
    restarted_ms: int | None = None  # the coordinator had been started anew, or moved, since the rebalance before
    converted_from: str | None = None  # the group had this type before
    skipped: int = 0  # generations since the one before that never got as far as an assignment

    @property
    def unit(self) -> str:
        """What members are assigned."""
        return "task" if self.group_type == STREAMS else "partition"

    @property
    def is_end(self) -> bool:
        """Whether nobody was left."""
        return not self.members

    @property
    def was_empty(self) -> bool:
        """Whether the group had no members before, as far as the log tells: a first generation of 41 in the log means
        that compaction has removed the ones before."""
        first = self.bumps[0].epoch if self.bumps else self.generation
        return self.before is None and (self.previous is not None or first <= 2)

    @property
    def begin_ms(self) -> int | None:
        """When it began, if the log says so."""
        if self.bumps:
            first = self.bumps[0]
            return first.told.begin_ms if first.told and first.told.begin_ms is not None else first.time_ms
        return self.told.begin_ms if self.told is not None else None

    @property
    def end_ms(self) -> int:
        """When every member had its new share."""
        return max([self.time_ms, *self.reached.values()])
