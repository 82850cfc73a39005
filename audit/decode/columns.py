"""Makes Arrow columns from numpy arrays."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kohort.audit.decode.schemas import TIMESTAMP
from kohort.audit.decode.vector import Array
from kohort.audit.tables import MAX_MS


def texts(found: list[str] | list[str | None], codes: Array) -> pa.Array:
    """A column of strings. A code is an index into `found`; -1 is null."""
    values = pa.array(found, pa.string())
    if len(codes) and codes[0] >= 0 and (codes == codes[0]).all():
        return pa.repeat(values[int(codes[0])], len(codes))
    none = codes < 0
    return values.take(pa.array(codes, mask=none if none.any() else None))


def times(ms: Array) -> pa.Array:
    """A column of timestamps; null for no time, and for one that Python cannot represent. Like schemas.micros."""
    possible = (ms >= 0) & (ms <= MAX_MS)
    if possible.all():
        return pa.array(ms * 1000).view(TIMESTAMP)
    return pa.array(np.where(possible, ms, 0) * 1000, mask=~possible).view(TIMESTAMP)


def optional(values: Array, present: Array) -> pa.Array:
    return pa.array(values) if present.all() else pa.array(values, mask=~present)
