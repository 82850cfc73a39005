"""Millions of mutated frames, on all cores: `make fuzz`. Same frames as tests/protocol/test_fuzz.py, more of them.

python -m benchmarks.fuzz --frames 10000000            # a new seed each time; it is printed
python -m benchmarks.fuzz --seed 5 --only 1234         # one frame again: what a failure tells you to run
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed

CHUNK_FRAMES = 20_000


def main() -> int:
    warnings.filterwarnings("ignore", category=DeprecationWarning)  # kafka-python's, at import
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--frames", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--only", type=int, metavar="NUMBER", help="decode one frame, and show what comes of it")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    if options.only is not None:
        return _one(options.seed, options.only)
    return _many(options.seed, options.frames, options.jobs)


def _one(seed: int, number: int) -> int:
    from tests.protocol import mutations

    target, data = mutations.frame(seed, number)
    print(mutations.describe(target, data, seed, number))
    print(data.hex())
    outcome = mutations.decode(seed, number)
    print(f"{'clean' if outcome.clean else 'malformed'} after {outcome.seconds * 1000:.3f} ms")
    return 0


def _many(seed: int, frames: int, jobs: int) -> int:
    print(f"seed {seed}, {frames} frames, {jobs} processes", flush=True)
    started = time.monotonic()
    done = clean = failed = 0
    slowest, slowest_number = 0.0, -1
    with ProcessPoolExecutor(jobs) as pool:
        starts = range(0, frames, CHUNK_FRAMES)
        pending = [pool.submit(_chunk, seed, start, min(start + CHUNK_FRAMES, frames)) for start in starts]
        for future in as_completed(pending):
            count, clean_count, seconds, number, failures = future.result()
            done, clean = done + count, clean + clean_count
            if seconds > slowest:
                slowest, slowest_number = seconds, number
            for failure in failures:
                failed += 1
                print(f"\n{failure}", flush=True)
            rate = done / (time.monotonic() - started)
            line = f"{done} of {frames}, {rate:.0f}/s, {clean} clean, {failed} failed, slowest {slowest * 1000:.2f} ms"
            print(f"\r{line}", end="" if sys.stdout.isatty() else "\n", flush=True)
    print(f"\nslowest frame: python -m benchmarks.fuzz --seed {seed} --only {slowest_number}")
    return 1 if failed else 0


def _chunk(seed: int, start: int, stop: int) -> tuple[int, int, float, int, list[str]]:
    """(frames, clean ones, seconds and number of the slowest, failures)"""
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    from tests.protocol import mutations

    mutations.targets()
    gc.freeze()
    clean, slowest, slowest_number = 0, 0.0, -1
    failures = []
    for number in range(start, stop):
        try:
            outcome = mutations.decode(seed, number)
        except mutations.Failure as failure:
            failures.append(str(failure))
            continue
        clean += outcome.clean
        if outcome.seconds > slowest:
            slowest, slowest_number = outcome.seconds, number
    return stop - start, clean, slowest, slowest_number, failures


if __name__ == "__main__":
    sys.exit(main())
