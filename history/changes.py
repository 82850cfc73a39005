"""What is different in a group after a rebalance: members, subscriptions, topics, the assignor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kohort.history.members import Member, Place, by_identity
from kohort.history.rebalance import Rebalance, Removal, Update


class Grown(NamedTuple):
    topic: str
    before: int  # partitions
    after: int


@dataclass(slots=True)
class Changes:
    joined: list[Member] = field(default_factory=list)
    left: list[Removal] = field(default_factory=list)
    updated: list[Update] = field(default_factory=list)
    patterns: list[str] = field(default_factory=list)  # KIP-848: expressions that match other topics than before
    grown: list[Grown] = field(default_factory=list)
    new_topics: list[str] = field(default_factory=list)  # that members had subscribed to before
    gone_topics: list[str] = field(default_factory=list)  # that members still subscribe to
    assignor: tuple[str, str] | None = None
    lost_leader: Member | None = None

    @property
    def of_members(self) -> bool:
        return bool(self.joined or self.left)

    @property
    def of_topics(self) -> bool:
        return bool(self.grown or self.new_topics or self.gone_topics)


def changes_of(rebalance: Rebalance, names: Mapping[str, str]) -> Changes:
    """`names`: of topics, by the keys of places."""
    changes = Changes()
    if rebalance.bumps:
        _from_bumps(rebalance, changes)
    else:
        _from_members(rebalance, changes)
    _of_topics(rebalance, changes, names)
    before, after = rebalance.protocol_before, rebalance.protocol
    if before and after and before != after and rebalance.before and not rebalance.is_end:
        changes.assignor = before, after
    if rebalance.leader_before is not None and rebalance.before is not None:
        lost = rebalance.before.get(rebalance.leader_before)
        if lost is not None and any(removal.member.member_id == lost.member_id for removal in changes.left):
            changes.lost_leader = lost
    return changes


def _from_bumps(rebalance: Rebalance, changes: Changes) -> None:
    for bump in rebalance.bumps:
        changes.joined += bump.joined
        changes.left += bump.removed
        changes.updated += bump.updated
        changes.patterns += bump.patterns
    stayed = {each.member_id for each in changes.joined} & {each.member.member_id for each in changes.left}
    if rebalance.before is None:  # joined and left again before there was a target
        changes.left = [each for each in changes.left if each.member.member_id not in stayed]
    if rebalance.converted_from is not None and rebalance.before is not None:
        known = {each.member.member_id for each in changes.left}
        changes.left += [
            Removal(each, rebalance.time_ms, None, None)
            for member_id, each in rebalance.before.items()
            if member_id not in rebalance.members and member_id not in known
        ]


def _from_members(rebalance: Rebalance, changes: Changes) -> None:
    before, after = by_identity(rebalance.before or {}), by_identity(rebalance.members)
    changes.joined = [member for identity, member in after.items() if identity not in before]
    changes.left = [
        Removal(member, rebalance.begin_ms or rebalance.time_ms, rebalance.signs.get(member.member_id), None)
        for identity, member in before.items()
        if identity not in after
    ]
    for identity, member in after.items():
        known = before.get(identity)
        if known is not None and None not in (known.topics, member.topics) and known.topics != member.topics:
            changes.updated.append(Update(known, member))


def _of_topics(rebalance: Rebalance, changes: Changes, names: Mapping[str, str]) -> None:
    if rebalance.before is None or rebalance.is_end or rebalance.converted_from is not None:
        return
    assigned = {place for member in rebalance.members.values() for place in member.assigned or ()}
    before = _counts(rebalance.owners, names)
    after = _counts(assigned.union(rebalance.still_free), names)
    wanted_before, wanted_now = _wanted(rebalance.before.values()), _wanted(rebalance.members.values())
    for topic, count in sorted(after.items()):
        if topic in before and count > before[topic]:
            changes.grown.append(Grown(topic, before[topic], count))
        elif topic not in before and (topic in wanted_before or changes.patterns):
            changes.new_topics.append(topic)
    changes.gone_topics = sorted(topic for topic in before if topic not in after and topic in wanted_now)


def _counts(places: Iterable[Place], names: Mapping[str, str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for key, partition in places:
        topic = names.get(key, key)
        found[topic] = max(found.get(topic, 0), partition + 1)
    return found


def _wanted(members: Iterable[Member]) -> frozenset[str]:
    return frozenset[str]().union(*(member.topics or frozenset() for member in members))
