"""CONVERT without Spark: which files of a folder are taken, and which columns they make."""

from __future__ import annotations

import io
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegate
from tidegate.commands.convert import Known, Reading, clone_parquet, convert_folder
from tidegate.errors import DataFileCorruptError, OptionError, SchemaInvalidError
from tidegate.files.paths import DataPath, partition_directory, resolve_path
from tidegate.log.snapshot import load
from tidegate.log.table_log import TableLog
from tidegate.schema.types import INTEGER, LONG, STRING, StructField, StructType
from tidegate.storage.memory import MemoryStore

PART = StructType((StructField("part", STRING),))


def _file(path: Path, **columns: pa.Array) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


def _columns(path: Path) -> dict[str, str]:
    return {f.name: str(f.type) for f in tidegate.open(path).schema.fields}


def _names(path: Path) -> set[str]:
    return set(tidegate.open(path).files().column("path").to_pylist())


def test_small_whole_numbers_are_united_at_every_depth(tmp_path: Path) -> None:
    for number, kind in enumerate((pa.int32(), pa.int8(), pa.int16())):
        _file(
            tmp_path / f"part={number}" / "a.parquet",
            id=pa.array([1], kind),
            a=pa.array([[1]], pa.list_(kind)),
            m=pa.array([[("k", 1)]], pa.map_(pa.string(), kind)),
            s=pa.array([{"x": 1, f"own{number}": "v"}], pa.struct({"x": kind, f"own{number}": pa.string()})),
        )
    convert_folder(TableLog.at(tmp_path), PART)
    assert _columns(tmp_path) == {
        "id": "integer",
        "a": "array<integer>",
        "m": "map<string,integer>",
        "s": "struct<x:integer,own0:string,own1:string,own2:string>",
        "part": "string",
    }


def test_times_of_twelve_bytes_are_instants_at_every_depth(tmp_path: Path) -> None:
    times = pa.array([datetime(2024, 1, 1)], pa.timestamp("us"))
    columns = {
        "at": times,
        "a": pa.array([[datetime(2024, 1, 1)]], pa.list_(pa.timestamp("us"))),
        "s": pa.array([{"x": datetime(2024, 1, 1)}], pa.struct({"x": pa.timestamp("us")})),
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    convert_folder(TableLog.at(tmp_path))
    assert _columns(tmp_path) == {"at": "timestamp", "a": "array<timestamp>", "s": "struct<x:timestamp>"}


def test_times_in_nanoseconds_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"at": pa.array([1], pa.timestamp("ns"))}), tmp_path / "a.parquet", version="2.6")
    with pytest.raises(SchemaInvalidError, match="at"):
        convert_folder(TableLog.at(tmp_path))


@pytest.mark.parametrize("kind", [pa.int64(), pa.string(), pa.float32()])
def test_other_types_are_not_united(tmp_path: Path, kind: pa.DataType) -> None:
    _file(tmp_path / "a.parquet", id=pa.array([1], pa.int32()))
    _file(tmp_path / "b.parquet", id=pa.array([1]).cast(kind))
    with pytest.raises(SchemaInvalidError, match="id") as caught:
        convert_folder(TableLog.at(tmp_path))
    assert caught.value.errorClass == "DELTA_FAILED_TO_MERGE_FIELDS"
    assert caught.value.file == "b.parquet"


def test_a_partition_column_that_files_have_too_keeps_its_place_there(tmp_path: Path) -> None:
    _file(tmp_path / "K=1" / "a.parquet", id=pa.array([0]), k=pa.array(["1"]), more=pa.array(["2"]))
    convert_folder(TableLog.at(tmp_path), StructType((StructField("k", INTEGER),)))
    assert _columns(tmp_path) == {"id": "long", "k": "integer", "more": "string"}
    stats = json.loads(tidegate.open(tmp_path).files().column("stats")[0].as_py())
    assert list(stats["minValues"]) == ["id", "more"]


def test_what_is_no_parquet_is_left_out_where_that_is_asked(tmp_path: Path) -> None:
    _file(tmp_path / "part=2" / "unknown_suffix", id=pa.array([2]))
    _file(tmp_path / "part=2" / "with=equals.parquet", id=pa.array([3]))
    (tmp_path / "part=1").mkdir()
    (tmp_path / "part=1" / "a.json").write_text("{}")
    (tmp_path / "an empty folder").mkdir()
    with pytest.raises(DataFileCorruptError):
        convert_folder(TableLog.at(tmp_path), PART)
    assert convert_folder(TableLog.at(tmp_path), PART, reading=Reading(skips_corrupt=True)) == 2
    assert _names(tmp_path) == {"part=2/unknown_suffix", "part=2/with=equals.parquet"}


def test_files_that_a_stream_has_not_committed_are_left_out(tmp_path: Path) -> None:
    for name in ("a b", "b", "c", "d", "e"):
        _file(tmp_path / f"{name}.parquet", id=pa.array([1]))

    def batch(name: str, *entries: tuple[str, str]) -> None:
        lines = [json.dumps({"path": (tmp_path / f).as_uri(), "action": action}) for f, action in entries]
        (tmp_path / "_spark_metadata").mkdir(exist_ok=True)
        (tmp_path / "_spark_metadata" / name).write_text("\n".join(["v1", *lines]))

    batch("0", ("e.parquet", "add"))
    batch("9.compact", ("a b.parquet", "add"), ("b.parquet", "add"))
    batch("10", ("c.parquet", "add"), ("b.parquet", "delete"))
    (tmp_path / "_spark_metadata" / ".10.crc").write_text("")
    assert convert_folder(TableLog.at(tmp_path), dry_run=True, reading=Reading(by_sink_log=False)) == 5
    assert convert_folder(TableLog.at(tmp_path)) == 2
    assert _names(tmp_path) == {"a%20b.parquet", "c.parquet"}


def test_a_catalog_says_which_partitions_there_are_and_where(tmp_path: Path) -> None:
    for place in ("part=1", "part=1/inner=3", "part=2", "part=9"):
        _file(tmp_path / place / "a.parquet", id=pa.array([1]), other=pa.array(["x"]))
    places = (("part=1/inner=3/", {"part": "1"}), ("part=2/", {"part": None}))
    schema = StructType((StructField("id", INTEGER), *PART.fields))
    known = Known("default.t", schema, places, {"mine": "1"})
    assert convert_folder(TableLog.at(tmp_path), PART, known=known) == 2
    snapshot = tidegate.open(tmp_path)
    values = zip(*(snapshot.files().column(c).to_pylist() for c in ("path", "partitionValues")), strict=True)
    assert {path: dict(v)["part"] for path, v in values} == {
        "part=1/inner=3/a.parquet": "1",
        "part=2/a.parquet": None,
    }
    assert _columns(tmp_path) == {"id": "integer", "part": "string"}
    assert snapshot.properties == {"mine": "1"}
    assert snapshot.commit_info["operationParameters"]["catalogTable"] == "default.t"


def test_files_have_names_of_their_own_so_no_mapping_is_made(tmp_path: Path) -> None:
    _file(tmp_path / "a.parquet", id=pa.array([1]))
    with pytest.raises(OptionError) as caught:
        convert_folder(TableLog.at(tmp_path), defaults={"delta.columnMapping.mode": "name"})
    assert caught.value.errorClass == "DELTA_CONVERSION_UNSUPPORTED_COLUMN_MAPPING"
    assert not (tmp_path / "_delta_log").exists()


def _spelt(path: Path, name: str, value: str) -> StructType:
    """A file in a folder that spells a partition, and the partition's column."""
    _file(path / partition_directory([(name, value)]) / "a.parquet", id=pa.array([1]))
    return StructType((StructField(name, STRING),))


@pytest.mark.parametrize("sign", [*" ,;{}()\n\t="])
def test_names_that_tables_do_not_have_are_refused(tmp_path: Path, sign: str) -> None:
    partition = _spelt(tmp_path, f"{sign}key{sign}", f"a{sign}value")
    with pytest.raises(SchemaInvalidError) as caught:
        convert_folder(TableLog.at(tmp_path), partition)
    assert caught.value.errorClass == "DELTA_INVALID_PARTITION_COLUMN_NAME"
    assert not (tmp_path / "_delta_log").exists()


@pytest.mark.parametrize("signs", ["%!@#$%^&*-", "?.+<_>|/", "_", "."])
def test_other_signs_are_as_the_folders_spell_them(tmp_path: Path, signs: str) -> None:
    name, value = f"{signs}key{signs}", f"{signs}a{signs}{signs}value"
    assert convert_folder(TableLog.at(tmp_path), _spelt(tmp_path, name, value)) == 1
    assert dict(tidegate.open(tmp_path).files().column("partitionValues")[0].as_py()) == {name: value}


def test_a_default_that_older_files_do_not_hold_is_refused_and_nothing_is_made(tmp_path: Path) -> None:
    added = StructField("n", INTEGER, True, {"EXISTS_DEFAULT": "1", "CURRENT_DEFAULT": "1"})
    known = Known("t", StructType((StructField("id", INTEGER), added)))
    _file(tmp_path / "new.parquet", id=pa.array([2], pa.int32()), n=pa.array([5], pa.int32()))
    _file(tmp_path / "old.parquet", id=pa.array([1], pa.int32()))
    with pytest.raises(SchemaInvalidError, match="null in it") as caught:
        convert_folder(TableLog.at(tmp_path), known=known)
    assert caught.value.file == "old.parquet"
    assert not (tmp_path / "_delta_log").exists()
    (tmp_path / "old.parquet").unlink()
    assert convert_folder(TableLog.at(tmp_path), known=known) == 1


# ---------------------------------------------------------------------------- names in another case


def _stats(path: Path) -> dict[str, Any]:
    files = tidegate.open(path).files()
    texts = zip(*(files.column(c).to_pylist() for c in ("path", "stats")), strict=True)
    return {name: json.loads(text) for name, text in texts}


def test_no_file_is_skipped_because_it_spells_a_column_in_another_case(tmp_path: Path) -> None:
    _file(tmp_path / "a.parquet", id=pa.array([1, 2, 3]), s=pa.array([{"x": 1}] * 3))
    _file(tmp_path / "b.parquet", ID=pa.array([4, 5, 6]), S=pa.array([{"X": 7}] * 3))
    convert_folder(TableLog.at(tmp_path))
    assert _stats(tmp_path)["b.parquet"] == {
        "numRecords": 3,
        "minValues": {"id": 4, "s": {"x": 7}},
        "maxValues": {"id": 6, "s": {"x": 7}},
        "nullCount": {"id": 0, "s": {"x": 0}},
    }
    table = tidegate.open(tmp_path)
    for condition in ("id = 5", "s.x = 7", "id > 3 AND id IS NOT NULL"):
        assert table.files(condition).column("path").to_pylist() == ["b.parquet"], condition


def test_of_a_column_that_a_file_has_in_several_cases_nothing_is_said(tmp_path: Path) -> None:
    _file(tmp_path / "a.parquet", Id=pa.array([1]), ID=pa.array([2]), n=pa.array([3]))
    schema = StructType((StructField("id", LONG), StructField("n", LONG)))
    convert_folder(TableLog.at(tmp_path), known=Known("t", schema))
    assert _stats(tmp_path)["a.parquet"] == {
        "numRecords": 1,
        "minValues": {"n": 3},
        "maxValues": {"n": 3},
        "nullCount": {"n": 0},
    }
    assert all(tidegate.open(tmp_path).files(c).num_rows == 1 for c in ("id = 2", "id IS NULL", "id = 7"))


# ---------------------------------------------------------------------------- shallow clones


@pytest.mark.parametrize(
    "url", ["s3://b/a b%20c", "memory://m/a b%20c", "abfss://c@a.dfs.core.windows.net/t"]
)
def test_the_files_of_a_clone_of_a_parquet_folder_are_found_in_its_store(url: str) -> None:
    data = io.BytesIO()
    pq.write_table(pa.table({"id": [1]}), data)
    source = MemoryStore(url=url)
    source.put("part=x y/a.parquet", data.getvalue())
    target = TableLog(MemoryStore())
    clone_parquet(TableLog(source), target)
    (path,) = load(target).files().column("path").to_pylist()
    assert " " not in path
    assert resolve_path(path) == DataPath(f"{url}/part=x y/a.parquet", absolute=True)


def test_the_files_of_a_clone_of_a_parquet_folder_are_found_on_a_disk(tmp_path: Path) -> None:
    _file(tmp_path / "a b" / "c.parquet", id=pa.array([1]))
    target = TableLog(MemoryStore())
    clone_parquet(TableLog.at(tmp_path / "a b"), target)
    (path,) = load(target).files().column("path").to_pylist()
    assert path == f"file:{tmp_path}/a%20b/c.parquet"
