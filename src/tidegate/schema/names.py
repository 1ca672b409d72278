"""Columns by name: which names parquet files cannot carry, and so no table without column mapping, which
ones a change feed has for itself, and which columns cannot tell partitions apart.

Tables that others made with such columns can be read and written; nobody makes or widens one here.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.errors import SchemaInvalidError
from tidegate.schema.mapping import MODE
from tidegate.schema.paths import join_path
from tidegate.schema.types import VOID, StructType

_ILLEGAL = frozenset(" ,;{}()\n\t=")
SHOWN = r"' ,;{}()\n\t='"
# What a change feed says of each row, beside the table's own columns.
_FEED = frozenset({"_change_type", "_commit_version", "_commit_timestamp"})


def names_to_map(schema: StructType) -> list[str]:
    """The columns, at every level, whose names only column mapping allows."""
    return [join_path(path) for path, f in schema.walk() if _ILLEGAL & set(f.name)]


def check_names(
    schema: StructType, partition_columns: Sequence[str] = (), before: StructType | None = None
) -> None:
    """Refuse names that need column mapping, except those that the table had ``before``."""
    known = set() if before is None else set(names_to_map(before))
    bad = [name for name in names_to_map(schema) if name not in known]
    partitions = {join_path((c,)) for c in partition_columns}
    if bad:
        is_partition = any(name in partitions for name in bad)
        raise SchemaInvalidError(
            f"Names of columns hold characters among {SHOWN}, which data files cannot carry: "
            f"{', '.join(bad)}.",
            hint=f"Rename them, or set the table property {MODE} = name to enable column mapping.",
            errorClass="DELTA_INVALID_PARTITION_COLUMN_NAME"
            if is_partition
            else "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES",
        )


def check_feed_names(schema: StructType, before: StructType | None = None) -> None:
    """Refuse columns by the names that a change feed gives its own.

    A table that had a feed ``before`` keeps what it has; nobody gives it another one.
    """
    known = () if before is None else before.names
    clash = [f.name for f in schema.fields if f.name.lower() in _FEED and f.name not in known]
    if clash:
        raise SchemaInvalidError(
            f"The change data feed needs the names {', '.join(clash)} for itself.",
            hint="Call these columns by other names, or set delta.enableChangeDataFeed = false.",
            errorClass="DELTA_TABLE_ALREADY_CONTAINS_CDC_COLUMNS"
            if before is None
            else "RESERVED_CDC_COLUMNS_ON_WRITE",
        )


def check_partitions_once(partition_columns: Sequence[str]) -> None:
    """Refuse a partition column that is named twice."""
    folded = [c.lower() for c in partition_columns]
    twice = sorted({c for c in folded if folded.count(c) > 1})
    if twice:
        raise SchemaInvalidError(
            f"Partition columns are named twice: {', '.join(twice)}.",
            errorClass="DELTA_DUPLICATE_COLUMNS_FOUND.PARTITION_COLUMNS",
        )


def check_partition_types(partitions: StructType, before: Sequence[str] = ()) -> None:
    """Refuse partition columns that have no type but null, except those that the table had ``before``."""
    for f in partitions.fields:
        if f.type == VOID and f.name not in before:
            raise SchemaInvalidError(
                f"The partition column {f.name} has no type but null.",
                errorClass="DELTA_INVALID_PARTITION_COLUMN_TYPE",
            )
