"""Filters of Spark as queries: never a row too few, and negated only where they are the same."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.splits import write_index
from tidegate.index.pushdown import push, pushed
from tidegate.index.query import All

datasource = pytest.importorskip("pyspark.sql.datasource")

SCHEMA = pa.schema(
    [
        ("s", pa.string()),
        ("t", pa.string()),
        ("n", pa.int64()),
        ("x", pa.float64()),
        ("d", pa.date32()),
        ("ts", pa.timestamp("us", "UTC")),
        ("c", pa.decimal128(10, 2)),
        ("p", pa.string()),
    ]
)
VALUES: dict[str, list[Any]] = {
    "s": ["", "a", "ab", "B", "ü", "x" * 40, "x" * 40 + "y"],
    "t": ["one two", "Two one", "two", "", "--"],
    "n": [0, 1, -5, 2**62],
    "x": [0.0, -0.0, 1.5, float("nan"), float("inf")],
    "d": [date(1969, 12, 31), date(2026, 1, 31)],
    "ts": [datetime(2026, 1, 31, tzinfo=timezone.utc), datetime(2026, 1, 31, 0, 0, 0, 1, timezone.utc)],
    "c": [Decimal("1.10"), Decimal("-3.00")],
    "p": ["q", "r"],
}


def _key(value: Any) -> Any:
    """Spark's order: NaN equals itself and is above everything."""
    if isinstance(value, float):
        return (1, 0.0) if value != value else (0, value + 0.0)
    return value


COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "EqualTo": lambda a, b: _key(a) == _key(b),
    "GreaterThan": lambda a, b: _key(a) > _key(b),
    "GreaterThanOrEqual": lambda a, b: _key(a) >= _key(b),
    "LessThan": lambda a, b: _key(a) < _key(b),
    "LessThanOrEqual": lambda a, b: _key(a) <= _key(b),
    "StringStartsWith": lambda a, b: a.startswith(b),
    "StringEndsWith": lambda a, b: a.endswith(b),
    "StringContains": lambda a, b: b in a,
}
Case = tuple[Any, Callable[[dict[str, Any]], "bool | None"]]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    column = draw(st.sampled_from(list(VALUES)))
    kinds = [k for k in COMPARE if column in ("s", "t") or not k.startswith("String")]
    kind = draw(st.sampled_from([*kinds, "IsNull", "IsNotNull", "In", "EqualNullSafe"]))
    cls = getattr(datasource, kind)
    path = (column,)
    test: Callable[[dict[str, Any]], bool | None]
    if kind in ("IsNull", "IsNotNull"):
        found, test = cls(path), lambda row: (row[column] is None) is (kind == "IsNull")
    elif kind == "In":
        values = tuple(draw(st.lists(st.sampled_from(VALUES[column]), min_size=1, max_size=3)))
        found = cls(path, values)
        test = lambda row: None if row[column] is None else any(_key(row[column]) == _key(v) for v in values)  # noqa: E731
    else:
        value = draw(st.sampled_from(VALUES[column]))
        found = cls(path, value)
        if kind == "EqualNullSafe":
            test = lambda row: row[column] is not None and _key(row[column]) == _key(value)  # noqa: E731
        else:
            test = lambda row: None if row[column] is None else COMPARE[kind](row[column], value)  # noqa: E731
    if draw(st.booleans()):
        return datasource.Not(found), lambda row: None if (r := test(row)) is None else not r
    return found, test


rows = st.lists(
    st.fixed_dictionaries({c: st.none() | st.sampled_from(v) for c, v in VALUES.items()}),
    min_size=1,
    max_size=12,
)


@settings(max_examples=settings.default.max_examples // 3)
@given(rows, st.lists(cases(), min_size=30, max_size=40))
def test_what_is_pushed_keeps_every_row_that_the_filter_keeps(
    data: list[dict[str, Any]], asked: list[Case]
) -> None:
    numbered = [{**row, "id": i} for i, row in enumerate(data)]
    folder = tempfile.mkdtemp()
    try:
        given_rows = pa.Table.from_pylist(numbered, SCHEMA.append(pa.field("id", pa.int64())))
        table = write_index(f"{folder}/t", [given_rows], {"indexing.typemap.t": "text"}, ("p",))
        for found, test in asked:
            want = {row["id"] for row in numbered if test(row)}
            node = pushed([found], table.names.mapping, ["p"])
            kept = set(table.search(node or All(), ["id"]).table().column("id").to_pylist())
            assert want <= kept, found
            one = push(found, table.names.mapping, {"p"})
            if one is not None and one.exact:
                assert kept == want, found
    finally:
        shutil.rmtree(folder)
