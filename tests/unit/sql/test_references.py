"""Where a query needs us, and that nothing else of its text is touched."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.sql.positions import Rewritten
from tidegate.sql.references import Changes, references, replaced, with_columns


def rewritten(text: str) -> str:
    """The text with each place spelled as what was understood of it."""

    def name(place: object) -> str:
        what = place.what  # type: ignore[attr-defined]  # a Found
        if isinstance(what, Changes):
            return f"<{what.function} {'|'.join(what.arguments)}>"
        travel = what.version or what.timestamp
        return f"<{what}{'' if travel is None else '@' + travel}>"

    return _unfilled(replaced(text, references(text), name))


def _unfilled(new: Rewritten) -> str:
    """The new text without the blanks that keep what follows in its place."""
    out, at = "", 0
    for _, _, start, end in new.spans:
        out += new.text[at:start] + new.text[start:end].rstrip()
        at = end
    return out + new.text[at:]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM delta.`/a b`", "SELECT * FROM <delta./a b>"),
        ("SELECT d.x FROM delta.`/p` d JOIN t", "SELECT d.x FROM <delta./p> d JOIN t"),
        ("SELECT * FROM t VERSION AS OF 3", "SELECT * FROM <t@3> AS `t`"),
        ("SELECT * FROM a.t FOR VERSION AS OF 3 x", "SELECT * FROM <a.t@3> x"),
        (
            "SELECT * FROM t TIMESTAMP AS OF '2024-01-01' WHERE a",
            "SELECT * FROM <t@'2024-01-01'> AS `t` WHERE a",
        ),
        ("SELECT * FROM t@v12", "SELECT * FROM <t@12> AS `t`"),
        ("SELECT * FROM t@20240131120000000 AS x", "SELECT * FROM <t@'2024-01-31 12:00:00.000'> AS x"),
        (
            "SELECT * FROM table_changes('t', 1, 1 + 1) c",
            "SELECT * FROM <table_changes 't'|1|1 + 1> c",
        ),
        (
            "WITH c AS (SELECT * FROM delta.`/p`@v1) SELECT * FROM c WHERE x IN (SELECT y FROM delta.`/q`)",
            "WITH c AS (SELECT * FROM <delta./p@1>) SELECT * FROM c WHERE x IN (SELECT y FROM <delta./q>)",
        ),
        ("SELECT delta.`/p`.a FROM delta.`/p`", "SELECT <delta./p>.a FROM <delta./p>"),
    ],
)
def test_what_needs_us_is_found(text: str, expected: str) -> None:
    assert rewritten(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "SELECT version AS of FROM t",
        "SELECT t.version AS of, 1 FROM t",
        "SELECT delta.a FROM delta",
        "SELECT 'delta.`/p`' -- delta.`/p`",
        "SELECT /* t VERSION AS OF 3 */ * FROM parquet.`/p`",
        "SELECT table_changes FROM t",
        "SELECT a@b",
        "FROM t |> WHERE x",
    ],
)
def test_what_does_not_need_us_is_left_alone(text: str) -> None:
    assert references(text) == []


_NAME = st.sampled_from(["a", "b1", "t", "db.t", "`odd name`", "version", "x.y.z", "delta_t"])
_VALUE = st.sampled_from(["1", "'x'", "'delta.`/p`'", "NULL", "a + 1", "f(a, b)", "CASE WHEN a THEN 1 END"])
_QUERY = st.builds(
    lambda columns, table, where, comment: (
        f"SELECT {', '.join(columns)} {comment} FROM {table}" + (f" WHERE {where} = 1" if where else "")
    ),
    st.lists(st.one_of(_NAME, _VALUE), min_size=1, max_size=4),
    _NAME,
    st.one_of(st.none(), _NAME),
    st.sampled_from(["", "/* delta.`/p` */", "-- t VERSION AS OF 1\n"]),
)


@given(st.lists(_QUERY, min_size=1, max_size=3).map(" UNION ALL ".join))
def test_a_query_that_does_not_speak_of_delta_stays_byte_for_byte(text: str) -> None:
    assert rewritten(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("y + v.y + V.`Y`", "`v`.`x` + v.`x` + V.`x`"),
        ("s.y + v.s.y + y(1)", "s.y + v.s.y + y(1)"),
        ("a - b", "`v`.`b` - `v`.`a`"),
        # What a subquery names is its own.
        ("y + (SELECT max(y) FROM y)", "`v`.`x` + (SELECT max(y) FROM y)"),
        ("((WITH q AS (SELECT y) SELECT y)) + y", "((WITH q AS (SELECT y) SELECT y)) + `v`.`x`"),
        # So is the variable of a lambda, as far as the lambda goes.
        ("transform(y, y -> y + a) || y", "transform(`v`.`x`, y -> y + `v`.`b`) || `v`.`x`"),
        ("f(m, (y, a) -> (y, a), y)", "f(m, (y, a) -> (y, a), `v`.`x`)"),
        ("transform(m, x -> x + y)", "transform(m, x -> x + `v`.`x`)"),
        # Types, aliases and units are no columns.
        ("date < DATE '2020-01-01'", "`v`.`d` < DATE '2020-01-01'"),
        ("CAST(y AS date) = date::date", "CAST(`v`.`x` AS date) = `v`.`d`::date"),
        ("struct(1 AS a, b AS b)", "struct(1 AS a, `v`.`a` AS b)"),
        (
            "date + INTERVAL 1 day + INTERVAL '1' day + day",
            "`v`.`d` + INTERVAL 1 day + INTERVAL '1' day + `v`.`z`",
        ),
    ],
)
def test_columns_are_called_otherwise_where_they_are_the_rows(text: str, expected: str) -> None:
    names = {"y": "x", "a": "b", "b": "a", "date": "d", "day": "z"}
    assert with_columns(text, names, "v") == expected
