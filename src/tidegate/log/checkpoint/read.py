"""Reading checkpoints of every form: classic, multipart, and V2 with its sidecars.

File actions come out as Arrow batches, a row group at a time and on several threads, never as one
big table: filtering a whole struct column at once costs several times the time and memory. Row
groups that hold no action of the wanted kind are skipped by their statistics. Whatever parquet
cannot make sense of is a ``CheckpointCorruptError``.
Specification: "Checkpoints", "V2 Spec", "Sidecar Files".
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar
from urllib.parse import unquote

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.errors import (
    CheckpointCorruptError,
    CommitCorruptError,
    FileMissingError,
    SidecarMissingError,
    TidegateError,
)
from tidegate.log import names
from tidegate.log.actions import CheckpointMetadata, DomainMetadata, Sidecar, Txn
from tidegate.log.columns import ADD_SCHEMA, REMOVE_SCHEMA
from tidegate.log.commits import CommitActions, decode_commit
from tidegate.log.replay import SmallState, small_state
from tidegate.log.segment import Checkpoint
from tidegate.metadata import Metadata
from tidegate.protocol.protocol import Protocol
from tidegate.storage.store import Store

BATCH_ROWS = 65_536
GROUP_ROWS = 4 * BATCH_ROWS
WORKERS = min(8, os.cpu_count() or 1)
# Beside a caller who works on what is read as hard as its readers.
WORKERS_BESIDE = max(1, WORKERS - 1)

# One leaf of each action that is always set where the action is: its null count tells whether a
# row group holds any.
_WITNESS = {
    "add": "add.path",
    "remove": "remove.path",
    "protocol": "protocol.minReaderVersion",
    "metaData": "metaData.id",
    "txn": "txn.appId",
    "domainMetadata": "domainMetadata.domain",
    "sidecar": "sidecar.path",
    "checkpointMetadata": "checkpointMetadata.version",
}
_SMALL = ("protocol", "metaData", "txn", "domainMetadata", "sidecar", "checkpointMetadata")

T = TypeVar("T")
R = TypeVar("R", pa.RecordBatch, pa.Table)
BatchFunction = Callable[[pa.RecordBatch], Sequence[pa.RecordBatch]]


@dataclass(frozen=True)
class ParquetPart:
    """One parquet file of a checkpoint: its footer is read once, its row groups by many threads."""

    store: Store
    path: str

    @cached_property
    def metadata(self) -> pq.FileMetaData:
        return guard(self.path, lambda: pq.ParquetFile(self.store.open_input(self.path)).metadata)

    @cached_property
    def leaves(self) -> dict[str, int]:
        """Leaf column paths and their indexes."""
        schema = self.metadata.schema
        return {schema.column(i).path: i for i in range(len(schema))}

    def has(self, prefix: str) -> bool:
        return any(p == prefix or p.startswith(prefix + ".") for p in self.leaves)

    def row_groups(self, action: str) -> list[int]:
        """The row groups that may hold ``action``."""
        index = self.leaves.get(_WITNESS[action])
        if index is None:
            return []
        return [i for i in range(self.metadata.num_row_groups) if not self._all_null(i, index)]

    def _all_null(self, group: int, leaf: int) -> bool:
        """Whether the statistics prove that a leaf has no value in a row group."""
        column = self.metadata.row_group(group).column(leaf)
        stats = column.statistics
        # The values of an empty map are null too, but the map is not.
        return (
            self.metadata.schema.column(leaf).max_repetition_level == 0
            and stats is not None
            and stats.has_null_count
            and not stats.has_min_max
            and stats.null_count == column.num_values
        )

    def present(self, group: int, fields: Sequence[str]) -> list[str]:
        """Those of ``fields`` that exist and hold any value in a row group: the others need no read."""
        return [
            f
            for f in fields
            if any(
                (p == f or p.startswith(f + ".")) and not self._all_null(group, i)
                for p, i in self.leaves.items()
            )
        ]

    def read_columns(self, group: int, columns: list[str]) -> pa.Table:
        """Whole top-level columns of one row group."""
        return guard(self.path, lambda: _valid(self.open().read_row_group(group, columns=columns)))

    def open(self) -> pq.ParquetFile:
        return pq.ParquetFile(
            self.store.open_input(self.path),
            metadata=self.metadata,
            page_checksum_verification=True,
            # INT96 as nanoseconds would wrap for dates that Spark allows.
            coerce_int96_timestamp_unit="us",
        )

    def _batches(self, group: int, columns: list[str], threads: bool) -> Iterator[pa.RecordBatch]:
        """A row group at once where it is of a sensible size: in pieces it costs up to twice as much."""
        if self.metadata.row_group(group).num_rows <= GROUP_ROWS:
            yield from self.open().read_row_group(group, columns=columns, use_threads=threads).to_batches()
            return
        yield from self.open().iter_batches(
            BATCH_ROWS, row_groups=[group], columns=columns, use_threads=threads
        )

    def read(self, group: int, action: str, columns: list[str], threads: bool) -> Iterator[pa.RecordBatch]:
        """One row group's rows of ``action``, its fields as top-level columns."""
        for batch in self._batches(group, columns, threads):
            struct = batch.column(action)
            # ``flatten`` hands the struct's nulls on to its fields; ``field`` does not.
            fields = struct.flatten() if struct.null_count else _fields(struct)
            flat = _valid(pa.RecordBatch.from_arrays(fields, [f.name for f in struct.type]))
            valid = flat.column("path").is_valid()
            yield flat if valid.true_count == len(flat) else flat.filter(valid)


class CheckpointReader:
    """The actions of one complete checkpoint."""

    def __init__(self, store: Store, log_dir: str, checkpoint: Checkpoint) -> None:
        self._store = store
        self._log_dir = log_dir
        self.checkpoint = checkpoint

    @cached_property
    def _top(self) -> CommitActions | None:
        """The top level of a V2 checkpoint in JSON, else None."""
        found = self.checkpoint.files[0]
        if found.name.extension != "json":
            return None
        try:
            return decode_commit(self._store.get(found.info.name), found.name.text)
        except CommitCorruptError as e:
            raise CheckpointCorruptError(e.message, file=found.name.text) from e

    @cached_property
    def _top_parts(self) -> list[ParquetPart]:
        if self._top is not None:
            return []
        return [ParquetPart(self._store, f.info.name) for f in self.checkpoint.files]

    @cached_property
    def _small_rows(self) -> dict[str, list[dict[str, Any]]]:
        out: dict[str, list[dict[str, Any]]] = {a: [] for a in _SMALL}
        for part in self._top_parts:
            groups = {a: part.row_groups(a) for a in _SMALL}
            for group in sorted({g for found in groups.values() for g in found}):
                wanted = [a for a in _SMALL if group in groups[a]]
                table = part.read_columns(group, wanted)
                for action in wanted:
                    column = table.column(action)
                    if column.null_count < len(column):
                        out[action] += [_plain(v, column.type) for v in column.drop_null().to_pylist()]
        return out

    @cached_property
    def sidecars(self) -> list[Sidecar]:
        if self._top is not None:
            return self._top.sidecars
        return [self._convert(r, Sidecar) for r in self._small_rows["sidecar"]]

    @cached_property
    def checkpoint_metadata(self) -> CheckpointMetadata | None:
        if self._top is not None:
            return self._top.checkpoint_metadata
        rows = self._small_rows["checkpointMetadata"]
        return self._convert(rows[0], CheckpointMetadata) if rows else None

    @cached_property
    def small(self) -> SmallState:
        """Protocol, metadata, application transactions and domains."""
        if self._top is not None:
            return small_state(self._top)
        rows = self._small_rows
        protocols = [self._convert(r, Protocol) for r in rows["protocol"]]
        metadatas = [self._convert(r, Metadata) for r in rows["metaData"]]
        txns = [self._convert(r, Txn) for r in rows["txn"]]
        domains = [self._convert(r, DomainMetadata) for r in rows["domainMetadata"]]
        return SmallState(
            protocols[0] if protocols else None,
            metadatas[0] if metadatas else None,
            {t.app_id: t for t in txns},
            {d.domain: d for d in domains},
        )

    def _convert(self, row: dict[str, Any], kind: type[T]) -> T:
        try:
            return msgspec.convert({k: v for k, v in row.items() if v is not None}, kind)
        except msgspec.ValidationError as e:
            raise CheckpointCorruptError(
                f"An action of the checkpoint is malformed: {e}.", file=self.checkpoint.files[0].name.text
            ) from e

    @cached_property
    def file_parts(self) -> list[ParquetPart]:
        """The parquet files that hold file actions."""
        sidecars = []
        for sidecar in self.sidecars:
            bare = sidecar_name(sidecar)
            if bare in ("", ".", "..") or "\x00" in bare:
                raise CheckpointCorruptError(
                    f"The checkpoint refers to a sidecar by {sidecar.path!r}, which is no name of a file.",
                    file=self.checkpoint.files[0].name.text,
                )
            name = f"{self._log_dir}/{names.SIDECAR_DIR}/{bare}"
            sidecars.append(ParquetPart(self._store, name))
            try:
                _ = sidecars[-1].metadata
            except FileMissingError as e:
                raise SidecarMissingError(
                    f"The checkpoint refers to the sidecar {sidecar.path}, which is not there.",
                    file=self.checkpoint.files[0].name.text,
                    hint="Restore the sidecar, or the commits this checkpoint covers.",
                ) from e
        return [*self._top_parts, *sidecars]

    def has_field(self, field: str) -> bool:
        """Whether any file of the checkpoint has the leaf or group ``field`` (``add.stats``)."""
        return any(p.has(field) for p in self.file_parts)

    @cached_property
    def has_parsed_stats(self) -> bool:
        """Whether statistics stand in columns; ``stats_parsed`` of any other shape is as good as none."""
        return any(leaf.startswith("add.stats_parsed.") for p in self.file_parts for leaf in p.leaves)

    def batches(
        self, action: str, columns: Sequence[str], process: BatchFunction, *, workers: int = WORKERS
    ) -> Iterator[pa.RecordBatch]:
        """File actions as batches of ``columns`` (paths below the action), through ``process``.

        ``process`` runs on the worker threads; order is kept; few batches are in flight at a time.
        """
        if self._top is not None:
            for batch in self._top.adds if action == "add" else self._top.removes:
                yield from process(batch)
        tasks: list[tuple[ParquetPart, int, list[str]]] = []
        for part in self.file_parts:
            wanted = [f"{action}.{c}" for c in columns if part.has(f"{action}.{c}")]
            tasks += [(part, g, part.present(g, wanted)) for g in part.row_groups(action)]
        threads = len(tasks) < WORKERS

        def work(task: tuple[ParquetPart, int, list[str]]) -> list[pa.RecordBatch]:
            part, group, wanted = task
            return guard(
                part.path,
                lambda: [
                    out for batch in part.read(group, action, wanted, threads) for out in process(batch)
                ],
            )

        yield from in_order(work, tasks, workers)


def sidecar_name(sidecar: Sidecar) -> str:
    """The bare name of a sidecar's file; its path is a URI, and some writers make it absolute."""
    return unquote(sidecar.path).rsplit("/", 1)[-1]


def _valid(rows: R) -> R:
    """Rows of a file whose texts are UTF-8, which nobody has looked at so far."""
    rows.validate(full=True)
    return rows


def _fields(struct: pa.StructArray) -> list[pa.Array]:
    return [struct.field(i) for i in range(struct.type.num_fields)]


def in_order(work: Callable[[Any], list[T]], tasks: Iterable[Any], workers: int = WORKERS) -> Iterator[T]:
    """Run ``work`` over ``tasks`` on a few threads, about as many tasks ahead as threads."""
    if WORKERS < 2 or (isinstance(tasks, Sized) and len(tasks) < 2):
        for task in tasks:
            yield from work(task)
        return
    with ThreadPoolExecutor(workers, thread_name_prefix="tidegate-checkpoint") as pool:
        waiting: deque[Future[list[T]]] = deque()
        for task in tasks:
            waiting.append(pool.submit(work, task))
            if len(waiting) > workers:
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """``batch`` with exactly the columns of ``schema``: missing ones null, other widths cast."""
    columns = []
    for wanted in schema:
        index = batch.schema.get_field_index(wanted.name)
        if index < 0:
            columns.append(pa.nulls(batch.num_rows, wanted.type))
            continue
        column = batch.column(index)
        columns.append(column if column.type == wanted.type else _cast(column, wanted.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_struct(wanted) and pa.types.is_struct(column.type):
        # Structs are matched by field name; writers differ in order and in what they leave out.
        children = dict(zip([f.name for f in column.type], column.flatten(), strict=True))
        fields = [
            _cast(children[f.name], f.type) if f.name in children else pa.nulls(len(column), f.type)
            for f in wanted
        ]
        return pa.StructArray.from_arrays(fields, fields=list(wanted), mask=column.is_null())
    return column.cast(wanted)


ACTION_SCHEMAS = {"add": ADD_SCHEMA, "remove": REMOVE_SCHEMA}


def _plain(value: Any, kind: pa.DataType) -> Any:
    """A value of ``to_pylist`` with maps as dicts, at every level."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {k: _plain(v, kind.item_type) for k, v in value}
    if pa.types.is_struct(kind):
        return {f.name: _plain(value[f.name], f.type) for f in kind}
    return value


def guard(path: str, work: Callable[[], T]) -> T:
    """Run ``work`` on the parquet file ``path``; what parquet chokes on is a corrupt checkpoint."""
    try:
        return work()
    except TidegateError:
        raise
    except FileNotFoundError as e:
        raise FileMissingError(f"{path} is not there.", file=path) from e
    except (pa.ArrowException, OSError, ValueError, KeyError, IndexError, OverflowError) as e:
        raise CheckpointCorruptError(
            f"The checkpoint file cannot be read as parquet: {str(e).splitlines()[0] if str(e) else e!r}",
            file=path.rsplit("/", 1)[-1],
            hint="Restore it, or the commits it covers.",
        ) from e
