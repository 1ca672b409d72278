"""Which types turn into others by themselves, as Spark's implicit casts do.

A MERGE whose schema may evolve refuses a source whose columns are not of such types, before it looks at a
single value. Under the strict policy only types are taken whose every value fits, and a write to a path
takes none that would lose something without a word.
"""

from __future__ import annotations

from collections.abc import Callable

from tidegate.schema.paths import Path
from tidegate.schema.types import (
    BINARY,
    DATE,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructType,
)

_NUMBERS = frozenset({"byte", "short", "integer", "long", "float", "double"})
_TIMES = frozenset({"date", "timestamp", "timestamp_ntz"})

# Each becomes every one behind it; a decimal of so many digits holds a whole number.
_GROWING = ("byte", "short", "integer", "long", "float", "double")
_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 20}
_SAME_TIMES = frozenset(
    {
        ("date", "timestamp"),
        ("date", "timestamp_ntz"),
        ("timestamp_ntz", "timestamp"),
        ("timestamp", "timestamp_ntz"),
        ("timestamp", "long"),
        ("long", "timestamp"),
    }
)

Unequal = tuple[Path, DataType, DataType]


def turns_into(data: DataType, table: DataType) -> bool:
    """Whether a value of one simple type becomes one of another without being asked to."""
    if data == table or VOID in (data, table):
        return True
    if not (_is_simple(data) and _is_simple(table)):
        return False
    if table == STRING:
        return True
    if data == STRING:
        return table == BINARY or _is_number(table) or _is_time(table)
    return (_is_number(data) and _is_number(table)) or (_is_time(data) and _is_time(table))


def up_casts(data: DataType, table: DataType) -> bool:
    """Whether every value of one simple type fits into another, as Spark's ``UpCast`` sees it."""
    if data in (table, VOID):
        return True
    if not (_is_simple(data) and _is_simple(table)):
        return False
    if table == STRING:
        return True
    if isinstance(data, DecimalType):
        if isinstance(table, DecimalType):
            return _holds(table, data.precision, data.scale)
        digits = _DIGITS.get(getattr(table, "name", ""))
        return digits is not None and data.scale == 0 and data.precision < digits
    before = getattr(data, "name", "")
    if isinstance(table, DecimalType):
        return before in _DIGITS and _holds(table, _DIGITS[before], 0)
    after = getattr(table, "name", "")
    if before in _GROWING and after in _GROWING:
        return _GROWING.index(before) <= _GROWING.index(after)
    return (before, after) in _SAME_TIMES


def _holds(table: DecimalType, precision: int, scale: int) -> bool:
    return table.precision - table.scale >= precision - scale and table.scale >= scale


def loses(data: DataType, table: DataType) -> bool:
    """Whether a cast between two simple types takes something from a value and does not fail.

    Fractions, digits behind the point and the time of a day get lost so; what is too large fails. That a
    float has no more digits is for whoever chose that type.
    """
    if data == table or not (_is_simple(data) and _is_simple(table)):
        return False
    if isinstance(table, DecimalType):
        return _is_float(data) or (isinstance(data, DecimalType) and data.scale > table.scale)
    if getattr(table, "name", "") in _DIGITS:
        return _is_float(data) or (isinstance(data, DecimalType) and data.scale > 0)
    return table == DATE and data in (TIMESTAMP, TIMESTAMP_NTZ)


def not_merging(table: DataType, data: DataType) -> Unequal | None:
    """The first place where data of one type does not go into a table of another, and both types there."""
    return _first_apart(table, data, turns_into, ())


def losing(table: DataType, data: DataType) -> Unequal | None:
    """The first place where a table would take something from the values of data, and both types there."""
    return _first_apart(table, data, lambda given, want: not loses(given, want), ())


def _first_apart(
    table: DataType, data: DataType, together: Callable[[DataType, DataType], bool], path: Path
) -> Unequal | None:
    if isinstance(table, StructType) and isinstance(data, StructType):
        for f in data.fields:
            there = table.field(f.name)
            found = None if there is None else _first_apart(there.type, f.type, together, (*path, f.name))
            if found is not None:
                return found
        return None
    if isinstance(table, ArrayType) and isinstance(data, ArrayType):
        return _first_apart(table.element, data.element, together, (*path, "element"))
    if isinstance(table, MapType) and isinstance(data, MapType):
        keys = _first_apart(table.key, data.key, together, (*path, "key"))
        return keys or _first_apart(table.value, data.value, together, (*path, "value"))
    return None if together(data, table) else (path, table, data)


def _is_simple(kind: DataType) -> bool:
    return isinstance(kind, PrimitiveType | DecimalType)


def _is_number(kind: DataType) -> bool:
    return isinstance(kind, DecimalType) or (isinstance(kind, PrimitiveType) and kind.name in _NUMBERS)


def _is_float(kind: DataType) -> bool:
    return isinstance(kind, PrimitiveType) and kind.name in ("float", "double")


def _is_time(kind: DataType) -> bool:
    return isinstance(kind, PrimitiveType) and kind.name in _TIMES
