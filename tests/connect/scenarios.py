"""What a client of Spark Connect does with tables: run as a process of its own, one report per scenario.

A classic session cannot live beside a Connect client, so this file is a program: it starts a real server
in its own process tree, runs every function below whose name begins with ``can_``, and prints one line of
JSON with what came of each. ``python scenarios.py FOLDER``.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import tidegate
from tidegate.errors import (
    DataFileCorruptError,
    DataFileMissingError,
    InvariantViolationException,
    NotATableError,
    OptionError,
    OutOfReachError,
    SchemaInvalidError,
    StreamSourceChangedError,
    TableExistsError,
    TidegateError,
)
from tidegate.java import java_home_for_spark

DEFAULTS = "spark.databricks.delta.properties.defaults."


def rows(spark: SparkSession, path: str, **options: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(r) for r in spark.read.format("delta").options(**options).load(path).collect())


def can_write_and_read_a_partitioned_table(spark: SparkSession, path: str) -> None:
    frame = spark.range(6).selectExpr(
        "id", "id % 2 as p", "named_struct('a', id) as s", "timestamp_micros(id) t"
    )
    frame.write.format("delta").partitionBy("p").save(path)
    frame.write.format("delta").mode("append").save(path)
    assert spark.read.format("delta").load(path).where("p = 1").count() == 6
    assert spark.read.format("delta").load(path).schema.simpleString() == frame.schema.simpleString()
    assert tidegate.open(path).version == 1
    names = tidegate.open(path).files().column("path").to_pylist()
    assert all(n.startswith(("p=0/part-", "p=1/part-")) for n in names)


def can_use_every_save_mode(spark: SparkSession, path: str) -> None:
    spark.range(2).write.format("delta").save(path)
    with pytest.raises(TableExistsError):
        spark.range(2).write.format("delta").save(path)
    spark.range(9).write.format("delta").mode("ignore").save(path)
    spark.range(2, 3).write.format("delta").mode("overwrite").save(path)
    assert rows(spark, path) == [(2,)]


def can_travel_in_time(spark: SparkSession, path: str) -> None:
    spark.range(2).write.format("delta").save(path)
    frame = spark.read.format("delta").load(path)
    spark.range(3).write.format("delta").mode("append").save(path)
    assert frame.count() == 2
    assert rows(spark, path, versionAsOf="0") == [(0,), (1,)]


def can_read_the_change_feed(spark: SparkSession, path: str) -> None:
    spark.conf.set(f"{DEFAULTS}enableChangeDataFeed", "true")
    try:
        spark.range(2).write.format("delta").save(path)
    finally:
        spark.conf.unset(f"{DEFAULTS}enableChangeDataFeed")
    spark.range(5, 6).write.format("delta").mode("overwrite").save(path)
    feed = spark.read.format("delta").option("readChangeFeed", True).option("startingVersion", 1).load(path)
    found = sorted((r.id, r._change_type, r._commit_version) for r in feed.collect())
    assert found == [(0, "delete", 1), (1, "delete", 1), (5, "insert", 1)]


def can_evolve_the_schema(spark: SparkSession, path: str) -> None:
    spark.range(1).write.format("delta").save(path)
    wider = spark.range(1, 2).selectExpr("id", "'x' as extra")
    with pytest.raises(SchemaInvalidError):
        wider.write.format("delta").mode("append").save(path)
    assert tidegate.open(path).version == 0
    wider.write.format("delta").mode("append").option("mergeSchema", True).save(path)
    assert sorted(rows(spark, path), key=str) == [(0, None), (1, "x")]


def can_map_columns_by_name_and_by_id(spark: SparkSession, path: str) -> None:
    for mode in ("name", "id"):
        spark.conf.set(f"{DEFAULTS}columnMapping.mode", mode)
        try:
            frame = spark.range(4).selectExpr("id", "named_struct('x y', id) as `a b`", "id % 2 as p")
            frame.write.format("delta").partitionBy("p").save(path + mode)
        finally:
            spark.conf.unset(f"{DEFAULTS}columnMapping.mode")
        found = [(r[0], tuple(r[1]), r[2]) for r in rows(spark, path + mode)]
        assert found == [(i, (i,), i % 2) for i in range(4)]


def can_say_beforehand_which_files_and_columns_are_wanted(spark: SparkSession, path: str) -> None:
    for start in (0, 10):
        frame = spark.range(start, start + 3, 1, 1).selectExpr("id", "id * 2 as twice")
        frame.write.format("delta").mode("append").save(path)
    hidden = [n for n, s in _numbers(path) if '"id":12' not in s]
    os.unlink(f"{path}/{hidden[0]}")
    reader = (
        spark.read.format("delta").option("tidegate.where", "id >= 11").option("tidegate.columns", "twice")
    )
    assert sorted(tuple(r) for r in reader.load(path).collect()) == [(22,), (24,)]


def can_leave_files_out_by_filters(spark: SparkSession, path: str) -> None:
    for start in (0, 10, 20, 30):
        frame = spark.range(start, start + 10, 1, 1)
        frame = frame.selectExpr("id", "id * 2 AS x", "named_struct('x', -id) AS s", f"{start // 20} AS p")
        frame.write.format("delta").partitionBy("p").mode("append").save(path)
    df = spark.read.format("delta").load(path)
    names, few = df.select("id", "x", "p"), df.select("id")

    def reads(frame: Any, files: int, ids: list[int]) -> None:
        assert len(frame.inputFiles()) == files
        assert sorted(r.id for r in frame.collect()) == ids

    reads(df.where("id >= 37"), 1, [37, 38, 39])
    reads(df.where(df.id == 5), 1, [5])
    reads(df[df["id"] == 5], 1, [5])
    reads(df.filter((F.col("p") == 1) & (df.id > 10)).where("id < 22"), 1, [20, 21])
    reads(df.where("p = 1 AND id % 10 = 3"), 2, [23, 33])
    reads(df.where("rand() >= 0 AND x = 6"), 1, [3])
    reads(df.where("id < 12 OR id > 38").where("x = 2 OR x = 78").where("x = 2"), 1, [1])
    # Columns of every frame along the way are found.
    reads(names.where("id = 3").select(df.id), 1, [3])
    reads(names.where(names.x == 6), 1, [3])
    reads(few.where(few.id == 3), 1, [3])
    reads(df.drop("p", "s").where("x >= 70").select("id"), 1, [35, 36, 37, 38, 39])
    reads(df.where(df.id == 3).join(few, "id").select(df.x, "id"), 4, [3])
    # A field that is called like a column is another one.
    assert df.select("s.x").where("x = -3").count() == 1
    assert df.selectExpr("-id AS id").where("id = -3").count() == 1
    assert df.withColumn("id", df.id + 100).where("id = 103").count() == 1
    # What is not understood, or would be none, leaves the files as they are.
    reads(df.where("cast(id AS string) LIKE '%3' AND x < 10"), 1, [3])
    reads(df.where("length(cast(id AS string)) = 1"), 4, list(range(10)))
    assert df.where("id > 100").count() == 0
    assert df.count() == 40
    old = spark.read.format("delta").option("versionAsOf", 1).load(path)
    reads(old.where("id BETWEEN 8 AND 10"), 2, [8, 9, 10])
    reads(tidegate.DeltaTable.forPath(spark, path).toDF().where("id = 11"), 1, [11])
    spark.conf.set("spark.databricks.delta.stats.skipping", "false")
    try:
        reads(df.where("p = 0 AND id = 3"), 2, [3])
    finally:
        spark.conf.unset("spark.databricks.delta.stats.skipping")


def _numbers(path: str) -> list[tuple[str, str]]:
    files = tidegate.open(path).files()
    return list(zip(files.column("path").to_pylist(), files.column("stats").to_pylist(), strict=True))


def can_delete_and_update_with_deletion_vectors(spark: SparkSession, path: str) -> None:
    spark.conf.set(f"{DEFAULTS}enableDeletionVectors", "true")
    try:
        spark.range(0, 6, 1, 1).selectExpr("id", "id % 2 as p").write.format("delta").save(path)
    finally:
        spark.conf.unset(f"{DEFAULTS}enableDeletionVectors")
    table = tidegate.DeltaTable.forPath(spark, path)
    table.delete("id = 2")
    table.update("id = 3", {"p": "7"})
    assert rows(spark, path) == [(0, 0), (1, 1), (3, 7), (4, 0), (5, 1)]
    files = tidegate.open(path).files()
    assert any(v is not None for v in files.column("deletionVector").to_pylist())


def can_merge(spark: SparkSession, path: str) -> None:
    spark.range(0, 4, 1, 1).selectExpr("id", "'old' as v").write.format("delta").save(path)
    source = spark.range(2, 6).selectExpr("id", "'new' as v")
    merge = tidegate.DeltaTable.forPath(spark, path).alias("t").merge(source.alias("s"), "t.id = s.id")
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert rows(spark, path) == [(0, "old"), (1, "old"), (2, "new"), (3, "new"), (4, "new"), (5, "new")]


def can_optimize_and_look_at_the_history(spark: SparkSession, path: str) -> None:
    for _ in range(3):
        spark.range(0, 2, 1, 1).write.format("delta").mode("append").save(path)
    table = tidegate.DeltaTable.forPath(spark, path)
    table.optimize().executeCompaction()
    assert tidegate.open(path).files().num_rows == 1
    assert rows(spark, path) == [(0,), (0,), (0,), (1,), (1,), (1,)]
    assert [r.operation for r in table.history().orderBy("version").collect()] == ["WRITE"] * 3 + ["OPTIMIZE"]


def can_say_it_in_sql(spark: SparkSession, path: str) -> None:
    spark.range(0, 6, 1, 1).selectExpr("id", "'old' as v").write.format("delta").save(path)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 0").collect()
    spark.sql(f"UPDATE delta.`{path}` SET v = 'new' WHERE id = 1").collect()
    merge = f"MERGE INTO delta.`{path}` t USING (SELECT 2L AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE"
    spark.sql(merge).collect()
    found = spark.sql(f"SELECT t.id, t.v FROM delta.`{path}` t JOIN range(5) r ON t.id = r.id ORDER BY 1")
    assert [tuple(r) for r in found.collect()] == [(1, "new"), (3, "old"), (4, "old")]
    history = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").select("operation").collect()
    assert [r[0] for r in history] == ["MERGE", "UPDATE", "DELETE", "WRITE"]
    assert spark.sql("SELECT 1 + 1").collect()[0][0] == 2


def _answer(spark: SparkSession, text: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(r) for r in spark.sql(text).collect())


def can_query_tables_by_plain_names(spark: SparkSession, path: str) -> None:
    spark.sql("CREATE DATABASE IF NOT EXISTS connect_names")
    try:
        spark.range(4).write.format("delta").saveAsTable("connect_names.odd_ones")
        spark.sql(f"CREATE TABLE connect_names.words (id BIGINT, w STRING) USING delta LOCATION '{path}'")
        spark.sql("INSERT INTO connect_names.words SELECT id, 'x' FROM connect_names.odd_ones WHERE id < 2")
        text = """
            WITH odd AS (SELECT id FROM connect_names.odd_ones /* FROM nowhere */ WHERE id > 0)
            SELECT odd.id, connect_names.words.w, (SELECT count(*) FROM connect_names.odd_ones) AS n
            FROM odd JOIN connect_names.words ON connect_names.words.id = odd.id
            WHERE odd.id IN (SELECT id FROM spark_catalog.connect_names.words)
        """
        assert _answer(spark, text) == [(1, "x", 4)]
        pinned = spark.sql("SELECT count(*) FROM connect_names.words")
        spark.sql("CREATE OR REPLACE TEMPORARY VIEW connect_words AS SELECT id FROM connect_names.words")
        spark.sql("DELETE FROM connect_names.words WHERE id = 0")
        assert pinned.collect()[0][0] == 2
        assert _answer(spark, "SELECT * FROM connect_words") == [(1,)]
        with pytest.raises(OptionError, match="temporary"):
            spark.sql("CREATE VIEW connect_names.v AS SELECT * FROM connect_names.words")
    finally:
        spark.sql("DROP VIEW IF EXISTS connect_words")
        for name in ("odd_ones", "words"):
            spark.sql(f"DROP TABLE IF EXISTS connect_names.{name}")
        spark.sql("DROP DATABASE connect_names CASCADE")


def can_read_views_of_the_catalog(spark: SparkSession, path: str) -> None:
    spark.sql("CREATE DATABASE IF NOT EXISTS connect_views")
    try:
        # The server makes the view while it knows the table; then the name is given to one of ours.
        spark.sql("CREATE TABLE connect_views.t (id BIGINT, v STRING) USING parquet")
        spark.sql("USE connect_views")
        spark.sql("CREATE VIEW shown (number, word) AS SELECT id + 1 AS n, v FROM t")
        spark.sql("USE default")
        spark.sql("DROP TABLE connect_views.t")
        spark.range(2).selectExpr("id", "'x' AS v").write.format("delta").saveAsTable("connect_views.t")
        assert _answer(spark, "SELECT s.number, word FROM connect_views.shown s") == [(1, "x"), (2, "x")]
        assert spark.table("connect_views.shown").columns == ["number", "word"]
    finally:
        spark.sql("USE default")
        spark.sql("DROP TABLE IF EXISTS connect_views.t")
        spark.sql("DROP DATABASE connect_views CASCADE")


def can_take_back_a_managed_table_whose_write_fails(spark: SparkSession, path: str) -> None:
    bad = spark.range(1).selectExpr("id", "CAST(raise_error('no rows today') AS STRING) AS v")
    with pytest.raises(Exception, match="no rows today"):
        bad.write.format("delta").saveAsTable("connect_failed")
    assert not spark.catalog.tableExists("connect_failed")
    spark.range(1).write.format("delta").saveAsTable("connect_failed")
    assert _answer(spark, "SELECT * FROM connect_failed") == [(0,)]
    spark.sql("DROP TABLE connect_failed")


def can_tell_a_broken_constraint(spark: SparkSession, path: str) -> None:
    spark.conf.set(f"{DEFAULTS}constraints.positive", "id > 0")
    try:
        with pytest.raises(InvariantViolationException, match='"id":0'):
            spark.range(0, 2, 1, 1).write.format("delta").save(path)
    finally:
        spark.conf.unset(f"{DEFAULTS}constraints.positive")
    assert not list(Path(path).rglob("*.json"))


def can_tell_a_corrupt_and_a_missing_file(spark: SparkSession, path: str) -> None:
    spark.range(0, 5, 1, 1).write.format("delta").save(path)
    file = next(Path(path).glob("*.parquet"))
    file.write_bytes(b"PAR1 is not enough")
    for action in (lambda f: f.collect(), lambda f: f.toArrow()):
        with pytest.raises(DataFileCorruptError) as caught:
            action(spark.read.format("delta").load(path))
        assert caught.value.table == path
    file.unlink()
    with pytest.raises(DataFileMissingError):
        spark.read.format("delta").load(path).collect()


def can_tell_a_path_that_is_no_table(spark: SparkSession, path: str) -> None:
    with pytest.raises(NotATableError):
        spark.read.format("delta").load(path)


def can_tell_that_server_and_client_see_different_disks(spark: SparkSession, path: str) -> None:
    from tidegate.spark.places import Disk
    from tidegate.spark.write import files

    original = files.place_of
    files.place_of = lambda store: Disk(f"{path}-on-the-server")
    try:
        with pytest.raises(OutOfReachError):
            spark.range(2).write.format("delta").save(path)
    finally:
        files.place_of = original
    assert not list(Path(path).rglob("*.json"))


def can_derive_sessions(spark: SparkSession, path: str) -> None:
    spark.range(1).write.format("delta").save(path)
    for way in ("newSession", "cloneSession"):
        if not hasattr(spark, way):
            continue
        derived = getattr(spark, way)()
        assert rows(derived, path) == [(0,)]
        assert derived.read.format("delta").load(path).sparkSession is derived
        tidegate.disable(derived)
        with pytest.raises(PySparkException) as caught:
            derived.read.format("delta").load(path).collect()
        assert not isinstance(caught.value, TidegateError)
        assert rows(spark, path) == [(0,)]


def can_be_beside_a_session_that_is_not_enabled(spark: SparkSession, path: str) -> None:
    if not hasattr(spark, "newSession"):
        return
    spark.range(1).write.format("delta").save(path)
    plain = spark.newSession()
    tidegate.disable(plain)
    for refused in (
        lambda: plain.read.format("delta").load(path).collect(),
        lambda: plain.range(1).write.format("delta").mode("append").save(path),
        lambda: plain.sql(f"SELECT * FROM delta.`{path}`").collect(),
        lambda: plain.sql(f"OPTIMIZE delta.`{path}`").collect(),
        lambda: plain.readStream.format("delta").load(path).schema,
        lambda: plain.newSession().read.format("delta").load(path).collect(),
    ):
        with pytest.raises(PySparkException) as caught:
            refused()
        assert not isinstance(caught.value, TidegateError)
    assert plain.sql("SELECT {n} AS n", n=1).collect() == [(1,)]
    assert tidegate.open(path).version == 0


def can_leave_other_formats_alone(spark: SparkSession, path: str) -> None:
    spark.range(3).write.format("parquet").save(path)
    assert spark.read.format("parquet").load(path).agg(F.sum("id")).collect()[0][0] == 3


def _streamed(spark: SparkSession, path: str, **options: Any) -> Any:
    """Stream everything that is new into the table beside, and return the query, ended."""
    frame = spark.readStream.format("delta").options(**options).load(path)
    writer = frame.writeStream.format("delta").option("checkpointLocation", path + "-checkpoint")
    query = writer.trigger(availableNow=True).start(path + "-out")
    assert query.awaitTermination(240)
    return query


def can_stream_from_a_table_into_a_table(spark: SparkSession, path: str) -> None:
    frame = spark.range(0, 4, 1, 2).selectExpr("id", "id % 2 as p", "named_struct('a', id) as s")
    frame.write.format("delta").partitionBy("p").save(path)
    query = _streamed(spark, path, maxFilesPerTrigger=3)
    out = tidegate.open(path + "-out")
    assert out.version == 1, "four files, three in the first batch"
    assert out.transactions[query.id].version == 1
    frame.where("id = 3").write.format("delta").mode("append").save(path)
    _streamed(spark, path)
    assert [r[0] for r in rows(spark, path + "-out")] == [0, 1, 2, 3, 3]


def can_tell_by_name_what_stopped_a_stream(spark: SparkSession, path: str) -> None:
    spark.range(2).write.format("delta").save(path)
    _streamed(spark, path)
    spark.range(1).write.format("delta").mode("overwrite").save(path)
    writer = spark.readStream.format("delta").load(path).writeStream.format("delta")
    query = writer.option("checkpointLocation", path + "-checkpoint").start(path + "-out")
    with pytest.raises(StreamSourceChangedError) as caught:
        query.awaitTermination(240)
    assert caught.value.version == 1
    assert isinstance(query.exception(), StreamSourceChangedError)


def can_stream_the_change_feed(spark: SparkSession, path: str) -> None:
    for property in ("enableChangeDataFeed", "enableDeletionVectors"):
        spark.conf.set(f"{DEFAULTS}{property}", "true")
    try:
        frame = spark.range(0, 4, 1, 1).selectExpr("id", "id % 2 as p", "'old' as v")
        frame.write.format("delta").partitionBy("p").save(path)
    finally:
        for property in ("enableChangeDataFeed", "enableDeletionVectors"):
            spark.conf.unset(f"{DEFAULTS}{property}")
    table = tidegate.DeltaTable.forPath(spark, path)
    _streamed(spark, path, readChangeFeed=True)
    table.delete("id = 2")
    table.update("id = 3", {"v": "'new'"})
    _streamed(spark, path, readChangeFeed=True)
    out = spark.read.format("delta").load(path + "-out").drop("_commit_timestamp")
    assert sorted(tuple(r) for r in out.collect()) == [
        (0, 0, "old", "insert", 0),
        (1, 1, "old", "insert", 0),
        (2, 0, "old", "delete", 1),
        (2, 0, "old", "insert", 0),
        (3, 1, "new", "update_postimage", 2),
        (3, 1, "old", "insert", 0),
        (3, 1, "old", "update_preimage", 2),
    ]
    times = spark.read.format("delta").load(path + "-out").select("_commit_timestamp").distinct().collect()
    assert len(times) == 3


def can_stream_from_and_into_tables_by_name(spark: SparkSession, path: str) -> None:
    spark.range(3).write.format("delta").option("path", path).saveAsTable("connect_source")
    try:
        for _ in range(2):
            writer = spark.readStream.table("connect_source").writeStream.format("delta").clusterBy("id")
            writer = writer.option("checkpointLocation", path + "-checkpoint").trigger(availableNow=True)
            assert writer.toTable("connect_target").awaitTermination(240)
        target = tidegate.DeltaTable.forName(spark, "connect_target")
        assert target.detail().collect()[0].clusteringColumns == ["id"]
        found = spark.sql("SELECT count(*), max(id) FROM connect_target JOIN connect_source USING (id)")
        assert [tuple(r) for r in found.collect()] == [(3, 2)]
    finally:
        for name in ("connect_source", "connect_target"):
            spark.sql(f"DROP TABLE IF EXISTS {name}")


def can_use_tables_in_a_function_for_batches(spark: SparkSession, path: str) -> None:
    spark.range(2).write.format("delta").save(path)
    copy = path + "-copy"

    def work(batch: Any, number: int) -> None:
        batch.write.format("delta").mode("append").save(copy)
        assert batch.sparkSession.read.format("delta").load(copy).count() == 2

    writer = spark.readStream.format("delta").load(path).writeStream.foreachBatch(work)
    query = writer.option("checkpointLocation", path + "-checkpoint").trigger(availableNow=True).start()
    assert query.awaitTermination(240)
    assert rows(spark, copy) == [(0,), (1,)]


def can_write_search_and_read_an_index_table(spark: SparkSession, path: str) -> None:
    os.environ["TIDEGATE_CACHE_DIR"] = path + "-cache"
    message = F.concat(F.lit("request "), F.col("id"), F.lit(" served")).alias("message")
    frame = spark.range(30).select("id", (F.col("id") % 3).cast("int").alias("day"), message)
    options = {"spark.indextables.indexing.typemap.message": "text"}
    frame.write.format("indextables").partitionBy("day").options(**options).save(path)
    near = tidegate.IndexTable.forPath(spark, path)
    far = tidegate.IndexTable.forPath(spark, path, options={"search.driverSplits": "0"})
    assert far.count("served AND id:<5") == 5
    assert [tuple(r) for r in near.search("message:7", ["id", "day"]).collect()] == [(7, 1)]
    read = spark.read.format("indextables").load(path).where("id > 24 AND day = 1")
    assert sorted(r.id for r in read.collect()) == [25, 28]


def can_search_an_index_table_in_sql(spark: SparkSession, path: str) -> None:
    os.environ["TIDEGATE_CACHE_DIR"] = path + "-cache"
    frame = spark.range(9).selectExpr("id", "concat('request ', id) AS message")
    writer = frame.write.format("indextables").option("spark.indextables.indexing.typemap.message", "text")
    writer.save(path)
    spark.read.format("indextables").load(path)
    sql_of_the_server = type(spark).sql.__wrapped__
    sql_of_the_server(spark, f"CREATE TABLE found_by_words USING indextables LOCATION '{path}'").collect()
    try:
        for table in ("found_by_words", f"indextables.`{path}`"):
            assert _answer(spark, f"SELECT id FROM {table} WHERE message TEXTSEARCH '7'") == [(7,)]
            found = f"SELECT id FROM {table} WHERE id = 1 OR message TEXTSEARCH '7' ORDER BY id"
            assert _answer(spark, found) == [(1,), (7,)]
        assert _answer(spark, "SELECT count(*) FROM found_by_words t WHERE t.id > 6") == [(2,)]
        assert spark.table("found_by_words").count() == 9
    finally:
        sql_of_the_server(spark, "DROP TABLE found_by_words").collect()


def can_put_frames_into_sql(spark: SparkSession, path: str) -> None:
    frame = spark.range(4)
    frame.write.format("delta").save(path)
    table = f"delta.`{path}`"
    joined = "SELECT t.id FROM {t} t JOIN {f} f ON t.id = f.id + {n} WHERE f.id > :m ORDER BY t.id"
    assert spark.sql(joined.replace("{t}", table), {"m": 0}, f=frame, n=1).collect() == [(2,), (3,)]
    assert spark.sql("SELECT count(*), '{{x}}' FROM {a} JOIN {b} USING (id)", a=frame, b=frame).collect() == [
        (4, "{x}")
    ]
    spark.sql(f"INSERT INTO {table} SELECT id + 10 FROM {{f}} WHERE id > {{n}}", f=frame, n=2)
    spark.sql(f"MERGE INTO {table} t USING {{f}} s ON t.id = s.id WHEN MATCHED THEN DELETE", f=spark.range(3))
    spark.sql(f"UPDATE {table} SET id = {{n}} WHERE id = 13", n=14)
    assert rows(spark, path) == [(3,), (14,)]
    spark.sql(f"CREATE TABLE delta.`{path}-copy` USING delta AS SELECT * FROM {{f}}", f=frame)
    assert rows(spark, path + "-copy") == [(0,), (1,), (2,), (3,)]


def main(folder: str) -> None:
    os.environ.setdefault("JAVA_HOME", java_home_for_spark())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "2")
    spark: Any = tidegate.enable(builder.getOrCreate())
    report: dict[str, str] = {}
    only = set(sys.argv[2:])
    for name, scenario in list(globals().items()):
        if name.startswith("can_") and (not only or name in only):
            try:
                scenario(spark, f"{folder}/{name} + more")
                report[name] = "ok"
            except BaseException as e:
                kind = e.code if isinstance(e, TidegateError) else type(e).__name__
                report[name] = f"{kind}: {e}\n{traceback.format_exc(limit=-8)}"
    print("REPORT " + json.dumps(report), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
