"""What a transaction has read: the ground on which its conflicts are decided.

A read set only grows. Files are kept as Arrow paths, predicates as parsed expressions over the
schema of the snapshot that was read.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pyarrow as pa

from tidegate.files.predicate import Predicate
from tidegate.files.skipping import could_match
from tidegate.metadata import Metadata
from tidegate.schema.mapping import mapping_mode


@dataclass(frozen=True)
class ReadSet:
    """Everything one transaction has read of the table."""

    whole_table: bool = False
    predicates: tuple[Predicate, ...] = ()
    files: tuple[pa.Array, ...] = ()
    apps: frozenset[str] = field(default_factory=frozenset)

    @property
    def empty(self) -> bool:
        """No rows were read. Application ids do not count: they say nothing about rows."""
        return not (self.whole_table or self.predicates or self.files)

    def with_table(self) -> ReadSet:
        return replace(self, whole_table=True)

    def with_predicate(self, predicate: Predicate) -> ReadSet:
        return replace(self, predicates=(*self.predicates, predicate))

    def with_files(self, paths: pa.Array) -> ReadSet:
        return replace(self, files=(*self.files, paths)) if len(paths) else self

    def with_app(self, app_id: str) -> ReadSet:
        return replace(self, apps=self.apps | {app_id})

    def may_match(self, adds: pa.RecordBatch, metadata: Metadata) -> bool:
        """Whether a row of ``adds`` could be one that this read set was asked for."""
        if self.whole_table:
            return bool(adds.num_rows)
        return any(
            could_match(adds, p, metadata.schema, metadata.partition_columns, mapping_mode(metadata))
            for p in self.predicates
        )
