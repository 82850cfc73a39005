"""The coordinator under random clients, crashes, and a disk that is slow or fails. See coordinator_world.py."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.coordinator_world import play

ROOT = Path(__file__).parent.parent.parent
STEPS = 1_000
FOUND_A_BUG = [1]  # a member whose SyncGroup was parked when a rebalance began was watched by nobody any more


@pytest.mark.parametrize("seed", [*FOUND_A_BUG, *range(1_000, 1_040)])
def test_everything_that_must_hold_holds(seed: int) -> None:
    play(seed, STEPS)


def test_the_simulation_does_what_it_is_for() -> None:
    worlds = [play(seed, STEPS) for seed in range(5)]
    assert min(world.assignments for world in worlds) > 0
    assert sum(world.crashes for world in worlds) > 5
    assert sum(world.failures for world in worlds) > 5


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_the_same_seed_gives_the_same_story_whatever_pythons_hash_seed_is(hash_seed: str) -> None:
    command = [sys.executable, "-m", "tests.simulation.coordinator_world", "7", str(STEPS), "--digest"]
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == play(7, STEPS).digest()
