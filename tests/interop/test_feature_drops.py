"""Drops across engines: what we drop delta-spark and delta-rs can use, and what delta-spark drops we can.

Our side works without Spark here, on Arrow; what Spark rewrites is tested where there is a session of ours.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.delta_spark import DeltaSpark, PeerError, delta_spark
from support.peers import require_peer
from support.row_tables import USES, OldClient, Refused, RowTable, use
from support.tables import DAY, Clock
from tidegate.errors import DropFeatureError, ProtocolError, VersionNotFoundError
from tidegate.log.checkpoint.write import write_checkpoint
from tidegate.log.retention import clean_up
from tidegate.log.snapshot import load
from tidegate.log.table_log import TableLog
from tidegate.log.verify import verify
from tidegate.protocol.clients import well_known
from tidegate.protocol.delta import DELTA

pytestmark = pytest.mark.peers
READERS = frozenset({"deletionVectors", "columnMapping", "typeWidening", "v2Checkpoint"})
# What only binds writers goes in one commit, and leaves no protection behind.
WRITERS = {
    "rowTracking",
    "domainMetadata",
    "inCommitTimestamp",
    "checkConstraints",
    "materializePartitionColumns",
}
PROTECTED = sorted(set(USES) - WRITERS)


def some(features: Iterable[str], *few: str) -> list[Any]:
    """Each feature; but for a ``few`` they are for deep runs, since the peer takes its time."""
    return [pytest.param(f, marks=() if f in few else (pytest.mark.deep,)) for f in sorted(features)]


@pytest.fixture(scope="module")
def peer() -> DeltaSpark:
    return delta_spark()


def on_disk(path: Path) -> RowTable:
    return RowTable(Clock(time.time_ns() // 1_000_000), TableLog.at(path).store)  # type: ignore[arg-type]


def used(path: Path, feature: str) -> RowTable:
    """A table with some rows that uses a feature."""
    return use(on_disk(path).create(), feature)


def theirs(peer: DeltaSpark, path: Path, **options: object) -> list[int]:
    return sorted(peer.read(str(path), **options).column(0).to_pylist())


def age(path: Path, days: int) -> None:
    """Let everything in the log have been written some days ago, in the same order."""
    for file in sorted((path / "_delta_log").glob("*")):
        if file.is_file():
            moment = file.stat().st_mtime - days * 86_400
            os.utime(file, (moment, moment))


@pytest.mark.parametrize("feature", some(USES, "columnMapping", "deletionVectors"))
def test_delta_spark_reads_every_version_after_our_drop_and_goes_on(
    peer: DeltaSpark, tmp_path: Path, feature: str
) -> None:
    table = used(tmp_path, feature)
    done = table.drop(feature)
    assert done.protocol.supports("checkpointProtection") == (feature in PROTECTED)
    for version, values in table.expected.items():
        assert theirs(peer, tmp_path, versionAsOf=version) == values, version
    place = f"delta.`{tmp_path}`"
    (detail,) = peer.query(f"DESCRIBE DETAIL {place}").to_pylist()
    assert set(detail["tableFeatures"]) == set(done.protocol.features())
    peer.sql(f"INSERT INTO {place} VALUES (77)")
    assert table.rows() == sorted([*table.now(), 77])
    table.expected[table.load().version] = table.rows()
    # The newest version needs nothing that VACUUM takes, whatever else that is.
    check = "spark.databricks.delta.retentionDurationCheck.enabled"
    peer.run(f"spark.conf.set('{check}', 'false')\nNone")
    peer.sql(f"VACUUM {place} RETAIN 0 HOURS")
    peer.run(f"spark.conf.unset('{check}')\nNone")
    assert table.rows() == theirs(peer, tmp_path) == table.now()
    assert [f.code for f in verify(table.log).errors] == []


@pytest.mark.parametrize("feature", some(PROTECTED, "deletionVectors", "v2Checkpoint"))
def test_delta_sparks_own_cleanup_keeps_our_drop_right(
    peer: DeltaSpark, tmp_path: Path, feature: str
) -> None:
    table = used(tmp_path, feature)
    table.set(delta__checkpointInterval="2")
    table.drop(feature)
    age(tmp_path, 40)
    place = f"delta.`{tmp_path}`"
    for number in range(3):
        peer.sql(f"INSERT INTO {place} VALUES ({100 + number})")
    assert table.rows() == theirs(peer, tmp_path) == sorted([*table.now(), *range(100, 103)])
    assert verify(table.log).errors == ()
    blind = OldClient(table.store, READERS - {feature.removesuffix("-preview")})
    assert blind.rows(table.load().version) == table.rows()
    for version, values in table.expected.items():
        try:
            assert table.rows(version) == values
        except VersionNotFoundError:
            continue


BY_THEM = {
    "deletionVectors": ("'delta.enableDeletionVectors'='true'", "DELETE FROM {} WHERE id = 2"),
    "columnMapping": ("'delta.columnMapping.mode'='name'", "ALTER TABLE {} RENAME COLUMN id TO number"),
    "typeWidening": ("'delta.enableTypeWidening'='true'", "ALTER TABLE {} ALTER COLUMN id TYPE BIGINT"),
    "v2Checkpoint": ("'delta.checkpointPolicy'='v2'", "INSERT INTO {} VALUES (4)"),
    "vacuumProtocolCheck": ("'delta.feature.vacuumProtocolCheck'='supported'", "INSERT INTO {} VALUES (4)"),
}


@pytest.mark.parametrize("feature", some(BY_THEM, "columnMapping", "deletionVectors"))
def test_we_read_write_and_clean_up_after_delta_sparks_drop(
    peer: DeltaSpark, tmp_path: Path, feature: str
) -> None:
    place = f"delta.`{tmp_path / 't'}`"
    properties, use = BY_THEM[feature]
    peer.sql(
        f"CREATE TABLE {place} (id INT) USING delta TBLPROPERTIES ({properties})",
        f"INSERT INTO {place} SELECT /*+ COALESCE(1) */ * FROM VALUES (1), (2), (3)",
        use.format(place),
    )
    table = on_disk(tmp_path / "t")
    before = table.load().version
    peer.sql(f"ALTER TABLE {place} DROP FEATURE {feature}")
    at = table.load().version
    assert not table.load().protocol.supports(feature)
    assert table.load().properties["delta.requireCheckpointProtectionBeforeVersion"] == str(at)
    for version in range(at + 1):
        table.expected[version] = theirs(peer, tmp_path / "t", versionAsOf=version)
        assert table.rows(version) == table.expected[version]
    report = verify(table.log)
    assert (report.errors, report.checked.drops) == ((), 1)
    # Clients that lack the feature: ours with a shorter list, and one that is no relative of ours.
    blind = OldClient(table.store, (READERS | {"vacuumProtocolCheck"}) - {feature})
    assert blind.rows(at) == table.now()
    with pytest.raises(Refused):
        blind.rows(before)
    with pytest.raises(ProtocolError):
        load(table.client(DELTA.without([feature])), before)
    table.append([55])
    assert theirs(peer, tmp_path / "t") == table.now()
    # With all of it expired everything below the boundary goes at once.
    age(tmp_path / "t", 40)
    write_checkpoint(table.load())
    clean_up(table.load(), before=table.clock() - 30 * DAY)
    assert theirs(peer, tmp_path / "t") == table.now() == table.rows()
    assert verify(table.log).errors == ()
    left = {int(p.name[:20]) for p in (tmp_path / "t" / "_delta_log").glob("0*.json") if len(p.name) == 25}
    assert min(left) >= at


@pytest.mark.parametrize(
    "name", ["appendOnly", "columnMapping", "abc", "delta.enableDeletionVectors", "checkpointProtection"]
)
def test_the_same_refusals_have_the_same_names(peer: DeltaSpark, tmp_path: Path, name: str) -> None:
    table = used(tmp_path, "deletionVectors")
    with pytest.raises(PeerError) as theirs_said:
        peer.sql(f"ALTER TABLE delta.`{tmp_path}` DROP FEATURE `{name}`")
    with pytest.raises(DropFeatureError) as ours:
        table.drop(name)
    assert f"[{ours.value.errorClass}" in str(theirs_said.value)


@pytest.mark.parametrize("feature", ["typeWidening", "typeWidening-preview", "vacuumProtocolCheck"])
def test_delta_rs_reads_what_it_refused_before_the_drop(tmp_path: Path, feature: str) -> None:
    deltalake = require_peer("delta-rs")
    table = used(tmp_path, feature)

    def read(version: int | None = None) -> list[int]:
        found = deltalake.DeltaTable(str(tmp_path), version=version).to_pyarrow_dataset().to_table()
        return sorted(found.column(0).to_pylist())

    with pytest.raises(Exception, match=feature):
        read()
    done = table.drop(feature)
    assert read() == table.now()
    assert read(1) == table.expected[1], "from before the feature was there"
    table.append([50])
    assert (read(), read(done.version)) == (table.now(), table.expected[done.version])
    with pytest.raises(Exception, match="checkpointProtection"):
        deltalake.write_deltalake(str(tmp_path), pa.table({"id": pa.array([60], pa.int64())}), mode="append")


def test_delta_rs_writes_again_once_protection_has_gone_too(tmp_path: Path) -> None:
    deltalake = require_peer("delta-rs")
    table = used(tmp_path, "vacuumProtocolCheck")
    table.drop("vacuumProtocolCheck")
    age(tmp_path, 2)
    table.drop("checkpointProtection", True)
    deltalake.write_deltalake(str(tmp_path), pa.table({"id": pa.array([60], pa.int32())}), mode="append")
    assert table.rows() == sorted([*table.now(), 60])
    assert verify(table.log).errors == ()


def test_the_features_of_delta_sparks_release_are_those_of_the_data(peer: DeltaSpark) -> None:
    """What ``protocol --clients`` says of this release, against the release itself."""
    told = json.loads(
        peer.run(
            "import json\n"
            "known = spark._jvm.org.apache.spark.sql.delta.TableFeature.allSupportedFeaturesMap()\n"
            "found = known.values().toList()\n"
            "rows = [found.apply(i) for i in range(found.size())]\n"
            "json.dumps([[f.name(), f.isReaderWriterFeature()] for f in rows])"
        )
    )
    release = peer.run("import importlib.metadata\nimportlib.metadata.version('delta-spark')")
    (client,) = [c for c in well_known().clients if (c.client, c.release) == ("delta-spark", release)]
    assert client.writes == {name for name, _ in told}
    assert client.reads == {name for name, reads in told if reads}


def test_delta_spark_checkpoints_and_drops_features_of_tables_that_we_wrote(
    peer: DeltaSpark, tmp_path: Path
) -> None:
    """It compares our checksum with what it counts, bins of sizes included, and refuses what differs."""
    table = used(tmp_path, "deletionVectors")
    peer.sql(f"ALTER TABLE delta.`{tmp_path}` DROP FEATURE deletionVectors")
    assert not table.load().protocol.supports("deletionVectors")
    assert table.rows() == theirs(peer, tmp_path) == table.now()
    report = verify(table.log)
    assert (report.errors, report.checked.drops) == ((), 1)
