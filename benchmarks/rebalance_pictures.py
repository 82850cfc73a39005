"""Pictures of recorded rebalances: who read which partition when, and who waited.

    python -m benchmarks.rebalance_pause --clients java --save FOLDER
    python -m benchmarks.rebalance_pictures FOLDER docs

A picture shows one event in all three ways. Each member has a lane with a row for each partition, so a partition is
always at the same height and of the same colour. A bar is drawn while the member reads the partition. Where nobody
reads it for longer than usual, the row of the member that had it last is red until somebody reads it again.
"""

from __future__ import annotations

import argparse
import html
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.rebalance_pause import BUSY, EVENTS, IS_KILLED, JOINS, LEAVES, NOT_A_PAUSE_S, WAYS, WORK_MS, Gap, Run
from tests.clients.group_checks import PARTITIONS

WIDTH = 960
LEFT, RIGHT = 80, 16  # of the time axis
ROW = 4  # pixels of height
LANE = PARTITIONS * ROW
LANE_SPACE = 10
TITLE = 52
AXIS = 34
LEGEND = 34
EVENT_WORDS = 150  # pixels: the event stands there, and no seconds
MEMBERS = 4
PANEL = TITLE + MEMBERS * (LANE + LANE_SPACE) + AXIS
BEFORE_S = 1.5  # shown before the event
AFTER_S = {JOINS: 6.5, LEAVES: 4.5, IS_KILLED: 10.5}
FILES = {JOINS: "join", LEAVES: "leave", IS_KILLED: "kill"}
RED = "#d62828"
SENTENCES = {
    "eager": "Eager: everyone gives up everything, then waits for the last one",
    "cooperative": "Cooperative: a member keeps its partitions, and gives up what moves in a second round",
    "server-side": "Server-side (KIP-848): the broker moves what must move, and tells nobody else",
}


class Bar(NamedTuple):
    member: str
    partition: int
    start: float
    end: float


def colour(partition: int) -> str:
    """Neighbours differ in hue and lightness; none of them is red."""
    return f"hsl({40 + partition * 280 // PARTITIONS} {65}% {48 if partition % 2 else 62}%)"


def usual_s(gap: Gap) -> float:
    """How long this reader takes between two polls when nothing happens."""
    return NOT_A_PAUSE_S + (WORK_MS / 1000 if gap.before.member == f"member {BUSY}" else 0)


class Panel:
    """One way, in the seconds around one event."""

    def __init__(self, run: Run, event: str) -> None:
        self.run = run
        self.event_at, following = run.window(event)
        self.start = self.event_at - BEFORE_S
        self.end = self.event_at + AFTER_S[event]
        self.moved = run.moved(self.event_at, following)
        gaps = run.gaps(self.start - 10, self.end + 60)
        self.gaps = [gap for gap in gaps if gap.before.at < self.end and gap.after.at > self.start]
        self.pauses = [gap for gap in self.gaps if gap.seconds > usual_s(gap)]

    def bars(self) -> Iterator[Bar]:
        """A bar for each time in which one member read one partition without a pause."""
        pauses = set(self.pauses)
        opened: dict[int, Bar] = {}
        for gap in self.gaps:
            bar = opened.get(gap.partition)
            if bar is None:
                bar = Bar(gap.before.member, gap.partition, gap.before.at, gap.before.at)
            if gap in pauses or gap.is_move:
                yield bar._replace(end=gap.before.at)
                bar = Bar(gap.after.member, gap.partition, gap.after.at, gap.after.at)
            opened[gap.partition] = bar._replace(end=gap.after.at)
        yield from opened.values()

    def verdict(self) -> str:
        """What the panel shows, in numbers: pauses that belong to the event."""
        after = [gap for gap in self.pauses if gap.after.at > self.event_at]
        kept = [gap for gap in after if gap.partition not in self.moved]
        words = []
        for gaps, what in ((kept, "that stay where they are"), ([g for g in after if g not in kept], "that move")):
            count = len({gap.partition for gap in gaps})
            if count:
                words.append(f"{count} {what} pause, at most {max(gap.seconds for gap in gaps):.1f} s")
            else:
                words.append(f"none {what} pauses" if what != "that move" or self.moved else "none moves")
        return "Partitions: " + "; ".join(words)


class Picture:
    def __init__(self, event: str, panels: list[Panel]) -> None:
        self._event = event
        self._panels = panels

    def svg(self) -> str:
        height = len(self._panels) * PANEL + LEGEND
        size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
        style = 'font-family="system-ui, sans-serif" font-size="13" fill="#222"'
        parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style} role="img">']
        parts.append(f"<title>Who reads which partition when {self._event}</title>")
        parts.append('<rect width="100%" height="100%" fill="white"/>')
        for index, panel in enumerate(self._panels):
            parts += self._draw_panel(panel, index * PANEL)
        parts.append(rect(LEFT, height - 22, 28, ROW, RED))
        parts.append(text(LEFT + 34, height - 16, "nobody reads the partition", fill="#555"))
        return "\n".join([*parts, "</svg>\n"])

    def _draw_panel(self, panel: Panel, top: int) -> Iterator[str]:
        def x(moment: float) -> float:
            inside = min(max(moment, panel.start), panel.end)
            return LEFT + (inside - panel.start) / (panel.end - panel.start) * (WIDTH - LEFT - RIGHT)

        def y(member: str, partition: int = 0) -> int:
            return top + TITLE + (int(member.split()[1]) - 1) * (LANE + LANE_SPACE) + partition * ROW

        yield text(8, top + 22, SENTENCES[panel.run.way], size=15, weight=600)
        yield text(8, top + 41, panel.verdict(), fill="#555")
        for number in range(1, MEMBERS + 1):
            lane = y(f"member {number}")
            yield rect(LEFT, lane, WIDTH - LEFT - RIGHT, LANE, "#f4f4f2")
            yield text(8, lane + LANE // 2 + 4, f"member {number}")
            if number == BUSY:
                yield text(8, lane + LANE // 2 + 18, "busy", size=11, fill="#555")
        for gap in panel.pauses:
            left, right = x(gap.before.at), x(gap.after.at)
            yield rect(left, y(gap.before.member, gap.partition), right - left, ROW - 1, RED)
        for bar in panel.bars():
            left, right = x(bar.start), x(bar.end)
            yield rect(left, y(bar.member, bar.partition), max(right - left, 1), ROW - 1, colour(bar.partition))
        bottom = y(f"member {MEMBERS}") + LANE
        yield line(x(panel.event_at), top + TITLE - 4, bottom + 8, stroke="#222", dash="3 3")
        yield text(x(panel.event_at) + 5, bottom + 19, self._event, size=12)
        for second in range(1, int(panel.end - panel.event_at) + 1):
            place = x(panel.event_at + second)
            yield line(place, bottom, bottom + 5, stroke="#888")
            if place > x(panel.event_at) + EVENT_WORDS:
                yield text(place - 8, bottom + 19, f"{second} s", size=12, fill="#555")


def rect(x: float, y: float, width: float, height: float, fill: str) -> str:
    return f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{height}" fill="{fill}"/>'


def line(x: float, top: int, bottom: int, stroke: str, dash: str = "none") -> str:
    return f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}" stroke="{stroke}" stroke-dasharray="{dash}"/>'


def text(x: float, y: int, words: str, size: int = 13, weight: int = 400, fill: str = "#222") -> str:
    place = f'x="{x:.1f}" y="{y}" font-size="{size}" font-weight="{weight}" fill="{fill}"'
    return f"<text {place}>{html.escape(words)}</text>"


def main() -> None:
    parser = argparse.ArgumentParser(description="Pictures of recorded rebalances, as SVG.")
    parser.add_argument("recordings", type=Path, help="folder that benchmarks.rebalance_pause has filled")
    parser.add_argument("out", type=Path, help="folder for rebalancing-join.svg, -leave.svg and -kill.svg")
    parser.add_argument("--client", default="java")
    parser.add_argument("--broker", default="Kohort")
    options = parser.parse_args()
    prefix = f"{options.broker}-{options.client}".lower()
    runs = [Run.load(options.recordings / f"{prefix}-{way}.json") for way in WAYS]
    for event in EVENTS:
        picture = Picture(event, [Panel(run, event) for run in runs])
        (options.out / f"rebalancing-{FILES[event]}.svg").write_text(picture.svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
