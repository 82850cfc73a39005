"""A group's history as JSON, as the live page draws it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import Any, Final

from kohort.broker.live.group import CONSUMER, SHARE, UNRELEASED, UNREVOKED, GroupHistory, Person, Place, Rebalance
from kohort.broker.live.words import in_words

MAX_ROWS: Final = 400  # partitions in the strip
MAX_BARS: Final = 12_000  # times that somebody had one of them
MAX_MEMBERS: Final = 2_000
MAX_SHOWN_REBALANCES: Final = 100
MAX_TEXT: Final = 300  # characters of a name; a longer one is cut, and its length told
AT_ONCE: Final = 2_000
EPOCH_TYPES: Final = (CONSUMER, SHARE)

Bar = tuple[int, int, int | None, int]  # row, start, end (None: still), person


def cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}… ({len(text):,} characters)"


def group_view(group: GroupHistory, now_ms: int) -> Iterator[dict[str, Any]]:
    """In parts, each of which takes a few milliseconds."""
    rows: list[Place] = []
    for some_rows in _rows(group):
        rows = some_rows
        yield {}
    bars: list[Bar] = []
    people: dict[int, Person] = {}
    for some in _bars(group, {place: row for row, place in enumerate(rows)}):
        bars += some
        for bar in some:
            _note(group, people, bar[3])
        yield {}
    shown = sorted(islice(group.present.values(), MAX_MEMBERS), key=lambda each: each.index)
    yield {
        "epoch": group.epoch,
        "target_epoch": group.target_epoch if group.type in EPOCH_TYPES else None,
        "since": group.since_ms,
        "now": now_ms,
        "members": [_member(person) for person in shown],
        "member_count": len(group.present),
        "rows": [[cut(topic), partition] for topic, partition in rows],
        "row_count": max(len(rows), len(group.held) + len(group.unowned)),
    }
    people.update((person.index, person) for person in shown)
    yield {"people": {str(index): _name(person) for index, person in people.items()}, "bars": bars}
    yield {
        "owners_kept": group.is_kept,
        "rebalance_count": group.rebalance_count,
        "rebalances": [shown_rebalance(each) for each in islice(reversed(group.rebalances), MAX_SHOWN_REBALANCES)],
        "causes": dict(group.by_cause.most_common()),
        "unowned_ms": group.unowned_ms_at(now_ms),
    }


def _rows(group: GroupHistory) -> Iterator[list[Place]]:
    """The partitions that the strip shows, in order; the last list is the right one."""
    places = chain(list(group.held), list(group.unowned), [owned.place for owned in group.past])
    rows: list[Place] = []
    while some := list(islice(places, AT_ONCE)):
        rows = sorted({*rows, *some})[:MAX_ROWS]
        yield rows


def _bars(group: GroupHistory, row_of: Mapping[Place, int]) -> Iterator[list[Bar]]:
    """What somebody has comes first, then what was last."""
    now: Iterator[Bar] = (
        (row_of[place], since, None, person) for place, person, since in list(group.owned()) if place in row_of
    )
    before: Iterator[Bar] = (
        (row_of[owned.place], owned.start_ms, owned.end_ms, owned.person)
        for owned in reversed(list(group.past))
        if owned.place in row_of
    )
    bars = islice(chain(now, before), MAX_BARS)
    while some := list(islice(bars, AT_ONCE)):
        yield some


def _note(group: GroupHistory, people: dict[int, Person], index: int) -> None:
    if index not in people and (person := group.by_index.get(index)) is not None:
        people[index] = person


def _name(person: Person) -> dict[str, Any]:
    return {
        "id": cut(person.instance_id or person.member_id),
        "client": cut(person.client_id),
        "host": cut(person.host),
    }


def _member(person: Person) -> dict[str, Any]:
    return {
        "index": person.index,
        "member_id": cut(person.member_id),
        "instance_id": None if person.instance_id is None else cut(person.instance_id),
        "client_id": cut(person.client_id),
        "host": cut(person.host),
        "since": person.since_ms,
        "epoch": person.epoch if person.epoch >= 0 else None,
        "revoking": person.state == UNREVOKED,
        "waiting": person.state == UNRELEASED,
        "partitions": len(person.places),
    }


def shown_rebalance(each: Rebalance) -> dict[str, Any]:
    return {
        "number": each.number,
        "epoch": each.epoch,
        "at": each.at_ms,
        "began": each.began_ms,
        "duration_ms": each.duration_ms,
        "cause": cut(each.cause),
        "trigger": cut(each.trigger),
        "slowest": cut(each.slowest),
        "members": each.members,
        "moved": each.moved,
        "unowned": each.unowned,
        "joined": [cut(name) for name in each.joined],
        "joined_count": each.joined_count,
        "left": [cut(name) for name in each.left],
        "left_count": each.left_count,
        "over": each.is_over,
        "explanation": in_words(each),
    }
