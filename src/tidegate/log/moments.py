"""Moments as people write them: milliseconds since 1970 as a date and a time, in UTC.

The calendar of Python ends with the year 9999 and begins with the year 1, Spark's does not. What lies beyond
is the last or the first moment: no commit is that late, or that early.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MILLISECOND = timedelta(milliseconds=1)
_FIRST = (datetime(1, 1, 1, tzinfo=timezone.utc) - _EPOCH) // _MILLISECOND
_LAST = (datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=timezone.utc) - _EPOCH) // _MILLISECOND


def time_of(moment: int) -> datetime:
    """``moment`` as a time in UTC."""
    return _EPOCH + min(max(moment, _FIRST), _LAST) * _MILLISECOND


def moment_of(time: datetime) -> int:
    """A time that knows its zone as milliseconds since 1970, to the millisecond."""
    return (time - _EPOCH) // _MILLISECOND


def text_of(moment: int) -> str:
    """``moment`` as ISO 8601 text in UTC, with milliseconds."""
    return time_of(moment).isoformat(timespec="milliseconds")
