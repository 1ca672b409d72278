"""The companion index of a Delta table: search structures beside it, the rows stay where they are.

An entry is keyed by the path of a data file and valid as long as that file is live in the Delta snapshot
that is read, so a search is exact for any version: deletion vectors take rows away, files that no split
covers are indexed on the spot, entries of files that are gone give nothing. ``refresh`` is one commit: it
indexes new files only, drops splits that cover nothing live any more, and re-indexes a split most of whose
files are gone. The rows, their types and their partition values are the Delta table's own.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import OptionError, SchemaInvalidError, TableExistsError
from tidegate.files import partitions
from tidegate.files.predicate import Predicate
from tidegate.files.stats import decode as decode_stats
from tidegate.index.build import HEAP, SplitBuilder
from tidegate.index.cache import SplitFile
from tidegate.index.fields import DocMapping, kind_of, mapping_for
from tidegate.index.log import IndexLog
from tidegate.index.prune import implied
from tidegate.index.query import All, Node
from tidegate.index.search import run_here, run_on_executors
from tidegate.index.settings import Settings
from tidegate.index.snapshot import IndexSnapshot
from tidegate.index.sources import LiveFile, SourceTable, index_files
from tidegate.index.tables import Searchable
from tidegate.index.travel import translating
from tidegate.index.work import Scope, Target
from tidegate.index.write import (
    COMMIT,
    COMPANION,
    MAPPING,
    check_options,
    mapping_of,
    put,
    session_conf,
    split_name,
    task_commit,
)
from tidegate.log.index_actions import INDEX_ADD_SCHEMA
from tidegate.log.snapshot import Snapshot
from tidegate.opening import open as open_table
from tidegate.schema.mapping import mapping_mode, physical_name
from tidegate.schema.types import StructField, StructType
from tidegate.storage.opening import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREFIX = "indextables.companion."
SOURCE, SYNCED = PREFIX + "sourceTablePath", PREFIX + "lastSyncedVersion"
FOLDER = "_search_index"
_TARGET = 256 << 20
# A split is indexed anew once less than this part of its rows' files is left.
_WORTH = 0.5


@dataclass(frozen=True)
class Refreshed:
    """What a refresh did."""

    version: int
    source_version: int
    files_indexed: int
    splits_created: int
    splits_removed: int
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        return {
            "status": "success" if self.splits_created or self.splits_removed else "no_action",
            "version": self.version,
            "sourceVersion": self.source_version,
            "filesIndexed": self.files_indexed,
            "splitsCreated": self.splits_created,
            "splitsRemoved": self.splits_removed,
            "seconds": round(self.seconds, 3),
        }


# ---------------------------------------------------------------------------- building


def build(
    source: str,
    path: str | None = None,
    columns: Sequence[str] | None = None,
    options: Mapping[str, str] | None = None,
    spark: SparkSession | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> str:
    """Create the companion of a Delta table and index what is there; returns where it is."""
    settings = Settings(options, session_conf(spark) if spark is not None else None)
    check_options(settings)
    delta = open_table(source, storage_options=storage_options)
    where = path or f"{delta.url.rstrip('/')}/{FOLDER}"
    log = IndexLog.at(where, storage_options, settings.as_options())
    if log.exists():
        raise TableExistsError(
            "There is an index already.", table=log.url, hint="Use IndexTable.forPath(...).refresh()."
        )
    mapping = _chosen(delta, columns, settings)
    log.create(
        plain(delta.schema).to_json(),
        delta.partition_columns,
        {
            COMPANION: "true",
            SOURCE: delta.url,
            PREFIX + "sourceFormat": "delta",
            PREFIX + "fastFieldMode": "DISABLED",
            PREFIX + "includeColumns": msgspec.json.encode([f.column for f in mapping.fields]).decode(),
            MAPPING: mapping.to_json(),
        },
    )
    refresh(log, spark, storage_options, settings)
    return log.url


def plain(schema: StructType) -> StructType:
    """A schema without the metadata of its columns."""
    return schema.transform(lambda _, f: StructField(f.name, f.type, True))


def _chosen(delta: Snapshot, columns: Sequence[str] | None, settings: Settings) -> DocMapping:
    """The fields of the columns that are to be searched."""
    schema = plain(delta.schema)
    aside = {p.casefold() for p in delta.partition_columns}
    if columns is None:
        wanted = [f for f in schema.fields if f.name.casefold() not in aside and _can(f)]
    else:
        wanted = []
        for name in columns:
            found = schema.field(name)
            if found is None:
                raise OptionError(
                    f"The Delta table has no column {name}.", hint=f"It has {', '.join(schema.names[:20])}."
                )
            if found.name.casefold() not in aside:
                wanted.append(found)
    if not wanted:
        raise OptionError("No column is left to be indexed.")
    return mapping_for(StructType(tuple(wanted)), (), settings)


def _can(field: StructField) -> bool:
    try:
        kind_of(field.type, field.name)
    except SchemaInvalidError:
        return False
    return True


# ---------------------------------------------------------------------------- refreshing


@dataclass(frozen=True)
class FileGroup:
    """Data files that one split covers."""

    paths: tuple[str, ...]
    values: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True)
class IndexGroup:
    """Builds the split of one group."""

    table: str
    source: SourceTable
    mapping: str
    heap: int = HEAP
    storage: tuple[tuple[str, str], ...] = ()

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([*COMMIT, ("companionSourceFiles", pa.list_(pa.string()))])

    def __call__(self, group: FileGroup) -> pa.Table:
        from tidegate.index.fields import decode_mapping

        options = dict(self.storage)
        with SplitBuilder(decode_mapping(self.mapping), heap=self.heap, rows=False) as builder:
            index_files(builder, self.source, group.paths, options)
            packed = builder.finish()
            name = split_name(list(group.values))
            put(open_store(self.table, options), name, packed.path)
            commit = task_commit(name, packed, builder.statistics.to_json(), dict(group.values))
        return pa.Table.from_pylist([{**commit, "companionSourceFiles": list(group.paths)}], self.schema)


def refresh(
    log: IndexLog,
    spark: SparkSession | None = None,
    storage_options: Mapping[str, str] | None = None,
    settings: Settings | None = None,
) -> Refreshed:
    """Bring the companion up to the latest version of its Delta table, in one commit or none."""
    began = time.perf_counter()
    settings = settings or Settings()
    current = log.snapshot()
    if current.configuration.get(COMPANION) != "true":
        raise OptionError("This is no companion index; only those are refreshed.", table=log.url)
    log.check_writable(current)
    delta = open_table(current.configuration[SOURCE], storage_options=storage_options)
    mapping = mapping_of(current)
    _check_schema(delta, mapping, log.url)
    files = live_files(delta, None)
    keep, gone = _sorted_out(current, files)
    covered = pa.array(sorted(keep), pa.string())
    new = files.filter(pc.invert(pc.is_in(files.column("path"), value_set=covered)))
    groups = _grouped(new, delta, settings.size("companion.targetInputSize", _TARGET))
    if not groups and not gone:
        return Refreshed(current.version, delta.version, 0, 0, 0, time.perf_counter() - began)
    work = IndexGroup(
        log.url,
        source_table(delta),
        mapping.to_json(),
        settings.size("indexWriter.heapSize", HEAP),
        tuple((storage_options or {}).items()),
    )
    if spark is not None and len(groups) > 1:
        with translating():
            tables = [run_on_executors(spark, work, groups).toArrow().cast(work.schema)]
    else:
        tables = list(run_here(work, groups))
    adds = _adds(pa.concat_tables([work.schema.empty_table(), *tables]), mapping, delta.version)
    done = log.replace(
        gone,
        adds,
        read=current,
        data_change=True,
        configuration={SYNCED: str(delta.version)},
        operation="REFRESH",
    )
    return Refreshed(
        done.version, delta.version, new.num_rows, adds.num_rows, len(gone), time.perf_counter() - began
    )


def _check_schema(delta: Snapshot, mapping: DocMapping, url: str) -> None:
    for field in mapping.fields:
        found = plain(delta.schema).field(field.column)
        if found is None or found.type != field.type:
            now = "is gone" if found is None else f"is {found.type} now"
            raise SchemaInvalidError(
                f"The indexed column {field.column} was {field.type} and {now}.",
                table=url,
                hint="Build a new companion for the table as it is.",
            )


def _sorted_out(current: IndexSnapshot, files: pa.Table) -> tuple[set[str], list[str]]:
    """The data files that kept splits cover, and the splits to be removed."""
    live = dict(zip(files.column("path").to_pylist(), files.column("size").to_pylist(), strict=True))
    splits = current.files(columns=["path", "companionSourceFiles"]).sort_by("path")
    covered: set[str] = set()
    gone: list[str] = []
    paths, lists = (splits.column(c).to_pylist() for c in ("path", "companionSourceFiles"))
    for path, sources in zip(paths, lists, strict=True):
        mine = [s for s in sources or () if s in live and s not in covered]
        if not mine or len(mine) < _WORTH * len(sources):
            gone.append(path)
        else:
            covered.update(mine)
    return covered, gone


def _grouped(new: pa.Table, delta: Snapshot, target: int) -> list[FileGroup]:
    """New files by partition, as many to a split as make the target size."""
    names = _partition_names(delta)
    buckets: dict[tuple[tuple[str, str | None], ...], list[tuple[str, int]]] = {}
    columns = ("path", "size", "partitionValues")
    for path, size, values in zip(*(new.column(c).to_pylist() for c in columns), strict=True):
        found = dict(values or ())
        key = tuple((logical, found.get(physical)) for logical, physical in names)
        buckets.setdefault(key, []).append((path, size))
    out = []
    for key, members in buckets.items():
        part: list[str] = []
        total = 0
        for path, size in sorted(members):
            if part and total + size > target:
                out.append(FileGroup(tuple(part), key))
                part, total = [], 0
            part.append(path)
            total += size
        out.append(FileGroup(tuple(part), key))
    return out


def _partition_names(delta: Snapshot) -> list[tuple[str, str]]:
    mode = mapping_mode(delta.metadata)
    fields = [(p, delta.schema.field(p)) for p in delta.partition_columns]
    return [(p, physical_name(f, mode)) for p, f in fields if f is not None]


def _adds(commits: pa.Table, mapping: DocMapping, version: int) -> pa.Table:
    rows = [
        {
            **row,
            "dataChange": True,
            "hasFooterOffsets": True,
            "docMappingJson": mapping.to_json(),
            "companionDeltaVersion": version,
            "companionFastFieldMode": "DISABLED",
        }
        for row in commits.to_pylist()
    ]
    return pa.Table.from_pylist(rows, INDEX_ADD_SCHEMA)


# ---------------------------------------------------------------------------- searching


def live_files(delta: Snapshot, predicate: Predicate | None) -> pa.Table:
    """The data files of a snapshot that may hold matching rows."""
    columns = ["path", "size", "partitionValues", "stats", "deletionVector"]
    return delta.files(predicate, columns)


def source_table(delta: Snapshot) -> SourceTable:
    return SourceTable(delta.url, delta.schema.to_json(), mapping_mode(delta.metadata))


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
        schema = plain(delta.schema)
        kept = [f for f in mapping_of(index).fields if (c := schema.field(f.column)) and c.type == f.type]
        scope = Scope(
            index.url,
            DocMapping(tuple(kept)).to_json(),
            schema.to_json(),
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
        for logical, physical in _partition_names(self.delta):
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
