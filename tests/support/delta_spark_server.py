"""delta-spark as a process that answers: runs in the peer's own environment, one request a line.

A request is ``{"code": "...", "out": "file or null"}``. The code runs with ``spark``, ``DeltaTable``, ``F``
and ``T`` at hand; its last expression is the answer: a DataFrame is written to ``out`` as an Arrow file,
anything else comes back as JSON. A failure comes back as error class and text, and the process goes on.
"""

from __future__ import annotations

import ast
import glob
import json
import os
import sys
import traceback
from typing import Any


def _session(folder: str) -> Any:
    from pyspark.sql import SparkSession

    jars = ",".join(sorted(glob.glob(os.path.join(folder, "jars", "*.jar"))))
    builder = SparkSession.builder.master("local[2]").appName("delta-spark-peer")
    for key, value in {
        "spark.jars": jars,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": os.environ["TIDEGATE_PEER_WAREHOUSE"],
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": os.environ.get("TIDEGATE_PEER_MEMORY", "2g"),
        "spark.log.level": "OFF",
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def _answer(names: dict[str, Any], code: str, out: str | None) -> Any:
    """Run ``code``; the value of its last expression, if it ends in one."""
    import pyarrow as pa
    from pyspark.sql import DataFrame

    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "request", "exec"), names)
    value = None if last is None else eval(compile(ast.Expression(last.value), "request", "eval"), names)
    if not isinstance(value, DataFrame):
        return value
    assert out is not None
    table = value.toArrow()
    with pa.OSFile(out, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return {"rows": table.num_rows}


def main() -> None:
    # What the JVM and libraries print must not get between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    spark = _session(sys.argv[1])
    from delta.tables import DeltaTable
    from pyspark.sql import functions, types

    names: dict[str, Any] = {"spark": spark, "DeltaTable": DeltaTable, "F": functions, "T": types}
    print(json.dumps({"ready": spark.version}), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = {"value": _answer(names, request["code"], request.get("out"))}
        except BaseException as error:  # whatever fails is an answer too
            get_class = getattr(error, "getErrorClass", None) or getattr(error, "getCondition", None)
            reply = {
                "error": type(error).__name__,
                "errorClass": get_class() if get_class is not None else None,
                "message": str(error)[:4000],
                "trace": traceback.format_exc()[-4000:],
            }
        print(json.dumps(reply, default=str), file=answers, flush=True)


if __name__ == "__main__":
    main()
