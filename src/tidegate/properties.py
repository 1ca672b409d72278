"""Every table property Delta knows, one row each: its key, what its value means, its default, its bounds.

Two ways in, on purpose unlike: ``get`` reads a property of an existing table and complains only about
that one, so a table with a bad value somewhere still opens; ``validate`` takes what a user wants to
set, refuses unknown ``delta.`` keys and bad values, and returns the keys in Delta's own case.
Intervals are milliseconds. Months and years have no length, and are refused.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Generic, TypeVar

from tidegate.errors import PropertyError

T = TypeVar("T")

_UNITS = {
    "week": 604_800_000_000,
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
_TERM = re.compile(r"\s*([+-]?)\s*(\d+(?:\.\d{0,9})?|\.\d{1,9})\s+([a-z]+)(?=\s|$)")
# What an interval of Spark holds, and what can be taken from any clock.
_LONGEST = (1 << 63) - 1
# Keys below these are free: constraints and features have names, other formats their own settings.
_OPEN_PREFIXES = ("delta.constraints.", "delta.universalformat.config.")
_FEATURE_PREFIX = "delta.feature."


@dataclass(frozen=True, eq=False)
class Property(Generic[T]):
    """One table property. ``settable`` is false for what Delta itself keeps in the configuration."""

    key: str
    parse: Callable[[str], T]
    default: T
    accepts: Callable[[T], bool] = lambda _: True
    needs: str = "a legal value"
    settable: bool = True
    alternate_key: str | None = None


def get(configuration: Mapping[str, str], prop: Property[T]) -> T:
    """The value an existing table has, or the default."""
    for key in (prop.key, prop.alternate_key):
        text = configuration.get(key) if key else None
        if text is not None:
            return _parse(prop, text)
    return prop.default


def validate(
    properties: Mapping[str, str],
    *,
    existing: Mapping[str, str] | None = None,
    allow_arbitrary: bool = False,
) -> dict[str, str]:
    """What a user may set, in canonical case. ``existing`` is what the table has already."""
    canonical = dict(_validate_each(properties, allow_arbitrary))
    if DELETED_FILE_RETENTION.key in canonical or LOG_RETENTION.key in canonical:
        merged = {**(existing or {}), **canonical}
        if get(merged, DELETED_FILE_RETENTION) > get(merged, LOG_RETENTION):
            raise PropertyError(
                f"{DELETED_FILE_RETENTION.key} may not be longer than {LOG_RETENTION.key}: "
                "deleted files would be kept for versions that the log no longer has"
            )
    return canonical


def canonical_key(key: str) -> str:
    """A property's key in Delta's own case; keys Delta does not know stay as they are."""
    lower = key.lower()
    if lower.startswith(_FEATURE_PREFIX):
        return _FEATURE_PREFIX + key[len(_FEATURE_PREFIX) :]
    known = _BY_LOWER_KEY.get(lower)
    return known.key if known else key


def is_property(key: str) -> bool:
    """Whether this is the key of a property that Delta knows, in any case."""
    return key.lower() in _BY_LOWER_KEY


def is_kept(key: str) -> bool:
    """Whether Delta itself keeps a property: users neither set nor unset it."""
    known = _BY_LOWER_KEY.get(key.lower())
    return known is not None and not known.settable


def parse_interval(text: str) -> int:
    """A calendar interval such as ``interval 1 week 2 days`` in milliseconds."""
    rest = text.strip().lower()
    rest = rest[len("interval") :] if re.match(r"interval\s", rest) else rest
    micros, at = 0, 0
    while at < len(rest.rstrip()):
        term = _TERM.match(rest, at)
        if term is None:
            raise ValueError("it is not a list of numbers and units")
        sign, number, unit = term.groups()
        unit = unit[:-1] if unit.endswith("s") else unit
        if unit in ("month", "year"):
            raise ValueError("months and years have no fixed length; 365 days is a year")
        if unit not in _UNITS or ("." in number and unit != "second"):
            raise ValueError(f"{number} {unit} is not a duration")
        micros += int(Decimal(number) * _UNITS[unit]) * (-1 if sign == "-" else 1)
        at = term.end()
    if at == 0:
        raise ValueError("it is empty")
    if abs(micros) > _LONGEST:
        raise ValueError("it is longer than clocks can count")
    return micros // 1000


def _validate_each(properties: Mapping[str, str], allow_arbitrary: bool) -> Iterator[tuple[str, str]]:
    for key, value in properties.items():
        lower = key.lower()
        if not lower.startswith("delta.") or lower.startswith(_OPEN_PREFIXES):
            yield key, value
            continue
        known = _BY_LOWER_KEY.get(lower)
        if known is not None:
            if is_kept(key):
                raise PropertyError(
                    f"{known.key} is kept by Delta itself and cannot be set",
                    errorClass="DELTA_CANNOT_MODIFY_TABLE_PROPERTY",
                )
            _parse(known, value)
        elif not lower.startswith(_FEATURE_PREFIX) and not allow_arbitrary:
            near = difflib.get_close_matches(lower, _BY_LOWER_KEY, n=1, cutoff=0.7)
            meant = f"Did you mean {_BY_LOWER_KEY[near[0]].key}?" if near else None
            raise PropertyError(f"{key} is not a table property of Delta", hint=meant)
        yield canonical_key(key), value


def _parse(prop: Property[T], text: str) -> T:
    try:
        value = prop.parse(text)
    except ValueError as e:
        why = f" ({e})" if prop.parse is parse_interval or prop.parse is _optional_interval else ""
        raise PropertyError(f"{prop.key} is {text!r}{why}: it needs {prop.needs}") from e
    if not prop.accepts(value):
        raise PropertyError(f"{prop.key} is {text!r}: it needs {prop.needs}")
    return value


# ---------------------------------------------------------------------------- what values mean


def _boolean(text: str) -> bool:
    lower = text.strip().lower()
    if lower not in ("true", "false"):
        raise ValueError(text)
    return lower == "true"


def _integer(text: str) -> int:
    if not re.fullmatch(r"[+-]?\d{1,19}", text.strip()):
        raise ValueError(text)
    return int(text)


def _optional_boolean(text: str) -> bool | None:
    return _boolean(text)


def _optional_integer(text: str) -> int | None:
    return _integer(text)


def _optional_interval(text: str) -> int | None:
    return parse_interval(text)


def _optional_text(text: str) -> str | None:
    return text


def _lower(text: str) -> str:
    return text.strip().lower()


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",")) if text.strip() else ()


def _column_list(text: str | None) -> bool:
    # Names apart by commas; backticks around what is not a plain identifier.
    part = r"(?:`(?:[^`]|``)+`|[\w$-]+)"
    column = rf"\s*{part}(?:\.{part})*\s*"
    return text is None or not text.strip() or re.fullmatch(f"{column}(?:,{column})*", text) is not None


# ---------------------------------------------------------------------------- the rows

_ROWS: list[Property[Any]] = []


def _row(prop: Property[T]) -> Property[T]:
    _ROWS.append(prop)
    return prop


def _switch(key: str, default: bool = False, alternate_key: str | None = None) -> Property[bool]:
    return _row(Property(key, _boolean, default, needs="true or false", alternate_key=alternate_key))


def _maybe(key: str) -> Property[bool | None]:
    return _row(Property(key, _optional_boolean, None, needs="true or false"))


def _text(key: str, *, settable: bool = True) -> Property[str | None]:
    return _row(Property(key, _optional_text, None, settable=settable))


def _duration(key: str, default: str) -> Property[int]:
    return _row(Property(key, parse_interval, parse_interval(default), lambda ms: ms >= 0, needs=_INTERVAL))


def _number(key: str, default: int, least: int, *, settable: bool = True) -> Property[int]:
    return _row(
        Property(key, _integer, default, lambda n: n >= least, f"an integer of at least {least}", settable)
    )


_INTERVAL = "an interval such as '2 weeks' or 'interval 36 hours'; say '365 days' for a year"

# Protocol properties: they steer the protocol action and are never stored.
MIN_READER_VERSION = _row(
    Property("delta.minReaderVersion", _optional_integer, None, lambda n: n in (1, 2, 3), "1, 2 or 3")
)
MIN_WRITER_VERSION = _row(
    Property(
        "delta.minWriterVersion",
        _optional_integer,
        None,
        lambda n: n is not None and 1 <= n <= 7,
        "a number from 1 to 7",
    )
)
IGNORE_PROTOCOL_DEFAULTS = _switch("delta.ignoreProtocolDefaults")

LOG_RETENTION = _duration("delta.logRetentionDuration", "30 days")
SAMPLE_RETENTION = _duration("delta.sampleRetentionDuration", "7 days")
CHECKPOINT_RETENTION = _duration("delta.checkpointRetentionDuration", "2 days")
CHECKPOINT_INTERVAL = _number("delta.checkpointInterval", 10, least=1)
ENABLE_EXPIRED_LOG_CLEANUP = _switch("delta.enableExpiredLogCleanup", True)
ENABLE_FULL_RETENTION_ROLLBACK = _switch("delta.enableFullRetentionRollback", True)
DROP_FEATURE_RETENTION = _duration("delta.dropFeatureTruncateHistory.retentionDuration", "24 hours")
DELETED_FILE_RETENTION = _duration("delta.deletedFileRetentionDuration", "1 week")
SET_TRANSACTION_RETENTION = _row(
    Property(
        "delta.setTransactionRetentionDuration",
        _optional_interval,
        None,
        lambda ms: ms is not None and ms >= 0,
        _INTERVAL,
    )
)
REQUIRE_CHECKPOINT_PROTECTION_BEFORE = _number(
    "delta.requireCheckpointProtectionBeforeVersion", 0, least=0, settable=False
)
CHECKPOINT_POLICY = _row(
    Property("delta.checkpointPolicy", _lower, "classic", lambda p: p in ("classic", "v2"), "classic or v2")
)
CHECKPOINT_STATS_AS_JSON = _switch("delta.checkpoint.writeStatsAsJson", True)
CHECKPOINT_STATS_AS_STRUCT = _switch("delta.checkpoint.writeStatsAsStruct", True)

RANDOMIZE_FILE_PREFIXES = _switch("delta.randomizeFilePrefixes")
RANDOM_PREFIX_LENGTH = _number("delta.randomPrefixLength", 2, least=1)
APPEND_ONLY = _switch("delta.appendOnly")
ISOLATION_LEVEL = _row(
    Property(
        "delta.isolationLevel",
        str,
        "Serializable",
        lambda level: level.lower() == "serializable",
        "Serializable, the one level there is",
    )
)
ENABLE_DELETION_VECTORS = _switch("delta.enableDeletionVectors")
ENABLE_CHANGE_DATA_CAPTURE = _switch("delta.enableChangeDataCapture")
ENABLE_CHANGE_DATA_FEED = _switch("delta.enableChangeDataFeed", alternate_key=ENABLE_CHANGE_DATA_CAPTURE.key)
ENABLE_ROW_TRACKING = _switch("delta.enableRowTracking")
ROW_TRACKING_SUSPENDED = _switch("delta.rowTrackingSuspended")
ROW_ID_COLUMN_NAME = _text("delta.rowTracking.materializedRowIdColumnName", settable=False)
ROW_COMMIT_VERSION_COLUMN_NAME = _text(
    "delta.rowTracking.materializedRowCommitVersionColumnName", settable=False
)
ENABLE_TYPE_WIDENING = _switch("delta.enableTypeWidening")
ENABLE_VARIANT_SHREDDING = _switch("delta.enableVariantShredding")
ENABLE_IN_COMMIT_TIMESTAMPS = _switch("delta.enableInCommitTimestamps")
IN_COMMIT_TIMESTAMP_VERSION = _row(
    Property("delta.inCommitTimestampEnablementVersion", _optional_integer, None, needs="a version")
)
IN_COMMIT_TIMESTAMP_TIMESTAMP = _row(
    Property("delta.inCommitTimestampEnablementTimestamp", _optional_integer, None, needs="milliseconds")
)
COLUMN_MAPPING_MODE = _row(
    Property(
        "delta.columnMapping.mode", _lower, "none", lambda m: m in ("none", "name", "id"), "none, name or id"
    )
)
COLUMN_MAPPING_MAX_ID = _number("delta.columnMapping.maxColumnId", 0, least=0, settable=False)
ENABLE_MATERIALIZE_PARTITION_COLUMNS = _maybe("delta.enableMaterializePartitionColumnsFeature")
WRITE_PARTITION_COLUMNS_TO_PARQUET = _maybe("delta.writePartitionColumnsToParquet")

PARQUET_FORMAT_VERSION = _row(
    Property(
        "delta.parquet.format.version",
        str,
        "1.0.0",
        lambda v: re.fullmatch(r"1\.0\.0|2\.\d+\.\d+", v) is not None,
        "1.0.0 or a version 2.x.x",
    )
)
PARQUET_COMPRESSION_CODEC = _text("delta.parquet.compression.codec")
AUTO_OPTIMIZE = _maybe("delta.autoOptimize")
AUTO_COMPACT = _maybe("delta.autoOptimize.autoCompact")
OPTIMIZE_WRITE = _maybe("delta.autoOptimize.optimizeWrite")
DATA_SKIPPING_NUM_INDEXED_COLS = _number("delta.dataSkippingNumIndexedCols", 32, least=-1)
DATA_SKIPPING_STATS_COLUMNS = _row(
    Property("delta.dataSkippingStatsColumns", _optional_text, None, _column_list, "columns apart by commas")
)
DATA_SKIPPING_STRING_PREFIX_LENGTH = _row(
    Property(
        "delta.dataSkippingStringPrefixLength",
        _optional_integer,
        None,
        lambda n: n is not None and n >= 0,
        "an integer of at least 0",
    )
)
SYMLINK_MANIFEST = _switch("delta.compatibility.symlinkFormatManifest.enabled")
UNIVERSAL_FORMATS = _row(
    Property[tuple[str, ...]](
        "delta.universalFormat.enabledFormats",
        _names,
        (),
        lambda names: len(set(names)) == len(names) and set(names) <= {"iceberg", "hudi"},
        "a list of iceberg and hudi",
    )
)
UNIVERSAL_ATOMIC_CONVERSION = _switch("delta.universalFormat.iceberg.atomicConversion.supported")
ENABLE_ICEBERG_COMPAT_V1 = _maybe("delta.enableIcebergCompatV1")
ENABLE_ICEBERG_COMPAT_V2 = _maybe("delta.enableIcebergCompatV2")
ENABLE_ICEBERG_COMPAT_V3 = _maybe("delta.enableIcebergCompatV3")
ENABLE_ICEBERG_WRITER_COMPAT_V1 = _maybe("delta.enableIcebergWriterCompatV1")
CAST_ICEBERG_TIME_TYPE = _switch("delta.castIcebergTimeType")
IGNORE_ICEBERG_BUCKET_PARTITION = _switch("delta.ignoreIcebergBucketPartition")
COMMIT_COORDINATOR = _text("delta.coordinatedCommits.commitCoordinator-preview")
COMMIT_COORDINATOR_CONF = _text("delta.coordinatedCommits.commitCoordinatorConf-preview")
COMMIT_COORDINATOR_TABLE_CONF = _text("delta.coordinatedCommits.tableConf-preview")
REDIRECT_READER_WRITER = _text("delta.redirectReaderWriter-preview")
REDIRECT_WRITER_ONLY = _text("delta.redirectWriterOnly-preview")

ALL: tuple[Property[Any], ...] = tuple(_ROWS)
_BY_LOWER_KEY: Mapping[str, Property[Any]] = {p.key.lower(): p for p in ALL}
