"""`python -m tests.parity.random_stories`: tell stories, and print those in which the brokers differ."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random

from tests.kafka.server import KafkaServer
from tests.parity import random_stories
from tests.parity.chosen_ids import KohortWithChosenIds
from tests.parity.compare import Comparison
from tests.parity.pairs import CONSUMERS, PAIRS
from tests.parity.random_stories.story import POOL, RandomStory
from tests.parity.random_stories.world import World

POLICIES = ("bidirectional", "upgrade", "downgrade", "disabled")
MAX_SIZE = "6"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    started = time.monotonic()
    differing = steps = ended = 0
    comparison = Comparison()
    policies = options.policy or POLICIES
    for index, policy in enumerate(policies):
        numbers = range(index, options.stories, len(policies)) if options.only is None else [options.only]
        settings = PAIRS[CONSUMERS] | {"group.consumer.migration.policy": policy}
        settings |= {"group.consumer.max.size": MAX_SIZE, "group.max.size": MAX_SIZE}
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kohort-stories-")))
            first = KohortWithChosenIds if options.ourselves else KafkaServer
            world = World.start(stack, folder, settings, first, POOL)
            for number in numbers:
                chance = Random(f"{options.seed}/{number}")
                story = RandomStory(chance, f"story-{options.seed}-{number}", world, comparison)
                try:
                    problems = story.play(options.steps)
                except (AssertionError, TimeoutError) as problem:
                    problems = [f"the story broke off: {problem}"]
                steps += story.stage.steps
                ended += story.stage.is_over
                if problems:
                    differing += 1
                    print(f"--- story {number} of seed {options.seed}, policy {policy}")
                    print("\n".join([*story.stage.told[-options.tell :], *problems]), flush=True)
    print(
        f"{options.stories} stories (seed {options.seed}), {steps} requests, {comparison.fields} fields compared, "
        f"{differing} stories differ, {ended} ended early, {time.monotonic() - started:.0f} s"
    )
    return 1 if differing else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.parity.random_stories", description=(random_stories.__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--stories", type=int, default=120, metavar="COUNT")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=30, metavar="COUNT", help="of a story, at most")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="this story alone; with the policy that it had")
    parser.add_argument("--policy", action="append", choices=POLICIES, help="group.consumer.migration.policy")
    parser.add_argument("--ourselves", action="store_true", help="Kohort in Kafka's place, too: do the stories repeat?")
    parser.add_argument("--tell", type=int, default=12, metavar="COUNT", help="requests shown before a difference")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
