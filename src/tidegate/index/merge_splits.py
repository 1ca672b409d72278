"""Merging small splits without indexing anything again.

The segments of the sources stand side by side in the new split, under one list of segments; tantivy itself
merges them physically where there are many. The stored rows are copied in order. Sources are of one
partition and one mapping. A source that cannot be read is left where it is and recorded as skipped; the
others of its group are merged. All groups are one commit, which changes no data.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidegate.errors import DataError, OptionError, StorageError
from tidegate.files.locating import locate
from tidegate.files.partitions import decode_path
from tidegate.index import stats
from tidegate.index.build import HEAP
from tidegate.index.cache import SplitFile
from tidegate.index.fields import decode_mapping, register
from tidegate.index.log import IndexLog
from tidegate.index.partition_filters import on_partitions
from tidegate.index.rows import OLD_ROWS, ROWS, RowWriter, StoredRows, row_schema
from tidegate.index.search import run_here, run_on_executors
from tidegate.index.settings import parse_size
from tidegate.index.split import SUFFIX, Footer, Source, extract, pack, read_footer
from tidegate.index.task_writer import COMMIT, put, split_name, task_commit
from tidegate.index.travel import translating
from tidegate.storage.opening import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEAST_TARGET = 1 << 20
# Splits of this part of the target are large enough already.
_LARGE = 0.45
_MOST_SOURCES = 1000
# From so many segments on tantivy merges them by itself.
_MANY_SEGMENTS = 8
_SKIPPED = pa.list_(pa.struct([("path", pa.string()), ("reason", pa.string())]))
RESULT = pa.schema([*COMMIT, ("merged", pa.list_(pa.string())), ("skipped", _SKIPPED)])


@dataclass(frozen=True)
class Merged:
    """What a merge did."""

    version: int
    groups: int
    merged: int
    created: int
    skipped: tuple[str, ...] = ()
    dry_run: bool = False

    def as_dict(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "groups": self.groups,
            "splitsMerged": self.merged,
            "splitsCreated": self.created,
            "skipped": list(self.skipped),
            "dryRun": self.dry_run,
        }


@dataclass(frozen=True)
class Group:
    """Splits that become one."""

    splits: tuple[SplitFile, ...]
    stats: tuple[str | None, ...]
    values: tuple[tuple[str, str | None], ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Limits:
    """How much one merge does at most: splits that it makes, and sources of each of them."""

    most_made: int | None = None
    most_sources: int | None = None

    def check(self) -> None:
        if self.most_made is not None and self.most_made < 1:
            raise OptionError(f"The most splits that are made are {self.most_made}; it is 1 at least.")
        if self.most_sources is not None and self.most_sources < 2:
            raise OptionError(f"The most sources of a merge are {self.most_sources}; it is 2 at least.")


def merge_splits(
    log: IndexLog,
    target_size: str | int = "5G",
    where: str | None = None,
    dry_run: bool = False,
    spark: SparkSession | None = None,
    storage_options: Mapping[str, str] | None = None,
    progress: Any = None,
    limits: Limits | None = None,
) -> Merged:
    """Merge what is small; ``where`` keeps to some partitions."""
    target = parse_size(target_size, "The target size")
    if target < LEAST_TARGET:
        raise OptionError(f"The target size is {target} bytes; it is 1M at least.")
    limits = limits or Limits()
    limits.check()
    current = log.snapshot()
    log.check_writable(current)
    files = current.files(None if where is None else on_partitions(where, current, "What is merged"))
    groups = plan(current.without_cooling(files), target, log.url, limits)
    if dry_run or not groups:
        return Merged(current.version, len(groups), sum(len(g.splits) for g in groups), 0, dry_run=dry_run)
    work = MergeGroup(log.url, tuple((storage_options or {}).items()))
    if spark is not None and len(groups) > 1:
        with translating():
            done = [run_on_executors(spark, work, groups).toArrow()]
    else:
        done = []
        for table in run_here(work, groups):
            done.append(table)
            if progress is not None:
                progress(len(done), len(groups))
    return _committed(log, current, files, pa.concat_tables([RESULT.empty_table(), *done]), len(groups))


def plan(files: pa.Table, target: int, table: str, limits: Limits | None = None) -> list[Group]:
    """Groups of at least two splits of one partition and one mapping, the smallest first."""
    limits = limits or Limits()
    sources = min(limits.most_sources or _MOST_SOURCES, _MOST_SOURCES)
    buckets: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in files.filter(_smaller(files, target)).to_pylist():
        values = tuple(row["partitionValues"] or ())
        buckets.setdefault((values, row["docMappingJson"]), []).append(row)
    out = []
    for (values, _), rows in sorted(buckets.items(), key=lambda b: str(b[0])):
        rows.sort(key=lambda r: (r["size"], r["path"]))
        for part in _packed(rows, target, sources):
            out.append(_group(part, values, table))
    if limits.most_made is not None and len(out) > limits.most_made:
        out = sorted(out, key=lambda g: -len(g.splits))[: limits.most_made]
    return out


def _smaller(files: pa.Table, target: int) -> Any:
    import pyarrow.compute as pc

    return pc.less(files.column("size"), int(target * _LARGE))


def _packed(rows: list[dict[str, Any]], target: int, sources: int) -> Iterator[list[dict[str, Any]]]:
    part: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        if part and (size + row["size"] > target or len(part) == sources):
            if len(part) > 1:
                yield part
            part, size = [], 0
        part.append(row)
        size += row["size"]
    if len(part) > 1:
        yield part


def _group(rows: list[dict[str, Any]], values: Any, table: str) -> Group:
    splits = tuple(
        SplitFile(table, r["path"], r["size"], r["footerStartOffset"], r["footerEndOffset"]) for r in rows
    )
    more: dict[str, Any] = {"numMergeOps": max((r["numMergeOps"] or 0) for r in rows) + 1}
    versions = [r["companionDeltaVersion"] for r in rows if r["companionDeltaVersion"] is not None]
    if versions:
        more["companionDeltaVersion"] = max(versions)
    return Group(splits, tuple(r["stats"] for r in rows), values, more)


def _committed(log: IndexLog, current: Any, files: pa.Table, done: pa.Table, groups: int) -> Merged:
    made = done.filter(done.column("path").is_valid())
    gone = [p for paths in made.column("merged").to_pylist() for p in paths]
    skipped = {s["path"]: s["reason"] for found in done.column("skipped").to_pylist() for s in found or ()}
    version = current.version
    if made.num_rows:
        adds = _adds(made, files)
        version = log.replace(gone, adds, read=current).version
    for path, reason in skipped.items():
        version = log.skip(path, reason).version
    return Merged(version, groups, len(gone), made.num_rows, tuple(sorted(skipped)))


def _adds(made: pa.Table, files: pa.Table) -> pa.Table:
    """The new splits with what they take over from their sources."""
    known = {r["path"]: r for r in files.to_pylist()}
    rows = []
    for row in made.to_pylist():
        sources = [known[p] for p in row.pop("merged")]
        row.pop("skipped")
        first = sources[0]
        covered = [f for s in sources for f in s["companionSourceFiles"] or ()]
        versions = [s["companionDeltaVersion"] for s in sources if s["companionDeltaVersion"] is not None]
        rows.append(
            {
                **row,
                "dataChange": False,
                "hasFooterOffsets": True,
                "docMappingJson": first["docMappingJson"],
                "numMergeOps": max((s["numMergeOps"] or 0) for s in sources) + 1,
                "companionSourceFiles": covered or None,
                "companionDeltaVersion": max(versions) if versions else None,
                "companionFastFieldMode": first["companionFastFieldMode"],
                "uncompressedSizeBytes": sum(s["uncompressedSizeBytes"] or 0 for s in sources) or None,
            }
        )
    from tidegate.log.index_actions import INDEX_ADD_SCHEMA

    return pa.Table.from_pylist(rows, INDEX_ADD_SCHEMA)


# ---------------------------------------------------------------------------- one group


@dataclass(frozen=True)
class MergeGroup:
    """Puts one group together; its result is a task commit."""

    table: str
    storage: tuple[tuple[str, str], ...] = ()

    @property
    def schema(self) -> pa.Schema:
        return RESULT

    def __call__(self, group: Group) -> pa.Table:
        folder = Path(tempfile.mkdtemp(prefix="tidegate-merge-"))
        try:
            return self._merge(group, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _merge(self, group: Group, folder: Path) -> pa.Table:
        store = open_store(self.table, dict(self.storage))
        parts: list[tuple[int, Footer, Path]] = []
        skipped: list[dict[str, str]] = []
        taken: set[int] = set()
        for at, split in enumerate(group.splits):
            try:
                footer, where = self._unpacked(store, split, folder / f"{at}")
            except (DataError, StorageError) as e:
                skipped.append({"path": split.path, "reason": str(e)})
                continue
            ids = {s.id for s in footer.sources}
            if ids & taken:
                # Two sources drew the same number; the next merge has other neighbours for it.
                continue
            taken |= ids
            parts.append((at, footer, where))
        if len(parts) < 2:
            row: dict[str, Any] = {"skipped": skipped, "merged": []}
            return pa.Table.from_pylist([row], RESULT)
        packed = combine([(f, w) for _, f, w in parts], folder)
        name = split_name(list(group.values))
        put(store, name, packed.path)
        text = stats.merged([group.stats[at] for at, _, _ in parts])
        commit = task_commit(name, packed, text, dict(group.values))
        merged = [group.splits[at].path for at, _, _ in parts]
        return pa.Table.from_pylist([{**commit, "merged": merged, "skipped": skipped}], RESULT)

    def _unpacked(self, store: Any, split: SplitFile, folder: Path) -> tuple[Footer, Path]:
        where, name = locate(store, split.path, dict(self.storage))
        footer = read_footer(where, name, split.size, split.footer_start, split.footer_end)
        folder.mkdir()
        with where.open_input(name) as source:
            extract(source, decode_path(split.path), footer.members, folder)
        return footer, folder


def combine(parts: Sequence[tuple[Footer, Path]], folder: Path) -> Any:
    """One split out of unpacked ones of the same mapping."""
    mapping = decode_mapping(parts[0][0].mapping)
    index = folder / "index"
    index.mkdir()
    meta: dict[str, Any] | None = None
    for _, where in parts:
        found = json.loads((where / "meta.json").read_text())
        if meta is None:
            meta = found
        else:
            meta["segments"] += found["segments"]
            meta["opstamp"] = max(meta["opstamp"], found["opstamp"])
        for member in where.iterdir():
            if member.name not in ("meta.json", ROWS, OLD_ROWS):
                member.rename(index / member.name)
    assert meta is not None
    (index / "meta.json").write_text(json.dumps(meta))
    if len(meta["segments"]) >= _MANY_SEGMENTS:
        _physically(index, mapping)
    members = _referenced(index)
    if parts[0][0].row_member is not None:
        members[ROWS] = _joined_rows(parts, folder / ROWS, mapping)
    return pack(members, folder / f"merged{SUFFIX}", parts[0][0].mapping, _sources(parts))


def _sources(parts: Sequence[tuple[Footer, Path]]) -> list[Source]:
    out: list[Source] = []
    offset = 0
    for footer, _ in parts:
        out += [Source(s.id, s.offset + offset, s.rows, s.file) for s in footer.sources]
        offset += footer.rows
    return out


def _physically(index: Path, mapping: Any) -> None:
    """Let tantivy's own policy merge segments: an empty commit asks for it."""
    import tantivy

    opened = tantivy.Index.open(str(index))
    register(opened, mapping)
    writer = opened.writer(HEAP, 1)
    writer.commit()
    writer.wait_merging_threads()


def _referenced(index: Path) -> dict[str, Path]:
    """The files that the list of segments names, and the list itself."""
    meta = json.loads((index / "meta.json").read_text())
    segments = {s["segment_id"].replace("-", "") for s in meta["segments"]}
    kept = {p.name: p for p in index.iterdir() if p.name.split(".")[0] in segments}
    return {**kept, "meta.json": index / "meta.json"}


def _joined_rows(parts: Sequence[tuple[Footer, Path]], target: Path, mapping: Any) -> Path:
    out = RowWriter(target, row_schema(mapping))
    for footer, where in parts:
        member = footer.row_member
        assert member is not None
        data = pa.memory_map(str(where / member)).read_buffer()
        for batch in StoredRows(member, data, row_schema(footer.doc_mapping)).batches():
            out.add(batch)
    out.close()
    return target
