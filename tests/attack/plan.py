"""Which attacks are run: a short list for each API, all of them, or any number of random ones."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial

from kohort.protocol.api_keys import Api
from kohort.protocol.wire import MAX_ELEMENTS_PER_REQUEST
from tests.attack.attacker import Attack
from tests.attack.extremes import (
    MB,
    Extreme,
    Recipe,
    arrays,
    extremes,
    greatest_count,
    random_extreme,
    served,
    without_array,
)

SHORT_BYTES = 4 * MB


def generated(extreme: Extreme) -> Attack:
    return Attack(f"{extreme.api.name} v{extreme.version}", str(extreme.recipe), partial(_frames, [extreme]))


def short_attacks(api: Api) -> Iterator[Attack]:
    """The newest version with elements that are all different, the oldest with the same element over and over."""
    for version, names in ((api.max_version, "different"), (api.min_version, "existing")):
        for each in arrays(api, version):
            yield generated(Extreme(api, version, Recipe(each.path, greatest_count(api, each, names), names=names)))
        others = list(without_array(api, version, MAX_ELEMENTS_PER_REQUEST, SHORT_BYTES))
        yield together([each for each in others if not each.recipe.is_large])
        yield from map(generated, (each for each in others if each.recipe.is_large))
    for each in arrays(api, api.max_version)[:1]:
        yield generated(Extreme(api, api.max_version, Recipe(each.path, MAX_ELEMENTS_PER_REQUEST + 1, names="unknown")))
        yield generated(Extreme(api, api.max_version, Recipe(each.path, 100, names="long", long_texts=True)))


def together(small: list[Extreme]) -> Attack:
    """Several small requests as one attack, on a connection each."""
    api, version, _ = small[0]
    shape = "; ".join(str(each.recipe) for each in small)
    frames = partial(_frames, small)
    return Attack(f"{api.name} v{version}", shape, frames, side_by_side=True)


def _frames(extremes: list[Extreme], topic_id: bytes) -> list[bytes]:
    return [each.frame(topic_id) for each in extremes]


def all_attacks() -> Iterator[Attack]:
    """Everything that is generated, of the newest and the oldest version of each API."""
    for api in served():
        for version in sorted({api.max_version, api.min_version}, reverse=True):
            yield from map(generated, extremes(api, version))


def random_attack(seed: int, number: int) -> Attack:
    return generated(random_extreme(random.Random(f"{seed}-{number}")))
