"""Scenarios of Delta's suites for DDL, DESCRIBE DETAIL and HISTORY, and what commits say of themselves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import tidegate
from tidegate import DeltaTable
from tidegate.errors import (
    AlterRefusedError,
    FileMissingError,
    InvariantViolationException,
    NotATableError,
    OptionError,
    SchemaInvalidError,
    SqlSyntaxError,
    TableExistsError,
    TableNotFoundError,
)

pytestmark = pytest.mark.spark


@pytest.fixture
def database(spark: SparkSession) -> Iterator[str]:
    """A database of its own, which is the current one."""
    spark.sql("CREATE DATABASE ddl")
    spark.sql("USE ddl")
    try:
        yield "ddl"
    finally:
        spark.sql("USE default")
        spark.sql("DROP DATABASE ddl CASCADE")


def _run(spark: SparkSession, *statements: str) -> None:
    for statement in statements:
        spark.sql(statement).collect()


def _raw(table: str, version: int) -> dict[str, Any]:
    """The commitInfo of a version, as it stands in the log."""
    text = (Path(table) / "_delta_log" / f"{version:020}.json").read_text()
    found: dict[str, Any] = json.loads(text.splitlines()[0])["commitInfo"]
    return found


def _parameters(table: str) -> list[tuple[str, dict[str, Any]]]:
    latest = tidegate.open(table).version
    found = [_raw(table, v) for v in range(latest + 1)]
    return [(c["operation"], c["operationParameters"]) for c in found]


def _detail(spark: SparkSession, table: str) -> dict[str, Any]:
    told: dict[str, Any] = spark.sql(f"DESCRIBE DETAIL {table}").collect()[0].asDict()
    return told


# ---------------------------------------------------------------------------- DESCRIBE DETAIL


def test_detail_of_a_table_of_another_format_is_what_the_catalog_keeps(
    spark: SparkSession, database: str, tmp_path: Path
) -> None:
    _run(
        spark,
        "CREATE TABLE pq (a INT, b INT) USING parquet PARTITIONED BY (a) COMMENT 'this' "
        "TBLPROPERTIES ('k' = 'v')",
        f"CREATE TABLE outside (id BIGINT) USING csv LOCATION '{tmp_path}/csv'",
    )
    told = _detail(spark, "pq")
    assert told.pop("createdAt") is not None
    assert told.pop("location").endswith("/pq")
    known = {k: v for k, v in told.items() if v is not None}
    assert known == {
        "format": "parquet",
        "name": "spark_catalog.ddl.pq",
        "description": "this",
        "partitionColumns": ["a"],
        "properties": {"k": "v"},
    }
    other = _detail(spark, "ddl.outside")
    assert (other["format"], other["description"], other["partitionColumns"]) == ("csv", "", [])
    assert other["location"] == f"file:{tmp_path}/csv"
    with pytest.raises(NotATableError) as found:
        spark.sql("DESCRIBE HISTORY pq")
    assert found.value.errorClass == "DELTA_ONLY_OPERATION"


def test_detail_of_a_path_without_a_log_is_the_path(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "files")
    (tmp_path / "files").mkdir()
    told = _detail(spark, f"'{path}'")
    assert {k: v for k, v in told.items() if v is not None} == {"location": path, "properties": {}}
    with pytest.raises(FileMissingError) as missing:
        spark.sql(f"DESCRIBE DETAIL '{path}/none'")
    assert missing.value.errorClass == "DELTA_FILE_NOT_FOUND"
    with pytest.raises(NotATableError) as none:
        spark.sql(f"DESCRIBE DETAIL delta.`{path}`")
    assert none.value.errorClass == "DELTA_MISSING_DELTA_TABLE"
    for place in (f"'{path}'", f"delta.`{path}/none`"):
        with pytest.raises(NotATableError) as found:
            spark.sql(f"DESCRIBE HISTORY {place}")
        assert found.value.errorClass == "DELTA_TABLE_ONLY_OPERATION"
    with pytest.raises(TableNotFoundError):
        spark.sql(f"DESCRIBE DETAIL parquet.`{path}`")


def test_names_of_tables_are_told_in_full_and_views_have_no_detail(
    spark: SparkSession, database: str, table: str
) -> None:
    spark.range(2).write.format("delta").save(table)
    _run(
        spark,
        f"CREATE TABLE one USING delta LOCATION '{table}'",
        f"CREATE TABLE two USING delta LOCATION '{table}'",
        "CREATE VIEW kept AS SELECT 1 AS a",
        "CREATE TEMPORARY VIEW passing AS SELECT * FROM one",
    )
    try:
        for name in ("one", "two"):
            full = f"spark_catalog.ddl.{name}"
            assert _detail(spark, name)["name"] == full
            assert DeltaTable.forName(spark, name).detail().collect()[0]["name"] == full
        assert DeltaTable.forPath(spark, table).detail().collect()[0]["name"] is None
        for view in ("kept", "passing"):
            for what in ("DETAIL", "HISTORY"):
                with pytest.raises(AnalysisException) as found:
                    spark.sql(f"DESCRIBE {what} {view}")
                assert found.value.getCondition() == "EXPECT_TABLE_NOT_VIEW.NO_ALTERNATIVE"
    finally:
        spark.catalog.dropTempView("passing")


# ---------------------------------------------------------------------------- what commits say


def test_the_log_holds_numbers_and_booleans_of_parameters_as_such(spark: SparkSession, table: str) -> None:
    spark.range(4).selectExpr("id", "id % 2 AS p").write.format("delta").partitionBy("p").save(table)
    name = f"delta.`{table}`"
    _run(
        spark,
        f"INSERT INTO {name} VALUES (9, 1)",
        f"ALTER TABLE {name} SET TBLPROPERTIES ('foo' = 'bar')",
        f"ALTER TABLE {name} UNSET TBLPROPERTIES ('foo')",
        f"OPTIMIZE {name}",
        f"RESTORE TABLE {name} TO VERSION AS OF 0",
    )
    assert _parameters(table) == [
        ("WRITE", {"mode": "ErrorIfExists", "partitionBy": '["p"]'}),
        ("WRITE", {"mode": "Append", "partitionBy": "[]"}),
        ("SET TBLPROPERTIES", {"properties": '{"foo":"bar"}'}),
        ("UNSET TBLPROPERTIES", {"properties": '["foo"]', "ifExists": True}),
        ("OPTIMIZE", {"predicate": "[]", "zOrderBy": "[]", "clusterBy": "[]", "auto": False}),
        ("RESTORE", {"version": 0, "timestamp": None}),
    ]
    # The history is one of texts, whatever the log holds.
    told = [r["operationParameters"] for r in spark.sql(f"DESCRIBE HISTORY {name} LIMIT 3").collect()]
    assert told[0] == {"version": "0", "timestamp": None}
    assert (told[1]["auto"], told[2]["ifExists"]) == ("false", "true")


def test_a_write_says_which_options_let_it_change_the_table(spark: SparkSession, table: str) -> None:
    frame = spark.range(3).selectExpr("id", "id % 2 AS p")

    def write(mode: str, **options: str) -> dict[str, Any]:
        frame.write.format("delta").mode(mode).options(**options).save(table)
        return _raw(table, tidegate.open(table).version)

    frame.write.format("delta").partitionBy("p").save(table)
    plain = {"mode": "Overwrite", "partitionBy": "[]"}
    dynamic = write("overwrite", partitionOverwriteMode="dynamic")
    assert dynamic["operationParameters"] == {**plain, "isDynamicPartitionOverwrite": True}
    where = write("overwrite", replaceWhere="id < 9")
    assert where["operationParameters"] == {**plain, "predicate": "id < 9"}
    assert where["operationMetrics"].keys() == {
        "numFiles",
        "numOutputRows",
        "numOutputBytes",
        "numRemovedFiles",
        "numRemovedBytes",
        "numCopiedRows",
        "numDeletedRows",
        "numAddedChangeFiles",
    }
    merged = write("append", mergeSchema="true")
    assert merged["operationParameters"] == {**plain, "mode": "Append", "canMergeSchema": True}
    again = write("overwrite", overwriteSchema="true")
    assert again["operationParameters"] == {**plain, "canOverwriteSchema": True}


def test_a_table_that_is_saved_anew_under_its_name_was_replaced(spark: SparkSession, database: str) -> None:
    frame = spark.range(3)
    frame.write.format("delta").saveAsTable("t")
    frame.write.format("delta").mode("overwrite").saveAsTable("t")
    frame.write.format("delta").mode("append").saveAsTable("t")
    table = DeltaTable.forName(spark, "t")
    assert [r["operation"] for r in table.history().collect()] == [
        "WRITE",
        "CREATE OR REPLACE TABLE AS SELECT",
        "CREATE TABLE AS SELECT",
    ]
    path = table.detail().collect()[0]["location"].removeprefix("file:")
    assert _parameters(path)[1][1] == {
        "partitionBy": "[]",
        "clusterBy": "[]",
        "description": None,
        "isManaged": "true",
        "properties": "{}",
        "isV1SaveAsTableOverwrite": True,
    }


def test_columns_that_were_added_and_changed_are_told_as_sql_has_them(
    spark: SparkSession, table: str
) -> None:
    name = f"delta.`{table}`"
    _run(
        spark,
        f"CREATE TABLE {name} (id BIGINT, v STRING) USING delta",
        f"ALTER TABLE {name} ADD COLUMNS (n INT COMMENT 'c' AFTER id, s STRUCT<a: INT>)",
        f"ALTER TABLE {name} ADD COLUMNS (s.b INT FIRST)",
        f"ALTER TABLE {name} CHANGE COLUMN n n INT COMMENT 'k' FIRST",
        f"ALTER TABLE {name} ALTER COLUMN v AFTER n",
    )
    told = [
        {k: json.loads(v) if k != "position" else v for k, v in p.items()} for _, p in _parameters(table)[1:]
    ]
    free = {"nullable": True, "metadata": {}}
    n = {"name": "n", "type": "integer", "nullable": True, "metadata": {"comment": "c"}}
    assert told == [
        {
            "columns": [
                {"column": n, "position": "AFTER id"},
                {"column": {"name": "s", "type": "struct", **free}},
            ]
        },
        {"columns": [{"column": {"name": "s.b", "type": "integer", **free}, "position": "FIRST"}]},
        {"column": {**n, "metadata": {"comment": "k"}}, "position": "FIRST"},
        {"column": {"name": "v", "type": "string", **free}, "position": "AFTER n"},
    ]


def test_upgrades_and_clones_say_what_delta_spark_says(spark: SparkSession, tmp_path: Path) -> None:
    table, copy = str(tmp_path / "table"), str(tmp_path / "copy")
    made = DeltaTable.create(spark).location(table).addColumn("id", "bigint").execute()
    made.upgradeTableProtocol(1, 4)
    spark.sql(f"CREATE TABLE delta.`{copy}` SHALLOW CLONE delta.`{table}`").collect()
    operation, parameters = _parameters(table)[-1]
    assert operation == "UPGRADE PROTOCOL"
    assert json.loads(parameters["newProtocol"])["minWriterVersion"] in (4, 7)
    assert _parameters(copy) == [("CLONE", {"source": f"delta.`file:{table}`", "sourceVersion": 1})]


def test_a_history_is_limited_by_a_number_of_versions(spark: SparkSession, table: str) -> None:
    spark.range(1).write.format("delta").save(table)
    spark.range(1).write.format("delta").mode("append").save(table)
    counts = [spark.sql(f"DESCRIBE HISTORY '{table}' LIMIT {n}").count() for n in (0, 1, 9)]
    assert counts == [0, 1, 2]
    with pytest.raises(SqlSyntaxError):
        spark.sql(f"DESCRIBE HISTORY '{table}' LIMIT -1")


# ---------------------------------------------------------------------------- types


@pytest.mark.parametrize(
    "kind", ["INTERVAL", "INTERVAL DAY TO SECOND", "ARRAY<INTERVAL MONTH>", "STRUCT<x: INTERVAL YEAR>"]
)
def test_columns_of_intervals_are_refused_wherever_a_schema_comes_to_be(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    name = f"delta.`{tmp_path}/there`"
    _run(spark, f"CREATE TABLE {name} (id BIGINT, s STRUCT<a: INT>) USING delta")
    for statement in (
        f"CREATE TABLE delta.`{tmp_path}/new` (a {kind}) USING delta",
        f"CREATE OR REPLACE TABLE {name} (a {kind}) USING delta",
        f"ALTER TABLE {name} ADD COLUMNS (i {kind})",
        f"ALTER TABLE {name} ADD COLUMNS (s.i {kind})",
        f"ALTER TABLE {name} REPLACE COLUMNS (id BIGINT, s STRUCT<a: INT>, i {kind})",
    ):
        with pytest.raises(SchemaInvalidError) as found:
            spark.sql(statement)
        assert found.value.errorClass == "DELTA_UNSUPPORTED_DATA_TYPES", statement
    assert tidegate.open(f"{tmp_path}/there").version == 0
    builder = DeltaTable.create(spark).location(f"{tmp_path}/built").addColumn("a", "interval day to second")
    with pytest.raises(SchemaInvalidError):
        builder.execute()


def test_a_column_may_have_no_type_but_null(spark: SparkSession, table: str) -> None:
    name = f"delta.`{table}`"
    _run(
        spark,
        f"CREATE TABLE {name} (a INT, b VOID) USING delta",
        f"ALTER TABLE {name} ADD COLUMNS (c VOID)",
    )
    assert [f.dataType.typeName() for f in spark.sql(f"SELECT * FROM {name}").schema] == [
        "integer",
        "void",
        "void",
    ]


# ---------------------------------------------------------------------------- CREATE and ALTER


def test_a_table_has_one_place(spark: SparkSession, tmp_path: Path) -> None:
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    with pytest.raises(OptionError) as found:
        spark.sql(f"CREATE TABLE delta.`{one}` (id BIGINT) USING delta LOCATION '{two}'")
    assert found.value.errorClass == "DELTA_AMBIGUOUS_PATHS_IN_CREATE_TABLE"
    builder = DeltaTable.create(spark).tableName(f"delta.`{one}`").location(two).addColumn("id", "long")
    with pytest.raises(OptionError) as built:
        builder.execute()
    assert built.value.errorClass == "DELTA_CREATE_TABLE_IDENTIFIER_LOCATION_MISMATCH"
    assert list(tmp_path.iterdir()) == []
    allowed = "spark.databricks.delta.legacy.allowAmbiguousPathsInCreateTable"
    spark.conf.set(allowed, "true")
    try:
        _run(spark, f"CREATE TABLE delta.`{one}` (id BIGINT) USING delta LOCATION '{two}'")
    finally:
        spark.conf.unset(allowed)
    assert [DeltaTable.isDeltaTable(spark, p) for p in (one, two)] == [True, False]
    _run(spark, f"CREATE TABLE delta.`{two}` (id BIGINT) USING delta LOCATION '{two}'")


def test_a_path_among_the_options_is_the_location(spark: SparkSession, database: str, table: str) -> None:
    _run(
        spark,
        "CREATE TABLE t (a BIGINT, b STRING NOT NULL, s STRUCT<x: INT NOT NULL>) USING delta "
        f"OPTIONS ('path' = '{table}')",
    )
    assert _detail(spark, "t")["location"] == f"file:{table}"
    assert [f.nullable for f in tidegate.open(table).schema.fields] == [True, False, True]
    with pytest.raises(InvariantViolationException):
        spark.createDataFrame([(1, None)], "a bigint, b string").write.format("delta").mode("append").save(
            table
        )
    for new in ("n STRING NOT NULL", "n STRUCT<x: INT, y: STRING NOT NULL>", "s.y INT NOT NULL"):
        with pytest.raises(AlterRefusedError) as found:
            spark.sql(f"ALTER TABLE t ADD COLUMNS (ok INT, {new})")
        assert found.value.errorClass == "DELTA_OPERATION_NOT_ALLOWED"
    _run(spark, "ALTER TABLE t ALTER COLUMN s.x DROP NOT NULL", "ALTER TABLE t ALTER COLUMN b DROP NOT NULL")
    described = spark.sql("DESCRIBE t B").collect()
    assert [tuple(r) for r in described] == [("col_name", "b"), ("data_type", "string"), ("comment", "NULL")]
    with pytest.raises(AnalysisException) as missing:
        spark.sql("DESCRIBE TABLE t none")
    assert missing.value.getCondition() == "UNRESOLVED_COLUMN.WITH_SUGGESTION"


def test_what_delta_tables_do_not_have_is_refused(spark: SparkSession, database: str, tmp_path: Path) -> None:
    _run(spark, "CREATE TABLE t (a INT, p INT) USING delta PARTITIONED BY (p)")
    buckets = "CREATE TABLE b (a INT, b INT) USING {} CLUSTERED BY (a) SORTED BY (b) INTO 5 BUCKETS"
    with pytest.raises(OptionError) as found:
        spark.sql(buckets.format("delta"))
    assert found.value.errorClass == "DELTA_OPERATION_NOT_ALLOWED_DETAIL"
    writer = spark.range(2).write.format("delta").bucketBy(8, "id")
    with pytest.raises(OptionError) as written:
        writer.saveAsTable("b")
    assert written.value.errorClass == "DELTA_OPERATION_NOT_ALLOWED_DETAIL"
    # One of another format is Spark's own, and has them.
    _run(spark, buckets.format("parquet"))
    for statement in (
        f"INSERT OVERWRITE DIRECTORY '{tmp_path}/files' USING delta VALUES (1, 'a')",
        "ALTER TABLE t ADD PARTITION (p = 3)",
        "ALTER TABLE t DROP PARTITION (p = 2)",
        "ALTER TABLE t RECOVER PARTITIONS",
        "ALTER TABLE t SET SERDEPROPERTIES (s = 3)",
    ):
        with pytest.raises(AnalysisException) as refused:
            spark.sql(statement)
        assert refused.value.getCondition() == "DELTA_OPERATION_NOT_ALLOWED", statement
    with pytest.raises(AnalysisException):
        spark.sql("LOAD DATA LOCAL INPATH '/nowhere' INTO TABLE t")
    assert not (tmp_path / "files").exists()


def test_a_new_table_begins_where_there_is_nothing(
    spark: SparkSession, database: str, tmp_path: Path
) -> None:
    files = str(tmp_path / "files")
    spark.range(2).write.parquet(files)
    for statement, condition in {
        f"CREATE TABLE t (id BIGINT) USING delta LOCATION '{files}'": "TABLE_WITH_NON_EMPTY_LOCATION",
        f"CREATE TABLE t USING delta LOCATION '{files}' AS SELECT 1 AS id": "TABLE_WITH_NON_EMPTY_LOCATION",
        f"CREATE TABLE delta.`{files}` (id BIGINT) USING delta": "TABLE_WITH_NON_EMPTY_LOCATION",
        f"CREATE TABLE t USING delta LOCATION '{files}'": "EXTERNAL_TABLE_WITHOUT_TXN_LOG",
    }.items():
        with pytest.raises(AnalysisException) as found:
            spark.sql(statement)
        assert found.value.getCondition() == f"DELTA_CREATE_{condition}", statement
    for mode in ("error", "append"):
        with pytest.raises(TableExistsError):
            spark.range(2).write.format("delta").mode(mode).option("path", files).saveAsTable("t")
    assert not spark.catalog.tableExists("t")
    assert not DeltaTable.isDeltaTable(spark, files)


def test_a_name_for_a_table_that_is_there_describes_it_as_it_is(
    spark: SparkSession, database: str, table: str
) -> None:
    _run(
        spark,
        f"CREATE TABLE delta.`{table}` (a BIGINT, b STRING COMMENT 'c') USING delta PARTITIONED BY (b) "
        "TBLPROPERTIES ('delta.checkpointInterval' = '20', 'key' = 'value')",
        f"CREATE TABLE t (B STRING COMMENT 'c', a BIGINT) USING delta PARTITIONED BY (b) LOCATION '{table}' "
        "TBLPROPERTIES ('DelTa.ChEckPoiNtinTervAl' = '20', 'key' = 'value')",
    )
    assert spark.table("t").columns == ["a", "b"]
    for columns in (
        "a BIGINT, b STRING",
        "a BIGINT NOT NULL, b STRING COMMENT 'c'",
        "a BIGINT",
        "a INT, b STRING",
    ):
        with pytest.raises(SchemaInvalidError) as found:
            spark.sql(f"CREATE TABLE u ({columns}) USING delta PARTITIONED BY (a) LOCATION '{table}'")
        assert found.value.errorClass == "DELTA_CREATE_TABLE_SCHEME_MISMATCH", columns
    with pytest.raises(OptionError) as elsewhere:
        spark.range(1).write.format("delta").mode("overwrite").option("path", f"{table}2").saveAsTable("t")
    assert elsewhere.value.errorClass == "DELTA_TABLE_LOCATION_MISMATCH"


def test_the_catalog_makes_tables_by_its_own_method(spark: SparkSession, database: str, table: str) -> None:
    schema = spark.range(1).schema
    made = spark.catalog.createTable("t", source="delta", schema=schema, description="about")
    assert (made.columns, _detail(spark, "t")["description"]) == (["id"], "about")
    spark.range(3).write.format("delta").save(table)
    assert spark.catalog.createTable("there", path=table, source="delta").count() == 3
    assert spark.catalog.createTable("other", source="parquet", schema=schema).columns == ["id"]
    assert _detail(spark, "other")["format"] == "parquet"


def test_nothing_is_replaced_by_a_table_without_columns(
    spark: SparkSession, database: str, table: str
) -> None:
    spark.range(2).write.format("delta").save(table)
    _run(spark, f"CREATE TABLE t USING delta LOCATION '{table}'")
    for statement in (
        "REPLACE TABLE t USING delta",
        f"CREATE OR REPLACE TABLE t USING delta LOCATION '{table}'",
        "CREATE OR REPLACE TABLE new USING delta",
    ):
        with pytest.raises(SchemaInvalidError) as found:
            spark.sql(statement)
        assert found.value.errorClass == "DELTA_SCHEMA_NOT_PROVIDED", statement
    with pytest.raises(SchemaInvalidError):
        DeltaTable.createOrReplace(spark).tableName("new").execute()
    assert not spark.catalog.tableExists("new")
    assert tidegate.open(table).version == 0
    with pytest.raises(AnalysisException):
        spark.sql("REPLACE TABLE new USING delta")


def test_a_table_without_columns_waits_for_them(spark: SparkSession, database: str) -> None:
    _run(
        spark,
        "CREATE TABLE t USING delta",
        "CREATE TABLE IF NOT EXISTS t USING delta",
        "OPTIMIZE t",
        "ALTER TABLE t SET TBLPROPERTIES ('a' = 'b')",
        "COMMENT ON TABLE t IS 'about'",
    )
    assert spark.sql("DESCRIBE t").collect() == spark.sql("SHOW COLUMNS IN t").collect() == []
    for statement, condition in {
        "SELECT * FROM t": "DELTA_SCHEMA_NOT_SET",
        "INSERT INTO t VALUES (1, 2)": "DELTA_METADATA_MISMATCH",
        "MERGE INTO t USING (SELECT 1 AS a) s ON false WHEN NOT MATCHED THEN INSERT *": (
            "DELTA_MERGE_INTO_EMPTY_SCHEMA_TARGET"
        ),
    }.items():
        with pytest.raises(SchemaInvalidError) as found:
            spark.sql(statement).collect()
        assert found.value.errorClass == condition, statement
    spark.range(1).writeTo("t").option("mergeSchema", "true").append()
    assert [tuple(r) for r in spark.table("t").collect()] == [(0,)]
    _run(spark, "CREATE TABLE u USING delta", "ALTER TABLE u ADD COLUMN (id BIGINT COMMENT 'c')")
    assert spark.table("u").columns == ["id"]


def test_a_description_has_partition_columns_in_the_order_of_the_partitions(
    spark: SparkSession, table: str
) -> None:
    frame = spark.sql("SELECT 1 AS id, 'IT' AS dept, 'Alice' AS name")
    frame.write.format("delta").partitionBy("name", "dept").save(table)
    described = [r[0] for r in spark.sql(f"DESCRIBE delta.`{table}`").collect()]
    assert described == ["id", "dept", "name", "# Partition Information", "# col_name", "name", "dept"]


def test_a_default_says_nothing_of_rows_that_were_there(spark: SparkSession, table: str) -> None:
    _run(
        spark,
        f"CREATE TABLE delta.`{table}` (a INT DEFAULT 2) USING delta "
        "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
    )
    assert tidegate.open(table).schema.fields[0].metadata == {"CURRENT_DEFAULT": "2"}


def test_delta_tables_do_not_pass(spark: SparkSession, database: str, table: str) -> None:
    for statement in (
        "CREATE TEMPORARY TABLE t (a INT) USING delta",
        "CREATE TEMP TABLE t USING delta AS SELECT 1 AS a",
        f"CREATE OR REPLACE TEMPORARY VIEW t USING delta OPTIONS (path '{table}')",
    ):
        with pytest.raises(OptionError) as found:
            spark.sql(statement)
        assert found.value.errorClass == "DELTA_OPERATION_NOT_ALLOWED", statement
    _run(spark, "CREATE TEMPORARY TABLE t (a INT) USING parquet")
    spark.catalog.dropTempView("t")
