"""Statistics that other engines wrote, against the data they wrote: bounds must enclose every value."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tidegate.errors import TidegateError
from tidegate.files import comparisons as cmp
from tidegate.files import stats
from tidegate.files.bounds import FileColumns, Need
from tidegate.schema.mapping import Mode, parse_mode
from tidegate.schema.types import StructType, parse_schema

MAP = pa.map_(pa.string(), pa.string())

# The writer of the first put a minimum above its values (delta-rs issue 1374). In the others dates
# before 1582 are in the Julian calendar: Spark moves them when it reads, Arrow does not.
KNOWN = {"drs__issue_1374", "trino__databricks73__old_dates", "trino__databricks73__old_timestamps"}


def actions(table: Path) -> Iterator[dict[str, Any]]:
    for commit in sorted((table / "_delta_log").glob("*.json")):
        for line in commit.read_text(errors="replace").splitlines():
            try:
                found = json.loads(line)
            except json.JSONDecodeError:
                continue
            if isinstance(found, dict):
                yield found


def files(table: Path) -> Iterator[tuple[dict[str, Any], StructType, list[str], Mode]]:
    """Added files with statistics that are still there, a few per table, with the schema of their time."""
    schema: StructType | None = None
    partitions: list[str] = []
    mode: Mode = "none"
    few = 6
    for action in actions(table):
        if metadata := action.get("metaData"):
            try:
                schema = parse_schema(metadata["schemaString"])
            except (TidegateError, KeyError):
                return
            partitions = metadata.get("partitionColumns", [])
            mode = parse_mode(metadata.get("configuration", {}).get("delta.columnMapping.mode", "none"))
        add = action.get("add")
        if add and add.get("stats") and schema and few and (table / unquote(add["path"])).is_file():
            few -= 1
            yield add, schema, partitions, mode


def values_of(data: pa.Table, leaf: cmp.Leaf) -> pa.Array | None:
    if leaf.path[0] not in data.column_names:
        return None
    column = data.column(leaf.path[0])
    values = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    for name in leaf.path[1:]:
        if values.type.get_field_index(name) < 0:
            return None
        values = pc.struct_field(values, name)
    if leaf.kind == cmp.TIMESTAMP:
        zone = values.type.tz if pa.types.is_timestamp(values.type) else None
        values = values.cast(pa.timestamp("us", zone), safe=False)
    return values.cast(cmp.domain_type(leaf), safe=False)


@pytest.mark.corpus
def test_bounds_enclose_what_is_in_the_files(corpus: Path) -> None:
    wrong: list[str] = []
    checked = 0
    for table in sorted((corpus / "open").iterdir()):
        if table.name in KNOWN or table.name.startswith("neg__"):
            continue
        for add, schema, partitions, mode in files(table / "delta"):
            path = table / "delta" / unquote(add["path"])
            try:
                data = pq.ParquetFile(path, coerce_int96_timestamp_unit="us").read()
            except OSError:  # a type that this release of Arrow does not read
                continue
            batch = pa.RecordBatch.from_pydict({"stats": pa.array([add["stats"]])})
            folded = frozenset(c.casefold() for c in partitions)
            for column, _ in schema.leaves():
                leaf = cmp.leaf_of(column, schema, folded, mode)
                if leaf is None or leaf.is_partition:
                    continue
                values = values_of(data, leaf)
                if values is None:
                    continue
                needs = [Need(kind, leaf) for kind in (stats.MIN, stats.MAX, stats.NULLS)]
                bounds = FileColumns(batch, needs).bounds(leaf)
                checked += 1
                if not encloses(bounds, values):
                    wrong.append(f"{table.name} {add['path']} {column}: {add['stats']}")
    assert wrong == []
    assert checked > 500


def encloses(bounds: Any, values: pa.Array) -> bool:
    answers = [
        bounds.may_be_null is True or bounds.may_be_null[0].as_py() or values.null_count == 0,
        bounds.may_have_value is True or bounds.may_have_value[0].as_py() or values.null_count == len(values),
    ]
    # NaN is above every maximum, and that is known.
    number = pc.invert(pc.is_nan(values)) if pa.types.is_floating(values.type) else values.is_valid()
    values = values.filter(number)
    if bounds.low is not None and bounds.low[0].is_valid:
        answers.append(pc.all(pc.greater_equal(values, bounds.low[0])).as_py())
    if bounds.high is not None and bounds.high[0].is_valid:
        answers.append(pc.all(pc.less_equal(values, bounds.high[0])).as_py())
    return all(answers)
