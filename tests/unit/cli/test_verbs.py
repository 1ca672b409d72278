"""Every verb on a sound table, for people and as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import tidegate
from support.tables import RawTable, domain, features
from tidegate.log import names

Run = Callable[..., Any]
VERBS = ("describe", "history", "protocol", "files", "log", "checkpoint", "verify")


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_succeeds_in_words_and_in_json(run: Run, path: Path, verb: str) -> None:
    said = run(verb, path)
    assert (said.code, said.err) == (0, "")
    assert said.out.strip()
    told = run(verb, path, "--json")
    assert (told.code, told.err) == (0, "")
    assert isinstance(told.json, dict)
    assert told.json["table"] == str(path)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_takes_a_version(run: Run, path: Path, verb: str) -> None:
    assert run(verb, path, "--version", "2", "--json").json["version"] == 2


@pytest.mark.parametrize("verb", VERBS)
def test_words_have_no_colour_outside_a_terminal(run: Run, path: Path, verb: str) -> None:
    assert "\x1b" not in run(verb, path).out


# ---------------------------------------------------------------------------- describe


def test_describe_tells_what_the_table_is(run: Run, path: Path) -> None:
    facts = run("describe", path, "--json").json
    assert (facts["version"], facts["name"], facts["description"]) == (5, "events", "what happened")
    assert (facts["numFiles"], facts["partitionColumns"]) == (3, ["day"])
    assert facts["protocol"] == {"minReaderVersion": 1, "minWriterVersion": 4}
    assert facts["properties"] == {"delta.appendOnly": "false"}
    assert [f["name"] for f in facts["schema"]["fields"]] == ["id", "name", "day"]
    assert facts["transactions"] == {"loader": 4}
    assert facts["sizeInBytes"] == 3 * next(path.glob("day=*/f2.parquet")).stat().st_size
    assert datetime.fromisoformat(facts["timestamp"].replace("Z", "+00:00")).tzinfo is not None
    assert facts["createdTime"] == "2026-01-01T00:00:00Z"
    said = run("describe", path).out
    for words in ("partition column", "reader 1, writer 4", "no checkpoint, 6 commits", "delta.appendOnly"):
        assert words in said


def test_describe_travels_in_time(run: Run, table: RawTable, path: Path) -> None:
    for version in range(6):
        os.utime(path / "_delta_log" / names.commit(version), (1_000_000 + version, 1_000_000 + version))
    assert run("describe", path, "--version", "1", "--json").json["numFiles"] == 1
    at = run("describe", path, "--timestamp", "1970-01-12T13:46:43Z", "--json").json
    assert (at["version"], at["timestamp"]) == (3, "1970-01-12T13:46:43Z")


def test_brackets_and_control_characters_in_a_table_are_shown_as_they_are(run: Run, tmp_path: Path) -> None:
    made = RawTable.on_disk(tmp_path / "odd").create(configuration={"[red]x[/red]": "a\x1b[31mb\nc"})
    said = run("describe", made.store.url).out
    assert "[red]x[/red]" in said
    assert r"a\x1b[31mb\nc" in said


# ---------------------------------------------------------------------------- history


def test_history_is_newest_first_and_limited_on_request(run: Run, path: Path) -> None:
    entries = run("history", path, "--json").json["history"]
    assert [e["version"] for e in entries] == [5, 4, 3, 2, 1, 0]
    assert entries[1]["operationParameters"] == {"mode": "Append"}
    assert entries[0]["timestamp"].endswith("Z")
    assert [e["version"] for e in run("history", path, "--limit", "2", "--json").json["history"]] == [5, 4]
    assert [e["version"] for e in run("history", path, "--version", "1", "--json").json["history"]] == [1, 0]
    said = run("history", path).out
    for words in ("DELETE", "mode=Append", "numFiles=1", "tests", "6 commits"):
        assert words in said


def test_history_takes_a_commit_info_of_any_shape(run: Run, table: RawTable, path: Path) -> None:
    table.commit({"commitInfo": {"operationParameters": [1], "operationMetrics": "many", "operation": 5}})
    assert run("history", path).code == 0


# ---------------------------------------------------------------------------- protocol


def test_protocol_says_what_each_feature_means_here(run: Run, tmp_path: Path) -> None:
    made = RawTable.on_disk(tmp_path / "t").create(
        protocol=features("deletionVectors", writers=["collations-preview", "domainMetadata"])
    )
    facts = run("protocol", made.store.url, "--json").json
    assert (facts["canRead"], facts["canWrite"]) == (True, False)
    assert "collations-preview" in facts["writeRefusal"]
    by_name = {f["name"]: f for f in facts["features"]}
    assert by_name["deletionVectors"]["binds"] == "readers and writers"
    assert (by_name["deletionVectors"]["readable"], by_name["deletionVectors"]["writable"]) == (True, True)
    assert by_name["collations-preview"]["writable"] is False
    said = run("protocol", made.store.url).out
    for words in ("bitmap", "NOT supported", "this client writes it  no: [UNSUPPORTED_WRITER_FEATURE]"):
        assert words in said


def test_protocol_shows_what_versions_imply(run: Run, path: Path) -> None:
    facts = run("protocol", path, "--json").json
    assert {f["name"] for f in facts["features"]} >= {"appendOnly", "invariants", "changeDataFeed"}
    assert not any(f["listed"] for f in facts["features"])


def test_protocol_opens_a_table_that_nobody_here_may_read(run: Run, tmp_path: Path) -> None:
    made = RawTable.on_disk(tmp_path / "t").create(protocol=features("timeMachine"))
    told = run("protocol", made.store.url, "--json")
    assert told.code == 0
    assert (told.json["canRead"], told.json["canWrite"]) == (False, False)
    assert told.json["features"][0]["known"] is False
    said = run("protocol", made.store.url).out
    assert "timeMachine" in said
    assert "for the same reason" in said


def test_every_feature_this_client_knows_has_a_meaning() -> None:
    from tidegate.cli.protocol import meaning
    from tidegate.protocol.delta import DELTA

    assert [row.name for row in DELTA if not meaning(row.name, row)] == []


# ---------------------------------------------------------------------------- files


def test_files_are_listed_with_their_rows(run: Run, path: Path) -> None:
    facts = run("files", path, "--json").json
    assert facts["count"] == 3
    assert sorted(f["path"] for f in facts["files"]) == [f"day=2026-01-0{n}/f{n}.parquet" for n in (2, 3, 4)]
    assert facts["files"][0]["partitionValues"].keys() == {"day"}
    assert json.loads(facts["files"][0]["stats"])["numRecords"] == 10
    said = run("files", path).out
    assert "day=2026-01-03/f3.parquet" in said
    assert "3 files" in said


def test_files_are_skipped_by_a_predicate(run: Run, path: Path) -> None:
    told = run("files", path, "--where", "day = DATE '2026-01-03'", "--json").json
    assert [f["path"] for f in told["files"]] == ["day=2026-01-03/f3.parquet"]
    told = run("files", path, "--where", "id < 25", "--columns", "path", "--json").json
    assert told["files"] == [{"path": "day=2026-01-02/f2.parquet"}]
    assert run("files", path, "--where", "id > 1000").out.endswith("0 files, 0 B\n")


def test_columns_and_limit_narrow_what_is_shown(run: Run, path: Path) -> None:
    said = run("files", path, "--columns", "path,modificationTime", "--limit", "1").out
    assert "modificationTime" in said
    assert "size" not in said
    assert "the first 1 are shown" in said
    told = run("files", path, "--limit", "2", "--json").json
    assert (told["count"], len(told["files"])) == (3, 2)
    assert run("files", path, "--limit", "0", "--json").json["files"] == []
    assert len(run("files", path, "--limit", str(10**20), "--json").json["files"]) == 3


# ---------------------------------------------------------------------------- log


def test_log_lists_every_file_with_its_actions(run: Run, table: RawTable, path: Path) -> None:
    table.checkpoint(3, "v2-json")
    table.checksum(5)
    table.compact(1, 2)
    table.hint(3)
    facts = run("log", path, "--json").json
    by_name = {f["name"]: f for f in facts["files"]}
    assert by_name[names.commit(1)]["holds"] == {"operation": "WRITE", "add": 1, "txn": 1}
    assert by_name[names.checksum(5)]["holds"]["numFiles"] == 3
    assert by_name[names.compaction(1, 2)]["holds"] == {"add": 2, "txn": 1}
    assert by_name["_last_checkpoint"]["holds"]["checkpoint"] == 3
    checkpoint = next(f for f in facts["files"] if f["kind"] == "V2 checkpoint")
    assert checkpoint["holds"] == {"protocol": 1, "metaData": 1, "add": 3, "txn": 1, "sidecar": 2}
    assert sum(f["kind"] == "sidecar" for f in facts["files"]) == 2
    used = {f["name"] for f in facts["files"] if f["used"]}
    assert {names.commit(4), names.commit(5), names.checksum(5), checkpoint["name"]} <= used
    assert names.commit(2) not in used


def test_log_of_a_multipart_checkpoint_counts_it_once(run: Run, table: RawTable, path: Path) -> None:
    table.checkpoint(4, "multipart")
    holds = [f["holds"] for f in run("log", path, "--json").json["files"] if "multipart" in f["kind"]]
    assert holds[0]["add"] == 4
    assert holds[1].keys() == {"partOf"}


def test_log_is_limited_to_the_newest_versions(run: Run, path: Path) -> None:
    told = run("log", path, "--limit", "2", "--json").json
    assert [f["version"] for f in told["files"]] == [4, 5]


def test_log_shows_a_broken_file_and_exits_with_one(run: Run, table: RawTable, path: Path) -> None:
    table.put(names.commit(2), b'{"add":')
    said = run("log", path)
    assert said.code == 1
    assert "CANNOT BE READ" in said.out
    told = run("log", path, "--json")
    assert told.code == 1
    broken = [f for f in told.json["files"] if "error" in f]
    assert [(f["name"], f["error"]["code"]) for f in broken] == [(names.commit(2), "COMMIT_CORRUPT")]


# ---------------------------------------------------------------------------- checkpoint


def test_checkpoint_writes_one_and_the_checksum_that_is_missing(run: Run, path: Path) -> None:
    told = run("checkpoint", path, "--json").json
    assert (told["version"], told["kind"], told["numOfAddFiles"], told["replaced"]) == (
        5,
        "classic",
        3,
        False,
    )
    for name in (*told["files"], names.checksum(5), "_last_checkpoint"):
        assert (path / "_delta_log" / name).is_file()
    assert tidegate.open(path).segment.checkpoint is not None
    assert run("verify", path).code == 0
    assert "rewritten" in run("checkpoint", path).out


def test_checkpoint_takes_the_form_the_table_asks_for(run: Run, tmp_path: Path) -> None:
    made = RawTable.on_disk(tmp_path / "t").create(
        domain("a"),
        protocol=features("v2Checkpoint", writers=["domainMetadata"]),
        configuration={"delta.checkpointPolicy": "v2"},
    )
    told = run("checkpoint", made.store.url, "--json").json
    assert told["kind"] == "V2"
    assert run("verify", made.store.url).code == 0


def test_a_checkpoint_of_an_older_version_leaves_the_hint_on_the_newer_one(run: Run, path: Path) -> None:
    run("checkpoint", path)
    assert run("checkpoint", path, "--version", "2", "--json").json["version"] == 2
    assert json.loads((path / "_delta_log" / "_last_checkpoint").read_text())["version"] == 5
    assert run("verify", path, "--json").json["findings"] == []


# ---------------------------------------------------------------------------- verify


def test_verify_says_what_it_compared(run: Run, table: RawTable, path: Path) -> None:
    table.checkpoint(3)
    for version in range(6):
        table.checksum(version)
    told = run("verify", path, "--deep", "--json").json
    assert (told["ok"], told["errors"], told["warnings"], told["findings"]) == (True, 0, 0, [])
    checked = told["checked"]
    assert (checked["commits"], checked["checkpoints"], checked["checksums"]) == (6, 1, 6)
    assert (checked["dataFiles"], checked["footers"]) == (3, 3)
    said = run("verify", path).out
    assert "6 compared with replay" in said
    assert said.endswith("The table is sound.\n")


def test_verify_without_data_does_not_miss_any(run: Run, path: Path) -> None:
    next(path.glob("day=*/f3.parquet")).unlink()
    assert run("verify", path).code == 1
    assert run("verify", path, "--no-data").code == 0
