"""What an OPTIMIZE tells of itself: in the history of its commits, and in the row that it returns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
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
    bins: list[Bin]
    considered: int
    columns: tuple[Path, ...] = ()
    # What goes into the cubes; None where no cubes are made.
    clustering: dict[str, Any] | None = None


def _vectors_of(files: pa.Table) -> list[dict[str, Any]]:
    return [v for v in files.column("deletionVector").to_pylist() if v is not None]


def commit_metrics(adds: pa.Table, old: pa.Table) -> dict[str, Any]:
    sizes = sorted(adds.column("size").to_pylist()) or [0]
    n = len(sizes)
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
        "numDeletionVectorsRemoved": len(_vectors_of(old)),
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
        "zOrderStats": z_order if plan.columns and plan.clustering is None else None,
        "clusteringStats": plan.clustering and {**plan.clustering, "numOutputZCubes": len(plan.bins)},
        "numBins": len(plan.bins),
        # As Delta counts: a run that finds nothing to do is one batch, too.
        "numBatches": max(1, len(adds)),
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


def clustering_stats(
    files: pa.Table, chosen: pa.Table, columns: Collection[str], *, full: bool
) -> dict[str, Any]:
    """What was there in cubes and beside them, and what is taken; a full clustering counts every cube."""
    cubes = clustering.Cubes.of(files, columns)
    counts = [cube is not None and (own or full) for cube, own in zip(cubes.ids, cubes.own, strict=True)]
    inside = pa.array(counts, pa.bool_())
    return {
        "inputZCubeFiles": _counted(files.filter(inside)),
        "inputOtherFiles": _counted(files.filter(pc.invert(inside))),
        "inputNumZCubes": len({cube for cube, counted in zip(cubes.ids, counts, strict=True) if counted}),
        "mergedFiles": _counted(chosen),
    }


def _counted(files: pa.Table) -> dict[str, int]:
    return {"numFiles": files.num_rows, "size": pc.sum(files.column("size")).as_py() or 0}


def _parallelism(spark: SparkSession) -> int:
    text = spark.conf.get("spark.default.parallelism", None)
    try:
        return int(text) if text else int(spark.sparkContext.defaultParallelism)
    except Exception:
        return 0  # a Connect session does not say
