"""The live files and the tombstones of one version, as columns.

What was read last is kept, in the columns it was read in: a version that follows by a few commits
lays them over it instead of reading the checkpoint again. Everything goes batch by batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.files.paths import refuse_outside
from tidegate.log.checkpoint.read import WORKERS, WORKERS_BESIDE, conform, guard, in_order
from tidegate.log.dialect import Reader
from tidegate.log.memory import steady_memory
from tidegate.log.reading import LogReading
from tidegate.log.replay import FileTail, file_keys, hide, hide_in_groups, reconcile_files
from tidegate.log.scan import FileScan

T = TypeVar("T")

# With commits of more bytes than this after a checkpoint, some ten thousand files, batches are
# reconciled in groups.
_LARGE_TAIL = 8 * 2**20


@dataclass(frozen=True, slots=True)
class LoadedFiles:
    """Live files of ``version`` as they were last read, in some columns."""

    version: int
    table: pa.Table


class LiveFiles:
    """The file actions of a version that count, read as they are asked for."""

    def __init__(self, reading: LogReading, loaded: LoadedFiles | None = None) -> None:
        self._reading = reading
        self._loaded = loaded

    def read(self, scan: FileScan) -> pa.Table:
        """The files and columns that ``scan`` asks for."""
        if scan.covered_by(self._loaded_names()):
            loaded = self._reading.replay(self._overlay)
            return loaded.select(scan.columns) if scan.predicate is None else scan.apply(loaded)
        table = self._reading.replay(lambda: self._read(scan))
        if scan.predicate is None:
            self._loaded = LoadedFiles(self._reading.version, table)
        return table

    def _loaded_names(self) -> Sequence[str]:
        return self._loaded.table.column_names if self._loaded is not None else ()

    def _overlay(self) -> pa.Table:
        """The files read last, brought up to this version by the commits since."""
        loaded = self._loaded
        assert loaded is not None
        if loaded.version == self._reading.version:
            return loaded.table
        tail = reconcile_files(self._reading.commits_after(loaded.version))
        schema = loaded.table.schema
        for batch in tail.adds:
            refuse_outside(batch.column("path"))
        batches = [b.select(schema.names) for b in tail.adds]
        for batch in loaded.table.to_batches():
            batches += hide(batch, tail.keys)
        self._loaded = LoadedFiles(self._reading.version, pa.Table.from_batches(batches, schema))
        return self._loaded.table

    def _read(self, scan: FileScan) -> pa.Table:
        reader = self._reading.reader()
        if reader is None:
            return pa.Table.from_batches(_scanned(scan, self._reading.tail()), scan.output_schema)
        with steady_memory(), self._tail_beside() as coming:
            older = list(self._checkpointed(reader, scan, False, lambda batch: batch, coming))
            tail = coming()
        return pa.Table.from_batches([*_scanned(scan, tail), *older], scan.output_schema)

    def batches(self, scan: FileScan, parsed: bool, work: Callable[[pa.RecordBatch], T]) -> Iterator[T]:
        """Every live add through ``work``, in batches, which threads may run ahead on.

        With ``parsed`` a batch also has ``stats_parsed`` where the checkpoint carries it.
        """
        ground = self._reading.ground()
        reader = self._reading.reader() if ground is None else None
        if reader is None:
            tail = self._reading.tail()
            for batch in ground.adds if ground is not None else ():
                for live in hide(batch, tail.keys):
                    yield work(live)
        else:
            with self._tail_beside() as coming:
                yield from self._checkpointed(reader, scan, parsed, work, coming, WORKERS_BESIDE)
                tail = coming()
        for batch in tail.adds:
            yield work(batch)

    def _checkpointed(
        self,
        reader: Reader,
        scan: FileScan,
        parsed: bool,
        work: Callable[[pa.RecordBatch], T],
        tail: Callable[[], FileTail],
        workers: int = WORKERS,
    ) -> Iterator[T]:
        """The adds of the checkpoint that are live still, through ``work``."""
        columns = scan.checkpoint_columns(reader)
        if parsed and "stats_parsed" not in columns and reader.has_parsed_stats:
            columns.append("stats_parsed")
        finish = scan.after_replay(reader, keep_parsed=parsed)
        return _survivors(
            reader,
            "add",
            columns,
            scan.before_replay(),
            lambda: tail().keys,
            lambda live: [work(b) for b in finish(live)],
            large=self._reading.tail_bytes() > _LARGE_TAIL,
            workers=workers,
        )

    @contextmanager
    def _tail_beside(self) -> Iterator[Callable[[], FileTail]]:
        """The newer commits, decoded here in Python while threads in C++ read the checkpoint."""
        with ThreadPoolExecutor(1, thread_name_prefix="tidegate-tail") as beside:
            yield beside.submit(self._reading.tail).result

    def tombstones(self) -> pa.Table:
        """Every removed file that the log still knows of."""
        return self._reading.replay(self._tombstones)

    def _tombstones(self) -> pa.Table:
        schema = self._reading.log.dialect.form.removes
        tail = self._reading.tail()
        out = list(tail.removes)
        ground = self._reading.ground()
        reader = self._reading.reader()
        if ground is not None:
            out += [live for batch in ground.removes for live in hide(batch, tail.keys)]
        elif reader is not None:
            out += _survivors(
                reader,
                "remove",
                schema.names,
                lambda batch: conform(batch, schema),
                lambda: tail.keys,
                lambda live: [live],
                large=self._reading.tail_bytes() > _LARGE_TAIL,
            )
        for batch in out:
            refuse_outside(batch.column("path"))
        return pa.Table.from_batches(out, schema)

    def among(self, scan: FileScan, keys: pa.Array) -> list[pa.RecordBatch]:
        """The live files that ``keys`` names, in the columns of ``scan``; the others are not kept."""

        def named(batch: pa.RecordBatch) -> pa.RecordBatch:
            batch = batch.select(list(scan.columns))
            return batch.filter(pc.is_in(file_keys(batch), value_set=keys))

        def found() -> list[pa.RecordBatch]:
            if scan.covered_by(self._loaded_names()):
                return [named(b) for b in self._overlay().to_batches()]
            return list(self.batches(scan, False, named))

        return [b for b in self._reading.replay(found) if b.num_rows]

    # ------------------------------------------------------------------ moving on

    @property
    def floor(self) -> int | None:
        """The version of the files that were read last: nothing below it needs a replay again."""
        return None if self._loaded is None else self._loaded.version

    def carried_on(self, reading: LogReading) -> LiveFiles:
        """The files of a later version, with what was read here to lay its commits over."""
        return LiveFiles(reading, self._loaded)

    def settle(self) -> None:
        """Let go of files read below the checkpoint the log now stands on: their commits are not kept."""
        if self._loaded is not None and self._loaded.version < self._reading.segment.base_version:
            self._loaded = None


def _scanned(scan: FileScan, tail: FileTail) -> list[pa.RecordBatch]:
    return [b for batch in tail.adds for b in scan.tail(batch)]


def _survivors(
    reader: Reader,
    action: str,
    columns: Sequence[str],
    prepare: Callable[[pa.RecordBatch], pa.RecordBatch],
    hidden: Callable[[], pa.Array | None],
    finish: Callable[[pa.RecordBatch], list[T]],
    *,
    large: bool,
    workers: int = WORKERS,
) -> Iterator[T]:
    """The rows of a checkpoint that no newer commit speaks of, in order, through ``finish``.

    ``hidden`` is asked for the keys that newer commits name once a batch has been read. All is done
    where a batch is read, on its thread; only with a ``large`` tail are batches brought together.
    """
    if not large:

        def whole(batch: pa.RecordBatch) -> list[T]:
            return [out for live in hide(prepare(batch), hidden()) for out in finish(live)]

        return reader.batches(action, columns, whole, workers=workers)
    name = reader.checkpoint.files[0].info.name
    read = reader.batches(action, columns, lambda batch: [prepare(batch)], workers=workers)
    live = hide_in_groups(read, hidden)
    return in_order(lambda batch: guard(name, lambda: finish(batch)), live, workers)
