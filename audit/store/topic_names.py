"""Names of topics for records with only a topic id (KIP-848, KIP-932), from records that have both.

Commits have both, and so has the partition metadata of consumer and share groups (types 4 and 15).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, MutableMapping

import pyarrow as pa
import pyarrow.compute as pc

from kohort.audit.decode.topics import METADATA_TYPES
from kohort.audit.tables import MEMBER_ASSIGNMENTS, OFFSET_COMMITS, OTHER_RECORDS, SHARE_STATES

ID, NAME = "topic_id", "topic"
SCHEMA = pa.schema([(ID, pa.string()), (NAME, pa.string())])
SOURCES = (OFFSET_COMMITS.name, OTHER_RECORDS.name)
COLUMNS = ("assigned", "revoking")  # of member_assignments
IN_METADATA = ("topics", "initializingTopics", "initializedTopics", "deletingTopics")


def names_in(table: str, rows: pa.RecordBatch) -> pa.Table:
    """Topic ids and names in these rows of one of SOURCES, each pair once."""
    if table == OTHER_RECORDS.name:
        pairs = sorted(set(_in_metadata(rows)))
        return pa.table([pa.array([pair[place] for pair in pairs], pa.string()) for place in (0, 1)], schema=SCHEMA)
    both = pa.table([rows[ID].cast(pa.string()), rows[NAME].cast(pa.string())], schema=SCHEMA)
    return both.filter(pc.is_valid(both[ID])).group_by([ID, NAME]).aggregate([])


def _in_metadata(rows: pa.RecordBatch) -> Iterator[tuple[str, str]]:
    told = pc.and_(pc.is_in(rows["record_type"], pa.array(METADATA_TYPES, pa.int32())), rows["value"].is_valid())
    for value in rows["value"].filter(pc.and_(told, rows["problem"].is_null())).to_pylist():
        data = json.loads(value)["data"]
        for topic in (topic for name in IN_METADATA for topic in data.get(name, ())):
            if isinstance(topic, dict) and {"topicId", "topicName"} <= topic.keys():
                yield topic["topicId"], topic["topicName"]


def has_nameless(tables: Mapping[str, pa.Table]) -> bool:
    """Whether there is a topic without a name in these tables, given by their names."""
    return any(_is_nameless_table(name, rows) for name, rows in tables.items())


def _is_nameless_table(table: str, rows: pa.Table) -> bool:
    if table == SHARE_STATES.name and {ID, NAME} <= set(rows.column_names):
        return bool(rows[NAME].null_count)
    if table != MEMBER_ASSIGNMENTS.name:
        return False
    return any(pc.any(_is_nameless(pc.list_flatten(rows[name]))).as_py() for name in _there(rows))


def named(table: str, rows: pa.Table, names: Mapping[str, str]) -> pa.Table:
    """The rows of this table with the known names filled in."""
    if table == SHARE_STATES.name:
        place = rows.schema.get_field_index(NAME)
        return rows.set_column(place, rows.schema.field(place), pc.coalesce(rows[NAME], _names_of(rows[ID], names)))
    for column in _there(rows) if table == MEMBER_ASSIGNMENTS.name else ():
        place = rows.schema.get_field_index(column)
        kind = rows.schema.field(place)
        chunks = [_named_lists(chunk, names) for chunk in rows[column].chunks]
        rows = rows.set_column(place, kind, pa.chunked_array(chunks, kind.type))
    return rows


def _names_of(ids: pa.Array | pa.ChunkedArray, names: Mapping[str, str]) -> pa.Array | pa.ChunkedArray:
    """The name of each id; null if it is not known."""
    known = pa.array(list(names.values()), pa.string())
    return known.take(pc.index_in(ids, pa.array(list(names), pa.string())))


def _there(assignments: pa.Table) -> list[str]:
    return [name for name in COLUMNS if name in assignments.column_names]


def _is_nameless(items: pa.Array | pa.ChunkedArray) -> pa.Array:
    return pc.and_(pc.is_null(pc.struct_field(items, NAME)), pc.is_valid(pc.struct_field(items, ID)))


def _named_lists(lists: pa.ListArray, names: Mapping[str, str]) -> pa.ListArray:
    items = lists.flatten()
    found = _names_of(items.field(ID), names)
    filled = [pc.coalesce(items.field(NAME), found), items.field(ID), items.field("partition")]
    counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array([0, *counts.cumsum().tolist()], pa.int32())
    struct = pa.StructArray.from_arrays(filled, fields=list(lists.type.value_type))
    return pa.ListArray.from_arrays(offsets, struct, type=lists.type, mask=lists.is_null())


def name_topics(parts: MutableMapping[int, Mapping[str, pa.Table]]) -> None:
    """Give names to topics that a log partition knows by their ids only, if another log partition has their names.

    `parts`: log partition -> its base tables, or some of them.
    """
    nameless = [number for number in parts if has_nameless(parts[number])]
    if not nameless:
        return
    names: dict[str, str] = {}
    for base in parts.values():
        for table in SOURCES:
            for batch in base[table].to_batches():
                found = names_in(table, batch)
                names.update(zip(*(found[name].to_pylist() for name in SCHEMA.names), strict=True))
    for number in nameless:
        parts[number] = {name: named(name, rows, names) for name, rows in parts[number].items()}
