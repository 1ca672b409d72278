"""The story on Spark, the second half of `make demo`: a shop's orders and its log, on stock PySpark.

A table is made and filled by two writers at once, its schema grows, a bad row is refused, rows are merged
and deleted, the past is looked at, a stream comes in, the change feed is read, and the shop's log messages
are searched. Everything goes into a temporary directory and is gone afterwards.
"""

from __future__ import annotations

import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from demo import Screen
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tidegate
from tidegate import DeltaTable, IndexTable
from tidegate.errors import TidegateError

MESSAGES = (
    ("INFO", "order {n} accepted, payment authorised"),
    ("INFO", "order {n} packed and handed to the carrier"),
    ("WARN", "payment gateway answered after {n} ms, retrying"),
    ("ERROR", "connection reset by peer while charging order {n}"),
    ("ERROR", "disk quota exceeded on node {n}, uploads are paused"),
)


def show(screen: Screen, frame: DataFrame) -> None:
    screen.table(frame.columns, [tuple(r) for r in frame.collect()])


def orders(spark: SparkSession, first: int, count: int, country: str) -> DataFrame:
    return spark.range(first, first + count).select(
        F.col("id"),
        F.lit(country).alias("country"),
        (F.col("id") % 90 + 10).cast("decimal(8,2)").alias("amount"),
    )


def create(screen: Screen, spark: SparkSession, table: str) -> None:
    screen.chapter("A table, by SQL")
    text = (
        f"CREATE TABLE delta.`{table}` (id BIGINT NOT NULL, country STRING, amount DECIMAL(8,2))\n"
        "USING delta PARTITIONED BY (country) TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    )
    spark.sql(text)
    screen.say(text.replace(table, ".../orders"))


def append_at_once(screen: Screen, spark: SparkSession, table: str) -> None:
    screen.chapter("Two writers at once, no lock service")

    def write(work: tuple[int, str]) -> None:
        orders(spark, work[0], 500, work[1]).write.format("delta").mode("append").save(table)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, [(0, "de"), (500, "fr")]))
    show(screen, spark.read.format("delta").load(table).groupBy("country").count().orderBy("country"))
    screen.say(f"Both are in: the table is at version {tidegate.open(table).version}.")


def evolve(screen: Screen, spark: SparkSession, table: str) -> None:
    screen.chapter("The schema grows with the data")
    more = orders(spark, 1_000, 3, "it").withColumn("coupon", F.lit("SPRING"))
    try:
        more.write.format("delta").mode("append").save(table)
    except TidegateError as e:
        screen.say(f"As it is: {e.message}\n{e.hint}", "yellow")
    more.write.format("delta").mode("append").option("mergeSchema", "true").save(table)
    screen.say(f"With mergeSchema: {', '.join(tidegate.open(table).schema.names)}")


def refuse(screen: Screen, spark: SparkSession, table: str) -> None:
    screen.chapter("A constraint holds")
    spark.sql(f"ALTER TABLE delta.`{table}` ADD CONSTRAINT paid CHECK (amount > 0)")
    before = tidegate.open(table).version
    try:
        spark.sql(f"INSERT INTO delta.`{table}` VALUES (9999, 'de', -5.00, NULL)")
    except TidegateError as e:
        screen.say(e.message, "yellow")
    screen.say(f"Nothing was written: still version {tidegate.open(table).version} (it was {before}).")


def change(screen: Screen, spark: SparkSession, table: str) -> None:
    screen.chapter("MERGE and DELETE")
    target = DeltaTable.forPath(spark, table)
    news = spark.createDataFrame(
        [(1, "de", "999.00"), (5_000, "es", "12.50")], "id long, country string, a string"
    )
    news = news.select(
        "id", "country", F.col("a").cast("decimal(8,2)").alias("amount"), F.lit("VIP").alias("coupon")
    )
    done = (
        target.alias("t")
        .merge(news.alias("s"), "t.id = s.id")
        .whenMatchedUpdateAll()
        .whenNotMatchedInsertAll()
        .execute()
    )
    show(screen, done)
    target.delete("country = 'fr' AND id >= 995")
    screen.say("DELETE WHERE country = 'fr' AND id >= 995: only the files of fr were looked at.")


def travel(screen: Screen, spark: SparkSession, table: str) -> None:
    screen.chapter("Travelling in time")
    latest = tidegate.open(table).version
    rows = []
    for version in (0, 2, latest):
        found = spark.sql(
            f"SELECT count(*), max(amount) FROM delta.`{table}` VERSION AS OF {version}"
        ).first()
        assert found is not None
        rows.append((version, found[0], found[1]))
    screen.table(["version", "rows", "dearest order"], rows)


def stream(screen: Screen, spark: SparkSession, table: str, scratch: Path) -> None:
    screen.chapter("A stream comes in, each batch exactly once")
    incoming = str(scratch / "incoming")
    orders(spark, 20_000, 250, "nl").withColumn("coupon", F.lit(None).cast("string")).write.format(
        "delta"
    ).save(incoming)

    def once() -> None:
        (
            spark.readStream.format("delta")
            .load(incoming)
            .writeStream.format("delta")
            .option("checkpointLocation", str(scratch / "checkpoint"))
            .trigger(availableNow=True)
            .start(table)
            .awaitTermination()
        )

    once()
    once()
    count = spark.read.format("delta").load(table).where("country = 'nl'").count()
    screen.say(f"Run twice from the same checkpoint, {count} orders of nl arrived: not one of them twice.")


def feed(screen: Screen, spark: SparkSession, table: str) -> None:
    screen.chapter("What changed, and when")
    changes = spark.sql(
        f"SELECT _commit_version AS version, _change_type AS change, count(*) AS rows "
        f"FROM table_changes('delta.`{table}`', 1) GROUP BY ALL ORDER BY version, change"
    )
    show(screen, changes)


def search(screen: Screen, spark: SparkSession, scratch: Path) -> None:
    screen.chapter("Searching the shop's log")
    place = str(scratch / "messages")
    lines = [(n, level, text.format(n=n)) for n in range(2_000) for level, text in [MESSAGES[n % 5]]]
    logs = spark.createDataFrame(lines, "line long, level string, message string")
    options = {"spark.indextables.indexing.typemap.message": "text"}
    logs.write.format("indextables").options(**options).save(place)
    table = IndexTable.forPath(spark, place)
    began = time.perf_counter()
    query = 'message:"connection reset" AND level:ERROR'
    total = table.count(query)
    took = time.perf_counter() - began
    screen.say(f"{query}  ->  {total} of {len(lines)} lines, in {took * 1000:.0f} ms")
    hits = table.search(
        'message:"quota exceeded"',
        columns=["line", "message"],
        limit=3,
        highlight=["message"],
        marks=(">>", "<<"),
    )
    screen.table(["line", "where it was found"], [(r["line"], r["_snippet_message"]) for r in hits.collect()])


def look_back(screen: Screen, spark: SparkSession, table: str) -> None:
    screen.chapter("History")
    history = DeltaTable.forPath(spark, table).history(8)
    rows: list[tuple[Any, ...]] = [
        (r["version"], r["operation"], (r["operationMetrics"] or {}).get("numOutputRows", ""))
        for r in history.collect()
    ]
    screen.table(["version", "operation", "rows written"], rows)


def main() -> None:
    screen = Screen()
    began = time.monotonic()
    screen.say("Starting Spark, as it comes from PyPI: no JARs, no plugin.")
    spark = tidegate.session(**{"spark.sql.shuffle.partitions": "2", "spark.log.level": "OFF"})
    spark.sparkContext.setLogLevel("OFF")
    tidegate.enable(spark)
    with tempfile.TemporaryDirectory(prefix="tidegate-demo-") as directory:
        scratch = Path(directory)
        table = str(scratch / "orders")
        create(screen, spark, table)
        append_at_once(screen, spark, table)
        evolve(screen, spark, table)
        refuse(screen, spark, table)
        change(screen, spark, table)
        travel(screen, spark, table)
        stream(screen, spark, table, scratch)
        feed(screen, spark, table)
        look_back(screen, spark, table)
        search(screen, spark, scratch)
        spark.stop()
    screen.say(
        f"\nAll of it took {time.monotonic() - began:.0f} s, Spark's own start included.", "bold green"
    )


if __name__ == "__main__":
    main()
