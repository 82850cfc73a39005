"""The walk over the records of a batch, compiled where that was possible: it takes 4 us where Python takes 50.

hatch_build.py compiles record_walk.c when Kohort is installed from its sources and there is a C compiler. Where the
library is missing, or was built for another kind of machine, `record_walk.py` does the same in Python.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

from kohort.broker.topics.record_walk import Walked, walk_records
from kohort.protocol.errors import MalformedMessage

LIBRARY: Final = Path(__file__).with_name("librecord_walk.so")
PROBLEMS: Final = (  # in the order of the enum in record_walk.c
    "",
    "a record is cut off",
    "a varint of a record is too long",
    "a record, a key or a value has a negative length",
    "a record has another offset delta than its place in the batch",
    "the headers of a record do not fit into it",
    "a record or the batch does not end where its length says",
)

Walk = Callable[[bytes, int, int, int], Walked]


@cache
def fastest_walk() -> Walk:
    """The compiled walk, or the one in Python."""
    return load_compiled_walk() or walk_records


def load_compiled_walk() -> Walk | None:
    """None if there is no library that this machine can load."""
    if not LIBRARY.exists():
        return None
    import ctypes  # takes some milliseconds, which only a broker that is produced to pays

    try:
        # PyDLL keeps the GIL: the walk of a usual batch takes 2 us, less than a change of threads.
        function = ctypes.PyDLL(str(LIBRARY)).kohort_walk_records
    except (OSError, AttributeError):
        return None
    int64 = ctypes.c_int64
    function.argtypes = [ctypes.c_char_p, int64, int64, int64, ctypes.c_void_p]
    function.restype = ctypes.c_int
    seen = (int64 * 3)()  # one for all calls, since only the event loop's thread walks
    address = ctypes.addressof(seen)

    def walk(data: bytes, position: int, end: int, count: int) -> Walked:
        problem = function(data, position, end, count, address)
        if problem:
            raise MalformedMessage(PROBLEMS[problem])
        return Walked(seen[0], seen[1], seen[2] != 0)

    return walk
