"""The directory rules of the delayed commit protocol, case by case."""

from __future__ import annotations

import re

import pytest

from tidegate.errors import CommitRefusedError
from tidegate.spark.write.layout import directory_of, file_name, partition_values, placed, refuse_absolute


@pytest.mark.parametrize(
    ("given", "directory"),
    [
        ("__is_cdc=false", ""),
        ("__is_cdc=true/a/b/c", "_change_data/a/b/c"),
        ("__is_cdc=true", "_change_data"),
        ("__is_cdc=false/p=1/q=2", "p=1/q=2"),
        ("p=1", "p=1"),
        (None, ""),
    ],
)
def test_the_virtual_column_decides_the_directory(given: str | None, directory: str) -> None:
    assert directory_of(given) == directory


def test_change_rows_are_told_apart_and_the_virtual_column_is_no_partition_value() -> None:
    change = placed("__is_cdc=true/p=1", "cdc-00000-x.parquet")
    assert change.path == "_change_data/p=1/cdc-00000-x.parquet"
    assert change.is_cdc
    assert change.partition_values == {"p": "1"}
    data = placed("__is_cdc=false/p=1", "part-00000-x.parquet")
    assert (data.path, data.is_cdc, data.partition_values) == ("p=1/part-00000-x.parquet", False, {"p": "1"})


def test_partition_values_are_unescaped_and_the_null_name_is_null() -> None:
    found = partition_values("a=x%2Fy/b=__HIVE_DEFAULT_PARTITION__")
    assert found == {"a": "x/y", "b": None}


def test_file_names_have_prefix_split_and_a_unique_id() -> None:
    names = {file_name(7, "snappy.parquet") for _ in range(3)}
    assert len(names) == 3
    assert all(re.fullmatch(r"part-00007-[0-9a-f-]{36}-c000\.snappy\.parquet", n) for n in names)
    assert file_name(0, "snappy.parquet", is_cdc=True).startswith("cdc-00000-")


def test_an_absolute_path_is_refused_with_the_documents_words() -> None:
    with pytest.raises(CommitRefusedError, match="does not support adding files with an absolute path"):
        refuse_absolute("/somewhere/else.parquet")
