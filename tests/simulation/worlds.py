"""The kinds of worlds, and how one is played."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from tests.simulation.classic_world import ClassicWorld
from tests.simulation.consumer_world import ConsumerWorld
from tests.simulation.delivery_world import DeliveryWorld
from tests.simulation.migrating_world import MigratingWorld
from tests.simulation.share_world import ShareWorld
from tests.simulation.txn_world import TxnWorld
from tests.simulation.world import World

STEPS = 1_000
LINES_TOLD = 60

WORLDS: dict[str, Callable[[int], World | DeliveryWorld | TxnWorld]] = {
    "classic": ClassicWorld, "consumer": ConsumerWorld, "migrating": MigratingWorld, "share": ShareWorld,
    "delivery": DeliveryWorld, "transactions": TxnWorld,
}  # fmt: skip


def play(kind: str, seed: int, steps: int = STEPS, *, tells_story: bool = True) -> World | DeliveryWorld | TxnWorld:
    """`tells_story`: print the end of the story if something goes wrong."""
    world = WORLDS[kind](seed)
    try:
        world.run(steps)
    except BaseException:
        if tells_story:
            print("\n".join(world.trace[-LINES_TOLD:]))
        print(f"seed {seed} failed; again: python -m tests.simulation {kind} {seed} --steps {steps}", flush=True)
        raise
    return world


def with_bug(plant: Callable[[], AbstractContextManager[None]] | None) -> AbstractContextManager[None]:
    return nullcontext() if plant is None else plant()
