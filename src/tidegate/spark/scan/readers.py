"""Tasks that read parquet with pyarrow, where Spark itself cannot open the place of a table's files.

Everything here travels to executors by value and needs PySpark and pyarrow alone (obstore for object
stores). A task gets rows that name files and answers with their rows: the columns asked for, under the
names and in the types asked for, whatever the file calls and stores them as. Columns are found by name,
or by their field id where the table maps columns by id; one that a file lacks is null.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidegate.spark.carried import carried

FIELD_ID = b"PARQUET:field_id"
# What a failure in a task says, so that the driver can tell it apart from others.
MARK = "TIDEGATE-READ"
_BATCH = 32_768
_WIDEST = 38


@dataclass(frozen=True)
class Reading:
    """What a task must know: where files are, which columns are wanted, and how they are found."""

    place: Any
    columns: pa.Schema
    by_id: bool
    key: str
    row: str


class ReadFailed(Exception):
    """A file cannot be read; the text says which one and why."""


def reading(plan: Reading) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for ``mapInArrow``; its input has the columns ``key`` and ``path``."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for key, path in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
                yield from _rows(plan, key, path)

    return run


def _rows(plan: Reading, key: int, path: str) -> Iterator[pa.RecordBatch]:
    try:
        yield from _file(plan, key, path)
    except ReadFailed:
        raise
    except Exception as e:
        # Without the cause: what a client of an object store says may quote what it was given.
        kind = "MISSING" if isinstance(e, FileNotFoundError) else "CORRUPT"
        reason = str(e) if isinstance(e, pa.ArrowException) else type(e).__name__
        text = f"{MARK}[{kind}][{plan.place.address(path)}][{reason[:200]}]{MARK}"
    else:
        return
    raise ReadFailed(text)


def _file(plan: Reading, key: int, path: str) -> Iterator[pa.RecordBatch]:
    with plan.place.open_input(path) as source:
        file = pq.ParquetFile(source, coerce_int96_timestamp_unit="us")
        found = file.schema_arrow
        wanted = [_find(found, f, plan.by_id) for f in plan.columns]
        names = [found.field(i).name for i in wanted if i is not None]
        done = 0
        schema = pa.schema([*plan.columns, pa.field(plan.key, pa.int32()), pa.field(plan.row, pa.int64())])
        if not names:
            yield from _bare(plan, schema, file.metadata.num_rows, key)
            return
        for batch in file.iter_batches(_BATCH, columns=names):
            n = batch.num_rows
            arrays = []
            for i, field in zip(wanted, plan.columns, strict=True):
                column = None if i is None else batch.column(found.field(i).name)
                arrays.append(
                    pa.nulls(n, field.type) if column is None else shaped(column, field.type, plan.by_id)
                )
            arrays.append(pa.repeat(pa.scalar(key, pa.int32()), n))
            arrays.append(pa.array(range(done, done + n), pa.int64()))
            done += n
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _bare(plan: Reading, schema: pa.Schema, rows: int, key: int) -> Iterator[pa.RecordBatch]:
    """A file that has none of the columns: as many rows of nulls."""
    for start in range(0, rows, _BATCH):
        n = min(_BATCH, rows - start)
        arrays = [pa.nulls(n, f.type) for f in plan.columns]
        arrays += [pa.repeat(pa.scalar(key, pa.int32()), n), pa.array(range(start, start + n), pa.int64())]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _find(have: Any, field: pa.Field, by_id: bool) -> int | None:
    """Where a schema or struct has a column; by id only the id counts, by name the case only if it must."""
    fields = [have.field(i) for i in range(len(have) if isinstance(have, pa.Schema) else have.num_fields)]
    if by_id:
        wanted = (field.metadata or {}).get(FIELD_ID)
        if wanted is not None:
            return next((i for i, f in enumerate(fields) if (f.metadata or {}).get(FIELD_ID) == wanted), None)
    exact = next((i for i, f in enumerate(fields) if f.name == field.name), None)
    if exact is not None:
        return exact
    return next((i for i, f in enumerate(fields) if f.name.lower() == field.name.lower()), None)


def shaped(column: pa.Array, wanted: pa.DataType, by_id: bool) -> pa.Array:
    """A column in the type asked for: renamed inside, widened, with nulls for what it lacks."""
    have = column.type
    if have == wanted and not by_id:
        return column
    if pa.types.is_struct(wanted) and pa.types.is_struct(have):
        children = []
        for i in range(wanted.num_fields):
            at = _find(have, wanted.field(i), by_id)
            child = None if at is None else column.field(at)
            field = wanted.field(i)
            children.append(
                pa.nulls(len(column), field.type) if child is None else shaped(child, field.type, by_id)
            )
        mask = column.is_null() if column.null_count else None
        fields = [wanted.field(i) for i in range(wanted.num_fields)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
    if pa.types.is_list(wanted) and (pa.types.is_list(have) or pa.types.is_large_list(have)):
        if pa.types.is_large_list(have):
            column = column.cast(pa.list_(have.value_field))
        return _list(column, wanted, by_id)
    if pa.types.is_map(wanted) and pa.types.is_map(have):
        return _map(column, wanted, by_id)
    return _leaf(column, wanted)


def _offsets(column: pa.Array) -> tuple[pa.Array, int, int]:
    """The offsets of a list or map from 0 on, and where its values begin and end."""
    raw = column.offsets
    start, end = raw[0].as_py(), raw[len(column)].as_py()
    return pc.subtract(raw.slice(0, len(column) + 1), pa.scalar(start, raw.type)), start, end


def _list(column: pa.Array, wanted: pa.ListType, by_id: bool) -> pa.Array:
    offsets, start, end = _offsets(column)
    values = shaped(column.values.slice(start, end - start), wanted.value_type, by_id)
    mask = column.is_null() if column.null_count else None
    return pa.ListArray.from_arrays(offsets, values, type=wanted, mask=mask)


def _map(column: pa.Array, wanted: pa.MapType, by_id: bool) -> pa.Array:
    offsets, start, end = _offsets(column)
    keys = shaped(column.keys.slice(start, end - start), wanted.key_type, by_id)
    items = shaped(column.items.slice(start, end - start), wanted.item_type, by_id)
    mask = column.is_null() if column.null_count else None
    return pa.MapArray.from_arrays(offsets, keys, items, type=wanted, mask=mask)


def _leaf(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    have = column.type
    if have == wanted:
        return column
    if pa.types.is_dictionary(have):
        return _leaf(column.dictionary_decode(), wanted)
    if pa.types.is_decimal(wanted) and pa.types.is_integer(have):
        # Arrow wants room for every integer of that width first.
        room = pa.decimal128(min(_WIDEST, max(wanted.precision, 20 + wanted.scale)), wanted.scale)
        return column.cast(room).cast(wanted)
    if pa.types.is_timestamp(wanted) and pa.types.is_timestamp(have) and have.unit == "ns":
        return column.cast(pa.timestamp("us", have.tz), safe=False).cast(wanted)
    if pa.types.is_timestamp(wanted) and pa.types.is_date(have):
        return column.cast(pa.timestamp("us")).cast(wanted)
    return column.cast(wanted)


# Executors need not have this package: the module travels with the task.
carried(sys.modules[__name__])
