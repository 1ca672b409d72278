"""Footers and what they lack: a file that is measured tells what its rows tell."""

from __future__ import annotations

import io
import math
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.spark.write.bounds import Column, Statistics
from tidegate.spark.write.footers import measure, of_footer

# A dot in a name, and a struct that looks the same as such a column.
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("x", pa.float64()),
        ("text", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("amount", pa.decimal128(20, 2)),
        ("list", pa.list_(pa.int32())),
        ("map", pa.map_(pa.string(), pa.struct([("v", pa.int64()), ("w", pa.string())]))),
        ("s", pa.struct([("a", pa.int32()), ("list", pa.list_(pa.string()))])),
        ("s.a", pa.int32()),
    ]
)
COLUMNS = (
    Column(("id",), pa.int64()),
    Column(("x",), pa.float64()),
    Column(("text",), pa.string()),
    Column(("at",), pa.int64()),
    Column(("day",), pa.int32()),
    Column(("amount",), pa.decimal128(20, 2)),
    Column(("list",), None),
    Column(("map",), None),
    Column(("s", "a"), pa.int32()),
    Column(("s", "list"), None),
    Column(("s.a",), pa.int32()),
    Column(("absent",), pa.int64()),
)
SMALL = st.integers(-(2**31), 2**31 - 1)
MAPS = st.dictionaries(
    st.text(max_size=3), st.fixed_dictionaries({"v": st.none() | SMALL, "w": st.text(max_size=2)})
)


def _rows() -> st.SearchStrategy[list[dict[str, Any]]]:
    columns = {
        "id": SMALL,
        "x": st.floats(),
        "text": st.text(max_size=6),
        # Beyond the years that Python has.
        "at": st.integers(-(2**60), 2**60),
        "day": st.integers(-(10**6), 10**7),
        "amount": st.decimals(-(10**9), 10**9, places=2),
        "list": st.lists(st.none() | SMALL, max_size=2),
        "map": MAPS.map(lambda m: list(m.items())),
        "s": st.fixed_dictionaries(
            {"a": st.none() | SMALL, "list": st.none() | st.lists(st.text(max_size=2), max_size=2)}
        ),
        "s.a": SMALL,
    }
    return st.lists(st.fixed_dictionaries({n: st.none() | s for n, s in columns.items()}), max_size=8)


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    arrays = []
    for field in SCHEMA:
        values = [row[field.name] for row in rows]
        if pa.types.is_temporal(field.type):
            plain = pa.int64() if pa.types.is_timestamp(field.type) else pa.int32()
            arrays.append(pa.array(values, plain).cast(field.type))
        else:
            arrays.append(pa.array(values, field.type))
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _file(table: pa.Table, group: int = 3, **options: Any) -> io.BytesIO:
    out = io.BytesIO()
    pq.write_table(table, out, row_group_size=group, store_schema=False, **options)
    out.seek(0)
    return out


def _expected(table: pa.Table) -> dict[str, Any]:
    seen = Statistics(COLUMNS, 32)
    seen.add(table)
    row: dict[str, Any] = {"rows": table.num_rows}
    for i, (low, high, nulls) in enumerate(zip(*seen.bounds(), strict=True)):
        row[f"n{i}"], row[f"l{i}"], row[f"h{i}"] = nulls, low, high
    return row


def _same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    for name, value in expected.items():
        assert (name, found.get(name)) == (name, value)


@given(_rows())
def test_a_measured_file_tells_what_its_rows_tell(rows: list[dict[str, Any]]) -> None:
    table = _table(rows)
    _same(measure(_file(table), COLUMNS, 32), _expected(table))


@given(_rows())
def test_without_any_statistics_in_the_footer_all_is_read(rows: list[dict[str, Any]]) -> None:
    table = _table(rows)
    _same(measure(_file(table, write_statistics=False), COLUMNS, 32), _expected(table))


@given(_rows())
def test_what_a_footer_says_is_never_wrong(rows: list[dict[str, Any]]) -> None:
    table = _table(rows)
    expected = _expected(table)
    found = of_footer(pq.read_metadata(_file(table)), COLUMNS)
    for i, _ in enumerate(COLUMNS):
        for name in (f"n{i}", f"l{i}", f"h{i}"):
            assert found.row.get(name) in (None, expected[name]) or i in found.missing


def test_a_nan_that_a_writer_left_out_of_its_bounds_is_seen() -> None:
    rows = [{f.name: None for f in SCHEMA} | {"x": x} for x in (0.0, math.nan)]
    assert measure(_file(_table(rows)), COLUMNS, 32)["h1"] is None


def test_only_columns_that_lack_something_are_read() -> None:
    rows = [{f.name: None for f in SCHEMA} | {"id": i, "x": math.nan, "list": [1]} for i in range(4)]
    found = of_footer(pq.read_metadata(_file(_table(rows))), COLUMNS)
    lacking = {COLUMNS[i].path[0] for i in found.missing}
    assert lacking == {"x", "map", "s"}
    assert 0 < found.bytes < 2000


# ---------------------------------------------------------------------------- spelled in another case


@pytest.mark.parametrize(
    ("file", "path", "told"),
    [
        ({"ID": 4}, ("id",), (0, 4, 4)),
        ({"id": 4, "ID": 5}, ("id",), (0, 4, 4)),
        ({"Id": 4, "ID": 5}, ("id",), (None, None, None)),
        ({"other": 4}, ("id",), (1, None, None)),
        ({"S": {"X": 4}}, ("s", "x"), (0, 4, 4)),
        ({"s": {"X": 4}}, ("s", "x"), (0, 4, 4)),
        ({"S": {"X": 4, "x": 5}}, ("s", "x"), (None, None, None)),
        ({"S": {"X": 4, "x": 5}}, ("S", "x"), (0, 5, 5)),
        ({"S": {"X": 4, "xx": 5}}, ("s", "y"), (1, None, None)),
        ({"s": {"y": 4}, "S": {"X": 5}}, ("s", "x"), (None, None, None)),
        ({"s": {"y": 4}, "S": {"z": 5}}, ("s", "x"), (None, None, None)),
    ],
)
def test_a_column_is_found_in_any_case_unless_several_could_be_it(
    file: dict[str, Any], path: tuple[str, ...], told: tuple[Any, ...]
) -> None:
    metadata = pq.read_metadata(_file(pa.Table.from_pylist([file])))
    row = of_footer(metadata, [Column(path, pa.int64())], any_case=True).row
    assert (row.get("n0"), row.get("l0"), row.get("h0")) == told


def test_a_file_of_our_own_spells_its_columns_as_the_table_does() -> None:
    metadata = pq.read_metadata(_file(pa.table({"ID": [4]})))
    assert of_footer(metadata, [Column(("id",), pa.int64())]).row == {"rows": 1, "n0": 1}
