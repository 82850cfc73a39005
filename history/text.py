"""An explanation as text: a title, and lines with a label each, for a terminal or a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kohort.history.costs import Moved, Way
from kohort.history.explain import Explanation
from kohort.history.members import Place
from kohort.history.rebalance import CLASSIC, Gap, Rebalance
from kohort.history.words import counted, duration, listed, moment, places_in_words, shown

MAX_GAPS = 4
MAX_MOVES = 4
SHORT_MS = 50  # gaps that last as long as each other, within so much, are told together


class Line(NamedTuple):
    label: str
    text: str


def title_of(explanation: Explanation) -> str:
    rebalance = explanation.rebalance
    if not explanation.is_rebalance:
        return f"{shown(explanation.group_id)}: static members came back at {moment(explanation.time_ms)}"
    number = "generation" if rebalance.group_type == CLASSIC else "epoch"
    before = f"{rebalance.previous} -> " if rebalance.previous is not None else ""
    members = f"{len(rebalance.before)} -> " if rebalance.before is not None else ""
    partitions = {place for member in rebalance.members.values() for place in member.assigned or ()}
    kinds = {"classic": "classic", "consumer": "KIP-848", "share": "share group", "streams": "streams group"}
    kind = kinds[rebalance.group_type]
    protocol = f", {shown(rebalance.protocol)}" if rebalance.protocol else ""
    size = f"{members}{counted(len(rebalance.members), 'member')}, {counted(len(partitions), rebalance.unit)}"
    return (
        f"{shown(explanation.group_id)}: {number} {before}{rebalance.generation} at {moment(rebalance.time_ms)}"
        f" ({kind}{protocol}; {size})"
    )


def lines_of(explanation: Explanation) -> list[Line]:
    lines = [Line("why", explanation.cause.text + (" (inferred)" if explanation.is_inferred else ""))]
    lines += [Line("also", cause.text) for cause in explanation.also]
    lines += _of_patterns(explanation)
    if explanation.is_rebalance:
        lines += _of_time(explanation)
        lines += _of_slowest(explanation)
        lines += _of_gaps(explanation)
        lines += _of_moves(explanation)
        lines += [Line("cost" if way.is_actual else "instead", _way(way)) for way in explanation.ways]
    lines += [Line("note", note) for note in explanation.notes]
    lines += [Line("change", advice) for advice in explanation.advice]
    return lines


def text_of(explanation: Explanation) -> str:
    """Without colour; the command adds it."""
    width = 9
    lines = [f"  {line.label:<{width}}{line.text}" for line in lines_of(explanation)]
    return "\n".join([title_of(explanation), *lines])


# --- the lines


def _of_patterns(explanation: Explanation) -> list[Line]:
    lines = []
    rolling = explanation.rolling
    if rolling is not None:
        text = (
            f"A rolling restart: {rolling.members} of {counted(rolling.of, 'member')} went and came back within"
            f" {duration(rolling.to_ms - rolling.from_ms)}."
        )
        lines.append(Line("part of", text))
    for member, times in explanation.flapping:
        lines.append(Line("part of", f"{explanation.names(member)} flaps: it was away {times} times within 20 min."))
    return lines


def _of_time(explanation: Explanation) -> list[Line]:
    rebalance, begin_ms = explanation.rebalance, explanation.begin_ms
    if begin_ms is None:
        if rebalance.join_end_ms is None or rebalance.is_end or rebalance.time_ms < rebalance.join_end_ms:
            return []
        took = duration(rebalance.time_ms - rebalance.join_end_ms)
        return [Line("took", f"{took} from the last JoinGroup to the assignment; when it began, the log does not say.")]
    if rebalance.is_end:
        return []
    total = duration(max(0, explanation.end_ms - begin_ms))
    if rebalance.group_type != CLASSIC:
        wait = duration(max(0, rebalance.time_ms - begin_ms))
        if explanation.not_yet:
            return [Line("took", f"the target was there after {wait}; not every member got its share.")]
        return [Line("took", f"{total} until every member had its share; the target was there after {wait}.")]
    if rebalance.join_end_ms is None or not begin_ms <= rebalance.join_end_ms <= rebalance.time_ms:
        return [Line("took", f"{total}.")]
    assigned = f"{duration(rebalance.time_ms - rebalance.join_end_ms)} until the leader had assigned"
    return [Line("took", f"{total}: {_join_phase(rebalance, begin_ms, rebalance.join_end_ms)}, {assigned}.")]


def _join_phase(rebalance: Rebalance, begin_ms: int, end_ms: int) -> str:
    last_ms = rebalance.last_joined[1] if rebalance.last_joined is not None else end_ms
    if rebalance.was_empty and end_ms - last_ms > SHORT_MS:
        waited = duration(end_ms - last_ms)
        return (
            f"{duration(last_ms - begin_ms)} until all had joined, {waited} in which a new group waits for more members"
            " (group.initial.rebalance.delay.ms)"
        )
    return f"{duration(end_ms - begin_ms)} until all had rejoined"


def _of_slowest(explanation: Explanation) -> list[Line]:
    lines = []
    slowest, is_classic = explanation.slowest, explanation.rebalance.group_type == CLASSIC
    is_over = is_classic or not explanation.not_yet  # otherwise nobody knows who will be the last
    if slowest is not None and is_over and len(explanation.rebalance.members) > 1:
        name, late = explanation.names(slowest.member), duration(slowest.late_ms)
        if slowest.silent_ms is not None:
            text = (
                f"{name} had not committed for {duration(slowest.silent_ms)} when all had rejoined; the others waited"
            )
            text += f" {late} (inferred)."
        elif slowest.is_inferred:
            text = f"{name}: its last commit came {late} after the first member had stopped (inferred)."
        elif is_classic:
            text = f"{name} joined last, {late} after the rebalance had begun."
        else:
            text = f"{name} had its share last, after {late}."
        lines.append(Line("slowest", text))
    if explanation.not_yet:
        who = listed([explanation.names(member) for member in explanation.not_yet])
        lines.append(
            Line(
                "slowest",
                f"{who} had not yet taken all of the new share when the log ended or the next rebalance began.",
            )
        )
    return lines


def _of_gaps(explanation: Explanation) -> list[Line]:
    mark = " (inferred)" if any(gap.is_inferred for gap in explanation.gaps) else ""
    lines = [Line("unowned", text + mark) for text in _gaps_in_words(explanation.gaps, explanation.topics)]
    if explanation.still_free:
        lines.append(Line("unowned", _free_in_words(explanation.still_free, explanation.topics)))
    return lines


def _gaps_in_words(gaps: tuple[Gap, ...], topics: Mapping[str, str]) -> list[str]:
    ordered = sorted(gaps, key=lambda gap: gap.from_ms - gap.to_ms)
    groups: list[list[Gap]] = []
    for gap in ordered:
        length = gap.to_ms - gap.from_ms
        if groups and (groups[-1][0].to_ms - groups[-1][0].from_ms) - length <= max(SHORT_MS, length // 10):
            groups[-1].append(gap)
        else:
            groups.append([gap])
    texts = [
        f"{places_in_words([gap.place for gap in group], topics)}: for {duration(group[0].to_ms - group[0].from_ms)}"
        for group in groups[:MAX_GAPS]
    ]
    if len(groups) > MAX_GAPS:
        rest = groups[MAX_GAPS:]
        count, longest = sum(map(len, rest)), rest[0][0].to_ms - rest[0][0].from_ms
        texts.append(f"{counted(count, 'partition')} more: for at most {duration(longest)}")
    return texts


def _free_in_words(free: Mapping[Place, int], topics: Mapping[str, str]) -> str:
    return f"{places_in_words(free, topics)}: still without an owner when the log ended or the next rebalance began"


def _of_moves(explanation: Explanation) -> list[Line]:
    moved, rebalance = explanation.moved, explanation.rebalance
    if moved is None or rebalance.before is None or rebalance.is_end:
        return []
    text = f"{counted(moved.moved, rebalance.unit) if moved.moved else f'No {rebalance.unit}'} moved"
    if moved.forced:
        text += f", {moved.forced} of them because their owner is gone"
    lines = [Line("moves", f"{text}.")]
    if moved.needless:
        lines.append(Line("needless", _needless(explanation, moved)))
    return lines


def _needless(explanation: Explanation, moved: Moved) -> str:
    """Of moves that could have been fewer nobody can say which ones were too many: so all of them are listed."""
    count, enough = moved.moved - moved.forced, moved.moved - moved.forced - moved.needless
    these = "these" if not moved.forced else "the other"
    verb = "was" if moved.needless == 1 else "were"
    if count == 1:
        text = "This move was not needed" if not moved.forced else "The other move was not needed"
    elif not enough:
        text = f"None of {these} {count:,} moves was needed"
    else:
        text = (
            f"{moved.needless:,} of {these} {count:,} moves {verb} not needed, because {enough:,} would have sufficed"
        )
    short, topics = explanation.names.short, explanation.topics
    listed_moves = [
        f"{places_in_words([move.place], topics)} from {short(move.before)} to {short(move.after)}"
        for move in moved.examples[:MAX_MOVES]
    ]
    if listed_moves and count > len(listed_moves):
        listed_moves.append(f"and {count - len(listed_moves):,} more")
    return f"{text}: {'; '.join(listed_moves)}." if listed_moves else f"{text}."


def _way(way: Way) -> str:
    seconds = "" if way.partition_seconds is None else f"; about {way.partition_seconds:,.1f} partition-seconds unread"
    verb = "stopped" if way.is_actual else "would have stopped"
    return f"{way.way} ({way.assignor}): {counted(way.stopped, 'partition')} {verb}, {way.moved:,} moved{seconds}"
