"""Paths of data files: encoding, directories, and what does not lie inside the table."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import PathOutsideTableError
from tidegate.files import paths

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NAMES = TEXT.filter(lambda s: s not in ("", ".", "..") and "/" not in s)


@given(TEXT)
def test_a_path_comes_back_from_its_uri(path: str) -> None:
    encoded = paths.encode_path(path)
    assert paths.decode_path(encoded) == path
    assert encoded.isascii()
    assert " " not in encoded


@given(st.lists(NAMES, min_size=1, max_size=4))
def test_an_encoded_relative_path_is_found_where_it_was_written(parts: list[str]) -> None:
    name = "/".join(parts)
    assert paths.resolve_path(paths.encode_path(name)) == paths.DataPath(name)


def test_a_plus_sign_is_a_plus_sign() -> None:
    assert paths.decode_path("a+b%20c") == "a+b c"


def test_hive_escapes_stay_in_the_name() -> None:
    # The directory is called x=A%2FA; the log has its URI.
    assert paths.resolve_path("x=A%252FA/part-0.parquet").name == "x=A%2FA/part-0.parquet"


@pytest.mark.parametrize(
    "path",
    [
        "../x",
        "a/../../x",
        "..",
        "a/..",
        "",
        ".",
        "./",
        "%2e%2e/x",
        "%2E%2E%2Fx",
        "a/..%2f..%2Fx",
        "a/b/../../..",
    ],
)
def test_a_relative_path_that_leaves_the_table_is_refused(path: str) -> None:
    with pytest.raises(PathOutsideTableError, match="PATH_OUTSIDE_TABLE"):
        paths.resolve_path(path)
    with pytest.raises(PathOutsideTableError):
        paths.refuse_outside(pa.array(["fine.parquet", path]))


@pytest.mark.parametrize(
    ("path", "name"), [("a/../b", "b"), ("./a", "a"), ("a//b", "a/b"), ("..a/b..", "..a/b..")]
)
def test_odd_paths_that_stay_inside_are_followed(path: str, name: str) -> None:
    assert paths.resolve_path(path) == paths.DataPath(name)
    paths.refuse_outside(pa.chunked_array([[path], ["other"]]))


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("s3://bucket/t/a%20b.parquet", "s3://bucket/t/a b.parquet"),
        ("file:/t/x%2541", "/t/x%41"),
        ("file:///t/x", "/t/x"),
        ("file://localhost/t/x", "/t/x"),
        ("file://elsewhere/t/x", "file://elsewhere/t/x"),
        ("/abs/x%25y", "/abs/x%y"),
        ("abfss://c@a.dfs.core.windows.net/x", "abfss://c@a.dfs.core.windows.net/x"),
    ],
)
def test_absolute_paths_are_told_apart(path: str, name: str) -> None:
    assert paths.resolve_path(path) == paths.DataPath(name, absolute=True)


@pytest.mark.parametrize(
    ("url", "encoded"),
    [
        ("/data/a b:c", "file:/data/a%20b%3Ac"),
        ("s3://bucket/a b%20c", "s3://bucket/a%20b%2520c"),
        ("memory://m/t", "memory://m/t"),
        ("abfss://c@a.dfs.core.windows.net/t", "abfss://c@a.dfs.core.windows.net/t"),
        ("gs://bucket", "gs://bucket"),
    ],
)
def test_a_tables_address_begins_the_paths_of_its_files(url: str, encoded: str) -> None:
    assert paths.encode_location(url) == encoded
    assert paths.resolve_path(f"{encoded}/x") == paths.DataPath(f"{url}/x", absolute=True)


def test_a_colon_in_a_first_segment_is_no_scheme_once_encoded() -> None:
    assert paths.resolve_path(paths.encode_path("a:b")) == paths.DataPath("a:b")


@given(TEXT)
def test_directory_names_come_back(name: str) -> None:
    escaped = paths.escape_path_name(name)
    assert paths.unescape_path_name(escaped) == name
    assert not set(escaped) & set("\"#'*/:=?\\{[]^\x7f\n")


def test_directories_are_named_as_spark_names_them() -> None:
    values = [("a=b", "x/y z"), ("p", None), ("q", "100%"), ("time", "2020-01-01 00:00:00")]
    assert (
        paths.partition_directory(values)
        == "a%3Db=x%2Fy z/p=__HIVE_DEFAULT_PARTITION__/q=100%25/time=2020-01-01 00%3A00%3A00"
    )
