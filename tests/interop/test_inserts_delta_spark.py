"""INSERT in every form by delta-spark and by us: columns and fields of other types, too few, too many.

Whatever the form and the shape of the data, both come to the same rows and schema, or both refuse it.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from pyspark.sql import SparkSession

from support.delta_spark import DeltaSpark, delta_spark
from support.session import shared_session

pytestmark = [pytest.mark.peers, pytest.mark.spark, pytest.mark.deep]

# Runs in both processes.
RUNNER = """
def insert(spark, form, columns, before, select, evolves):
    t = "compared_inserts"
    spark.sql("DROP TABLE IF EXISTS " + t)
    spark.sql("CREATE TABLE " + t + " (" + columns + ") USING delta").collect()
    spark.sql("INSERT INTO " + t + " " + before).collect()
    spark.conf.set("spark.databricks.delta.schema.autoMerge.enabled", evolves)
    taken = True
    try:
        df = spark.sql(select)
        names = ", ".join("`" + c + "`" for c in df.columns)
        exec(form, {"spark": spark, "df": df, "t": t, "q": select, "names": names})
    except Exception:
        taken = False
    finally:
        spark.conf.unset("spark.databricks.delta.schema.autoMerge.enabled")
    found = spark.table(t)
    out = [taken, found.schema.simpleString(), sorted(str(r.asDict(True)) for r in found.collect())]
    spark.sql("DROP TABLE " + t)
    return out
"""

FORMS = {
    "by position": "spark.sql(f'INSERT INTO {t} {q}').collect()",
    "by a list": "spark.sql(f'INSERT INTO {t} ({names}) {q}').collect()",
    "by name": "spark.sql(f'INSERT INTO {t} BY NAME {q}').collect()",
    "insertInto": "df.write.insertInto(t)",
    "saveAsTable": "df.write.format('delta').mode('append').saveAsTable(t)",
    "append": "df.writeTo(t).append()",
}

_S = "STRUCT<x: INT, y: STRING>"
_ROW = "named_struct('x', 1, 'y', 'r')"
_TOP = ("b INT", "2")
_STRUCT = (f"s {_S}", _ROW)
_ARRAY = (f"v ARRAY<{_S}>", f"array({_ROW})")
_MAP = (f"m MAP<STRING, {_S}>", f"map('k', {_ROW})")

# Beside a column `a`: another one and its value in the row that is there, and the data that comes.
CASES: dict[str, tuple[tuple[str, str], str]] = {
    "a long for an int": (_TOP, "1 AS a, 5L AS b"),
    "a long that does not fit": (_TOP, "1 AS a, 5000000000L AS b"),
    "text for an int": (_TOP, "1 AS a, '5' AS b"),
    "text that is no int": (_TOP, "1 AS a, 'x' AS b"),
    "an int for text": (("b STRING", "'u'"), "1 AS a, 5 AS b"),
    "a decimal with more digits": (("b DECIMAL(5, 2)", "2"), "1 AS a, 1.234 AS b"),
    "text for a date": (("b DATE", "DATE'2020-01-01'"), "1 AS a, '2024-01-02' AS b"),
    "a time for a date": (("b DATE", "DATE'2020-01-01'"), "1 AS a, TIMESTAMP'2024-01-02 03:04:05' AS b"),
    "an int for a boolean": (("b BOOLEAN", "true"), "1 AS a, 1 AS b"),
    "a struct for an int": (_TOP, "1 AS a, struct(1) AS b"),
    "an int for a struct": (_STRUCT, "1 AS a, 5 AS s"),
    "null without a type": (_TOP, "1 AS a, NULL AS b"),
    "a column too few": (("b INT, c INT", "2, 3"), "1 AS a, 5 AS b"),
    "a column too few in the middle": (("b INT, c INT", "2, 3"), "1 AS a, 5 AS c"),
    "a column too many": (_TOP, "1 AS a, 5 AS b, 9 AS z"),
    "a column too many in the middle": (_TOP, "1 AS a, 9 AS z, 5 AS b"),
    "another column": (_TOP, "1 AS a, 9 AS z"),
    "columns in another order": (_TOP, "5 AS b, 1 AS a"),
    "columns in another case": (_TOP, "1 AS A, 5 AS B"),
    "a column too many without a type": (_TOP, "1 AS a, 2 AS b, NULL AS z"),
    "a struct's long": (_STRUCT, "1 AS a, named_struct('x', 7L, 'y', 's') AS s"),
    "a struct's text": (_STRUCT, "1 AS a, named_struct('x', '7', 'y', 's') AS s"),
    "a struct's field too few": (_STRUCT, "1 AS a, named_struct('x', 7) AS s"),
    "a struct's first field too few": (_STRUCT, "1 AS a, named_struct('y', 's') AS s"),
    "a struct's field too many": (_STRUCT, "1 AS a, named_struct('x', 7, 'y', 's', 'z', 1) AS s"),
    "a struct's field too many in the middle": (
        _STRUCT,
        "1 AS a, named_struct('x', 7, 'z', 1, 'y', 's') AS s",
    ),
    "a struct's fields in another order": (_STRUCT, "1 AS a, named_struct('y', 's', 'x', 7) AS s"),
    "a struct's fields in another case": (_STRUCT, "1 AS a, named_struct('X', 7, 'Y', 's') AS s"),
    "a null struct of fewer fields": (_STRUCT, "1 AS a, CAST(NULL AS STRUCT<x: INT>) AS s"),
    "an array's long": (_ARRAY, "1 AS a, array(named_struct('x', 7L, 'y', 's')) AS v"),
    "an array's field too few": (_ARRAY, "1 AS a, array(named_struct('x', 7)) AS v"),
    "an array's field too many": (_ARRAY, "1 AS a, array(named_struct('x', 7, 'y', 's', 'z', 1)) AS v"),
    "an array's fields in another order": (_ARRAY, "1 AS a, array(named_struct('y', 's', 'x', 7)) AS v"),
    "a map's long": (_MAP, "1 AS a, map('k', named_struct('x', 7L, 'y', 's')) AS m"),
    "a map's field too few": (_MAP, "1 AS a, map('k', named_struct('x', 7)) AS m"),
    "a map's field too many": (_MAP, "1 AS a, map('k', named_struct('x', 7, 'y', 's', 'z', 1)) AS m"),
}

# Where we take the fields of structs by their names, and delta-spark by their position (docs/sql.md).
MEANT = {("a struct's fields in another order", "by a list")}


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return shared_session()


@pytest.fixture(scope="module")
def peer() -> DeltaSpark:
    return delta_spark()


# What a schema that may evolve has to do with.
EVOLVING = [c for c in CASES if re.search("too|other|fewer|without", c)]


@pytest.mark.parametrize("case", CASES)
def test_every_insert_comes_to_the_same(spark: SparkSession, peer: DeltaSpark, case: str) -> None:
    compare(spark, peer, case, "false")


@pytest.mark.parametrize("case", EVOLVING)
def test_every_insert_evolves_the_schema_alike(spark: SparkSession, peer: DeltaSpark, case: str) -> None:
    compare(spark, peer, case, "true")


def compare(spark: SparkSession, peer: DeltaSpark, case: str, evolves: str) -> None:
    (column, value), data = CASES[case]
    table = (f"a INT, {column}", f"SELECT 1, {value}", f"SELECT {data}", evolves)
    jobs = [(form, *table) for form in FORMS.values()]
    names: dict[str, Any] = {}
    exec(RUNNER, names)
    ours = [names["insert"](spark, *job) for job in jobs]
    theirs = peer.run(f"{RUNNER}\n[insert(spark, *job) for job in {jobs!r}]")
    found = list(zip(FORMS, ours, theirs, strict=True))
    differing = {(case, form) for form, one, other in found if one != other}
    assert differing == {pair for pair in MEANT if pair[0] == case}, found
