"""Checkpoints we write: alone they carry the table, in every form, as the table's properties ask for."""

from __future__ import annotations

import io
import json
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.histories import EVERYTHING, histories
from support.peers import require_peer
from support.tables import (
    DAY,
    FORMS,
    LOG,
    RawTable,
    Wire,
    add,
    column,
    domain,
    features,
    metadata,
    protocol,
    remove,
    replay,
    schema_string,
    seen,
    small_table,
    state_actions,
    stats,
    txn,
    vector,
)
from tidegate.errors import CheckpointCorruptError, UnsupportedWriterFeatureError
from tidegate.log.checkpoint import hint as hints
from tidegate.log.checkpoint import write as writing
from tidegate.log.checkpoint.hint import Hint
from tidegate.log.checkpoint.write import Written, publish_hint, write_checkpoint

WAYS = ("classic", "v2-json", "v2-parquet")


def write(table: RawTable, way: str = "classic", version: int | None = None) -> Written:
    """Checkpoint the table through the product, in one of the ways it knows."""
    snapshot = table.load(version)
    if way != "v2-parquet":
        return write_checkpoint(snapshot, policy=way.partition("-")[0])
    written = writing._write_v2(snapshot, "parquet")
    publish_hint(snapshot, written.hint)
    snapshot.stand_on(written.checkpoint)
    return written


def alone(table: RawTable) -> RawTable:
    """The table with nothing left but its newest checkpoint and what comes after it."""
    start = max(int(n[:20]) for n in table.names() if ".checkpoint." in n)
    table.delete_commits(start + 1)
    table.delete(*(n for n in table.names() if n.endswith((".crc", "compacted.json"))))
    return table


def top_level(table: RawTable, written: Written) -> str:
    return written.checkpoint.files[0].name.text


def rows_of(table: RawTable, name: str) -> list[dict[str, Any]]:
    if name.endswith(".json"):
        return [json.loads(line) for line in table.bytes(name).splitlines()]
    return [
        {k: v for k, v in row.items() if v is not None}
        for row in pq.read_table(io.BytesIO(table.bytes(name))).to_pylist()
    ]


def add_type(table: RawTable, written: Written) -> pa.StructType:
    """The type of the column ``add``, wherever the checkpoint keeps it."""
    name = top_level(table, written)
    sidecars = [n for n in table.names() if n.startswith("_sidecars/")]
    return pq.read_schema(io.BytesIO(table.bytes(sidecars[0] if sidecars else name))).field("add").type


# ---------------------------------------------------------------------------- the same table


@given(st.sampled_from(WAYS), histories(), st.data())
def test_a_checkpoint_alone_is_the_table_it_was_made_of(
    way: str, history: list[Any], data: st.DataObject
) -> None:
    table = RawTable()
    for actions in history:
        table.commit(*actions)
    if data.draw(st.booleans()):
        # Made of an older checkpoint and the commits after it, and with a checksum to answer to.
        table.checkpoint(data.draw(st.integers(0, table.version)), data.draw(st.sampled_from(FORMS)))
    if data.draw(st.booleans()):
        table.checksum()
    expected = table.state()
    written = write(table, way)
    assert seen(alone(table).load()) == expected
    assert written.hint.num_of_add_files == len(expected.files)
    assert (written.checksum.num_files, written.checksum.table_size_bytes) == (
        len(expected.files),
        expected.size,
    )


@given(histories(least=2, most=6), st.lists(st.sampled_from(WAYS), min_size=6, max_size=6))
def test_checkpoints_made_of_checkpoints_lose_nothing(history: list[Any], ways: list[str]) -> None:
    table = RawTable()
    for actions, way in zip(history, ways, strict=False):
        table.commit(*actions)
        write(table, way)
        alone(table)
    assert seen(table.load()) == table.state()


@pytest.mark.parametrize("way", WAYS)
def test_an_empty_table_has_a_checkpoint_too(way: str) -> None:
    table = RawTable().create(protocol=EVERYTHING)
    write(table, way)
    assert seen(alone(table).load()) == table.state()


@pytest.mark.parametrize("way", WAYS)
def test_the_snapshot_that_was_checkpointed_stands_on_it_and_goes_on(way: str) -> None:
    table = small_table(protocol=EVERYTHING)
    snapshot = table.load()
    if way == "v2-parquet":
        snapshot.stand_on(writing._write_v2(snapshot, "parquet").checkpoint)
    else:
        write_checkpoint(snapshot, policy=way.partition("-")[0])
    assert snapshot.segment.base_version == 4
    assert seen(snapshot) == table.state()
    table.commit(add("late"))
    assert seen(snapshot.update()) == table.state()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("group", [1, 3, 10])
def test_boundaries_of_row_groups_and_sidecars_lose_nothing(
    way: str, group: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.log.checkpoint.parquet_file.GROUP_ROWS", group)
    monkeypatch.setattr(writing, "SIDECAR_ACTIONS", group)
    monkeypatch.setattr(writing, "_FEW_ROWS", 2)
    monkeypatch.setattr("tidegate.log.commits.BATCH_ROWS", 4)
    table = RawTable().create(
        *(add(f"a{n}", n, stats=stats(n + 1, n, n)) for n in range(23)), protocol=EVERYTHING
    )
    table.commit(*(remove(f"a{n}", n, time=table.clock()) for n in range(0, 23, 5)), txn("app", 1))
    expected = table.state()
    written = write(table, way)
    if way != "classic":
        top = rows_of(table, top_level(table, written))
        assert len([r for r in top if "sidecar" in r]) == -(-23 // group)
    assert seen(alone(table).load()) == expected
    table.commit(add("more"))
    write(table, way)
    assert seen(alone(table).load()) == table.state()


# ---------------------------------------------------------------------------- what it holds


@pytest.mark.parametrize("way", WAYS)
def test_the_few_actions_stand_once_each(way: str) -> None:
    table = small_table(protocol=EVERYTHING)
    table.commit(txn("a", 1, 5), txn("b", 2), domain("d", "1"), domain("gone", "1", removed=True))
    written = write(table, way)
    found = rows_of(table, top_level(table, written))
    kinds = [k for row in found for k in row]
    assert kinds.count("protocol") == kinds.count("metaData") == 1
    assert sorted(r["txn"]["appId"] for r in found if "txn" in r) == ["a", "b"]
    assert [r["domainMetadata"]["domain"] for r in found if "domainMetadata" in r] == ["d"]
    if way == "classic":
        assert kinds.count("add") == 2
        assert "commitInfo" not in kinds
    else:
        assert "checkpointMetadata" in found[0]
        assert found[0]["checkpointMetadata"]["version"] == 5
        assert "add" not in kinds


@pytest.mark.parametrize("way", WAYS)
def test_in_a_checkpoint_nothing_is_a_change_of_data(way: str) -> None:
    table = small_table(protocol=EVERYTHING)
    write(table, way)
    assert set(alone(table).load().files().column("dataChange").to_pylist()) == {False}
    assert set(table.load().tombstones(expired=True).column("dataChange").to_pylist()) == {False}


def test_features_are_there_exactly_when_the_versions_want_them() -> None:
    for head, expected in (
        (protocol(1, 2), (None, None)),
        (EVERYTHING, (["deletionVectors", "v2Checkpoint"], 5)),
    ):
        table = RawTable().create(protocol=head)
        found = next(r["protocol"] for r in rows_of(table, top_level(table, write(table))) if "protocol" in r)
        assert (sorted(found["readerFeatures"]) if found["readerFeatures"] else None) == expected[0]
        assert (len(found["writerFeatures"]) if found["writerFeatures"] else None) == expected[1]


@pytest.mark.parametrize("way", WAYS)
def test_expired_tombstones_are_left_out(way: str) -> None:
    table = RawTable().create(protocol=EVERYTHING)
    now = table.clock()
    old = now - 8 * DAY
    table.commit(remove("old", time=old), remove("new", time=now), remove("undated", time=None))
    write(table, way)
    found = alone(table).load().tombstones(expired=True)
    assert found.column("path").to_pylist() == ["new"]


@pytest.mark.parametrize("way", WAYS)
def test_expired_transactions_are_left_out(way: str) -> None:
    table = RawTable().create(
        protocol=EVERYTHING, configuration={"delta.setTransactionRetentionDuration": "interval 1 days"}
    )
    now = table.clock()
    table.commit(txn("old", 1, now - 2 * DAY), txn("new", 1, now), txn("undated", 1))
    written = write(table, way)
    found = [r["txn"]["appId"] for r in rows_of(table, top_level(table, written)) if "txn" in r]
    assert sorted(found) == ["new", "undated"]


def test_a_table_without_a_schema_gets_one_without_columns() -> None:
    """As a live table of Databricks began: its first metadata has no schemaString at all."""
    table = RawTable()
    bare = metadata()
    del bare["metaData"]["schemaString"]
    table.commit(protocol(), bare)
    written = write(table)
    found = next(r["metaData"] for r in rows_of(table, top_level(table, written)) if "metaData" in r)
    assert json.loads(found["schemaString"]) == {"type": "struct", "fields": []}


# ---------------------------------------------------------------------------- statistics

TYPED = schema_string(
    column("id"),
    column("amount", "decimal(10,2)"),
    column("when", "timestamp"),
    column("nested", {"type": "struct", "fields": [column("x", "double"), column("s", "string")]}),
    column("flag", "boolean"),
    column("day", "date"),
    column("n", "integer"),
)
TYPED_STATS = {
    "numRecords": 3,
    "minValues": {
        "id": 1,
        "amount": 1.25,
        "when": "2026-01-01T00:00:00.123Z",
        "nested": {"x": 0.5, "s": "a"},
    },
    "maxValues": {
        "id": 9,
        "amount": 99.5,
        "when": "2026-01-02T00:00:00.456Z",
        "nested": {"x": 2.5, "s": "z"},
    },
    "nullCount": {"id": 0, "amount": 1, "when": 0, "nested": {"x": 0, "s": 3}, "flag": 2},
}


def typed_table(as_json: bool, as_struct: bool, **more: str) -> RawTable:
    table = RawTable().create(
        schema=TYPED,
        partitions=["day", "n"],
        protocol=EVERYTHING,
        configuration={
            "delta.checkpoint.writeStatsAsJson": str(as_json).lower(),
            "delta.checkpoint.writeStatsAsStruct": str(as_struct).lower(),
            **more,
        },
    )
    values = {"day": "2026-01-31", "n": "7"}
    table.commit(add("full", values=values, stats=json.dumps(TYPED_STATS)))
    table.commit(add("none", values={"day": None, "n": ""}))
    table.commit(add("bounds unknown", values=values, stats='{"numRecords":5}'))
    return table


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("as_struct", [True, False])
@pytest.mark.parametrize("as_json", [True, False])
def test_statistics_are_written_as_the_tables_properties_say(
    way: str, as_json: bool, as_struct: bool
) -> None:
    table = typed_table(as_json, as_struct)
    kind = add_type(table, write(table, way))
    names = [f.name for f in kind]
    assert ("stats" in names) == as_json
    assert ("stats_parsed" in names) == as_struct
    assert ("partitionValues_parsed" in names) == as_struct
    found = {f["path"]: f["stats"] for f in alone(table).load().files().to_pylist()}
    if as_json:
        assert json.loads(found["full"]) == TYPED_STATS
        assert found["none"] is None
        assert json.loads(found["bounds unknown"]) == {"numRecords": 5}
    elif as_struct:
        rendered = json.loads(found["full"])
        assert rendered["numRecords"] == 3
        assert rendered["minValues"]["id"] == 1
        assert Decimal(str(rendered["minValues"]["amount"])) == Decimal("1.25")
        assert rendered["nullCount"] == TYPED_STATS["nullCount"]
        assert json.loads(found["bounds unknown"])["numRecords"] == 5
    else:
        assert set(found.values()) == {None}


@pytest.mark.parametrize("way", WAYS)
def test_both_forms_of_statistics_are_there_by_default(way: str) -> None:
    table = small_table(protocol=EVERYTHING)
    names = [f.name for f in add_type(table, write(table, way))]
    assert {"stats", "stats_parsed"} <= set(names)
    assert "partitionValues_parsed" not in names


def file_rows(table: RawTable, written: Written) -> dict[str, dict[str, Any]]:
    names = [n for n in table.names() if n.startswith("_sidecars/")] or [top_level(table, written)]
    found = [r["add"] for n in names for r in rows_of(table, n) if "add" in r]
    return {f["path"]: f for f in found}


@pytest.mark.parametrize("way", WAYS)
def test_parsed_columns_have_the_types_of_the_table(way: str) -> None:
    table = typed_table(True, True)
    found = file_rows(table, write(table, way))
    assert found["full"]["partitionValues_parsed"] == {"day": date(2026, 1, 31), "n": 7}
    assert found["none"]["partitionValues_parsed"] == {"day": None, "n": None}
    parsed = found["full"]["stats_parsed"]
    assert parsed["numRecords"] == 3
    assert parsed["minValues"]["amount"] == Decimal("1.25")
    assert parsed["maxValues"]["nested"] == {"x": 2.5, "s": "z"}
    assert parsed["minValues"]["when"] == datetime(2026, 1, 1, 0, 0, 0, 123000, tzinfo=timezone.utc)
    assert parsed["nullCount"]["flag"] == 2
    assert "flag" not in parsed["minValues"]
    assert "day" not in parsed["minValues"]
    assert found["none"]["stats_parsed"] is None


@pytest.mark.parametrize("way", WAYS)
def test_statistics_survive_a_checkpoint_that_only_has_them_parsed(way: str) -> None:
    """Struct only, then both again: the texts are made from the columns, and prune as before."""
    table = typed_table(False, True)
    write(table, way)
    alone(table)
    both = {"delta.checkpoint.writeStatsAsJson": "true", "delta.checkpoint.writeStatsAsStruct": "true"}
    table.commit(metadata(TYPED, ["day", "n"], both))
    write(table, way)
    snapshot = alone(table).load()
    assert sorted(snapshot.files("id > 9").column("path").to_pylist()) == ["bounds unknown", "none"]
    texts = {f["path"]: f["stats"] for f in snapshot.files().to_pylist()}
    assert json.loads(texts["full"])["maxValues"]["nested"] == {"x": 2.5, "s": "z"}


def test_only_the_columns_the_table_wants_indexed_are_parsed() -> None:
    table = typed_table(True, True, **{"delta.dataSkippingStatsColumns": "nested.x, `id`"})
    parsed = add_type(table, write(table)).field("stats_parsed").type
    assert [f.name for f in parsed.field("minValues").type] == ["id", "nested"]
    assert [f.name for f in parsed.field("minValues").type.field("nested").type] == ["x"]
    table = typed_table(True, True, **{"delta.dataSkippingNumIndexedCols": "2"})
    parsed = add_type(table, write(table)).field("stats_parsed").type
    assert [f.name for f in parsed.field("minValues").type] == ["id", "amount"]


def test_mapped_columns_are_parsed_under_their_physical_names() -> None:
    columns = [
        column("id", **{"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-a"}),
        column("p", "string", **{"delta.columnMapping.id": 2, "delta.columnMapping.physicalName": "col-b"}),
    ]
    table = RawTable().create(
        add(
            "f",
            values={"col-b": "x"},
            stats='{"numRecords":1,"minValues":{"col-a":4},"maxValues":{"col-a":6},"nullCount":{"col-a":0}}',
        ),
        schema=schema_string(*columns),
        partitions=["p"],
        protocol=features("columnMapping"),
        configuration={"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"},
    )
    found = file_rows(table, write(table))["f"]
    assert found["partitionValues_parsed"] == {"col-b": "x"}
    assert found["stats_parsed"]["maxValues"] == {"col-a": 6}
    assert alone(table).load().files("id > 6").num_rows == 0
    assert table.load().files("id = 5 and p = 'x'").num_rows == 1


# ---------------------------------------------------------------------------- before and after publishing


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("lie", [{"numFiles": 3}, {"tableSizeBytes": 1}])
def test_a_checksum_that_says_otherwise_keeps_the_checkpoint_from_being_published(
    way: str, lie: dict[str, int]
) -> None:
    table = small_table(protocol=EVERYTHING)
    table.checksum(**lie)
    with pytest.raises(CheckpointCorruptError, match="not published") as caught:
        write(table, way)
    assert (caught.value.version, caught.value.table) == (4, table.store.url)
    assert not [n for n in table.names() if ".checkpoint." in n]
    assert "_last_checkpoint" not in table.names()
    assert seen(table.load()) == table.state()


@pytest.mark.parametrize("way", WAYS)
def test_the_hint_names_the_checkpoint_and_carries_its_checksum(way: str) -> None:
    table = small_table(protocol=EVERYTHING)
    written = write(table, way)
    found = hints.decode(table.bytes("_last_checkpoint"))
    assert found is not None
    assert (found.version, found.num_of_add_files, found.parts) == (4, 2, None)
    assert found.checksum == hints.checksum(json.loads(table.bytes("_last_checkpoint")))
    state = state_actions(replay(table.commits))
    extra = 0 if way == "classic" else 2  # checkpointMetadata and one sidecar
    assert found.size == sum(map(len, state)) + extra
    name = top_level(table, written)
    total = sum(len(table.bytes(n)) for n in table.names() if n == name or n.startswith("_sidecars/"))
    assert found.size_in_bytes == total


def test_the_hint_never_goes_backwards() -> None:
    table = small_table()
    write(table)
    before = table.bytes("_last_checkpoint")
    write(table, version=2)
    assert table.bytes("_last_checkpoint") == before
    publish_hint(table.load(), Hint(version=3, size=1))
    assert table.bytes("_last_checkpoint") == before
    assert seen(table.load()) == table.state()


@pytest.mark.parametrize("data", [b"garbage", b'{"version":99,"size":1,"checksum":"x"}'])
def test_a_hint_that_cannot_be_believed_is_replaced(data: bytes) -> None:
    table = small_table()
    table.put("_last_checkpoint", data)
    write(table)
    found = hints.decode(table.bytes("_last_checkpoint"))
    assert found is not None
    assert found.version == 4


def test_the_property_decides_the_form_and_only_where_the_protocol_has_it() -> None:
    v2 = {"delta.checkpointPolicy": "v2"}
    table = small_table(protocol=EVERYTHING, configuration=v2)
    assert top_level(table, write_checkpoint(table.load())).endswith(".json")
    table = small_table(protocol=EVERYTHING)
    assert top_level(table, write_checkpoint(table.load())).endswith("checkpoint.parquet")
    # A legacy protocol cannot have the feature, whatever its metadata says.
    table = small_table(protocol=protocol(1, 2), configuration=v2)
    assert top_level(table, write_checkpoint(table.load())).endswith("checkpoint.parquet")


def test_writing_a_checkpoint_again_is_no_error() -> None:
    table = small_table(protocol=EVERYTHING)
    for way in (*WAYS, *WAYS):
        write(table, way)
        assert seen(table.load()) == table.state()
    assert seen(alone(table).load()) == table.state()


@pytest.mark.parametrize("form", FORMS)
def test_a_corrupt_checkpoint_below_does_not_keep_a_new_one_from_being_written(form: str) -> None:
    table = small_table(protocol=EVERYTHING)
    bad = table.checkpoint(3, form)
    table.edit(bad[-1], lambda data: data[:30])
    write(table)
    assert seen(alone(table).load()) == table.state()


def test_a_table_this_client_may_not_write_is_not_checkpointed() -> None:
    table = small_table(protocol=features(writers=["collations-preview"]))
    with pytest.raises(UnsupportedWriterFeatureError, match="collations-preview"):
        write(table)
    assert table.names() == [f"{v:020d}.json" for v in range(5)]


# ---------------------------------------------------------------------------- other readers


@pytest.mark.peers
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("with_vectors", [False, True])
def test_delta_rs_reads_a_checkpoint_of_ours_with_the_commits_gone(
    tmp_path: Path, way: str, with_vectors: bool
) -> None:
    deltalake = require_peer("delta-rs")
    table = typed_table(True, True)
    if with_vectors:
        table.commit(
            remove("full"), add("full", values={"day": "2026-01-31", "n": "7"}, dv=vector(), stats=stats())
        )
    table.commit(txn("app", 12), remove("bounds unknown", time=table.clock()))
    table.commit(add("with space%20.parquet", 12, values={"day": "2026-02-01", "n": "8"}))
    write(table, way)
    alone(table)
    _to_disk(table, tmp_path)
    found = deltalake.DeltaTable(str(tmp_path))
    assert found.version() == table.version
    names = sorted(Path(u).name for u in found.file_uris())
    assert names == sorted(["full", "none", "with space .parquet"])
    assert found.schema().to_json() is not None
    assert found.metadata().partition_columns == ["day", "n"]
    assert found.transaction_version("app") == 12
    actions = pa.table(found.get_add_actions(flatten=True)).to_pydict()
    by_path = dict(zip(actions["path"], actions["size_bytes"], strict=True))
    assert {k: v for k, v in by_path.items() if "space" in k}.popitem()[1] == 12


def _to_disk(table: RawTable, path: Path) -> None:
    for info in table.store.list_from("", recursive=True):
        target = path / info.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(table.store.get(info.name))


@pytest.mark.peers
@pytest.mark.parametrize("way", WAYS)
def test_delta_rs_carries_on_from_a_checkpoint_of_ours(tmp_path: Path, way: str) -> None:
    """It appends to the table, and both of us see the same files afterwards."""
    deltalake = require_peer("delta-rs")
    table = RawTable.on_disk(tmp_path).create(add("a"), add("b"), protocol=features("v2Checkpoint"))
    table.commit(remove("a"))
    write(table, way)
    table.delete_commits(1)
    rows: Wire = {"id": [1, 2], "name": ["x", "y"]}
    deltalake.write_deltalake(str(tmp_path), pa.table(rows), mode="append")
    snapshot = table.load()
    assert snapshot.version == 2
    theirs = sorted(Path(u).name for u in deltalake.DeltaTable(str(tmp_path)).file_uris())
    assert sorted(snapshot.files().column("path").to_pylist()) == theirs
    assert len(theirs) == 2


def test_the_log_directory_is_where_the_dialect_says() -> None:
    table = small_table()
    write(table)
    assert all(i.name.startswith(f"{LOG}/") for i in table.store.list_from("", recursive=True))
