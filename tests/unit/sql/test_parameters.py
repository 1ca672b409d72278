"""Parameters as literals: each kind of value, and only where a parameter stands."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from tidegate.errors import OptionError
from tidegate.sql.parameters import bound, literal


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        (True, "TRUE"),
        (7, "7"),
        (2**40, f"{2**40}L"),
        (1.5, "1.5D"),
        (float("nan"), "double('nan')"),
        (Decimal("1.10"), "1.10BD"),
        ("it's \\", "'it\\'s \\\\'"),
        (b"\x01\xff", "X'01ff'"),
        (date(2024, 1, 2), "DATE '2024-01-02'"),
        (datetime(2024, 1, 2, 3, 4), "TIMESTAMP_NTZ '2024-01-02 03:04:00'"),
        (
            datetime(2024, 1, 2, 3, 4, tzinfo=timezone(timedelta(hours=1))),
            "TIMESTAMP '2024-01-02 02:04:00Z'",
        ),
    ],
)
def test_a_value_as_a_literal(value: Any, text: str) -> None:
    assert literal(value) == text


def test_named_parameters_are_put_in_where_they_stand() -> None:
    text = "DELETE FROM t WHERE a = :x AND b = ':x' AND c = :y -- :x"
    assert bound(text, {"x": "1'", "y": 2}) == "DELETE FROM t WHERE a = '1\\'' AND b = ':x' AND c = 2 -- :x"


def test_positional_parameters_go_in_order() -> None:
    assert bound("UPDATE t SET a = ?, b = '?' WHERE c = ?", [1, None]) == (
        "UPDATE t SET a = 1, b = '?' WHERE c = NULL"
    )
    with pytest.raises(OptionError, match="more than the 1"):
        bound("SELECT ?, ?", [1])


def test_a_value_that_is_no_literal_is_refused() -> None:
    with pytest.raises(OptionError, match="dict"):
        bound("SELECT :a", {"a": {}})
