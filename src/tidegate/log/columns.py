"""File actions as Arrow columns, and back: no Python object for each file outlives the decoding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
from msgspec.structs import astuple

from tidegate.files.deletion_vectors import DeletionVector

STRING_MAP = pa.map_(pa.string(), pa.string())
DV_TYPE = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
ADD_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("partitionValues", STRING_MAP),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
        ("tags", STRING_MAP),
        ("deletionVector", DV_TYPE),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
        ("clusteringProvider", pa.string()),
    ]
)
REMOVE_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", STRING_MAP),
        ("size", pa.int64()),
        ("stats", pa.string()),
        ("tags", STRING_MAP),
        ("deletionVector", DV_TYPE),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
    ]
)
CDC_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("partitionValues", STRING_MAP),
        ("size", pa.int64()),
        ("dataChange", pa.bool_()),
        ("tags", STRING_MAP),
    ]
)
_NULL_BLOCK = 1_024


@lru_cache(maxsize=64)
def _attribute(wire: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in wire)


def _as_maps(values: Iterable[Mapping[str, str | None] | None]) -> pa.MapArray:
    """Mappings as one column: keys and values laid end to end, which is several times faster than pairs."""
    offsets: list[int | None] = []
    keys: list[str] = []
    items: list[str | None] = []
    for value in values:
        if value is None:
            offsets.append(None)
            continue
        offsets.append(len(keys))
        if value:
            keys.extend(value)
            items.extend(value.values())
    offsets.append(len(keys))
    return pa.MapArray.from_arrays(
        pa.array(offsets, pa.int32()), pa.array(keys, pa.string()), pa.array(items, pa.string())
    )


def _from_maps(column: pa.MapArray) -> list[dict[str, str | None] | None]:
    """The way back."""
    offsets = column.offsets.to_pylist()
    first, length = offsets[0], offsets[-1] - offsets[0]
    keys = column.keys.slice(first, length).to_pylist()
    items = column.items.slice(first, length).to_pylist()
    spans = zip(offsets, offsets[1:], column.is_valid().to_pylist(), strict=False)
    return [
        dict(zip(keys[start - first : end - first], items[start - first : end - first], strict=True))
        if there
        else None
        for start, end, there in spans
    ]


def _as_dv(value: DeletionVector | None) -> tuple[Any, ...] | None:
    if value is None:
        return None
    return (
        value.storage_type,
        value.path_or_inline_dv,
        value.offset,
        value.size_in_bytes,
        value.cardinality,
    )


def to_batch(actions: Sequence[msgspec.Struct], schema: pa.Schema) -> pa.RecordBatch:
    """File actions of one kind as columns, in the order given."""
    if not actions:
        return _empty(schema)
    # All rows at once as tuples, then turned on their side: a getattr per value costs twice as much.
    names = _attributes(type(actions[0]))
    by_name = dict(zip(names, zip(*map(astuple, actions), strict=True), strict=True))
    columns = []
    for column in schema:
        values = by_name[_attribute(column.name)]
        if values.count(None) == len(values):
            columns.append(_nulls(column.type, len(values)))
            continue
        if column.type == STRING_MAP:
            columns.append(_as_maps(values))
        elif column.type == DV_TYPE:
            columns.append(pa.array(list(map(_as_dv, values)), column.type))
        else:
            columns.append(pa.array(values, column.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


@lru_cache(maxsize=32)
def _null_block(kind: pa.DataType) -> pa.Array:
    return pa.nulls(_NULL_BLOCK, kind)


def _nulls(kind: pa.DataType, count: int) -> pa.Array:
    """Nulls of a type; a slice of ready ones where they are few, as in most commits."""
    return _null_block(kind).slice(0, count) if count <= _NULL_BLOCK else pa.nulls(count, kind)


@lru_cache(maxsize=16)
def _attributes(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(f.name for f in msgspec.structs.fields(kind))


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


_ActionT = TypeVar("_ActionT", bound=msgspec.Struct)


@lru_cache(maxsize=16)
def _wire_fields(kind: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(f.encode_name for f in msgspec.structs.fields(kind))


def from_batch(batch: pa.RecordBatch | pa.Table, kind: type[_ActionT]) -> Iterator[_ActionT]:
    """Columns back to file actions, one at a time; fields the type does not know are dropped."""
    batch = batch.select([n for n in batch.schema.names if n in _wire_fields(kind)])
    maps = [f.name for f in batch.schema if pa.types.is_map(f.type)]
    for piece in batch.to_batches() if isinstance(batch, pa.Table) else [batch]:
        for row in piece.to_pylist():
            for name in maps:
                if row[name] is not None:
                    row[name] = dict(row[name])
            yield msgspec.convert({k: v for k, v in row.items() if v is not None}, kind)


def batch_to_wire(name: str, batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """File actions in columns as JSON objects, one row at a time, absent fields left out."""
    names: list[str] = []
    columns: list[list[Any]] = []
    for kind, column in zip(batch.schema, batch.columns, strict=True):
        if column.null_count < len(column):
            names.append(kind.name)
            columns.append(_from_maps(column) if pa.types.is_map(kind.type) else column.to_pylist())
    for row in zip(*columns, strict=True):
        body = {k: v for k, v in zip(names, row, strict=True) if v is not None}
        if "deletionVector" in body:
            body["deletionVector"] = {k: v for k, v in body["deletionVector"].items() if v is not None}
        if name != "remove":
            body.setdefault("partitionValues", {})
        yield {name: body}
