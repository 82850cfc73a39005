"""commit_steps as numpy columns: rules about single commits look at all commits at once."""

from __future__ import annotations

from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kohort.audit.derive.commits import codes, joined, paired

Array: TypeAlias = Any  # a numpy array


class Steps:
    """A commit without a previous one has step 0 and 0 ms since the previous one."""

    def __init__(self, table: pa.Table, facts: pa.Table) -> None:
        self.table = table
        self._facts = facts

    def __len__(self) -> int:
        return len(self.table)

    @property
    def is_sorted(self) -> bool:
        place, offset = np.diff(self.place), np.diff(self.numbers("log_offset"))
        return bool(np.all((place > 0) | ((place == 0) & (offset > 0))))

    def sorted(self) -> Steps:
        order = np.lexsort((self.numbers("log_offset"), self.place))
        return Steps(self.table.take(pa.array(order)), self._facts)

    @cached_property
    def is_first(self) -> Array:
        """Whether each commit is the first of its place."""
        return np.diff(self.place, prepend=-1) != 0

    def rows(self, which: Array, *names: str) -> list[dict[str, Any]]:
        """Rows as dicts. `which`: a mask, or numbers of rows. `names`: the columns; all if none is named."""
        table = self.table.select(names) if names else self.table
        numbers = np.flatnonzero(which) if which.dtype == bool else which
        made: list[dict[str, Any]] = table.take(pa.array(numbers)).to_pylist()
        return made

    def count_by_group(self, which: Array) -> dict[str, int]:
        """Group -> how many of these rows it has."""
        starts = np.flatnonzero(self.is_first)
        counts = np.add.reduceat(which.astype(np.int64), starts).tolist() if len(starts) else []
        made: dict[str, int] = {}
        for row, count in zip(self.rows(starts, "group_id"), counts, strict=True):
            made[row["group_id"]] = made.get(row["group_id"], 0) + count
        return made

    def numbers(self, name: str, if_null: int = 0) -> Array:
        return self.table[name].fill_null(if_null).to_numpy()

    def known(self, name: str) -> Array:
        return self.table[name].is_valid().to_numpy()

    def differ(self, one: str, other: str) -> Array:
        """Rows in which both columns are known and different."""
        return pc.fill_null(pc.not_equal(self.table[one], self.table[other]), False).to_numpy()

    def is_(self, name: str, value: str) -> Array:
        return pc.fill_null(pc.equal(self.table[name], value), False).to_numpy()

    @cached_property
    def tombstone(self) -> Array:
        return self.table["tombstone"].to_numpy()

    @cached_property
    def step(self) -> Array:
        return self.numbers("step")

    @cached_property
    def time_ms(self) -> Array:
        return self.table["time"].cast(pa.int64()).to_numpy() // 1000

    @cached_property
    def since_before_ms(self) -> Array:
        """Milliseconds since the previous commit of the place."""
        before = pc.coalesce(self.table["previous_time"], self.table["time"])
        return self.time_ms - before.cast(pa.int64()).to_numpy() // 1000

    @cached_property
    def owned(self) -> Array:
        return self.known("owner")

    @cached_property
    def place(self) -> Array:
        """Group, topic and partition as one number."""
        return self._places[: len(self)]

    @cached_property
    def topic_of_group(self) -> Array:
        """Group and topic as one number."""
        return self._topics_of_groups[: len(self)]

    @cached_property
    def _places(self) -> Array:
        """The place of each row of commit_steps, then of partition_facts, numbered in the same way."""
        partition = joined(self.table["partition"], self._facts["partition"]).to_numpy().astype(np.int64)
        place, _ = codes(pa.array(paired(self._topics_of_groups, partition)))
        return place

    @cached_property
    def _topics_of_groups(self) -> Array:
        group, _ = codes(joined(self.table["group_id"], self._facts["group_id"]))
        topic, _ = codes(joined(self.table["topic"], self._facts["topic"]))
        both, _ = codes(pa.array(paired(group, topic)))
        return both

    def usual(self, name: str, if_null: int = 0) -> Array:
        """A column of partition_facts, for the place of each row."""
        values = np.full(int(self._places.max(initial=-1)) + 1, if_null, np.int64)
        values[self._places[len(self) :]] = self._facts[name].fill_null(if_null).to_numpy()
        return values[self.place]
