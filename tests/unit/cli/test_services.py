"""The verbs that change tables, as people and programs call them. No Spark but for OPTIMIZE itself."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegate
from tidegate.log.table_log import TableLog

Run = Callable[..., Any]


def _old(path: Path) -> Path:
    """A file of two weeks ago."""
    path.write_bytes(b"nobody's")
    then = time.time() - 14 * 86_400
    os.utime(path, (then, then))
    return path


def test_detail_is_the_row_of_describe_detail(run: Run, path: Path) -> None:
    facts = run("detail", path, "--json").json
    assert (facts["format"], facts["numFiles"], facts["partitionColumns"]) == ("delta", 3, ["day"])
    assert (facts["minReaderVersion"], facts["minWriterVersion"]) == (1, 4)
    assert "partitionColumns" in run("detail", path).out


def test_vacuum_tells_first_and_deletes_then(run: Run, path: Path) -> None:
    lost = _old(path / "lost.parquet")
    told = run("vacuum", path, "--dry-run", "--json").json
    assert (told["dryRun"], told["numFiles"], told["files"]) == (True, 1, ["lost.parquet"])
    assert "would be deleted" in run("vacuum", path, "--dry-run").out
    assert lost.exists()
    done = run("vacuum", path, "--json").json
    assert (done["numFiles"], done["versions"]) == (1, [6, 7])
    assert not lost.exists()
    assert "0 files" in run("vacuum", path, "--lite").out


def test_vacuum_refuses_a_short_retention_unless_told_otherwise(run: Run, path: Path) -> None:
    refused = run("vacuum", path, "--retain", "1")
    assert refused.code == 2
    assert "[RETENTION_TOO_SHORT]" in refused.err
    assert run("vacuum", path, "--retain", "0", "--no-check").code == 0


@pytest.mark.parametrize("hours", ["inf", "1e300"])
def test_vacuum_takes_a_retention_beyond_all_times(run: Run, path: Path, hours: str) -> None:
    lost = _old(path / "lost.parquet")
    assert run("vacuum", path, "--retain", hours, "--json").json["numFiles"] == 0
    assert lost.exists()
    assert "[RETENTION_TOO_SHORT]" in run("vacuum", path, "--retain", "nan").err


def test_restore_makes_the_table_what_it_was(run: Run, path: Path) -> None:
    assert run("restore", path, "--version", "4", "--dry-run", "--json").json["num_restored_files"] == 1
    assert tidegate.open(path).version == 5
    done = run("restore", path, "--version", "4", "--json").json
    assert (done["version"], done["num_of_files_after_restore"]) == (6, 4)
    assert tidegate.open(path).num_files == 4
    assert "is restored to version 2" in run("restore", path, "--version", "2").out
    assert "nothing to restore" in run("restore", path, "--version", "7").out
    assert run("restore", path, "--version", "7", "--json").json["version"] == 7
    assert run("restore", path).code == 2
    assert "[VERSION_NOT_FOUND]" in run("restore", path, "--version", "99").err


def test_clone_refers_to_the_files_of_the_source(run: Run, path: Path, tmp_path: Path) -> None:
    target = tmp_path / "clone"
    assert "would be a shallow clone" in run("clone", path, target, "--dry-run").out
    assert not target.exists()
    done = run("clone", path, target, "--version", "4", "--json").json
    assert done["source_num_of_files"] == 4
    assert tidegate.open(target).num_files == 4
    assert "[TABLE_EXISTS]" in run("clone", path, target).err


def test_convert_makes_a_table_of_a_folder(run: Run, tmp_path: Path) -> None:
    for day in ("2026-01-01", "2026-01-02"):
        (tmp_path / "files" / f"day={day}").mkdir(parents=True)
        pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "files" / f"day={day}" / "a.parquet")
    told = run("convert", tmp_path / "files", "--dry-run", "--json").json
    assert (told["numConvertedFiles"], told["partitionColumns"]) == (2, ["day"])
    assert not (tmp_path / "files" / "_delta_log").exists()
    assert run("convert", tmp_path / "files", "--partition", "day:date").code == 0
    snapshot = tidegate.open(tmp_path / "files")
    assert [str(f.type) for f in snapshot.schema.fields] == ["long", "date"]
    assert "a table already" in run("convert", tmp_path / "files").out
    assert run("convert", tmp_path / "files", "--partition", "day").code == 2


def test_a_dry_run_of_optimize_needs_no_spark(run: Run, path: Path) -> None:
    told = run("optimize", path, "--dry-run", "--json").json
    assert (told["numFilesRemoved"], told["numFilesAdded"]) == (0, 0)
    assert "would become" in run("optimize", path, "--dry-run").out


def test_a_dry_run_of_optimize_foretells_no_more_than_a_compaction(run: Run, path: Path) -> None:
    for given in (["--zorder", "id"], ["--full"]):
        said = run("optimize", path, "--dry-run", *given)
        assert (said.code, "tells of compaction alone" in said.err) == (2, True)
    said = run("optimize", path, "--dry-run", "--where", "id > 5")
    assert (said.code, "only partition columns" in said.err) == (2, True)


def test_optimize_works_on_the_log_that_was_opened_with_the_storage_options(
    run: Run, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[TableLog] = []
    handed: list[TableLog] = []

    def delta_log(table: str, pairs: list[str]) -> TableLog:
        assert pairs == ["region=eu-west-1"]
        opened.append(TableLog.at(table))
        return opened[0]

    def optimizing(log: TableLog, *_: object) -> dict[str, int]:
        handed.append(log)
        return {"numFilesRemoved": 2, "numFilesAdded": 1}

    monkeypatch.setattr("tidegate.cli.optimize.delta_log", delta_log)
    monkeypatch.setattr("tidegate.cli.optimize._run", optimizing)
    assert run("optimize", path, "--storage-option", "region=eu-west-1").code == 0
    assert handed[0] is opened[0]


@pytest.mark.parametrize("verb", ["detail", "vacuum", "optimize", "restore", "clone"])
def test_a_verb_without_its_table_says_so(run: Run, tmp_path: Path, verb: str) -> None:
    more = {"restore": ["--version", "1"], "clone": [tmp_path / "x"], "optimize": ["--dry-run"]}.get(verb, [])
    said = run(verb, tmp_path / "nothing", *more)
    assert said.code == 2
    assert "[NOT_A_TABLE]" in said.err


def test_no_verb_loads_spark_before_it_must(
    spawn_many: Callable[..., list[Any]], path: Path, tmp_path: Path
) -> None:
    commands = {
        "detail": [path],
        "vacuum": [path],
        "restore": [path, "--version", "4"],
        "clone": [path, tmp_path / "x"],
        "convert": [path, "--dry-run"],
        "optimize": [path, "--dry-run"],
    }
    done = spawn_many(*([v, *more] for v, more in commands.items()), PYTHONPROFILEIMPORTTIME="1")
    assert [said.code for said in done] == [0] * len(commands)
    assert [v for v, said in zip(commands, done, strict=True) if "pyspark" in said.err] == []
