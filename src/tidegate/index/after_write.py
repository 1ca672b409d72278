"""What a write may do once it is committed: merge small splits, and purge what nobody needs any more.

Both are asked for by options and happen before the write returns. The rows are safe by then: if one of them
fails, that is logged, and the write stands.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.index.log import IndexLog
from tidegate.index.merge_splits import merge_splits, plan
from tidegate.index.settings import Settings
from tidegate.index.snapshot import IndexSnapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)
_MERGED_SIZE = 4 << 30
# Writes to each table since its last purge, in this process.
_writes: Counter[str] = Counter()
_lock = threading.Lock()


def after_write(
    log: IndexLog,
    done: IndexSnapshot,
    settings: Settings,
    spark: SparkSession | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> None:
    """Merge and purge as the options of the write say."""
    merged = False
    if settings.flag("mergeOnWrite.enabled", False):
        merged = _tried(
            log, "merging its splits", lambda: _merge(log, done, settings, spark, storage_options)
        )
    if settings.flag("purgeOnWrite.enabled", False) and _is_due(log.url, settings, merged):
        _tried(log, "purging it", lambda: _purge(log, settings))


def check_after_write(settings: Settings) -> None:
    """Refuse values that make no sense, before anything is written."""
    settings.flag("mergeOnWrite.enabled", False)
    settings.size("mergeOnWrite.targetSize", _MERGED_SIZE)
    settings.number("mergeOnWrite.minBatchesToTrigger", 1, least=1)
    settings.flag("purgeOnWrite.enabled", False)
    settings.flag("purgeOnWrite.triggerAfterMerge", True)
    settings.number("purgeOnWrite.triggerAfterWrites", 0)
    settings.number("purgeOnWrite.splitRetentionHours", 168)
    settings.number("purgeOnWrite.txLogRetentionHours", 720)


def _tried(log: IndexLog, what: str, work: Callable[[], bool]) -> bool:
    try:
        return work()
    except TidegateError as e:
        _log.warning("%s: the table is written, and %s failed: %s", log.url, what, e)
        return False


def _merge(
    log: IndexLog,
    done: IndexSnapshot,
    settings: Settings,
    spark: SparkSession | None,
    storage_options: Mapping[str, str] | None,
) -> bool:
    target = settings.size("mergeOnWrite.targetSize", _MERGED_SIZE)
    groups = plan(done.without_cooling(done.files()), target, log.url)
    if len(groups) < settings.number("mergeOnWrite.minBatchesToTrigger", 1, least=1):
        return False
    return merge_splits(log, target, spark=spark, storage_options=storage_options).created > 0


def _is_due(url: str, settings: Settings, merged: bool) -> bool:
    every = settings.number("purgeOnWrite.triggerAfterWrites", 0)
    with _lock:
        _writes[url] += 1
        due = (merged and settings.flag("purgeOnWrite.triggerAfterMerge", True)) or 0 < every <= _writes[url]
        if due:
            _writes[url] = 0
    return due


def _purge(log: IndexLog, settings: Settings) -> bool:
    log.purge(
        retention_hours=settings.number("purgeOnWrite.splitRetentionHours", 168),
        log_retention_hours=settings.number("purgeOnWrite.txLogRetentionHours", 720),
    )
    return True
