"""S3 over HTTP: what only a server can show. The common suite runs against it too (test_behaviour)."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.s3 import ACCESS_KEY, SECRET_KEY, S3Server
from tidegate.errors import FileMissingError, StorageError
from tidegate.storage import ObjectStore, RetryPolicy, objects, open_store

pytestmark = pytest.mark.s3


@pytest.fixture
def store(s3: S3Server) -> ObjectStore:
    made = open_store(f"s3://{s3.bucket()}/t", s3.options)
    assert isinstance(made, ObjectStore)
    return made


def test_the_environment_is_enough(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in s3.environment.items():
        monkeypatch.setenv(variable, value)
    store = open_store(f"s3a://{s3.bucket()}/t")
    store.put_if_absent("a", b"x")
    assert store.get("a") == b"x"


def test_two_tables_in_one_bucket_are_apart(s3: S3Server) -> None:
    bucket = s3.bucket()
    one, other = (open_store(f"s3://{bucket}/{prefix}", s3.options) for prefix in ("t", "t2"))
    one.put("a", b"1")
    other.put("b", b"2")
    assert [info.name for info in one.list_from("", recursive=True)] == ["a"]
    assert [info.name for info in open_store(f"s3://{bucket}", s3.options).list_from("", recursive=True)] == [
        "t/a",
        "t2/b",
    ]


def test_more_deletes_than_one_request_takes(store: ObjectStore) -> None:
    store.put("n0007", b"")
    store.put("n1207", b"")
    store.put("stays", b"")
    store.delete(f"n{number:04d}" for number in range(1500))
    assert [info.name for info in store.list_from("")] == ["stays"]


def test_a_listing_over_several_pages_leaps_over_a_crowded_subdirectory(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "PAGE", 10)
    commits = [f"log/{number:020d}.json" for number in range(12)]
    for name in (*commits, *(f"log/_sidecars/{number:04d}" for number in range(45)), "log/_z"):
        store.put(name, b"")
    assert [info.name for info in store.list_from("log")] == [*commits, "log/_z"]
    assert [info.name for info in store.list_from("log", "00000000000000000010.json")] == [
        *commits[10:],
        "log/_z",
    ]
    assert len(list(store.list_from("log", recursive=True))) == 58


def test_a_large_file_is_read_in_ranges(store: ObjectStore) -> None:
    table = pa.table(
        {"id": pa.array(range(300_000)), "text": [f"{number:032x}" for number in range(300_000)]}
    )
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="none", use_dictionary=False)
    assert len(sink.getvalue()) > objects.WHOLE
    store.put("large.parquet", sink.getvalue())  # in parts
    with store.open_input("large.parquet") as file:
        assert pq.read_table(file, columns=["id"]) == table.select(["id"])
    assert store.head("large.parquet").size == len(sink.getvalue())


def test_a_bucket_that_is_not_there_is_named_as_such(s3: S3Server) -> None:
    store = open_store("s3://no-such-bucket/t", s3.options)
    for ask in (
        lambda: store.get("a"),
        lambda: store.put("a", b""),
        lambda: store.put_if_absent("a", b""),
        lambda: list(store.list_from("")),
    ):
        with pytest.raises(StorageError, match="bucket or container does not exist") as failed:
            ask()
        assert not isinstance(failed.value, FileMissingError)


def test_a_server_that_is_gone_is_a_sentence_without_credentials(s3: S3Server) -> None:
    store = open_store("s3://bucket/t", {**s3.options, "endpoint_url": "http://127.0.0.1:9"})
    assert isinstance(store, ObjectStore)
    store._retry, store._sleep = RetryPolicy(attempts=2), lambda _: None
    for ask in (lambda: store.put_if_absent("a", b""), lambda: list(store.list_from("log"))):
        with pytest.raises(StorageError, match="no connection could be made") as failed:
            ask()
        assert SECRET_KEY not in str(failed.value)
        assert ACCESS_KEY not in str(failed.value)
