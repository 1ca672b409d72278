"""Search results equal a plain walk over the rows, for random rows and random queries.

Each case draws rows (with nulls, several scripts, mixed case), spreads them over splits and partitions, and
asks a batch of random queries, each of which comes with a function that says of one row whether it matches.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from support.brute_force import Case, Row, assert_found

WORDS = ["error", "reset", "peer", "Über", "naïve", "日本", "Жук", "a", "re", "x1", "42", "timeout"]
TAGS = ["red", "Red", "dark red", "", "grün", "a\\b", 'q"q', "🙂", "[x]", "z*"]
START = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("part", pa.string()),
        ("body", pa.string()),
        ("tag", pa.string()),
        ("n", pa.int32()),
        ("x", pa.float64()),
        ("ts", pa.timestamp("us", "UTC")),
        ("cost", pa.decimal128(12, 2)),
        ("ok", pa.bool_()),
    ]
)
OPTIONS = {"indexing.typemap.body": "text"}


def words(text: str | None) -> list[str]:
    return [w.lower() for w in re.findall(r"[^\W_]+", text or "")]


texts = st.lists(st.sampled_from(WORDS), max_size=6).map("  ,".join)
numbers = st.integers(-3, 3) | st.sampled_from([2**31 - 1, -(2**31)])
floats = st.sampled_from([0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, 1e300])
moments = st.integers(0, 5).map(lambda k: START + timedelta(microseconds=k * 250_000 + k))
costs = st.integers(-300, 300).map(lambda c: Decimal(c).scaleb(-2))
rows = st.fixed_dictionaries(
    {
        "part": st.sampled_from(["p", "q", None]),
        "body": st.none() | texts,
        "tag": st.none() | st.sampled_from(TAGS),
        "n": st.none() | numbers,
        "x": st.none() | floats,
        "ts": st.none() | moments,
        "cost": st.none() | costs,
        "ok": st.none() | st.booleans(),
    }
)


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _phrase(wanted: list[str]) -> Callable[[Row], bool]:
    def matches(row: Row) -> bool:
        have = words(row["body"])
        return any(have[i : i + len(wanted)] == wanted for i in range(len(have) - len(wanted) + 1))

    return matches


def _between(column: str, low: Any, high: Any, lowest: bool, highest: bool) -> Callable[[Row], bool]:
    def matches(row: Row) -> bool:
        value = row[column]
        if value is None:
            return False
        above = low is None or value > low or (lowest and value == low)
        below = high is None or value < high or (highest and value == high)
        return bool(above and below)

    return matches


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return quoted(value) if isinstance(value, str) else str(value)


def ranges(column: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Case]:
    bound = st.none() | values

    def make(low: Any, high: Any, lowest: bool, highest: bool) -> Case:
        a, b = ("*" if v is None else _text(v) for v in (low, high))
        text = f"{column}:{'[' if lowest else '{'}{a} TO {b}{']' if highest else '}'}"
        return text, _between(column, low, high, lowest, highest)

    return st.builds(make, bound, bound, st.booleans(), st.booleans())


def equals(column: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Case]:
    return values.map(
        lambda v: (f"{column}:{_text(v)}", lambda row: row[column] is not None and row[column] == v)
    )


leaves: st.SearchStrategy[Case] = st.one_of(
    st.sampled_from(WORDS).map(lambda w: (w, lambda row: w.lower() in words(row["body"]))),
    st.lists(st.sampled_from(WORDS), min_size=2, max_size=3).map(
        lambda ws: (f'body:"{" ".join(ws)}"', _phrase([w.lower() for w in ws]))
    ),
    st.sampled_from(["re*", "*e*", "?eset", "Ü*"]).map(
        lambda p: (
            f"body:{p}",
            lambda row: any(
                re.fullmatch(p.lower().replace("*", ".*").replace("?", "."), w) for w in words(row["body"])
            ),
        )
    ),
    st.sampled_from(["body", "tag", "n", "ts", "part", "ok"]).map(
        lambda c: (f"{c}:*", lambda row: row[c] is not None)
    ),
    equals("tag", st.sampled_from(TAGS)),
    equals("n", numbers),
    equals("x", floats.filter(math.isfinite)),
    equals("ts", moments),
    equals("cost", costs),
    equals("part", st.sampled_from(["p", "q", "other"])),
    st.booleans().map(lambda b: (f"ok:{str(b).lower()}", lambda row: row["ok"] is b)),
    st.lists(st.sampled_from(TAGS), min_size=1, max_size=3).map(
        lambda ts: (f"tag:IN [{' '.join(map(quoted, ts))}]", lambda row: row["tag"] in ts)
    ),
    ranges("n", numbers),
    ranges("x", floats.filter(math.isfinite)),
    ranges("ts", moments),
    ranges("cost", costs),
    ranges("tag", st.sampled_from(TAGS)),
    ranges("part", st.sampled_from(["p", "q", "r"])),
    ranges("id", st.integers(0, 40)),
)


def _joined(parts: list[Case], operator: str) -> Case:
    test = all if operator == " AND " else any
    return (
        "(" + operator.join(t for t, _ in parts) + ")",
        lambda row: test(f(row) for _, f in parts),
    )


queries: st.SearchStrategy[Case] = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda p: _joined(p, " AND ")),
        st.lists(inner, min_size=2, max_size=3).map(lambda p: _joined(p, " OR ")),
        inner.map(lambda p: (f"NOT {p[0]}", lambda row: not p[1](row))),
        st.tuples(inner, inner).map(
            lambda p: (f"(+{p[0][0]} -{p[1][0]})", lambda row: p[0][1](row) and not p[1][1](row))
        ),
    ),
    max_leaves=5,
)


# Every example builds splits, which costs more than the many queries that it then asks of them.
@settings(max_examples=settings.default.max_examples // 3)
@given(
    st.lists(st.lists(rows, max_size=15), min_size=1, max_size=3),
    st.lists(queries, min_size=50, max_size=60),
    st.booleans(),
)
def test_a_search_finds_exactly_the_rows_that_match(
    pieces: list[list[Row]], asked: list[Case], merge: bool
) -> None:
    assert_found(pieces, asked, SCHEMA, OPTIONS, ("part",), merge=merge)
