"""The companion index of a Delta table: search structures beside it, the rows stay where they are.

An entry is keyed by the path of a data file and valid as long as that file is live in the Delta snapshot
that is read, so a search is exact for any version: deletion vectors take rows away, files that no split
covers are indexed on the spot, entries of files that are gone give nothing. ``refresh`` is one commit: it
indexes new files only, drops splits that cover nothing live any more, and re-indexes a split most of whose
files are gone. The rows, their types and their partition values are the Delta table's own.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import (
    DeltaConcurrentModificationException,
    OptionError,
    TableExistsError,
)
from tidegate.files.predicate import Predicate
from tidegate.index.build import HEAP, SplitBuilder
from tidegate.index.companion_columns import (
    PHYSICAL,
    PREFIX,
    check_schema,
    chosen,
    current_names,
    partition_names,
    physical_names,
    plain,
)
from tidegate.index.fields import DocMapping
from tidegate.index.log import IndexLog
from tidegate.index.search import run_here, run_on_executors
from tidegate.index.settings import Settings
from tidegate.index.snapshot import IndexSnapshot
from tidegate.index.sources import SourceTable, index_files
from tidegate.index.task_writer import COMMIT, put, split_name, task_commit
from tidegate.index.travel import translating
from tidegate.index.write import COMPANION, MAPPING, mapping_of, session_conf
from tidegate.index.write_options import check_options
from tidegate.log.index_actions import INDEX_ADD_SCHEMA
from tidegate.log.snapshot import Snapshot
from tidegate.opening import open as open_table
from tidegate.schema.mapping import mapping_mode
from tidegate.storage.opening import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE, SYNCED = PREFIX + "sourceTablePath", PREFIX + "lastSyncedVersion"
FOLDER = "_search_index"
_TARGET = 256 << 20
# A split is indexed anew once less than this part of its rows' files is left.
_WORTH = 0.5
_TRIES = 5
_log = logging.getLogger(__name__)


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
    check_options(settings, options)
    delta = open_table(source, storage_options=storage_options)
    where = path or f"{delta.url.rstrip('/')}/{FOLDER}"
    log = IndexLog.at(where, storage_options, settings.as_options())
    if log.exists():
        raise TableExistsError(
            "There is an index already.", table=log.url, hint="Use IndexTable.forPath(...).refresh()."
        )
    mapping = chosen(delta, columns, settings)
    log.create(
        plain(delta.schema).to_json(),
        delta.partition_columns,
        {
            COMPANION: "true",
            SOURCE: delta.url,
            PREFIX + "sourceFormat": "delta",
            PREFIX + "fastFieldMode": "DISABLED",
            PREFIX + "includeColumns": msgspec.json.encode([f.column for f in mapping.fields]).decode(),
            PHYSICAL: msgspec.json.encode(physical_names(delta, mapping)).decode(),
            MAPPING: mapping.to_json(),
        },
    )
    refresh(log, spark, storage_options, settings)
    return log.url


def live_files(delta: Snapshot, predicate: Predicate | None) -> pa.Table:
    """The data files of a snapshot that may hold matching rows."""
    columns = ["path", "size", "partitionValues", "stats", "deletionVector"]
    return delta.files(predicate, columns)


def source_table(delta: Snapshot) -> SourceTable:
    return SourceTable(delta.url, delta.schema.to_json(), mapping_mode(delta.metadata))


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
    columns: tuple[str, ...]
    heap: int = HEAP
    storage: tuple[tuple[str, str], ...] = ()

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([*COMMIT, ("companionSourceFiles", pa.list_(pa.string()))])

    def __call__(self, group: FileGroup) -> pa.Table:
        from tidegate.index.fields import decode_mapping

        options = dict(self.storage)
        with SplitBuilder(decode_mapping(self.mapping), heap=self.heap, rows=False) as builder:
            index_files(builder, self.source, group.paths, options, self.columns)
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
    """Bring the companion up to the latest version of its Delta table, in one commit or none.

    Where somebody else has refreshed or merged it meanwhile, what is left to do is looked at anew.
    """
    for _ in range(_TRIES - 1):
        try:
            return _refresh(log, spark, storage_options, settings or Settings())
        except DeltaConcurrentModificationException as e:
            _log.debug("%s: refreshed anew after %s", log.url, type(e).__name__)
    return _refresh(log, spark, storage_options, settings or Settings())


def _refresh(
    log: IndexLog,
    spark: SparkSession | None,
    storage_options: Mapping[str, str] | None,
    settings: Settings,
) -> Refreshed:
    began = time.perf_counter()
    current = log.snapshot()
    if current.configuration.get(COMPANION) != "true":
        raise OptionError("This is no companion index; only those are refreshed.", table=log.url)
    log.check_writable(current)
    delta = open_table(current.configuration[SOURCE], storage_options=storage_options)
    mapping, names = mapping_of(current), current_names(current, delta)
    check_schema(delta, mapping, names, log.url)
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
        tuple(names[f.name] for f in mapping.fields),
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
    names = partition_names(delta)
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
