"""Protocol versions of index tables: who gets through, who is told what, and how a table's version rises."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.index_tables import (
    SCHEMA,
    V2,
    RawIndex,
    adds,
    created,
    handmade,
    legacy,
    metadata,
    old_client,
    paths,
    protocol,
    skip,
    split,
)
from tidegate.errors import (
    InvalidProtocolError,
    ProtocolDowngradeException,
    ProtocolVersionException,
    StorageError,
    TidegateError,
    UnsupportedFormatError,
)
from tidegate.index.log import IndexLog
from tidegate.index.snapshot import IndexSnapshot
from tidegate.protocol import indextables
from tidegate.protocol.indextables import INDEX, raised
from tidegate.protocol.protocol import Protocol

READS: dict[str, Callable[[IndexLog], Any]] = {
    "listing": lambda log: log.snapshot().files(),
    "filtered listing": lambda log: log.snapshot().files("id > 3"),
    "counting": lambda log: log.snapshot().num_files,
    "skips": lambda log: log.snapshot().skips,
    "time travel": lambda log: log.snapshot(version=log_version(log)).files(),
    "describing": lambda log: log.describe(),
}
WRITES: dict[str, Callable[[IndexLog], Any]] = {
    "adding": lambda log: log.append(adds("new.split")),
    "adding nothing": lambda log: log.append(adds()),
    "overwriting": lambda log: log.overwrite(adds("new.split")),
    "removing": lambda log: log.remove(["old.split"]),
    "merging": lambda log: log.replace(["old.split"], adds("merged.split")),
    "dropping partitions": lambda log: log.drop_partitions("day = '1'"),
    "skipping": lambda log: log.skip("old.split", "bad"),
    "metadata": lambda log: log.update_metadata(lambda m: m.with_configuration({"a": "b"})),
    "checkpoint": lambda log: log.checkpoint(),
    "truncating": lambda log: log.truncate_history(),
    "purging": lambda log: log.purge(),
    "upgrading": lambda log: log.upgrade_protocol(2, 2),
}


def one(path: str, **more: Any) -> Any:
    """An add for the tables of ``table_of``."""
    return adds(split(path, {"day": "1"}, **more))


def log_version(log: IndexLog) -> int:
    return max(log.log.listing().commits)


def table_of(*first: dict[str, Any]) -> RawIndex:
    table = handmade(*first, metadata(["day"]))
    table.commit({"add": split("old.split", {"day": "1"})})
    return table


# ---------------------------------------------------------------------------- new tables


def test_a_new_table_is_of_version_2_and_says_so_before_its_metadata() -> None:
    table = created()
    assert table.keys(0) == ["protocol", "metaData"]
    assert table.lines(0)[0] == protocol(2, 2)
    assert table.lines(0)[1]["metaData"]["format"] == {"provider": "indextables", "options": {}}
    assert table.log().snapshot().protocol == Protocol(2, 2)


def test_readers_do_not_mind_the_order_of_protocol_and_metadata() -> None:
    assert handmade(metadata(), protocol(2, 2)).log().snapshot().protocol == Protocol(2, 2)


def test_creating_where_there_is_a_table_writes_nothing() -> None:
    table = table_of(protocol(1, 1))
    before = table.names()
    found = table.log().create(SCHEMA, ["day"], {"other": "true"})
    assert (found.version, table.names()) == (1, before)
    assert found.protocol == Protocol(1, 1)


def test_a_partition_column_that_the_schema_lacks_is_refused() -> None:
    with pytest.raises(TidegateError, match="nowhere"):
        RawIndex().log().create(SCHEMA, ["nowhere"])


@pytest.mark.parametrize("provider", ["indextables", "tantivy4spark"])
def test_both_names_of_the_format_are_read(provider: str) -> None:
    assert handmade(protocol(), metadata(provider=provider)).log().snapshot().num_files == 0


def test_another_format_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedFormatError, match="parquet") as caught:
        handmade(protocol(), metadata(provider="parquet")).log().snapshot()
    assert caught.value.code == "UNSUPPORTED_FORMAT"


# ---------------------------------------------------------------------------- the gate


@pytest.mark.parametrize("operation", [*READS, *WRITES])
def test_no_operation_passes_a_reader_version_that_is_too_high(operation: str) -> None:
    table = table_of(protocol(999, 999))
    before = table.names()
    with pytest.raises(ProtocolVersionException, match="requires reader version 999"):
        {**READS, **WRITES}[operation](table.log())
    assert table.names() == before


@pytest.mark.parametrize("operation", WRITES)
def test_a_writer_version_that_is_too_high_refuses_every_write(operation: str) -> None:
    table = table_of(protocol(2, 999))
    before = table.names()
    with pytest.raises(ProtocolVersionException, match="requires writer version 999") as caught:
        WRITES[operation](table.log())
    assert caught.value.code == "UNSUPPORTED_WRITER_VERSION"
    assert table.names() == before


@pytest.mark.parametrize("operation", READS)
def test_a_writer_version_that_is_too_high_leaves_readers_alone(operation: str) -> None:
    READS[operation](table_of(protocol(2, 999)).log())


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_versions_that_this_client_supports_are_read_and_written(version: int) -> None:
    table = table_of(protocol(version, version))
    assert paths(table.log().snapshot()) == ["old.split"]
    assert paths(table.log().append(one("new.split"))) == ["new.split", "old.split"]


def test_version_4_is_refused_and_its_feature_named() -> None:
    table = table_of(protocol(4, 4, readerFeatures=["avroState"], writerFeatures=["avroState"]))
    with pytest.raises(ProtocolVersionException, match="requires reader version 4") as caught:
        table.log().snapshot()
    assert "readerFeatures = avroState" in str(caught.value)


def test_a_log_whose_state_is_in_avro_files_alone_is_refused_as_version_4() -> None:
    table = RawIndex()
    table.put("_last_checkpoint", b'{"version":7,"size":3,"format":"avro-state","stateDir":"state-v7"}')
    table.put("00000000000000000008.json", b'{"add":{}}\n')
    with pytest.raises(ProtocolVersionException, match="requires reader version 4"):
        table.log().snapshot()


def test_versions_below_1_are_not_legal() -> None:
    with pytest.raises(InvalidProtocolError):
        table_of(protocol(0, 1)).log().snapshot()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_unknown_reader_feature_refuses_reads_by_name_at_any_version(version: int) -> None:
    table = table_of(protocol(version, version, readerFeatures=["timeTurner", "skippedFiles", "abacus"]))
    with pytest.raises(ProtocolVersionException) as caught:
        table.log().snapshot()
    assert "Table requires unsupported reader features: abacus, timeTurner" in str(caught.value)
    assert caught.value.code == "UNSUPPORTED_READER_FEATURE"


def test_an_unknown_writer_feature_refuses_writes_and_leaves_reads_alone() -> None:
    table = table_of(protocol(2, 2, writerFeatures=["skippedFiles", "timeTurner"]))
    assert paths(table.log().snapshot()) == ["old.split"]
    with pytest.raises(ProtocolVersionException) as caught:
        table.log().append(adds("new.split"))
    assert "Table requires unsupported writer features: timeTurner" in str(caught.value)
    assert caught.value.code == "UNSUPPORTED_WRITER_FEATURE"
    assert table.version == 1


def test_the_refusal_is_a_page_that_says_what_is_asked_what_there_is_and_what_to_do() -> None:
    table = table_of(protocol(999, 998))
    with pytest.raises(ProtocolVersionException) as caught:
        table.log().snapshot()
    error = caught.value
    assert isinstance(error, TidegateError)
    assert isinstance(error, RuntimeError)
    assert error.code == "UNSUPPORTED_READER_VERSION"
    lines = str(error).splitlines()
    assert "memory://index" in lines[0]
    assert "requires reader version 999" in lines[0]
    asked, have = (
        lines.index("This table requires:"),
        next(i for i, line in enumerate(lines) if line.startswith("Your current version")),
    )
    assert lines[asked + 1 : asked + 3] == ["  minReaderVersion = 999", "  minWriterVersion = 998"]
    assert lines[have + 1 : have + 3] == ["  readerVersion = 3", "  writerVersion = 3"]
    assert "upgrade" in lines[-2]
    assert lines[-1] == "See: docs/protocol-versions.md"


def test_the_refusal_survives_the_way_from_an_executor() -> None:
    with pytest.raises(ProtocolVersionException) as caught:
        table_of(protocol(999, 999)).log().snapshot()
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), again.code, str(again)) == (
        ProtocolVersionException,
        caught.value.code,
        str(caught.value),
    )


def test_the_check_can_be_switched_off_and_then_warns(caplog: pytest.LogCaptureFixture) -> None:
    table = table_of(protocol(999, 999))
    log = table.log(protocol__checkEnabled=False)
    with caplog.at_level(logging.WARNING):
        assert paths(log.snapshot()) == ["old.split"]
    assert "requires reader version 999" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        assert log.append(one("new.split")).version == 2
    assert "requires writer version 999" in caplog.text
    assert log.snapshot().protocol == Protocol(999, 999)


def test_a_warm_snapshot_answers_the_check_without_any_storage() -> None:
    table = created()
    snapshot = table.log().append(adds("a.split"))
    log = table.log()
    held = log.snapshot()
    table.store.journal.clear()
    held.check_readable()
    log.check_writable(held)
    assert held.protocol == snapshot.protocol
    assert table.store.journal == []


def test_an_unchanged_protocol_costs_an_update_no_read_of_its_own() -> None:
    table = created()
    for n in range(3):
        table.log().append(adds(f"{n}.split"))
    log = table.log()
    log.snapshot().files()
    table.log(store=table.store.handle()).append(adds("more.split"))
    table.store.journal.clear()
    log.snapshot().check_readable()
    reads = [o.name for o in table.store.journal if o.op == "get"]
    assert reads == [
        "_transaction_log/00000000000000000004.json",
        "_transaction_log/00000000000000000005.json",
    ]


# ---------------------------------------------------------------------------- old and new clients


@pytest.mark.parametrize(
    ("client", "table", "reads", "writes"),
    [(1, 1, True, True), (1, 2, False, False), (2, 1, True, True), (2, 2, True, True), (2, 3, False, False)],
)
def test_the_compatibility_matrix(client: int, table: int, reads: bool, writes: bool) -> None:
    raw = table_of(protocol(table, table))
    log = raw.log(old_client(client))
    for allowed, operation in (
        (reads, lambda: log.snapshot().files()),
        (writes, lambda: log.append(one("new.split"))),
    ):
        if allowed:
            operation()
        else:
            with pytest.raises(ProtocolVersionException, match=f"version {table}"):
                operation()


def test_an_old_client_is_shut_out_by_the_first_feature_a_new_one_uses() -> None:
    """End to end: both work on a table of version 1 until the new one needs version 2."""
    raw = table_of(protocol(1, 1))
    old, new = raw.log(old_client(1)), raw.log()
    old.append(one("by-old.split"))
    new.append(one("by-new.split"))
    assert old.snapshot().protocol == Protocol(1, 1)
    new.append(one("with-footer.split", **V2))
    with pytest.raises(ProtocolVersionException, match="requires reader version 2"):
        old.snapshot()
    with pytest.raises(ProtocolVersionException):
        old.append(one("again.split"))


# ---------------------------------------------------------------------------- legacy tables


def test_a_table_without_a_protocol_is_of_version_1_and_that_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    table = legacy()
    table.store._url = "memory://said-once"
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            found = table.log().snapshot()
            assert (found.protocol, found.is_legacy) == (Protocol(1, 1), True)
            assert paths(found) == ["old.split"]
    said = [r for r in caplog.records if "defaulting to version 1" in r.getMessage()]
    assert len(said) == 1
    assert "upgradeProtocol" in said[0].getMessage()


FIRST_WRITES = {
    "adding": lambda log: log.append(adds("new.split")),
    "overwriting": lambda log: log.overwrite(adds("new.split")),
    "removing": lambda log: log.remove(["old.split"]),
    "merging": lambda log: log.replace(["old.split"], adds("merged.split")),
    "skipping": lambda log: log.skip("old.split", "bad"),
    "metadata": lambda log: log.update_metadata(lambda m: m.with_configuration({"a": "b"})),
}


@pytest.mark.parametrize("name", FIRST_WRITES)
def test_the_first_write_of_any_kind_adds_the_protocol_in_its_own_commit(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    table = legacy()
    with caplog.at_level(logging.INFO):
        found = FIRST_WRITES[name](table.log())
    assert found.version == 2
    assert table.lines(2)[0] == protocol(2, 2)
    assert len(table.lines(2)) >= 2
    assert found.protocol == Protocol(2, 2)
    assert not found.is_legacy
    assert any("first write of a legacy table" in r.getMessage() for r in caplog.records)
    assert table.log().append(adds("second.split")).version == 3
    assert table.keys(3) == ["add"]


def test_an_explicit_version_1_is_not_legacy_and_stays_as_it_is() -> None:
    table = table_of(protocol(1, 1))
    assert not table.log().snapshot().is_legacy
    table.log().append(adds(split("new.split", {"day": "1"})))
    assert table.keys(2) == ["add"]
    assert table.log().snapshot().protocol == Protocol(1, 1)


def test_a_checkpoint_of_a_legacy_table_holds_no_protocol() -> None:
    table = legacy()
    table.log().checkpoint()
    assert table.keys("00000000000000000001.checkpoint.json") == ["metaData", "add"]
    for version in (0, 1):
        table.store.delete([f"_transaction_log/{version:020d}.json"])
    found = table.log().snapshot()
    assert found.is_legacy
    table.log().append(adds("new.split"))
    assert table.keys(2) == ["protocol", "add"]


# ---------------------------------------------------------------------------- raising


@pytest.mark.parametrize("field", [
    {"footerStartOffset": 1},
    {"hasFooterOffsets": True},
    {"hotcacheLength": 4},
    {"timeRangeStart": "2024-01-01T00:00:00Z"},
    {"splitTags": ["env:test"]},
    {"deleteOpstamp": 0},
    {"numMergeOps": 1},
    {"docMappingJson": "[]"},
    {"uncompressedSizeBytes": 9},
    {"companionSourceFiles": ["a.parquet"]},
    {"companionDeltaVersion": 3},
])  # fmt: skip
def test_a_field_of_version_2_raises_a_table_of_version_1_in_the_same_commit(field: dict[str, Any]) -> None:
    table = handmade(protocol(1, 1), metadata())
    table.log().append(adds(split("new.split", **field)))
    assert table.keys(1) == ["protocol", "add"]
    assert table.lines(1)[0] == protocol(2, 2)


def test_fields_of_version_1_raise_nothing() -> None:
    table = handmade(protocol(1, 1), metadata())
    table.log().append(
        adds(split("new.split", stats="{}", minValues={"id": "1"}, maxValues={"id": "2"}, tags={"a": "b"}))
    )
    assert table.keys(1) == ["add"]


def test_a_skip_raises_a_table_of_version_1_in_the_same_commit() -> None:
    table = table_of(protocol(1, 1))
    assert table.log().skip("old.split", "bad").protocol == Protocol(2, 2)
    assert table.keys(2) == ["protocol", "skip"]


def test_raising_keeps_the_features_that_are_there() -> None:
    table = table_of(protocol(1, 2, writerFeatures=["checkpoint"]))
    table.log().skip("old.split", "bad")
    assert table.lines(2)[0] == protocol(2, 2, writerFeatures=["checkpoint"])


@pytest.mark.parametrize(
    ("before", "asked", "after"),
    [
        ((1, 1), (2, 2), (2, 2)),
        ((1, 1), (1, 2), (1, 2)),
        ((2, 1), (1, 2), (2, 2)),
        ((2, 2), (1, 1), (2, 2)),
        ((2, 2), (2, 2), (2, 2)),
        ((2, 2), (3, 3), (3, 3)),
    ],
)
def test_an_upgrade_takes_the_maximum_and_commits_only_what_rises(
    before: tuple[int, int], asked: tuple[int, int], after: tuple[int, int]
) -> None:
    table = table_of(protocol(*before))
    found = table.log().upgrade_protocol(*asked).protocol
    assert (found.min_reader_version, found.min_writer_version) == after
    assert table.version == (1 if after == before else 2)


def test_version_3_is_written_with_its_lists() -> None:
    table = table_of(protocol(2, 2))
    table.log().upgrade_protocol(3, 3)
    body = table.lines(2)[0]["protocol"]
    assert body["readerFeatures"] == ["extendedMetadata", "footerOffsets", "skippedFiles"]
    assert body["writerFeatures"] == [
        "checkpoint", "extendedMetadata", "footerOffsets", "optimizeWrite", "skippedFiles",
    ]  # fmt: skip


@pytest.mark.parametrize("asked", [(4, 2), (2, 4), (999, 999)])
def test_an_upgrade_to_what_this_client_does_not_support_is_refused(asked: tuple[int, int]) -> None:
    table = created()
    with pytest.raises(ProtocolVersionException):
        table.log().upgrade_protocol(*asked)
    assert table.version == 0


def test_an_upgrade_says_its_result(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        table_of(protocol(1, 2)).log().upgrade_protocol(2, 1)
    assert any("upgraded protocol to reader=2, writer=2" in r.getMessage() for r in caplog.records)


def test_a_legacy_table_is_upgraded_by_hand_too() -> None:
    table = legacy()
    assert table.log().upgrade_protocol(2, 2).protocol == Protocol(2, 2)
    assert table.keys(2) == ["protocol"]


def test_a_transaction_cannot_bring_a_protocol_down() -> None:
    log = table_of(protocol(2, 2)).log()
    txn = log.transaction(log.snapshot())
    with pytest.raises(ProtocolDowngradeException):
        txn.update_protocol(Protocol(1, 2))


# ---------------------------------------------------------------------------- autoUpgrade off


def test_without_auto_upgrade_a_legacy_table_gets_no_protocol_and_fields_of_version_1_only() -> None:
    table = legacy()
    table.log(protocol__autoUpgrade=False).append(adds(split("new.split", docMappingJson="[]", **V2)))
    assert table.lines(2) == [{"add": split("new.split")}]
    assert table.log().snapshot().is_legacy


def test_without_auto_upgrade_a_skip_is_not_recorded_on_version_1(caplog: pytest.LogCaptureFixture) -> None:
    table = table_of(protocol(1, 1))
    with caplog.at_level(logging.WARNING):
        assert table.log(protocol__autoUpgrade=False).skip("old.split", "bad").version == 1
    assert table.version == 1
    assert "not recorded" in caplog.text


def test_without_auto_upgrade_a_table_of_version_2_keeps_all_it_may_hold() -> None:
    table = created(protocol__autoUpgrade=False)
    log = table.log(protocol__autoUpgrade=False)
    log.append(adds(split("new.split", **V2)))
    assert table.lines(1) == [{"add": split("new.split", **V2)}]
    log.skip("new.split", "bad")
    assert table.keys(2) == ["skip"]


def test_without_auto_upgrade_an_upgrade_is_a_logged_no_op(caplog: pytest.LogCaptureFixture) -> None:
    table = table_of(protocol(1, 1))
    with caplog.at_level(logging.INFO):
        assert table.log(protocol__autoUpgrade=False).upgrade_protocol(2, 2).protocol == Protocol(1, 1)
    assert table.version == 1
    assert "autoUpgrade is off" in caplog.text


# ---------------------------------------------------------------------------- checkpoints and history


def test_the_last_protocol_wins() -> None:
    table = table_of(protocol(1, 1))
    table.commit(protocol(2, 2))
    table.commit(protocol(2, 3))
    assert table.log().snapshot().protocol == Protocol(2, 3)
    assert table.log().snapshot(version=2).protocol == Protocol(2, 2)
    assert table.log().snapshot(version=1).protocol == Protocol(1, 1)


def test_every_checkpoint_holds_the_protocol_whole_and_it_outlives_version_0() -> None:
    table = handmade(protocol(2, 3, writerFeatures=["checkpoint", "skippedFiles"]), metadata())
    log = table.log(checkpoint__interval=3)
    for n in range(5):
        log.append(adds(f"{n}.split"))
    checkpoint = next(n for n in table.names() if n.endswith(".checkpoint.json"))
    assert table.lines(checkpoint)[0] == protocol(2, 3, writerFeatures=["checkpoint", "skippedFiles"])
    log.truncate_history()
    assert "00000000000000000000.json" not in table.names()
    found = table.log().snapshot()
    assert found.protocol == Protocol(2, 3, None, frozenset({"checkpoint", "skippedFiles"}))
    assert len(paths(found)) == 5


def test_a_checkpoint_of_a_table_of_version_2_does_not_raise_it() -> None:
    table = created()
    table.log().append(adds("a.split"))
    done = table.log().checkpoint()
    assert (done.protocol_version, done.is_multi_part) == (2, False)
    assert table.log().snapshot().protocol == Protocol(2, 2)


# ---------------------------------------------------------------------------- the algebra

names = st.sampled_from(["skippedFiles", "footerOffsets", "checkpoint", "multiPartCheckpoint", "x", "y"])
protocols = st.builds(
    Protocol,
    st.integers(1, 4),
    st.integers(1, 4),
    st.none() | st.frozensets(names),
    st.none() | st.frozensets(names),
)


@given(protocols, protocols)
def test_raising_asks_for_at_least_what_either_asks_for(a: Protocol, b: Protocol) -> None:
    up = raised(a, b)
    for p in (a, b):
        assert up.min_reader_version >= p.min_reader_version
        assert up.min_writer_version >= p.min_writer_version
        assert (up.reader_features or frozenset()) >= (p.reader_features or frozenset())
        assert (up.writer_features or frozenset()) >= (p.writer_features or frozenset())


@given(protocols, protocols)
def test_raising_twice_raises_no_more(a: Protocol, b: Protocol) -> None:
    up = raised(a, b)
    assert raised(up, b) is up
    assert raised(up, a) is up
    assert raised(a, a) is a


@given(protocols)
def test_whoever_may_write_may_read(p: Protocol) -> None:
    try:
        INDEX.check_write(p)
    except ProtocolVersionException:
        return
    INDEX.check_read(p)


@pytest.mark.parametrize(
    ("features", "version"),
    [
        ((), 2),
        (("skippedFiles",), 2),
        (("multiPartCheckpoint",), 3),
        (("skippedFiles", "schemaDeduplication"), 3),
        (("avroState",), 4),
    ],
)
def test_the_reader_version_that_features_need(features: tuple[str, ...], version: int) -> None:
    assert indextables.minimum_reader(features) == version


def test_a_skip_by_another_writer_needs_no_protocol_to_be_read() -> None:
    table = handmade(protocol(1, 1), metadata())
    table.commit(skip("a.split"))
    assert set(table.log().snapshot().skips) == {"a.split"}


def test_the_page_that_errors_point_to_is_there_and_names_every_feature_and_setting() -> None:
    page = (Path(__file__).resolve().parents[3] / indextables.DOCS).read_text()
    assert [row.name for row in INDEX if f"`{row.name}`" not in page] == []
    for key in ("protocol.checkEnabled", "protocol.autoUpgrade", "transaction.compression.enabled"):
        assert f"spark.indextables.{key}" in page


def test_a_commit_whose_fate_is_unknown_is_told_in_words_that_fit() -> None:
    table = created()
    log = table.log()
    log.snapshot()

    def lost(op: str, name: str) -> None:
        if op in ("put_if_absent", "get") and name.endswith("00000000000000000001.json"):
            raise StorageError("The network is gone.")

    log.append(adds())
    table.store.hook = lost
    snapshot = log._latest
    assert snapshot is not None
    with pytest.raises(StorageError) as caught:
        log.transaction(IndexSnapshot(snapshot)).commit(adds=adds("a.split"))
    assert "it holds your files" in str(caught.value)
