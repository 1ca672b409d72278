"""SQL text to predicates: what is understood, what is left unknown, and what is refused."""

from __future__ import annotations

import contextlib
import math
from datetime import date
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidegate.errors import PredicateError
from tidegate.files.predicate import (
    And,
    Column,
    Compare,
    Constant,
    In,
    IsNull,
    Literal,
    Not,
    Or,
    Predicate,
    StartsWith,
    Unknown,
    parse,
)
from tidegate.schema import types as t

X = Column(("x",))


def compare(operator: str, value: object, type: str) -> Compare:
    return Compare(X, operator, Literal(value, type))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 5", compare("=", 5, "long")),
        ("x == 5", compare("=", 5, "long")),
        ("x <> 5", compare("!=", 5, "long")),
        ("5 < x", compare(">", 5, "long")),
        ("5 = x", compare("=", 5, "long")),
        ("x >= -5L", compare(">=", -5, "long")),
        ("x = -(-5)", compare("=", 5, "long")),
        ("x = 1.50", compare("=", Decimal("1.50"), "decimal")),
        ("x = -1.5", compare("=", Decimal("-1.5"), "decimal")),
        ("x = 1.5D", compare("=", 1.5, "double")),
        ("x = 15e-1", compare("=", 1.5, "double")),
        ("x = CAST('1.5' AS DOUBLE)", compare("=", 1.5, "double")),
        ("x = CAST(1.5 AS DECIMAL(5,2))", compare("=", Decimal("1.50"), "decimal")),
        ("x = 'a b'", compare("=", "a b", "string")),
        ('x = "a b"', compare("=", "a b", "string")),
        ("x = TRUE", compare("=", True, "boolean")),
        ("x = DATE '2024-01-05'", compare("=", date(2024, 1, 5), "date")),
        ("x = CAST('2024-1-5' AS DATE)", compare("=", date(2024, 1, 5), "date")),
        ("x = date('2024-01-05')", compare("=", date(2024, 1, 5), "date")),
        ("x > TIMESTAMP '1970-01-01 00:00:01.5'", compare(">", 1_500_000, "timestamp")),
        ("x > TIMESTAMP '1970-01-01T01:00:00+01:00'", compare(">", 0, "timestamp")),
        ("x > TIMESTAMP_NTZ '1970-01-01 00:00:01'", compare(">", 1_000_000, "timestamp_ntz")),
        ("x = X'0aFF'", compare("=", b"\x0a\xff", "binary")),
        ("x <=> 5", compare("<=>", 5, "long")),
        ("x <=> NULL", IsNull(X)),
        ("x = NULL", Constant(None)),
        ("x IS NULL", IsNull(X)),
        ("x IS NOT NULL", Not(IsNull(X))),
        ("x IS NOT DISTINCT FROM 5", compare("<=>", 5, "long")),
        ("x IS DISTINCT FROM 5", Not(compare("<=>", 5, "long"))),
        ("x", compare("=", True, "boolean")),
        ("NOT x", Not(compare("=", True, "boolean"))),
        ("!x = 5", Not(compare("=", 5, "long"))),
        ("x IS TRUE", compare("<=>", True, "boolean")),
        ("x IS NOT FALSE", Not(compare("<=>", False, "boolean"))),
        ("TRUE", Constant(True)),
        ("x BETWEEN 1 AND 3", And((compare(">=", 1, "long"), compare("<=", 3, "long")))),
        ("x NOT BETWEEN 1 AND 3", Not(And((compare(">=", 1, "long"), compare("<=", 3, "long"))))),
        ("x IN (1, NULL)", In(X, (Literal(1, "long"), Literal(None, "void")))),
        ("x NOT IN ('a')", Not(In(X, (Literal("a", "string"),)))),
        ("x LIKE 'abc%'", StartsWith(X, "abc")),
        ("x NOT LIKE 'abc%'", Not(StartsWith(X, "abc"))),
        ("startswith(x, 'abc')", StartsWith(X, "abc")),
        ("x LIKE 'abc'", And((StartsWith(X, "abc"), compare("=", "abc", "string")))),
        ("(x = 1 OR TRUE) AND NULL", And((Or((compare("=", 1, "long"), Constant(True))), Constant(None)))),
        ("x = 5 -- a remark", compare("=", 5, "long")),
        ("a.b.c = 1", Compare(Column(("a", "b", "c")), "=", Literal(1, "long"))),
        ("a.b.c.d.e.f = 1", Compare(Column(("a", "b", "c", "d", "e", "f")), "=", Literal(1, "long"))),
        ("`a.b`.`c``d` = 1", Compare(Column(("a.b", "c`d")), "=", Literal(1, "long"))),
        ("date > '2024-01-01'", Compare(Column(("date",)), ">", Literal("2024-01-01", "string"))),
        ("order IS NULL", IsNull(Column(("order",)))),
        ("timestamp IS NULL", IsNull(Column(("timestamp",)))),
    ],
)  # fmt: skip
def test_what_is_surely_understood_becomes_a_node(text: str, expected: Predicate) -> None:
    assert parse(text) == expected


def test_nan_and_the_infinities_are_values() -> None:
    found = parse("x = CAST('NaN' AS DOUBLE)")
    assert isinstance(found, Compare)
    assert isinstance(found.literal.value, float)
    assert math.isnan(found.literal.value)
    assert parse("x < double('-Infinity')") == compare("<", -math.inf, "double")


@pytest.mark.parametrize(
    "text",
    [
        "upper(x) = 'A'",
        "x + 1 = 5",
        "x = 1 + 1",
        "x = y",
        "x::int = 5",
        "x[0] = 1",
        "x IN (SELECT y FROM t)",
        "x IN ()",
        "x = current_date()",
        "x RLIKE 'a'",
        "x ILIKE 'a%'",
        "x LIKE ANY ('a%')",
        "x LIKE 'a!%' ESCAPE '!'",
        "x = ?",
        "x = 'it''s'",  # one string or two, by the version of Spark
        r"x = 'a\tb'",
        r"x = r'a\b'",
        "x = DATE '2024-13-01'",
        "x = TIMESTAMP '2024-01-01 10:00:00 Europe/Paris'",
        "x = CAST('5.5' AS INT)",
        "x = CAST(5 AS STRING)",
        "x = CAST(1.555 AS DECIMAL(5,2))",
        "x = INTERVAL 1 DAY",
        "(x > 5) IS TRUE",
        "exists(x, y -> y > 1)",
        "case when x then 1 end = 1",
    ],
)
def test_what_is_not_surely_understood_is_unknown(text: str) -> None:
    found = parse(text)
    assert isinstance(found, Unknown), found
    assert not found.is_known


def test_a_pattern_that_says_more_than_its_prefix_keeps_the_prefix() -> None:
    found = parse("x LIKE 'abc%d_f'")
    assert isinstance(found, And)
    assert found.operands[0] == StartsWith(X, "abc")
    assert isinstance(found.operands[1], Unknown)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("x = 5 AND", r"line 1, column 9, near 'AND'"),
        ("x = = 5", "line 1, column 5"),
        ("x >\n 5 6", "line 2, column 4"),
        ("(x = 5", "column 6"),
        ("x = 5; DROP TABLE t", "near 'DROP'"),
        ("SELECT 1", "line 1"),
        ("x, y", "near ','"),
        ("x = 'open", "opened at column 5"),
        ("`x = 1", "opened at column 1"),
        ("", "empty"),
        ("  \n ", "empty"),
        ("(" * 3000 + "x" + ")" * 3000, "nested too deeply"),
        # As Spark shows options of functions; the parser itself falls over them.
        ("f(Map(mode -> FAILFAST)) = x", "No predicate"),
    ],
)
def test_text_that_does_not_parse_is_refused_with_its_place(text: str, where: str) -> None:
    with pytest.raises(PredicateError, match=where):
        parse(text)


@given(
    st.text(st.characters(exclude_categories=["Cs"])) | st.text("x=<>!()'`\"., 15-+*%/ANDORTlike\\\n[]{}:;")
)
@example("x = 1 /* open")
@example("${x} = 1")
@example("x = 1 --")
def test_any_text_is_a_predicate_or_a_predicate_error(text: str) -> None:
    with contextlib.suppress(PredicateError):
        parse(text)


# ---------------------------------------------------------------------------- names

INNER = t.StructType((t.StructField("B", t.LONG), t.StructField("c.d", t.STRING)))
SCHEMA = t.StructType(
    (
        t.StructField("Id", t.LONG),
        t.StructField("day", t.DATE),
        t.StructField("Region", t.STRING),
        t.StructField("a", INNER),
        t.StructField("list", t.ArrayType(INNER)),
        t.StructField("map", t.MapType(t.STRING, t.LONG)),
    )
)


def test_columns_are_found_in_any_case_and_get_the_table_s() -> None:
    found = parse("ID = 1 AND A.b = 2 AND upper(REGION) = 'X' AND a.`C.D` = 'x'").resolve(SCHEMA)
    assert found.columns == {("Id",), ("a", "B"), ("Region",), ("a", "c.d")}


@pytest.mark.parametrize(
    ("text", "named", "near"),
    [
        ("regoin = 'x'", "no column regoin", "mean Region"),
        ("a.bb = 1", r"no column a\.bb", r"mean a\.B"),
        ("upper(regoin) = 'x'", "no column regoin", "Region"),
        ("zzz IS NULL", "no column zzz", "columns are: Id, day"),
        ("day.x = 1 AND nope = 1", "no column nope", ""),
    ],
)
def test_a_column_the_table_lacks_is_named_with_those_near(text: str, named: str, near: str) -> None:
    with pytest.raises(PredicateError, match=f"{named}.*{near}"):
        parse(text).resolve(SCHEMA)


@pytest.mark.parametrize("text", ["list.b = 1", "map.key = 1", "day.year = 2024"])
def test_what_lies_in_an_array_or_a_map_is_unknown(text: str) -> None:
    assert isinstance(parse(text).resolve(SCHEMA), Unknown)


def test_names_of_subqueries_and_lambdas_are_their_own() -> None:
    found = parse("id IN (SELECT other FROM elsewhere) AND exists(list, e -> e.b > 1)").resolve(SCHEMA)
    assert found.columns == {("Id",), ("list",)}


# ---------------------------------------------------------------------------- parts


def test_the_part_on_partition_columns_is_told_from_the_rest() -> None:
    predicate = parse(
        "day > '2024-01-01' AND id = 5 AND (region = 'x' OR DAY IS NULL) AND upper(region) = 'Y'"
    )
    mine, rest = predicate.split(["day", "region"])
    assert mine == parse("day > '2024-01-01' AND (region = 'x' OR DAY IS NULL)")
    assert rest == parse("id = 5 AND upper(region) = 'Y'")
    assert predicate.only(["region"]) == Constant(True)
    assert predicate.only(["Day"]) == parse("day > '2024-01-01'")


def test_nested_conjunctions_are_one() -> None:
    assert len(parse("a = 1 AND (b = 2 AND (c = 3 AND d = 4))").conjuncts()) == 4
    assert len(parse("a = 1 OR (b = 2 AND c = 3)").conjuncts()) == 1


def test_a_long_chain_is_no_deep_tree() -> None:
    text = " AND ".join(f"x != {i}" for i in range(2000))
    assert len(parse(text).conjuncts()) == 2000


@pytest.mark.parametrize(
    "text",
    [
        "x = 5",
        "a.`b c` <=> 'x'",
        "NOT (x IN (1, NULL) OR y IS NULL)",
        "x LIKE 'a%' AND TRUE",
        "x > DATE '2024-01-05' OR x != TIMESTAMP '2024-01-05 01:02:03.5'",
        "x < 1.5D AND x < -1.5 AND x = X'00ff' AND x = CAST('NaN' AS FLOAT)",
        "x = TIMESTAMP_NTZ '1969-01-05 01:02:03'",
        "upper(`x y`) = 'A'",
        "`true` AND s.`False` = 1 AND `null` IS NULL",
    ],
)
def test_a_predicate_prints_as_text_that_reads_the_same(text: str) -> None:
    assert str(parse(str(parse(text)))) == str(parse(text))
    assert parse(str(parse(text))).columns == parse(text).columns
