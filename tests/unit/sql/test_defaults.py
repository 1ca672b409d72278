"""DEFAULT as a value: what it stands for, and where it is only a name."""

from __future__ import annotations

import pytest

from tidegate.errors import PredicateError
from tidegate.schema.types import StructType, parse_schema
from tidegate.sql.defaults import in_assignments, in_query

SCHEMA = """{"type": "struct", "fields": [
    {"name": "a", "type": "integer", "nullable": true, "metadata": {}},
    {"name": "b", "type": "string", "nullable": true,
     "metadata": {"CURRENT_DEFAULT": "'d'", "EXISTS_DEFAULT": "'d'"}}]}"""
NULL, WORD = "CAST((NULL) AS int)", "CAST(('d') AS string)"


@pytest.fixture
def schema() -> StructType:
    return parse_schema(SCHEMA)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("VALUES (1, DEFAULT), (default, 'x')", f"VALUES (1, {WORD}), ({NULL}, 'x')"),
        ("VALUES (f(1, 2), DEFAULT)", f"VALUES (f(1, 2), {WORD})"),
        ("VALUES (DEFAULT, DEFAULT) -- DEFAULT", f"VALUES ({NULL}, {WORD}) -- DEFAULT"),
        ("SELECT 1, DEFAULT", f"SELECT 1, {WORD}"),
        ("SELECT DEFAULT AS a, b FROM s", f"SELECT {NULL} AS a, b FROM s"),
        ("VALUES ('DEFAULT', `default`)", "VALUES ('DEFAULT', `default`)"),
        ("SELECT t.default, x AS default FROM t", "SELECT t.default, x AS default FROM t"),
        ("SELECT a FROM s WHERE default = 1", "SELECT a FROM s WHERE default = 1"),
        ("TABLE default", "TABLE default"),
    ],
)
def test_default_in_the_query_of_an_insert(schema: StructType, text: str, expected: str) -> None:
    assert in_query(text, ["a", "b"], schema) == expected


def test_default_goes_by_the_columns_that_the_statement_names(schema: StructType) -> None:
    assert in_query("VALUES (DEFAULT, 1)", ["b", "a"], schema) == f"VALUES ({WORD}, 1)"


@pytest.mark.parametrize(
    "text", ["VALUES (1, DEFAULT + 1)", "VALUES (upper(DEFAULT), 1)", "SELECT -DEFAULT, 1"]
)
def test_default_within_an_expression_is_refused(schema: StructType, text: str) -> None:
    with pytest.raises(PredicateError, match="by itself") as caught:
        in_query(text, ["a", "b"], schema)
    assert caught.value.errorClass == "DEFAULT_PLACEMENT_INVALID"


def test_default_in_assignments(schema: StructType) -> None:
    found = in_assignments([("t.b", "DEFAULT"), ("a", "default"), ("`b`", "concat(b, 'DEFAULT')")], schema)
    assert found == {"t.b": WORD, "a": NULL, "`b`": "concat(b, 'DEFAULT')"}
    assert in_assignments(None, schema) is None
    with pytest.raises(PredicateError):
        in_assignments([("a", "DEFAULT + 1")], schema)
