"""Durations, names and lists in words."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime

from kohort.history.members import ID_PREFIX, Member, Place
from kohort.printable import printable

MAX_NAME = 80  # characters; a name may have 32 kB
MAX_LISTED = 5


def shown(text: str) -> str:
    """A name that a stranger has chosen."""
    safe = printable(text)
    return safe if len(safe) <= MAX_NAME else f"{safe[:MAX_NAME]}..."


def duration(ms: float) -> str:
    if ms < 1_000:
        return f"{max(0, round(ms))} ms"
    seconds = ms / 1000
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 120:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min"


def moment(ms: int) -> str:
    try:
        at = datetime.fromtimestamp(ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(ms)
    return at.strftime("%Y-%m-%d %H:%M:%S.") + f"{ms % 1000:03d}Z"


def listed(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`, `a, b, c, d, e and 7 more`."""
    if len(words) > MAX_LISTED + 1:
        return f"{', '.join(words[:MAX_LISTED])} and {len(words) - MAX_LISTED} more"
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""


def counted(count: int, word: str) -> str:
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def topic_name(key: str, names: Mapping[str, str]) -> str:
    name = names.get(key, key)
    return f"topic id {name.removeprefix(ID_PREFIX)}" if name.startswith(ID_PREFIX) else shown(name)


def places_in_words(places: Iterable[Place], names: Mapping[str, str]) -> str:
    """`orders 0-3, 7; payments 0`."""
    by_topic: dict[str, list[int]] = {}
    for key, number in places:
        by_topic.setdefault(topic_name(key, names), []).append(number)
    parts = [f"{topic} {_ranges(sorted(numbers))}" for topic, numbers in sorted(by_topic.items())]
    rest = len(parts) - MAX_LISTED
    return "; ".join(parts[:MAX_LISTED]) + (f"; and {counted(rest, 'topic')} more" if rest > 0 else "")


def _ranges(numbers: Sequence[int]) -> str:
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = runs[-1][0], number
        elif not runs or runs[-1][1] != number:
            runs.append((number, number))
    words = [str(first) if first == last else f"{first}-{last}" for first, last in runs]
    rest = len(words) - 2 * MAX_LISTED
    return ", ".join(words[: 2 * MAX_LISTED]) + (f" and {rest} more" if rest > 0 else "")


class Names:
    """Names of members as people know them, with the member id where the name alone is not enough."""

    def __init__(self, *members: Collection[Member]) -> None:
        self._ids: dict[str, set[str]] = {}
        self._members: dict[str, Member] = {}
        for group in members:
            for member in group:
                self._ids.setdefault(member.name, set()).add(member.identity)
                self._members[member.member_id] = member
                self._members.setdefault(member.identity, member)

    def find(self, member_id: str) -> Member | None:
        """By member id or identity."""
        return self._members.get(member_id)

    def __call__(self, member: Member) -> str:
        name = self._name(member)
        host = shown(member.client_host.removeprefix("/"))
        return f"{name} ({host})" if host else name

    def of_id(self, member_id: str) -> str:
        member = self._members.get(member_id)
        return shown(member_id.removeprefix("static ")) if member is None else self(member)

    def short(self, identity: str) -> str:
        """Without the host."""
        member = self._members.get(identity)
        if member is None:
            return shown(identity.removeprefix("static "))
        return self._name(member)

    def _name(self, member: Member) -> str:
        if member.instance_id is not None or len(self._ids.get(member.name, ())) < 2:
            return shown(member.name)
        if member.member_id.startswith(member.name):
            return shown(member.member_id)
        return f"{shown(member.name)} {shown(member.member_id)}"  # ids of KIP-848 are random
