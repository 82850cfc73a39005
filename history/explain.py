"""Explains each rebalance of a group: why, who was slow, who had to wait, what was needless, and what to change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kohort.history.advice import advice_for
from kohort.history.cause import REPLACED, SHARED_INSTANCE, Cause, Scene, causes_of, is_second_step
from kohort.history.changes import changes_of
from kohort.history.costs import Moved, Way, moves_of, ways_of
from kohort.history.group_history import GroupHistory
from kohort.history.members import Member, Place
from kohort.history.patterns import Patterns, Rolling
from kohort.history.rebalance import CLASSIC, COOPERATIVE, Gap, Rebalance, Takeover
from kohort.history.words import Names, counted, duration, listed

MIN_LATE_MS = 1_000  # only a member that is later than this is called slow
SHARED_TAKEOVERS = 3  # so often in a row, an instance id is used by two processes
TAKEOVERS_WITHIN_MS = 10 * 60_000


@dataclass(frozen=True, slots=True)
class Slowest:
    """The member that everybody waited for, or that had its new share last."""

    member: Member
    late_ms: int  # since the rebalance began, or if that is not known, since the first member stopped
    is_inferred: bool  # from the last commit of each member
    silent_ms: int | None = None  # for how long it had not committed, if the slowness is inferred from that


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything about one rebalance. text.py makes text of it, as_json.py JSON."""

    group_id: str
    rebalance: Rebalance
    cause: Cause
    also: tuple[Cause, ...]
    is_inferred: bool  # the log does not say the cause: it follows from what has changed
    begin_ms: int | None
    end_ms: int
    slowest: Slowest | None
    not_yet: tuple[Member, ...]  # had not reached their new share when the log, or the rebalance, ended
    gaps: tuple[Gap, ...]
    still_free: Mapping[Place, int]
    moved: Moved | None
    ways: tuple[Way, ...]
    rolling: Rolling | None
    flapping: tuple[tuple[Member, int], ...]
    notes: tuple[str, ...]
    advice: tuple[str, ...]
    names: Names
    topics: Mapping[str, str]
    takeovers: tuple[Takeover, ...] = ()  # not empty: this is no rebalance, only static members that came back

    @property
    def time_ms(self) -> int:
        return self.takeovers[-1].time_ms if self.takeovers else self.rebalance.time_ms

    @property
    def is_rebalance(self) -> bool:
        return not self.takeovers


def explain(history: GroupHistory, wanted: Callable[[Rebalance], bool] | None = None) -> list[Explanation]:
    """In the order of the log. `wanted` chooses the rebalances to explain; all others are still taken into account."""
    history.flush()
    rebalances = list(history.rebalances)
    topics = history.topic_names
    changes = [changes_of(each, topics) for each in rebalances]
    patterns = Patterns(rebalances, changes)
    found: list[Explanation] = []
    for index, rebalance in enumerate(rebalances):
        if wanted is not None and not wanted(rebalance):
            continue
        names = Names(
            (rebalance.before or {}).values(), rebalance.members.values(),
            [each.member for bump in rebalance.bumps for each in bump.removed],
            [member for bump in rebalance.bumps for member in bump.joined],
        )  # fmt: skip
        before = rebalances[index - 1] if index else None
        scene = Scene(rebalance, changes[index], before, index, patterns, names, topics)
        is_last = index == len(rebalances) - 1
        found.append(_explained(history, scene, history.free_since if is_last else rebalance.still_free))
        if rebalance.takeovers:
            found.append(_taken_over(history, scene))
    return found


def _explained(history: GroupHistory, scene: Scene, free_since: Mapping[Place, int]) -> Explanation:
    rebalance = scene.rebalance
    first, *also = causes_of(scene)
    slowest = _slowest(rebalance, scene.names)
    second_step = is_second_step(scene)
    wait_ms = _wait_ms(rebalance, slowest)
    identity = slowest.member.identity if slowest is not None else None
    people = {member.person: member for cause in (first, *also) for member in cause.who}
    flapping = tuple((each, times) for each in people.values() if (times := scene.patterns.flaps(each, scene.index)))
    explanation = Explanation(
        history.group_id, rebalance, first, tuple(also), not first.is_told, rebalance.begin_ms, rebalance.end_ms,
        slowest,
        tuple(rebalance.members[each] for each in sorted(rebalance.behind) if each in rebalance.members),
        tuple(rebalance.gaps), _wanted_places(rebalance, free_since), moves_of(rebalance, scene.topics),
        () if second_step else tuple(ways_of(rebalance, scene.topics, wait_ms, identity)),
        scene.patterns.rolling(scene.index), flapping, tuple(_notes(scene)), (), scene.names, scene.topics,
    )  # fmt: skip
    return _with_advice(explanation, advice_for(explanation, scene))


def _with_advice(explanation: Explanation, advice: Sequence[str]) -> Explanation:
    from dataclasses import replace

    return replace(explanation, advice=tuple(advice))


def _slowest(rebalance: Rebalance, names: Names) -> Slowest | None:
    begin_ms = rebalance.begin_ms
    if rebalance.reached and begin_ms is not None:
        last, at = max(rebalance.reached.items(), key=lambda each: each[1])
        member = names.find(last)
        return Slowest(member, at - begin_ms, False) if member is not None and at - begin_ms >= 0 else None
    if rebalance.last_joined is not None and begin_ms is not None:
        member = names.find(rebalance.last_joined[0])
        late_ms = rebalance.last_joined[1] - begin_ms
        return Slowest(member, late_ms, False) if member is not None and late_ms >= 0 else None
    return _slowest_by_commits(rebalance) if rebalance.group_type == CLASSIC else None


def _slowest_by_commits(rebalance: Rebalance) -> Slowest | None:
    """Members commit until they rejoin, and many do so just before. So if one of them committed until the end, it was
    the last. If nobody did, it was the one that had stopped long before the others: it was at work."""
    stops = sorted(
        (sign.last_ms, member_id) for member_id, sign in rebalance.signs.items() if member_id in rebalance.members
    )
    if len(stops) < 2 or rebalance.restarted_ms is not None:
        return None
    (first_ms, first), (second_ms, _), (last_ms, last) = stops[0], stops[1], stops[-1]
    end_ms = rebalance.join_end_ms or rebalance.time_ms
    usual_ms = max(rebalance.signs[member_id].interval_ms or 0 for _, member_id in stops[:-1])
    if end_ms - last_ms <= MIN_LATE_MS:
        late_ms = last_ms - first_ms
        is_late = late_ms >= max(MIN_LATE_MS, 2 * usual_ms)
        return Slowest(rebalance.members[last], late_ms, True) if is_late else None
    if second_ms - first_ms >= max(MIN_LATE_MS // 2, 2 * usual_ms):
        return Slowest(rebalance.members[first], end_ms - second_ms, True, end_ms - first_ms)
    return None


def _wait_ms(rebalance: Rebalance, slowest: Slowest | None) -> int | None:
    """How long the members had to wait for the last of them."""
    if rebalance.bumps:
        return slowest.late_ms if slowest is not None else None
    if rebalance.begin_ms is not None:
        return max(0, rebalance.time_ms - rebalance.begin_ms)
    return slowest.late_ms if slowest is not None else None


def _wanted_places(rebalance: Rebalance, free_since: Mapping[Place, int]) -> dict[Place, int]:
    """Partitions that somebody should have, and nobody has."""
    if rebalance.is_end:
        return {}
    if rebalance.bumps:
        targets = {place for member in rebalance.members.values() for place in member.assigned or ()}
        return {place: since for place, since in free_since.items() if place in targets}
    if rebalance.protocol != COOPERATIVE:
        return {}
    topics = frozenset[str]().union(*(member.topics or frozenset() for member in rebalance.members.values()))
    return {place: since for place, since in free_since.items() if place[0] in topics}


def _notes(scene: Scene) -> list[str]:
    rebalance = scene.rebalance
    notes = []
    if rebalance.restarted_ms is not None:
        notes.append("The coordinator of the group was started again, or another broker took over, since the last one.")
    if rebalance.skipped and rebalance.before is not None:
        count, they = counted(rebalance.skipped, "generation"), "it was" if rebalance.skipped == 1 else "they were"
        notes.append(f"{count} before this one never got an assignment: another rebalance began before {they} ready.")
    if rebalance.gaps and rebalance.group_type == CLASSIC and any(gap.is_inferred for gap in rebalance.gaps):
        notes.append("Times without an owner begin with the last commit of each partition: the log has no better sign.")
    return notes


# --- static members that came back


def _taken_over(history: GroupHistory, scene: Scene) -> Explanation:
    rebalance = scene.rebalance
    takeovers = tuple(rebalance.takeovers)
    names = Names([each.after for each in takeovers])
    times: dict[str, list[Takeover]] = {}
    for each in takeovers:
        times.setdefault(each.after.identity, []).append(each)
    shared = [some for some in times.values() if _is_shared(some)]
    if shared:
        who = tuple(some[-1].after for some in shared)
        text = (
            f"{listed([names(each) for each in who])} was taken over {counted(len(shared[0]), 'time')} within"
            f" {duration(shared[0][-1].time_ms - shared[0][0].time_ms)}: two processes use the same group.instance.id."
        )
        cause = Cause(SHARED_INSTANCE, text, who)
    else:
        who = tuple(some[-1].after for some in times.values())
        text = f"{listed([names(each) for each in who])} came back under a new member id, without a rebalance."
        cause = Cause(REPLACED, text, who)
    explanation = Explanation(
        history.group_id, rebalance, cause, (), True, takeovers[0].time_ms, takeovers[-1].time_ms, None, (), (), {},
        None, (), None, (), (), (), names, scene.topics, takeovers,
    )  # fmt: skip
    return _with_advice(explanation, advice_for(explanation, scene))


def _is_shared(takeovers: Sequence[Takeover]) -> bool:
    return (
        len(takeovers) >= SHARED_TAKEOVERS
        and takeovers[-1].time_ms - takeovers[-SHARED_TAKEOVERS].time_ms <= TAKEOVERS_WITHIN_MS
    )
