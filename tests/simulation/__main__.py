"""Simulated worlds, on seeds.

python -m tests.simulation consumer 42              one world: its story, or what went wrong
python -m tests.simulation consumer 42 --bug NAME   with a bug that is planted into the coordinator
python -m tests.simulation --bugs                   which seed catches which planted bug
python -m tests.simulation --minutes 60             all kinds of worlds on one seed after another, then the bugs
python -m tests.simulation consumer --minutes 60    one kind alone, without the bugs
"""

from __future__ import annotations

import argparse
import sys
from time import monotonic

from tests.simulation.planted_bugs import BUGS, MAX_SEEDS, hunt
from tests.simulation.worlds import STEPS, WORLDS, play, with_bug


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("kind", nargs="?", choices=sorted(WORLDS))
    parser.add_argument("seed", nargs="?", type=int)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--bug", choices=sorted(BUGS))
    parser.add_argument("--bugs", action="store_true")
    parser.add_argument("--digest", action="store_true", help="print only a hash of the story")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--from-seed", type=int, default=100_000)
    asked = parser.parse_args()
    if asked.minutes is not None:
        kinds = list(WORLDS) if asked.kind is None else [asked.kind]
        failed = many_seeds(kinds, asked.minutes, asked.from_seed, asked.steps)
        return min(failed, 1) if asked.kind else all_bugs() or min(failed, 1)
    if asked.bugs:
        return all_bugs()
    if asked.kind is None or asked.seed is None:
        parser.error("a kind of world and a seed, or --minutes, or --bugs")
    with with_bug(BUGS[asked.bug].plant if asked.bug else None):
        world = play(asked.kind, asked.seed, asked.steps)
    print(world.digest() if asked.digest else "\n".join(world.trace))
    return 0


def many_seeds(kinds: list[str], minutes: float, first: int, steps: int) -> int:
    """How many worlds have failed."""
    end = monotonic() + 60 * minutes
    seed, failed = first, 0
    while monotonic() < end:
        for kind in kinds:
            try:
                play(kind, seed, steps, tells_story=False)
            except Exception as problem:
                failed += 1
                print(f"  {type(problem).__name__}: {problem}", flush=True)
        seed += 1
        if seed % 100 == 0:
            print(f"{seed - first} seeds of each kind, {failed} failures", flush=True)
    print(f"{seed - first} seeds of each kind ({', '.join(kinds)}), {failed} failures", flush=True)
    return failed


def all_bugs() -> int:
    """The table of docs/simulation.md."""
    escaped = 0
    for name, bug in BUGS.items():
        caught = hunt(bug, MAX_SEEDS)
        escaped += caught is None
        how = f"after {caught.seeds:3d} seeds: {caught.problem}" if caught else f"NOT CAUGHT in {MAX_SEEDS} seeds"
        print(f"{name:45s} {how}", flush=True)
    return min(escaped, 1)


if __name__ == "__main__":
    sys.exit(main())
