"""The data source behind ``format("indextables")``, asked as Spark asks it, without Spark."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.splits import write_index
from tidegate.errors import OptionError, QueryError

datasource = pytest.importorskip("pyspark.sql.datasource")
index = pytest.importorskip("tidegate.index.datasource")


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TIDEGATE_CACHE_DIR", str(tmp_path / "cache"))
    ids = list(range(10))
    rows = pa.table({"id": ids, "p": ["ab"[i % 2] for i in ids], "s": [f"word{i} common" for i in ids]})
    write_index(tmp_path / "t", [rows], {"indexing.typemap.s": "text"}, ("p",))
    return str(tmp_path / "t")


def read(source: Any, *filters: Any) -> pa.Table:
    """One scan: the reader goes to its tasks pickled, as its partitions do."""
    schema = source.schema()
    reader = source.reader(schema)
    if filters:
        assert list(reader.pushFilters(list(filters))) == list(filters), "Spark evaluates all of them again"
    partitions = reader.partitions()
    reader, partitions = pickle.loads(pickle.dumps((reader, partitions)))
    batches = [batch for p in partitions for batch in reader.read(p)]
    assert all(batch.schema.names == schema.names for batch in batches)
    return pa.Table.from_batches(batches)


def test_a_scan_has_all_columns_or_those_that_were_named(table: str) -> None:
    assert read(index.IndexTablesSource({"path": table})).sort_by("id").column_names == ["id", "p", "s"]
    few = index.IndexTablesSource({"path": table, "tidegate.columns": "p, id", "query": "word3 OR word4"})
    assert few.schema().names == ["p", "id"]
    assert sorted(map(tuple, (r.values() for r in read(few).to_pylist()))) == [("a", 4), ("b", 3)]


def test_flags_say_of_every_row_whether_it_matches_a_query(table: str) -> None:
    flags = {"few": "s:(word3 OR word4)", "all": "common", "none": "id:77", "half": "NOT p:a"}
    options = {"path": table, "tidegate.flags": json.dumps(flags), "query": "id:[2 TO 5]"}
    found = read(index.IndexTablesSource(options)).sort_by("id").select(["id", *flags])
    assert [tuple(r.values()) for r in found.to_pylist()] == [
        (2, False, True, False, False),
        (3, True, True, False, True),
        (4, True, True, False, False),
        (5, False, True, False, True),
    ]


@pytest.mark.parametrize("flags", ["{", "few", "[]", '"few"', '{"few": 1}', "null", ""])
def test_flags_that_cannot_be_read_are_an_option_that_is_named(table: str, flags: str) -> None:
    source = index.IndexTablesSource({"path": table, "tidegate.flags": flags})
    with pytest.raises(OptionError, match=r"tidegate\.flags"):
        source.schema()


def test_a_column_that_is_not_there_is_named(table: str) -> None:
    with pytest.raises(QueryError, match="nope"):
        index.IndexTablesSource({"path": table, "tidegate.columns": "id, nope"}).schema()


def test_splits_that_a_filter_rules_out_are_no_part_of_the_scan(table: str) -> None:
    source = index.IndexTablesSource({"path": table})
    reader = source.reader(source.schema())
    reader.pushFilters([datasource.EqualTo(("p",), "a"), datasource.GreaterThan(("id",), 3)])
    assert sum(len(p.targets) for p in reader.partitions()) == 1
    found = read(source, datasource.EqualTo(("p",), "a"), datasource.GreaterThan(("id",), 3))
    assert sorted(found.column("id").to_pylist()) == [4, 6, 8]


def test_settings_of_object_stores_are_there_while_something_is_read_and_only_then(table: str) -> None:
    source = index.carrying({"AWS_REGION": "moon-1"})({"path": table})
    seen = []

    class Watching(index.IndexTablesReader):  # type: ignore[misc, name-defined]  # known at run time only
        def read(self, partition: Any) -> Any:
            for batch in super().read(partition):
                seen.append(os.environ.get("AWS_REGION"))
                yield batch

    reader = Watching({"path": table}, ["id"], source.environment)
    rows = sum(batch.num_rows for p in reader.partitions() for batch in reader.read(p))
    assert (rows, set(seen), os.environ.get("AWS_REGION")) == (10, {"moon-1"}, None)
    assert "moon-1" not in repr(source) + repr(reader)


def test_an_error_of_ours_survives_the_way_to_the_driver(table: str) -> None:
    from tidegate.index.travel import FailedInTask, translated

    source = index.IndexTablesSource({"path": table, "query": "nobody:1"})
    with pytest.raises(FailedInTask) as failed:
        source.reader(source.schema()).partitions()
    assert isinstance(translated(str(failed.value)), QueryError)
