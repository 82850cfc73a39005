"""One client cannot stop the others: a bystander is answered while extreme requests of every API are sent.

The bystander's longest wait is a duration, and the only one that a test of this project asserts. It leaves out the time
in which somebody else had the cores, and an attack that misses a goal is repeated twice on a broker that has just
started: what counts is the best. The goals stand in report.py.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial

import pytest

from kohort.protocol.api_keys import Api, ApiKey
from tests.attack.__main__ import measure
from tests.attack.arena import Arena
from tests.attack.attacker import Attack
from tests.attack.extremes import served
from tests.attack.plan import short_attacks
from tests.attack.report import line, misses
from tests.attack.stories import stories
from tests.attack.target import prepared_folder, start_kohort

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="memory and waits are read from /proc")

# These change what the next API's requests would find.
CHANGES_THE_STATE = {
    ApiKey.METADATA,
    ApiKey.CREATE_TOPICS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.DELETE_TOPICS,
    ApiKey.DELETE_GROUPS,
    ApiKey.DELETE_RECORDS,
    ApiKey.JOIN_GROUP,
    ApiKey.OFFSET_COMMIT,
    ApiKey.PRODUCE,
}


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    folder = tmp_path_factory.mktemp("attack")
    with Arena(partial(start_kohort, folder / "kohort", prepared_folder(folder / "prepared"))) as made:
        yield made


@linux_only
@pytest.mark.parametrize("api", served(), ids=lambda api: api.name)
def test_no_request_of_an_api_stops_the_others(arena: Arena, api: Api) -> None:
    missed = [line(figure) for each in short_attacks(api) if misses(figure := measure(arena, each))]
    if api.key in CHANGES_THE_STATE:
        arena.restart()
    assert not missed, "\n".join(missed)


@linux_only
@pytest.mark.parametrize(
    "story", [each for each in stories() if not each.only_long], ids=lambda story: f"{story.api} {story.shape}"
)
def test_no_attack_that_was_seen_once_stops_the_others(arena: Arena, story: Attack) -> None:
    arena.restart()
    figure = measure(arena, story)
    assert not misses(figure), line(figure)
