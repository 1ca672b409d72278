"""Index tables on object storage: writers race by conditional puts, and the kind of table is found there."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import tidegate
from support.index_tables import SCHEMA, V2, adds, paths, split
from support.s3 import S3Server, s3_server
from tidegate.errors import NotATableError
from tidegate.index.log import IndexLog
from tidegate.log.verify import verify
from tidegate.metadata import Metadata
from tidegate.transaction.transaction import Transaction

pytestmark = pytest.mark.s3


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


def test_writers_on_s3_all_succeed_and_the_table_is_found(s3: S3Server) -> None:
    url = f"s3://{s3.bucket()}/logs"
    with pytest.raises(NotATableError):
        tidegate.open(url, storage_options=s3.options)
    IndexLog.at(url, s3.options).create(SCHEMA)

    def write(writer: int) -> list[int]:
        log = IndexLog.at(url, s3.options, {"spark.indextables.checkpoint.interval": "4"})
        return [log.append(adds(split(f"{writer}-{n}.split", **V2))).version for n in range(3)]

    with ThreadPoolExecutor(4) as pool:
        versions = [v for done in pool.map(write, range(4)) for v in done]
    assert sorted(versions) == list(range(1, 13))
    found = tidegate.open(url, storage_options=s3.options)
    assert (found.log.dialect.name, found.num_files) == ("indextables", 12)
    assert verify(found.log, data=False).ok
    log = IndexLog.at(url, s3.options)
    log.truncate_history()
    assert len(paths(IndexLog.at(url, s3.options).snapshot())) == 12


def test_where_both_are_there_the_delta_table_is_opened(
    s3: S3Server, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"s3://{s3.bucket()}/both"
    IndexLog.at(url, s3.options).create(SCHEMA)
    txn = Transaction.begin(url, s3.options)
    txn.update_metadata(Metadata(id="delta", schema_string=SCHEMA))
    txn.commit()
    assert tidegate.open(url, storage_options=s3.options).metadata.id == "delta"
    assert "holds both" in caplog.text
