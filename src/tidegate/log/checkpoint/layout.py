"""The columns of a checkpoint: one for each kind of action, and ``add`` as the table's properties want it.

Specification: "Checkpoint Schema".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidegate import properties
from tidegate.files import partitions, stats
from tidegate.log.columns import ADD_SCHEMA, REMOVE_SCHEMA, STRING_MAP
from tidegate.log.snapshot import Snapshot
from tidegate.metadata import Metadata
from tidegate.schema.arrow import to_arrow_type
from tidegate.schema.mapping import logical_to_physical, mapping_mode, physical_name, to_physical
from tidegate.schema.paths import split_names, split_path

TXN = pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])
METADATA = pa.struct(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("description", pa.string()),
        ("format", pa.struct([("provider", pa.string()), ("options", STRING_MAP)])),
        ("schemaString", pa.string()),
        ("partitionColumns", pa.list_(pa.string())),
        ("configuration", STRING_MAP),
        ("createdTime", pa.int64()),
    ]
)
PROTOCOL = pa.struct(
    [
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
        ("readerFeatures", pa.list_(pa.string())),
        ("writerFeatures", pa.list_(pa.string())),
    ]
)
DOMAIN = pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())])
# Checkpoints leave out the statistics and the tags of removed files.
REMOVE = pa.struct([f for f in REMOVE_SCHEMA if f.name not in ("stats", "tags")])
CHECKPOINT_METADATA = pa.struct([("version", pa.int64()), ("tags", STRING_MAP)])
SIDECAR = pa.struct(
    [
        ("path", pa.string()),
        ("sizeInBytes", pa.int64()),
        ("modificationTime", pa.int64()),
        ("tags", STRING_MAP),
    ]
)


@dataclass(frozen=True)
class AddLayout:
    """The ``add`` column of a checkpoint, as the table's properties want it."""

    type: pa.StructType
    json_stats: bool
    parsed_stats: pa.StructType | None
    partition_types: tuple[tuple[str, Any], ...] | None

    @classmethod
    def of(cls, snapshot: Snapshot) -> AddLayout:
        metadata = snapshot.metadata
        configuration = metadata.configuration
        as_json = bool(properties.get(configuration, properties.CHECKPOINT_STATS_AS_JSON))
        as_struct = bool(properties.get(configuration, properties.CHECKPOINT_STATS_AS_STRUCT))
        mode = mapping_mode(metadata)
        parsed = parsed_type(metadata) if as_struct else None
        typed = None
        if as_struct and metadata.partition_columns:
            typed = tuple((physical_name(f, mode), f.type) for f in metadata.partition_schema.fields)
        fields: list[pa.Field] = []
        for field in ADD_SCHEMA:
            if field.name == "stats" and not as_json:
                continue
            fields.append(field)
            if field.name == "partitionValues" and typed is not None:
                inner = pa.struct([(n, to_arrow_type(t)) for n, t in typed])
                fields.append(pa.field("partitionValues_parsed", inner))
            if field.name == "stats" and parsed is not None:
                fields.append(pa.field("stats_parsed", parsed))
        if not as_json and parsed is not None:
            fields.append(pa.field("stats_parsed", parsed))
        return cls(pa.struct(fields), as_json, parsed, typed)

    def shape(self, batch: pa.RecordBatch) -> pa.StructArray:
        """A batch of live adds as this column. Runs on the threads that read."""
        arrays = []
        for field in self.type:
            if field.name == "dataChange":
                # A checkpoint states what is there; that it once was a change is history.
                arrays.append(pa.repeat(pa.scalar(False), batch.num_rows))
            elif field.name == "stats_parsed":
                arrays.append(self._parsed(batch))
            elif field.name == "partitionValues_parsed":
                arrays.append(self._partitions(batch, field.type))
            else:
                arrays.append(batch.column(field.name))
        return pa.StructArray.from_arrays(arrays, fields=list(self.type))

    def _parsed(self, batch: pa.RecordBatch) -> pa.Array:
        assert self.parsed_stats is not None
        at = batch.schema.get_field_index("stats_parsed")
        if at >= 0:
            column = batch.column(at)
            if column.type == self.parsed_stats and (
                column.null_count == 0 or column.null_count == batch.column("stats").null_count
            ):
                return column
        return stats.parse_for_checkpoint(batch.column("stats"), self.parsed_stats)

    def _partitions(self, batch: pa.RecordBatch, kind: pa.StructType) -> pa.Array:
        assert self.partition_types is not None
        values = batch.column("partitionValues")
        columns = [partitions.typed(values, name, t) for name, t in self.partition_types]
        return pa.StructArray.from_arrays(columns, fields=list(kind))


def parsed_type(metadata: Metadata) -> pa.StructType:
    """The type of ``stats_parsed``: the columns that the table's properties want indexed."""
    mode = mapping_mode(metadata)
    named = properties.get(metadata.configuration, properties.DATA_SKIPPING_STATS_COLUMNS)
    columns = None
    if named is not None:
        paths = [logical_to_physical(metadata.schema, split_path(t), mode) for t in split_names(named)]
        columns = [p for p in paths if p is not None]
    return stats.stats_type(
        to_physical(metadata.schema, mode),
        [physical_name(f, mode) for f in metadata.partition_schema.fields],
        num_indexed=properties.get(metadata.configuration, properties.DATA_SKIPPING_NUM_INDEXED_COLS),
        stats_columns=columns,
    )


class Rows:
    """Batches of one action as rows of the whole checkpoint schema, the other columns null."""

    def __init__(self, columns: dict[str, pa.DataType]) -> None:
        self.schema = pa.schema(list(columns.items()))
        self._nulls: dict[str, pa.Array] = {}

    def of(self, action: str, values: pa.Array) -> pa.RecordBatch:
        n = len(values)
        return pa.RecordBatch.from_arrays(
            [values if f.name == action else self._null(f, n) for f in self.schema], schema=self.schema
        )

    def _null(self, field: pa.Field, n: int) -> pa.Array:
        known = self._nulls.get(field.name)
        if known is None or len(known) < n:
            known = self._nulls[field.name] = pa.nulls(n, field.type)
        return known.slice(0, n)
