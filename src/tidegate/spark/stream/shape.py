"""Whether files of one version can be read with the schema that a stream was started with. Pure.

A stream has one schema for as long as it runs. Files written under older or newer metadata fit if
each of their columns is among the stream's, by the same name for users and in files, with the same
type or one that widened to it, and if nulls stay allowed where they were. So a column that is added
stops a running stream, and the next start goes on with it.
"""

from __future__ import annotations

from tidegate.metadata import Metadata
from tidegate.schema.mapping import Mode, mapping_mode, physical_name
from tidegate.schema.types import ArrayType, DataType, MapType, StructType
from tidegate.schema.widening import can_widen


def mismatch(written: Metadata, read: Metadata) -> str | None:
    """Why files written under ``written`` cannot be read as ``read``; None if they can."""
    if tuple(written.partition_columns) != tuple(read.partition_columns):
        return (
            f"it is partitioned by {', '.join(written.partition_columns) or 'nothing'}, "
            f"the stream by {', '.join(read.partition_columns) or 'nothing'}"
        )
    return _struct(written.schema, read.schema, mapping_mode(written), mapping_mode(read), "")


def _struct(written: StructType, read: StructType, old: Mode, new: Mode, at: str) -> str | None:
    known = {f.name: f for f in read.fields}
    for f in written.fields:
        name = f"{at}{f.name}"
        found = known.get(f.name)
        if found is None:
            return f"it has the column {name}, which the stream does not know"
        if physical_name(f, old) != physical_name(found, new):
            return f"the column {name} is another one than the stream's: it was dropped or renamed"
        if f.nullable and not found.nullable:
            return f"the column {name} may be null, in the stream it may not"
        reason = _type(f.type, found.type, old, new, name)
        if reason is not None:
            return reason
    return None


def _type(written: DataType, read: DataType, old: Mode, new: Mode, at: str) -> str | None:
    if isinstance(written, StructType) and isinstance(read, StructType):
        return _struct(written, read, old, new, f"{at}.")
    if isinstance(written, ArrayType) and isinstance(read, ArrayType):
        return _type(written.element, read.element, old, new, f"{at}.element")
    if isinstance(written, MapType) and isinstance(read, MapType):
        return _type(written.key, read.key, old, new, f"{at}.key") or _type(
            written.value, read.value, old, new, f"{at}.value"
        )
    if written == read or can_widen(written, read):
        return None
    return f"the column {at} is {written}, in the stream {read}"
