"""The gateway to the JVM, as narrow as it can be: what is compiled, cached and called there.

Everything that needs Py4J goes through here. A few small Java classes are compiled in the driver by
Spark's own Janino compiler; no JAR is added, and executors never see them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any

from pyspark.sql import DataFrame, SparkSession

_lock = threading.Lock()
# What each thread has answered last.
_held = threading.local()
_compiled: dict[tuple[int, str], Any] = {}
_schemes: dict[tuple[int, str], bool] = {}


def is_connect(spark: SparkSession) -> bool:
    """Whether a session is a Spark Connect client, which has no JVM of its own."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def gateway_of(spark: SparkSession) -> Any:
    """The JVM of a classic session, ready to call back into Python."""
    # Here alone: a client of Spark Connect needs no Py4J at all.
    from pyspark.java_gateway import ensure_callback_server_started

    start: Any = ensure_callback_server_started
    start(spark.sparkContext._gateway)
    return spark.sparkContext._jvm


def table_file_index(spark: SparkSession) -> Any:
    """The prototype of our file index in the session's JVM; compiled on first use."""
    return compiled(spark, "TableFileIndex.java")


def sql_text(spark: SparkSession, expression: Any) -> str:
    """The SQL of a Catalyst expression, with quotes around names such as ``true``: it may be read back."""
    return str(table_file_index(spark).text(expression))


def compiled(spark: SparkSession, resource: str, replacing: Mapping[str, str] | None = None) -> Any:
    """An object of the class that a Java file of ours is named after; compiled once per JVM.

    ``resource`` is a path below ``tidegate/spark``; ``replacing`` says what its placeholders stand for.
    """
    context: Any = spark.sparkContext
    jvm = gateway_of(spark)
    key = (id(context._gateway), resource)
    with _lock:
        known = _compiled.get(key)
        if known is None:
            text = files("tidegate.spark").joinpath(resource).read_text()
            for placeholder, value in (replacing or {}).items():
                text = text.replace(placeholder, value)
            compiler = jvm.org.codehaus.janino.SimpleCompiler()
            compiler.setParentClassLoader(jvm.Thread.currentThread().getContextClassLoader())
            compiler.cook(text)
            name = resource.rsplit("/", 1)[-1].removesuffix(".java")
            loaded = compiler.getClassLoader().loadClass(f"tidegate.{name}")
            none = context._gateway.new_array(jvm.java.lang.Class, 0)
            nothing = context._gateway.new_array(jvm.java.lang.Object, 0)
            known = _compiled[key] = loaded.getDeclaredConstructor(none).newInstance(nothing)
    return known


def can_open(spark: SparkSession, url: str) -> bool:
    """Whether Hadoop in the session's JVM has a file system for a place such as ``file:/t`` or ``s3://b/t``."""
    scheme = url.split(":", 1)[0]
    if scheme == "file":
        return True
    context: Any = spark.sparkContext
    key = (id(context._gateway), scheme)
    with _lock:
        if key not in _schemes:
            jvm: Any = gateway_of(spark)
            configuration = spark._jsparkSession.sessionState().newHadoopConf()
            try:
                jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, configuration)
                _schemes[key] = True
            except Exception:
                _schemes[key] = False
        return _schemes[key]


class JavaFunction:
    """A Python callable as ``java.util.function.Function``.

    What it returns is held until the same thread asks again: the gateway forgets an object of Java as soon as
    nothing here holds it, and that may be before the caller has looked it up.
    """

    def __init__(self, work: Callable[[Any], Any]) -> None:
        self._work = work

    def apply(self, value: Any) -> Any:
        _held.answer = self._work(value)
        return _held.answer

    class Java:
        implements = ("java.util.function.Function",)


class JavaAnswer(JavaFunction):
    """One that adds its answer to the list it is given, for answers that are too large to be held."""

    def apply(self, value: Any) -> None:
        value.add(self._work(value))


def pushing_filters(frame: DataFrame, conf: str) -> DataFrame:
    """A frame over a Python data source that is told of filters, although its session's ``conf`` says no.

    The conf holds for that one question, in a clone of the session's confs.
    """
    spark = frame.sparkSession
    session = spark._jsparkSession
    asked = session.sessionState().conf().clone()
    asked.setConfString(conf, "true")
    plan = compiled(spark, "PushingTable.java").inPlan(frame._jdf.queryExecution().analyzed(), asked)
    made = gateway_of(spark).org.apache.spark.sql.classic.Dataset.ofRows(session, plan)
    return DataFrame(made, spark)


def java_array(spark: SparkSession, kind: str, values: list[Any]) -> Any:
    """A Java array of ``kind`` (a class name) with ``values`` in it."""
    context: Any = spark.sparkContext
    cls = context._jvm
    for part in kind.split("."):
        cls = getattr(cls, part)
    array = context._gateway.new_array(cls, len(values))
    for i, value in enumerate(values):
        array[i] = value
    return array


def java_type(spark: SparkSession, json_text: str) -> Any:
    """Spark's own data type from its JSON."""
    return gateway_of(spark).org.apache.spark.sql.types.DataType.fromJson(json_text)


def rebalanced(frame: DataFrame, columns: list[str], size: int) -> DataFrame:
    """The rows in partitions of about ``size`` bytes, those with equal ``columns`` together.

    The hint of the public API has no place for the size.
    """
    spark = frame.sparkSession
    gateway = gateway_of(spark)
    plan = frame._jdf.queryExecution().analyzed()
    output = plan.output()
    wanted = gateway.java.util.ArrayList()
    for name in columns:
        wanted.add(next(a for a in (output.apply(i) for i in range(output.size())) if a.name() == name))
    option = gateway.scala.Option
    logical = gateway.org.apache.spark.sql.catalyst.plans.logical
    by = gateway.scala.jdk.javaapi.CollectionConverters.asScala(wanted).toSeq()
    # A number on its own comes out of the gateway as whichever kind it fits in.
    sized = gateway.scala.jdk.javaapi.OptionConverters.toScala(gateway.java.util.OptionalLong.of(size))
    node = logical.RebalancePartitions(by, plan, option.empty(), sized)
    return DataFrame(gateway.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, node), spark)
