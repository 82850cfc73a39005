"""Attack a broker for an hour, and tell what one client can do to the others: `make attack`.

    python -m tests.attack                          # an hour, a new seed, which is printed
    python -m tests.attack --minutes 10 --seed 5
    python -m tests.attack --only "Fetch v12"       # attacks whose API or shape contains this
    python -m tests.attack --seed 5 --number 1234   # one random attack again: what a miss tells you to run
    python -m tests.attack --short --kafka          # the list of `make test`, beside Apache Kafka
    python -m tests.attack --peer HOST:PORT --peer-pid PID

First come the attacks written by hand, then everything that the schemas allow, then random combinations until the time
is over. An attack that misses a goal is repeated on a broker that has just started; the best of three counts, since
whatever else the machine does only ever adds to a figure.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import chain, count
from pathlib import Path

from kohort.client.errors import ClientError
from tests.attack.arena import Arena
from tests.attack.attacker import Attack, Figure
from tests.attack.extremes import served
from tests.attack.plan import all_attacks, random_attack, short_attacks
from tests.attack.report import best, line, misses, table
from tests.attack.stories import stories
from tests.attack.target import Target, prepare, prepared_folder, start_kafka, start_kohort

TRIES = 3
HOPELESS_MS = 1_000  # no other try would bring such a wait below its goal
ATTACKS_PER_BROKER = 50


def main() -> int:
    warnings.filterwarnings("ignore", category=DeprecationWarning)  # kafka-python's, at import
    options = _options()
    print(f"seed {options.seed}", flush=True)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kohort-attack-")))
        prepared = prepared_folder(folder / "prepared")
        ours: list[Figure] = []
        theirs: list[Figure] = []
        arena = stack.enter_context(Arena(partial(start_kohort, folder / "kohort", prepared)))
        peer = _peer(options, folder, stack)
        try:
            _run(options, arena, peer, ours, theirs)
        except KeyboardInterrupt:
            print("interrupted")
    print(table(ours, theirs))
    missed = [figure for figure in ours if misses(figure)]
    print(f"\n{len(ours)} attacks, {len(missed)} above a goal")
    for figure in missed:
        print(line(figure))
    return 1 if missed else 0


def _options() -> argparse.Namespace:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, prog="python -m tests.attack"
    )
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--number", type=int, help="run only this one of the random attacks")
    parser.add_argument("--only", action="append", default=[], help="a part of an API's name or of a shape")
    parser.add_argument("--short", action="store_true", help="the list of `make test`")
    parser.add_argument("--stories", action="store_true", help="only the attacks written by hand")
    parser.add_argument("--peer", metavar="HOST:PORT", help="a broker that is attacked in the same way")
    parser.add_argument("--peer-pid", type=int, help="its process")
    parser.add_argument("--kafka", action="store_true", help="start Apache Kafka as the peer (needs Java and Maven)")
    options = parser.parse_args()
    if bool(options.peer) != bool(options.peer_pid):
        parser.error("a peer's address and its process go together")
    return options


def _peer(options: argparse.Namespace, folder: Path, stack: ExitStack) -> Arena | None:
    if options.peer:
        prepare(options.peer)
        target = Target(options.peer, options.peer_pid)
        return stack.enter_context(Arena(lambda _: target))
    if not options.kafka:
        return None
    if not (shutil.which("java") and shutil.which("mvn")):
        print("no Java or Maven on the PATH: Kohort alone")
        return None
    return stack.enter_context(Arena(partial(start_kafka, folder / "kafka")))


def _attacks(options: argparse.Namespace) -> Iterator[Attack]:
    if options.number is not None:
        return iter([random_attack(options.seed, options.number)])
    chosen: Iterator[Attack] = stories()
    if options.short:
        chosen = chain(chosen, chain.from_iterable(map(short_attacks, served())))
    elif not options.stories:
        chosen = chain(chosen, all_attacks(), _random_attacks(options.seed))
    return (
        each for each in chosen if not options.only or any(part in f"{each.api} {each.shape}" for part in options.only)
    )


def _random_attacks(seed: int) -> Iterator[Attack]:
    for number in count():
        each = random_attack(seed, number)
        yield each._replace(shape=f"{each.shape} (--seed {seed} --number {number})")


def _run(
    options: argparse.Namespace, arena: Arena, peer: Arena | None, ours: list[Figure], theirs: list[Figure]
) -> None:
    end = time.monotonic() + options.minutes * 60
    for number, each in enumerate(_attacks(options)):
        if time.monotonic() > end:
            break
        if each.prepare is not None or number % ATTACKS_PER_BROKER == 0:
            arena.restart()
        ours.append(measure(arena, each))
        print(line(ours[-1]), flush=True)
        if peer is not None:
            try:
                theirs.append(peer.attack(each))
            except ClientError as problem:
                print(f"  peer could not be brought into the state for this: {problem}", flush=True)
                peer.restart()
                continue
            print(f"  peer {line(theirs[-1])}", flush=True)


def measure(arena: Arena, each: Attack) -> Figure:
    """The figure of an attack; of the best of a few tries if the first misses a goal."""
    figures = [arena.attack(each)]
    while misses(figures[-1]) and figures[-1].held_ms < HOPELESS_MS and len(figures) < TRIES:
        arena.restart()
        figures.append(arena.attack(each))
    return best(figures)


if __name__ == "__main__":
    sys.exit(main())
