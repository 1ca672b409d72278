"""Table properties: what values mean, what users may set, what existing tables are forgiven."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate import properties as p
from tidegate.errors import PropertyError

DAY = 86_400_000
# Keys and defaults, as the reference has them.
DEFAULTS = {
    "delta.ignoreProtocolDefaults": False,
    "delta.logRetentionDuration": 30 * DAY,
    "delta.sampleRetentionDuration": 7 * DAY,
    "delta.checkpointRetentionDuration": 2 * DAY,
    "delta.checkpointInterval": 10,
    "delta.enableExpiredLogCleanup": True,
    "delta.enableFullRetentionRollback": True,
    "delta.dropFeatureTruncateHistory.retentionDuration": DAY,
    "delta.deletedFileRetentionDuration": 7 * DAY,
    "delta.randomizeFilePrefixes": False,
    "delta.randomPrefixLength": 2,
    "delta.appendOnly": False,
    "delta.enableDeletionVectors": False,
    "delta.parquet.format.version": "1.0.0",
    "delta.enableVariantShredding": False,
    "delta.autoOptimize": None,
    "delta.autoOptimize.autoCompact": None,
    "delta.autoOptimize.optimizeWrite": None,
    "delta.dataSkippingNumIndexedCols": 32,
    "delta.dataSkippingStatsColumns": None,
    "delta.dataSkippingStringPrefixLength": None,
    "delta.compatibility.symlinkFormatManifest.enabled": False,
    "delta.checkpoint.writeStatsAsJson": True,
    "delta.checkpoint.writeStatsAsStruct": True,
    "delta.enableChangeDataFeed": False,
    "delta.enableChangeDataCapture": False,
    "delta.columnMapping.mode": "none",
    "delta.columnMapping.maxColumnId": 0,
    "delta.setTransactionRetentionDuration": None,
    "delta.isolationLevel": "Serializable",
    "delta.checkpointPolicy": "classic",
    "delta.enableRowTracking": False,
    "delta.rowTrackingSuspended": False,
    "delta.universalFormat.enabledFormats": (),
    "delta.enableIcebergCompatV1": None,
    "delta.enableIcebergCompatV2": None,
    "delta.enableIcebergCompatV3": None,
    "delta.universalFormat.iceberg.atomicConversion.supported": False,
    "delta.castIcebergTimeType": False,
    "delta.ignoreIcebergBucketPartition": False,
    "delta.enableTypeWidening": False,
    "delta.coordinatedCommits.commitCoordinator-preview": None,
    "delta.coordinatedCommits.commitCoordinatorConf-preview": None,
    "delta.coordinatedCommits.tableConf-preview": None,
    "delta.enableInCommitTimestamps": False,
    "delta.inCommitTimestampEnablementVersion": None,
    "delta.inCommitTimestampEnablementTimestamp": None,
    "delta.requireCheckpointProtectionBeforeVersion": 0,
    "delta.enableMaterializePartitionColumnsFeature": None,
    "delta.writePartitionColumnsToParquet": None,
    "delta.redirectReaderWriter-preview": None,
    "delta.redirectWriterOnly-preview": None,
}


@pytest.mark.parametrize("key", DEFAULTS)
def test_default(key: str) -> None:
    row = next(row for row in p.ALL if row.key == key)
    assert p.get({}, row) == DEFAULTS[key]


def test_rows_are_one_per_key() -> None:
    assert len({row.key.lower() for row in p.ALL}) == len(p.ALL)


# ---------------------------------------------------------------------------- intervals


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("interval 30 days", 30 * DAY),
        ("INTERVAL 1 week", 7 * DAY),
        ("  interval   2 weeks  ", 14 * DAY),
        ("1 day", DAY),
        ("24 hours", DAY),
        ("interval 1 week 2 days 3 hours", 9 * DAY + 3 * 3_600_000),
        ("90 minutes 30 seconds", 5_430_000),
        ("1.5 seconds", 1500),
        ("interval 250 milliseconds", 250),
        ("1500 microseconds", 1),
        ("0 seconds", 0),
        ("interval 2 days -1 hour", 47 * 3_600_000),
        ("interval + 3 days", 3 * DAY),
    ],
)
def test_intervals(text: str, ms: int) -> None:
    assert p.get({"delta.logRetentionDuration": text}, p.LOG_RETENTION) == ms


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("interval 1 month", "months and years have no fixed length"),
        ("1 year", "months and years have no fixed length"),
        ("interval 1 day 2 months", "months and years have no fixed length"),
        ("interval", "not a list"),
        ("", "empty"),
        ("interval ", "not a list"),
        ("30", "not a list"),
        ("30days", "not a list"),
        ("days 30", "not a list"),
        ("1.5 days", "not a duration"),
        ("3 fortnights", "not a duration"),
        ("interval -1 day", "needs an interval"),
        ("interval 999999999999 days", "longer than clocks can count"),
    ],
)
def test_intervals_that_are_none(text: str, says: str) -> None:
    with pytest.raises(PropertyError, match=says) as e:
        p.get({"delta.logRetentionDuration": text}, p.LOG_RETENTION)
    assert "delta.logRetentionDuration" in e.value.message
    assert repr(text) in e.value.message


@given(st.integers(0, 500), st.integers(0, 50), st.integers(0, 5000))
def test_terms_add_up(days: int, hours: int, seconds: int) -> None:
    text = f"interval {days} days {hours} hours {seconds} seconds"
    assert p.parse_interval(text) == ((days * 24 + hours) * 3600 + seconds) * 1000


@given(st.text(st.sampled_from("interval 0123dayshour.-+"), max_size=20))
def test_any_text_is_an_interval_or_an_error(text: str) -> None:
    with contextlib.suppress(PropertyError):
        assert p.get({"delta.logRetentionDuration": text}, p.LOG_RETENTION) >= 0


# ---------------------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("delta.appendOnly", "yes"),
        ("delta.appendOnly", "1"),
        ("delta.checkpointInterval", "0"),
        ("delta.checkpointInterval", "ten"),
        ("delta.checkpointInterval", "1_0"),
        ("delta.randomPrefixLength", "0"),
        ("delta.dataSkippingNumIndexedCols", "-2"),
        ("delta.isolationLevel", "WriteSerializable"),
        ("delta.checkpointPolicy", "v3"),
        ("delta.columnMapping.mode", "position"),
        ("delta.parquet.format.version", "3.0.0"),
        ("delta.universalFormat.enabledFormats", "iceberg,iceberg"),
        ("delta.universalFormat.enabledFormats", "orc"),
        ("delta.dataSkippingStatsColumns", "a,,b"),
        ("delta.dataSkippingStatsColumns", "a b"),
        ("delta.setTransactionRetentionDuration", "never"),
        ("delta.minReaderVersion", "4"),
        ("delta.minWriterVersion", "8"),
        ("delta.minWriterVersion", "0"),
        ("delta.inCommitTimestampEnablementVersion", "x"),
    ],
)
def test_values_that_are_refused_with_key_and_value(key: str, text: str) -> None:
    with pytest.raises(PropertyError) as e:
        p.validate({key: text})
    assert key in e.value.message
    assert repr(text) in e.value.message


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("delta.appendOnly", "TRUE"),
        ("delta.dataSkippingNumIndexedCols", "-1"),
        ("delta.isolationLevel", "Serializable"),
        ("delta.checkpointPolicy", "v2"),
        ("delta.columnMapping.mode", "Name"),
        ("delta.universalFormat.enabledFormats", "iceberg,hudi"),
        ("delta.dataSkippingStatsColumns", "a, b.c,`d e`.f"),
        ("delta.dataSkippingStatsColumns", ""),
        ("delta.setTransactionRetentionDuration", "interval 3 days"),
        ("delta.parquet.format.version", "2.12.0"),
    ],
)
def test_values_that_are_taken(key: str, text: str) -> None:
    assert p.validate({key: text}) == {key: text}


def test_an_older_key_is_read_too() -> None:
    old = {"delta.enableChangeDataCapture": "true"}
    assert p.get(old, p.ENABLE_CHANGE_DATA_FEED) is True
    assert p.get({**old, "delta.enableChangeDataFeed": "false"}, p.ENABLE_CHANGE_DATA_FEED) is False


# ---------------------------------------------------------------------------- what users may set


def test_keys_are_brought_to_deltas_case() -> None:
    assert p.validate(
        {
            "DELTA.APPENDONLY": "true",
            "delta.logretentionduration": "40 days",
            "Delta.Feature.deletionVectors": "supported",
            "delta.constraints.Positive": "id > 0",
            "delta.universalFormat.config.iceberg.x": "1",
            "Owner": "me",
        }
    ) == {
        "delta.appendOnly": "true",
        "delta.logRetentionDuration": "40 days",
        "delta.feature.deletionVectors": "supported",
        "delta.constraints.Positive": "id > 0",
        "delta.universalFormat.config.iceberg.x": "1",
        "Owner": "me",
    }


def test_keys_nobody_knows_are_refused_with_the_nearest() -> None:
    with pytest.raises(
        PropertyError, match=r"delta\.apendOnly is not.*Did you mean delta\.appendOnly\?"
    ) as e:
        p.validate({"delta.apendOnly": "true"})
    assert e.value.errorClass == "DELTA_UNKNOWN_CONFIGURATION"
    with pytest.raises(PropertyError) as far:
        p.validate({"delta.zzz": "1"})
    assert far.value.hint is None


def test_keys_nobody_knows_may_be_allowed() -> None:
    assert p.validate({"delta.targetFileSize": "1"}, allow_arbitrary=True) == {"delta.targetFileSize": "1"}


@pytest.mark.parametrize(
    "key", ["delta.columnMapping.maxColumnId", "delta.requireCheckpointProtectionBeforeVersion"]
)
def test_what_delta_keeps_for_itself_cannot_be_set(key: str) -> None:
    with pytest.raises(PropertyError, match="cannot be set") as e:
        p.validate({key: "3"})
    assert e.value.errorClass == "DELTA_CANNOT_MODIFY_TABLE_PROPERTY"


def test_deleted_files_may_not_outlive_the_log() -> None:
    long, short = {"delta.deletedFileRetentionDuration": "40 days"}, {"delta.logRetentionDuration": "3 days"}
    with pytest.raises(PropertyError, match="may not be longer than"):
        p.validate(long)
    with pytest.raises(PropertyError, match="may not be longer than"):
        p.validate(short)
    assert p.validate(long, existing={"delta.logRetentionDuration": "60 days"}) == long
    assert p.validate(short, existing={"delta.deletedFileRetentionDuration": "1 day"}) == short
    # A table that breaks the rule already is left in peace by other settings.
    p.validate({"delta.appendOnly": "true"}, existing=long)


def test_canonical_keys() -> None:
    assert p.canonical_key("delta.APPENDONLY") == "delta.appendOnly"
    assert p.canonical_key("delta.unheardOf") == "delta.unheardOf"
    assert p.canonical_key("DELTA.FEATURE.x") == "delta.feature.x"
