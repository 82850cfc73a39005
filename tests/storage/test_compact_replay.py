"""Replaying a compacted log gives the state of replaying the full log, whatever was written and whenever."""

from dataclasses import dataclass

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kohort.storage.compactor import MAP_ENTRY_BYTES
from tests.simulation.disk import SimulatedDisk
from tests.storage.compaction_story import Story

KEYS = (b"a", b"b", b"c", b"d" * 100)
PRODUCERS = (1, 2)


@dataclass(frozen=True)
class Write:
    records: tuple[tuple[bytes | None, bytes | None], ...]
    producer: int | None


@dataclass(frozen=True)
class End:
    producer: int
    commit: bool


@dataclass(frozen=True)
class Roll:
    pass


@dataclass(frozen=True)
class Compact:
    map_entries: int


@dataclass(frozen=True)
class Wait:
    ms: int


@dataclass(frozen=True)
class Restart:
    pass


records = st.tuples(st.sampled_from((*KEYS, None)), st.none() | st.binary(min_size=1, max_size=3))
writes = st.builds(
    Write,
    st.lists(records, min_size=1, max_size=4).map(tuple),
    st.none() | st.sampled_from(PRODUCERS),
)
acts = st.one_of(
    writes,
    writes,
    st.builds(End, st.sampled_from(PRODUCERS), st.booleans()),
    st.just(Roll()),
    st.builds(Compact, st.sampled_from((1, 3, 1000))),
    st.builds(Wait, st.sampled_from((1, 500, 1_000))),
    st.just(Restart()),
)


def perform(story: Story, act: object) -> Story:
    match act:
        case Write(some, producer):
            story.write(*some, producer=producer)
        case End(producer, commit):
            story.end_transaction(producer, commit=commit)
        case Roll() if story.log.segments and story.log.active.size_bytes:
            story.roll()
        case Wait(ms):
            story.now += ms
        case Restart():
            story.checkpoint()
            return story.reopened_on(story.disk)
        case Compact(entries) if story.cleanable() is not None:
            before, end = story.state(), story.log.log_end_offset
            story.compact(max_map_bytes=entries * MAP_ENTRY_BYTES)
            assert story.state() == before
            assert story.log.log_end_offset == end
    return story


# A batch that did not fit into one run's map: a later run, which sees less of it, must not let its tombstone go.
TOO_MANY_KEYS = [
    Write(((b"a", None), (b"a", None), (b"a", None), (b"b", b"0")), None),
    Write(((b"b", None), (b"a", None)), None),
    Write(((b"a", None),), None),
    Roll(),
    Compact(1),
    Write(((b"a", None),), None),
    Roll(),
    Compact(1000),
    Wait(1000),
    Write(((b"a", None),), None),
    Roll(),
    Compact(1000),
]


@settings(max_examples=100, deadline=None)
@example(TOO_MANY_KEYS)
@given(st.lists(acts, min_size=20, max_size=60))
def test_the_state_is_that_of_the_full_log(story_of_acts: list[object]) -> None:
    disk = SimulatedDisk()
    disk.make_folder("data")
    disk.make_folder("full")
    compacted, full = Story(disk, "data/p-0"), Story(disk, "full/p-0")
    for act in (*story_of_acts, Roll(), Compact(1000), Restart()):
        compacted = perform(compacted, act)
        if not isinstance(act, Compact | Restart):
            full = perform(full, act)
        assert compacted.state() == full.state()
    kept = compacted.records()
    offsets = [record.offset for record in kept]
    assert offsets == sorted(set(offsets))
    assert set(kept) <= set(full.records())
