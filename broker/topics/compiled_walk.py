"""The walk over the records of a batch, compiled where that was possible: it takes 2 us where Python takes 50.

hatch_build.py compiles record_walk.c when Kohort is installed from its sources and there is a C compiler. Where the
library is missing, or was built for another kind of machine, `record_walk.py` does the same in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from functools import cache
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Final

from kohort.broker.topics.record_walk import Walked, walk_in_steps, walk_records
from kohort.protocol.errors import MalformedMessage, TooManyElements

if TYPE_CHECKING:
    import ctypes

LIBRARY: Final = Path(__file__).with_name("librecord_walk.so")
PROBLEMS: Final = (  # in the order of the enum in record_walk.c
    "",
    "a record is cut off",
    "a varint of a record is too long",
    "a record, a key or a value has a negative length",
    "a record has another offset delta than its place in the batch",
    "the headers of a record do not fit into it",
    "a record or the batch does not end where its length says",
    "too many records and headers in one batch",
)
TOO_MANY: Final = len(PROBLEMS) - 1
WALK_FIELDS: Final = 11  # of the struct Walk in record_walk.c; the last three are those of Walked

Walk = Callable[[bytes, int, int, int], Walked]
WalkInSteps = Callable[[Iterator[bytes], int, int], Generator[None, None, Walked]]


@cache
def fastest_walk() -> Walk:
    """The compiled walk, or the one in Python."""
    return load_compiled_walk() or walk_records


@cache
def fastest_walk_in_steps() -> WalkInSteps:
    """The same for a batch that is too long to be walked at once."""
    return load_compiled_walk_in_steps() or walk_in_steps


def _load_library() -> ctypes.PyDLL | None:
    """None if there is no library that this machine can load."""
    if not LIBRARY.exists():
        return None
    import ctypes  # takes some milliseconds, which only a broker that is produced to pays

    try:
        # PyDLL keeps the GIL: the walk of a usual batch takes 2 us, less than a change of threads.
        library = ctypes.PyDLL(str(LIBRARY))
    except OSError:
        return None
    return library if hasattr(library, "kohort_walk_on") else None


def load_compiled_walk() -> Walk | None:
    library = _load_library()
    if library is None:
        return None
    import ctypes

    # Without argtypes a call takes half the time: bytes and arrays are passed as pointers, and numbers as C's int.
    function = library.kohort_walk_records
    seen = (ctypes.c_int64 * 3)()  # one for all calls, since only the event loop's thread walks
    unpack = Struct("=qqq").unpack  # ten times as quick as reading the three one by one

    def walk(data: bytes, position: int, end: int, count: int) -> Walked:
        problem = function(data, position, end, count, seen)
        if problem:
            raise MalformedMessage(PROBLEMS[problem])
        walked: Walked = unpack(seen)
        return walked

    return walk


def load_compiled_walk_in_steps() -> WalkInSteps | None:
    library = _load_library()
    if library is None:
        return None
    import ctypes

    int64, pointer = ctypes.c_int64, ctypes.c_void_p
    begin, go_on = library.kohort_begin_walk, library.kohort_walk_on
    begin.argtypes, begin.restype = [pointer, int64, int64], None
    go_on.argtypes, go_on.restype = [pointer, ctypes.c_char_p, int64, ctypes.c_int, pointer], ctypes.c_int

    def walk(pieces: Iterator[bytes], count: int, max_elements: int) -> Generator[None, None, Walked]:
        state, used = (int64 * WALK_FIELDS)(), int64()

        def take(data: bytes, is_last: bool) -> bytes:
            """Walk over the data; the rest of it belongs to the next piece."""
            problem = go_on(ctypes.addressof(state), data, len(data), is_last, ctypes.addressof(used))
            if problem == TOO_MANY:
                raise TooManyElements(f"more than {max_elements} records and headers in one batch")
            if problem:
                raise MalformedMessage(PROBLEMS[problem])
            return data[used.value :]

        begin(ctypes.addressof(state), count, max_elements)
        rest = b""
        for piece in pieces:
            rest = take(rest + piece, False)
            yield
        take(rest, True)
        return state[-3], state[-2], state[-1]

    return walk
