"""The stored columns of a split: whatever rows and columns are asked for come back as they were written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.index import rows as stored
from tidegate.index.rows import BLOCK_ROWS, OLD_ROWS, ROWS, RowWriter, StoredRows

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("level", pa.string()),
        ("message", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("place", pa.struct([("x", pa.float64()), ("y", pa.binary())])),
        ("at", pa.timestamp("us", "UTC")),
    ]
)


def table_of(count: int) -> pa.Table:
    return pa.table(
        {
            "id": list(range(count)),
            "level": [None if i % 7 == 0 else f"L{i % 3}" for i in range(count)],
            "message": [f"line {i} " + "word " * (i % 60) for i in range(count)],
            "tags": [None if i % 5 == 0 else [f"t{j}" for j in range(i % 3)] for i in range(count)],
            "place": [None if i % 11 == 0 else {"x": i / 2, "y": bytes([i % 256])} for i in range(count)],
            "at": [i * 1_000_003 for i in range(count)],
        },
        schema=SCHEMA,
    )


def written(table: pa.Table, folder: Path, batch: int = 1000) -> pa.Buffer:
    path = folder / ROWS
    writer = RowWriter(path, table.schema)
    for part in table.to_batches(batch):
        writer.add(part)
    writer.close()
    return pa.memory_map(str(path)).read_buffer()


def written_of_old(table: pa.Table, folder: Path, block: int | None) -> pa.Buffer:
    """As splits were written before: a compressed batch for each block."""
    path = folder / OLD_ROWS
    told = {b"tidegate.blockRows": str(block)} if block is not None else None
    schema = table.schema.with_metadata(told)
    with ipc.new_file(str(path), schema, options=ipc.IpcWriteOptions(compression="zstd")) as writer:
        for batch in table.combine_chunks().to_batches(block or 1024):
            writer.write_batch(batch.replace_schema_metadata(told))
    return pa.memory_map(str(path)).read_buffer()


TABLE = table_of(70 * BLOCK_ROWS + 13)


@pytest.fixture(scope="module", params=["grouped", "old, 512", "old, unsaid"])
def rows(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoredRows]:
    folder = tmp_path_factory.mktemp("rows")
    if request.param == "grouped":
        yield StoredRows(ROWS, written(TABLE, folder), SCHEMA)
    else:
        block = 512 if request.param == "old, 512" else None
        yield StoredRows(OLD_ROWS, written_of_old(TABLE, folder, block), SCHEMA)


def numbers() -> st.SearchStrategy[list[int]]:
    """Few rows far apart, runs of neighbours, rows twice, in any order."""
    one = st.integers(0, TABLE.num_rows - 1)
    run = st.tuples(one, st.integers(1, 600)).map(
        lambda r: list(range(r[0], min(r[0] + r[1], TABLE.num_rows)))
    )
    some = st.lists(one, max_size=20)
    mixed = st.lists(st.one_of(run, some), max_size=3).map(lambda parts: [n for p in parts for n in p])
    return st.one_of(mixed, mixed.map(sorted))


@given(wanted=numbers(), columns=st.lists(st.sampled_from(SCHEMA.names), min_size=1, unique=True))
def test_any_rows_and_columns_come_back_in_the_order_asked_for(
    rows: StoredRows, wanted: list[int], columns: list[str]
) -> None:
    found = rows.take(np.array(wanted, np.int64), columns)

    assert found.equals(TABLE.select(columns).take(pa.array(wanted, pa.int64())).combine_chunks())
    found.validate(full=True)


@given(columns=st.lists(st.sampled_from(SCHEMA.names), min_size=1, unique=True))
def test_all_rows_come_back_at_once(rows: StoredRows, columns: list[str]) -> None:
    assert rows.whole(columns).equals(TABLE.select(columns))


def test_all_blocks_come_back_one_after_the_other(rows: StoredRows) -> None:
    assert pa.Table.from_batches(rows.batches(), SCHEMA).equals(TABLE)


@given(count=st.integers(0, 3 * BLOCK_ROWS), batch=st.integers(1, 700))
def test_rows_come_back_however_they_were_added(
    tmp_path_factory: pytest.TempPathFactory, count: int, batch: int
) -> None:
    table = TABLE.slice(0, count)
    found = StoredRows(ROWS, written(table, tmp_path_factory.mktemp("rows"), batch), SCHEMA)

    assert found.whole(SCHEMA.names).equals(table)
    assert found.take(np.array([], np.int64), ["id"]).schema == pa.schema([("id", pa.int64())])


def test_a_hit_decompresses_only_its_block_and_only_the_groups_of_its_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = pa.array(["x" * 400] * TABLE.num_rows)
    table = TABLE.select(["id", "level"]).append_column("long", long)
    found = StoredRows(ROWS, written(table, tmp_path), table.schema)
    lengths: list[int] = []

    class Counted:
        def decompress(self, data: Any, length: int) -> Any:
            lengths.append(length)
            return codec.decompress(data, length)

    codec = stored._CODEC
    monkeypatch.setattr(stored, "_CODEC", Counted())

    found.take(np.array([5 * BLOCK_ROWS + 1]), ["level", "id"])
    short = list(lengths)
    found.take(np.array([5 * BLOCK_ROWS + 1]), ["long"])

    assert len(short) == 1
    assert short[0] < BLOCK_ROWS * 50
    assert len(lengths) == 2
    assert lengths[1] > BLOCK_ROWS * 400


@given(sizes=st.lists(st.integers(0, 100_000), max_size=40))
def test_groups_hold_every_column_once_and_stay_small(sizes: list[int]) -> None:
    groups = list(stored._grouped(sizes))

    assert sorted(c for g in groups for c in g) == list(range(len(sizes)))
    assert all(len(g) == 1 or sum(sizes[c] for c in g) <= stored._GROUP_BYTES for g in groups)
