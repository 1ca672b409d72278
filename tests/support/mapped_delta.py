"""A small Delta table with column mapping, written without Spark: columns are renamed, dropped, added again.

Only as much of a writer as the tests of companion indexes need: strings beside ``id``, one parquet file for
each append.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.log.actions import ADD_SCHEMA
from tidegate.metadata import Metadata
from tidegate.opening import open as open_table
from tidegate.schema.types import PrimitiveType, StructField, StructType
from tidegate.transaction.transaction import Transaction


class MappedDelta:
    """The table at ``path``, with ``id`` (long) and strings."""

    def __init__(self, path: Path, strings: Sequence[str]) -> None:
        self.path = str(path)
        fields = [StructField("id", PrimitiveType("long")), *(_string(name) for name in strings)]
        txn = Transaction.begin(self.path)
        txn.update_metadata(
            Metadata(
                id=str(uuid.uuid4()),
                schema_string=StructType(tuple(fields)).to_json(),
                configuration={"delta.columnMapping.mode": "name"},
            )
        )
        txn.commit()

    @property
    def version(self) -> int:
        return open_table(self.path).version

    def append(self, *rows: dict[str, Any]) -> str:
        """One more file; returns its path."""
        schema = open_table(self.path).schema
        columns = {
            f.metadata["delta.columnMapping.physicalName"]: pa.array(
                [r.get(f.name) for r in rows], pa.int64() if f.name == "id" else pa.string()
            )
            for f in schema.fields
        }
        name = f"part-{uuid.uuid4()}.parquet"
        pq.write_table(pa.table(columns), f"{self.path}/{name}")
        self._commit(adds=[self._add(name, len(rows))])
        return name

    def _add(self, name: str, rows: int, **more: Any) -> dict[str, Any]:
        return {
            "path": name,
            "partitionValues": [],
            "size": Path(self.path, name).stat().st_size,
            "modificationTime": 1_700_000_000_000,
            "dataChange": True,
            "stats": f'{{"numRecords":{rows}}}',
            **more,
        }

    def _commit(self, *, adds: Sequence[dict[str, Any]] = (), schema: StructType | None = None) -> None:
        txn = Transaction.begin(self.path)
        if schema is not None:
            assert txn.snapshot is not None
            txn.update_metadata(txn.snapshot.metadata.with_schema(schema))
        txn.commit(adds=pa.Table.from_pylist(list(adds), ADD_SCHEMA))

    def rename(self, old: str, new: str) -> None:
        fields = open_table(self.path).schema.fields
        renamed = (StructField(new, f.type, True, f.metadata) if f.name == old else f for f in fields)
        self._commit(schema=StructType(tuple(renamed)))

    def drop(self, name: str) -> None:
        fields = open_table(self.path).schema.fields
        self._commit(schema=StructType(tuple(f for f in fields if f.name != name)))

    def add(self, name: str) -> None:
        fields = open_table(self.path).schema.fields
        self._commit(schema=StructType((*fields, _string(name))))


def _string(name: str) -> StructField:
    return StructField(name, PrimitiveType("string"))
