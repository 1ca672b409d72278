"""Which columns an expression speaks of."""

from __future__ import annotations

import pytest

from tidegate.schema.references import functions, references, speaks_of


@pytest.mark.parametrize(
    ("sql", "paths"),
    [
        ("id > 0", {("id",)}),
        ("ID > 0 AND `odd name` = 'id2'", {("id",), ("odd name",)}),
        ("s.x.y + a.b", {("s", "x", "y"), ("a", "b")}),
        ("cast(at as date)", {("at",)}),
        ("true", set()),
    ],
)
def test_columns_are_found_with_their_levels(sql: str, paths: set[tuple[str, ...]]) -> None:
    assert references(sql) == paths


def test_what_does_not_parse_speaks_of_every_word() -> None:
    assert speaks_of("id >>> ((", ("id",))
    assert speaks_of("f(Map(mode -> FAILFAST), id)", ("id",))


def test_a_column_counts_with_what_is_inside_it_and_around_it() -> None:
    assert speaks_of("s.x > 1", ("s",))
    assert speaks_of("s.x > 1", ("S", "X"))
    assert speaks_of("s.x > 1", ("s", "x", "deeper"))
    assert not speaks_of("s.x > 1", ("s", "y"))
    assert not speaks_of("s.x > 1", ("x",))


def test_functions_are_known_to_every_spark_or_not() -> None:
    assert functions("abs(current_price) + my_f(x.y)") == ({"abs"}, {"my_f"})
    assert functions("current_date") == ({"current_date"}, set())
    assert functions("a + 1") == (set(), set())
