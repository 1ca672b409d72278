"""Leaving splits out by their bounds: never one too few, whatever the types, cuts and gaps of the bounds."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.index_tables import RawIndex, adds, split
from support.tables import column, schema_string

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
SCHEMA = schema_string(
    column("n"),
    column("x", "double"),
    column("s", "string"),
    column("d", "date"),
    column("t", "timestamp"),
    column("b", "boolean"),
    column("part", "integer"),
)


def micros(moment: datetime) -> str:
    return str((moment - EPOCH) // timedelta(microseconds=1))


def bounds_of(values: list[dict[str, Any]], cut: int | None, days_as_micros: bool) -> dict[str, Any]:
    """What a writer says of its rows: texts, nulls left out, long strings cut."""
    low: dict[str, str] = {}
    high: dict[str, str] = {}
    for name in ("n", "x", "s", "d", "t"):
        present = [v[name] for v in values if v[name] is not None]
        if not present:
            continue
        low[name], high[name] = (text(name, f(present), cut, days_as_micros) for f in (min, max))
    return {"minValues": low, "maxValues": high}


def text(name: str, value: Any, cut: int | None, days_as_micros: bool) -> str:
    if name == "s":
        return str(value)[:cut]
    if name == "t":
        return micros(value)
    if name == "d" and days_as_micros:
        return micros(datetime.combine(value, datetime.min.time(), timezone.utc))
    return value.isoformat() if name == "d" else str(value)


dates = st.dates(date(1960, 1, 1), date(2035, 1, 1))
times = st.datetimes(datetime(1960, 1, 1), datetime(2035, 1, 1), timezones=st.just(timezone.utc))
words = st.text(alphabet="ab\u00e9\U0001f600", max_size=6)
rows = st.fixed_dictionaries(
    {
        "n": st.none() | st.integers(-20, 20),
        "x": st.none() | st.floats(-4, 4, width=16),
        "s": st.none() | words,
        "d": st.none() | dates,
        "t": st.none() | times,
    }
)
OPERATORS = {
    "=": lambda a, b: a == b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "!=": lambda a, b: a != b,
}


def literal(name: str, value: Any) -> str:
    if name in ("n", "x"):
        return repr(value)
    if name == "s":
        return "'" + value + "'"
    if name == "d":
        return f"DATE '{value.isoformat()}'"
    return f"TIMESTAMP '{value.strftime('%Y-%m-%dT%H:%M:%S.%f')}Z'"


@given(
    st.lists(st.tuples(st.lists(rows, min_size=1, max_size=4), st.booleans()), min_size=1, max_size=4),
    rows.filter(lambda r: any(v is not None for v in r.values())),
    st.sampled_from(sorted(OPERATORS)),
    st.sampled_from([None, 2, 32]),
    st.data(),
)
def test_no_split_with_a_matching_row_is_ever_left_out(
    splits: list[tuple[list[dict[str, Any]], bool]],
    wanted: dict[str, Any],
    operator: str,
    cut: int | None,
    data: st.DataObject,
) -> None:
    name = data.draw(st.sampled_from([k for k, v in wanted.items() if v is not None]))
    table = RawIndex()
    log = table.log()
    log.create(SCHEMA)
    log.append(
        adds(
            *(
                split(f"{i}.split", **(bounds_of(values, cut, i % 2 == 0) if says else {}))
                for i, (values, says) in enumerate(splits)
            )
        )
    )
    kept = set(
        log.snapshot().files(f"{name} {operator} {literal(name, wanted[name])}").column("path").to_pylist()
    )
    for i, (values, says) in enumerate(splits):
        matches = any(v[name] is not None and OPERATORS[operator](v[name], wanted[name]) for v in values)
        assert not (matches and f"{i}.split" not in kept)
        assert says or f"{i}.split" in kept


@pytest.mark.parametrize(
    ("predicate", "kept"),
    [
        ("n = 5", ["low"]),
        ("n > 90", ["high"]),
        ("n > 9 AND n < 10", []),
        ("s = 'cherry'", ["high"]),
        ("s LIKE 'ap%'", ["low"]),
        ("d = DATE '2024-01-02'", ["low"]),
        ("d > DATE '2024-06-01'", ["high"]),
        ("t >= TIMESTAMP '2024-06-01T00:00:00Z'", ["high"]),
        ("part = 1", ["low"]),
        ("part = 1 AND n > 50", []),
        ("part > 1 OR n = 5", ["high", "low"]),
    ],
)
@pytest.mark.parametrize("checkpointed", [False, True])
def test_splits_that_cannot_match_are_left_out(predicate: str, kept: list[str], checkpointed: bool) -> None:
    table = RawIndex()
    log = table.log()
    log.create(SCHEMA, ["part"])

    def of(path: str, part: int, **bounds: tuple[str, str]) -> dict[str, Any]:
        return split(
            path,
            {"part": str(part)},
            minValues={k: v[0] for k, v in bounds.items()},
            maxValues={k: v[1] for k, v in bounds.items()},
        )

    june = datetime(2024, 6, 15, tzinfo=timezone.utc)
    log.append(
        adds(
            of("low", 1, n=("1", "9"), s=("apple", "banana"), d=("2024-01-01", "2024-01-31"),
               t=(micros(june - timedelta(days=90)), micros(june - timedelta(days=60)))),
            of("high", 10, n=("10", "100"), s=("c", "d"), d=(micros(june), micros(june)),
               t=(micros(june), micros(june))),
        )
    )  # fmt: skip
    if checkpointed:
        log.checkpoint()
    assert sorted(table.log().snapshot().files(predicate).column("path").to_pylist()) == kept


def test_a_maximum_that_was_cut_off_stands_for_all_that_begins_with_it() -> None:
    table = RawIndex()
    log = table.log()
    log.create(SCHEMA)
    log.append(adds(split("cut", minValues={"s": "a"}, maxValues={"s": "m" * 32})))
    for value, there in (("m" * 40, True), ("m" * 32 + "z", True), ("m" * 31 + "n", False)):
        assert log.snapshot().files(f"s = '{value}'").num_rows == there
    log.overwrite(adds(split("shorter", minValues={"s": "a"}, maxValues={"s": "ma"})))
    for value, there in (("ma", True), ("mat", True), ("mb", False)):
        assert log.snapshot().files(f"s = '{value}'").num_rows == there


@given(
    st.lists(words, min_size=1, max_size=3), words, st.sampled_from(["=", ">", ">=", "!="]), st.integers(1, 3)
)
def test_strings_cut_anywhere_never_hide_a_row(
    values: list[str], wanted: str, operator: str, cut: int
) -> None:
    table = RawIndex()
    log = table.log()
    log.create(SCHEMA)
    low, high = min(values)[:cut], max(values)[:cut]
    log.append(adds(split("cut", minValues={"s": low}, maxValues={"s": high})))
    kept = log.snapshot().files(f"s {operator} '{wanted}'").num_rows
    assert kept or not any(OPERATORS[operator](v, wanted) for v in values)


@pytest.mark.parametrize("bound", ["soon", "", "1e400", "2024-99-99", "99999999999999999999999"])
def test_a_bound_that_makes_no_sense_keeps_the_split(bound: str) -> None:
    table = RawIndex()
    log = table.log()
    log.create(SCHEMA)
    odd = {"n": bound, "d": bound, "t": bound}
    log.append(adds(split("odd", minValues=odd, maxValues=odd)))
    for predicate in ("n = 5", "d = DATE '2024-01-01'", "t = TIMESTAMP '2024-01-01T00:00:00Z'"):
        assert log.snapshot().files(predicate).num_rows == 1


def test_statistics_as_json_text_serve_where_there_are_no_bounds() -> None:
    table = RawIndex()
    log = table.log()
    log.create(SCHEMA)
    stats = '{"numRecords":2,"minValues":{"n":1},"maxValues":{"n":2},"nullCount":{"n":0}}'
    log.append(adds(split("stats", stats=stats), split("bounds", minValues={"n": "5"}, maxValues={"n": "6"})))
    assert log.snapshot().files("n = 2").column("path").to_pylist() == ["stats"]
    assert log.snapshot().files("n = 5").column("path").to_pylist() == ["bounds"]
