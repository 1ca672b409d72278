"""Drops across engines: what we drop delta-spark and delta-rs can use, and what delta-spark drops we can.

Our side works without Spark here, on Arrow; what Spark rewrites is tested where there is a session of ours.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from support.delta_spark import DeltaSpark, delta_spark
from support.peers import require_peer
from support.row_tables import RowTable
from support.tables import Clock
from tidegate.log.checkpoint.write import write_checkpoint
from tidegate.log.table_log import TableLog
from tidegate.log.verify import verify

pytestmark = pytest.mark.peers
READERS = frozenset({"deletionVectors", "columnMapping", "typeWidening", "v2Checkpoint"})
USES: dict[str, Any] = {
    "deletionVectors": lambda t: (t.set(delta__enableDeletionVectors="true"), t.delete([1, 2])),
    "columnMapping": lambda t: (t.set(delta__columnMapping__mode="name"), t.rename("number")),
    "typeWidening": lambda t: (t.set(delta__enableTypeWidening="true"), t.widen()),
    "v2Checkpoint": lambda t: (t.set(delta__checkpointPolicy="v2"), write_checkpoint(t.load())),
}


@pytest.fixture(scope="module")
def peer() -> DeltaSpark:
    return delta_spark()


def on_disk(path: Path) -> RowTable:
    return RowTable(Clock(time.time_ns() // 1_000_000), TableLog.at(path).store)  # type: ignore[arg-type]


def used(path: Path, feature: str) -> RowTable:
    """A table with some rows that uses a feature."""
    table = on_disk(path).create()
    table.append([1, 2, 3])
    USES[feature](table)
    table.append([10, 11])
    return table


def theirs(peer: DeltaSpark, path: Path, **options: object) -> list[int]:
    return sorted(peer.read(str(path), **options).column(0).to_pylist())


@pytest.mark.parametrize("feature", sorted(READERS))
def test_delta_spark_reads_every_version_after_our_drop_and_goes_on(
    peer: DeltaSpark, tmp_path: Path, feature: str
) -> None:
    table = used(tmp_path, feature)
    done = table.drop(feature)
    for version, values in table.expected.items():
        assert theirs(peer, tmp_path, versionAsOf=version) == values, version
    place = f"delta.`{tmp_path}`"
    (detail,) = peer.query(f"DESCRIBE DETAIL {place}").to_pylist()
    assert set(detail["tableFeatures"]) == set(done.protocol.features())
    peer.sql(f"INSERT INTO {place} VALUES (77)")
    assert table.rows() == sorted([*table.now(), 77])
    table.expected[table.load().version] = table.rows()
    # The newest version needs nothing that VACUUM takes, whatever else that is.
    peer.run("spark.conf.set('spark.databricks.delta.retentionDurationCheck.enabled', 'false')\nNone")
    peer.sql(f"VACUUM {place} RETAIN 0 HOURS")
    assert table.rows() == theirs(peer, tmp_path) == table.now()
    assert [f.code for f in verify(table.log).errors] == []


def test_delta_rs_reads_what_it_refused_before_the_drop(tmp_path: Path) -> None:
    deltalake = require_peer("delta-rs")
    table = used(tmp_path, "typeWidening")

    def read() -> list[int]:
        found = deltalake.DeltaTable(str(tmp_path)).to_pyarrow_dataset().to_table()
        return sorted(found.column(0).to_pylist())

    with pytest.raises(Exception, match="typeWidening"):
        read()
    table.drop("typeWidening")
    assert read() == table.now()
