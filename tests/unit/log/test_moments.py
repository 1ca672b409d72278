"""Moments as text: exact within the calendar, its last and first moment beyond."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate
from support.tables import RawTable
from tidegate.errors import TimestampOutOfRangeError
from tidegate.log.history import version_at
from tidegate.log.moments import text_of, time_of
from tidegate.log.table_log import TableLog
from tidegate.opening import milliseconds

FIRST, LAST = -62_135_596_800_000, 253_402_300_799_999


@given(st.integers(FIRST, LAST))
def test_a_moment_is_read_as_it_was_written(moment: int) -> None:
    assert milliseconds(text_of(moment)) == moment


@given(st.integers())
def test_every_moment_has_a_text(moment: int) -> None:
    assert milliseconds(text_of(moment)) == min(max(moment, FIRST), LAST)
    assert time_of(moment).tzinfo is timezone.utc


@pytest.mark.parametrize(
    ("moment", "says"), [(1_700_000_000_000_000, "9999-12-31"), (-(10**17), "0001-01-01")]
)
def test_a_time_beyond_the_calendar_is_out_of_range_like_any_other(moment: int, says: str) -> None:
    table = RawTable()
    table.create()
    with pytest.raises(TimestampOutOfRangeError, match=says):
        version_at(TableLog(table.store), moment)


def test_the_end_of_time_west_of_greenwich_is_out_of_range(tmp_path: object) -> None:
    from tidegate.commands.create import Definition, create
    from tidegate.schema.types import LONG, StructField, StructType

    log = TableLog.at(str(tmp_path))
    create(log, Definition(StructType((StructField("id", LONG),))))
    for moment in ("9999-12-31T23:59:59-08:00", datetime.max):
        with pytest.raises(TimestampOutOfRangeError, match="after the latest version"):
            tidegate.open(str(tmp_path), timestamp=moment)
