"""What follows a write: auto compaction.

``after_write`` is called with a commit that has happened, so it never raises: what fails here is
logged, and the next write tries again. Auto compaction takes the partitions the commit wrote into,
as far as enough small files lie there.
"""

from __future__ import annotations

import logging
from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from tidegate import properties
from tidegate.commands import bins as binning
from tidegate.commands import optimize as optimizing
from tidegate.commands.bins import Settings
from tidegate.log.snapshot import Snapshot, read_commits
from tidegate.log.table_log import TableLog
from tidegate.spark.confs import conf, text
from tidegate.transaction.transaction import Committed

_log = logging.getLogger(__name__)
_MIB = 1 << 20


def after_write(spark: SparkSession, log: TableLog, committed: Committed | None) -> None:
    """Whatever the table or the session wants done after a commit that wrote rows."""
    if committed is None:
        return
    try:
        if wanted(spark, committed.snapshot) and is_occasion(spark, committed.snapshot):
            auto_compact(spark, log, committed)
    except Exception as e:
        _log.warning("%s: what follows version %d was left out: %s", log.url, committed.version, e)


def wanted(spark: SparkSession, snapshot: Snapshot) -> bool:
    """Whether writes of this session are followed by a compaction; its conf goes before the table's word."""
    said = text(spark, "autoCompact.enabled")
    if said is not None:
        return said.strip().lower() in ("true", "auto", "legacy")
    metadata = snapshot.metadata
    own = metadata.property(properties.AUTO_COMPACT)
    return bool(metadata.property(properties.AUTO_OPTIMIZE) if own is None else own)


def is_occasion(spark: SparkSession, snapshot: Snapshot) -> bool:
    """Whether the commit is of the kind that is followed up; a session may leave out plain appends."""
    spared = conf(spark, "autoCompact.nonBlindAppend.enabled", False)
    return not (spared and snapshot.commit_info.get("isBlindAppend") is True)


def settings_of(spark: SparkSession) -> Settings:
    """The sizes of an auto compaction."""
    most = conf(spark, "autoCompact.maxFileSize", 128 * _MIB)
    return Settings(
        min_file_size=conf(spark, "autoCompact.minFileSize", most // 2),
        max_file_size=most,
        max_deleted_ratio=conf(spark, "optimize.maxDeletedRowsRatio", 0.05),
        max_threads=conf(spark, "optimize.maxThreads", 15),
    )


def auto_compact(spark: SparkSession, log: TableLog, committed: Committed) -> optimizing.Optimized | None:
    """Compact the partitions that the commit wrote into, where they hold enough small files."""
    settings = settings_of(spark)
    enough = conf(spark, "autoCompact.minNumFiles", 50)
    written = [b for _, c in read_commits(log, committed.version, limit=1) for b in c.adds]
    if not written:
        return None
    metadata = committed.snapshot.metadata
    touched = set(binning.keys(pa.Table.from_batches(written), metadata))
    if not conf(spark, "autoCompact.modifiedPartitionsOnly.enabled", True):
        touched = set(binning.keys(committed.snapshot.files(), metadata))
    most = conf(spark, "autoCompact.maxNumModifiedPartitions", 128)

    def choose(snapshot: Snapshot, files: pa.Table) -> pa.Table:
        found = binning.candidates(files, settings)
        # What has been clustered waits for the next clustering: a compaction would undo it.
        found = found.filter(pc.is_null(found.column("clusteringProvider")))
        keys = binning.keys(found, snapshot.metadata)
        counts = Counter(keys)
        chosen = [k for k, n in counts.most_common() if k in touched and n >= max(2, enough)][:most]
        return found.filter(pa.array([k in set(chosen) for k in keys], pa.bool_()))

    return optimizing.compact(spark, log, choose, settings, auto=True)
