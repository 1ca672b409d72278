"""Options of a write: replaced partitions, merging and purging after it, and what is refused by name."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from support.splits import append_index
from tidegate.errors import OptionError, PredicateError
from tidegate.index import after_write
from tidegate.index.local import write_table
from tidegate.index.log import IndexLog
from tidegate.index.settings import Settings
from tidegate.index.tables import Searchable
from tidegate.index.write_options import NEEDLESS

OFF = {"purge.retentionCheckEnabled": "false"}


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": ids, "day": [f"d{i // 10}" for i in ids], "s": [f"word{i}" for i in ids]})


def ids(path: Path, version: int | None = None) -> list[int]:
    found = Searchable.open(path, version=version).search(None, ["id"]).table()
    return sorted(found.column("id").to_pylist())


def splits(path: Path) -> int:
    return len(list(path.rglob("*.split")))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    append_index(tmp_path / "t", rows(1, 2, 11, 12, 21), None, ("day",))
    return tmp_path / "t"


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table for writes that are refused: nothing ever happens to it."""
    path = tmp_path_factory.mktemp("untouched") / "t"
    append_index(path, rows(1, 2, 11, 12, 21), None, ("day",))
    return path


# ---------------------------------------------------------------------------- replaceWhere


def test_only_the_partitions_that_are_named_are_replaced(table: Path) -> None:
    done = write_table(rows(13, 22), table, mode="overwrite", options={"replaceWhere": "day IN ('d1', 'd2')"})
    assert (done.version, ids(table), ids(table, 0)) == (1, [1, 2, 13, 22], [1, 2, 11, 12, 21])
    write_table(rows(), table, mode="overwrite", options={"spark.indextables.replaceWhere": "day = 'd0'"})
    assert ids(table) == [13, 22]


def test_rows_of_other_partitions_are_not_let_in(table: Path) -> None:
    with pytest.raises(OptionError, match=r"not of the partitions that are replaced .*d3"):
        write_table(rows(13, 31), table, mode="overwrite", options={"replaceWhere": "day = 'd1'"})
    assert ids(table) == [1, 2, 11, 12, 21]


@pytest.mark.parametrize(
    ("where", "mode"), [("id > 3", "overwrite"), ("day = 'd1'", "append"), ("day == = 1", "overwrite")]
)
def test_what_cannot_be_replaced_is_refused_before_anything_is_written(
    untouched: Path, where: str, mode: str
) -> None:
    with pytest.raises((OptionError, PredicateError)):
        write_table(rows(13), untouched, mode=mode, options={"replaceWhere": where})
    assert (splits(untouched), IndexLog.at(untouched).snapshot().version) == (3, 0)


# ---------------------------------------------------------------------------- after the write


def test_small_splits_are_merged_after_a_write_that_asks_for_it(table: Path) -> None:
    options = {"mergeOnWrite.enabled": "true", "mergeOnWrite.targetSize": "10M"}
    write_table(rows(3, 13), table, options=options)
    found = IndexLog.at(table).snapshot()
    assert (found.version, found.num_files, ids(table)) == (2, 3, [1, 2, 3, 11, 12, 13, 21])
    write_table(rows(4), table, options={**options, "mergeOnWrite.minBatchesToTrigger": "2"})
    assert IndexLog.at(table).snapshot().num_files == 4


def test_what_nobody_needs_is_purged_after_a_merge_or_after_some_writes(table: Path) -> None:
    purging = {**OFF, "purgeOnWrite.enabled": "true", "purgeOnWrite.splitRetentionHours": "0"}
    write_table(rows(3), table, options={**purging, "purgeOnWrite.triggerAfterWrites": "2"})
    (table / "orphan.split").write_bytes(b"x")
    write_table(rows(4), table, options=purging)
    assert (table / "orphan.split").exists()
    write_table(rows(5), table, options={**purging, "purgeOnWrite.triggerAfterWrites": "2"})
    assert not (table / "orphan.split").exists()
    (table / "orphan.split").write_bytes(b"x")
    merging = {"mergeOnWrite.enabled": "true", "mergeOnWrite.targetSize": "10M"}
    write_table(rows(6), table, options={**purging, **merging})
    assert not (table / "orphan.split").exists()
    assert ids(table) == [1, 2, 3, 4, 5, 6, 11, 12, 21]


def test_a_write_stands_if_what_comes_after_it_fails(
    table: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise OptionError("no luck")

    monkeypatch.setattr(after_write, "merge_splits", failing)
    write_table(rows(3), table, options={"mergeOnWrite.enabled": "true"})
    assert ids(table) == [1, 2, 3, 11, 12, 21]
    assert "the table is written, and merging its splits failed" in caplog.text
    # A retention below a day is refused by the purge itself.
    every = {"purgeOnWrite.enabled": "true", "purgeOnWrite.triggerAfterWrites": "1"}
    write_table(rows(4), table, options={**every, "purgeOnWrite.splitRetentionHours": "1"})
    assert "the table is written, and purging it failed" in caplog.text


@pytest.mark.parametrize(
    ("options", "columns"),
    [
        ({}, {"id", "s"}),
        ({"dataSkippingNumIndexedCols": "1"}, {"id"}),
        ({"dataSkippingNumIndexedCols": "0"}, set()),
        ({"dataSkippingNumIndexedCols": "-1"}, {"id", "s"}),
        ({"dataSkippingNumIndexedCols": "0", "dataSkippingStatsColumns": "S"}, {"s"}),
    ],
)
def test_the_columns_that_were_asked_for_have_statistics(
    tmp_path: Path, options: dict[str, str], columns: set[str]
) -> None:
    done = write_table(rows(1), tmp_path / "t", partition_by=("day",), options=options)
    stats = json.loads(done.files().column("stats")[0].as_py())
    assert set(stats["minValues"]) == set(stats["nullCount"]) == columns


# ---------------------------------------------------------------------------- refused by name


@pytest.mark.parametrize(
    ("option", "value", "match"),
    [
        ("mergeSchema", "true", "keeps the columns"),
        ("spark.indextables.mergeSchema", "true", "keeps the columns"),
        ("overwriteSchema", "true", "keeps the columns"),
        ("partitionOverwriteMode", "dynamic", "replaceWhere"),
        ("mergeOnWrite.async.enabled", "true", "before save returns"),
        ("replaceWere", "day = 'd1'", "Did you mean replaceWhere"),
        ("mergeOnWrite.enable", "true", "Did you mean mergeOnWrite.enabled"),
        ("spark.indextables.purgeOnWrite.retention", "1", "Did you mean purgeOnWrite"),
        ("indexing.typmap.s", "text", "After indexing"),
        ("indexng.typemap.s", "text", "indexing"),
        ("checkpoint.intervall", "3", "Did you mean checkpoint.interval"),
        ("mergeOnWrite.enabled", "maybe", "true or false"),
        ("mergeOnWrite.targetSize", "large", "a size such as"),
        ("purgeOnWrite.triggerAfterWrites", "-1", "a whole number"),
        ("dataSkippingNumIndexedCols", "many", "a whole number"),
        ("dataSkippingStatsColumns", "id,nobody,day", "names nobody, day, which no split holds"),
    ],
)
def test_options_that_are_not_there_or_make_no_sense_are_refused(
    untouched: Path, option: str, value: str, match: str
) -> None:
    with pytest.raises(OptionError, match=match):
        write_table(rows(3), untouched, options={option: value})
    assert splits(untouched) == 3


def test_options_of_others_and_what_is_switched_off_pass(table: Path) -> None:
    others = dict.fromkeys(NEEDLESS, "1")
    others |= {"mergeSchema": "false", "compression": "zstd", "partitionOverwriteMode": "STATIC"}
    write_table(rows(3), table, options=others)
    assert 3 in ids(table)


def test_a_call_s_option_wins_over_the_session_and_the_session_over_the_default() -> None:
    conf = {"spark.indextables.search.driverSplits": "3", "SPARK.INDEXTABLES.mergeOnWrite.enabled": "true"}
    found = Settings({"search.driversplits": "7", "spark.other": "1"}, conf)
    assert found.number("search.driverSplits", 32) == 7
    assert found.flag("mergeOnWrite.enabled", False) is True
    assert found.number("checkpoint.interval", 10) == 10
    assert Settings(None, {"search.driverSplits": "3"}).get("search.driverSplits") is None
