"""What an OPTIMIZE tells of itself: in the history of its commits, and in the row that it returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from tidegate import properties
from tidegate.commands import clustering
from tidegate.commands.bins import Bin
from tidegate.log.snapshot import Snapshot
from tidegate.schema.paths import Path
from tidegate.transaction.pending import Operation


@dataclass(frozen=True)
class Plan:
    """What is to be rewritten, along which columns, and what the history will say."""

    operation: Operation
    files: pa.Table
    bins: list[Bin]
    considered: int
    columns: tuple[Path, ...] = ()
    cubes: tuple[Path, ...] = ()


def _vectors_of(files: pa.Table) -> list[dict[str, Any]]:
    return [v for v in files.column("deletionVector").to_pylist() if v is not None]


def commit_metrics(adds: pa.Table, old: pa.Table) -> dict[str, Any]:
    sizes = sorted(adds.column("size").to_pylist()) or [0]
    n = len(sizes)
    vectors = _vectors_of(old)
    return {
        "minFileSize": sizes[0],
        "p25FileSize": sizes[n // 4],
        "p50FileSize": sizes[n // 2],
        "p75FileSize": sizes[n * 3 // 4],
        "maxFileSize": sizes[-1],
        "numAddedFiles": adds.num_rows,
        "numRemovedFiles": old.num_rows,
        "numAddedBytes": pc.sum(adds.column("size")).as_py() or 0,
        "numRemovedBytes": pc.sum(old.column("size")).as_py() or 0,
        "numDeletionVectorsRemoved": len(vectors),
        "numDeletionVectorRowsRemoved": sum(v["cardinality"] for v in vectors),
        "numDeletionVectorBytesRemoved": sum(v["sizeInBytes"] for v in vectors),
    }


def _sizes(files: Sequence[pa.Table]) -> dict[str, Any]:
    sizes = [s for f in files for s in f.column("size").to_pylist()]
    if not sizes:
        return {"min": None, "max": None, "avg": 0.0, "totalFiles": 0, "totalSize": 0}
    return {
        "min": min(sizes),
        "max": max(sizes),
        "avg": sum(sizes) / len(sizes),
        "totalFiles": len(sizes),
        "totalSize": sum(sizes),
    }


def run_metrics(
    spark: SparkSession,
    snapshot: Snapshot,
    plan: Plan,
    adds: Sequence[pa.Table],
    removed: Sequence[pa.Table],
    started: int,
) -> dict[str, Any]:
    """The metrics of the whole run, as the command returns them."""
    new, old = _sizes(adds), _sizes(removed)
    vectors = [v for f in removed for v in _vectors_of(f)]
    inputs = {"num": old["totalFiles"], "size": old["totalSize"]}
    nothing = {"num": 0, "size": 0}
    z_order = {
        "strategyName": "all",
        "inputCubeFiles": nothing,
        "inputOtherFiles": inputs,
        "inputNumCubes": 0,
        "mergedFiles": inputs,
        "numOutputCubes": len(plan.bins),
        "mergedNumCubes": None,
    }
    columns = len(snapshot.schema.fields)
    indexed = snapshot.metadata.property(properties.DATA_SKIPPING_NUM_INDEXED_COLS)
    return {
        "numFilesAdded": new["totalFiles"],
        "numFilesRemoved": old["totalFiles"],
        "filesAdded": new,
        "filesRemoved": old,
        "partitionsOptimized": len({b.partition for b in plan.bins}),
        "zOrderStats": z_order if plan.columns and not plan.cubes else None,
        "clusteringStats": _clustering_stats(plan, old) if plan.cubes else None,
        "numBins": len(plan.bins),
        "numBatches": len(adds),
        "totalConsideredFiles": plan.considered,
        "totalFilesSkipped": plan.considered - old["totalFiles"],
        "preserveInsertionOrder": False,
        "numFilesSkippedToReduceWriteAmplification": 0,
        "numBytesSkippedToReduceWriteAmplification": 0,
        "startTimeMs": started,
        "endTimeMs": snapshot.log.clock(),
        "totalClusterParallelism": _parallelism(spark),
        "totalScheduledTasks": 0,
        "deletionVectorStats": {
            "numDeletionVectorsRemoved": len(vectors),
            "numDeletionVectorRowsRemoved": sum(v["cardinality"] for v in vectors),
        }
        if vectors
        else None,
        "numTableColumns": columns,
        "numTableColumnsWithStats": columns if indexed < 0 else min(columns, indexed),
    }


def _clustering_stats(plan: Plan, old: dict[str, Any]) -> dict[str, Any]:
    tags = [dict(t or ()) for t in plan.files.column("tags").to_pylist()]
    sizes = plan.files.column("size").to_pylist()
    in_cubes = [s for t, s in zip(tags, sizes, strict=True) if clustering.CUBE_ID in t]
    others = [s for t, s in zip(tags, sizes, strict=True) if clustering.CUBE_ID not in t]
    return {
        "inputZCubeFiles": {"numFiles": len(in_cubes), "size": sum(in_cubes)},
        "inputOtherFiles": {"numFiles": len(others), "size": sum(others)},
        "inputNumZCubes": len({t[clustering.CUBE_ID] for t in tags if clustering.CUBE_ID in t}),
        "mergedFiles": {"numFiles": old["totalFiles"], "size": old["totalSize"]},
        "numOutputZCubes": len(plan.bins),
    }


def _parallelism(spark: SparkSession) -> int:
    text = spark.conf.get("spark.default.parallelism", None)
    try:
        return int(text) if text else int(spark.sparkContext.defaultParallelism)
    except Exception:
        return 0  # a Connect session does not say
