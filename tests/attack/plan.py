"""Which attacks are run: a short list for each API, all of them, or any number of random ones."""

from __future__ import annotations

import random
from collections.abc import Iterator

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
    return Attack(
        f"{extreme.api.name} v{extreme.version}", str(extreme.recipe), lambda topic_id: [extreme.frame(topic_id)]
    )


def short_attacks(api: Api) -> Iterator[Attack]:
    """The newest version with elements that are all different, the oldest with the same element over and over."""
    for version, names in ((api.max_version, "different"), (api.min_version, "existing")):
        for each in arrays(api, version):
            yield generated(Extreme(api, version, Recipe(each.path, greatest_count(api, each, names), names=names)))
        yield from map(generated, without_array(api, version, MAX_ELEMENTS_PER_REQUEST, SHORT_BYTES))
    for each in arrays(api, api.max_version)[:1]:
        yield generated(Extreme(api, api.max_version, Recipe(each.path, MAX_ELEMENTS_PER_REQUEST + 1, names="unknown")))
        yield generated(Extreme(api, api.max_version, Recipe(each.path, 100, names="long", long_texts=True)))


def all_attacks() -> Iterator[Attack]:
    """Everything that is generated, of the newest and the oldest version of each API."""
    for api in served():
        for version in sorted({api.max_version, api.min_version}, reverse=True):
            yield from map(generated, extremes(api, version))


def random_attack(seed: int, number: int) -> Attack:
    return generated(random_extreme(random.Random(f"{seed}-{number}")))
