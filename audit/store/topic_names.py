"""Names of topics for records with only a topic id (KIP-848), from commits of any group anywhere in the log."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

ID, NAME = "topic_id", "topic"
SCHEMA = pa.schema([(ID, pa.string()), (NAME, pa.string())])
COLUMNS = ("assigned", "revoking")  # of member_assignments


def names_in(commits: pa.RecordBatch) -> pa.Table:
    """Topic ids and names in these commits, each pair once."""
    both = pa.table([commits[ID].cast(pa.string()), commits[NAME].cast(pa.string())], schema=SCHEMA)
    return both.filter(pc.is_valid(both[ID])).group_by([ID, NAME]).aggregate([])


def has_nameless(assignments: pa.Table) -> bool:
    return any(pc.any(_is_nameless(_items(assignments[name]))).as_py() for name in _there(assignments))


def named(assignments: pa.Table, names: Mapping[str, str]) -> pa.Table:
    """The rows with the known names filled in."""
    for column in _there(assignments):
        place = assignments.schema.get_field_index(column)
        kind = assignments.schema.field(place)
        chunks = [_named_lists(chunk, names) for chunk in assignments[column].chunks]
        assignments = assignments.set_column(place, kind, pa.chunked_array(chunks, kind.type))
    return assignments


def _there(assignments: pa.Table) -> list[str]:
    return [name for name in COLUMNS if name in assignments.column_names]


def _items(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.list_flatten(column)


def _is_nameless(items: pa.Array | pa.ChunkedArray) -> pa.Array:
    return pc.and_(pc.is_null(pc.struct_field(items, NAME)), pc.is_valid(pc.struct_field(items, ID)))


def _named_lists(lists: pa.ListArray, names: Mapping[str, str]) -> pa.ListArray:
    items = lists.flatten()
    found = pa.array(list(names.values()), pa.string()).take(
        pc.index_in(items.field(ID), pa.array(list(names), pa.string()))
    )
    filled = [pc.coalesce(items.field(NAME), found), items.field(ID), items.field("partition")]
    counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array([0, *counts.cumsum().tolist()], pa.int32())
    struct = pa.StructArray.from_arrays(filled, fields=list(lists.type.value_type))
    return pa.ListArray.from_arrays(offsets, struct, type=lists.type, mask=lists.is_null())
