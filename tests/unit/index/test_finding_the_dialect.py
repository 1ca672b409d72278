"""Which kind of table a place holds: by the directory of the log, and by what the caller says."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tidegate
from support.index_tables import SCHEMA, adds
from tidegate.cli.app import app
from tidegate.errors import NotATableError, OptionError
from tidegate.index.log import IndexLog
from tidegate.metadata import Metadata
from tidegate.transaction.transaction import Transaction


@pytest.fixture
def index(tmp_path: Path) -> Path:
    log = IndexLog.at(tmp_path)
    log.create(SCHEMA)
    (tmp_path / "a.split").write_bytes(b"x" * 100)
    log.append(adds("a.split"))
    return tmp_path


@pytest.fixture
def both(index: Path) -> Path:
    txn = Transaction.begin(index)
    txn.update_metadata(Metadata(id="delta", schema_string=SCHEMA))
    txn.commit()
    return index


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def test_an_index_table_is_opened_by_its_log_directory(index: Path) -> None:
    found = tidegate.open(index)
    assert (found.log.dialect.name, found.version, found.num_files) == ("indextables", 1, 1)
    assert found.files("id > 3").column("path").to_pylist() == ["a.split"]
    assert tidegate.open(index, version=0).num_files == 0
    assert tidegate.open(index, timestamp=found.timestamp_ms).version == 1


def test_where_both_are_there_the_delta_table_is_opened_with_a_word(
    both: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert tidegate.open(both).metadata.id == "delta"
    assert "holds both" in caplog.text


def test_the_dialect_can_be_said(both: Path) -> None:
    assert tidegate.open(both, dialect="indextables").num_files == 1
    assert tidegate.open(both, dialect="delta").metadata.id == "delta"
    with pytest.raises(OptionError, match="iceberg"):
        tidegate.open(both, dialect="iceberg")


def test_a_place_with_neither_is_not_a_table(tmp_path: Path) -> None:
    with pytest.raises(NotATableError, match="_transaction_log"):
        tidegate.open(tmp_path)
    with pytest.raises(NotATableError):
        tidegate.open(tmp_path, dialect="indextables")


def test_a_delta_table_alone_says_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    txn = Transaction.begin(tmp_path)
    txn.update_metadata(Metadata(id="delta", schema_string=SCHEMA))
    txn.commit()
    with caplog.at_level(logging.WARNING):
        assert tidegate.open(tmp_path).log.dialect.name == "delta"
    assert caplog.text == ""


@pytest.mark.parametrize("verb", ["describe", "history", "protocol", "files", "log", "verify", "checkpoint"])
def test_every_verb_finds_an_index_table(index: Path, verb: str) -> None:
    code, out, err = run(verb, str(index), "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["version"] == 1
    assert run(verb, str(index))[0] == 0


@pytest.mark.parametrize("verb", ["describe", "history", "protocol", "files", "log", "verify", "checkpoint"])
def test_every_verb_takes_the_dialect_and_says_a_word_without_it(both: Path, verb: str) -> None:
    code, out, err = run(verb, str(both), "--json")
    assert (code, json.loads(out)["version"]) == (0, 0)
    assert "holds both" in err
    code, out, err = run(verb, str(both), "--json", "--dialect", "indextables")
    assert (code, json.loads(out)["version"], err) == (0, 1, "")


def test_protocol_tells_of_a_table_that_this_client_may_not_read(index: Path) -> None:
    line = '{"protocol":{"minReaderVersion":999,"minWriterVersion":999}}\n'
    (index / "_transaction_log" / f"{2:020d}.json").write_text(line)
    code, out, _ = run("protocol", str(index), "--json")
    told = json.loads(out)
    assert (code, told["canRead"], told["canWrite"]) == (0, False, False)
    assert "requires reader version 999" in told["readRefusal"]
    code, _, err = run("describe", str(index))
    assert code == 2
    assert "UNSUPPORTED_READER_VERSION" in err


def test_files_that_are_not_there_are_found_by_verify(index: Path) -> None:
    (index / "a.split").unlink()
    code, out, _ = run("verify", str(index), "--json")
    assert (code, [f["code"] for f in json.loads(out)["findings"]]) == (1, ["DATA_FILE_MISSING"])
