"""A Spark driver made to be killed: ``python -m support.victim DIRECTORY MASTER CONFS``.

It reads orders from its input, one JSON object a line, and answers each with one. An order may name a
point at which to stop: there the process concerned (a Python worker in the middle of its rows, or the
driver itself) says so through the pipe ``DIRECTORY/stopped``, with its ids, and waits until somebody
opens the pipe that it names. So whoever kills knows exactly what had been done by then.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from collections.abc import Callable
from typing import Any

STOPPED = "stopped"
# A master of ours: see ``two_hosts``.
TWO_HOSTS = "two-hosts"


def stop_here(directory: str, where: str) -> None:
    """Say that this process stands still, and stand still until it is let go."""
    # A worker may stop more than once in its life.
    gate = os.path.join(directory, f"gate-{os.getpid()}-{where}-{uuid.uuid4().hex}")
    os.mkfifo(gate)
    parent = os.getppid()
    with open(f"/proc/{parent}/stat") as stat:
        grandparent = int(stat.read().rsplit(")", 1)[1].split()[1])
    said = {"where": where, "pid": os.getpid(), "parent": parent, "grandparent": grandparent, "gate": gate}
    with open(os.path.join(directory, STOPPED), "w") as pipe:
        pipe.write(json.dumps(said) + "\n")
    with open(gate) as waiting:
        waiting.read()


def stopping_at(directory: str, number: int, attempts: int) -> Callable[[int], int]:
    """A function of rows that stops at the row ``number`` in the first ``attempts`` attempts of its task.

    It travels to the workers by value: they know nothing of this module.
    """

    def passing(value: int) -> int:
        from pyspark import TaskContext

        context = TaskContext.get()
        if value == number and context is not None and context.attemptNumber() < attempts:
            stop_here(directory, f"row-{context.attemptNumber()}")
        return value

    return passing


def failing_at(number: int, attempts: int) -> Callable[[int], int]:
    """A function of rows that fails at the row ``number`` in the first ``attempts`` attempts of its task."""

    def passing(value: int) -> int:
        from pyspark import TaskContext

        context = TaskContext.get()
        if value == number and context is not None and context.attemptNumber() < attempts:
            raise OSError(f"attempt {context.attemptNumber()} fails")
        return value

    return passing


def two_hosts(directory: str) -> str:
    """The address of a cluster of two hosts, which lives in the JVM that the driver is going to use.

    Spark gives a slow task a second attempt on another host alone, and a ``local-cluster`` has but one.
    """
    from pyspark import SparkContext

    from tidegate.java import java_home_for_spark

    os.environ.setdefault("JAVA_HOME", java_home_for_spark())
    SparkContext._ensure_initialized()
    gateway: Any = SparkContext._gateway
    jvm: Any = SparkContext._jvm
    conf = jvm.org.apache.spark.SparkConf()
    hosts = ("127.0.0.1", "127.0.0.2")
    deploy = jvm.org.apache.spark.deploy
    address = deploy.master.Master.startRpcEnvAndEndpoint(hosts[0], 0, 0, conf)._1().address()
    masters = gateway.new_array(jvm.java.lang.String, 1)
    masters[0] = address.toSparkURL()
    option = jvm.scala.Option
    for number, host in enumerate(hosts, 1):
        deploy.worker.Worker.startRpcEnvAndEndpoint(
            host, 0, 0, 1, 1024, masters, f"{directory}/work", option.apply(number), conf, option.empty()
        )
    return str(masters[0])


class Orders:
    """What the victim can be told to do."""

    def __init__(self, spark: Any, directory: str) -> None:
        self.spark = spark
        self.directory = directory

    def _held(self, frame: Any, row: int, attempts: int) -> Any:
        from pyspark.sql import functions as F

        held = F.udf(stopping_at(self.directory, row, attempts), "long")
        return frame.withColumn("id", held("id"))

    def write(self, table: str, first: int, last: int, row: int, attempts: int, portable: bool) -> Any:
        """Append the numbers from ``first`` to ``last``, in four tasks."""
        frame = self._held(self.spark.range(first, last + 1, 1, 4), row, attempts)
        writer = frame.write.format("delta").mode("append")
        writer.option("tidegate.write.portable", portable).save(table)
        return "written"

    def flaky(self, table: str, first: int, last: int, row: int, attempts: int, portable: bool) -> Any:
        """Append numbers in two tasks, in files of a hundred; the first attempts fail at ``row``."""
        from pyspark.sql import functions as F

        # Each batch of a function is a hundred rows: those before the failure are in files by then.
        failing = F.udf(failing_at(row, attempts), "long")
        frame = self.spark.range(first, last + 1, 1, 2).withColumn("id", failing("id"))
        writer = frame.write.format("delta").mode("append").option("maxRecordsPerFile", 100)
        writer.option("tidegate.write.portable", portable).save(table)
        return "written"

    def change(self, table: str, kind: str, row: int) -> Any:
        """Change the rows of a table in one way or the other, and stop in the middle of the job at ``row``.

        Values are held where they are written, conditions where the table is looked through. A negative
        ``row`` holds nothing.
        """
        from pyspark.sql import functions as F

        from tidegate import DeltaTable

        target = DeltaTable.forPath(self.spark, table)
        held = F.udf(stopping_at(self.directory, row, 1), "long") if row >= 0 else F.abs
        if kind == "delete":
            target.delete(held("id") % 2 == 1)
        elif kind == "update":
            target.update(F.col("id") % 2 == 1, {"id": held("id") + 100})
        else:
            merge = target.alias("t").merge(self.spark.range(2, 6).alias("s"), "t.id = s.id")
            merge = merge.whenMatchedUpdate(set={"id": held(F.col("t.id")) + 100})
            merge.whenNotMatchedInsertAll().execute()
        return kind

    def stream(self, source: str, table: str, checkpoint: str, point: str, number: int) -> Any:
        """Stream one file a batch, and stop at a point of the batch (or of the row) ``number``."""
        frame = self.spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(source)
        if point == "rows":
            frame = self._held(frame, number, 1)
        else:
            self._stop_driver(point, number)
        writer = frame.writeStream.format("delta").option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start(table).awaitTermination()
        return "streamed"

    def index_write(self, table: str, first: int, last: int, row: int, attempts: int) -> Any:
        """Append the numbers from ``first`` to ``last``, with words, to an index table, in four tasks."""
        from pyspark.sql import functions as F

        frame = self._held(self.spark.range(first, last + 1, 1, 4), row, attempts)
        frame = frame.withColumn("s", F.concat(F.lit("common word"), F.col("id")))
        frame.write.format("indextables").mode("append").save(table)
        return "written"

    def index_service(self, table: str, service: str) -> Any:
        """Merge the splits of an index table or refresh a companion, and stop with the new splits there."""
        from tidegate import IndexTable
        from tidegate.index.log import IndexLog

        replace = IndexLog.replace

        def stopping(log: Any, *args: Any, **kwargs: Any) -> Any:
            stop_here(self.directory, service)
            return replace(log, *args, **kwargs)

        IndexLog.replace = stopping  # type: ignore[method-assign]  # only the driver that is to be killed
        found = IndexTable.forPath(self.spark, table)
        return found.mergeSplits("10M") if service == "merge" else found.refresh()

    def _stop_driver(self, point: str, number: int) -> None:
        """Stop around the commit of a batch: when all its files are written, or when it has been made."""
        from tidegate.commands import stream
        from tidegate.transaction.transaction import Transaction

        write, commit = stream.write, Transaction.commit

        def stopping_write(*args: Any, **kwargs: Any) -> Any:
            done = write(*args, **kwargs)
            if kwargs["options"]["txnVersion"] == str(number):
                stop_here(self.directory, point)
            return done

        def stopping_commit(self_: Any, actions: Any, operation: Any, **kwargs: Any) -> Any:
            if operation.parameters.get("epochId") == str(number):
                stop_here(self.directory, point)
            return commit(self_, actions, operation, **kwargs)

        if point == "after commit":
            stream.write = stopping_write
        else:
            Transaction.commit = stopping_commit  # type: ignore[method-assign, assignment]


def main() -> None:
    from pyspark import cloudpickle

    import tidegate

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    directory, master, confs = sys.argv[1:]
    if master == TWO_HOSTS:
        master = two_hosts(directory)
    spark = tidegate.session(master=master, app_name="tidegate-victim", **json.loads(confs))
    spark.sparkContext.setLogLevel("OFF")
    tidegate.enable(spark)
    context: Any = spark.sparkContext
    orders = Orders(spark, directory)
    print(json.dumps({"jvm": context._jvm.java.lang.ProcessHandle.current().pid()}), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        try:
            answer = {"ok": getattr(orders, order.pop("do"))(**order)}
        except Exception as e:
            answer = {"error": type(e).__name__, "says": str(e)[:2000]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
