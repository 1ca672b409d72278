"""A Spark of its own with hadoop-aws on its classpath: python s3a_process.py JARS BUCKET, settings on stdin.

The settings (an environment, as JSON) are put into this process after its JVM has started, so Hadoop has
them from Tidegate or not at all. What was seen goes to standard output as one line of JSON.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import sys
from typing import Any

from pyspark.sql import SparkSession

import tidegate
from tidegate.errors import TidegateError
from tidegate.log.table_log import TableLog
from tidegate.log.verify import verify

VECTORS = "spark.databricks.delta.properties.defaults.enableDeletionVectors"


def _explained(frame: Any) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        frame.explain(extended=True)
    return out.getvalue() + str(frame._jdf.queryExecution().toString())


def _rows(spark: SparkSession, table: str) -> list[list[Any]]:
    return sorted(list(r) for r in spark.read.format("delta").load(table).collect())


def main(jars: str, bucket: str, settings: dict[str, str]) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    log = io.StringIO()
    logging.basicConfig(stream=log, level=logging.DEBUG)
    # Java's own log goes to standard error, at its most talkative.
    spark = tidegate.session(
        master="local[2]",
        **{
            "spark.driver.extraClassPath": f"{jars}/*",
            "spark.driver.memory": "1g",
            "spark.sql.shuffle.partitions": "2",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": f"file:{os.environ['TIDEGATE_EVENTS']}",
        },
    )
    spark.sparkContext.setLogLevel("INFO")
    tidegate.enable(spark)
    os.environ.update(settings)
    before = dict(spark.conf.getAll)
    table = f"s3://{bucket}/some folder/table"
    frame = spark.range(0, 8, 1, 2).selectExpr("id", "concat('p ', id % 2) as p")
    spark.conf.set(VECTORS, "true")
    frame.write.format("delta").partitionBy("p").save(table)
    spark.conf.unset(VECTORS)
    frame.write.format("delta").mode("append").save(table)
    pruned = spark.read.format("delta").load(table).where("p = 'p 1'")
    [metrics] = tidegate.scan_metrics(pruned)
    seen["pruned"] = [metrics.files_considered, metrics.files_read, pruned.count()]
    there = tidegate.DeltaTable.forPath(spark, table)
    there.delete("id = 0")
    there.update("id = 1", {"p": "'moved'"})
    seen["rows"] = _rows(spark, table)
    there.optimize().executeCompaction()
    seen["optimized"] = _rows(spark, table) == seen["rows"]
    seen["plan"] = _explained(spark.read.format("delta").load(table))
    seen["confs"] = str(dict(spark.conf.getAll)) + str(spark.sparkContext.getConf().getAll())
    seen["same_confs"] = dict(spark.conf.getAll) == before
    seen["errors"] = [
        f.problem for f in verify(TableLog.at(table), deep=True).findings if f.severity == "error"
    ]
    name = tidegate.open(table).files().column("path")[0].as_py()
    TableLog.at(table).store.delete([name.replace("%20", " ")])
    try:
        _rows(spark, table)
    except TidegateError as e:
        seen["missing"] = [e.code, str(e)]
    spark.stop()
    seen["log"] = log.getvalue()
    return seen


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], json.loads(sys.stdin.read()))))
