"""After a drop every door asks the protocol of the version it leads to: the rows, or a refusal by name.

The feature of these tables is one that nobody here knows, so this client is the old one. Its versions lie
between two others that are everybody's; four checkpoints hide them from whoever comes after the drop.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import tidegate
from support.streams import run, source
from support.tables import RawTable, add, column, features, lines, metadata, schema_string
from tidegate import DeltaTable
from tidegate.errors import UnsupportedReaderFeatureError
from tidegate.log.verify import verify

pytestmark = pytest.mark.spark
START = 1_700_000_000
FEED = {"delta.enableChangeDataFeed": "true", "delta.checkpointInterval": "1000"}
NEW = features("fromTheFuture", writers=["appendOnly", "invariants", "changeDataFeed"])
PLAIN = features(writers=["appendOnly", "invariants", "changeDataFeed"])
AGAIN = features(writers=["appendOnly", "invariants", "changeDataFeed", "checkpointProtection"])
BEFORE, USED, LATER, DROP, LAST = 2, 4, 5, 9, 11


class History:
    """Rows 1 and 2 from before the feature, 4 and 5 with it, 10 and 11 after: versions by number."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.raw = RawTable.on_disk(path)
        schema = schema_string(column("id"))
        self._commit(PLAIN, metadata(schema, configuration=FEED))
        for version in range(1, LAST + 1):
            if version == BEFORE + 1:
                self._commit(NEW)
            elif version == DROP:
                kept = {**FEED, "delta.requireCheckpointProtectionBeforeVersion": str(DROP)}
                self._commit(AGAIN, metadata(schema, configuration=kept))
            elif LATER < version < DROP:
                self._commit()
            else:
                self._commit(self._file(version))
            if version in (DROP - 3, DROP - 2, DROP - 1, DROP):
                self.raw.checkpoint(version)

    def _file(self, value: int) -> Any:
        name = f"f{value}.parquet"
        pq.write_table(pa.table({"id": pa.array([value], pa.int64())}), f"{self.path}/{name}")
        return add(name, os.path.getsize(f"{self.path}/{name}"))

    def _commit(self, *actions: Any) -> None:
        version = self.raw.commit(*actions)
        moment = START + 60 * version
        os.utime(f"{self.path}/_delta_log/{version:020d}.json", (moment, moment))

    def at(self, version: int) -> str:
        return datetime.fromtimestamp(START + 60 * version, timezone.utc).isoformat()


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "t")


def rows(frame: DataFrame) -> list[int]:
    return sorted(r.id for r in frame.collect())


Way = Callable[[SparkSession, History, int], object]


def _changes(spark: SparkSession, h: History, version: int, end: int) -> DataFrame:
    reader = spark.read.format("delta").option("readChangeFeed", "true")
    return reader.option("startingVersion", version).option("endingVersion", end).load(h.path)


def _reader(option: str, value: Callable[[History, int], object]) -> Way:
    return lambda s, h, v: s.read.format("delta").option(option, value(h, v)).load(h.path).collect()


WAYS: dict[str, Way] = {
    "versionAsOf": _reader("versionAsOf", lambda _, v: v),
    "timestampAsOf": _reader("timestampAsOf", lambda h, v: h.at(v)),
    "SELECT VERSION AS OF": lambda s, h, v: s.sql(
        f"SELECT * FROM delta.`{h.path}` VERSION AS OF {v}"
    ).collect(),
    "SELECT TIMESTAMP AS OF": lambda s, h, v: s.sql(
        f"SELECT * FROM delta.`{h.path}` TIMESTAMP AS OF '{h.at(v)}'"
    ).collect(),
    "RESTORE VERSION": lambda s, h, v: s.sql(f"RESTORE delta.`{h.path}` TO VERSION AS OF {v}"),
    "RESTORE TIMESTAMP": lambda s, h, v: s.sql(f"RESTORE delta.`{h.path}` TO TIMESTAMP AS OF '{h.at(v)}'"),
    "restoreToVersion": lambda s, h, v: DeltaTable.forPath(s, h.path).restoreToVersion(v),
    "restoreToTimestamp": lambda s, h, v: DeltaTable.forPath(s, h.path).restoreToTimestamp(h.at(v)),
    "CLONE": lambda s, h, v: s.sql(
        f"CREATE TABLE delta.`{h.path}-copy` SHALLOW CLONE delta.`{h.path}` VERSION AS OF {v}"
    ),
    "cloneAtVersion": lambda s, h, v: DeltaTable.forPath(s, h.path).cloneAtVersion(v, f"{h.path}-copy", True),
    "readChangeFeed": lambda s, h, v: _changes(s, h, v, LAST),
    "readChangeFeed up to it": lambda s, h, v: _changes(s, h, 0, v),
    "table_changes": lambda s, h, v: s.sql(f"SELECT * FROM table_changes_by_path('{h.path}', {v}, {LAST})"),
    "open": lambda s, h, v: tidegate.open(h.path, version=v),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_version_that_needs_the_feature_is_refused_by_every_door(
    spark: SparkSession, history: History, way: str
) -> None:
    before = history.raw.names()
    with pytest.raises(UnsupportedReaderFeatureError, match="fromTheFuture") as e:
        WAYS[way](spark, history, LATER)
    assert e.value.errorClass == "DELTA_UNSUPPORTED_FEATURES_FOR_READ"
    assert history.raw.names() == before
    assert not os.path.exists(f"{history.path}-copy")


def test_versions_before_and_after_are_read_written_and_gone_back_to(
    spark: SparkSession, history: History
) -> None:
    def travel(version: int) -> list[int]:
        return rows(spark.read.format("delta").option("versionAsOf", version).load(history.path))

    assert (travel(BEFORE), travel(DROP), travel(LAST)) == ([1, 2], [1, 2, 4, 5], [1, 2, 4, 5, 10, 11])
    report = verify(history.raw.log, data=False)
    assert (report.errors, report.checked.drops) == ((), 1)
    assert rows(_changes(spark, history, DROP, LAST)) == [10, 11]
    assert rows(_changes(spark, history, 0, BEFORE)) == [1, 2]
    spark.range(20, 21).write.format("delta").mode("append").save(history.path)
    table = DeltaTable.forPath(spark, history.path)
    table.restoreToVersion(BEFORE)
    assert rows(table.toDF()) == [1, 2]
    table.restoreToVersion(LAST)
    assert rows(table.toDF()) == [1, 2, 4, 5, 10, 11]
    table.cloneAtVersion(DROP, f"{history.path}-copy", True)
    assert rows(spark.read.format("delta").load(f"{history.path}-copy")) == [1, 2, 4, 5]


@pytest.mark.parametrize("feed", [False, True])
def test_streams_begin_before_the_feature_or_from_the_drop_on(
    spark: SparkSession, history: History, tmp_path: Path, feed: bool
) -> None:
    options: dict[str, Any] = {"readChangeFeed": "true"} if feed else {}
    for number, start in enumerate(
        ({"startingVersion": USED}, {"startingTimestamp": history.at(USED)}, {"startingVersion": BEFORE})
    ):
        with pytest.raises(UnsupportedReaderFeatureError, match="fromTheFuture"):
            run(source(spark, history.path, **start, **options), str(tmp_path / f"refused-{number}"))
    for version in (DROP, LAST - 1):
        found = run(
            source(spark, history.path, startingVersion=version, **options), str(tmp_path / f"{version}")
        )
        assert [r[0] for r in found.rows] == [10, 11]
    whole = run(source(spark, history.path, **options), str(tmp_path / "whole"))
    assert [r[0] for r in whole.rows] == [1, 2, 4, 5, 10, 11]


def test_a_stream_that_stands_among_versions_with_the_feature_is_refused_after_the_drop(
    spark: SparkSession, tmp_path: Path
) -> None:
    """No commit from its offset up to the drop says a protocol; the newest one looks clean."""
    history = History(tmp_path / "t")
    checkpoint = str(tmp_path / "checkpoint")
    hidden = {}
    log = Path(history.path) / "_delta_log"
    for file in sorted(log.iterdir()):
        if not file.name.startswith(".") and int(file.name[:20]) > LATER:
            hidden[file] = file.read_bytes()
            file.unlink()
    upgrade = log / f"{BEFORE + 1:020d}.json"
    said = upgrade.read_bytes()
    upgrade.write_bytes(lines([{"commitInfo": {"timestamp": START}}]))
    assert [r[0] for r in run(source(spark, history.path), checkpoint).rows] == [1, 2, 4, 5]
    upgrade.write_bytes(said)
    for file, data in hidden.items():
        file.write_bytes(data)
    with pytest.raises(UnsupportedReaderFeatureError, match="fromTheFuture") as e:
        run(source(spark, history.path), checkpoint)
    # Spark asks for the last batch again, and then for the next one.
    assert e.value.version in (LATER, LATER + 1)
