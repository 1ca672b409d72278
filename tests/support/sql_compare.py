"""One script of SQL on two engines: what each statement answers, in a form that can be compared and kept."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from support.delta_spark import DeltaSpark

# Runs in both processes: plain Python over ``spark``, so that both answer in one form.
RUNNER = """
def run_script(spark, statements):
    out = []
    for text in statements:
        try:
            frame = spark.sql(text)
            rows = [r.asDict(recursive=True) for r in frame.collect()] if frame.columns else []
            out.append({"columns": [[f.name, f.dataType.simpleString()] for f in frame.schema], "rows": rows})
        except Exception as e:
            try:
                found = e.getCondition() if hasattr(e, "getCondition") else getattr(e, "errorClass", None)
            except Exception:
                found = None
            out.append({"error": found, "said": str(e)[:600]})
    return out
"""
DATABASE = "scripts"
Outcome = dict[str, Any]

# What depends on clocks, ids, bytes, or on who has written.
VOLATILE = {
    "id", "timestamp", "createdAt", "lastModified", "sizeInBytes", "engineInfo", "userId", "userName",
    "location", "operationMetrics", "metrics", "job", "notebook", "clusterId",
}  # fmt: skip
ABOUT = re.compile(
    r"(DESCRIBE (DETAIL|HISTORY)|OPTIMIZE|REORG|VACUUM|RESTORE|CREATE .* SHALLOW)", re.I | re.S
)
# Parameters of an operation that what was recorded leaves out.
UNEQUAL_PARAMETERS = {"isDynamicPartitionOverwrite", "isShallow"}


def statements(script: list[str], folder: str) -> list[str]:
    """The statements of a script with its names and its folder filled in, between those that make room."""
    names = {"t": f"{DATABASE}.t", "u": f"{DATABASE}.u", "v": f"{DATABASE}.v", "p": folder}
    out = [f"DROP DATABASE IF EXISTS {DATABASE} CASCADE", f"CREATE DATABASE {DATABASE}"]
    for statement in script:
        for key, value in names.items():
            statement = statement.replace("{" + key + "}", value)
        out.append(statement.removeprefix("!"))
    return [*out, f"DROP DATABASE {DATABASE} CASCADE"]


def by_peer(peer: DeltaSpark, script: list[str], folder: str) -> list[Outcome]:
    # delta-spark would make ten thousand tasks of each listing of VACUUM.
    few = "spark.conf.set('spark.sql.sources.parallelPartitionDiscovery.parallelism', '2')"
    found = peer.run(f"{few}\n{RUNNER}\nrun_script(spark, {statements(script, folder)!r})")
    return _comparable(script, found, folder)


def by_us(spark: SparkSession, script: list[str], folder: str) -> list[Outcome]:
    names: dict[str, Any] = {}
    exec(RUNNER, names)
    found = names["run_script"](spark, statements(script, folder))
    return _comparable(script, json.loads(json.dumps(found, default=str)), folder)


def _comparable(script: list[str], found: list[Outcome], folder: str) -> list[Outcome]:
    text = json.dumps(found[2:-1])
    for place in ("file://" + folder, "file:" + folder, folder):
        text = text.replace(place, "<folder>")
    return [_masked(s.removeprefix("!"), o) for s, o in zip(script, json.loads(text), strict=True)]


def _masked(statement: str, outcome: Outcome) -> Outcome:
    if "error" in outcome:
        return {"error": outcome["error"] or _named(outcome["said"])}
    if statement.startswith("SHOW PARTITIONS"):
        # In no order there, in that of their values here.
        return {**outcome, "rows": sorted(outcome["rows"], key=str)}
    if not ABOUT.match(statement):
        return outcome
    rows = [{k: _value(k, v) for k, v in row.items()} for row in outcome["rows"]]
    return {**outcome, "rows": rows}


def _named(said: str) -> str | None:
    """The error class in the words of an error that PySpark could not take apart."""
    found = re.search(r"main error class '(\w+)'", said) or re.search(r"\[(DELTA_\w+)\]", said)
    return None if found is None else found.group(1)


def _value(name: str, value: Any) -> Any:
    if name in VOLATILE or "_size" in name:
        return "*"
    if name == "operationParameters" and isinstance(value, dict):
        return sorted(set(value) - UNEQUAL_PARAMETERS)
    if name == "path" and isinstance(value, str):
        within = re.sub(rf".*/{DATABASE}\.db/", "<warehouse>/", value.replace("file:", ""))
        return re.sub(r"part-.*", "part-*", within)
    if name == "readVersion" and value == -1:
        # Noted there by what makes a table in one large commit.
        return None
    return value


def differences(
    script: list[str], theirs: list[Outcome], ours: list[Outcome], meant: Mapping[str, str] | None = None
) -> list[str]:
    """Where the answers of two engines to one script differ, each with its statement.

    A difference that is ``meant`` must be there: a mark that is no longer needed is told too.
    """
    out = []
    for statement, one, other in zip(script, theirs, ours, strict=True):
        found = _difference(one, other)
        if meant is not None and statement in meant:
            found = None if found is not None else f"no longer differs: {meant[statement]}"
        elif found is None and statement.startswith("!") and "error" not in one:
            found = "neither refuses it"
        if found is not None:
            out.append(f"{statement}\n    {found}")
    return out


def _difference(theirs: Outcome, ours: Outcome) -> str | None:
    if theirs == ours:
        return None
    if "error" in theirs and "error" in ours:
        return None if _same_error(theirs["error"], ours["error"]) else f"{theirs} and {ours}"
    if "error" in theirs or "error" in ours or theirs["columns"] != ours["columns"]:
        return f"theirs {theirs}\n    ours   {ours}"
    if len(theirs["rows"]) != len(ours["rows"]):
        return f"theirs {theirs['rows']}\n    ours   {ours['rows']}"
    pairs = zip(theirs["rows"], ours["rows"], strict=True)
    return "; ".join(str({k: (a[k], b[k]) for k in a if a[k] != b[k]}) for a, b in pairs if a != b)


def _same_error(theirs: str | None, ours: str | None) -> bool:
    """Whether two classes name one mistake; there, some have none, or a number for a name."""
    if theirs is None or theirs.startswith("_LEGACY_ERROR_TEMP_"):
        return ours is not None
    return ours in EQUAL_ERRORS.get(theirs, ())


# Refused by both under two names, theirs first: delta-spark lets Spark's analyser speak where we have Delta's
# own class, or it has several classes for what is one mistake here.
EQUAL_ERRORS = {
    "CAST_OVERFLOW_IN_TABLE_INSERT": {"CAST_OVERFLOW"},
    "COLUMN_ALREADY_EXISTS": {"DELTA_DUPLICATE_COLUMNS_FOUND.DATA"},
    "DELTA_MISSING_DELTA_TABLE": {"DELTA_TABLE_NOT_FOUND"},
    "DELTA_TABLE_ONLY_OPERATION": {"DELTA_MISSING_DELTA_TABLE"},
    "FIELD_NOT_FOUND": {"DELTA_COLUMN_NOT_FOUND_IN_SCHEMA"},
    "INCORRECT_NUMBER_OF_ARGUMENTS": {"PARSE_SYNTAX_ERROR"},
    "INVALID_TIME_TRAVEL_TIMESTAMP_EXPR.INPUT": {"DELTA_INVALID_TIMESTAMP_FORMAT"},
    "NOT_SUPPORTED_CHANGE_COLUMN": {"DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP"},
    "NOT_SUPPORTED_COMMAND_FOR_V2_TABLE": {"NOT_A_PARTITIONED_TABLE"},
    "PATH_NOT_FOUND": {"DELTA_MISSING_DELTA_TABLE"},
    "TABLE_OR_VIEW_NOT_FOUND": {"DELTA_TABLE_ONLY_OPERATION"},
    "UNRESOLVED_COLUMN.WITH_SUGGESTION": {"DELTA_COLUMN_NOT_FOUND_IN_SCHEMA"},
    "UNSUPPORTED_FEATURE.PARTITION_WITH_NESTED_COLUMN_IS_UNSUPPORTED": {"DELTA_COLUMN_NOT_FOUND_IN_SCHEMA"},
}
