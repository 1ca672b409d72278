"""Deleting rows by vectors: what a file hides before and after, and what its statistics then say."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from tidegate.errors import DVInvalidError
from tidegate.files import vector_files
from tidegate.files.deletion_vectors import DeletionVector
from tidegate.files.paths import encode_path
from tidegate.files.vector_files import delete_rows, read_bitmap, vector_of, write_vectors
from tidegate.log.columns import ADD_SCHEMA
from tidegate.storage.memory import MemoryStore
from tidegate.storage.opening import open_store


def files(*stats: Any, vectors: list[DeletionVector | None] | None = None) -> pa.Table:
    """Live files with these statistics (None for none) and vectors."""
    found = vectors or [None] * len(stats)
    rows = [
        {
            "path": f"f{i}.parquet",
            "partitionValues": [],
            "size": 1,
            "modificationTime": 0,
            "dataChange": True,
            "stats": None if s is None else json.dumps(s),
            "deletionVector": None
            if (v := found[i]) is None
            else {
                "storageType": v.storage_type,
                "pathOrInlineDv": v.path_or_inline_dv,
                "offset": v.offset,
                "sizeInBytes": v.size_in_bytes,
                "cardinality": v.cardinality,
            },
        }
        for i, s in enumerate(stats)
    ]
    return pa.Table.from_pylist(rows, ADD_SCHEMA)


def test_a_file_gets_a_vector_and_wide_statistics() -> None:
    store = MemoryStore()
    stats = {
        "numRecords": 10,
        "minValues": {"a": 1, "d": 0.1},
        "maxValues": {"a": 9},
        "nullCount": {"a": 0, "b": 10, "s": {"x": 3}},
    }
    out = delete_rows(store, files(stats), {0: BitMap64([1, 5])})
    vector, text = out.renewed[0]
    assert list(read_bitmap(store, vector)) == [1, 5]
    assert json.loads(text) == {**stats, "tightBounds": False}
    assert (out.emptied, out.deleted) == ([], 2)


@pytest.mark.parametrize(
    "text",
    [
        "no JSON",
        "[]",
        '{"numRecords": 3.5}',
        '{"tightBounds": "false"}',
        '{"numRecords": 3, "nullCount": []}',
    ],
)
def test_statistics_that_make_no_sense_are_none(text: str) -> None:
    store = MemoryStore()
    data = io.BytesIO()
    pq.write_table(pa.table({"a": [1, 2, 3]}), data)
    store.put("f0.parquet", data.getvalue())
    some = files(None).set_column(
        ADD_SCHEMA.get_field_index("stats"), ADD_SCHEMA.field("stats"), pa.array([text])
    )
    out = delete_rows(store, some, {0: BitMap64([1])})
    assert json.loads(out.renewed[0][1]) == {"numRecords": 3, "tightBounds": False}


@pytest.mark.parametrize("root", ["", "file:", "file://"])
def test_the_path_of_a_vector_elsewhere_is_a_uri(tmp_path: Path, root: str) -> None:
    folder = tmp_path / "a b%20c"
    folder.mkdir()
    (vector,) = write_vectors(open_store(folder), [BitMap64([1, 5])])
    (found,) = folder.iterdir()
    odd = found.rename(folder / "x%y z.bin")
    place = root + encode_path(str(odd))
    elsewhere = msgspec.structs.replace(vector, storage_type="p", path_or_inline_dv=place)
    assert list(read_bitmap(MemoryStore(), elsewhere)) == [1, 5]


def test_rows_are_counted_wherever_the_file_lies(tmp_path: Path) -> None:
    folder = tmp_path / "p=a%3Ab"
    folder.mkdir()
    pq.write_table(pa.table({"a": [1, 2, 3]}), folder / "x.parquet")
    for path in (f"file:{encode_path(str(folder))}/x.parquet", f"{encode_path(str(folder))}/x.parquet"):
        assert vector_files.count_rows(MemoryStore(), path) == 3


def test_rows_hidden_before_stay_hidden_and_count_once() -> None:
    store = MemoryStore()
    (old,) = write_vectors(store, [BitMap64([0, 1])])
    tight = {"numRecords": 5, "nullCount": {"a": 3, "b": 2}, "tightBounds": True}
    out = delete_rows(store, files(tight, vectors=[old]), {0: BitMap64([1, 4])})
    vector, text = out.renewed[0]
    assert list(read_bitmap(store, vector)) == [0, 1, 4]
    assert out.deleted == 1
    # All three live rows were null in a: from now on it is said by the number of all rows.
    assert json.loads(text)["nullCount"] == {"a": 5, "b": 2}


def test_a_file_that_loses_its_last_row_is_emptied() -> None:
    store = MemoryStore()
    (old,) = write_vectors(store, [BitMap64([2])])
    out = delete_rows(
        store,
        files({"numRecords": 3}, {"numRecords": 3}, vectors=[None, old]),
        {0: BitMap64([0]), 1: BitMap64([0, 1])},
    )
    assert list(out.renewed) == [0]
    assert (out.emptied, out.deleted) == ([1], 3)


def test_without_statistics_the_footer_tells_the_rows() -> None:
    store = MemoryStore()
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": [1, 2, 3]}), sink)
    store.put("f0.parquet", sink.getvalue().to_pybytes())
    out = delete_rows(store, files(None), {0: BitMap64([0])})
    assert json.loads(out.renewed[0][1]) == {"numRecords": 3, "tightBounds": False}


def test_a_row_beyond_the_file_is_refused() -> None:
    with pytest.raises(DVInvalidError):
        delete_rows(MemoryStore(), files({"numRecords": 3}), {0: BitMap64([3])})


def test_decimals_in_bounds_keep_every_digit() -> None:
    text = '{"numRecords":2,"minValues":{"d":0.12345678901234567890123456789},"maxValues":{"d":1.10}}'
    table = files({})
    table = table.set_column(table.schema.get_field_index("stats"), "stats", pa.array([text]))
    out = delete_rows(MemoryStore(), table, {0: BitMap64([0])})
    assert '"d":0.12345678901234567890123456789' in out.renewed[0][1]
    assert '"d":1.10' in out.renewed[0][1]


@given(st.lists(st.sets(st.integers(0, 2**33), min_size=1), min_size=1, max_size=8))
def test_vectors_come_back_in_order_from_few_or_many_files(sets: list[set[int]]) -> None:
    for room in (vector_files._PACKED, 100):
        store = MemoryStore()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(vector_files, "_PACKED", room)
            vectors = write_vectors(store, [BitMap64(s) for s in sets])
        assert [set(read_bitmap(store, v)) for v in vectors] == sets


def test_no_vector_is_none() -> None:
    assert vector_of(None) is None
