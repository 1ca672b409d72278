"""Plain values of commands as the DataFrames that ``delta.tables`` returns: same columns, same types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession

DETAIL = (
    "format string, id string, name string, description string, location string, createdAt timestamp, "
    "lastModified timestamp, partitionColumns array<string>, clusteringColumns array<string>, "
    "numFiles bigint, sizeInBytes bigint, properties map<string,string>, minReaderVersion int, "
    "minWriterVersion int, tableFeatures array<string>"
)
HISTORY = (
    "version bigint, timestamp timestamp, userId string, userName string, operation string, "
    "operationParameters map<string,string>, "
    "job struct<jobId:string,jobName:string,jobRunId:string,runId:string,jobOwnerId:string,"
    "triggerType:string>, notebook struct<notebookId:string>, clusterId string, readVersion bigint, "
    "isolationLevel string, isBlindAppend boolean, operationMetrics map<string,string>, userMetadata string, "
    "engineInfo string"
)
RESTORE = (
    "table_size_after_restore bigint, num_of_files_after_restore bigint, num_removed_files bigint, "
    "num_restored_files bigint, removed_files_size bigint, restored_files_size bigint"
)
CLONE = (
    "source_table_size bigint, source_num_of_files bigint, num_removed_files bigint, "
    "num_copied_files bigint, removed_files_size bigint, copied_files_size bigint"
)
_STATS = "struct<min:bigint,max:bigint,avg:double,totalFiles:bigint,totalSize:bigint>"
OPTIMIZE = (
    "path string, metrics struct<numFilesAdded:bigint,numFilesRemoved:bigint,"
    f"filesAdded:{_STATS},filesRemoved:{_STATS},partitionsOptimized:bigint,"
    "zOrderStats:struct<strategyName:string,"
    "inputCubeFiles:struct<num:bigint,size:bigint>,inputOtherFiles:struct<num:bigint,size:bigint>,"
    "inputNumCubes:bigint,mergedFiles:struct<num:bigint,size:bigint>,numOutputCubes:bigint,"
    "mergedNumCubes:bigint>,"
    "clusteringStats:struct<inputZCubeFiles:struct<numFiles:bigint,size:bigint>,"
    "inputOtherFiles:struct<numFiles:bigint,size:bigint>,inputNumZCubes:bigint,"
    "mergedFiles:struct<numFiles:bigint,size:bigint>,numOutputZCubes:bigint>,"
    "numBins:bigint,numBatches:bigint,totalConsideredFiles:bigint,totalFilesSkipped:bigint,"
    "preserveInsertionOrder:boolean,numFilesSkippedToReduceWriteAmplification:bigint,"
    "numBytesSkippedToReduceWriteAmplification:bigint,startTimeMs:bigint,endTimeMs:bigint,"
    "totalClusterParallelism:bigint,totalScheduledTasks:bigint,"
    "autoCompactParallelismStats:struct<maxClusterActiveParallelism:bigint,minClusterActiveParallelism:bigint,"
    "maxSessionActiveParallelism:bigint,minSessionActiveParallelism:bigint>,"
    "deletionVectorStats:struct<numDeletionVectorsRemoved:bigint,numDeletionVectorRowsRemoved:bigint>,"
    "numTableColumns:bigint,numTableColumnsWithStats:bigint>"
)


def rows(spark: SparkSession, values: Sequence[Mapping[str, Any]], schema: str) -> DataFrame:
    """Rows of one schema, at once: no job is needed to look at them."""
    frame = spark.createDataFrame([], schema)
    names = frame.schema.names
    if not values:
        return frame
    return spark.createDataFrame([tuple(v.get(n) for n in names) for v in values], frame.schema)


def history(spark: SparkSession, entries: Sequence[Mapping[str, Any]]) -> DataFrame:
    """DESCRIBE HISTORY; commitInfo is free-form, so whatever is no text is made one."""
    out = []
    for entry in entries:
        row = dict(entry)
        for key in ("operationParameters", "operationMetrics"):
            found = row.get(key)
            row[key] = {k: _text(v) for k, v in found.items()} if isinstance(found, Mapping) else None
        for key in ("job", "notebook"):
            row[key] = row[key] if isinstance(row.get(key), Mapping) else None
        for key in ("userId", "userName", "operation", "clusterId", "userMetadata", "engineInfo"):
            row[key] = None if row.get(key) is None else _text(row[key])
        out.append(row)
    return rows(spark, out, HISTORY)


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()
