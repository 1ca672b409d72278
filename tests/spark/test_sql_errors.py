"""Wrong statements: which error, of which class, and where in the text it points."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import SparkSession

from tidegate.errors import TidegateError

pytestmark = pytest.mark.spark

# What Spark says where it was asked for something that it cannot do; none of our users should see it.
SPARKS_OWN = (
    "CATALOG_PLUGIN",
    "catalog plugin",
    "UNSUPPORTED_FEATURE.TABLE_OPERATION",
    "DATA_SOURCE_NOT_FOUND",
    "UNSUPPORTED_DATASOURCE",
    "is not supported for v1",
    "_LEGACY",
)
SYNTAX = "PARSE_SYNTAX_ERROR"


@pytest.fixture(scope="module")
def spark_with_table(spark: SparkSession) -> Iterator[SparkSession]:
    spark.sql("CREATE DATABASE IF NOT EXISTS wrong")
    spark.sql("CREATE TABLE wrong.t (id INT, v STRING, p INT) USING delta PARTITIONED BY (p)")
    spark.sql("CREATE TABLE wrong.plain (id INT) USING parquet")
    yield spark
    spark.sql("DROP DATABASE wrong CASCADE")


# The mark stands where the error points.
WRONG = [
    "VACUUM¦",
    "VACUUM wrong.t RETAIN¦",
    "VACUUM wrong.t RETAIN ¦x HOURS",
    "VACUUM wrong.t FULL ¦LITE",
    "VACUUM wrong.t ¦DRY",
    "OPTIMIZE¦",
    "OPTIMIZE wrong.t ¦WHER p = 1",
    "OPTIMIZE wrong.t WHERE¦",
    "OPTIMIZE wrong.t ¦ZORDER (id)",
    "RESTORE TABLE wrong.t¦",
    "RESTORE TABLE wrong.t TO ¦3",
    "CONVERT TO DELTA¦",
    "CONVERT TO DELTA parquet.`/x` PARTITIONED BY¦",
    "GENERATE FOR ¦TABLE wrong.t",
    "REORG TABLE wrong.t¦",
    "REORG TABLE wrong.t APPLY ¦PURGE",
    "DESCRIBE HISTORY wrong.t LIMIT ¦x",
    "DESCRIBE DETAIL wrong.t ¦extra",
    "UPDATE wrong.t SET¦",
    "UPDATE wrong.t SET v¦",
    "UPDATE wrong.t SET v = 1 WHERE¦",
    "UPDATE wrong.t ¦WHERE id = 1",
    "DELETE FROM wrong.t WHERE¦",
    "DELETE FROM wrong.t WHERE id =¦ ",
    "MERGE INTO wrong.t USING wrong.t s¦",
    "MERGE INTO wrong.t USING wrong.t s ON true¦",
    "MERGE INTO wrong.t USING wrong.t s ON true WHEN¦",
    "INSERT INTO wrong.t¦",
    "INSERT INTO wrong.t (id¦",
    "TRUNCATE TABLE wrong.t PARTITION¦",
    "ALTER TABLE wrong.t ADD CONSTRAINT c CHECK ¦id > 0",
    "ALTER TABLE wrong.t SET TBLPROPERTIES¦",
    "ALTER TABLE wrong.t ALTER COLUMN id TYPE¦",
    "ALTER TABLE wrong.t DROP FEATURE¦",
    "ALTER TABLE wrong.t RENAME COLUMN id¦",
    "CREATE TABLE wrong.new (a ¦NOPE) USING delta",
    "CREATE TABLE wrong.new (a INT) USING delta ¦PARTITIONED",
    "CREATE TABLE wrong.new (a INT) USING delta CLUSTER BY¦",
    "SHOW TBLPROPERTIES wrong.t (¦",
    "DELETE FROM wrong.t WHERE v = ¦'open",
    "OPTIMIZE ¦`open",
]


# A clause that stands there twice has a condition of its own.
TWICE = {"VACUUM wrong.t FULL ¦LITE": "DUPLICATE_CLAUSES"}


@pytest.mark.parametrize("marked", WRONG)
def test_what_cannot_be_read_says_where(spark_with_table: SparkSession, marked: str) -> None:
    column = marked.index("¦") + 1
    with pytest.raises(ParseException) as caught:
        spark_with_table.sql(marked.replace("¦", ""))
    error = caught.value
    assert isinstance(error, TidegateError), error
    assert error.errorClass == TWICE.get(marked, SYNTAX)
    assert (error.line, error.column) == (1, column), str(error)
    assert f"line 1, column {column}" in str(error)
    assert not any(word in str(error) for word in SPARKS_OWN)


def test_the_place_counts_lines(spark_with_table: SparkSession) -> None:
    with pytest.raises(ParseException) as caught:
        spark_with_table.sql("-- about\nUPDATE wrong.t\n   SET v = ,\n WHERE id = 1")
    assert isinstance(caught.value, TidegateError)
    assert (caught.value.line, caught.value.column) == (3, 12)


# Statements that can be read and are wrong: the class, and the word that the error points at.
MISTAKES: dict[str, tuple[str, str]] = {
    "OPTIMIZE wrong.none": ("TABLE_OR_VIEW_NOT_FOUND", "wrong.none"),
    "VACUUM nowhere.t": ("TABLE_OR_VIEW_NOT_FOUND", "nowhere.t"),
    "VACUUM delta.`/nowhere/t`": ("DELTA_MISSING_DELTA_TABLE", "delta.`/nowhere/t`"),
    "RESTORE TABLE wrong.none TO VERSION AS OF 1": ("TABLE_OR_VIEW_NOT_FOUND", "wrong.none"),
    "DESCRIBE HISTORY wrong.none": ("TABLE_OR_VIEW_NOT_FOUND", "wrong.none"),
    "DESCRIBE DETAIL wrong.none": ("TABLE_OR_VIEW_NOT_FOUND", "wrong.none"),
    "REORG TABLE wrong.none APPLY (PURGE)": ("TABLE_OR_VIEW_NOT_FOUND", "wrong.none"),
    "REORG TABLE wrong.t APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = 2))": (
        "DELTA_ILLEGAL_OPTION",
        "wrong.t",
    ),
    "OPTIMIZE wrong.plain": ("DELTA_ONLY_OPERATION", "wrong.plain"),
    "VACUUM wrong.plain": ("DELTA_ONLY_OPERATION", "wrong.plain"),
    "GENERATE symlink_format_manifest FOR TABLE wrong.plain": ("DELTA_ONLY_OPERATION", "wrong.plain"),
    "REORG TABLE wrong.plain APPLY (PURGE)": ("DELTA_NOT_A_DELTA_TABLE", "wrong.plain"),
    "VACUUM '/nowhere/t'": ("DELTA_TABLE_ONLY_OPERATION", "'/nowhere/t'"),
    "OPTIMIZE '/nowhere/t'": ("DELTA_TABLE_ONLY_OPERATION", "'/nowhere/t'"),
    "DESCRIBE HISTORY wrong.plain": ("DELTA_ONLY_OPERATION", "wrong.plain"),
    "UPDATE wrong.t SET v = nope": ("UNRESOLVED_COLUMN.WITH_SUGGESTION", "nope"),
    "UPDATE wrong.t SET v = 'a', v = 'b'": ("DELTA_CONFLICT_SET_COLUMN", "wrong.t"),
    "UPDATE wrong.t SET v = DEFAULT + 1": ("DEFAULT_PLACEMENT_INVALID", "DEFAULT"),
    "UPDATE wrong.t SET v = f_none(1)": ("UNRESOLVED_ROUTINE", "f_none"),
    "DELETE FROM wrong.t WHERE t.nope = 1": ("UNRESOLVED_COLUMN.WITH_SUGGESTION", "t.nope"),
    "MERGE INTO wrong.t USING (SELECT 1 AS id) s ON s.nope = t.id WHEN MATCHED THEN DELETE": (
        "DELTA_MERGE_UNRESOLVED_EXPRESSION",
        "s.nope",
    ),
    "MERGE INTO wrong.t USING wrong.none s ON s.id = t.id WHEN MATCHED THEN DELETE": (
        "TABLE_OR_VIEW_NOT_FOUND",
        "wrong.t",
    ),
    "INSERT INTO wrong.t VALUES (1)": ("DELTA_INSERT_COLUMN_ARITY_MISMATCH", "wrong.t"),
    "INSERT INTO wrong.t (nope) VALUES (1)": ("UNRESOLVED_COLUMN.WITH_SUGGESTION", "wrong.t"),
    "INSERT INTO wrong.t PARTITION (v = 1) SELECT 1, 2": ("NON_PARTITION_COLUMN", "wrong.t"),
    "ALTER TABLE wrong.t SET TBLPROPERTIES ('delta.nonsense' = '1')": (
        "DELTA_UNKNOWN_CONFIGURATION",
        "wrong.t",
    ),
    "ALTER TABLE wrong.t ADD PARTITION (p = 1)": ("DELTA_OPERATION_NOT_ALLOWED", "wrong.t"),
    "CREATE TABLE wrong.t (a INT) USING delta": ("TABLE_OR_VIEW_ALREADY_EXISTS", "wrong.t"),
    "REPLACE TABLE wrong.none (a INT) USING delta": ("TABLE_OR_VIEW_NOT_FOUND", "wrong.none"),
    "SHOW PARTITIONS wrong.t2": ("TABLE_OR_VIEW_NOT_FOUND", ""),
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_has_deltas_class_and_its_place(spark_with_table: SparkSession, text: str) -> None:
    expected, word = MISTAKES[text]
    with pytest.raises((TidegateError, PySparkException)) as caught:
        spark_with_table.sql(text)
    error = caught.value
    assert getattr(error, "errorClass", None) == expected or error.getCondition() == expected, error
    assert not any(said in str(error) for said in SPARKS_OWN)
    if word:
        assert isinstance(error, TidegateError), error
        assert (error.line, error.column) == (1, text.index(word) + 1), str(error)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM wrong.t VERSION AS OF 99", "DELTA_VERSION_NOT_FOUND"),
        (
            "SELECT * FROM wrong.t TIMESTAMP AS OF '1990-01-01'",
            "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION",
        ),
        ("SELECT * FROM wrong.t TIMESTAMP AS OF 'soon'", "DELTA_INVALID_TIMESTAMP_FORMAT"),
        ("RESTORE TABLE wrong.t TO VERSION AS OF 99", "DELTA_CANNOT_RESTORE_TABLE_VERSION"),
        ("SELECT * FROM delta.`/nowhere/t`", "DELTA_MISSING_DELTA_TABLE"),
        ("SELECT * FROM table_changes('wrong.t', 0)", "DELTA_MISSING_CHANGE_DATA"),
    ],
)
def test_a_version_that_is_not_there_is_an_error_of_ours(
    spark_with_table: SparkSession, text: str, expected: str
) -> None:
    with pytest.raises(AnalysisException) as caught:
        spark_with_table.sql(text)
    assert isinstance(caught.value, TidegateError)
    assert caught.value.errorClass == expected
