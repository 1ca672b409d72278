"""The verbs of index tables on the command line, and the companion index without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.splits import write_index
from tidegate.index.log import IndexLog
from tidegate.index.tables import Searchable

typer_testing = pytest.importorskip("typer.testing")
deltalake = pytest.importorskip("deltalake")


def run(*arguments: Any) -> tuple[int, str]:
    from tidegate.cli.app import app

    done = typer_testing.CliRunner().invoke(app, [str(a) for a in arguments], prog_name="tidegate")
    return done.exit_code, done.stdout


def rows(start: int, count: int) -> pa.Table:
    ids = list(range(start, start + count))
    return pa.table(
        {"id": ids, "day": [i % 2 for i in ids], "message": [f"request {i} was [reset]" for i in ids]}
    )


def test_search_shows_counts_and_speaks_json(tmp_path: Path) -> None:
    write_index(tmp_path / "t", [rows(0, 30)], {"indexing.typemap.message": "text"})
    code, out = run("search", tmp_path / "t", "reset")
    assert code == 0
    assert "request 7 was [reset]" in out
    assert "30 rows; the first 20 are shown" in out
    assert run("search", tmp_path / "t", "reset AND id:<5", "--count") == (0, "5\n")
    code, out = run("search", tmp_path / "t", '"request 7"', "--columns", "id,message", "--json")
    found = json.loads(out)
    assert (code, found["count"], found["rows"]) == (0, 1, [{"id": 7, "message": "request 7 was [reset]"}])
    assert run("search", tmp_path / "t", "nothing", "--best")[0] == 1
    code, out = run("search", tmp_path / "t", "nobody:1", "--json")
    assert (code, json.loads(out)["error"]["code"]) == (2, "QUERY_INVALID")


def test_merge_splits_and_purge_say_what_they_do(tmp_path: Path) -> None:
    write_index(tmp_path / "t", [rows(0, 5), rows(5, 5), rows(10, 5)], {"indexing.typemap.message": "text"})
    assert run("merge-splits", tmp_path / "t", "--dry-run") == (0, "3 splits would become 1.\n")
    assert run("merge-splits", tmp_path / "t") == (0, "3 splits became 1.\n")
    assert run("merge-splits", tmp_path / "t") == (0, "There is nothing to merge.\n")
    assert Searchable.open(tmp_path / "t").count("reset") == 15
    orphan = tmp_path / "t" / "part-lost.split"
    orphan.write_bytes(b"of a task that failed")
    code, out = run("purge", tmp_path / "t", "--dry-run", "--json")
    assert (code, json.loads(out)["splits"]) == (0, [])
    assert orphan.exists()


def test_a_companion_is_built_refreshed_and_exact_in_between(tmp_path: Path) -> None:
    source, index = str(tmp_path / "delta"), tmp_path / "delta" / "_search_index"
    deltalake.write_deltalake(source, rows(0, 10), partition_by=["day"])
    code, out = run("index", source, "--text", "message", "--columns", "message,id")
    assert code == 0
    assert "is built" in " ".join(out.split())
    assert Searchable.open(index).count("reset") == 10
    deltalake.write_deltalake(source, rows(10, 5), mode="append")
    stale = Searchable.open(index)
    assert (stale.count("reset"), stale.count(), stale.count("id:12 AND day:0")) == (15, 15, 1)
    assert any(t.split is None for t in stale.targets(stale.node("reset")))
    before = IndexLog.at(index).snapshot().version
    code, out = run("index", source, "--json")
    assert (code, json.loads(out)["filesIndexed"], json.loads(out)["version"]) == (0, 2, before + 1)
    fresh = Searchable.open(index)
    assert all(t.split is not None for t in fresh.targets(fresh.node("reset")))
    assert fresh.search("id:12").table().to_pylist() == [
        {"id": 12, "day": 0, "message": "request 12 was [reset]"}
    ]
    deltalake.DeltaTable(source).delete("id < 8")
    gone = Searchable.open(index)
    assert (gone.count("reset"), gone.count("id:<10"), gone.count()) == (7, 2, 7)
    assert Searchable.open(index, version=0).count("reset") == 10
    deltalake.DeltaTable(source).optimize.compact()
    assert Searchable.open(index).count("reset") == 7
    assert run("index", source)[0] == 0
    assert (Searchable.open(index).count("reset"), Searchable.open(index, version=1).count("id:<8")) == (7, 8)
    assert "was up to date" in " ".join(run("index", source)[1].split())


def test_partitions_are_dropped_history_is_cut_and_a_log_is_repaired(tmp_path: Path) -> None:
    table = tmp_path / "t %x"
    write_index(table, [rows(0, 4), rows(4, 4)], {"indexing.typemap.message": "text"}, ("day",))
    assert run("drop-partitions", table, "day = 7") == (
        0,
        "No partition fulfils the condition; nothing was done.\n",
    )
    assert run("drop-partitions", table, "day = 1") == (0, "Version 2 has 2 splits; there were 4.\n")
    code, out = run("drop-partitions", table, "id = 1", "--json")
    assert (code, "error" in json.loads(out)) == (2, True)
    assert Searchable.open(table).count("reset") == 4

    code, out = run("truncate-history", table, "--dry-run", "--json")
    assert (code, json.loads(out)["versionsDeleted"], json.loads(out)["dryRun"]) == (0, 2, True)
    assert run("truncate-history", table) == (
        0,
        "The log begins at version 2, without 2 commits and 0 checkpoints.\n",
    )
    assert Searchable.open(table).count("reset") == 4

    assert run("repair", table, tmp_path / "go od")[0] == 0
    again = Searchable.open(tmp_path / "go od").search("reset", ["id"]).table()
    assert again.equals(Searchable.open(table).search("reset", ["id"]).table())
    next(table.rglob("day=0/*.split")).unlink()
    code, out = run("repair", table, tmp_path / "new", "--json")
    found = json.loads(out)
    assert (code, found["splits"], found["validSplits"], len(found["missing"])) == (1, 2, 1, 1)
    assert IndexLog.at(tmp_path / "new").snapshot().num_files == 1
    assert run("repair", table, tmp_path / "new")[0] == 2
