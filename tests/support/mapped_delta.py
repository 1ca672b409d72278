"""A small Delta table with column mapping, written without Spark: columns are renamed, dropped, added again.

Only as much of a writer as the tests of companion indexes need: strings beside ``id``, one parquet file for
each append, rows deleted by vectors, files rewritten into one.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from tidegate.files import deletion_vectors
from tidegate.files.deletion_vectors import DeletionVector
from tidegate.log.columns import ADD_SCHEMA, REMOVE_SCHEMA
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
                configuration={
                    "delta.columnMapping.mode": "name",
                    "delta.enableDeletionVectors": "true",
                },
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

    def _commit(
        self,
        *,
        adds: Sequence[dict[str, Any]] = (),
        removes: Sequence[dict[str, Any]] = (),
        schema: StructType | None = None,
    ) -> None:
        txn = Transaction.begin(self.path)
        if schema is not None:
            assert txn.snapshot is not None
            txn.update_metadata(txn.snapshot.metadata.with_schema(schema))
        txn.commit(
            adds=pa.Table.from_pylist(list(adds), ADD_SCHEMA),
            removes=pa.Table.from_pylist(list(removes), REMOVE_SCHEMA),
        )

    def _files(self) -> Iterator[tuple[dict[str, Any], pa.Table, BitMap64]]:
        """The live files: their add, their rows and which of them are deleted."""
        for file in open_table(self.path).files().to_pylist():
            vector = file["deletionVector"]
            gone = BitMap64()
            if vector is not None:
                known = {k: v for k, v in vector.items() if v is not None}
                gone = deletion_vectors.read(msgspec.convert(known, DeletionVector), _nowhere)
            yield file, pq.read_table(f"{self.path}/{file['path']}"), gone

    def _removed(self, file: dict[str, Any], *, data_change: bool) -> dict[str, Any]:
        kept = {"path": file["path"], "deletionVector": file["deletionVector"], "size": file["size"]}
        return {
            **kept,
            "partitionValues": [],
            "extendedFileMetadata": True,
            "dataChange": data_change,
            "deletionTimestamp": 1_700_000_000_000,
        }

    def delete(self, ids: Collection[int]) -> None:
        """Take rows away by deletion vectors in the log; files in which none is left go whole."""
        adds, removes = [], []
        for file, rows, gone in self._files():
            mine = {n for n, i in enumerate(rows.column(self._id).to_pylist()) if i in ids} - set(gone)
            if not mine:
                continue
            removes.append(self._removed(file, data_change=True))
            now = gone | BitMap64(mine)
            if len(now) < rows.num_rows:
                vector = msgspec.to_builtins(deletion_vectors.inline(now))
                adds.append(self._add(file["path"], rows.num_rows, deletionVector=vector))
        if removes:
            self._commit(adds=adds, removes=removes)

    def compact(self) -> None:
        """All live rows in one new file, with no change to the data."""
        removes, parts = [], []
        for file, rows, gone in self._files():
            removes.append(self._removed(file, data_change=False))
            parts.append(rows.filter(pa.array([n not in gone for n in range(rows.num_rows)], pa.bool_())))
        if not parts:
            return
        whole = pa.concat_tables(parts, promote_options="default")
        name = f"part-{uuid.uuid4()}.parquet"
        pq.write_table(whole, f"{self.path}/{name}")
        self._commit(adds=[self._add(name, whole.num_rows, dataChange=False)], removes=removes)

    @property
    def _id(self) -> str:
        field = open_table(self.path).schema.field("id")
        assert field is not None
        return str(field.metadata["delta.columnMapping.physicalName"])

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


def _nowhere(name: str, offset: int, length: int) -> bytes:
    raise AssertionError("the vectors of these tables are in the log")
