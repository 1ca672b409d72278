"""Tables small enough to be judged row by row: the yardstick for skipping.

Rows are plain Python values; predicates are small tuples that render to SQL and are evaluated here with
Spark's three-valued logic, apart from the code under test. Statistics are written as real writers do,
with all their habits: cut strings, milliseconds, zones, NaN, wide bounds, decimals through doubles.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from functools import cache, lru_cache
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tidegate.files import partitions, stats
from tidegate.schema import types as t

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MAP = pa.map_(pa.string(), pa.string())


def single(value: float) -> float:
    """The nearest float of 32 bits."""
    return float(struct.unpack("f", struct.pack("f", value))[0])


def at(*parts: int) -> int:
    """Microseconds of a moment in UTC."""
    return (datetime(*parts, tzinfo=timezone.utc) - EPOCH) // timedelta(microseconds=1)


def moment(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)


# ---------------------------------------------------------------------------- columns and values

LONG = "x" * 31
POOLS: dict[str, list[Any]] = {
    "long": [-(2**63), -(2**53) - 1, -2, -1, 0, 1, 2, 3, 2**53, 2**53 + 1, 2**63 - 1],
    "integer": [-(2**31), -2, -1, 0, 1, 2, 3, 2**31 - 1],
    "double": [-math.inf, -1e308, -1.5, -0.0, 0.0, 5e-324, 0.1, 1.0, 1.5, 2.0**53, 1e308, math.inf, math.nan],
    "float": [-math.inf, -1.5, -0.0, 0.0, single(0.1), single(3.4), 1.0, 16777216.0, math.inf, math.nan],
    "string": [
        "", "a", "ab", "abc", "a\x7f", "b", "é", "\ufffd", "\uffff", "😀", LONG, LONG + "a", LONG + "ab",
        LONG + "a😀", LONG + "😀", LONG + "😀b", LONG + "x\uffffz", LONG + "x" * 9, "\U0010ffff" * 20,
        LONG + "x\U0010ffff\U0010ffffq",
    ],
    "date": [date(1, 1, 1), date(1899, 12, 31), date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29),
             date(2024, 3, 1), date(9999, 12, 31)],
    "timestamp": [at(1, 1, 1), at(1850, 5, 5, 1, 2, 3, 456789), at(1969, 12, 31, 23, 59, 59, 999999), 0, 1,
                  999, 1000, at(2024, 1, 1), at(2024, 1, 1, 0, 0, 0, 1), at(2024, 1, 1, 12, 30, 1, 123456),
                  at(2024, 1, 1, 12, 30, 1, 123000), at(9999, 12, 31, 23, 59, 59, 999999)],
    "decimal(10,2)": [Decimal(v) for v in ("-99999999.99", "-1.50", "0.00", "0.01", "1.50", "1.51",
                                           "99999999.99")],
    "decimal(38,18)": [Decimal(v) for v in (
        "-99999999999999999999.999999999999999999", "-1.500000000000000001", "0.000000000000000000",
        "0.100000000000000000", "1.500000000000000000", "1.500000000000000001", "1.499999999999999999",
        "12345678901234567890.123456789012345678", "12345678901234567890.123456789012345679")],
    "boolean": [False, True],
}  # fmt: skip
POOLS["timestamp_ntz"] = POOLS["timestamp"]

COLUMNS: dict[str, str] = {
    "i": "long", "n": "integer", "x": "double", "f": "float", "s": "string", "d": "date", "t": "timestamp",
    "u": "timestamp_ntz", "m": "decimal(10,2)", "w": "decimal(38,18)", "b": "boolean", "st.v": "long",
    "st.deep.z": "string",
}  # fmt: skip
PARTITIONS: dict[str, str] = {
    "pl": "long", "px": "double", "pf": "float", "ps": "string", "pd": "date", "pt": "timestamp",
    "pu": "timestamp_ntz", "pm": "decimal(10,2)", "pb": "boolean",
}  # fmt: skip
TYPES = {**COLUMNS, **PARTITIONS}


def schema(mapped: bool = False) -> t.StructType:
    """The table's schema, with physical names of its own when ``mapped``."""

    def field(name: str, type: t.DataType) -> t.StructField:
        physical = {"delta.columnMapping.physicalName": f"col-{name}", "delta.columnMapping.id": 1}
        return t.StructField(name, type, True, physical if mapped else {})

    def primitive(name: str) -> t.DataType:
        return t.parse_type(name)

    deep = t.StructType((field("z", t.STRING),))
    nested = t.StructType((field("v", t.LONG), field("deep", deep)))
    plain = [field(c, primitive(k)) for c, k in TYPES.items() if "." not in c]
    return t.StructType((*plain, field("st", nested)))


# ---------------------------------------------------------------------------- predicates

COMPARE, IN, NULL, PREFIX, AND, OR, NOT, OPAQUE = (
    "compare",
    "in",
    "null",
    "prefix",
    "and",
    "or",
    "not",
    "opaque",
)
OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "<=>")


@dataclass(frozen=True)
class Lit:
    """A literal: how it is written, and what it is."""

    sql: str
    kind: str
    value: Any


@cache
def literals(kind: str) -> tuple[Lit, ...]:
    """Literals that users write against a column of a kind: near its values, in several types."""
    base = POOLS[kind]
    if kind in ("long", "integer"):
        small = [v for v in base if abs(v) < 10**6]
        return (
            *(_int_lit(v) for v in base),
            *(_int_lit(v + 1) for v in base),
            *(_decimal_lit(Decimal(v) + Decimal("0.5")) for v in small),
            *(_double_lit(float(v)) for v in base),
            *(Lit(f"'{v}'", "exact", Fraction(v)) for v in small),
            _decimal_lit(Decimal("1e30")),
            _double_lit(math.nan),
            _double_lit(1.5),
        )
    if kind in ("double", "float"):
        decimals = (Decimal(v) for v in ("0.1", "3.4", "1.5", "-1.50"))
        return (
            *map(_double_lit, base),
            *map(_decimal_lit, decimals),
            *map(_int_lit, (0, 1, -2, 16777216)),
        )
    if kind.startswith("decimal"):
        others = (Decimal(v) for v in ("1.505", "0.005", "-1.5", "1.5000", "100000000000"))
        return (*map(_decimal_lit, base), *map(_decimal_lit, others), *map(_int_lit, (0, 1, -2, 2**40)))
    if kind == "string":
        return tuple(Lit(f"'{v}'", "string", v.encode()) for v in base)
    if kind == "date":
        texts = [(v, v.isoformat()) for v in base]
        return tuple(Lit(f"{how}'{text}'", "date", v) for v, text in texts for how in ("DATE ", ""))
    if kind in ("timestamp", "timestamp_ntz"):
        days = POOLS["date"]
        return (
            *(Lit(f"{how}'{_local(v)}'", "micros", v) for v in base for how in ("TIMESTAMP ", "")),
            *(Lit(f"DATE '{d.isoformat()}'", "micros", at(d.year, d.month, d.day)) for d in days),
        )
    return tuple(Lit(str(v).upper(), "boolean", v) for v in base)


PREFIXES = ("", "a", "ab", LONG, LONG + "x", "😀", "\uffff", "é")


def every_leaf(column: str) -> list[Any]:
    """All comparisons of a column with all literals."""
    kind = TYPES[column]
    out: list[Any] = [(COMPARE, column, o, v) for o in OPERATORS for v in literals(kind)]
    out.append((NULL, column))
    if kind == "string":
        out += [(PREFIX, column, p) for p in PREFIXES]
    return out


def _local(micros: int) -> str:
    return moment(micros).replace(tzinfo=None).isoformat(" ")


def _int_lit(value: int) -> Lit:
    return Lit(str(value), "exact", Fraction(value))


def _decimal_lit(value: Decimal) -> Lit:
    return Lit(f"{value:f}" if value.as_tuple().exponent else f"{value:f}.0", "exact", Fraction(value))


def _double_lit(value: float) -> Lit:
    if math.isnan(value):
        return Lit("CAST('NaN' AS DOUBLE)", "double", value)
    if math.isinf(value):
        return Lit(f"double('{'-' if value < 0 else ''}Infinity')", "double", value)
    return Lit(f"{value!r}D" if "e" not in repr(value) else f"{value!r}", "double", value)


def leaves(columns: dict[str, str]) -> st.SearchStrategy[Any]:
    def on(column: str) -> st.SearchStrategy[Any]:
        return st.one_of(st.sampled_from(every_leaf(column)), _lists(column))

    return st.sampled_from(sorted(columns)).flatmap(on)


def _lists(column: str) -> st.SearchStrategy[Any]:
    """Lists as people write them: of one type, sometimes with a null."""
    by_type: dict[str, list[Lit]] = {}
    for lit in literals(TYPES[column]):
        by_type.setdefault(_sql_type(lit), []).append(lit)
    null = Lit("NULL", "null", None)
    some = st.sampled_from(sorted(by_type)).flatmap(
        lambda kind: st.lists(st.sampled_from(by_type[kind]), min_size=1, max_size=20)
    )
    return st.builds(lambda vs, n: (IN, column, [*vs, *[null] * n]), some, st.booleans())


def _sql_type(lit: Lit) -> str:
    if lit.kind == "double":
        return "double"
    return "quoted" if lit.sql.startswith("'") else lit.sql.split("'")[0] if "'" in lit.sql else "number"


def predicates(columns: dict[str, str]) -> st.SearchStrategy[Any]:
    opaque = st.sampled_from(sorted(columns)).map(lambda c: (OPAQUE, c))
    return st.recursive(
        leaves(columns) | leaves(columns) | leaves(columns) | opaque,
        lambda inner: st.one_of(
            st.tuples(st.sampled_from([AND, OR]), st.lists(inner, min_size=2, max_size=3)),
            st.tuples(st.just(NOT), inner),
        ),
        max_leaves=4,
    )


def sql(p: Any) -> str:
    """The predicate as a user would write it."""
    if p[0] == COMPARE:
        return f"{p[1]} {p[2]} {p[3].sql}"
    if p[0] == IN:
        return f"{p[1]} IN ({', '.join(v.sql for v in p[2])})"
    if p[0] == NULL:
        return f"{p[1]} IS NULL"
    if p[0] == PREFIX:
        return f"{p[1]} LIKE '{p[2]}%'"
    if p[0] == NOT:
        return f"NOT ({sql(p[1])})"
    if p[0] == OPAQUE:
        return f"coalesce({p[1]}, {p[1]}) IS NOT NULL"
    return f" {p[0].upper()} ".join(f"({sql(part)})" for part in p[1])


def evaluate(p: Any, row: dict[str, Any]) -> bool | None:
    """What Spark says of a row: true, false or null."""
    if p[0] in (AND, OR):
        answers = [evaluate(part, row) for part in p[1]]
        deciding = p[0] == OR
        return deciding if deciding in answers else None if None in answers else not deciding
    if p[0] == NOT:
        answer = evaluate(p[1], row)
        return None if answer is None else not answer
    value = row[p[1]]
    if p[0] == NULL:
        return value is None
    if p[0] == OPAQUE:
        return value is not None
    if p[0] == COMPARE and p[2] == "<=>":
        return value is not None and compare(value, TYPES[p[1]], "=", p[3])
    if value is None:
        return None
    if p[0] == PREFIX:
        return str(value).startswith(p[2])
    if p[0] == IN:
        if any(v.value is not None and compare(value, TYPES[p[1]], "=", v) for v in p[2]):
            return True
        return None if any(v.kind == "null" for v in p[2]) else False
    return compare(value, TYPES[p[1]], p[2], p[3])


def compare(value: Any, kind: str, operator: str, literal: Lit) -> bool:
    left, right = _comparable(value, kind, literal)
    if isinstance(left, float):
        # NaN equals itself and is above everything.
        left, right = ((math.isnan(v), 0.0 if math.isnan(v) else v) for v in (left, right))
    return {
        "=": left == right,
        "!=": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[operator]


def _comparable(value: Any, kind: str, literal: Lit) -> tuple[Any, Any]:
    if kind in ("double", "float") or literal.kind == "double":
        return float(value), float(literal.value)
    if literal.kind == "exact":
        return Fraction(value), literal.value
    return (value.encode() if kind == "string" else value), literal.value


# ---------------------------------------------------------------------------- files


@dataclass(frozen=True)
class Habits:
    """What a writer does with its statistics."""

    nan: str = "named"  # or ignored
    zone: int | None = 0  # minutes, None for an offset that once had seconds
    cut: str = "delta"  # plain, old
    decimals: str = "exact"  # double
    skipped: frozenset[str] = frozenset()
    no_null_count: bool = False
    wide: bool = False


@dataclass(frozen=True)
class File:
    partition: dict[str, Any]
    rows: list[dict[str, Any]]
    deleted: list[dict[str, Any]]
    habits: Habits
    stats: dict[str, Any] | None

    def matches(self, p: Any) -> bool:
        return any(evaluate(p, {**row, **self.partition}) is True for row in self.rows)


@lru_cache(maxsize=16)
def files(seed: int, count: int = 40) -> tuple[File, ...]:
    """Files made of a seed: hypothesis draws a table as one number, and its time goes into predicates."""
    random = Random(seed)
    return tuple(_file(random) for _ in range(count))


def _row(random: Random, columns: dict[str, str]) -> dict[str, Any]:
    # One value out of few: files share their ends with each other and with literals.
    return {c: None if random.random() < 0.15 else random.choice(POOLS[k]) for c, k in columns.items()}


def _file(random: Random) -> File:
    partition = _row(random, PARTITIONS)
    # An empty string is null once it is a partition value.
    partition["ps"] = partition["ps"] or None
    habits = Habits(
        nan=random.choice(["named", "ignored"]),
        zone=random.choice([0, -480, 330, None]),
        cut=random.choice(["delta", "plain", "old"]),
        decimals=random.choice(["exact", "double"]),
        skipped=frozenset(random.sample(sorted(COLUMNS), random.choice([0, 0, 1, 2]))),
        no_null_count=random.random() < 0.2,
        wide=random.random() < 0.3,
    )
    live = [_row(random, COLUMNS) for _ in range(random.choice([0, 1, 1, 2, 3]))]
    deleted = [_row(random, COLUMNS) for _ in range(random.randint(0, 2))] if habits.wide else []
    known = random.random() < 0.9
    return File(partition, live, deleted, habits, statistics(live, deleted, habits) if known else None)


def statistics(live: list[Any], deleted: list[Any], habits: Habits) -> dict[str, Any]:
    physical = live + deleted
    out: dict[str, Any] = {"numRecords": len(physical), "minValues": {}, "maxValues": {}, "nullCount": {}}
    if habits.wide:
        out["tightBounds"] = False
    for column, kind in COLUMNS.items():
        if column in habits.skipped:
            continue
        values = [row[column] for row in physical if row[column] is not None]
        nulls = len(physical) - len(values)
        if habits.wide and all(row[column] is None for row in live):
            nulls = len(physical)
        if not habits.no_null_count:
            _put(out["nullCount"], column, nulls)
        low, high = _ends(values, kind, habits)
        if low is not None:
            _put(out["minValues"], column, low)
        if high is not None:
            _put(out["maxValues"], column, high)
    return out


def _put(target: dict[str, Any], path: str, value: Any) -> None:
    *parents, name = path.split(".")
    for parent in parents:
        target = target.setdefault(parent, {})
    target[name] = value


def _ends(values: list[Any], kind: str, habits: Habits) -> tuple[Any, Any]:
    if kind == "boolean":
        return None, None
    if kind in ("double", "float"):
        if habits.nan == "ignored":
            values = [v for v in values if not math.isnan(v)]
        if not values:
            return None, None
        ordered = sorted(values, key=lambda v: (math.isnan(v), 0.0 if math.isnan(v) else v))
        return tuple(_float_text(v, kind) for v in (ordered[0], ordered[-1]))
    if not values:
        return None, None
    if kind == "string":
        return _string_ends(values, habits)
    low, high = min(values), max(values)
    if kind == "date":
        return low.isoformat(), high.isoformat()
    if kind in ("timestamp", "timestamp_ntz"):
        return tuple(_timestamp_text(v, kind, habits) for v in (low, high))
    if kind.startswith("decimal"):
        return tuple(_decimal_number(v, habits) for v in (low, high))
    return low, high


def _float_text(value: float, kind: str) -> Any:
    if math.isfinite(value):
        # Java prints a float with the digits of a float.
        return float(f"{value:.9g}") if kind == "float" else value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _string_ends(values: list[str], habits: Habits) -> tuple[str, str | None]:
    low = stats.truncate_min(min(values, key=str.encode))
    highest = max(values, key=str.encode)
    units = highest.encode("utf-16-le")
    if habits.cut == "delta":
        return low, stats.truncate_max(highest)
    if habits.cut == "plain" or len(units) <= 64:
        return low, units[:64].decode("utf-16-le", "ignore")
    # Java once cut in the middle of a pair, kept characters from U+FFFD on, and wrote a question
    # mark for the half of the pair.
    end = 64
    while units[end : end + 2] and int.from_bytes(units[end : end + 2], "little") >= 0xFFFD:
        end += 2
    kept = units[:end].decode("utf-16-le", "surrogatepass").encode("utf-8", "replace").decode()
    return low, kept + "\ufffd"


def _timestamp_text(micros: int, kind: str, habits: Habits) -> str:
    floored = micros // 1000 * 1000
    if kind == "timestamp_ntz":
        return moment(floored).replace(tzinfo=None).isoformat("T", "milliseconds")
    minutes = habits.zone
    seconds = 0
    if minutes is None:
        # Los Angeles was 7:52:58 behind until 1883, of which texts keep the minutes.
        minutes, seconds = (-472, -58) if micros < at(1883, 11, 18) else (-480, 0)
    try:
        local = moment(floored) + timedelta(minutes=minutes, seconds=seconds)
    except OverflowError:
        minutes, local = 0, moment(floored)
    sign, size = ("-" if minutes < 0 else "+"), abs(minutes)
    zone = "Z" if minutes == 0 else f"{sign}{size // 60:02}:{size % 60:02}"
    return local.replace(tzinfo=None).isoformat("T", "milliseconds") + zone


def _decimal_number(value: Decimal, habits: Habits) -> Any:
    return float(value) if habits.decimals == "double" else value


def to_table(found: Sequence[File], *, mapped: bool = False, parsed: str = "no") -> pa.Table:
    """Files as the log has them. ``parsed``: no, all, or some rows with ``stats_parsed`` instead of JSON."""

    def serialized(column: str, value: Any) -> tuple[str, str | None]:
        kind = PARTITIONS[column]
        if value is not None and kind.startswith("timestamp"):
            value = moment(value)
        return f"col-{column}" if mapped else column, partitions.serialize(value, t.parse_type(kind))

    maps = [[serialized(c, v) for c, v in f.partition.items()] for f in found]
    texts = [None if f.stats is None else to_json(f.stats, "col-" if mapped else "") for f in found]
    columns: dict[str, Any] = {
        "partitionValues": pa.array(maps, MAP),
        "stats": pa.array(texts, pa.string()),
    }
    if parsed != "no":
        physical = schema(mapped)
        if mapped:
            physical = physical.transform(lambda _, f: f.with_name(f"col-{f.name}"))
        names = [f"col-{c}" if mapped else c for c in PARTITIONS]
        struct_type = stats.stats_type(physical, names, num_indexed=-1)
        odd = [parsed == "all" or i % 2 == 0 for i in range(len(found))]
        taken = pa.array([text if o else None for text, o in zip(texts, odd, strict=True)], pa.string())
        columns["stats_parsed"] = stats.decode(taken, struct_type)
        columns["stats"] = pa.array(
            [None if o else text for text, o in zip(texts, odd, strict=True)], pa.string()
        )
    return pa.table(columns)


def to_json(value: Any, rename: str = "", depth: int = 0) -> str:
    """JSON with every digit of a decimal; ``rename`` is put before the names of columns."""
    if isinstance(value, dict):
        prefix = rename if depth else ""
        members = (f"{json.dumps(prefix + k)}:{to_json(v, rename, depth + 1)}" for k, v in value.items())
        return "{" + ",".join(members) + "}"
    return f"{value:f}" if isinstance(value, Decimal) else json.dumps(value)
