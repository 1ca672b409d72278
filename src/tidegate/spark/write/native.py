"""The native delayed commit: Spark's own manifest commit protocol, through the JVM.

``FileFormatWriter`` with a ``ManifestFileCommitProtocol`` writes each file straight to its final
place and carries the list back in the task commit messages. The manifest lands in a sink log of
this write alone, in a scratch directory: a sink log silently skips a batch it already holds, and
no ``_spark_metadata`` may ever be left in a table.
"""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession

from tidegate.spark.jvm import gateway_of
from tidegate.spark.session import PINNED, named, pinned
from tidegate.spark.write.layout import Placed, partition_values

_log = logging.getLogger("tidegate.spark.write")


class _Body:
    """A Python callable as Scala's function without parameters."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self.failure: BaseException | None = None

    def apply(self) -> Any:
        try:
            return self._work()
        except BaseException as e:
            self.failure = e
            raise

    class Java:
        implements = ("scala.Function0",)


def _streaming_class(gateway: Any, name: str) -> Any:
    """A class of Spark's file sink, which newer releases have moved."""
    for package in ("sinks.", ""):
        full = f"org.apache.spark.sql.execution.streaming.{package}{name}"
        try:
            gateway.java.lang.Class.forName(full)
        except Exception:
            continue
        found = gateway
        for part in full.split("."):
            found = getattr(found, part)
        return found
    raise LookupError(name)


def write(
    spark: SparkSession,
    frame: DataFrame,
    root: str,
    partition_columns: Sequence[str],
    *,
    operation: str,
    prefix: str = "",
    options: Mapping[str, str] | None = None,
    hadoop: Mapping[str, str] | None = None,
) -> list[tuple[Placed, int, int]]:
    """Write ``frame`` (physical names) below ``root``; the files with their sizes and times.

    All of them go into the directory ``prefix``, if there is one: Spark's committer has no directory for
    each file. ``hadoop`` are settings that Hadoop needs to open ``root``.
    """
    gateway = gateway_of(spark)
    session = pinned(spark, hadoop)
    scratch = Path(tempfile.mkdtemp(prefix="tidegate-write-"))
    try:
        sink_log = _streaming_class(gateway, "FileStreamSinkLog")
        version = 1
        log = sink_log(version, session._jsparkSession, f"file:{scratch}/log", gateway.scala.Option.empty())
        target = f"{root.rstrip('/')}/{prefix}" if prefix else root
        committer = _streaming_class(gateway, "ManifestFileCommitProtocol")(str(uuid.uuid4()), target)
        committer.setupManifestOptions(log, 0)
        execution = frame._jdf.queryExecution()
        passed = dict(options or {})

        def run() -> Any:
            with _pinned_tasks(spark):
                return _run(gateway, session, execution, committer, target, partition_columns, passed)

        body = _Body(run)
        function = gateway.scala.Option.apply(operation)
        sql = gateway.org.apache.spark.sql.execution.SQLExecution
        _log.debug("%s: writing below %s", operation, root)
        try:
            with named(spark, operation):
                sql.withNewExecutionId(execution, function, body)
        except Exception:
            # What failed inside came through the JVM; the original is at hand.
            if body.failure is not None:
                raise body.failure from None
            raise
        return _manifest(scratch / "log" / "0", root)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextlib.contextmanager
def _pinned_tasks(spark: SparkSession) -> Iterator[None]:
    """Pin the confs that a parquet writer asks for while it writes.

    Tasks get the confs of the session that the query was made in, as properties of the job; all others
    that shape files are taken from the clone when the job is prepared.
    """
    context: Any = spark.sparkContext._jsc
    keys = [k for k in PINNED if k.endswith("InWrite")]
    before = {k: context.getLocalProperty(k) for k in keys}
    for key in keys:
        context.setLocalProperty(key, PINNED[key])
    try:
        yield
    finally:
        for key, value in before.items():
            context.setLocalProperty(key, value)


def _run(
    gateway: Any,
    session: SparkSession,
    execution: Any,
    committer: Any,
    root: str,
    partition_columns: Sequence[str],
    options: Mapping[str, str],
) -> Any:
    datasources = gateway.org.apache.spark.sql.execution.datasources
    plan = execution.executedPlan()
    output = plan.output()
    converters = gateway.scala.jdk.javaapi.CollectionConverters
    wanted = gateway.java.util.ArrayList()
    for name in partition_columns:
        for i in range(output.size()):
            if output.apply(i).name() == name:
                wanted.add(output.apply(i))
                break
    python = gateway.org.apache.spark.api.python.PythonUtils
    nothing = converters.asScala(gateway.java.util.ArrayList()).toSeq()
    spec_class = getattr(datasources, "FileFormatWriter$OutputSpec")
    spec = spec_class(root, python.toScalaMap({}), output)
    writer = getattr(getattr(datasources, "FileFormatWriter$"), "MODULE$")
    hadoop = session._jsparkSession.sessionState().newHadoopConf()
    arguments = [
        session._jsparkSession,
        plan,
        datasources.parquet.ParquetFileFormat(),
        committer,
        spec,
        hadoop,
        converters.asScala(wanted).toSeq(),
        gateway.scala.Option.empty(),
        nothing,
        python.toScalaMap(dict(options)),
        0,
    ]
    if hasattr(writer, "write$default$12") and _arity(gateway, writer) == 12:
        arguments.append(getattr(writer, "write$default$12")())
    writer.write(*arguments)
    return None


def _arity(gateway: Any, writer: Any) -> int:
    for method in writer.getClass().getMethods():
        if method.getName() == "write":
            return int(method.getParameterCount())
    return 0


def _manifest(path: Path, root: str) -> list[tuple[Placed, int, int]]:
    """The files of a manifest: its first line is a version, each other one a file as JSON."""
    out: list[tuple[Placed, int, int]] = []
    if not path.exists():
        return out
    prefix = unquote(root.removeprefix("file:")).rstrip("/")
    for line in path.read_text(encoding="utf-8").splitlines()[1:]:
        entry = json.loads(line)
        full = unquote(entry["path"])
        full = full.removeprefix("file://").removeprefix("file:")
        relative = full[len(prefix) :].lstrip("/") if full.startswith(prefix) else full
        directory, _, _ = relative.rpartition("/")
        out.append(
            (Placed(relative, partition_values(directory), False), entry["size"], entry["modificationTime"])
        )
    return out
