"""What to change, as settings of Kafka's clients and brokers. Each piece of advice is one sentence or two."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kohort.history import cause as codes
from kohort.history.cause import Scene
from kohort.history.costs import EAGER, SERVER_SIDE
from kohort.history.members import Member
from kohort.history.rebalance import CLASSIC, COOPERATIVE, Rebalance
from kohort.history.words import duration, shown

if TYPE_CHECKING:
    from kohort.history.explain import Explanation

LONG_WAIT_MS = 2_000
ROOM = 1.5  # a timeout should be so many times longer than what it has to outlast
FORMED_WITHIN_MS = 5_000
WORTH_PARTITION_SECONDS = 1.0  # shorter stops are nothing to act on


def advice_for(explanation: Explanation, scene: Scene) -> list[str]:
    return list(dict.fromkeys(_advice(explanation, scene)))


def _advice(explanation: Explanation, scene: Scene) -> Iterator[str]:
    yield from _on_patterns(explanation, scene)
    for cause in (explanation.cause, *explanation.also):
        yield from _on_cause(explanation, scene, cause)
    if explanation.is_rebalance:
        yield from _on_slowness(explanation)
        yield from _on_moves(explanation)


def _on_patterns(explanation: Explanation, scene: Scene) -> Iterator[str]:
    if explanation.rolling is not None:
        longest = max((each.length_ms for each in scene.patterns.absences), default=0)
        if explanation.rebalance.group_type == CLASSIC and any(
            each.instance_id is None for each in _people(explanation)
        ):
            yield (
                "Restarts need not rebalance: give each member a group.instance.id of its own, and a session.timeout.ms"
                f" above the time that a restart takes ({duration(longest)} here)."
            )
    for member, _ in explanation.flapping:
        longest = max((each.length_ms for each in scene.patterns.absences if each.person == member.person), default=0)
        yield f"Look into {explanation.names(member)} first: all others rebalance whenever it comes and goes."
        if member.instance_id is not None and member.session_timeout_ms:
            yield (
                f"A static member is spared rebalances only while it is away for less than its session timeout of"
                f" {duration(member.session_timeout_ms)}; {explanation.names(member)} was away for {duration(longest)}."
                f" Set session.timeout.ms={max(round(longest * ROOM), 2 * member.session_timeout_ms)}."
            )


def _on_cause(explanation: Explanation, scene: Scene, cause: codes.Cause) -> Iterator[str]:  # noqa: C901 - a case each
    who = cause.who[0] if cause.who else None
    back = scene.patterns.return_of(who, scene.index) if who is not None else None
    match cause.code:
        case codes.SILENT if back is not None and who is not None and who.session_timeout_ms:
            yield (
                f"{explanation.names(who)} was alive: look for a pause (garbage collection, a suspended machine, the"
                f" network) of more than {duration(who.session_timeout_ms)}, or raise session.timeout.ms above it."
            )
        case codes.SILENT if back is not None:
            setting = f"group.{explanation.rebalance.group_type}.session.timeout.ms"
            yield f"The member was alive: look for a pause, or raise {setting} above it."
        case codes.SILENT:
            is_classic = who is None or who.is_classic
            setting = f"{'' if is_classic else f'group.{explanation.rebalance.group_type}.'}session.timeout.ms"
            yield (
                f"A crash is noticed only after {setting}: a shorter one lets the others take over sooner. If the"
                " process was stopped on purpose, let it call close(): then they take over at once."
            )
        case codes.SLOW_POLL | codes.NOT_REJOINED:
            yield (
                "The work between two polls takes too long: lower max.poll.records, raise max.poll.interval.ms, or"
                " work in another thread and pause() the partitions meanwhile."
            )
        case codes.NOT_GIVEN_UP:
            yield (
                "A member gives up partitions between two polls: lower max.poll.records, or raise"
                " max.poll.interval.ms, which is its rebalance timeout."
            )
        case codes.NO_SYNC:
            yield "The member was stopped or hung in the middle of a rebalance: look at its log of that time."
        case codes.SHARED_INSTANCE:
            yield "Give each process a group.instance.id of its own, for instance the name of its pod or host."
        case codes.ASSIGNOR:
            yield (
                "Let all members have the same partition.assignment.strategy. To change it without a stop: add the new"
                " one to all lists in a first rolling restart, and remove the old one in a second."
            )
        case codes.GREW | codes.NEW_TOPIC | codes.GONE_TOPIC | codes.PATTERN | codes.METADATA:
            if explanation.rebalance.group_type == CLASSIC:
                yield "Nothing is wrong. metadata.max.age.ms (5 min by default) decides how soon members notice."
        case codes.SECOND_STEP:
            yield "The second round belongs to the cooperative way; group.protocol=consumer (KIP-848) needs none."
        case codes.FIRST | codes.JOINED if _is_forming(explanation.rebalance, scene):
            yield (
                "The group rebalanced several times while it was starting: a longer group.initial.rebalance.delay.ms"
                " on the broker lets all members come first."
            )


def _on_slowness(explanation: Explanation) -> Iterator[str]:
    slowest = explanation.slowest
    if slowest is None or slowest.late_ms < LONG_WAIT_MS or explanation.rebalance.is_end:
        return
    name = explanation.names(slowest.member)
    if explanation.rebalance.group_type == CLASSIC and _stayed(explanation.rebalance, slowest.member.member_id):
        yield (
            f"Everybody waited for {name}: a member can rejoin only between two polls. Lower its max.poll.records, or"
            " shorten its work between two polls."
        )


def _on_moves(explanation: Explanation) -> Iterator[str]:
    moved, rebalance = explanation.moved, explanation.rebalance
    if moved is not None and moved.needless and rebalance.protocol in ("range", "roundrobin"):
        yield (
            f"{shown(rebalance.protocol)} moves partitions without need. CooperativeStickyAssignor"
            " (cooperative-sticky in librdkafka) or group.protocol=consumer moves only what must move."
        )
    ways = {way.way: way for way in explanation.ways}
    eager, other = ways.get(EAGER), ways.get(SERVER_SIDE)
    if eager is None or other is None or not eager.is_actual or (moved is not None and moved.needless):
        return
    if eager.partition_seconds is not None and eager.partition_seconds < WORTH_PARTITION_SECONDS:
        return
    if eager.stopped > other.stopped and rebalance.protocol != COOPERATIVE:
        yield (
            f"{eager.stopped - other.stopped} partitions stopped although their owner stays the same:"
            " group.protocol=consumer (KIP-848) or CooperativeStickyAssignor lets them be read meanwhile."
        )


def _people(explanation: Explanation) -> list[Member]:
    return [member for cause in (explanation.cause, *explanation.also) for member in cause.who]


def _stayed(rebalance: Rebalance, member_id: str) -> bool:
    return rebalance.before is not None and member_id in rebalance.before


def _is_forming(rebalance: Rebalance, scene: Scene) -> bool:
    """Several members had come one after the other within a few seconds."""
    before = scene.before
    return (
        rebalance.group_type == CLASSIC
        and before is not None
        and before.before is None
        and len(rebalance.members) > len(before.members)
        and rebalance.time_ms - before.time_ms < FORMED_WITHIN_MS
    )
