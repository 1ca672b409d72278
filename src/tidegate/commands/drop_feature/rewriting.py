"""Rewriting files by Spark for a drop: the rows of some files, written anew as the new metadata asks.

The scan reads them as the table was, with deletion vectors, physical names and older types applied; the
write knows the table as it will be. Row ids are kept where the table tracks them.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import SparkSession

from tidegate.commands.drop_feature.removal import Rewriter
from tidegate.commands.optimize import rows_of
from tidegate.spark.write.files import write_files
from tidegate.transaction.transaction import Transaction


def spark_rewriter(spark: SparkSession) -> Rewriter:
    """The rewriter that runs its jobs in this session."""

    def rewrite(transaction: Transaction, files: pa.Table) -> pa.Table:
        assert transaction.snapshot is not None
        frame = rows_of(spark, transaction.snapshot, files)
        return write_files(transaction, frame, is_optimize=True, operation="REORG").adds

    return rewrite
