"""A condition on partition columns, answered file by file.

Most conditions are decided on the log's own columns. What this client cannot decide, such as
functions of Spark and times of the session's zone, is put to Spark itself, on one row for each distinct
partition.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidegate.commands.conditions import known, not_recognized, shape
from tidegate.errors import PredicateError
from tidegate.files import partitions
from tidegate.files.skipping import evaluate_partitions
from tidegate.log.snapshot import Snapshot
from tidegate.schema.mapping import mapping_mode, physical_name
from tidegate.schema.references import references
from tidegate.schema.types import TIMESTAMP, DataType
from tidegate.spark.expressions import analysed
from tidegate.spark.scan.projection import spark_type


def matching(spark: SparkSession, snapshot: Snapshot, where: str | None) -> pa.Table:
    """The live files, every field of them, in the partitions for which ``where`` is true."""
    if where is None:
        return snapshot.files()
    _check(spark, snapshot, where)
    files = snapshot.files()
    if files.num_rows == 0:
        return files
    try:
        found = known(where, snapshot.schema, spark)
        mode = mapping_mode(snapshot.metadata)
        mask = evaluate_partitions(files, found, snapshot.schema, snapshot.partition_columns, mode)
        return files.filter(mask, null_selection_behavior="drop")
    except PredicateError:
        return _by_spark(spark, snapshot, files, where)


def _check(spark: SparkSession, snapshot: Snapshot, where: str) -> None:
    """Refuse what does not parse, and what speaks of more than one row's partition columns."""
    try:
        analysed(shape(spark, snapshot.metadata.partition_schema), where, "A condition on partitions")
    except ParseException as e:
        raise not_recognized("The condition", where) from e
    except PredicateError as e:
        if e.errorClass != "DELTA_UNSUPPORTED_SUBQUERY":
            raise
        raise PredicateError(
            f"A condition on partitions may not hold a subquery: {where}.",
            table=snapshot.url,
            hint="Ask for its answer first, and write that.",
            errorClass="DELTA_UNSUPPORTED_SUBQUERY_IN_PARTITION_PREDICATES",
        ) from e
    except AnalysisException as e:
        known = snapshot.partition_columns
        others = sorted({path[0] for path in references(where)} - {c.lower() for c in known})
        if not others or not (e.getCondition() or "").startswith("UNRESOLVED_COLUMN"):
            raise
        raise PredicateError(
            f"Predicate references non-partition column '{others[0]}'. Only the partition columns may be "
            f"referenced: [{', '.join(known)}].",
            table=snapshot.url,
            hint=f"Whole files are chosen here, and {where} would choose rows.",
            errorClass="DELTA_NON_PARTITION_COLUMN_REFERENCE",
        ) from e


def _by_spark(spark: SparkSession, snapshot: Snapshot, files: pa.Table, where: str) -> pa.Table:
    mode = mapping_mode(snapshot.metadata)
    fields = snapshot.metadata.partition_schema.fields
    values = files.column("partitionValues").combine_chunks()
    columns = [_texts(values, physical_name(f, mode), f.type) for f in fields]
    rows = list(zip(*columns, strict=True)) if columns else [()] * files.num_rows
    distinct = {row: i for i, row in enumerate(dict.fromkeys(rows))}
    text = ", ".join(f"p{i} string" for i in range(len(fields)))
    frame = spark.createDataFrame(
        [(i, *row) for row, i in distinct.items()], f"number int{', ' if text else ''}{text}"
    )
    typed = [F.col(f"p{i}").cast(spark_type(f.type)).alias(f.name) for i, f in enumerate(fields)]
    chosen = {r[0] for r in frame.select("number", *typed).where(where).select("number").collect()}
    return files.filter(pa.array([distinct[row] in chosen for row in rows], pa.bool_()))


def _texts(values: pa.MapArray, name: str, type: DataType) -> list[str | None]:
    """The values of one partition column as text; instants with their zone, so that no session's counts."""
    if type == TIMESTAMP:
        return [partitions.serialize(v, type) for v in partitions.typed(values, name, type).to_pylist()]
    found: list[str | None] = partitions.raw(values, name).to_pylist()
    return found
