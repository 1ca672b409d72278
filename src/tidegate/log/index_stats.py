"""The bounds of splits: ``minValues`` and ``maxValues``, which are texts by column, as typed statistics.

Numbers are plain, booleans ``true`` and ``false``, timestamps microseconds since 1970, dates either
``YYYY-MM-DD`` or, from some writers, microseconds. Long strings were cut off: a minimum that is cut is
still one, a maximum is taken as the highest text that begins with it. What does not parse is unknown,
and a file of which something is unknown is kept.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.files import partitions
from tidegate.files.predicate import Predicate
from tidegate.metadata import Metadata
from tidegate.schema.types import DataType

_HIGHEST = "\U0010ffff"
_NUMBER = r"^-?[0-9]+$"
_MICROS_PER_DAY = 86_400_000_000


def with_parsed_stats(batch: pa.RecordBatch, predicate: Predicate, metadata: Metadata) -> pa.RecordBatch:
    """``batch`` with ``stats_parsed`` for the columns that ``predicate`` asks for.

    Null where a split has neither minima nor maxima: its ``stats``, if any, speak for it.
    """
    schema = metadata.schema
    partition_columns = {c.lower() for c in metadata.partition_columns}
    sides: dict[str, dict[str, pa.Array]] = {"minValues": {}, "maxValues": {}}
    for path in sorted(predicate.columns):
        field = schema.field(path[0])
        if len(path) > 1 or field is None or field.name.lower() in partition_columns:
            continue
        for side, found in sides.items():
            texts = partitions.lookup(batch.column(side), field.name)
            values = parse(texts, field.type, highest=side == "maxValues")
            if values is not None:
                found[field.name] = values
    columns = [batch.column("numRecords"), *(_struct(s, batch.num_rows) for s in sides.values())]
    silent = pc.and_(batch.column("minValues").is_null(), batch.column("maxValues").is_null())
    parsed = pa.StructArray.from_arrays(columns, ["numRecords", *sides], mask=silent)
    return batch.append_column("stats_parsed", parsed)


def _struct(columns: dict[str, pa.Array], rows: int) -> pa.StructArray:
    if not columns:
        return pa.nulls(rows, pa.struct([]))
    return pa.StructArray.from_arrays(list(columns.values()), list(columns))


def parse(texts: pa.Array, kind: DataType, *, highest: bool) -> pa.Array | None:
    """Bounds in the type of their column, null where unknown; None for types without an order here."""
    target = partitions.arrow_type(kind)
    if target is None:
        return None
    if pa.types.is_string(target):
        return pc.binary_join_element_wise(texts, pa.scalar(_HIGHEST), "") if highest else texts
    if pa.types.is_date(target) or pa.types.is_timestamp(target):
        return _temporal(texts, kind, target)
    return partitions.parse(texts, kind).values


def _temporal(texts: pa.Array, kind: DataType, target: pa.DataType) -> pa.Array:
    none = pa.scalar(None, pa.string())
    numeric = pc.match_substring_regex(texts, _NUMBER)
    written = partitions.parse(pc.if_else(numeric, none, texts), kind).values
    micros = partitions.parse_distinct(pc.if_else(numeric, texts, none), pa.int64())
    if pa.types.is_timestamp(target):
        return pc.coalesce(written, micros.cast(pa.timestamp("us")).cast(target))
    # Division cuts towards zero; a day before 1970 begins below what it gives.
    days = pc.cast(pc.floor(pc.divide(pc.cast(micros, pa.float64()), float(_MICROS_PER_DAY))), pa.int32())
    return pc.coalesce(written, days.cast(pa.date32()))
