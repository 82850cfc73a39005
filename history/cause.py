"""Why a rebalance happened: what Kohort's record headers say, or else what follows from the changes and the commits.

A Kafka writes no headers. Then the difference of two generations tells who came and who is gone, and the commits tell
how a member went: one that leaves in good order commits until then; one that crashed or hangs has been silent for its
session timeout or for its max.poll.interval.ms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kohort.history.changes import Changes
from kohort.history.departure import Departure, departure_of, outlasted
from kohort.history.members import Member
from kohort.history.patterns import Patterns
from kohort.history.rebalance import CLASSIC, COOPERATIVE, SHARE, STREAMS, Rebalance, Told
from kohort.history.words import Names, counted, duration, listed, shown, topic_name

# What began a rebalance: the codes in JSON. See docs/why.md.
FIRST, JOINED, RETURNED = "group started", "member joined", "member came back"
LEFT, SILENT, SLOW_POLL, GONE = "member left", "session expired", "poll too slow", "member gone"
NOT_REJOINED, NOT_GIVEN_UP, NO_SYNC = "did not rejoin in time", "did not give up partitions in time", "no SyncGroup"
REPLACED, SHARED_INSTANCE = "static member replaced", "instance id shared"
SUBSCRIPTION, PATTERN, GREW = "subscription changed", "regular expression matches other topics", "topic grew"
NEW_TOPIC, GONE_TOPIC, ASSIGNOR = "topic created", "topic deleted", "assignor changed"
SECOND_STEP, LEADER, CONVERTED = "second cooperative step", "leader rejoined", "protocol changed"
METADATA, INITIALIZED, OTHER, UNKNOWN = "topics changed", "partitions initialized", "other", "unknown"
MAX_NAMED = 3
DEPARTURES = ("member left", "session expired", "partitions not given up", "no SyncGroup")  # of Kohort's causes


class Cause(NamedTuple):
    code: str
    text: str  # a sentence
    who: tuple[Member, ...] = ()  # the culprits
    topics: tuple[str, ...] = ()
    is_told: bool = False  # from Kohort's record headers; otherwise it is inferred


@dataclass(frozen=True, slots=True)
class Scene:
    """A rebalance, and what the causes are looked for in: changes, names, and the rebalances around it."""

    rebalance: Rebalance
    changes: Changes
    before: Rebalance | None  # the one before
    index: int
    patterns: Patterns
    names: Names
    topics: Mapping[str, str]  # names of topics, by the keys of places


def causes_of(scene: Scene) -> list[Cause]:
    """The first is what began it. The others are what else had changed by the time it was over."""
    told = _told(scene.rebalance)
    if told is not None:
        return _with_told(scene, told)
    return _from_changes(scene) or [Cause(UNKNOWN, _nothing(scene))]


def _told(rebalance: Rebalance) -> Told | None:
    """Several epochs before one target, each with the same cause, count as one cause with several triggers."""
    if rebalance.told is not None:
        return rebalance.told
    told = [bump.told for bump in rebalance.bumps if bump.told is not None]
    if not told:
        return None
    triggers = dict.fromkeys(each.trigger for each in told if each.cause == told[0].cause and each.trigger)
    return told[0]._replace(trigger=", ".join(triggers))


# --- from what has changed


def _from_changes(scene: Scene, told_gone: tuple[Member, ...] = ()) -> list[Cause]:
    """`told_gone`: members of which the record headers say how they went."""
    found: list[Cause] = []
    changes, rebalance = scene.changes, scene.rebalance
    if is_second_step(scene):
        return [_second_step(scene)]
    if rebalance.converted_from is not None:
        found.append(_converted(scene))
    if rebalance.before is None and rebalance.members:
        found.append(_first(scene))
        return found
    known = {member for cause in found for member in cause.who}
    found += [
        cause for cause in _of_departures(scene, told_gone) if cause.code != GONE or not known.issuperset(cause.who)
    ]
    found += _of_arrivals(scene)
    found += _of_subscriptions(scene)
    found += _of_topics(scene)
    if changes.assignor is not None:
        found.append(_of_assignor(scene))
    return found


def is_second_step(scene: Scene) -> bool:
    before = scene.before
    return (
        before is not None
        and scene.rebalance.protocol == before.protocol == COOPERATIVE
        and bool(before.still_free)
        and not scene.changes.of_members
        and not scene.changes.updated
        and not scene.rebalance.is_end
    )


def _second_step(scene: Scene) -> Cause:
    assert scene.before is not None
    count = len(scene.before.still_free)
    text = (
        f"Second step of a cooperative rebalance: {counted(count, 'partition')} that members gave up in generation"
        f" {scene.before.generation} got their new owners."
    )
    return Cause(SECOND_STEP, text)


def _converted(scene: Scene) -> Cause:
    rebalance, joined = scene.rebalance, scene.changes.joined
    if rebalance.converted_from == CLASSIC:
        who = tuple(each for each in joined if not each.is_classic)[:MAX_NAMED]
        by = f" because {_all(scene, who)} joined with group.protocol=consumer" if who else ""
        return Cause(CONVERTED, f"The group became a KIP-848 group{by}.", who)
    gone = tuple(each.member for each in scene.changes.left if not each.member.is_classic)[:MAX_NAMED]
    gone = gone or tuple(each.member for each in scene.changes.left)[:MAX_NAMED]
    by = f" because the last member with group.protocol=consumer is gone: {_all(scene, gone)}" if gone else ""
    return Cause(CONVERTED, f"The group became a classic group again{by}.", gone)


def _first(scene: Scene) -> Cause:
    members = list(scene.rebalance.members.values())
    who = _all(scene, members)
    first = scene.rebalance.bumps[0].epoch if scene.rebalance.bumps else scene.rebalance.generation
    is_new = first <= 2 and scene.before is None
    if scene.rebalance.previous is None and not is_new:
        return Cause(FIRST, f"The first generation that the log still has; its members: {who}.", tuple(members))
    had = "is new" if is_new else "was empty"
    return Cause(FIRST, f"The group {had}, and {who} joined.", tuple(members))


def _of_departures(scene: Scene, told_gone: tuple[Member, ...]) -> list[Cause]:
    groups: dict[tuple[str, str], list[Departure]] = {}
    for removal in scene.changes.left:
        if removal.member in told_gone:
            continue
        departure = departure_of(scene.rebalance, removal)
        groups.setdefault((departure.code, departure.how), []).append(departure)
    return [
        Cause(code, _departed(scene, departures), tuple(each.member for each in departures))
        for (code, _), departures in groups.items()
    ]


def _departed(scene: Scene, departures: list[Departure]) -> str:
    text = f"{_all(scene, [each.member for each in departures])} {departures[0].how}."
    if len(departures) == 1:
        text += _hindsight(scene, departures[0].member, departures[0].code)
    lost = scene.changes.lost_leader
    if lost is not None and any(each.member.member_id == lost.member_id for each in departures):
        who = "It" if len(departures) == 1 else scene.names(lost)
        text += f" {who} was the leader of the group."
    return text


def _hindsight(scene: Scene, member: Member, code: str) -> str:
    back = scene.patterns.return_of(member, scene.index)
    if back is None:
        return ""
    later = f" It came back {duration(back.length_ms)} later"
    if code in (SILENT, NOT_REJOINED, NOT_GIVEN_UP):
        return later + ": it had paused, or was started again."
    return later + "."


def _of_arrivals(scene: Scene) -> list[Cause]:
    if not scene.changes.joined or scene.rebalance.converted_from is not None:
        joined = [each for each in scene.changes.joined if each.is_classic] if scene.rebalance.converted_from else []
        if not joined:
            return []
    else:
        joined = scene.changes.joined
    back = [(each, scene.patterns.absence_before(each, scene.index)) for each in joined]
    returned = [(each, absence) for each, absence in back if absence is not None]
    new = [each for each, absence in back if absence is None]
    found: list[Cause] = []
    if returned:
        longest = max(absence.length_ms for _, absence in returned)
        who = [each for each, _ in returned]
        found.append(Cause(RETURNED, f"{_all(scene, who)} came back after {duration(longest)}.", tuple(who)))
    if new:
        found.append(Cause(JOINED, f"{_all(scene, new)} joined.", tuple(new)))
    return found


def _of_subscriptions(scene: Scene) -> list[Cause]:
    found: list[Cause] = []
    groups: dict[tuple[frozenset[str], frozenset[str], str | None], list[Member]] = {}
    for before, after in scene.changes.updated:
        old, new = before.topics or frozenset(), after.topics or frozenset()
        pattern = after.pattern if after.pattern != before.pattern else None
        groups.setdefault((new - old, old - new, pattern), []).append(after)
    for (added, removed, pattern), members in groups.items():
        verb = "subscribe to" if len(members) > 1 else "subscribes to"
        parts = [f"now also {verb} {listed(_sorted(added))}"] if added else []
        parts += [f"no longer {verb} {listed(_sorted(removed))}"] if removed else []
        parts += [f"now {verb} the regular expression {shown(pattern)}"] if pattern is not None else []
        text = f"{_all(scene, members)} {' and '.join(parts) or f'{verb} other topics'}."
        if removed and not added and not pattern and len(members) == len(scene.rebalance.members):
            text += " All members do: the topic was deleted, or all were changed together."
            found.append(Cause(GONE_TOPIC, text, tuple(members), tuple(_sorted(removed))))
            continue
        if added and not removed and len(members) == len(scene.rebalance.members):
            text += " All members do: their regular expression matches a new topic, or all were changed together."
        found.append(Cause(SUBSCRIPTION, text, tuple(members), tuple(_sorted(added | removed))))
    for pattern in scene.changes.patterns:
        topics = tuple(scene.changes.new_topics)
        which = f": now also {listed(_sorted(topics))}" if topics else ""
        text = f"The regular expression {shown(pattern)} matches other topics{which}."
        found.append(Cause(PATTERN, text, (), topics))
    return found


def _of_topics(scene: Scene) -> list[Cause]:
    changes = scene.changes
    found = []
    for topic, before, after in changes.grown:
        if scene.rebalance.group_type == STREAMS:
            text = (
                f"The topics of {shown(topic.removesuffix(' task'))} grew: it has {after} tasks now, and had {before}."
            )
            found.append(Cause(GREW, text))
            continue
        text = f"The topic {topic_name(topic, {})} grew from {before} to {counted(after, 'partition')}."
        found.append(Cause(GREW, text, (), (topic,)))
    if changes.new_topics and scene.rebalance.group_type == SHARE:  # a share group waits for the states of partitions
        text = f"The partitions of {_topics(changes.new_topics).replace('The', 'the', 1)} can be read now."
        found.append(Cause(INITIALIZED, text, (), tuple(changes.new_topics)))
    elif changes.new_topics and not changes.patterns:
        verb, it = ("exists", "it") if len(changes.new_topics) == 1 else ("exist", "them")
        text = f"{_topics(changes.new_topics)} {verb} now, and members had subscribed to {it} before."
        found.append(Cause(NEW_TOPIC, text, (), tuple(changes.new_topics)))
    if changes.gone_topics:
        verb, it, was = ("is", "it", "it was") if len(changes.gone_topics) == 1 else ("are", "them", "they were")
        text = (
            f"{_topics(changes.gone_topics)} {verb} no longer there, although members subscribe to {it}: {was} deleted."
        )
        found.append(Cause(GONE_TOPIC, text, (), tuple(changes.gone_topics)))
    return found


def _of_assignor(scene: Scene) -> Cause:
    assert scene.changes.assignor is not None
    before, after = scene.changes.assignor
    joined, left = scene.changes.joined, [each.member for each in scene.changes.left]
    text = f"The assignor changed from {shown(before)} to {shown(after)}"
    if joined:
        verb = "does" if len(joined) == 1 else "do"
        text += f": {_all(scene, joined)} {verb} not offer {shown(before)}, or all members that did are gone."
        return Cause(ASSIGNOR, text, tuple(joined))
    if left:
        verb = "is" if len(left) == 1 else "are"
        text += f": {_all(scene, left)}, who did not offer {shown(after)}, {verb} gone."
        return Cause(ASSIGNOR, text, tuple(left))
    return Cause(ASSIGNOR, text + ".")


# --- what Kohort says


def _with_told(scene: Scene, told: Told) -> list[Cause]:
    is_departure = any(told.cause.startswith(kind) for kind in DEPARTURES)
    found = _from_changes(scene, _triggers(scene, told) if is_departure else ())
    first = _explained(scene, told, found)
    rest = [cause for cause in found if cause.text != first.text and not _same(cause, first)]
    return [first._replace(is_told=True), *rest]


def _same(cause: Cause, first: Cause) -> bool:
    same_kind = cause.code == first.code or {cause.code, first.code} <= {LEFT, SILENT, SLOW_POLL, GONE, NOT_REJOINED}
    return same_kind and set(cause.who) <= set(first.who) and bool(cause.who)


def _explained(scene: Scene, told: Told, found: list[Cause]) -> Cause:  # noqa: C901 - a case for each cause
    kind, _, reason = told.cause.partition(": ")
    who = _triggers(scene, told)
    by_code = {cause.code: cause for cause in found}
    for code in (SECOND_STEP, CONVERTED, FIRST):
        if code in by_code:
            return by_code[code]
    match kind:
        case "member joined":
            mine = [each for each in (by_code.get(RETURNED), by_code.get(JOINED)) if each and _names_any(each, who)]
            if mine:
                return mine[0]._replace(who=who or mine[0].who)
            return Cause(JOINED, f"{_all(scene, who) or shown(told.trigger)} joined{_gone_again(scene, who)}.", who)
        case "member left":
            return _told_left(scene, who, reason, told)
        case "session expired":
            return _told_silent(scene, who, told)
        case "static member replaced":
            text = f"{_all(scene, who)} came back as the same static member, with another assignor or subscription."
            return Cause(REPLACED, text, who)
        case "partitions not given up within the rebalance timeout":
            text = f"{_all(scene, who)} did not give up partitions within its rebalance timeout{_timeout(who)}."
            return Cause(NOT_GIVEN_UP, text + _hindsights(scene, who, NOT_GIVEN_UP), who)
        case "no SyncGroup within the rebalance timeout":
            return Cause(NO_SYNC, f"{_all(scene, who)} joined, and did not ask for its assignment in time.", who)
        case "partitions initialized":
            return Cause(INITIALIZED, "The states of new share partitions were made, and they can be read now.", who)
    for code in (PATTERN, GREW, NEW_TOPIC, GONE_TOPIC, SUBSCRIPTION, ASSIGNOR):
        if code in by_code and (code != SUBSCRIPTION or kind != "topics changed"):
            return by_code[code]
    if kind == "topics changed":
        return Cause(METADATA, "A topic of the group was created, deleted or changed.", who)
    if kind in ("leader rejoined", "metadata changed"):
        what = "asked for a rebalance" if kind == "leader rejoined" else "joined again with other metadata"
        why = f", with the reason: {shown(reason)}" if reason else ""
        return Cause(LEADER if kind == "leader rejoined" else SUBSCRIPTION, f"{_all(scene, who)} {what}{why}.", who)
    return Cause(OTHER, f"{shown(told.cause)}{f' ({_all(scene, who)})' if who else ''}.", who)


def _told_left(scene: Scene, who: tuple[Member, ...], reason: str, told: Told) -> Cause:
    names = _all(scene, who) or shown(told.trigger)
    if "poll" in reason:
        text = f"{names} left the group itself, because it did not poll within its max.poll.interval.ms{_timeout(who)}"
        return Cause(SLOW_POLL, f"{text}.{_hindsights(scene, who, SLOW_POLL)}", who)
    gone, begin_ms = [each for each in scene.changes.left if each.member in who], scene.rebalance.begin_ms
    if len(gone) == 1 and begin_ms is not None and outlasted(gone[0], begin_ms):
        text = (
            f"{names} left after it had not committed for its max.poll.interval.ms{_timeout(who)}: it polled too late"
        )
        return Cause(SLOW_POLL, f"{text}.{_hindsights(scene, who, SLOW_POLL)}", who)
    why = f", with the reason: {shown(reason)}" if reason else ""
    text = f"{names} left{why}.{_hindsights(scene, who, LEFT)}"
    return Cause(LEFT, text + _leadership(scene, who), who)


def _told_silent(scene: Scene, who: tuple[Member, ...], told: Told) -> Cause:
    sessions = [each.session_timeout_ms for each in who if each.session_timeout_ms]
    names = _all(scene, who) or shown(told.trigger)
    limit = f" of {duration(max(sessions))}" if sessions else ""
    text = f"{names} fell silent: no heartbeat within its session timeout{limit}"
    signs = [scene.rebalance.signs[each.member_id] for each in who if each.member_id in scene.rebalance.signs]
    begin_ms = scene.rebalance.begin_ms
    if len(signs) == 1 and begin_ms is not None and begin_ms > signs[0].last_ms:
        text += f"; its last commit was {duration(begin_ms - signs[0].last_ms)} before"
    return Cause(SILENT, f"{text}.{_hindsights(scene, who, SILENT)}{_leadership(scene, who)}", who)


def _triggers(scene: Scene, told: Told) -> tuple[Member, ...]:
    found = [scene.names.find(member_id) for member_id in told.trigger.split(", ") if member_id]
    if None in found or not found:
        whole = scene.names.find(told.trigger)
        found = [whole] if whole is not None else found
    return tuple(member for member in found if member is not None)


def _names_any(cause: Cause, who: tuple[Member, ...]) -> bool:
    ids = {member.member_id for member in cause.who}
    return any(member.member_id in ids for member in who)


def _gone_again(scene: Scene, who: tuple[Member, ...]) -> str:
    there = scene.rebalance.members
    return ", and was gone again before the end" if who and who[0].member_id not in there else ""


def _hindsights(scene: Scene, who: tuple[Member, ...], code: str) -> str:
    return _hindsight(scene, who[0], code) if len(who) == 1 else ""


def _leadership(scene: Scene, who: tuple[Member, ...]) -> str:
    lost = scene.changes.lost_leader
    return " It was the leader of the group." if lost is not None and lost in who else ""


def _timeout(who: tuple[Member, ...]) -> str:
    timeouts = [each.rebalance_timeout_ms for each in who if each.rebalance_timeout_ms]
    return f" of {duration(max(timeouts))}" if timeouts else ""


# --- words


def _nothing(scene: Scene) -> str:
    if scene.rebalance.group_type == SHARE:
        return "Nothing that the log shows has changed: partitions became readable, or a member came and went."
    if scene.rebalance.group_type == STREAMS:
        return (
            "Nothing that the log shows of the members has changed: a topic or a setting of the group, such as"
            " streams.num.standby.replicas, or tasks that a member was warming up are ready now."
        )
    if scene.rebalance.group_type == CLASSIC:
        leader = scene.names.find(scene.rebalance.leader or "")
        who = f" ({scene.names(leader)})" if leader is not None else ""
        return (
            "The same members, subscriptions and topics as before: a member asked for a rebalance, most often the"
            f" leader{who}, or one was removed and joined again under its old id."
        )
    return "A topic of the group was created, deleted or changed, and nothing of that concerns the members."


def _all(scene: Scene, members: list[Member] | tuple[Member, ...]) -> str:
    return listed([scene.names(member) for member in members])


def _sorted(topics: frozenset[str] | tuple[str, ...]) -> list[str]:
    return [topic_name(topic, {}) for topic in sorted(topics)]


def _topics(topics: list[str]) -> str:
    return f"The {'topic' if len(topics) == 1 else 'topics'} {listed([topic_name(topic, {}) for topic in topics])}"
