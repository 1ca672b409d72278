"""Data skipping by scenario: which files go, and which must stay however tempting."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest

from tidegate.errors import LogError, PredicateError
from tidegate.files.predicate import parse
from tidegate.files.skipping import could_match, evaluate_partitions, keep_mask, needed_columns
from tidegate.schema import types as t

MAP = pa.map_(pa.string(), pa.string())


def column(name: str, type: str, **metadata: Any) -> t.StructField:
    return t.StructField(name, t.parse_type(type), True, metadata)


NESTED = t.StructType((column("b", "long"), t.StructField("deep", t.StructType((column("c", "string"),)))))
SCHEMA = t.StructType(
    (
        column("id", "long"),
        column("x", "double"),
        column("f", "float"),
        column("name", "string"),
        column("day", "date"),
        column("at", "timestamp"),
        column("price", "decimal(10,2)"),
        column("flag", "boolean"),
        column("bytes", "binary"),
        t.StructField("tags", t.ArrayType(t.STRING)),
        t.StructField("a", NESTED),
        column("region", "string"),
        column("on", "date"),
    )
)
PARTITIONS = ["region", "on"]


def nest(path: str, value: Any) -> Any:
    head, _, rest = path.partition(".")
    return {head: nest(rest, value) if rest else value}


def stats(column: str, low: Any, high: Any, nulls: int | None = 0, records: int = 10, **more: Any) -> str:
    out: dict[str, Any] = {"numRecords": records, **more}
    if low is not None:
        out["minValues"] = nest(column, low)
    if high is not None:
        out["maxValues"] = nest(column, high)
    if nulls is not None:
        out["nullCount"] = nest(column, nulls)
    return json.dumps(out)


def kept(predicate: str, *texts: str | None, schema: t.StructType = SCHEMA) -> list[bool]:
    table = pa.table(
        {
            "partitionValues": pa.array([[]] * len(texts), MAP),
            "stats": pa.array(texts, pa.string()),
        }
    )
    found: list[bool] = keep_mask(table, parse(predicate), schema, PARTITIONS).to_pylist()
    return found


def keeps(
    predicate: str, column: str, low: Any, high: Any, schema: t.StructType = SCHEMA, **more: Any
) -> bool:
    return kept(predicate, stats(column, low, high, **more), schema=schema)[0]


def in_partitions(predicate: str, *values: dict[str, str | None]) -> list[bool]:
    table = pa.table({"partitionValues": pa.array([list(v.items()) for v in values], MAP)})
    found: list[bool] = keep_mask(table, parse(predicate), SCHEMA, PARTITIONS).to_pylist()
    return found


# ---------------------------------------------------------------------------- ranges


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        ("id = 15", [False, True, False]),
        ("id = 10", [False, True, False]),
        ("id < 10", [True, False, False]),
        ("id <= 10", [True, True, False]),
        ("id > 19", [False, False, True]),
        ("id >= 19", [False, True, True]),
        ("15 >= id", [True, True, False]),
        ("id != 15", [True, True, True]),
        ("id BETWEEN 8 AND 12", [True, True, False]),
        ("NOT id < 20", [False, False, True]),
        ("NOT (id < 10 OR id >= 20)", [False, True, False]),
        ("id IN (3, 25)", [True, False, True]),
        ("id IN (3, 25, NULL)", [True, False, True]),
        ("id NOT IN (3, NULL)", [False, False, False]),
        ("id <=> 15", [False, True, False]),
        ("id > 1.5 AND id < 8.5", [True, False, False]),
        ("id > 19.5", [False, False, True]),
        ("id = 9.5", [False, False, False]),
        ("id > 1.5e1", [False, True, True]),
        ("id = '15'", [False, True, False]),
        ("id > 99999999999999999999", [False, False, False]),
        ("id < 99999999999999999999", [True, True, True]),
        ("id = 15 OR id = 25", [False, True, True]),
        ("TRUE", [True, True, True]),
        ("FALSE", [False, False, False]),
        ("NULL", [False, False, False]),
        ("id = NULL", [False, False, False]),
        ("id = 15 AND upper(name) = 'X'", [False, True, False]),
        ("id = 15 OR upper(name) = 'X'", [True, True, True]),
        ("ID = 15", [False, True, False]),
        ("name = 'x'", [True, True, True]),
    ],
)
def test_files_outside_the_range_go(predicate: str, expected: list[bool]) -> None:
    files = [stats("id", 0, 9), stats("id", 10, 19), stats("id", 20, 29)]
    assert kept(predicate, *files) == expected


def test_a_long_list_is_judged_by_its_ends() -> None:
    values = ", ".join(str(v) for v in range(10, 40))
    files = [stats("id", 0, 9), stats("id", 12, 12), stats("id", 90, 99)]
    assert kept(f"id IN ({values})", *files) == [False, True, False]
    assert kept(f"id NOT IN ({values})", *files) == [True, False, True]


def test_a_range_of_one_value_is_left_out_by_its_negation() -> None:
    assert not keeps("id != 5", "id", 5, 5)
    assert not keeps("NOT name LIKE 'ab%'", "name", "abc", "abd")
    assert not keeps("name != 'x'", "name", "x", "x")


# ---------------------------------------------------------------------------- what is not known


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "{}",
        "garbage",
        '{"numRecords":10}',
        '{"numRecords":10,"minValues":{"id":50}}',
        '{"minValues":{"id":null},"maxValues":{"id":null}}',
        '{"minValues":{"id":"50"},"maxValues":{"id":"60"}}',
        '{"minValues":{"id":99999999999999999999},"maxValues":{"id":99999999999999999999}}',
        stats("x", 1, 2),
    ],
)
def test_files_without_usable_statistics_stay(text: str | None) -> None:
    # A minimum of 50 alone says nothing of what is above 40.
    assert kept("id > 40", stats("id", 0, 9), text) == [False, True]


@pytest.mark.parametrize(
    ("predicate", "column", "low", "high"),
    [
        ("name = 5", "name", "a", "b"),
        ("id = 'x5'", "id", 1, 2),
        ("id = '05'", "id", 1, 2),
        ("id = TRUE", "id", 5, 6),
        ("day > '2024'", "day", "2020-01-01", "2020-01-02"),
        ("day > TIMESTAMP '2024-01-01 00:00:00'", "day", "2020-01-01", "2020-01-02"),
        ("at IN ('2024-01-01')", "at", "2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z"),
        ("at > '2024-01-01 Europe/Paris'", "at", "2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z"),
        ("price > 1.5e0", "price", 1.0, 1.1),
        ("price = '7'", "price", 1.0, 1.1),
        ("f = 16777217", "f", 1.0, 2.0),
        ("x = y", "x", 1.0, 2.0),
        ("x + 1 = 50", "x", 1.0, 2.0),
        ("flag = 1", "flag", None, None),
        ("bytes = X'00'", "bytes", "a", "b"),
        ("tags[0] = 'x'", "tags", None, None),
        ("tags IS NULL", "tags", None, None),
        ("a IS NULL", "a.b", 1, 2),
    ],
)
def test_a_comparison_in_doubt_keeps_the_file(predicate: str, column: str, low: Any, high: Any) -> None:
    schema = t.StructType((*SCHEMA.fields, t.StructField("y", t.DOUBLE)))
    assert keeps(predicate, column, low, high, schema=schema)


def test_a_char_column_is_compared_padded() -> None:
    padded = t.StructType((column("c", "string", __CHAR_VARCHAR_TYPE_STRING="char(5)"),))
    assert keeps("c = 'ab'", "c", "ab   ", "ab   ", schema=padded)
    varying = t.StructType((column("c", "string", __CHAR_VARCHAR_TYPE_STRING="varchar(5)"),))
    assert not keeps("c = 'ab'", "c", "ac", "ad", schema=varying)


def test_a_collated_column_has_an_order_of_its_own() -> None:
    collated = t.StructType((column("c", "string", __COLLATIONS={"c": "spark.UTF8_LCASE"}),))
    assert keeps("c = 'AB'", "c", "ab", "ab", schema=collated)


def test_a_column_the_table_lacks_is_refused() -> None:
    with pytest.raises(PredicateError, match=r"no column idd.*mean id"):
        kept("idd = 5", None)


# ---------------------------------------------------------------------------- nulls


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        # no null, some nulls, only nulls, unknown
        ("id IS NULL", [False, True, True, True]),
        ("id IS NOT NULL", [True, True, False, True]),
        ("id = 5", [True, True, False, True]),
        ("id != 7", [True, True, False, True]),
        ("NOT id = 7", [True, True, False, True]),
        ("id <=> NULL", [False, True, True, True]),
        ("NOT id <=> 5", [True, True, True, True]),
        ("upper(name) = 'X' AND id > 0", [True, True, False, True]),
    ],
)
def test_null_counts_decide_about_nulls(predicate: str, expected: list[bool]) -> None:
    files = [
        stats("id", 0, 9, nulls=0),
        stats("id", 0, 9, nulls=3),
        stats("id", None, None, nulls=10),
        stats("id", 0, 9, nulls=None),
    ]
    assert kept(predicate, *files) == expected


def test_wide_bounds_tell_all_or_nothing_about_nulls() -> None:
    wide = [stats("id", 0, 9, nulls=n, tightBounds=False) for n in (0, 3, 10)]
    assert kept("id IS NULL", *wide) == [False, True, True]
    assert kept("id IS NOT NULL", *wide) == [True, True, False]
    assert kept("id > 9", *wide) == [False, False, False]


def test_a_boolean_column_has_null_counts_alone() -> None:
    files = [stats("flag", None, None, nulls=n) for n in (0, 10)]
    assert kept("flag", *files) == [True, False]
    assert kept("NOT flag", *files) == [True, False]


# ---------------------------------------------------------------------------- types


def test_nan_is_above_every_maximum() -> None:
    for predicate in ("x > 5", "x >= 5", "x = CAST('NaN' AS DOUBLE)", "x != 1.5", "NOT x <= 5"):
        assert keeps(predicate, "x", 1.5, 1.5), predicate
    for predicate in ("x < 1", "x <= 1.4", "x = 5", "x = 1", "NOT x >= 1.5"):
        assert not keeps(predicate, "x", 1.5, 1.5), predicate
    assert keeps("x < CAST('NaN' AS DOUBLE)", "x", 1.5, 1.5)
    assert keeps("x = 5", "x", 1.5, "NaN")
    assert keeps("x < 5", "x", "NaN", "NaN")


def test_both_zeros_are_zero() -> None:
    assert keeps("x = 0", "x", -0.0, -0.0)
    assert keeps("x = -0.0D", "x", 0.0, 0.0)
    assert keeps("x <= 0", "x", 0.0, 1.0)


def test_a_float_is_the_number_it_is_stored_as() -> None:
    # 3.4 as a float is 3.4000000953674316.
    assert keeps("f < 3.4000001", "f", 3.4, 3.4)
    assert not keeps("f = 3.4", "f", 3.4, 3.4)
    assert keeps("f = 3.4F", "f", 3.4, 3.4)
    assert keeps("f < 1e300", "f", 1e300, 1e300)


def test_bounds_of_a_column_that_was_a_float_are_those_of_floats() -> None:
    change = {"delta.typeChanges": [{"fromType": "float", "toType": "double"}]}
    widened = t.StructType((column("x", "double", **change),))
    assert keeps("x = 3.4000000953674316D", "x", 3.4, 3.4, schema=widened)
    assert keeps("x = 3.4D", "x", 3.4, 3.4, schema=widened)
    assert not keeps("x = 3.5D", "x", 3.4, 3.4, schema=widened)


def test_strings_are_ordered_by_their_bytes() -> None:
    # In UTF-16 the astral character would come first.
    assert keeps("name = '😀'", "name", "\uffff", "\U0001f601")
    assert not keeps("name > '😀'", "name", "a", "\uffff")
    assert keeps("name LIKE 'b%'", "name", "a", "c")
    assert not keeps("name LIKE 'b%'", "name", "c", "d")
    assert not keeps("name LIKE 'b%'", "name", "a", "az")
    assert not keeps("name LIKE 'b%x'", "name", "c", "d")
    assert keeps("NOT name LIKE 'b%x'", "name", "ba", "bb")


def test_a_maximum_that_was_cut_is_no_end() -> None:
    prefix = "x" * 32
    for high in (prefix, prefix + "\ufffd", "x" * 31 + "?\ufffd"):
        assert keeps(f"name = '{prefix}😀'", "name", "a", high)
        assert not keeps("name = 'y'", "name", "a", high)
    assert keeps(f"name = '{prefix}abc'", "name", "a", prefix + "\x7f")


def test_a_maximum_that_an_old_writer_cut_early_is_no_end() -> None:
    assert keeps("name = 'aaaa😀'", "name", "aaaa", "aaaa\ufffd")
    assert not keeps("name = 'ab'", "name", "aaaa", "aaaa\ufffd")


def test_timestamps_end_a_millisecond_later_than_they_say() -> None:
    low, high = "2024-01-01T00:00:00.000Z", "2024-01-01T00:00:01.500Z"
    assert keeps("at > '2024-01-01 00:00:01.500998'", "at", low, high)
    assert not keeps("at > '2024-01-01 00:00:01.500999'", "at", low, high)
    assert not keeps("at < '2024-01-01'", "at", low, high)
    assert keeps("at <= DATE '2024-01-01'", "at", low, high)
    assert keeps("at > TIMESTAMP '2024-01-01 05:30:01+05:30'", "at", low, high)


def test_timestamps_in_any_zone_are_instants() -> None:
    low, high = "2023-12-31T16:00:00.000-08:00", "2024-01-01T05:30:01.000+05:30"
    assert keeps("at = '2024-01-01 00:00:00'", "at", low, high)
    assert not keeps("at < '2024-01-01 00:00:00'", "at", low, high)
    assert not keeps("at > '2024-01-01 00:00:02'", "at", low, high)
    # Without a zone nobody knows which instant is meant.
    assert keeps("at > '2024-01-01'", "at", "2020-01-01 00:00:00", "2020-01-01 00:00:00")


def test_old_offsets_had_seconds_that_texts_leave_out() -> None:
    # Los Angeles, 1850: 7:52:58 behind UTC, written as -07:52.
    low = high = "1850-05-04T17:09:05.456-07:52"
    assert keeps("at = '1850-05-05 01:02:03.456789'", "at", low, high)
    assert not keeps("at = '1850-05-05 01:12:03'", "at", low, high)


def test_dates_are_compared_as_days() -> None:
    assert keeps("day = '2024-01-05'", "day", "2024-01-05", "2024-01-05")
    assert not keeps("day > '2024-01-05'", "day", "2024-01-01", "2024-01-05")
    assert not keeps("day < DATE '2024-01-01'", "day", "2024-01-01", "2024-01-05")
    assert not keeps("day IN ('2023-01-01', '2025-01-01')", "day", "2024-01-01", "2024-01-05")
    assert not keeps("day IN ('2023-01-01', '2023-01-02')", "day", "2024-01-01", "2024-01-05")


def test_decimals_are_compared_exactly() -> None:
    assert keeps("price >= 1.105", "price", 1.0, 1.11)
    assert not keeps("price >= 1.115", "price", 1.0, 1.11)
    assert not keeps("price = 1.105", "price", 1.11, 1.12)
    assert keeps("price < 2", "price", 1.99, 5)
    assert not keeps("price < 2", "price", 2.0, 5)
    assert not keeps("price > 100000000", "price", 1.0, 99999999.99)


def test_a_decimal_that_went_through_a_double_is_nearly_itself() -> None:
    wide = t.StructType((column("w", "decimal(38,18)"),))
    # The double nearest to 1.500000000000000001 is 1.5.
    assert keeps("w > 1.5", "w", 1.5, 1.5, schema=wide)
    assert keeps("w = 1.500000000000000001", "w", 1.5, 1.5, schema=wide)
    assert not keeps("w > 1.6", "w", 1.5, 1.5, schema=wide)


def test_nested_columns_have_statistics_of_their_own() -> None:
    assert not keeps("a.b > 5", "a.b", 1, 5)
    assert keeps("A.B >= 5", "a.b", 1, 5)
    assert not keeps("a.deep.c = 'x'", "a.deep.c", "a", "b")
    assert not keeps("a.deep.c IS NULL", "a.deep.c", "a", "b")


# ---------------------------------------------------------------------------- partitions


def test_partition_values_decide_exactly() -> None:
    values = [{"region": r, "on": "2024-01-01"} for r in ("eu", "us", "", None)]
    assert in_partitions("region = 'eu'", *values) == [True, False, False, False]
    assert in_partitions("region != 'eu'", *values) == [False, True, False, False]
    assert in_partitions("region IS NULL", *values) == [False, False, True, True]
    assert in_partitions("NOT region IN ('eu', 'x')", *values) == [False, True, False, False]
    assert in_partitions("REGION LIKE 'e%'", *values) == [True, False, False, False]
    assert in_partitions("region = 'eu' AND `on` > '2024-01-01'", *values) == [False] * 4
    assert in_partitions("region = 'eu' OR id = 5", *values) == [True] * 4
    many = ", ".join(f"'{i}'" for i in range(30))
    assert in_partitions(f"region IN ('us', {many})", *values) == [False, True, False, False]
    assert in_partitions(f"region NOT IN ('us', {many})", *values) == [True, False, False, False]


def test_a_partition_value_that_does_not_parse_keeps_its_file() -> None:
    values = [{"region": "eu", "on": v} for v in ("2024-01-01", "soon", "2025-01-01")]
    assert in_partitions("`on` = '2025-01-01'", *values) == [False, True, True]
    assert in_partitions("`on` IS NULL", *values) == [False, True, False]


def test_partitions_are_pruned_before_statistics_are_read() -> None:
    regions = pa.array([[("region", "eu")], [("region", "us")], [("region", "us")]], MAP)
    texts = pa.array(["{broken", stats("id", 0, 9), stats("id", 10, 19)])
    table = pa.table({"partitionValues": regions, "stats": texts})
    mask = keep_mask(table, parse("region = 'us' AND id = 5"), SCHEMA, PARTITIONS)
    assert mask.to_pylist() == [False, True, False]


def test_exact_answers_are_refused_where_there_is_none() -> None:
    table = pa.table({"partitionValues": pa.array([[("region", "eu"), ("on", "soon")]], MAP)})
    answers = evaluate_partitions(table, parse("region = 'eu'"), SCHEMA, PARTITIONS)
    assert answers.to_pylist() == [True]
    for predicate in ("id = 5", "upper(region) = 'EU'", "region = 'eu' AND id = 5"):
        with pytest.raises(PredicateError, match="partition columns alone"):
            evaluate_partitions(table, parse(predicate), SCHEMA, PARTITIONS)
    with pytest.raises(LogError, match="'soon'"):
        evaluate_partitions(table, parse("`on` = '2024-01-01'"), SCHEMA, PARTITIONS)


# ---------------------------------------------------------------------------- where it comes from


def test_physical_names_lead_to_the_statistics() -> None:
    physical = {"delta.columnMapping.physicalName": "col-1", "delta.columnMapping.id": 1}
    schema = t.StructType((column("id", "long", **physical),))
    table = pa.table({"stats": pa.array([stats("col-1", 0, 9), stats("id", 0, 9)])})
    assert keep_mask(table, parse("id > 20"), schema, [], "name").to_pylist() == [False, True]
    assert keep_mask(table, parse("id > 20"), schema, [], "none").to_pylist() == [True, False]


def test_parsed_statistics_count_before_their_text() -> None:
    bounds = pa.struct([("id", pa.int32())])
    parsed = pa.array(
        [{"numRecords": 1, "maxValues": {"id": 9}}, None, None],
        pa.struct([("numRecords", pa.int64()), ("maxValues", bounds)]),
    )
    texts = pa.array([stats("id", 50, 60), stats("id", 50, 60), stats("id", 1, 2)])
    table = pa.table({"stats_parsed": parsed, "stats": texts})
    assert keep_mask(table, parse("id > 20"), SCHEMA).to_pylist() == [False, True, False]
    assert keep_mask(table.drop(["stats"]), parse("id > 20"), SCHEMA).to_pylist() == [False, True, True]


def test_nanoseconds_of_a_checkpoint_may_have_wrapped_around() -> None:
    bounds = pa.struct([("at", pa.timestamp("ns"))])
    row = {"minValues": {"at": datetime(1970, 1, 1)}, "maxValues": {"at": datetime(1970, 1, 2)}}
    parsed = pa.array([row], pa.struct([("minValues", bounds), ("maxValues", bounds)]))
    assert keep_mask(pa.table({"stats_parsed": parsed}), parse("at > '2024-01-01'"), SCHEMA).to_pylist() == [
        True
    ]


def test_files_that_say_nothing_of_themselves_stay() -> None:
    bare = pa.table({"path": ["a", "b"]})
    assert keep_mask(bare, parse("id = 5 AND region = 'eu'"), SCHEMA, PARTITIONS).to_pylist() == [True, True]
    assert keep_mask(bare.to_batches()[0], parse("id = 5"), SCHEMA).to_pylist() == [True, True]
    assert keep_mask(bare.slice(0, 0), parse("id = 5"), SCHEMA).to_pylist() == []
    regions = pa.record_batch({"partitionValues": pa.array([[("region", "eu")], [("region", "us")]], MAP)})
    assert keep_mask(regions, parse("id = 5 AND region = 'eu'"), SCHEMA, PARTITIONS).to_pylist() == [
        True,
        False,
    ]
    assert keep_mask(regions.slice(0, 0), parse("id = 5"), SCHEMA, PARTITIONS).to_pylist() == []


def test_a_conflict_check_asks_whether_any_file_could_match() -> None:
    table = pa.table({"stats": pa.array([stats("id", 0, 9), stats("id", 10, 19)])})
    assert could_match(table, parse("id = 5"), SCHEMA) is True
    assert could_match(table, parse("id = 50"), SCHEMA) is False


def test_what_must_be_read_is_known_beforehand() -> None:
    assert needed_columns(parse("id = 5"), SCHEMA, PARTITIONS) == {"stats"}
    assert needed_columns(parse("region = 'x'"), SCHEMA, PARTITIONS) == {"partitionValues"}
    assert needed_columns(parse("upper(region) = 'X'"), SCHEMA, PARTITIONS) == frozenset()
