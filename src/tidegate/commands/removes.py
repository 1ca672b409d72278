"""Live files as remove actions: what every command that takes files out of a table commits."""

from __future__ import annotations

import pyarrow as pa

from tidegate.log.columns import REMOVE_SCHEMA


def as_removes(files: pa.Table, now: int, *, data_change: bool = True) -> pa.Table:
    """Live files as remove actions of this moment."""
    n = files.num_rows
    out = files.select([c for c in REMOVE_SCHEMA.names if c in files.column_names and c != "dataChange"])
    out = out.append_column("deletionTimestamp", pa.array([now] * n, pa.int64()))
    out = out.append_column("dataChange", pa.array([data_change] * n, pa.bool_()))
    return out.append_column("extendedFileMetadata", pa.array([True] * n, pa.bool_()))


def with_data_change(files: pa.Table, value: bool) -> pa.Table:
    """File actions that all say, or all deny, that they change what the table holds."""
    at = files.schema.get_field_index("dataChange")
    return files.set_column(at, files.schema.field(at), pa.array([value] * files.num_rows, pa.bool_()))
