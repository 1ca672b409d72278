"""A table's rows by Arrow alone: files of a snapshot, their partition values, vectors and row ids.

Small tables only. It takes from the product what the log says, and reads the data files by itself.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow.parquet as pq

from tidegate.files import deletion_vectors
from tidegate.log.actions import Add
from tidegate.log.columns import from_batch
from tidegate.log.snapshot import Snapshot
from tidegate.schema.mapping import mapping_mode, physical_name
from tidegate.storage.store import Store

ROW_ID = "__row_id"
_MATERIALIZED = "delta.rowTracking.materializedRowIdColumnName"


def _bytes_of(store: Store, name: str) -> bytes:
    if name.startswith("file:"):
        return Path(unquote(urlsplit(name).path)).read_bytes()
    return store.get(unquote(name))


def rows_of(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Every live row by the names of its columns; with its id where the table tracks rows."""
    return [row for found in from_batch(snapshot.files(), Add) for row in _rows_of_file(snapshot, found)]


def hidden_rows(snapshot: Snapshot, found: Add) -> set[int]:
    """The indexes of the rows that the file's deletion vector hides."""
    store = snapshot.log.store
    if found.deletion_vector is None:
        return set()
    return set(
        deletion_vectors.read(
            found.deletion_vector, lambda name, at, size: _bytes_of(store, name)[at : at + size]
        )
    )


def _rows_of_file(snapshot: Snapshot, found: Add) -> list[dict[str, Any]]:
    store, metadata = snapshot.log.store, snapshot.metadata
    tracks = metadata.configuration.get("delta.enableRowTracking") == "true"
    stored = pq.read_table(io.BytesIO(_bytes_of(store, found.path))).to_pylist()
    hidden = hidden_rows(snapshot, found)
    out = []
    for index, values in enumerate(stored):
        if index in hidden:
            continue
        row: dict[str, Any] = {}
        for column in snapshot.schema.fields:
            name = physical_name(column, mapping_mode(metadata))
            if column.name in snapshot.partition_columns:
                row[column.name] = found.partition_values.get(name)
            else:
                row[column.name] = values.get(name)
        if tracks:
            kept = values.get(metadata.configuration.get(_MATERIALIZED, ""))
            assert found.base_row_id is not None, f"{found.path} has no row ids"
            row[ROW_ID] = found.base_row_id + index if kept is None else kept
        out.append(row)
    return out
