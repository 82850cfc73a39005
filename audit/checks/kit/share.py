"""What the rules about share groups look at: share_steps and share_states as numpy columns."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kohort.audit.checks.kit.check import Row
from kohort.audit.checks.kit.words import count
from kohort.audit.derive.commits import codes, paired
from kohort.coordinator.share_state.headers import Cause

Array: TypeAlias = Any  # a numpy array

RETURNS = (
    Cause.RELEASE.value,
    Cause.SESSION_CLOSED.value,
    Cause.LOCK_TIMEOUT.value,
)  # records come back, or are given up
NAMES_TOLD = 3
SET = (Cause.INITIALIZE.value, Cause.ALTER.value)  # the start offset is set, not reached


def share_places(table: pa.Table) -> Array:
    """A number for each share partition: a group, a topic's id and a partition."""
    group, _ = codes(table["group_id"].combine_chunks())
    topic, _ = codes(table["topic_id"].combine_chunks())
    of_group, _ = codes(pa.array(paired(group, topic)))
    place, _ = codes(pa.array(paired(of_group, table["partition"].to_numpy().astype(np.int64))))
    return place


class ShareSteps:
    """Rows of share_steps, sorted by share partition and log offset."""

    def __init__(self, table: pa.Table) -> None:
        place = share_places(table)
        order = np.lexsort((table["log_offset"].to_numpy(), place))
        self.table = table.take(pa.array(order))
        self.place = place[order]

    def __len__(self) -> int:
        return len(self.table)

    @cached_property
    def is_first(self) -> Array:
        """Whether each row is the first one of its share partition."""
        return np.diff(self.place, prepend=-1) != 0

    @cached_property
    def is_update(self) -> Array:
        return ~(self.flags("snapshot") | self.flags("tombstone"))

    @cached_property
    def tells_cause(self) -> Array:
        """Whether the log says of any row of the same share partition why the state was changed."""
        told = np.zeros(int(self.place.max(initial=-1)) + 1, np.bool_)
        told[self.place[self.known("cause")]] = True
        return told[self.place]

    @cached_property
    def time_ms(self) -> Array:
        return self.table["time"].cast(pa.int64()).to_numpy() // 1000

    def flags(self, name: str) -> Array:
        return self.table[name].to_numpy()

    def numbers(self, name: str) -> Array:
        return self.table[name].fill_null(0).to_numpy()

    def known(self, name: str) -> Array:
        return self.table[name].is_valid().to_numpy()

    def has_cause(self, *causes: str) -> Array:
        return pc.is_in(self.table["cause"], pa.array(causes)).to_numpy()

    def rows(self, numbers: Array) -> list[Row]:
        made: list[Row] = self.table.take(pa.array(numbers)).to_pylist()
        return made


def in_words(head: str, counts: Counter[str]) -> str:
    """The most frequent of these names, with their numbers; empty if there are none."""
    names = [f"{name} ({count(times, 'time')})" for name, times in counts.most_common(NAMES_TOLD)]
    return f"{head}{', '.join(names)}" if names else ""


def place_of(row: Row) -> Row:
    """The columns of a finding about a share partition. A topic without a known name is called by its id."""
    return {"group_id": row["group_id"], "topic": row["topic"] or row["topic_id"], "partition": row["partition"]}
