"""What delta-spark refuses is refused here by the same kind of exception, under the same condition.

Each scenario was asked of delta-spark too: its kind of exception, its condition, and where scripts match
texts, a part of its words.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.errors import (
    AnalysisException,
    IllegalArgumentException,
    ParseException,
    PySparkException,
    UnsupportedOperationException,
)
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from support.dml import confs
from tidegate import DeltaTable, DeltaTableBuilder, IdentityGenerator
from tidegate.commands import catalog
from tidegate.errors import TidegateError

pytestmark = pytest.mark.spark

_numbers = itertools.count()


@dataclass
class Ground:
    """A session, a path and a name where nothing is yet; ``rows`` and ``partitioned`` make tables there."""

    spark: SparkSession
    path: str
    name: str

    @property
    def table(self) -> DeltaTable:
        return DeltaTable.forPath(self.spark, self.path)

    def rows(self, *columns: str) -> Ground:
        """A table of three rows, by default with one column, id."""
        self.frame(*columns).write.format("delta").save(self.path)
        return self

    def partitioned(self) -> Ground:
        self.frame("id", "id AS key").write.format("delta").partitionBy("key").save(self.path)
        return self

    def named(self) -> Ground:
        self.frame().write.format("delta").saveAsTable(self.name)
        return self

    def numbered(self) -> Ground:
        """A table whose column id is an identity that takes no values."""
        self.builder().addColumn("id", "bigint", generatedAlwaysAs=IdentityGenerator()).addColumn(
            "v", "int"
        ).execute()
        return self

    def append_only(self) -> Ground:
        self.rows().table.setProperties({"delta.appendOnly": "true"})
        return self

    def frame(self, *columns: str) -> DataFrame:
        return self.spark.range(3).selectExpr(*(columns or ("id",)))

    def save(self, frame: DataFrame, mode: str = "append", **options: object) -> None:
        frame.write.format("delta").mode(mode).options(**options).save(self.path)

    def without_data_columns(self) -> None:
        with confs(self.spark, replaceWhere__dataColumns__enabled="false"):
            self.rows().save(self.frame(), "overwrite", replaceWhere="id < 2")

    def read(self, **options: object) -> None:
        self.spark.read.format("delta").options(**options).load(self.path).collect()

    def builder(self) -> DeltaTableBuilder:
        return DeltaTable.create(self.spark).location(self.path)

    def merge(self) -> Any:
        source = self.spark.range(2).alias("s")
        return self.rows().table.alias("t").merge(source, "t.id = s.id")


@pytest.fixture
def ground(spark: SparkSession, table: str) -> Iterator[Ground]:
    name = f"conditions{next(_numbers)}"
    yield Ground(spark, table, name)
    spark.catalog.dropTempView(name)
    catalog.drop_table(spark, name, if_exists=True)


Act = Callable[[Ground], object]

# By what is done: how, the kind of exception, the condition, and words of the text.
SCENARIOS: dict[str, tuple[Act, type[PySparkException], str, str]] = {
    # ---- writing
    "replaceWhere that new rows do not meet": (
        lambda g: g.rows().save(g.spark.range(9), "overwrite", replaceWhere="id < 2"),
        AnalysisException,
        "DELTA_REPLACE_WHERE_MISMATCH",
        "id < 2",
    ),
    "replaceWhere that does not parse": (
        lambda g: g.rows().save(g.frame(), "overwrite", replaceWhere="id <"),
        AnalysisException,
        "DELTA_FAILED_RECOGNIZE_PREDICATE",
        "id <",
    ),
    "replaceWhere on data columns where that is off": (
        lambda g: g.without_data_columns(),
        AnalysisException,
        "DELTA_NON_PARTITION_COLUMN_REFERENCE",
        "",
    ),
    "values for an identity that takes none": (
        lambda g: g.numbered().save(g.frame("id", "1 AS v")),
        AnalysisException,
        "DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED",
        "id",
    ),
    "a MERGE that brings values for an identity that takes none": (
        lambda g: (
            g.numbered()
            .table.alias("t")
            .merge(g.frame("id", "1 AS v").alias("s"), "t.id = s.id")
            .whenNotMatchedInsertAll()
            .execute()
        ),
        AnalysisException,
        "DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED",
        "id",
    ),
    "an overwrite of an append-only table": (
        lambda g: g.append_only().save(g.frame(), "overwrite"),
        UnsupportedOperationException,
        "DELTA_CANNOT_MODIFY_APPEND_ONLY",
        "delta.appendOnly",
    ),
    "a DELETE from an append-only table": (
        lambda g: g.append_only().table.delete("id = 1"),
        UnsupportedOperationException,
        "DELTA_CANNOT_MODIFY_APPEND_ONLY",
        "delta.appendOnly",
    ),
    "a partition column that the data lacks": (
        lambda g: g.frame().write.format("delta").partitionBy("nope").save(g.path),
        AnalysisException,
        "DELTA_PARTITION_COLUMN_NOT_FOUND",
        "nope",
    ),
    "a partition column that is an array": (
        lambda g: g.frame("id", "array(id) AS a").write.format("delta").partitionBy("a").save(g.path),
        AnalysisException,
        "DELTA_INVALID_PARTITION_COLUMN_TYPE",
        "a",
    ),
    "data without columns": (
        lambda g: g.save(g.spark.range(3).select()),
        AnalysisException,
        "DELTA_EMPTY_DATA",
        "column",
    ),
    "data with a column twice": (
        lambda g: g.save(g.frame("id", "id AS ID")),
        AnalysisException,
        "DELTA_DUPLICATE_COLUMNS_FOUND.DATA",
        "ID",
    ),
    # ---- making tables
    "a table over another by its name": (
        lambda g: DeltaTable.create(g.named().spark).tableName(g.name).addColumn("a", "int").execute(),
        AnalysisException,
        "TABLE_OR_VIEW_ALREADY_EXISTS",
        "already exists",
    ),
    "a table over another by its place": (
        lambda g: g.rows().builder().addColumn("a", "int").execute(),
        AnalysisException,
        "TABLE_OR_VIEW_ALREADY_EXISTS",
        "already exists",
    ),
    "writeTo a name that is taken": (
        lambda g: g.named().frame().writeTo(g.name).using("delta").create(),
        AnalysisException,
        "TABLE_OR_VIEW_ALREADY_EXISTS",
        "already exists",
    ),
    "saveAsTable to a name that is taken": (
        lambda g: g.named().frame().write.format("delta").saveAsTable(g.name),
        AnalysisException,
        "TABLE_OR_VIEW_ALREADY_EXISTS",
        "already exists",
    ),
    "save to a place that is taken": (
        lambda g: g.rows().save(g.frame(), "error"),
        AnalysisException,
        "DELTA_PATH_EXISTS",
        "already exists",
    ),
    "a replacement of no name": (
        lambda g: DeltaTable.replace(g.spark).tableName(g.name).addColumn("a", "int").execute(),
        AnalysisException,
        "TABLE_OR_VIEW_NOT_FOUND",
        "cannot be found",
    ),
    "a replacement of no place": (
        lambda g: DeltaTable.replace(g.spark).location(g.path).addColumn("a", "int").execute(),
        AnalysisException,
        "TABLE_OR_VIEW_NOT_FOUND",
        "cannot be found",
    ),
    "a replacement by writeTo of no name": (
        lambda g: g.frame().writeTo(g.name).using("delta").replace(),
        AnalysisException,
        "TABLE_OR_VIEW_NOT_FOUND",
        "cannot be found",
    ),
    "a table without a name and a place": (
        lambda g: DeltaTable.create(g.spark).addColumn("a", "int").execute(),
        AnalysisException,
        "DELTA_CREATE_TABLE_MISSING_TABLE_NAME_OR_LOCATION",
        "name or",
    ),
    "a table in no database": (
        lambda g: DeltaTable.create(g.spark).tableName(f"nowhere.{g.name}").addColumn("a", "int").execute(),
        AnalysisException,
        "SCHEMA_NOT_FOUND",
        "nowhere",
    ),
    "a table with a column twice": (
        lambda g: g.builder().addColumn("a", "int").addColumn("A", "int").execute(),
        AnalysisException,
        "COLUMN_ALREADY_EXISTS",
        "A",
    ),
    "a table partitioned by no column of its own": (
        lambda g: g.builder().addColumn("a", "int").partitionedBy("nope").execute(),
        AnalysisException,
        "DELTA_PARTITION_COLUMN_NOT_FOUND",
        "nope",
    ),
    "an identity that is no bigint": (
        lambda g: g.builder().addColumn("a", "int", generatedAlwaysAs=IdentityGenerator()).execute(),
        UnsupportedOperationException,
        "DELTA_IDENTITY_COLUMNS_UNSUPPORTED_DATA_TYPE",
        "a",
    ),
    "an identity that does not move, in SQL": (
        lambda g: g.spark.sql(
            f"CREATE TABLE {g.name} (a BIGINT GENERATED ALWAYS AS IDENTITY (INCREMENT BY 0)) USING delta"
        ),
        ParseException,
        "IDENTITY_COLUMNS_ILLEGAL_STEP",
        "step 0",
    ),
    "a column generated from none": (
        lambda g: (
            g.builder().addColumn("a", "int").addColumn("b", "int", generatedAlwaysAs="no + 1").execute()
        ),
        AnalysisException,
        "DELTA_INVALID_GENERATED_COLUMN_REFERENCES",
        "no",
    ),
    "a column generated by an aggregate": (
        lambda g: (
            g.builder().addColumn("a", "int").addColumn("b", "int", generatedAlwaysAs="max(a)").execute()
        ),
        AnalysisException,
        "DELTA_AGGREGATE_IN_GENERATED_COLUMN",
        "max(a)",
    ),
    # ---- finding and reading
    "forPath of nothing": (
        lambda g: g.table,
        AnalysisException,
        "DELTA_MISSING_DELTA_TABLE",
        "is not a Delta table",
    ),
    "forName of nothing": (
        lambda g: DeltaTable.forName(g.spark, g.name),
        AnalysisException,
        "DELTA_MISSING_DELTA_TABLE",
        "is not a Delta table",
    ),
    "forName of a path with nothing": (
        lambda g: DeltaTable.forName(g.spark, f"delta.`{g.path}`"),
        AnalysisException,
        "DELTA_MISSING_DELTA_TABLE",
        "is not a Delta table",
    ),
    "forName of a temporary view": (
        lambda g: (g.frame().createOrReplaceTempView(g.name), DeltaTable.forName(g.spark, g.name)),
        AnalysisException,
        "DELTA_MISSING_DELTA_TABLE",
        "is not a Delta table",
    ),
    "forName of a table of another format": (
        lambda g: (
            g.frame().write.format("parquet").saveAsTable(g.name),
            DeltaTable.forName(g.spark, g.name),
        ),
        AnalysisException,
        "DELTA_MISSING_DELTA_TABLE",
        "is not a Delta table",
    ),
    "a read of a place that holds nothing": (
        lambda g: g.read(),
        AnalysisException,
        "PATH_NOT_FOUND",
        "table",
    ),
    "a read of a place that holds other files": (
        lambda g: (g.frame().write.parquet(g.path), g.read()),
        AnalysisException,
        "DELTA_TABLE_NOT_FOUND",
        "table",
    ),
    "versionAsOf that is no number": (
        lambda g: g.rows().read(versionAsOf="x"),
        IllegalArgumentException,
        "DELTA_TIME_TRAVEL_INVALID_BEGIN_VALUE",
        "versionAsOf",
    ),
    "versionAsOf below zero": (
        lambda g: g.rows().read(versionAsOf="-1"),
        AnalysisException,
        "DELTA_VERSION_NOT_FOUND",
        "-1",
    ),
    "timestampAsOf that is no time": (
        lambda g: g.rows().read(timestampAsOf="soon"),
        AnalysisException,
        "DELTA_TIMESTAMP_INVALID",
        "The provided timestamp ('soon') cannot be converted to a valid timestamp",
    ),
    "versionAsOf and timestampAsOf": (
        lambda g: g.rows().read(versionAsOf="0", timestampAsOf="2026-01-01"),
        IllegalArgumentException,
        "DELTA_ONEOF_IN_TIMETRAVEL",
        "timestampAsOf",
    ),
    "a change feed from a version that is no number": (
        lambda g: g.rows().read(readChangeFeed="true", startingVersion="x"),
        AnalysisException,
        "DELTA_VERSION_INVALID",
        "startingVersion",
    ),
    "a change feed with a version to travel to": (
        lambda g: g.rows().read(readChangeFeed="true", startingVersion="0", versionAsOf="0"),
        AnalysisException,
        "DELTA_UNSUPPORTED_TIME_TRAVEL_VIEWS",
        "versionAsOf",
    ),
    "a change feed with two beginnings": (
        lambda g: g.rows().read(readChangeFeed="true", startingVersion="0", startingTimestamp="2026-01-01"),
        AnalysisException,
        "DELTA_MULTIPLE_CDC_BOUNDARY",
        "startingTimestamp",
    ),
    "a stream with a version to travel to": (
        lambda g: g.rows().spark.readStream.format("delta").option("versionAsOf", 0).load(g.path),
        AnalysisException,
        "DELTA_UNSUPPORTED_TIME_TRAVEL_VIEWS",
        "versionAsOf",
    ),
    "a change feed from a version to come": (
        lambda g: g.rows().read(readChangeFeed="true", startingVersion="5"),
        IllegalArgumentException,
        "DELTA_CDC_START_VERSION_AFTER_LATEST",
        "5",
    ),
    # ---- changing rows
    "an UPDATE of a column that is not there": (
        lambda g: g.rows().table.update(set={"nope": "1"}),
        AnalysisException,
        "UNRESOLVED_COLUMN.WITH_SUGGESTION",
        "nope",
    ),
    "an UPDATE of a field that is not there": (
        lambda g: g.rows("named_struct('x', id) AS s").table.update(set={"s.nope": "1"}),
        AnalysisException,
        "FIELD_NOT_FOUND",
        "s.nope",
    ),
    "a MERGE that sets a column that is not there": (
        lambda g: g.merge().whenMatchedUpdate(set={"nope": "1"}).execute(),
        AnalysisException,
        "DELTA_MERGE_UNRESOLVED_EXPRESSION",
        "nope",
    ),
    "a MERGE that inserts a column that is not there": (
        lambda g: g.merge().whenNotMatchedInsert(values={"nope": "1"}).execute(),
        AnalysisException,
        "DELTA_MERGE_UNRESOLVED_EXPRESSION",
        "nope",
    ),
    # ---- services
    "RESTORE to a time that is none": (
        lambda g: g.rows().table.restoreToTimestamp("05/04/1999"),
        AnalysisException,
        "DELTA_TIMESTAMP_INVALID",
        "The provided timestamp ('05/04/1999') cannot be converted to a valid timestamp",
    ),
    "RESTORE to a version below zero": (
        lambda g: g.rows().table.restoreToVersion(-1),
        AnalysisException,
        "DELTA_CANNOT_RESTORE_TABLE_VERSION",
        "-1",
    ),
    "a clone where a table is": (
        lambda g: (
            g.rows().frame().write.format("delta").save(f"{g.path}-2"),
            g.table.clone(f"{g.path}-2", True),
        ),
        AnalysisException,
        "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION",
        "table",
    ),
    "a clone to a name that is taken": (
        lambda g: g.rows().named().table.clone(g.name, isShallow=True),
        AnalysisException,
        "DELTA_TABLE_ALREADY_EXISTS",
        "already exists",
    ),
    "a deep clone": (
        lambda g: g.rows().table.clone(f"{g.path}-2"),
        IllegalArgumentException,
        "DELTA_UNSUPPORTED_DEEP_CLONE",
        "shallow",
    ),
    "Z-order by a column that is not there": (
        lambda g: g.rows().table.optimize().executeZOrderBy("nope"),
        IllegalArgumentException,
        "DELTA_ZORDERING_COLUMN_DOES_NOT_EXIST",
        "nope",
    ),
    "Z-order by a partition column": (
        lambda g: g.partitioned().table.optimize().executeZOrderBy("key"),
        IllegalArgumentException,
        "DELTA_ZORDERING_ON_PARTITION_COLUMN",
        "key is a partition column. Z-Ordering can only be performed on data columns",
    ),
    "OPTIMIZE by a data column, without partitions": (
        lambda g: g.rows().table.optimize().where("id = 1").executeCompaction(),
        AnalysisException,
        "DELTA_NON_PARTITION_COLUMN_REFERENCE",
        "Predicate references non-partition column 'id'. Only the partition columns may be referenced: []",
    ),
    "OPTIMIZE by a data column, beside partitions": (
        lambda g: g.partitioned().table.optimize().where("id = 1").executeCompaction(),
        AnalysisException,
        "DELTA_NON_PARTITION_COLUMN_REFERENCE",
        "Predicate references non-partition column 'id'. Only the partition columns may be referenced: [key]",
    ),
    "OPTIMIZE by a column that is not there": (
        lambda g: g.partitioned().table.optimize().where("nope = 1").executeCompaction(),
        AnalysisException,
        "DELTA_NON_PARTITION_COLUMN_REFERENCE",
        "Predicate references non-partition column 'nope'.",
    ),
    "OPTIMIZE by a condition that does not parse": (
        lambda g: g.partitioned().table.optimize().where("key =").executeCompaction(),
        AnalysisException,
        "DELTA_FAILED_RECOGNIZE_PREDICATE",
        "key =",
    ),
    "OPTIMIZE of some partitions of a clustered table": (
        lambda g: (
            g.builder().addColumn("id", "bigint").clusterBy("id").execute(),
            g.table.optimize().where("id = 1").executeCompaction(),
        ),
        UnsupportedOperationException,
        "DELTA_CLUSTERING_WITH_PARTITION_PREDICATE",
        "clustered",
    ),
    "OPTIMIZE FULL of a table that is not clustered": (
        lambda g: g.rows().table.optimize().executeFull(),
        UnsupportedOperationException,
        "DELTA_OPTIMIZE_FULL_NOT_SUPPORTED",
        "clustering columns",
    ),
    "a constraint that rows do not meet": (
        lambda g: g.rows().table.addConstraint("few", "id < 2"),
        AnalysisException,
        "DELTA_NEW_CHECK_CONSTRAINT_VIOLATION",
        "id < 2",
    ),
    "a mapping mode that cannot be had": (
        lambda g: g.rows().table.setProperties({"delta.columnMapping.mode": "id"}),
        UnsupportedOperationException,
        "DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE",
        "id",
    ),
}


@pytest.mark.parametrize("what", SCENARIOS)
def test_a_refusal_is_of_the_kind_and_the_condition_that_scripts_expect(ground: Ground, what: str) -> None:
    act, kind, condition, words = SCENARIOS[what]
    with pytest.raises(kind) as caught:
        act(ground)
    assert isinstance(caught.value, TidegateError)
    assert (caught.value.getCondition(), caught.value.errorClass) == (condition, condition)
    assert words in str(caught.value)


def test_a_table_that_is_there_or_missing_is_named(ground: Ground) -> None:
    with pytest.raises(AnalysisException, match=f"The table {ground.name} cannot be found"):
        DeltaTable.replace(ground.spark).tableName(ground.name).addColumn("a", "int").execute()
    ground.named()
    with pytest.raises(AnalysisException, match=f"The table {ground.name} already exists"):
        DeltaTable.create(ground.spark).tableName(ground.name).addColumn("a", "int").execute()


def test_a_condition_on_a_column_that_the_table_lacks_is_told_whatever_its_name(ground: Ground) -> None:
    with pytest.raises(AnalysisException) as caught:
        ground.rows("id AS key").table.delete("id = 1")
    assert caught.value.getCondition() == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    assert "[`key`]" in str(caught.value)
    assert ground.table.history().count() == 1


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        (lambda t: t.delete(condition=1), TypeError, "must be a Spark SQL Column or a string"),
        (lambda t: t.update(1, {}), TypeError, "must be a Spark SQL Column or a string"),
        (lambda t: t.update({"value": "1"}), ValueError, "cannot be None"),
        (lambda t: t.update(set=1), TypeError, "must be a dict"),
        (lambda t: t.update(set={"value": 1}), TypeError, "Values of dict in .* must contain only"),
        (lambda t: t.update(set={1: ""}), TypeError, "Keys of dict in .* must contain only"),
        (lambda t: t.optimize().executeZOrderBy(1), TypeError, "Z-order column must be str"),
        (lambda t: t.optimize().where(1), TypeError, "must be a string"),
        (lambda t: t.restoreToVersion("0"), ValueError, "version needs to be an int but got '<class 'str'>'"),
        (
            lambda t: t.restoreToTimestamp(1),
            ValueError,
            "timestamp needs to be a string but got '<class 'int'>'",
        ),
        (lambda t: t.upgradeTableProtocol([], 3), ValueError, "readerVersion"),
        (lambda t: t.upgradeTableProtocol(1, "3"), ValueError, "writerVersion"),
        (lambda t: t.addFeatureSupport(1), ValueError, "featureName needs to be a string"),
        (lambda t: t.dropFeatureSupport(1), ValueError, "featureName needs to be a string"),
        (lambda t: t.dropFeatureSupport("x", 1), ValueError, "truncateHistory needs to be a boolean"),
        (lambda t: t.clone("x", 1), ValueError, "isShallow needs to be a boolean"),
    ],
)
def test_arguments_of_a_wrong_type_are_told_in_the_words_that_scripts_match(
    ground: Ground, given: Callable[[Any], object], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        given(ground.rows().table)


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        (lambda m: m.whenMatchedUpdate({"value": "v"}), ValueError, "cannot be None"),
        (lambda m: m.whenMatchedUpdate(1, {"id": "1"}), TypeError, "must be a Spark SQL Column or a string"),
        (lambda m: m.whenMatchedUpdate("true", 1), TypeError, "must be a dict"),
        (lambda m: m.whenMatchedUpdate(set={"id": 1}), TypeError, "Values of dict in .* must contain only"),
        (lambda m: m.whenNotMatchedInsert(values={1: ""}), TypeError, "Keys of dict in .* must contain only"),
        (lambda m: m.whenNotMatchedBySourceDelete(1), TypeError, "must be a Spark SQL Column or a string"),
    ],
)
def test_arguments_of_a_wrong_type_to_the_clauses_of_a_merge(
    ground: Ground, given: Callable[[Any], object], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        given(ground.merge())


@pytest.mark.parametrize(
    "given",
    [
        lambda b: b.tableName(1),
        lambda b: b.location(1),
        lambda b: b.comment(1),
        lambda b: b.addColumn(1, "int"),
        lambda b: b.addColumn("a", 1),
        lambda b: b.addColumn("a", "int", nullable=1),
        lambda b: b.addColumn("a", "int", comment=1),
        lambda b: b.addColumn("a", "int", generatedAlwaysAs=1),
        lambda b: b.addColumn("a", "bigint", generatedByDefaultAs="a"),
        lambda b: b.addColumns(1),
        lambda b: b.addColumns("a int"),
        lambda b: b.addColumns([T.StructField("a", T.IntegerType()), 1]),
        lambda b: b.partitionedBy(1),
        lambda b: b.partitionedBy("a", 1),
        lambda b: b.clusterBy([1]),
        lambda b: b.property(1, "1"),
        lambda b: b.property("a", 1),
        lambda b: b.property("a", True),
    ],
)
def test_arguments_of_a_wrong_type_to_the_builder(
    spark: SparkSession, given: Callable[[Any], object]
) -> None:
    with pytest.raises(TypeError, match="found"):
        given(DeltaTable.create(spark))
