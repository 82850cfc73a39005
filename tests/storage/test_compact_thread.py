"""Compaction runs in a thread while the event loop goes on appending to the same log."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from kohort.storage.disk import RealDisk
from kohort.storage.segment import Segment
from tests.storage.compaction_story import Story


async def test_the_loop_appends_and_reads_while_a_thread_compacts(tmp_path: Path) -> None:
    story = Story(RealDisk(), str(tmp_path / "offsets-0"))
    for number in range(3_000):
        story.write((b"key-%d" % (number % 50), b"%d" % number))
        if number % 500 == 499:
            story.roll()
    loop = asyncio.get_running_loop()
    swapped: list[Sequence[Segment]] = []

    def swap(cleaned: Segment, old: Sequence[Segment]) -> None:
        async def on_the_loop() -> None:
            story.log.swap_segments([cleaned], old, story.now)
            swapped.append(old)

        asyncio.run_coroutine_threadsafe(on_the_loop(), loop).result()

    compaction = story.compaction()
    compaction.swap = swap
    running = loop.run_in_executor(None, lambda: sum(compaction.steps()))
    appended = 0
    while not running.done():
        story.write((b"live-%d" % appended, b"x"))
        appended += 1
        assert story.state()[b"key-49"] == b"2999"
        await asyncio.sleep(0)
    assert await running > 0
    story.finish(compaction)
    assert swapped
    assert compaction.records_after == 50
    state = story.state()
    assert {state[b"key-%d" % n] for n in range(50)} == {b"%d" % n for n in range(2950, 3000)}
    assert sum(key.startswith(b"live-") for key in state) == appended
