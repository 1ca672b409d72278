"""The stored columns of a split: small compressed blocks of rows, so that a few hits cost a few blocks.

The file is Arrow's own (IPC, not compressed): one row for each block, one binary column for each group of
columns. A cell is the length of a record batch (8 bytes, little endian) and the batch, compressed by zstd in
one piece. To start decompressing costs as much as the bytes of a short column, so short columns share a
group; a long one, which is worth leaving out when it is not wanted, has its own. The metadata of the schema
says how many rows a block has, and which columns a group.

Splits from before this layout hold ``rows.arrow``, a compressed IPC file with a batch for each block. They
are read, and not written any more.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from os import cpu_count
from pathlib import Path
from typing import Protocol

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.ipc as ipc

from tidegate.index.fields import DocMapping
from tidegate.schema.arrow import to_arrow_type

ROWS = "rows.blocks"
OLD_ROWS = "rows.arrow"
BLOCK_ROWS = 256
# A column that takes so many bytes of a block has a group of its own; the others share up to as many.
_GROUP_BYTES = 32 << 10
# Blocks that are written at once, and that one thread decompresses in a row.
_RUN = 64
_LAYOUT_KEY = b"tidegate.rows"
_OLD_BLOCK_KEY, _OLD_BLOCK_ROWS = b"tidegate.blockRows", b"1024"
_LENGTH = struct.Struct("<Q")
_CODEC = pa.Codec("zstd", compression_level=3)

Numbers = npt.NDArray[np.int64]


def row_schema(mapping: DocMapping) -> pa.Schema:
    """The stored columns in Arrow's types."""
    return pa.schema([pa.field(f.column, to_arrow_type(f.type)) for f in mapping.stored])


class _Layout(msgspec.Struct, frozen=True):
    """How the columns lie in the file: rows of a block, and the columns of each group by their numbers."""

    rows: int
    groups: tuple[tuple[int, ...], ...]


# ---------------------------------------------------------------------------- writing


class RowWriter:
    """Writes the stored columns, in blocks of a fixed number of rows but for the last."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path, self._schema = path, schema
        self._writer: ipc.RecordBatchFileWriter | None = None
        self._groups: tuple[tuple[int, ...], ...] = ()
        self._waiting: list[pa.RecordBatch] = []
        self._count = 0
        self._cells: list[list[bytes]] = []

    def add(self, batch: pa.RecordBatch) -> None:
        columns = [_as(batch.column(f.name), f.type) for f in self._schema]
        self._waiting.append(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        self._count += batch.num_rows
        if self._count >= BLOCK_ROWS:
            self._flush(self._count - self._count % BLOCK_ROWS)

    def _flush(self, rows: int) -> None:
        table = pa.Table.from_batches(self._waiting, self._schema).combine_chunks()
        for at in range(0, rows, BLOCK_ROWS):
            block = table.slice(at, min(BLOCK_ROWS, rows - at)).to_batches()[0]
            # The slice of a block carries only its own bytes.
            self._add_block([pa.concat_arrays([c]) for c in block.columns])
        rest = table.slice(rows)
        self._waiting, self._count = rest.to_batches(), rest.num_rows

    def _add_block(self, columns: list[pa.Array]) -> None:
        self._open(columns)
        self._cells.append([_packed([columns[i] for i in group]) for group in self._groups])
        if len(self._cells) == _RUN:
            self._write()

    def _open(self, columns: list[pa.Array]) -> ipc.RecordBatchFileWriter:
        """The file, laid out by the first block."""
        if self._writer is None:
            self._groups = tuple(_grouped([c.nbytes for c in columns]))
            layout = msgspec.json.encode(_Layout(BLOCK_ROWS, self._groups))
            fields = [pa.field(str(number), pa.large_binary()) for number in range(len(self._groups))]
            self._writer = ipc.new_file(str(self._path), pa.schema(fields, {_LAYOUT_KEY: layout}))
        return self._writer

    def _write(self) -> None:
        assert self._writer is not None
        cells = [pa.array(group, pa.large_binary()) for group in zip(*self._cells, strict=True)]
        self._writer.write_batch(pa.RecordBatch.from_arrays(cells, [str(n) for n in range(len(cells))]))
        self._cells = []

    def close(self) -> None:
        if self._count:
            self._flush(self._count)
        if self._cells:
            self._write()
        self._open([pa.nulls(0, f.type) for f in self._schema]).close()


def _grouped(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The columns that are compressed together, by what they take in a block."""
    shared: list[int] = []
    total = 0
    for number, size in enumerate(sizes):
        if size >= _GROUP_BYTES // 2:
            yield (number,)
            continue
        if shared and total + size > _GROUP_BYTES:
            yield tuple(shared)
            shared, total = [], 0
        shared.append(number)
        total += size
    if shared:
        yield tuple(shared)


def _packed(columns: list[pa.Array]) -> bytes:
    raw = pa.RecordBatch.from_arrays(columns, [str(n) for n in range(len(columns))]).serialize()
    packed: bytes = _CODEC.compress(raw, asbytes=True)
    return _LENGTH.pack(raw.size) + packed


def _as(column: pa.Array, type: pa.DataType) -> pa.Array:
    return column if column.type == type else column.cast(type)


# ---------------------------------------------------------------------------- reading


class _Blocks(Protocol):
    """Blocks of rows in groups of columns, each of which can be read alone; from several threads."""

    rows: int
    count: int
    groups: tuple[tuple[int, ...], ...]

    def read(self, block: int, group: int) -> pa.RecordBatch: ...


class _GroupedBlocks:
    def __init__(self, data: pa.Buffer, schema: pa.Schema) -> None:
        # Not compressed and mapped: this makes views of the cells, and reads none of them.
        cells = ipc.open_file(pa.BufferReader(data)).read_all()
        layout = msgspec.json.decode(cells.schema.metadata[_LAYOUT_KEY], type=_Layout)
        self.rows, self.groups, self.count = layout.rows, layout.groups, int(cells.num_rows)
        self._chunks = [column.chunks for column in cells.columns]
        self._schemas = [_picked(schema, group) for group in layout.groups]

    def read(self, block: int, group: int) -> pa.RecordBatch:
        # Every run but the last has as many blocks.
        cell = self._chunks[group][block // _RUN][block % _RUN].as_buffer()
        (length,) = _LENGTH.unpack_from(cell)
        raw = _CODEC.decompress(cell.slice(_LENGTH.size), length)
        return ipc.read_record_batch(raw, self._schemas[group])


class _OldBlocks:
    """A group for each column."""

    def __init__(self, data: pa.Buffer, schema: pa.Schema) -> None:
        self._data, self._schema = data, schema
        self.groups: tuple[tuple[int, ...], ...] = tuple((number,) for number in range(len(schema)))
        opened = self._reader(0)
        self.count = int(opened.num_record_batches)
        self.rows = int((opened.schema.metadata or {}).get(_OLD_BLOCK_KEY, _OLD_BLOCK_ROWS))

    def read(self, block: int, group: int) -> pa.RecordBatch:
        return self._reader(group).get_batch(block)

    def _reader(self, column: int) -> ipc.RecordBatchFileReader:
        options = ipc.IpcReadOptions(included_fields=[column], use_threads=False)
        return ipc.open_file(pa.BufferReader(self._data), options=options)


@dataclass(frozen=True, slots=True)
class _Places:
    """Rows in order as the blocks they lie in, and where in those."""

    rows: Numbers
    size: int
    blocks: Numbers
    starts: Numbers

    @classmethod
    def of(cls, rows: Numbers, size: int) -> _Places:
        blocks, starts = np.unique(rows // size, return_index=True)
        return cls(rows, size, blocks, starts)

    @property
    def alone(self) -> bool:
        """Whether no two rows share a block."""
        return len(self.blocks) == len(self.rows)

    def each(self) -> Iterator[tuple[int, int]]:
        return zip(self.blocks.tolist(), (self.rows % self.size).tolist(), strict=True)

    def runs(self) -> Iterator[tuple[list[int], Numbers]]:
        """Some blocks at a time, with the numbers of the rows in what they make together."""
        ends = np.append(self.starts[1:], len(self.rows))
        for first in range(0, len(self.blocks), _RUN):
            blocks = self.blocks[first : first + _RUN]
            rows = self.rows[self.starts[first] : ends[first + len(blocks) - 1]]
            places = np.searchsorted(blocks, rows // self.size)
            yield blocks.tolist(), places * self.size + rows % self.size


class StoredRows:
    """The stored columns of one split, by the names the table had for them. Safe for several threads."""

    def __init__(self, name: str, data: pa.Buffer, schema: pa.Schema) -> None:
        self.schema = schema
        self._blocks: _Blocks = (_OldBlocks if name == OLD_ROWS else _GroupedBlocks)(data, schema)
        self._group_of = {schema.names[c]: g for g, group in enumerate(self._blocks.groups) for c in group}

    def take(self, rows: Numbers, columns: Sequence[str]) -> pa.Table:
        """Columns of some rows, in the order of the rows."""
        if not len(rows):
            return pa.schema([self.schema.field(c) for c in columns]).empty_table()
        ordered = len(rows) == 1 or bool(np.all(rows[1:] >= rows[:-1]))
        order = None if ordered else np.argsort(rows, kind="stable")
        at = rows if order is None else rows[order]
        places = _Places.of(at, self._blocks.rows)
        # In one piece, so that a slice does not keep its whole block.
        table = self._joined(columns, lambda group: self._at(places, group)).combine_chunks()
        if order is None:
            return table
        return table.take(pa.array(np.argsort(order, kind="stable")))

    def _at(self, places: _Places, group: int) -> list[pa.RecordBatch]:
        """The rows at some places, in order."""
        if places.alone:
            return [self._blocks.read(b, group).slice(at, 1) for b, at in places.each()]
        # One call for many blocks: taking a few rows of each takes longer than to decompress it.
        parts: list[pa.RecordBatch] = []
        for blocks, within in places.runs():
            run = pa.Table.from_batches([self._blocks.read(b, group) for b in blocks])
            if not np.array_equal(within, np.arange(run.num_rows)):
                run = run.combine_chunks().take(pa.array(within))
            parts += run.to_batches()
        return parts

    def whole(self, columns: Sequence[str]) -> pa.Table:
        """Columns of all rows, decompressed on all cores."""
        count = self._blocks.count
        runs = range(0, count, _RUN)

        def run(first: int, group: int) -> list[pa.RecordBatch]:
            return [self._blocks.read(b, group) for b in range(first, min(first + _RUN, count))]

        if len(runs) < 2:
            return self._joined(columns, lambda group: run(0, group) if count else [])
        with ThreadPoolExecutor(cpu_count() or 1, "tidegate-rows") as pool:

            def parts(group: int) -> list[pa.RecordBatch]:
                return [b for part in pool.map(lambda first: run(first, group), runs) for b in part]

            return self._joined(columns, parts)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All columns, block by block."""
        names = self.schema.names
        for block in range(self._blocks.count):
            groups = {g: [self._blocks.read(block, g)] for g in range(len(self._blocks.groups))}
            yield from self._joined(names, groups.__getitem__).combine_chunks().to_batches()

    def _joined(self, columns: Sequence[str], read: Callable[[int], list[pa.RecordBatch]]) -> pa.Table:
        """Columns of the groups that they lie in."""
        groups: dict[int, pa.Table] = {}
        arrays = []
        for name in columns:
            group = self._group_of[name]
            if group not in groups:
                schema = _picked(self.schema, self._blocks.groups[group])
                groups[group] = pa.Table.from_batches(read(group), schema)
            arrays.append(groups[group].column(name))
        return pa.Table.from_arrays(arrays, schema=pa.schema([self.schema.field(c) for c in columns]))


def _picked(schema: pa.Schema, columns: Sequence[int]) -> pa.Schema:
    return pa.schema([schema.field(c) for c in columns])
