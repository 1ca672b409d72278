"""The log of every table in the corpus says what its expected.json says, and what may not open does not.

The corpus' own tool runs first (``state``, ``error`` and ``write``, phase ``snapshot``); then everything else
that ``expected.json`` knows of the log is compared: schema, partitioning, configuration, features, every
file with size, partition values and deletion vector, transactions, domains and in-commit timestamps.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq
import pytest

import tidegate
from tidegate.errors import TidegateError, VersionNotFoundError

pytestmark = pytest.mark.corpus

HERE = Path(__file__).resolve()


def _folder() -> Path:
    """Where the corpus would be: what the fixture ``corpus`` finds, known before any test runs."""
    named = os.environ.get("TIDEGATE_CORPUS")
    return (Path(named) if named else HERE.parents[3] / "shared" / "corpus") / "open"


def _cases() -> dict[str, dict[str, Any]]:
    found = sorted(_folder().glob("*/expected/expected.json"))
    return {p.parts[-3]: json.loads(p.read_text()) for p in found}


CASES = _cases()
# Refused when the log is read, not only when data is.
FOR_THE_LOG = [n for n, e in CASES.items() if e["kind"] != "negative" or e["expect"]["phase"] == "snapshot"]
READABLE = [n for n, e in CASES.items() if e["kind"] != "negative"]


# Its .crc was made up for a test of kernel-rs: ten files and two applications that no commit ever named.
INVENTED_CHECKSUM = {"krs__crc-full"}
# Made up as well: the metadata in the checkpoint is not that of the commits before it.
OTHER_METADATA_IN_CHECKPOINT = {"krs__parquet_row_group_skipping", "krs__parsed-stats"}


def _having(*keys: str) -> list[str]:
    return [n for n in READABLE if all(CASES[n].get(k) is not None for k in keys)]


def _module(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def check(corpus: Path) -> ModuleType:
    before = list(sys.path)
    try:
        return _module("corpus_check", corpus / "tools" / "check.py")
    finally:
        sys.path[:] = before


@pytest.fixture(scope="module")
def adapter() -> Any:
    return _module("corpus_log_adapter", HERE.with_name("log_adapter.py")).LogAdapter()


@pytest.fixture
def table(corpus: Path, case: str) -> Path:
    return corpus / "open" / case / "delta"


def test_the_corpus_is_whole(corpus: Path) -> None:
    assert len(CASES) == len((corpus / "MANIFEST.csv").read_text().splitlines()) - 1


@pytest.mark.parametrize("case", FOR_THE_LOG)
def test_the_corpus_tool_finds_no_fault(check: ModuleType, adapter: Any, table: Path, case: str) -> None:
    expected = CASES[case]
    results = list(check.checks(adapter, str(table), expected, {"state", "error", "write"}))
    assert results
    assert [r for r in results if r[1] != "pass"] == []


# ---------------------------------------------------------------------------- more than the tool compares


@pytest.mark.parametrize("case", _having("schema"))
def test_schema_partitioning_and_properties_are_the_expected_ones(table: Path, case: str) -> None:
    snapshot, expected = tidegate.open(table), CASES[case]
    assert json.loads(snapshot.metadata.schema_string) == expected["schema"]
    assert json.loads(snapshot.schema.to_json()) == expected["schema"]
    assert list(snapshot.partition_columns) == expected["partitionColumns"]
    assert dict(snapshot.properties) == expected["configuration"]


@pytest.mark.parametrize("case", _having("protocol", "version"))
def test_protocol_and_features_are_the_expected_ones(table: Path, case: str) -> None:
    protocol, expected = tidegate.open(table).protocol, CASES[case]["protocol"]
    assert protocol.min_reader_version == expected["minReaderVersion"]
    assert protocol.min_writer_version == expected["minWriterVersion"]
    assert sorted(protocol.reader_features or ()) == sorted(expected.get("readerFeatures") or ())
    assert sorted(protocol.writer_features or ()) == sorted(expected.get("writerFeatures") or ())


@pytest.mark.parametrize("case", [n for n in _having("files") if "log_expect" not in CASES[n]])
def test_every_file_is_the_expected_one(table: Path, case: str) -> None:
    expected = CASES[case]["files"]
    found = {f["path"]: f for f in tidegate.open(table).files().to_pylist()}
    assert sorted(found) == sorted(f["path"] for f in expected)
    for want in expected:
        have = found[want["path"]]
        assert have["size"] == want["size"]
        assert dict(have["partitionValues"]) == want["partitionValues"]
        assert (have["deletionVector"] is None) == ("dv" not in want)
        for name, value in want.get("dv", {}).items():
            assert have["deletionVector"][name] == value
        assert have["baseRowId"] == want.get("baseRowId")
        assert have["defaultRowCommitVersion"] == want.get("defaultRowCommitVersion")
        if want.get("numRecords") is not None:
            assert json.loads(have["stats"])["numRecords"] == want["numRecords"]


@pytest.mark.parametrize("case", _having("version"))
def test_transactions_and_domains_are_the_expected_ones(table: Path, case: str) -> None:
    snapshot, expected = tidegate.open(table), CASES[case]
    if case not in INVENTED_CHECKSUM:
        assert {a: t.version for a, t in snapshot.transactions.items()} == (expected.get("txn") or {})
    if "domainMetadata" in expected:
        assert {n: d.configuration for n, d in snapshot.domains.items()} == expected["domainMetadata"]


@pytest.mark.parametrize("case", _having("inCommitTimestamps"))
def test_in_commit_timestamps_are_the_expected_ones(table: Path, case: str) -> None:
    for version, moment in CASES[case]["inCommitTimestamps"].items():
        snapshot = tidegate.open(table, version=int(version))
        assert snapshot.commit_info["inCommitTimestamp"] == moment
        if snapshot.metadata.configuration.get("delta.enableInCommitTimestamps") == "true":
            assert snapshot.timestamp_ms == moment


@pytest.mark.parametrize("case", _having("versions"))
def test_older_versions_have_the_expected_number_of_files(table: Path, case: str) -> None:
    for version, want in CASES[case]["versions"].items():
        if want.get("num_files") is not None:
            snapshot = tidegate.open(table, version=int(version))
            assert snapshot.version == int(version)
            assert snapshot.files(columns=["path"]).num_rows == want["num_files"], version
            assert snapshot.num_files == want["num_files"], version


LOG_CODES = {"VERSIONS_NOT_CONTIGUOUS", "LOG_TRUNCATED", "VERSION_NOT_FOUND"}
BROKEN_HISTORY = [
    (n, int(v))
    for n in _having("unreadable_versions")
    for v, code in CASES[n]["unreadable_versions"].items()
    if code in LOG_CODES
]


@pytest.mark.parametrize(("case", "version"), BROKEN_HISTORY)
def test_a_version_below_the_start_of_the_log_is_not_found(table: Path, version: int) -> None:
    """The checkpoint after it shows that the log once began later: it was cleaned up, not damaged."""
    with pytest.raises(VersionNotFoundError):
        tidegate.open(table, version=version).files()


@pytest.mark.parametrize("case", [n for n in _having("version") if CASES[n]["version"] > 0])
def test_walking_the_versions_by_update_ends_where_opening_does(table: Path, case: str) -> None:
    """A snapshot at the oldest version that opens, carried on by update, is the latest one."""
    latest = tidegate.open(table)
    for version in range(latest.version):
        try:
            old = tidegate.open(table, version=version)
            old.files()
            break
        except TidegateError:
            continue
    else:
        return  # the log begins with its latest version
    carried = old.update()
    assert carried.version == latest.version
    fresh = {(f["path"], str(f["deletionVector"])): f for f in latest.files().to_pylist()}
    walked = {(f["path"], str(f["deletionVector"])): f for f in carried.files().to_pylist()}
    assert walked.keys() == fresh.keys()
    for key, f in fresh.items():
        assert (walked[key]["size"], walked[key]["partitionValues"]) == (f["size"], f["partitionValues"])
    assert carried.protocol == latest.protocol
    if case not in OTHER_METADATA_IN_CHECKPOINT:
        assert carried.metadata == latest.metadata
    assert dict(carried.transactions) == dict(latest.transactions)


def _with_checksum() -> list[str]:
    """Tables whose latest version has a .crc that is one; two of the corpus are there to be ignored."""
    return [
        n
        for n in _having("version")
        if (_folder() / n / "delta" / "_delta_log" / f"{CASES[n]['version']:020d}.crc").is_file()
        and n
        not in INVENTED_CHECKSUM
        | {"res__version-checksum-garbage", "trino__deltalake__checksum_invalid_json"}
    ]


@pytest.mark.parametrize("case", _with_checksum())
def test_a_checksum_of_the_corpus_agrees_with_replay(table: Path, case: str) -> None:
    """Where a foreign writer left a .crc, counting by replay gives its numbers."""
    snapshot = tidegate.open(table)
    crc = snapshot.checksum
    assert crc is not None
    files = snapshot.files(columns=["size", "deletionVector"])
    assert (files.num_rows, sum(files.column("size").to_pylist())) == (crc.num_files, crc.table_size_bytes)
    replayed = snapshot.replayed_small()
    assert crc.protocol in (None, replayed.protocol)
    assert crc.metadata in (None, replayed.metadata)
    if crc.set_transactions is not None:
        assert {t.app_id: t for t in crc.set_transactions} == replayed.txns


@pytest.mark.parametrize("case", _having("latest"))
def test_files_of_small_tables_are_where_their_paths_say(table: Path, case: str) -> None:
    """Paths decode to the names on disk, so the encoding is undone exactly once."""
    for path in tidegate.open(table).files(columns=["path"]).column("path").to_pylist():
        if ":" in path or path.startswith("/"):
            continue
        assert pq.read_metadata(table / unquote(path)) is not None
