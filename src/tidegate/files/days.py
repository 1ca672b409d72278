"""Dates of any year as days since 1970 and back, where Python's and Arrow's own end with the year 9999.

Written as Spark writes them: years from 0 to 9999 with four digits, any other with its sign. Nothing but the
standard library is needed: this travels to executors by value.
"""

from __future__ import annotations

import re

_ERA, _TO_MARCH = 146_097, 719_468
_DATE = re.compile(r"([+-]?\d{4,7})-(\d{1,2})-(\d{1,2})")


def date_text(days: int) -> str:
    """A date of the proleptic Gregorian calendar."""
    era, of_era = divmod(days + _TO_MARCH, _ERA)
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * of_year + 2) // 153
    day = of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    year = year_of_era + era * 400 + (month <= 2)
    sign = "+" if year > 9999 else "-" if year < 0 else ""
    return f"{sign}{abs(year):04}-{month:02}-{day:02}"


def split_date(text: str) -> tuple[int, str] | None:
    """The days of the date that a text begins with, and what comes after it; None if it is no date."""
    found = _DATE.match(text)
    if found is None:
        return None
    year, month, day = (int(part) for part in found.groups())
    shifted = month - 3 if month > 2 else month + 9
    era, year_of_era = divmod(year - (month <= 2), 400)
    of_year = (153 * shifted + 2) // 5 + day - 1
    of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + of_year
    days = era * _ERA + of_era - _TO_MARCH
    # The 31st of a month of 30 days is another day.
    again = date_text(days).rsplit("-", 2)
    return (days, text[found.end() :]) if (int(again[1]), int(again[2])) == (month, day) else None
