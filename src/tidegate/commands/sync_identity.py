"""SYNC IDENTITY: the mark of an identity column moves to the last value that the table holds.

For tables whose rows brought their own numbers: afterwards generated numbers lie beyond them. The mark
goes to the value of the sequence that lies at or beyond the last one found, and never back.
"""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidegate.commands import rows
from tidegate.commands.alter_columns import change_operation
from tidegate.errors import SchemaInvalidError
from tidegate.log.table_log import TableLog
from tidegate.schema.columns import identity_columns, is_long, with_high_water_mark
from tidegate.spark.expressions import quote
from tidegate.spark.scan.native import scan
from tidegate.spark.write import identity
from tidegate.transaction.transaction import Committed


def sync_identity(spark: SparkSession, log: TableLog, column: str) -> Committed | None:
    """Move the mark of ``column`` over the values that the table holds; None if it need not move."""
    transaction, snapshot = rows.begin(log, removes=False)
    found = next((i for i in identity_columns(snapshot.schema) if i.name.lower() == column.lower()), None)
    if found is None:
        raise SchemaInvalidError(
            f"The column {column} is no identity column.",
            table=log.url,
            errorClass="DELTA_IDENTITY_COLUMNS_ALTER_NON_IDENTITY_COLUMN"
            if snapshot.schema.field(column) is not None
            else "DELTA_COLUMN_NOT_FOUND",
        )
    transaction.read_table()
    end = F.max if found.step > 0 else F.min
    last = scan(spark, snapshot).agg(end(F.col(quote(found.name)))).collect()[0][0]
    mark = None if last is None else identity.mark_for(found, int(last))
    if mark is not None and not is_long(mark):
        raise SchemaInvalidError(
            f"The column {found.name} holds {last}, and no number of its sequence lies beyond.",
            table=log.url,
            hint="Delete the row, or make the table anew with another START WITH and INCREMENT BY.",
            errorClass="ARITHMETIC_OVERFLOW",
        )
    if mark is None or mark == found.high_water_mark:
        return None
    schema = with_high_water_mark(snapshot.schema, found.name, mark)
    transaction.move_identity(snapshot.metadata.with_schema(schema))
    return transaction.commit(operation=change_operation(transaction.metadata, (found.name,), None))
