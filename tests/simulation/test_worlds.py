"""The coordinator among random clients, crashes, and a disk that is slow or fails. See docs/simulation.md."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.classic_world import ClassicWorld
from tests.simulation.consumer_world import ConsumerWorld
from tests.simulation.delivery_world import DeliveryWorld
from tests.simulation.migrating_world import MigratingWorld
from tests.simulation.planted_bugs import BUGS, MAX_SEEDS, hunt
from tests.simulation.share_world import ShareWorld
from tests.simulation.txn_world import TxnWorld
from tests.simulation.worlds import WORLDS, play

ROOT = Path(__file__).parents[2]
FOUND_A_BUG = [
    ("classic", 1),  # a member whose SyncGroup was parked when a rebalance began was watched by nobody any more
    ("consumer", 0),  # nothing was assigned for an hour after the clock had been set back by an hour
    ("consumer", 200_084),  # a heartbeat that waited for a large target took away what a later one had given
    ("consumer", 200_803),  # a topic was deleted while a large target was computed
    ("migrating", 25),  # after an upgrade by a static member in the first join phase nobody had any partition
    ("migrating", 500_469),  # an upgrade of a classic group that everybody had left, while an id waited, crashed
    ("migrating", 1_212),  # a heartbeat that upgrades a large group was answered twice when the disk failed
    ("share", 1),  # a topic was deleted, the broker crashed before it wrote that down, and the group never came to rest
    ("share", 9),  # a heartbeat that waited for a large target moved a member on that had sent another one since
    # The world was wrong, or did not know what Kafka allows:
    ("share", 500_126),  # a group is deleted twice at once, and the disk fails
    ("migrating", 21),  # after an upgrade by a static member nobody has the partitions that were changing hands
    ("migrating", 700_209),  # after a downgrade by a static member nobody has the partitions that others waited for
    ("migrating", 500_906),  # and a member may commit what another one has been given
    ("migrating", 500_965),  # static members that have all started again do not see that a topic has grown before
    ("migrating", 500_085),  # a member that joins again has not more time for its SyncGroup; so in 700_113
    ("migrating", 500_352),  # a cooperative member has partitions that its last classic assignment took away
    ("migrating", 7_339),  # a member commits what a static member has that has missed a generation
    ("migrating", 501_492),  # an assignment that arrives late is that of an old generation
    ("migrating", 510_317),  # or that of a group that is gone, and whose generations begin anew
    ("migrating", 500_575),  # after a load a classic member has one rebalance timeout to give up partitions
    ("migrating", 500_731),  # likewise, while it joins and syncs
    ("migrating", 260_274),  # two static members convert the group there and back between two looks at it
]
SEEDS = {"classic": range(1_000, 1_030), "consumer": range(1_000, 1_010), "migrating": range(1_000, 1_010),
         "share": range(1_000, 1_010), "delivery": range(1_000, 1_020),
         "transactions": range(1_000, 1_004)}  # fmt: skip


@pytest.mark.parametrize(("kind", "seed"), [*FOUND_A_BUG, *((kind, seed) for kind in SEEDS for seed in SEEDS[kind])])
def test_everything_that_must_hold_holds(kind: str, seed: int) -> None:
    play(kind, seed)


RARE = (  # these need many seeds, as docs/simulation.md tells
    "markers_count_before_they_are_durable", "nobody_aborts_late_transactions", "snapshots_forget_open_transactions",
    "offsets_are_taken_after_their_marker",
)  # fmt: skip


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.story] * (name in RARE)) for name in BUGS])
def test_a_planted_bug_is_caught(name: str) -> None:
    assert hunt(BUGS[name], MAX_SEEDS) is not None, f"try: python -m tests.simulation {BUGS[name].world} 0 --bug {name}"


@pytest.mark.parametrize("world", [ClassicWorld, ConsumerWorld, MigratingWorld, ShareWorld, DeliveryWorld, TxnWorld])
def test_the_simulation_does_what_it_is_for(
    world: type[ClassicWorld | ConsumerWorld | MigratingWorld | ShareWorld | DeliveryWorld | TxnWorld],
) -> None:
    worlds = [world(seed) for seed in range(5)]
    for each in worlds:
        each.run(1_000)
    assert min(each.assignments for each in worlds) > 0
    assert sum(each.crashes for each in worlds) > 5
    assert sum(each.failures for each in worlds) > 5
    if world is MigratingWorld:
        assert sum(each.conversions for each in worlds if isinstance(each, MigratingWorld)) > 5


@pytest.mark.parametrize("hash_seed", ["1", "2"])
@pytest.mark.parametrize("kind", WORLDS)
def test_the_same_seed_gives_the_same_story_whatever_pythons_hash_seed_is(kind: str, hash_seed: str) -> None:
    command = [sys.executable, "-m", "tests.simulation", kind, "7", "--digest"]
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == play(kind, 7).digest()


def test_the_documentation_names_every_planted_bug() -> None:
    text = (ROOT / "docs" / "simulation.md").read_text()
    missing = [name for name in BUGS if name.replace("_", " ") not in text.lower()]
    assert missing == []
