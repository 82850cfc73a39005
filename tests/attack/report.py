"""Figures against the goals, and as a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.attack.attacker import NO_ANSWER, STUCK, Figure
from tests.attack.extremes import MB

MAX_WAIT_MS = 100
MAX_GROWTH = 4  # times the bytes of the requests
FLOOR_BYTES = 32 << 20  # what Python's allocator may keep, and threads that start with the first large request


def misses(figure: Figure) -> list[str]:
    """What is above its goal, in words."""
    missed = []
    if figure.result in (NO_ANSWER, STUCK):
        missed.append(f"there was no answer for {figure.seconds:.0f} s")
    if figure.held_ms > MAX_WAIT_MS:
        missed.append(f"the bystander waited {figure.held_ms:.0f} ms")
    allowed = FLOOR_BYTES + MAX_GROWTH * figure.request_bytes
    if figure.peak_bytes > allowed:
        missed.append(f"memory grew by {figure.peak_bytes / MB:.0f} MB, allowed are {allowed / MB:.0f}")
    if figure.kept_bytes > FLOOR_BYTES + figure.request_bytes:  # what it asked to keep may be kept
        missed.append(f"{figure.kept_bytes / MB:.0f} MB were kept")
    return missed


def line(figure: Figure) -> str:
    said = "; ".join(misses(figure))
    return (
        f"{figure.api:28} {figure.held_ms:8.1f} ms held {figure.wall_ms:8.1f} ms wall "
        f"{figure.peak_bytes / MB:7.1f} MB peak {figure.kept_bytes / MB:6.1f} kept "
        f"{size(figure.request_bytes):>9} -> {size(figure.answer_bytes):>9} {figure.seconds:6.2f} s {figure.result:9} "
        f"{figure.shape}{'  MISSED: ' + said if said else ''}"
    )


def size(count: int) -> str:
    if count < 1_000:
        return f"{count} B"
    return f"{count / 1000:.1f} kB" if count < MB else f"{count / MB:.1f} MB"


def worst(figures: Iterable[Figure]) -> dict[str, tuple[Figure, Figure]]:
    """By API: the figure with the longest wait, and the one that grew most beyond its request."""
    found: dict[str, tuple[Figure, Figure]] = {}
    for figure in figures:
        slow, large = found.get(figure.api, (figure, figure))
        if figure.held_ms > slow.held_ms:
            slow = figure
        if excess(figure) > excess(large):
            large = figure
        found[figure.api] = slow, large
    return found


def best(figures: Sequence[Figure]) -> Figure:
    """The figure that misses least: whatever else the machine does only ever adds to one."""
    return min(figures, key=lambda figure: (len(misses(figure)), figure.held_ms, excess(figure)))


def table(ours: Sequence[Figure], theirs: Sequence[Figure] = ()) -> str:
    """In Markdown, a line for each API: the request with the longest wait, and the one with the most memory."""
    heads = ["API", "longest wait", "request", "most memory", "request"]
    beside = {(figure.api, figure.shape): figure for figure in theirs}
    if beside:
        heads[2:2] = ["Kafka"]
        heads[5:5] = ["Kafka"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for api, (slow, large) in sorted(worst(ours).items()):
        cells = [api, f"{slow.held_ms:.0f} ms", _request(slow), f"{large.peak_bytes / MB:.0f} MB", _request(large)]
        if beside:
            cells[2:2] = [_cell(beside.get((slow.api, slow.shape)), "wall_ms")]
            cells[5:5] = [_cell(beside.get((large.api, large.shape)), "peak_bytes")]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _request(figure: Figure) -> str:
    answer = size(figure.answer_bytes) if figure.answer_bytes else figure.result
    return f"{figure.shape}: {size(figure.request_bytes)}, {answer}"


def _cell(figure: Figure | None, field: str) -> str:
    if figure is None:
        return "-"
    return f"{figure.wall_ms:.0f} ms" if field == "wall_ms" else f"{figure.peak_bytes / MB:.0f} MB"


def excess(figure: Figure) -> int:
    return figure.peak_bytes - MAX_GROWTH * figure.request_bytes
