"""Dynamic partition overwrite: which partitions the new files lie in, what leaves, what counts as read.

An overwrite of some partitions asks nothing of the others, so only these count as read: two overwrites
of different partitions follow one another, two of the same are in conflict. What is recorded may name
a partition too many, never one too few.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pyarrow as pa

from tidegate.files import partitions
from tidegate.files.predicate import And, Column, Compare, In, IsNull, Literal, Or, Predicate
from tidegate.files.skipping import keep_mask
from tidegate.metadata import Metadata
from tidegate.schema.mapping import mapping_mode, physical_name
from tidegate.schema.types import StructField
from tidegate.transaction.transaction import Transaction

# More combinations than these are recorded column by column, which may name some that were not written.
MOST_COMBINATIONS = 64
_LITERALS = {
    "byte": "long",
    "short": "long",
    "integer": "long",
    "long": "long",
    "boolean": "boolean",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
}

_NAN = float("nan")
_EPOCH = date(1970, 1, 1)

Keys = list[tuple[Any, ...]]


def touched(metadata: Metadata, files: pa.Table, adds: pa.Table) -> pa.Table:
    """Of ``files`` those whose partition the adds write into; values count, not their spellings."""
    new = set(_keys(metadata, adds))
    mask = [key in new for key in _keys(metadata, files)]
    return files.filter(pa.array(mask, pa.bool_()))


def note_read(transaction: Transaction, files: pa.Table, adds: pa.Table) -> None:
    """Record the partitions of ``adds``, and ``files``, which they replace, as read."""
    if adds.num_rows == 0:
        return
    metadata = transaction.metadata
    asked = written_into(metadata, adds)
    mode, columns = mapping_mode(metadata), metadata.partition_columns
    if asked is None or not all(keep_mask(adds, asked, metadata.schema, columns, mode).to_pylist()):
        # A value that no literal stands for: then every partition may be the one.
        transaction.read_table()
        return
    transaction.read_set = transaction.read_set.with_predicate(asked)
    transaction.read_files(files)


def written_into(metadata: Metadata, adds: pa.Table) -> Predicate | None:
    """The partitions of ``adds`` as a condition on rows; None where it cannot be said."""
    fields = metadata.partition_schema.fields
    found = list(dict.fromkeys(_keys(metadata, adds)))
    literals = [[_literal(value, f) for value, f in zip(key, fields, strict=True)] for key in found]
    if any(known is None for key in literals for known in key):
        return None
    if len(fields) > 1 and len(found) <= MOST_COMBINATIONS:
        return _any(
            [
                And(tuple(_is(f, v) for f, v in zip(fields, key, strict=True) if v is not None))
                for key in literals
            ]
        )
    return And(tuple(_among(f, [key[i] for key in literals]) for i, f in enumerate(fields)))


def _literal(value: Any, field: StructField) -> Literal | None:
    if value is None:
        return Literal(None, "void")
    kind = _LITERALS.get(str(field.type), "decimal" if str(field.type).startswith("decimal") else "")
    if kind == "date" and not isinstance(value, date):
        return None
    return Literal(value, kind) if kind else None


def _is(field: StructField, value: Literal) -> Predicate:
    column = Column((field.name,))
    return IsNull(column) if value.value is None else Compare(column, "=", value)


def _among(field: StructField, values: list[Literal | None]) -> Predicate:
    column = Column((field.name,))
    named = tuple(v for v in dict.fromkeys(values) if v is not None and v.value is not None)
    parts: list[Predicate] = [In(column, named)] if named else []
    if any(v is not None and v.value is None for v in values):
        parts.append(IsNull(column))
    return _any(parts)


def _any(parts: list[Predicate]) -> Predicate:
    return parts[0] if len(parts) == 1 else Or(tuple(parts))


def _keys(metadata: Metadata, files: pa.Table) -> Keys:
    """The partition values of each file: times as microseconds, as literals have them."""
    if files.num_rows == 0:
        return []
    mode = mapping_mode(metadata)
    values = files.column("partitionValues").combine_chunks()
    columns: list[list[Any]] = []
    for field in metadata.partition_schema.fields:
        typed = partitions.typed(values, physical_name(field, mode), field.type)
        if pa.types.is_timestamp(typed.type):
            typed = typed.cast(pa.timestamp("us", typed.type.tz)).cast(pa.int64())
        if pa.types.is_date(typed.type):
            columns.append([_date(days) for days in typed.cast(pa.int32()).to_pylist()])
            continue
        # Not a number equals itself among partition values, as it does in Spark.
        values_of = typed.to_pylist()
        columns.append([_NAN if v != v else v for v in values_of])
    return list(zip(*columns, strict=True))


def _date(days: int | None) -> date | int | None:
    """A date as literals have it; its days where Python has none."""
    try:
        return None if days is None else _EPOCH + timedelta(days)
    except OverflowError:
        return days
