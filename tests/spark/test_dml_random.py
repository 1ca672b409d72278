"""Random sequences of operations end as the same on plain Python data, at every version and in the feed."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import tidegate
from support.dml import sound, write
from tidegate.commands.vacuum import vacuum
from tidegate.errors import TidegateError
from tidegate.log.table_log import TableLog
from tidegate.table.delta import DeltaTable

pytestmark = pytest.mark.spark
DEEP = os.environ.get("TIDEGATE_DEEP", "") not in ("", "0")

Row = tuple[int, int, int | None]
Test = Callable[[Row], bool]
SCHEMA = "id int, p int, v int"
# With the table's own retention nothing goes yet; with none only the present is sure to be left.
VACUUMS = ("vacuum", "vacuum of all that is past")


@dataclass(frozen=True)
class Condition:
    """A condition as SQL and as Python; null is not true."""

    sql: str
    test: Test


def conditions() -> st.SearchStrategy[Condition]:
    number = st.integers(0, 12)
    return st.one_of(
        number.map(lambda k: Condition(f"id < {k}", lambda r: r[0] < k)),
        number.map(lambda k: Condition(f"id = {k} or id = {k + 3}", lambda r: r[0] in (k, k + 3))),
        st.integers(0, 2).map(lambda k: Condition(f"p = {k}", lambda r: r[1] == k)),
        number.map(lambda k: Condition(f"v > {k}", lambda r: r[2] is not None and r[2] > k)),
        number.map(
            lambda k: Condition(
                f"not (v > {k}) and p <> 1", lambda r: r[2] is not None and r[2] <= k and r[1] != 1
            )
        ),
        st.just(Condition("v is null", lambda r: r[2] is None)),
    )


@dataclass(frozen=True)
class Change:
    """An assignment as SQL and as Python."""

    column: str
    sql: str
    apply: Callable[[Row], Row]


CHANGES = [
    Change("v", "v + 1", lambda r: (r[0], r[1], None if r[2] is None else r[2] + 1)),
    Change("v", "null", lambda r: (r[0], r[1], None)),
    Change("p", "(p + 1) % 3", lambda r: (r[0], (r[1] + 1) % 3, r[2])),
    Change("id", "id + 5", lambda r: (r[0] + 5, r[1], r[2])),
]

row = st.tuples(st.integers(0, 12), st.integers(0, 2), st.one_of(st.none(), st.integers(0, 12)))
several = st.lists(row, min_size=1, max_size=6)


@dataclass(frozen=True)
class Step:
    """One operation: its name and what it was drawn with."""

    kind: str
    rows: tuple[Row, ...] = ()
    condition: Condition | None = None
    change: Change = CHANGES[0]
    flags: tuple[bool, bool, bool, bool] = (True, False, True, False)

    def on_table(self, spark: SparkSession, path: str) -> None:
        dt = DeltaTable.forPath(spark, path).alias("t")
        sql = None if self.condition is None else self.condition.sql
        if self.kind in ("append", "overwrite"):
            frame(spark, self.rows).write.format("delta").mode(self.kind).save(path)
        elif self.kind == "delete":
            dt.delete(sql)
        elif self.kind == "update":
            dt.update(sql, {self.change.column: self.change.sql})
        elif self.kind == "optimize":
            dt.optimize().executeCompaction()
        elif self.kind == "zorder":
            dt.optimize().executeZOrderBy("id", "v")
        elif self.kind == "restore":
            dt.restoreToVersion(tidegate.open(path).version // 2)
        elif self.kind in VACUUMS:
            hours = None if self.kind == "vacuum" else 0
            vacuum(TableLog.at(path), hours, check_retention=False)
        else:
            self._merge(spark, dt)

    def _merge(self, spark: SparkSession, dt: DeltaTable) -> None:
        updates, deletes, inserts, by_source = self.flags
        merging = dt.merge(frame(spark, self.source()).alias("s"), "t.id = s.id")
        if updates:
            merging = merging.whenMatchedUpdate("s.p <> 2", {"v": "s.v", "p": "s.p"})
        if deletes:
            merging = merging.whenMatchedDelete()
        if inserts:
            merging = merging.whenNotMatchedInsertAll("s.p <> 1")
        if by_source:
            merging = merging.whenNotMatchedBySourceUpdate("t.v is null", {"v": "t.id"})
            merging = merging.whenNotMatchedBySourceDelete("t.p = 0")
        merging.execute()

    def source(self) -> tuple[Row, ...]:
        """The rows of a merge's source, each id once."""
        return tuple({r[0]: r for r in self.rows}.values())

    def on_rows(self, table: Counter[Row], versions: list[Counter[Row]]) -> Counter[Row]:
        if self.kind == "append":
            return table + Counter(self.rows)
        if self.kind == "overwrite":
            return Counter(self.rows)
        if self.kind in ("optimize", "zorder", *VACUUMS):
            return table
        if self.kind == "restore":
            return versions[(len(versions) - 1) // 2]
        out: Counter[Row] = Counter()
        test = self.condition.test if self.condition is not None else lambda _: True
        for r, n in table.items():
            if self.kind == "delete":
                out[r] += 0 if test(r) else n
            elif self.kind == "update":
                out[self.change.apply(r) if test(r) else r] += n
            else:
                found = self._merged(r)
                if found is not None:
                    out[found] += n
        if self.kind == "merge" and self.flags[2]:
            known = {r[0] for r in table}
            out += Counter(s for s in self.source() if s[0] not in known and s[1] != 1)
        return +out

    def _merged(self, r: Row) -> Row | None:
        updates, deletes, _, by_source = self.flags
        match = next((s for s in self.source() if s[0] == r[0]), None)
        if match is not None:
            if updates and match[1] != 2:
                return (r[0], match[1], match[2])
            return None if deletes else r
        if by_source and r[2] is None:
            return (r[0], r[1], r[0])
        return None if by_source and r[1] == 0 else r


flags = st.tuples(st.booleans(), st.booleans(), st.booleans(), st.booleans()).filter(any)
steps = st.one_of(
    st.builds(Step, st.just("append"), several.map(tuple)),
    st.builds(Step, st.just("delete"), condition=st.one_of(conditions(), conditions(), st.none())),
    st.builds(
        Step,
        st.just("update"),
        condition=st.one_of(conditions(), conditions(), st.none()),
        change=st.sampled_from(CHANGES),
    ),
    st.builds(Step, st.just("merge"), several.map(tuple), flags=flags),
    st.builds(Step, st.just("merge"), several.map(tuple), flags=flags),
    st.builds(Step, st.sampled_from(["overwrite", "optimize", "zorder", "restore"]), several.map(tuple)),
    st.builds(Step, st.sampled_from(VACUUMS)),
)
switches = st.fixed_dictionaries(
    {
        "delta.enableDeletionVectors": st.sampled_from(["true", "false"]),
        "delta.columnMapping.mode": st.sampled_from(["none", "name", "id"]),
        "delta.enableRowTracking": st.sampled_from(["true", "false"]),
        "delta.enableChangeDataFeed": st.sampled_from(["true", "true", "false"]),
    }
)


def frame(spark: SparkSession, rows: tuple[Row, ...]) -> DataFrame:
    return spark.createDataFrame(list(rows), SCHEMA).repartition(2, "id")


@settings(max_examples=60 if DEEP else 3)
@given(st.data())
def test_random_sequences_end_as_the_same_on_plain_data(spark: SparkSession, data: st.DataObject) -> None:
    properties = data.draw(switches)
    partitions = data.draw(st.sampled_from([None, ["p"]]))
    first = data.draw(st.lists(row, min_size=4, max_size=12).map(tuple))
    sequence = data.draw(st.lists(steps, min_size=3, max_size=8 if DEEP else 6))
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/t"
        write(frame(spark, first), path, properties, partitions)
        table = Counter(first)
        versions = [table]
        whole = 0
        for step in sequence:
            if step.kind == "restore" and (len(versions) < 2 or (len(versions) - 1) // 2 < whole):
                continue
            step.on_table(spark, path)
            table = step.on_rows(table, versions)
            # What changes nothing may be no commit at all.
            versions += [table] * (tidegate.open(path).version + 1 - len(versions))
            if step.kind == VACUUMS[1]:
                whole = len(versions) - 1
        for version, expected in enumerate(versions):
            found = rows_at(spark, path, version, may_be_gone=version < whole)
            assert found in (None, expected), f"version {version} after {sequence}"
        assert versions[-1] == table
        if properties["delta.enableChangeDataFeed"] == "true":
            assert replayed(spark, path, versions[whole], whole) == versions[whole:]
        sound(path)


def rows_at(spark: SparkSession, path: str, version: int, *, may_be_gone: bool) -> Counter[Row] | None:
    """The rows at a version; None where VACUUM took some of its files and the reader says so."""
    try:
        found = spark.read.format("delta").option("versionAsOf", version).load(path).collect()
    except (TidegateError, PySparkException):
        if not may_be_gone:
            raise
        return None
    return Counter(tuple(r) for r in found)


def replayed(spark: SparkSession, path: str, table: Counter[Row], version: int) -> list[Counter[Row]]:
    """The table at every version from one on, by its rows then and the change feed alone."""
    out = [Counter(table)]
    latest = tidegate.open(path).version
    if version == latest:
        return out
    read: Any = spark.read.format("delta").option("readChangeFeed", "true")
    by_version: dict[int, list[Any]] = {}
    for r in read.option("startingVersion", version + 1).load(path).collect():
        by_version.setdefault(r["_commit_version"], []).append(r)
    for later in range(version + 1, latest + 1):
        changed = Counter(out[-1])
        for r in by_version.get(later, ()):
            gone = r["_change_type"] in ("delete", "update_preimage")
            changed[(r["id"], r["p"], r["v"])] += -1 if gone else 1
        assert min(changed.values(), default=0) >= 0
        out.append(+changed)
    return out
