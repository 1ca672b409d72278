"""The options of a write that are no indexing options: which there are, and which make no sense.

What is misspelt would be left out silently, so an option that looks like one of ours and is none is
refused, as is what other engines' tables have and index tables have not, each with the reason. Session
confs are not looked at that way: they may be meant for others.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from tidegate.errors import OptionError
from tidegate.index.settings import PREFIX, Settings

INDEXING = (
    "typemap", "tokenizer", "indexrecordoption", "tokenlength", "fastfields", "nonfastfields",
    "storeonlyfields", "indexonlyfields", "text", "json",
)  # fmt: skip
KNOWN = (
    "checkpoint.actionsPerPart",
    "checkpoint.enabled",
    "checkpoint.interval",
    "checkpoint.multiPart.enabled",
    "companion.targetInputSize",
    "dataSkippingNumIndexedCols",
    "dataSkippingStatsColumns",
    "indexWriter.heapSize",
    "indexWriter.tempDirectoryPath",
    "logRetention.duration",
    "mergeOnWrite.enabled",
    "mergeOnWrite.minBatchesToTrigger",
    "mergeOnWrite.targetSize",
    "protocol.autoUpgrade",
    "protocol.checkEnabled",
    "purge.defaultRetentionHours",
    "purge.retentionCheckEnabled",
    "purge.txLogRetentionHours",
    "purgeOnWrite.enabled",
    "purgeOnWrite.splitRetentionHours",
    "purgeOnWrite.triggerAfterMerge",
    "purgeOnWrite.triggerAfterWrites",
    "purgeOnWrite.txLogRetentionHours",
    "replaceWhere",
    "schemaDeduplication.enabled",
    "search.driverSplits",
    "skippedFiles.cooldownDuration",
    "skippedFiles.trackingEnabled",
    "transaction.compression.enabled",
    "write.optimizeWrite.enabled",
    "write.optimizeWrite.targetSplitSize",
)
# How other engines are tuned; there is nothing here that these could change, and nothing is wrong with them.
NEEDLESS = (
    "indexWriter.batchSize",
    "indexWriter.maxBatchBufferSize",
    "indexWriter.threads",
    "mergeOnWrite.batchCpuFraction",
    "mergeOnWrite.maxConcurrentBatches",
    "mergeOnWrite.shutdownTimeoutMs",
    "write.optimizeWrite.distributionMode",
    "write.optimizeWrite.minRowsForEstimation",
    "write.optimizeWrite.samplingRatio",
)
_COLUMNS = "An index table keeps the columns it was created with; write them into another table."
_REFUSED = {
    "mergeSchema": _COLUMNS,
    "overwriteSchema": _COLUMNS,
    "partitionOverwriteMode": "Say which partitions are replaced with replaceWhere.",
    "mergeOnWrite.async.enabled": "Splits are merged before save returns; leave it out.",
}
_OFF = ("false", "static")


def check_options(settings: Settings, options: Mapping[str, str] | None = None) -> None:
    """Refuse indexing options that nobody reads, and of ``options`` what is misspelt or not to be had."""
    for rest, _ in settings.below("indexing"):
        if rest.split(".")[0] not in INDEXING:
            raise OptionError(
                f"There is no option {PREFIX}indexing.{rest}.",
                hint=f"After indexing. comes one of {', '.join(sorted(INDEXING))}.",
            )
    for given, value in (options or {}).items():
        _check(given, given.lower().removeprefix(PREFIX), str(value).lower())


def _check(given: str, key: str, value: str) -> None:
    known = {k.lower(): k for k in KNOWN}
    refused = {k.lower(): (k, why) for k, why in _REFUSED.items()}
    if key in refused:
        name, why = refused[key]
        if value not in _OFF:
            raise OptionError(f"Index tables do not know the option {name}.", hint=why)
        return
    if key in known or key.startswith("indexing.") or key in {k.lower() for k in NEEDLESS}:
        return
    head, dot, _ = key.partition(".")
    heads = ["indexing", *(k.partition(".")[0] for k in known if "." in k)]
    near = difflib.get_close_matches(key, known, 1, 0.85)
    if near or (dot and difflib.get_close_matches(head, heads, 1, 0.85)):
        best = (near or difflib.get_close_matches(key, [*known, "indexing.typemap"], 1, 0.0))[0]
        raise OptionError(f"There is no option {given}.", hint=f"Did you mean {known.get(best, best)}?")
