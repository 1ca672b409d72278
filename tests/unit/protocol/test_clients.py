"""Well-known clients: the data is whole, and what it says of a table follows from it."""

from __future__ import annotations

import re

import pytest

from support.peers import require_peer
from support.tables import RawTable
from tidegate.protocol.clients import Client, well_known
from tidegate.protocol.delta import DELTA
from tidegate.protocol.protocol import Protocol

CLIENTS = well_known().clients


def of(client: str, release: str | None = None) -> Client:
    return next(c for c in CLIENTS if c.client == client and release in (None, c.release))


@pytest.mark.parametrize("client", CLIENTS, ids=lambda c: f"{c.client} {c.release}")
def test_every_row_has_a_date_and_a_source_and_knows_real_features(client: Client) -> None:
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", client.date)
    assert client.source.startswith("https://")
    assert all(name in DELTA for name in client.reads | client.writes | client.writes_unused)
    assert all(DELTA[name].reader_writer for name in client.reads)
    assert not any(DELTA[name].reader_writer for name in client.writes_unused)


def test_the_clients_people_ask_for_are_there() -> None:
    assert {c.client for c in CLIENTS} == {
        "delta-spark",
        "delta-rs",
        "delta-kernel-java",
        "delta-kernel-rs",
        "DuckDB",
        "Trino",
    }
    assert len([c for c in CLIENTS if c.client == "delta-spark"]) > 8


@pytest.mark.parametrize("client", CLIENTS, ids=lambda c: f"{c.client} {c.release}")
def test_a_plain_table_is_for_everybody(client: Client) -> None:
    assert client.missing_for_read(Protocol(1, 2), DELTA) == ()
    assert client.missing_for_write(Protocol(1, 2), DELTA, ()) == ()


def test_what_is_missing_is_named() -> None:
    vectors = DELTA.protocol_of(["deletionVectors", "checkpointProtection"])
    spark = of("delta-spark", "2.4.0")
    assert spark.missing_for_read(vectors, DELTA) == ()
    assert spark.missing_for_write(vectors, DELTA, ()) == ("checkpointProtection",)
    assert of("delta-spark", "4.4.0").missing_for_write(vectors, DELTA, ()) == ()
    mapped = Protocol(2, 5)
    assert of("Trino").missing_for_read(mapped, DELTA) == ()
    assert of("Trino").missing_for_write(mapped, DELTA, ()) == ("generatedColumns",)


def test_a_feature_that_nothing_uses_may_be_no_hindrance() -> None:
    kernel = of("delta-kernel-java")
    assert kernel.missing_for_write(Protocol(1, 4), DELTA, ()) == ()
    assert kernel.missing_for_write(Protocol(1, 4), DELTA, {"generatedColumns"}) == ("generatedColumns",)


def test_versions_of_the_future_are_beyond_all() -> None:
    for client in CLIENTS:
        assert client.missing_for_read(Protocol(4, 8), DELTA) == ("reader version 4",)
        assert client.missing_for_write(Protocol(1, 8), DELTA, ()) == ("writer version 8",)


@pytest.mark.peers
@pytest.mark.parametrize("name", [r.name for r in DELTA if not r.catalog_managed and not r.requires])
def test_what_the_data_says_of_delta_rs_writing_is_what_it_does(name: str, tmp_path: object) -> None:
    deltalake = require_peer("delta-rs")
    client = of("delta-rs")
    if deltalake.__version__ != client.release:
        pytest.skip(f"the data is of {client.release}, installed is {deltalake.__version__}")
    import pyarrow as pa

    protocol = DELTA.protocol_of([name])
    RawTable.on_disk(str(tmp_path)).create(protocol={"protocol": protocol.to_wire()})
    rows = pa.table({"id": pa.array([1], pa.int64()), "name": ["a"]})
    try:
        deltalake.write_deltalake(str(tmp_path), rows, mode="append")
        said = "it wrote"
    except Exception as e:  # delta-rs has no one class for this
        said = str(e)
    assert said == "it wrote" or "eature" in said
    assert (said == "it wrote") == (client.missing_for_write(protocol, DELTA, {name}) == ())


@pytest.mark.peers
@pytest.mark.parametrize("name", [r.name for r in DELTA if not r.catalog_managed])
def test_what_the_data_says_of_delta_rs_reading_is_what_it_does(name: str, tmp_path: object) -> None:
    """By its query engine; as a pyarrow dataset it reads neither deletion vectors nor V2 checkpoints."""
    deltalake = require_peer("delta-rs")
    client = of("delta-rs")
    if deltalake.__version__ != client.release:
        pytest.skip(f"the data is of {client.release}, installed is {deltalake.__version__}")
    protocol = DELTA.protocol_of([name])
    RawTable.on_disk(str(tmp_path)).create(protocol={"protocol": protocol.to_wire()})
    try:
        found = deltalake.DeltaTable(str(tmp_path))
        deltalake.QueryBuilder().register("t", found).execute("SELECT * FROM t").read_all()
        said = "it read"
    except Exception as e:  # delta-rs has no one class for this
        said = str(e)
    assert (said == "it read") == (client.missing_for_read(protocol, DELTA) == ()), said
