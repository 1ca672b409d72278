"""Features dropped on Spark: the ones for which data must be rewritten, and DeltaTable's own methods."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from tidegate import DeltaTable
from tidegate.cli.app import app
from tidegate.commands import changes
from tidegate.errors import DropFeatureError, UnsupportedReaderFeatureError
from tidegate.log.snapshot import load
from tidegate.log.table_log import TableLog
from tidegate.log.verify import verify
from tidegate.protocol.delta import DELTA
from tidegate.spark.scan.positions import positioned
from tidegate.spark.write.layout import ROW_ID

Rows = Callable[..., list[tuple[object, ...]]]


def features(path: str) -> set[str]:
    return set(load(TableLog.at(path)).protocol.features())


def sound(path: str) -> None:
    report = verify(TableLog.at(path), deep=True)
    assert (report.errors, report.checked.drops) == ((), 1)


def create(spark: SparkSession, path: str, **properties: str) -> DeltaTable:
    builder = DeltaTable.create(spark).location(path).addColumn("id", "INT").addColumn("part", "STRING")
    for key, value in properties.items():
        builder = builder.property(key.replace("__", "."), value)
    made = builder.partitionedBy("part").execute()
    for low in (0, 10):
        frame = spark.range(low, low + 10, numPartitions=1).selectExpr(
            "cast(id as int) id", "if(id % 2 = 0, 'even', 'odd') part"
        )
        frame.write.format("delta").mode("append").save(path)
    return made


def append(spark: SparkSession, path: str, number: int, part: str, kind: str = "int") -> None:
    frame = spark.createDataFrame([(number, part)], f"id {kind}, part string")
    frame.write.format("delta").mode("append").save(path)


def test_deletion_vectors_are_purged_and_old_versions_stay_readable(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    made = create(spark, table, delta__enableDeletionVectors="true")
    made.delete("id in (1, 2, 15)")
    before = load(TableLog.at(table))
    assert before.files().column("deletionVector").null_count < before.num_files
    told = {r.name: r for r in made.features().collect()}["deletionVectors"]
    assert (told.inUse, told.droppable) == (True, True)
    assert "rewrite" in told.drop
    made.dropFeatureSupport("deletionVectors")
    after = load(TableLog.at(table))
    assert after.files().column("deletionVector").null_count == after.num_files
    assert features(table) == {"appendOnly", "invariants", "checkpointProtection"}
    expected = sorted((i, "even" if i % 2 == 0 else "odd") for i in range(20) if i not in (1, 2, 15))
    assert rows(table) == expected
    old = spark.read.format("delta").option("versionAsOf", before.version).load(table)
    assert sorted(map(tuple, old.collect())) == expected
    lacking = TableLog(TableLog.at(table).store, registry=DELTA.without(["deletionVectors"]))
    assert load(lacking).num_files == after.num_files
    with pytest.raises(UnsupportedReaderFeatureError):
        load(lacking, before.version)
    sound(table)


@pytest.mark.parametrize("mode", ["name", "id"])
def test_column_mapping_goes_by_rewriting_under_logical_names(
    spark: SparkSession, table: str, rows: Rows, mode: str
) -> None:
    made = create(spark, table, delta__columnMapping__mode=mode)
    made.renameColumn("id", "number")
    made.renameColumn("part", "kind")
    expected = rows(table)
    made.dropFeatureSupport("columnMapping")
    assert rows(table) == expected
    assert rows(table, "kind = 'odd' and number > 10") == [(i, "odd") for i in range(11, 20, 2)]
    snapshot = load(TableLog.at(table))
    assert snapshot.schema.names == ("number", "kind")
    assert all(not f.metadata for f in snapshot.schema.fields)
    # Anybody's parquet reader finds the columns now.
    plain = spark.read.parquet(*(f"{table}/{p}" for p in snapshot.files().column("path").to_pylist()))
    assert plain.columns[0] == "number"
    assert features(table) == {"appendOnly", "invariants", "checkpointProtection"}
    sound(table)


def test_widened_columns_are_rewritten_in_their_new_type(spark: SparkSession, table: str, rows: Rows) -> None:
    made = create(spark, table, delta__enableTypeWidening="true")
    made.alterColumn("id", type="BIGINT")
    append(spark, table, 2**40, "even", "long")
    expected = rows(table)
    wide = set(load(TableLog.at(table)).files("id > 1000000").column("path").to_pylist())
    made.dropFeatureSupport("typeWidening")
    snapshot = load(TableLog.at(table))
    assert rows(table) == expected
    assert not snapshot.schema.fields[0].metadata
    assert wide <= set(snapshot.files().column("path").to_pylist()), "files that have the type stay"
    assert features(table) == {"appendOnly", "invariants", "checkpointProtection"}
    sound(table)


def test_row_ids_survive_the_rewriting_of_other_features(spark: SparkSession, table: str) -> None:
    made = create(spark, table, delta__enableDeletionVectors="true", delta__enableRowTracking="true")
    made.delete("id in (1, 2, 15)")

    def ids() -> list[tuple[int, ...]]:
        snapshot = load(TableLog.at(table))
        return sorted(
            map(tuple, positioned(spark, snapshot, snapshot.files()).select("id", ROW_ID).collect())
        )

    before = ids()
    made.dropFeatureSupport("deletionVectors")
    assert ids() == before


def test_delta_tables_own_methods_check_what_they_are_given(spark: SparkSession, table: str) -> None:
    spark.range(3).write.format("delta").save(table)
    made = DeltaTable.forPath(spark, table)
    for call, word in (
        (lambda: made.upgradeTableProtocol("abc", 3), "readerVersion"),  # type: ignore[arg-type]
        (lambda: made.upgradeTableProtocol(1, [3]), "writerVersion"),  # type: ignore[arg-type]
        (lambda: made.addFeatureSupport(12345), "featureName needs to be a string"),  # type: ignore[arg-type]
        (lambda: made.dropFeatureSupport(12345), "featureName needs to be a string"),  # type: ignore[arg-type]
        (lambda: made.dropFeatureSupport("x", 1), "truncateHistory needs to be a boolean"),  # type: ignore[arg-type]
    ):
        with pytest.raises(ValueError, match=word):
            call()
    with pytest.raises(AnalysisException, match="abc"):
        made.addFeatureSupport("abc")
    with pytest.raises(DropFeatureError) as e:
        made.dropFeatureSupport("abc")
    assert e.value.errorClass == "DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE"
    made.upgradeTableProtocol(1, 3)
    detail = made.detail().collect()[0]
    assert (detail.minReaderVersion, detail.minWriterVersion) == (1, 3)
    made.upgradeTableProtocol(1, 2)
    assert made.detail().collect()[0].minWriterVersion == 3
    made.addFeatureSupport("deletionVectors")
    detail = made.detail().collect()[0]
    assert (detail.minReaderVersion, detail.minWriterVersion) == (3, 7)
    assert sorted(detail.tableFeatures) == ["appendOnly", "checkConstraints", "deletionVectors", "invariants"]
    made.dropFeatureSupport("deletionVectors")
    assert "deletionVectors" not in features(table)
    said = {r.name: r for r in made.features().collect()}
    assert said["checkpointProtection"].why[0].startswith("history:")
    assert said["appendOnly"].droppable is False


def test_the_feed_and_time_travel_ask_the_protocol_of_each_version(
    spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that lacks the feature is refused where the range crosses it, and served after the drop."""
    made = create(spark, table, delta__enableChangeDataFeed="true", delta__enableDeletionVectors="true")
    made.delete("id = 3")
    used = load(TableLog.at(table)).version
    made.dropFeatureSupport("deletionVectors")
    append(spark, table, 99, "odd")
    last = load(TableLog.at(table)).version
    assert {r.id for r in made.changes(used, last).collect()} == {3, 99}
    old = DELTA.without(["deletionVectors"])

    class Old:
        @staticmethod
        def at(url: str) -> TableLog:
            return TableLog(TableLog.at(url).store, registry=old)

    monkeypatch.setattr(changes, "TableLog", Old)
    assert {r.id for r in changes.changes_between(spark, table, last, last).collect()} == {99}
    with pytest.raises(UnsupportedReaderFeatureError):
        changes.changes_between(spark, table, used, last)


def test_vectors_mapping_and_widening_in_one_table_are_dropped_one_after_the_other(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    """Each drop rewrites what the others left: renamed, deleted and widened rows stay what they are."""
    made = create(
        spark,
        table,
        delta__columnMapping__mode="name",
        delta__enableDeletionVectors="true",
        delta__enableTypeWidening="true",
    )
    made.alterColumn("id", type="BIGINT")
    made.renameColumn("id", "number")
    made.renameColumn("part", "kind")
    made.delete("number in (3, 4, 17)")
    frame = spark.createDataFrame([(2**40, "odd")], "number long, kind string")
    frame.write.format("delta").mode("append").save(table)
    expected = sorted(
        [(i, "even" if i % 2 == 0 else "odd") for i in range(20) if i not in (3, 4, 17)] + [(2**40, "odd")]
    )
    used = load(TableLog.at(table)).version
    for name in ("typeWidening", "deletionVectors", "columnMapping"):
        told = {r.name: r for r in made.features().collect()}[name]
        assert (told.inUse, told.droppable) == (True, True)
        made.dropFeatureSupport(name)
        assert name not in features(table)
        assert rows(table) == expected
        assert rows(table, "number > 18 and kind = 'odd'") == [(19, "odd"), (2**40, "odd")]
    assert features(table) == {"appendOnly", "invariants", "checkpointProtection"}
    old = spark.read.format("delta").option("versionAsOf", used).load(table)
    assert sorted(map(tuple, old.collect())) == expected
    report = verify(TableLog.at(table), deep=True)
    assert (report.findings, report.checked.drops) == ((), 3)


def test_the_command_line_starts_spark_only_for_what_must_be_rewritten(
    spark: SparkSession, table: str, rows: Rows
) -> None:
    made = create(spark, table, delta__enableDeletionVectors="true")
    made.delete("id = 3")
    before = load(TableLog.at(table)).version

    def run(*more: str) -> Any:
        result = CliRunner().invoke(app, ["drop-feature", table, "deletionVectors", "--json", *more])
        assert (result.exit_code, result.stderr) == (0, "")
        return json.loads(result.stdout)

    plan = run("--dry-run")["plan"]
    assert load(TableLog.at(table)).version == before
    assert plan["filesToRewrite"] == 1
    done = run()
    assert (done["dropped"], done["version"]) == (True, before + plan["commits"])
    assert {r[0] for r in rows(table)} == set(range(20)) - {3}
    sound(table)
