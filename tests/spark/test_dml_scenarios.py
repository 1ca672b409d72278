"""Commands that change nothing, happen once or read their own table, and what the history says of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tidegate
from support.dml import FEED, VECTORS, WAYS, Meanwhile, confs, feed, last, no_job, sound, write
from tidegate import DeltaTable
from tidegate.commands.merge.source import Source
from tidegate.errors import (
    ConcurrentAppendException,
    ConcurrentDeleteReadException,
    InvariantViolationException,
    OptionError,
    PredicateError,
    TidegateError,
)
from tidegate.sql import rows as sql_rows
from tidegate.sql import tables as sql_tables
from tidegate.sql.context import Context

pytestmark = pytest.mark.spark
Rows = Callable[..., list[tuple[Any, ...]]]
Command = Callable[[SparkSession, str], object]


def _write_nothing(mode: str = "append", **options: str) -> Command:
    return lambda spark, path: spark.range(0).write.format("delta").mode(mode).options(**options).save(path)


def _sql(text: str) -> Command:
    return lambda spark, path: spark.sql(text.format(t=f"delta.`{path}`")).collect()


def _merge(spark: SparkSession, path: str) -> None:
    source = spark.range(1).alias("s")
    merged = DeltaTable.forPath(spark, path).alias("t").merge(source, "t.id = s.id")
    merged.whenMatchedUpdate("t.id > 100", {"id": "s.id"}).whenNotMatchedInsertAll().execute()


CHANGES_NOTHING: dict[str, Command] = {
    "append": _write_nothing(),
    "append with a word": _write_nothing(userMetadata="nothing came"),
    "replaceWhere": _write_nothing("overwrite", replaceWhere="id > 500"),
    "replaceUsing": _write_nothing("overwrite", replaceUsing="id"),
    "INSERT": _sql("INSERT INTO {t} SELECT * FROM range(0)"),
    "DELETE": _sql("DELETE FROM {t} WHERE id % 100 = 50"),
    "UPDATE": _sql("UPDATE {t} SET id = 1 WHERE id % 100 = 50"),
    "MERGE": _merge,
}


def test_what_changes_nothing_leaves_no_version(spark: SparkSession, table: str) -> None:
    write(spark.range(2).coalesce(1), table, {})
    for name, command in CHANGES_NOTHING.items():
        command(spark, table)
        assert tidegate.open(table).version == 0, name
    # The session may want every command in the history.
    with confs(spark, skipRecordingEmptyCommits="false"):
        for expected, name in enumerate(["append", "DELETE", "UPDATE", "MERGE"], 1):
            CHANGES_NOTHING[name](spark, table)
            found = tidegate.open(table)
            assert (found.version, found.num_files) == (expected, 1), name
            assert last(table)["operation"] == (name if name.isupper() else "WRITE")
    assert last(table)["operationMetrics"]["numTargetRowsUpdated"] == "0"


def test_a_write_of_no_rows_is_recorded_where_it_says_more(spark: SparkSession, table: str) -> None:
    write(spark.range(2), table, {})
    _write_nothing(txnAppId="job", txnVersion="3")(spark, table)
    assert tidegate.open(table).transactions["job"].version == 3
    spark.range(0).selectExpr("id", "1 AS more").write.format("delta").mode("append").option(
        "mergeSchema", "true"
    ).save(table)
    assert tidegate.open(table).schema.names == ("id", "more")
    _write_nothing("overwrite")(spark, table)
    assert (tidegate.open(table).version, tidegate.open(table).num_files) == (3, 0)
    # Now there is nothing that could go.
    _write_nothing("overwrite")(spark, table)
    DeltaTable.forPath(spark, table).delete()
    DeltaTable.forPath(spark, table).update(set={"id": "1"})
    assert tidegate.open(table).version == 3
    # Properties are always recorded, whether they change or not.
    for _ in range(2):
        spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('mine' = '1')")
    spark.sql(f"ALTER TABLE delta.`{table}` UNSET TBLPROPERTIES IF EXISTS ('yours')")
    assert tidegate.open(table).version == 6
    assert tidegate.open(table).metadata.configuration["mine"] == "1"


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM {t} WHERE id = {n}",
        "UPDATE {t} SET id = id + 100 WHERE id = {n}",
        "MERGE INTO {t} t USING (SELECT {n} AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = 77",
    ],
    ids=["delete", "update", "merge"],
)
def test_a_command_happens_once_by_the_sessions_confs(
    spark: SparkSession, table: str, rows: Rows, statement: str
) -> None:
    write(spark.range(5), table, {})
    version = "spark.databricks.delta.write.txnVersion"

    def run(n: int) -> int:
        return int(spark.sql(statement.format(t=f"delta.`{table}`", n=n)).collect()[0][0])

    with confs(spark, write__txnAppId="job", write__txnVersion="7"):
        assert run(1) == 1
        assert tidegate.open(table).transactions["job"].version == 7
        before = rows(table)
        assert spark.conf.get(version, None) == "7"
        assert (run(2), rows(table), tidegate.open(table).version) == (0, before, 1)
        # What was skipped takes the number along: another command is not skipped unawares.
        assert spark.conf.get(version, None) is None
        with pytest.raises(OptionError, match="go together"):
            run(2)
        spark.conf.set(version, "8")
        with confs(spark, write__txnVersion__autoReset__enabled="true"):
            assert run(2) == 1
        assert spark.conf.get(version, None) is None
    assert tidegate.open(table).transactions["job"].version == 8


def test_a_delete_without_matches_does_not_move_an_application(spark: SparkSession, table: str) -> None:
    write(spark.range(5), table, {})
    with confs(spark, write__txnAppId="job", write__txnVersion="7"):
        CHANGES_NOTHING["DELETE"](spark, table)
        assert tidegate.open(table).version == 0
        CHANGES_NOTHING["UPDATE"](spark, table)
        assert tidegate.open(table).transactions["job"].version == 7


def test_columns_may_be_said_with_the_database_of_their_table(spark: SparkSession) -> None:
    frame = spark.sql("select named_struct('b.1', 1, 'c', 'x') a, 1 d")
    frame.write.format("delta").mode("overwrite").saveAsTable("qualified")
    try:
        spark.sql(
            "UPDATE qualified SET default.`qualified`.a.`b.1` = 5, spark_catalog.default.qualified.a.c = 'y'"
            " WHERE default.qualified.d = 1"
        )
        assert [tuple(r) for r in spark.sql("SELECT a.`b.1`, a.c FROM qualified").collect()] == [(5, "y")]
        spark.sql("DELETE FROM default.qualified WHERE spark_catalog.default.qualified.a.`b.1` = 5")
        assert spark.table("qualified").count() == 0
    finally:
        spark.sql("DROP TABLE qualified")


# ---------------------------------------------------------------------------- rows replaced by rows


def _replace(frame: DataFrame, path: str, **options: str) -> None:
    frame.write.format("delta").mode("overwrite").options(**options).save(path)


@pytest.mark.parametrize("properties", WAYS)
def test_rows_are_replaced_by_what_a_condition_says_of_both_sides(
    spark: SparkSession, table: str, rows: Rows, properties: dict[str, str]
) -> None:
    values = [(None, "t"), (-1, "t"), (1, "t"), (2, "t"), (2, "t"), (3, "t")]
    write(spark.createDataFrame(values, "id int, o string").coalesce(1), table, properties)
    source = spark.createDataFrame([(None, "s"), (1, "s"), (1, "s")], "id int, o string").alias("s")
    _replace(source, table, replaceOn="`a b`.id <=> s.id", targetAlias="A b")
    expected = {(None, "s"): 1, (1, "s"): 2, (-1, "t"): 1, (2, "t"): 2, (3, "t"): 1}
    assert _counted(rows(table, "id is not null")) == {k: v for k, v in expected.items() if k[0] is not None}
    # A new column in the condition.
    wider = source.withColumn("more", F.lit(2)).where("id = 1").limit(1).alias("s")
    _replace(wider, table, replaceOn="t.id = s.more", targetAlias="t", mergeSchema="true")
    found = spark.read.format("delta").load(table).where("id is not null").orderBy("id").collect()
    assert [r.id for r in found] == [-1, 1, 1, 1, 3]


def test_rows_are_replaced_by_what_a_condition_says_of_one_side(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    write(spark.range(5), table, {})
    new = spark.range(10, 12).alias("s")
    _replace(new, table, replaceOn="t.id in (1, 3)", targetAlias="t")
    assert rows(table) == [(0,), (2,), (4,), (10,), (11,)]
    _replace(new.where("false"), table, replaceOn="true")
    _replace(new, table, replaceOn="s.id > 11")
    assert len(rows(table)) == 7
    _replace(new, table, replaceOn="s.id > 10")
    assert rows(table) == [(10,), (11,)]


@pytest.mark.parametrize("properties", WAYS)
def test_replace_where_takes_the_tables_alias(
    spark: SparkSession, table: str, rows: Rows, properties: dict[str, str]
) -> None:
    where = {"replaceWhere": "t.id > 5 and `T`.id % 2 = 1", "targetAlias": "t"}
    # A table that is only being made takes what comes.
    _replace(spark.range(10).coalesce(1), table, **where, **properties)
    _replace(spark.range(11, 12), table, **where)
    assert [r[0] for r in rows(table)] == [0, 1, 2, 3, 4, 5, 6, 8, 11]
    with pytest.raises(InvariantViolationException) as e:
        _replace(spark.range(12, 13), table, **where)
    assert e.value.errorClass == "DELTA_REPLACE_WHERE_MISMATCH"


def _counted(found: list[tuple[Any, ...]]) -> dict[tuple[Any, ...], int]:
    return {row: found.count(row) for row in found}


def test_what_leaves_and_what_comes_is_decided_by_the_same_rows(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    write(spark.range(1000).selectExpr("id", "'t' o"), table, {})
    # Other rows each time they are asked for.
    some = spark.range(1000).where("rand() < 0.5").selectExpr("id", "'s' o")
    _replace(some, table, replaceUsing="id")
    assert [r[0] for r in rows(table)] == list(range(1000))


@pytest.mark.parametrize(
    ("options", "error_class"),
    [
        ({"replaceUsing": "id"}, "DELTA_INCOMPATIBLE_DATAFRAME_OPTIONS"),
        ({"replaceWhere": "id > 1"}, "DELTA_OVERWRITE_BY_FILTER_INCOMPATIBLE_REPLACE_ON_OR_USING"),
        (
            {"partitionOverwriteMode": "dynamic"},
            "DELTA_DYNAMIC_PARTITION_OVERWRITE_INCOMPATIBLE_REPLACE_ON_OR_USING",
        ),
        ({"overwriteSchema": "true"}, "DELTA_INCOMPATIBLE_DATAFRAME_OPTIONS"),
        ({"dataChange": "false"}, "DELTA_INCOMPATIBLE_DATAFRAME_OPTIONS"),
    ],
    ids=lambda v: next(iter(v)) if isinstance(v, dict) else "",
)
def test_options_that_do_not_go_with_replace_on(
    spark: SparkSession, table: str, options: dict[str, str], error_class: str
) -> None:
    with pytest.raises(OptionError) as e:
        _replace(spark.range(1), table, replaceOn="true", **options)
    assert e.value.errorClass == error_class


def test_a_table_is_not_made_with_replace_on(spark: SparkSession, table: str) -> None:
    for option, value in {"replaceOn": "true", "REPLACEUSING": "id"}.items():
        with pytest.raises(OptionError) as e:
            spark.range(1).writeTo(f"delta.`{table}`").using("delta").option(option, value).createOrReplace()
        assert e.value.errorClass == "DELTA_DFV2_CREATE_REPLACE_INCOMPATIBLE_REPLACE_ON_OR_USING"


def test_names_of_replace_on_are_told_before_any_job(spark: SparkSession, table: str) -> None:
    write(spark.range(3), table, {})
    source = spark.range(1).alias("s")
    unresolved = "DELTA_INSERT_REPLACE_ON_UNRESOLVED_COLUMNS_IN_CONDITION"
    ambiguous = "DELTA_INSERT_REPLACE_ON_AMBIGUOUS_COLUMNS_IN_CONDITION"
    refused = [
        ({"replaceOn": "id = id"}, ambiguous),
        ({"replaceOn": "id = s.id", "targetAlias": "t"}, ambiguous),
        ({"replaceOn": "s.id = s.id", "targetAlias": "s"}, ambiguous),
        ({"replaceOn": "t.id = s.id"}, unresolved),
        ({"replaceOn": "t.id = x.id", "targetAlias": "t"}, unresolved),
        ({"replaceOn": "nope = 1"}, unresolved),
        (
            {"replaceWhere": "id > 1", "dataChange": "false"},
            "DELTA_REPLACE_WHERE_WITH_FILTER_DATA_CHANGE_UNSET",
        ),
    ]
    for options, error_class in refused:
        with no_job(spark), pytest.raises((PredicateError, OptionError)) as e:
            _replace(source, table, **options)
        assert isinstance(e.value, TidegateError)
        assert e.value.errorClass == error_class, options
    assert tidegate.open(table).version == 0


# ---------------------------------------------------------------------------- values of subqueries


def test_a_value_may_be_that_of_a_subquery(spark: SparkSession, table: str, rows: Rows) -> None:
    write(spark.range(4).selectExpr("id", "id AS v").coalesce(1), table, {**FEED, **VECTORS})
    spark.range(8).selectExpr("id AS c").createOrReplaceTempView("seven")
    top = "(SELECT max(c) FROM seven)"
    t = f"delta.`{table}`"
    spark.sql(f"UPDATE {t} SET v = {top} * 10 + v WHERE id = 1")
    assert rows(table) == [(0, 0), (1, 71), (2, 2), (3, 3)]
    # Without rows it is null.
    DeltaTable.forPath(spark, table).update("id = 3", {"v": "(SELECT c FROM seven WHERE c > 99)"})
    spark.sql(
        f"MERGE INTO {t} t USING (SELECT id FROM range(2, 5)) s ON t.id = s.id "
        f"WHEN MATCHED AND t.v IS NULL THEN UPDATE SET v = {top} "
        f"WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.id + {top}) "
        f"WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = -{top}"
    )
    assert rows(table) == [(0, -7), (1, -7), (2, 2), (3, 7), (4, 11)]
    with pytest.raises(Exception, match="SCALAR_SUBQUERY_TOO_MANY_ROWS"):
        spark.sql(f"UPDATE {t} SET v = (SELECT c FROM seven)")
    assert tidegate.open(table).version == 3


def test_a_table_that_is_read_by_its_own_command_is_read_whole(
    spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(spark.range(4).selectExpr("id", "id AS v").coalesce(1), table, {})
    t = f"delta.`{table}`"
    more = spark.range(50, 51).selectExpr("id", "id AS v")
    own = spark.read.format("delta").load(table).where("id = 1")
    own.write.format("delta").mode("append").save(table)
    assert last(table)["isBlindAppend"] is False
    more.write.format("delta").mode("append").save(table)
    assert last(table)["isBlindAppend"] is True
    # An older version is what it is, whatever comes.
    old = spark.read.format("delta").option("versionAsOf", 0).load(table)
    old.write.format("delta").mode("append").save(table)
    assert last(table)["isBlindAppend"] is True
    for statement in (
        f"INSERT INTO {t} SELECT 100, (SELECT count(*) FROM {t})",
        f"MERGE INTO {t} t USING (SELECT 2L id, count(*) n FROM {t}) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = s.n",
        f"MERGE INTO {t} t USING {{own}} s ON t.id = s.id WHEN MATCHED THEN DELETE",
    ):
        with monkeypatch.context() as patch:
            Meanwhile(patch, lambda: more.write.format("delta").mode("append").save(table))
            with pytest.raises(ConcurrentAppendException):
                spark.sql(statement, **({"own": own} if "{own}" in statement else {}))
    joined = more.join(own.groupBy().count(), F.lit(True)).selectExpr("id", "count AS v")
    with monkeypatch.context() as patch:
        Meanwhile(patch, lambda: more.write.format("delta").mode("append").save(table))
        with pytest.raises(ConcurrentAppendException):
            joined.write.format("delta").mode("append").save(table)
    # A union, a scalar subquery and what was counted beforehand.
    counted = own.groupBy().count().scalar()
    for frame, is_blind in (
        (more.union(own), False),
        (more.select("id", counted.alias("v")), False),
        (more.select("id", F.lit(own.count()).alias("v")), True),
    ):
        frame.write.format("delta").mode("append").save(table)
        assert last(table)["isBlindAppend"] is is_blind


def test_a_value_that_is_asked_of_the_table_itself_has_read_it(
    spark: SparkSession, table: str, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(spark.range(4).selectExpr("id", "id AS v").coalesce(1), table, {})
    t = f"delta.`{table}`"
    more = spark.range(50, 51).selectExpr("id", "id AS v")
    with monkeypatch.context() as patch:
        Meanwhile(patch, lambda: more.write.format("delta").mode("append").save(table))
        with pytest.raises(ConcurrentAppendException):
            spark.sql(f"UPDATE {t} SET v = (SELECT max(v) FROM {t}) WHERE id = 2")
    spark.sql(f"UPDATE {t} SET v = (SELECT max(v) FROM {t}) + id WHERE id = 2")
    assert rows(table, "id = 2") == [(2, 52)]


def test_a_value_may_be_asked_of_delta_tables_by_name_and_by_path(
    spark: SparkSession, table: str, tmp_path: Path, rows: Rows
) -> None:
    write(spark.range(4).selectExpr("id", "id AS v").coalesce(1), table, {})
    path = str(tmp_path / "rates")
    for rate in (5, 6):
        spark.sql(f"SELECT {rate}L AS rate").write.format("delta").mode("append").save(path)
    t, p = f"delta.`{table}`", f"delta.`{path}`"
    spark.sql(f"CREATE TABLE rates_by_name USING delta LOCATION '{path}'")
    try:
        most = "(SELECT max(r.rate) FROM rates_by_name r JOIN default.rates_by_name s USING (rate))"
        spark.sql(f"UPDATE {t} SET v = {most} + id, id = (SELECT min(rate) FROM {p}) WHERE id = 1")
        assert rows(table) == [(0, 0), (2, 2), (3, 3), (5, 7)]
        own = DeltaTable.forPath(spark, table)
        own.update("id = 2", {"v": f"(SELECT count(*) FROM {p}) * 10"})
        own.update("id = 3", {"v": F.expr(f"(WITH w AS (TABLE {p}) SELECT sum(rate) FROM w)") + F.lit(1)})
        assert rows(table) == [(0, 0), (2, 20), (3, 12), (5, 7)]
        spark.sql(
            f"MERGE INTO {t} t USING (SELECT 0L AS id UNION ALL SELECT 9L) s ON t.id = s.id "
            f"WHEN MATCHED THEN UPDATE SET v = {most} WHEN NOT MATCHED THEN INSERT (id, v) "
            f"VALUES (s.id, (SELECT max(rate) FROM {p} VERSION AS OF 0))"
        )
        assert rows(table) == [(0, 6), (2, 20), (3, 12), (5, 7), (9, 5)]
        # What depends on the row is told as of any other table.
        with pytest.raises(PredicateError) as e:
            spark.sql(f"UPDATE {t} SET v = (SELECT max(rate) FROM rates_by_name WHERE rate > id)")
        assert "rates_by_name" in str(e.value)
    finally:
        spark.sql("DROP TABLE rates_by_name")


def test_a_table_that_is_read_through_a_temporary_view_is_read_whole(
    spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(spark.range(4).selectExpr("id", "id AS v").coalesce(1), table, {})
    t = f"delta.`{table}`"
    more = spark.range(50, 51).selectExpr("id", "id AS v")
    names = ("of_text", "of_frame", "of_views", "of_old")
    spark.sql(f"CREATE OR REPLACE TEMP VIEW of_text AS SELECT id, max(v) AS v FROM {t} GROUP BY id")
    spark.read.format("delta").load(table).where("id > 1").createOrReplaceTempView("of_frame")
    spark.sql("CREATE OR REPLACE TEMP VIEW of_views AS SELECT * FROM of_text JOIN of_frame USING (id, v)")
    spark.sql(f"CREATE OR REPLACE TEMP VIEW of_old AS SELECT * FROM {t} VERSION AS OF 0")
    try:
        for name in names:
            spark.sql(f"INSERT INTO {t} SELECT id, v FROM {name}")
            assert last(table)["isBlindAppend"] is (name == "of_old"), name
            spark.table(name).select("id", "v").write.format("delta").mode("append").save(table)
            assert last(table)["isBlindAppend"] is (name == "of_old"), name
        for statement in (
            f"INSERT INTO {t} SELECT 100, (SELECT max(v) FROM of_views)",
            f"UPDATE {t} SET v = (SELECT max(v) FROM of_text) WHERE id = 2",
            f"MERGE INTO {t} t USING (SELECT DISTINCT id FROM of_frame) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET v = 1",
        ):
            with monkeypatch.context() as patch:
                Meanwhile(patch, lambda: more.write.format("delta").mode("append").save(table))
                with pytest.raises(ConcurrentAppendException):
                    spark.sql(statement)
    finally:
        for name in names:
            spark.catalog.dropTempView(name)


def test_a_statement_begins_before_its_query_is_planned(
    spark: SparkSession, table: str, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(spark.range(1).selectExpr("id", "id AS v"), table, {})
    t = f"delta.`{table}`"
    planned = sql_rows.query

    def then_another(context: Context, text: str) -> DataFrame:
        frame = planned(context, text)
        spark.sql(f"UPDATE {t} SET v = v + 1")
        return frame

    for statement in (
        f"INSERT INTO {t} SELECT id + 1, v FROM {t}",
        f"MERGE INTO {t} t USING (SELECT id, v + 1 AS more FROM {t}) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = s.more",
        f"CREATE OR REPLACE TABLE {t} USING delta AS SELECT id, v + 5 AS v FROM {t}",
    ):
        with monkeypatch.context() as patch:
            patch.setattr(sql_rows, "query", then_another)
            patch.setattr(sql_tables, "query", then_another)
            with pytest.raises((ConcurrentAppendException, ConcurrentDeleteReadException)):
                spark.sql(statement)
    assert rows(table) == [(0, 3)]


# ---------------------------------------------------------------------------- tables that are replaced


def test_a_replacement_happens_once_and_as_a_whole(spark: SparkSession, table: str, rows: Rows) -> None:
    t = f"delta.`{table}`"
    for version, value in ((1, 1), (2, 2), (2, 3), (3, 4), (1, 5)):
        with confs(spark, write__txnAppId="job", write__txnVersion=str(version)):
            spark.sql(f"CREATE OR REPLACE TABLE {t} USING delta AS SELECT {value} AS c")
    assert (rows(table), tidegate.open(table).version) == ([(4,)], 2)
    # The commit that takes the old rows away may make the table one that only grows.
    new = spark.range(3).writeTo(t).using("delta")
    new.tableProperty("deLta.aPpeNdonly", "true").replace()
    assert tidegate.open(table).metadata.configuration == {"delta.appendOnly": "true"}
    for verb in ("replace", "createOrReplace"):
        with pytest.raises(OptionError) as e:
            getattr(spark.range(1).writeTo(t).using("delta").option("overwriteSchema", "false"), verb)()
        assert e.value.errorClass == "DELTA_ILLEGAL_USAGE"


def test_replace_where_minds_dynamic_overwrites_where_there_are_partitions(
    spark: SparkSession, table: str, tmp_path: Path, rows: Rows
) -> None:
    frame = spark.range(4).selectExpr("id", "id % 2 AS p")
    both = {"replaceWhere": "p = 1", "partitionOverwriteMode": "dynamic"}
    write(frame, table, {})
    _replace(frame.where("id = 3"), table, **both)
    assert rows(table) == [(0, 0), (2, 0), (3, 1)]
    parted = str(tmp_path / "parted")
    write(frame, parted, {}, ["p"])
    with pytest.raises(OptionError) as e:
        _replace(frame.where("id = 3"), parted, **both)
    assert e.value.errorClass == "DELTA_REPLACE_WHERE_WITH_DYNAMIC_PARTITION_OVERWRITE"
    # The session's word gives way.
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        _replace(frame.where("id = 3"), parted, replaceWhere="p = 1")
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert rows(parted) == [(0, 0), (2, 0), (3, 1)]


def test_partitions_whose_names_were_swapped_are_overwritten_by_their_values(
    spark: SparkSession, table: str
) -> None:
    frame = spark.createDataFrame([("a", "x", 1), ("b", "y", 2), ("c", "x", 3)], "p string, q string, v int")
    write(frame, table, {"delta.columnMapping.mode": "name"}, ["p", "q"])
    for old, new in (("p", "z"), ("q", "p"), ("z", "q")):
        spark.sql(f"ALTER TABLE delta.`{table}` RENAME COLUMN {old} TO {new}")
    more = spark.createDataFrame([("a", "x", 4), ("d", "x", 5)], "q string, p string, v int")
    _replace(more, table, partitionOverwriteMode="dynamic")
    found = spark.read.format("delta").load(table).select("q", "p", "v").collect()
    assert sorted(tuple(r) for r in found) == [("a", "x", 4), ("b", "y", 2), ("c", "x", 3), ("d", "x", 5)]


def test_columns_of_the_feeds_names_and_partitions_that_become_null(
    spark: SparkSession, table: str, tmp_path: Path, rows: Rows
) -> None:
    frame = spark.sql("SELECT id, id div 2 AS p, 'old' AS _change_type FROM range(0, 6, 1, 1)")
    write(frame, table, {}, ["p"])
    t = f"delta.`{table}`"
    spark.sql(f"DELETE FROM {t} WHERE id = 1")
    spark.sql(f"UPDATE {t} SET _change_type = 'new' WHERE id IN (2, 5)")
    _replace(spark.sql("SELECT 9L id, 1L p, 'more' _change_type"), table, replaceWhere="id % 6 = 3")
    found = [(r[0], r[2]) for r in rows(table)]
    assert found == [(0, "old"), (2, "new"), (4, "old"), (5, "new"), (9, "more")]
    fed = str(tmp_path / "fed")
    write(frame.select("id", "p"), fed, {**FEED, **VECTORS}, ["p"])
    spark.sql(f"UPDATE delta.`{fed}` SET p = NULL WHERE p = 2")
    assert feed(spark, fed, 1, str) == [
        (4, 2, "update_preimage"),
        (4, None, "update_postimage"),
        (5, 2, "update_preimage"),
        (5, None, "update_postimage"),
    ]


# ---------------------------------------------------------------------------- metrics


@pytest.mark.parametrize("properties", WAYS)
def test_what_the_history_counts(spark: SparkSession, table: str, properties: dict[str, str]) -> None:
    """Five files of twenty rows; the numbers are delta-spark's."""
    write(spark.range(0, 100, 1, 5).selectExpr("id", "id div 20 AS part"), table, properties)
    vectors = bool(properties)
    deltas = DeltaTable.forPath(spark, table)

    def counted() -> dict[str, int]:
        metrics = last(table)["operationMetrics"]
        return {
            k.removeprefix("num"): int(metrics[k])
            for k in metrics
            if k.startswith("num") and "Bytes" not in k
        }

    plain = {"AddedFiles": 0, "AddedChangeFiles": 0, "CopiedRows": 0}
    unmoved = {"DeletionVectorsAdded": 0, "DeletionVectorsRemoved": 0, "DeletionVectorsUpdated": 0}
    deltas.delete("id < 20")
    assert counted() == {**plain, **unmoved, "RemovedFiles": 1, "DeletedRows": 20}
    deltas.delete("id = 20")
    one = (
        {"RemovedFiles": 0, "DeletionVectorsAdded": 1}
        if vectors
        else {"RemovedFiles": 1, "AddedFiles": 1, "CopiedRows": 19}
    )
    assert counted() == {**plain, **unmoved, **one, "DeletedRows": 1}
    deltas.update("id = 21", {"part": "7"})
    one = (
        {"DeletionVectorsAdded": 1, "DeletionVectorsRemoved": 1, "DeletionVectorsUpdated": 1}
        if vectors
        else {"CopiedRows": 18}
    )
    assert counted() == {**plain, **unmoved, **one, "AddedFiles": 1, "RemovedFiles": 1, "UpdatedRows": 1}
    new = spark.range(40, 43, 1, 1).selectExpr("id", "9L AS part")
    _replace(new, table, replaceWhere="id >= 40 and id < 50")
    replaced = {"Files": 2, "OutputRows": 13, "CopiedRows": 10, "DeletedRows": 10, "AddedChangeFiles": 0}
    assert counted() == {**replaced, "RemovedFiles": 0 if vectors else 1}
    _replace(new, table, replaceUsing="id")
    assert counted() == {
        "Files": 1,
        "OutputRows": 3,
        "CopiedRows": 0,
        "DeletedRows": 3,
        "AddedChangeFiles": 0,
        "RemovedFiles": 1,
    }
    deltas.delete("part = 4 or part = 9")
    assert counted() == {**plain, **unmoved, "RemovedFiles": 2, "DeletedRows": 23}


def test_what_the_history_counts_of_a_stream(spark: SparkSession, table: str, tmp_path: Path) -> None:
    """A batch without rows is recorded by its number, and counted under the names of streams."""
    source = str(tmp_path / "source")
    write(spark.range(3), source, {})
    frame = spark.readStream.format("delta").load(source).where("id > 100")
    writer = frame.writeStream.format("delta").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start(table)
    query.awaitTermination()
    assert last(table)["operation"] == "STREAMING UPDATE"
    counted = {"numAddedFiles": "0", "numRemovedFiles": "0", "numOutputRows": "0", "numOutputBytes": "0"}
    assert last(table)["operationMetrics"] == counted
    assert len(tidegate.open(table).transactions) == 1


# ---------------------------------------------------------------------------- rows that get lost


@pytest.mark.parametrize("properties", WAYS)
def test_a_merge_whose_rows_are_lost_begins_again(
    spark: SparkSession,
    table: str,
    rows: Rows,
    properties: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(spark.range(4).selectExpr("id", "id AS v").coalesce(1), table, properties)
    source = spark.range(2, 6).selectExpr("id", "id + 10 AS v")
    kept, losses = Source.kept, [True, False, True]

    def losing(self: Source, frame: DataFrame) -> DataFrame:
        out = kept(self, frame)
        if losses and losses.pop(0):
            held = spark.sparkContext._jsc.sc().getPersistentRDDs().values().toSeq()
            for i in range(held.size()):
                held.apply(i).unpersist(True)
        return out

    def merge() -> None:
        found = DeltaTable.forPath(spark, table).alias("t").merge(source.alias("s"), "t.id = s.id")
        found.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

    monkeypatch.setattr(Source, "kept", losing)
    # The rows of the source are lost first, then what was found of them.
    with confs(spark, merge__materializeSource__maxAttempts="2"), pytest.raises(Exception, match="lock"):
        merge()
    assert (losses, tidegate.open(table).version) == ([], 0)
    losses += [True, False, True]
    merge()
    assert (losses, tidegate.open(table).version) == ([], 1)
    assert rows(table) == [(0, 0), (1, 1), (2, 12), (3, 13), (4, 14), (5, 15)]
    sound(table)


# ---------------------------------------------------------------------------- columns of the table's frame


def test_columns_of_the_frame_that_a_table_shows_are_its_own(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    frame = spark.range(6).selectExpr(
        "id", "id AS `v.w`", "named_struct('x', id, 'y', named_struct('z', id)) s"
    )
    write(frame.coalesce(1), table, {})
    dt = DeltaTable.forPath(spark, table)
    shown = dt.toDF()
    dt.delete(shown["id"] == 0)
    dt.update(shown.s.y.z == 1, {"`v.w`": shown["`v.w`"] + shown["s.x"] + 10})
    named = dt.alias("t")
    named.delete(named.toDF()["id"] == 2)
    # The same frame is the table's on one side, and what the source is made of on the other.
    source = shown.where("id = 4")
    for merge in (
        dt.merge(source, shown["id"] == source["id"]),
        named.merge(source.alias("s"), (dt.toDF()["id"] == F.col("s.id")) & (shown["s"]["x"] == 4)),
    ):
        merge.whenMatchedUpdate(shown["id"] > 0, {"`v.w`": shown["`v.w`"] + source["`v.w`"]}).execute()
    named.merge(source, shown["id"] == source["id"]).whenNotMatchedBySourceDelete(shown["id"] == 5).execute()
    assert rows(table) == [
        (1, 12, (1, (1,))),
        (3, 3, (3, (3,))),
        (4, 12, (4, (4,))),
    ]
    # Another frame of the same rows is none of the table's.
    other = spark.read.format("delta").load(table)
    with pytest.raises(AnalysisException):
        dt.delete(other["id"] == 3)
