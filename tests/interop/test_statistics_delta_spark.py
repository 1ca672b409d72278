"""Statistics of the same rows, by us and by delta-spark: what we say they say, and they know no better."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from support.delta_spark import DeltaSpark, delta_spark
from support.session import shared_session

pytestmark = pytest.mark.peers

# In one partition each, so that both engines write one file.
ROWS = {
    "numbers": [
        "id",
        "cast(id as decimal(38, 10)) / 3 as dec",
        "-id as low",
        "if(id = 2, null, double(id) / 7) as d",
        "float(id) / 3 as f",
    ],
    "what footers lack": [
        "element_at(array(double('NaN'), 1.5D, -2.5D, null), int(id) + 1) as with_nan",
        "if(id < 3, float('NaN'), null) as all_nan",
        "if(id = 0, double('Infinity'), double(id)) as endless",
        "if(id < 2, -0.0D, 0.0D) as zeros",
        "if(id = 3, null, concat(char(int(97 + id)), repeat('x', 6000))) as long",
        "if(id = 3, null, cast(repeat('y', 6000) as binary)) as long_bytes",
        "element_at(array(array(1), array(), array(int(null)), null), int(id) + 1) as list",
        "if(id = 0, null, map('k', id)) as map",
        "named_struct('inner', if(id < 2, null, array(named_struct('a', id, 'b', 'b'))), 'n', id) as s",
    ],
    "strings that are cut": [
        "repeat('a', 32) as just",
        "concat(repeat('a', 32), char(int(65 + id))) as one_more",
        "concat(repeat('a', 31), '\\U0001F600', 'tail') as across_a_pair",
        "concat(repeat('a', 32), 'ü') as beyond_ascii",
        "repeat('\\U0010FFFF', 80) as nothing_above",
        "concat(repeat('a', 32), repeat('\\U0010FFFF', 3), 'z') as above_later",
        "'line\\nbreak \"quoted\" \\\\ tab\\t' as escaped",
        "if(id = 0, '', 'x') as empty",
    ],
    "times and the rest": [
        "date_add(date'1969-12-30', int(id)) as day",
        "timestamp_micros(id * 1000001 - 1) as at",
        "timestamp_ntz'2020-02-29 23:59:59.999999' as local",
        "id % 2 = 0 as flag",
        "cast(string(id) as binary) as bytes",
        "if(id > 9, id, null) as nothing",
        "named_struct('a', if(id = 1, null, named_struct('b', id))) as deep",
    ],
}
PROPERTIES = [
    "'delta.dataSkippingNumIndexedCols' = '2'",
    "'delta.enableDeletionVectors' = 'true'",
    "'delta.columnMapping.mode' = 'id', 'delta.dataSkippingNumIndexedCols' = '-1'",
]
# The properties are tried with the columns that are hardest to know.
CASES = [*((rows, "") for rows in ROWS), *(("what footers lack", p) for p in PROPERTIES)]
_BEYOND_JSON = ("NaN", "Infinity", "-Infinity")


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return shared_session()


@pytest.fixture(scope="module")
def peer() -> DeltaSpark:
    return delta_spark()


def _program(columns: list[str], properties: str, path: str) -> str:
    """A table made from a frame's schema, then one write into it."""
    made = f"TBLPROPERTIES ({properties})" if properties else ""
    return f"""
frame = spark.range(0, 4, 1, 1).selectExpr(*{columns!r})
fields = ", ".join("`" + f.name + "` " + f.dataType.simpleString() for f in frame.schema.fields)
spark.sql("CREATE TABLE delta.`{path}` (" + fields + ") USING delta {made}")
frame.write.format("delta").mode("append").save("{path}")
None
"""


def _stats(path: Path) -> dict[str, Any]:
    """The statistics of the only file, with logical names."""
    schema: list[dict[str, Any]] = []
    text = ""
    for commit in sorted((path / "_delta_log").glob("*.json")):
        for line in commit.read_text().splitlines():
            action = json.loads(line)
            if "metaData" in action:
                schema = json.loads(action["metaData"]["schemaString"])["fields"]
            if "add" in action:
                assert text == ""
                text = action["add"]["stats"]
    found: dict[str, Any] = json.loads(text)
    return {k: _named(v, schema) if isinstance(v, dict) else v for k, v in found.items()}


def _named(values: dict[str, Any], fields: list[dict[str, Any]]) -> dict[str, Any]:
    out = {}
    for field in fields:
        name = field["metadata"].get("delta.columnMapping.physicalName", field["name"])
        if name in values:
            value = values[name]
            out[field["name"]] = _named(value, field["type"]["fields"]) if isinstance(value, dict) else value
    return out


def _less(theirs: Any, ours: Any) -> Any:
    """Their statistics without what JSON has no numbers for, if we leave it out."""
    if not isinstance(theirs, dict):
        return theirs
    return {
        k: _less(v, ours.get(k, {}))
        for k, v in theirs.items()
        if not (v in _BEYOND_JSON and k not in ours) and not (v == {} and k not in ours)
    }


@pytest.mark.parametrize(("rows", "properties"), CASES, ids=[f"{r} {p}".strip() for r, p in CASES])
def test_both_say_the_same_of_the_same_rows(
    spark: SparkSession, peer: DeltaSpark, tmp_path: Path, rows: str, properties: str
) -> None:
    exec(_program(ROWS[rows], properties, str(tmp_path / "ours")), {"spark": spark})
    peer.run(_program(ROWS[rows], properties, str(tmp_path / "theirs")))
    ours, theirs = _stats(tmp_path / "ours"), _stats(tmp_path / "theirs")
    # A minimum is cut by UTF-16 units here and by characters there: a beginning of it is as good.
    for name, low in theirs["minValues"].items():
        if isinstance(low, str) and low.startswith(ours["minValues"].get(name) or "\0"):
            theirs["minValues"][name] = ours["minValues"][name]
    assert ours == _less(theirs, ours)
