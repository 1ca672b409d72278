"""A companion index at one version of its Delta table: which splits cover which live files, and what is left.

The targets of a search are the splits that cover live files of the snapshot, each file once, and the files
that none covers. Which files may hold a match is the Delta log's to say, by partition values and statistics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from tidegate.files import partitions
from tidegate.files.stats import decode as decode_stats
from tidegate.index.cache import SplitFile
from tidegate.index.companion import SOURCE, live_files, source_table
from tidegate.index.companion_columns import current_names, partition_names, plain
from tidegate.index.prune import implied
from tidegate.index.query import All, Node
from tidegate.index.snapshot import IndexSnapshot
from tidegate.index.sources import LiveFile
from tidegate.index.tables import Searchable
from tidegate.index.work import Scope, Target
from tidegate.index.write import mapping_of
from tidegate.log.snapshot import Snapshot
from tidegate.opening import open as open_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class CompanionTable(Searchable):
    """A companion at one version of its Delta table."""

    delta: Snapshot | None = None

    @classmethod
    def of(
        cls,
        index: IndexSnapshot,
        version: int | None,
        timestamp: datetime | str | int | None,
        storage_options: Mapping[str, str] | None,
        spark: SparkSession | None,
        driver_splits: int | None,
    ) -> CompanionTable:
        delta = open_table(
            index.configuration[SOURCE], version=version, timestamp=timestamp, storage_options=storage_options
        )
        mapping = mapping_of(index).renamed(current_names(index, delta))
        scope = Scope(
            index.url,
            mapping.to_json(),
            plain(delta.schema).to_json(),
            tuple(delta.partition_columns),
            tuple((storage_options or {}).items()),
            source_table(delta),
        )
        return cls(index, scope, spark, driver_splits, delta)

    @property
    def read_version(self) -> int:
        assert self.delta is not None
        return self.delta.version

    @cached_property
    def _splits(self) -> list[dict[str, Any]]:
        columns = ["path", "size", "footerStartOffset", "footerEndOffset", "companionSourceFiles"]
        return list(self.snapshot.files(columns=columns).sort_by("path").to_pylist())

    def targets(self, node: Node) -> tuple[Target, ...]:
        """Splits with the live files they cover, then the files that none covers."""
        assert self.delta is not None
        predicate = implied(node, self.names)
        files = live_files(self.delta, None if isinstance(node, All) else predicate)
        waiting = self._live(files)
        out: list[Target] = []
        for split in self._splits:
            mine = [p for p in split["companionSourceFiles"] or () if p in waiting]
            if mine:
                found = [waiting.pop(p) for p in mine]
                where = SplitFile(
                    self.snapshot.url,
                    split["path"],
                    split["size"],
                    split["footerStartOffset"],
                    split["footerEndOffset"],
                )
                out.append(Target(len(out), where, found[0][1], tuple(f for f, _ in found)))
        for path in sorted(waiting):
            file, constants = waiting[path]
            out.append(Target(len(out), None, constants, (file,)))
        return tuple(out)

    def _live(self, files: pa.Table) -> dict[str, tuple[LiveFile, dict[str, Any]]]:
        assert self.delta is not None
        values: dict[str, list[Any]] = {}
        maps = files.column("partitionValues")
        for logical, physical in partition_names(self.delta):
            field = self.delta.schema.field(logical)
            assert field is not None
            chunks = [partitions.typed(c, physical, field.type).to_pylist() for c in maps.chunks]
            values[logical] = [v for chunk in chunks for v in chunk]
        counts = decode_stats(files.column("stats"), pa.struct([("numRecords", pa.int64())]))
        rows = counts.field("numRecords").to_pylist() if files.num_rows else []
        out = {}
        columns = ("path", "size", "deletionVector")
        for i, (path, size, vector) in enumerate(
            zip(*(files.column(c).to_pylist() for c in columns), strict=True)
        ):
            text = None if vector is None else msgspec.json.encode(_wire(vector)).decode()
            deleted = 0 if vector is None else vector["cardinality"]
            constants = {n: v[i] for n, v in values.items()}
            out[path] = (LiveFile(path, size, rows[i], text, deleted), constants)
        return out

    def count(self, query: Any = None) -> int:
        node = self.node(query)
        if isinstance(node, All):
            assert self.delta is not None
            found = [f for f, _ in self._live(live_files(self.delta, None)).values()]
            if all(f.rows is not None for f in found):
                return sum((f.rows or 0) - f.deleted for f in found)
        return super().count(node)


def _wire(vector: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in vector.items() if v is not None}
