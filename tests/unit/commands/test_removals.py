"""Every removable feature is dropped from a table that uses it: what goes, what stays, what the rows are."""

from __future__ import annotations

import json
import uuid
from typing import Any

import msgspec
import pytest

from support.row_tables import RowTable, rewriter
from support.tables import DAY, LOG
from tidegate import errors
from tidegate.commands.drop_feature import drop_feature, plan
from tidegate.commands.drop_feature.vectors import vector_tombstones
from tidegate.commands.removes import as_removes
from tidegate.errors import DropFeatureError, FeatureInUseError
from tidegate.files.deletion_vectors import DeletionVector, relative_path
from tidegate.log.actions import Add, DomainMetadata
from tidegate.log.columns import from_batch
from tidegate.log.names import Kind
from tidegate.log.snapshot import Snapshot
from tidegate.log.verify import verify
from tidegate.protocol.delta import DELTA
from tidegate.protocol.protocol import Protocol
from tidegate.transaction.transaction import Transaction

CP = "checkpointProtection"
VECTORS = {"delta__enableDeletionVectors": "true"}
NAMES = {"delta__columnMapping__mode": "name"}
WIDE = {"delta__enableTypeWidening": "true"}


def features(snapshot: Snapshot) -> set[str]:
    return set(snapshot.protocol.features())


def sound(table: RowTable) -> None:
    """Every version that is left reads as it did, and the log proves clean."""
    for version, values in table.expected.items():
        try:
            assert table.rows(version) == values, version
        except errors.VersionNotFoundError:
            continue
    assert verify(table.log).errors == ()


def lines(table: RowTable, version: int) -> list[dict[str, Any]]:
    return [json.loads(t) for t in table.store.get(f"{LOG}/{version:020d}.json").splitlines()]


def info(table: RowTable, version: int) -> dict[str, Any]:
    return table.load(version).commit_info


# ---------------------------------------------------------------------------- deletion vectors


def with_vectors(files: int = 8, rows: int = 10) -> RowTable:
    """Some files of ten rows each, of which a fifth is deleted by vectors, a file of vectors each."""
    table = RowTable().create(**VECTORS)
    for number in range(files):
        table.append(list(range(number * rows, (number + 1) * rows)))
    for number in range(files):
        table.delete([number * rows, number * rows + 1])
    return table


def bare_removes(snapshot: Snapshot) -> list[str]:
    return sorted(p for p in snapshot.tombstones().column("path").to_pylist() if p.endswith(".bin"))


def test_vectors_are_purged_and_their_files_remembered() -> None:
    table = with_vectors()
    live = {v.name for v in table.store.list_from("") if v.name.endswith(".bin")}
    done = table.drop("deletionVectors")
    assert features(done) == {"appendOnly", "invariants", CP}
    assert "delta.enableDeletionVectors" not in done.properties
    assert done.files().column("deletionVector").null_count == done.num_files == 8
    assert len(table.rows()) == 64
    assert bare_removes(done) == sorted(live)
    assert len(live) == 8
    removes = [
        a["remove"]
        for v in range(done.version + 1)
        for a in lines(table, v)
        if "remove" in a and a["remove"]["path"].endswith(".bin")
    ]
    assert len(removes) == 8
    assert all(set(r) == {"path", "deletionTimestamp", "dataChange"} for r in removes)
    assert not any(r["dataChange"] for r in removes), "nothing for the change data feed"
    assert done.checksum is not None
    assert done.checksum.num_files == 8, "a vector's file is no file of the table"
    sound(table)


def test_vectors_purged_by_the_user_before_are_remembered_too() -> None:
    table = with_vectors(2)
    transaction = Transaction.begin(table.log)
    files = transaction.files()
    adds = rewriter(transaction, files)
    removes = as_removes(files, table.clock(), data_change=False)
    version = transaction.commit(operation="REORG", adds=adds, removes=removes).version
    table.expected[version] = table.now()
    done = table.drop("deletionVectors")
    assert len(bare_removes(done)) == 2
    sound(table)


def test_only_what_is_not_remembered_yet_is_added_by_a_second_drop() -> None:
    table = with_vectors(2)
    first = table.drop("deletionVectors")
    table.set(**VECTORS)
    table.delete([5])
    second = table.drop("deletionVectors")
    assert len(bare_removes(first)) == 2
    assert set(bare_removes(second)) > set(bare_removes(first))
    assert len(bare_removes(second)) == 3
    sound(table)


def test_no_vector_file_is_remembered_once_its_tombstone_has_expired() -> None:
    table = with_vectors(2)
    files = table.load().files()
    assert files.num_rows == 2
    transaction = Transaction.begin(table.log)
    version = transaction.commit(removes=as_removes(transaction.files(), table.clock())).version
    table.expected[version] = []
    assert vector_tombstones(table.load()).num_rows == 2
    table.clock.tick(8 * DAY)
    assert vector_tombstones(table.load()).num_rows == 0
    assert bare_removes(table.drop("deletionVectors")) == []


def test_more_vector_files_than_one_usually_commits_are_remembered_all() -> None:
    """delta-spark has another way for more than ten thousand of them; here there is one."""
    table = RowTable().create(**VECTORS)
    table.append([1])
    (found,) = from_batch(table.load().files(), Add)
    vectors = [
        DeletionVector(
            storage_type="u",
            path_or_inline_dv=relative_path(uuid.UUID(int=n)),
            offset=1,
            size_in_bytes=4,
            cardinality=1,
        )
        for n in range(10_001)
    ]
    gone = [
        msgspec.structs.replace(table._gone(found), deletion_vector=v, path=f"of-{n}")
        for n, v in enumerate(vectors)
    ]
    Transaction.begin(table.log).commit(gone)
    done = table.drop("deletionVectors")
    assert len(bare_removes(done)) == 10_001
    assert table.rows() == [1]


def test_inline_vectors_leave_no_file_to_remember() -> None:
    table = RowTable().create(**VECTORS)
    table.append(list(range(100)))
    table.delete([1, 2, 3], inline=True)
    done = table.drop("deletionVectors")
    assert (len(table.rows()), bare_removes(done)) == (97, [])
    sound(table)


def test_vectors_of_another_table_are_not_ours_to_remember() -> None:
    """A shallow clone refers to vectors by absolute paths outside of itself."""
    table = RowTable().create(**VECTORS)
    table.append([1, 2, 3])
    snapshot = table.load()
    (found,) = from_batch(snapshot.files(), Add)
    for path, count in (("s3://elsewhere/x.bin", 0), (f"{table.log.url}deletion_vector_x.bin", 1)):
        vector = DeletionVector(
            storage_type="p", path_or_inline_dv=path, offset=1, size_in_bytes=4, cardinality=1
        )
        gone = msgspec.structs.replace(table._gone(found), deletion_vector=vector, path=f"of-{count}")
        Transaction.begin(table.log).commit([gone])
        assert vector_tombstones(table.load()).num_rows == count


def blind_vacuum(table: RowTable) -> None:
    """The VACUUM of a client that knows nothing of vectors: what no add and no tombstone names goes."""
    snapshot = table.load()
    named = {
        p for files in (snapshot.files(), snapshot.tombstones()) for p in files.column("path").to_pylist()
    }
    idle = [n for n in table.names() if not n.startswith("_") and n not in named]
    table.store.delete(idle)


@pytest.mark.parametrize("remembered", [True, False])
def test_a_vacuum_that_knows_no_vectors_keeps_their_files_only_for_their_tombstones(
    remembered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidegate.commands.drop_feature import vectors

    table = RowTable().create(**VECTORS)
    table.append(list(range(100)))
    old = table.delete(list(range(10)))
    if not remembered:
        monkeypatch.setattr(vectors, "keep_vector_files", lambda work: None)
    table.drop("deletionVectors")
    blind_vacuum(table)
    assert len(table.rows()) == 90
    if remembered:
        assert table.rows(old) == table.expected[old] == list(range(10, 100))
    else:
        with pytest.raises(errors.DVFileMissingError):
            table.rows(old)


def test_after_a_truncation_that_had_to_wait_vector_files_are_remembered_too() -> None:
    table = with_vectors(2)
    with pytest.raises(errors.WaitForRetentionError):
        table.drop("deletionVectors", True)
    assert len(bare_removes(table.load())) == 2
    table.clock.tick(DAY + 300_000)
    done = table.drop("deletionVectors", True)
    assert done.protocol == Protocol(1, 2)
    sound(table)


def test_a_table_that_only_may_have_vectors_needs_nobody_who_rewrites() -> None:
    table = RowTable().create(**VECTORS)
    table.append([1, 2, 3])
    done = drop_feature(table.log, "deletionVectors").snapshot
    assert "deletionVectors" not in features(done)
    assert table.rows() == [1, 2, 3]


@pytest.mark.parametrize(
    ("prepare", "name"),
    [
        (lambda t: (t.set(**VECTORS), t.delete([1])), "deletionVectors"),
        (lambda t: (t.set(**NAMES), t.rename("other")), "columnMapping"),
        (lambda t: (t.set(**WIDE), t.widen()), "typeWidening"),
    ],
    ids=["vectors", "mapping", "widening"],
)
def test_what_must_be_rewritten_is_refused_without_a_rewriter_before_anything_is_done(
    prepare: Any, name: str
) -> None:
    table = RowTable().create()
    table.append([1, 2, 3])
    prepare(table)
    before = table.names()
    told = plan(table.load(), name)
    assert (told.files, told.needs_spark) == (1, True)
    assert told.bytes > 0
    with pytest.raises(FeatureInUseError, match=r"1 files of \d+ bytes must be rewritten.*Spark"):
        drop_feature(table.log, name)
    assert table.names() == before


# ---------------------------------------------------------------------------- column mapping


def test_files_are_rewritten_under_the_names_that_users_see() -> None:
    table = RowTable().create(**NAMES)
    table.append([1, 2])
    table.rename("number")
    table.append([3])
    done = table.drop("columnMapping")
    assert features(done) == {"appendOnly", "invariants", CP}
    assert done.schema.fields[0].metadata == {}
    assert not [k for k in done.properties if "columnMapping" in k]
    assert done.num_files == 2
    assert "REMOVE COLUMN MAPPING" in [h["operation"] for h in done.history()]
    sound(table)


def test_mapping_that_was_switched_on_and_never_used_leaves_the_files_alone() -> None:
    table = RowTable().create()
    table.append([1, 2])
    table.set(**NAMES)
    before = table.load().files().column("path").to_pylist()
    assert plan(table.load(), "columnMapping").files == 0
    done = drop_feature(table.log, "columnMapping").snapshot
    assert done.files().column("path").to_pylist() == before
    assert table.rows() == [1, 2]
    assert done.schema.fields[0].metadata == {}


def test_a_column_that_was_dropped_is_still_in_the_files_and_must_not_come_back() -> None:
    table = RowTable().create()
    table.append([1])
    table.set(**NAMES, delta__columnMapping__maxColumnId="2")
    assert plan(table.load(), "columnMapping").files == 1


def test_names_that_only_mapping_allows_are_refused_by_name() -> None:
    table = RowTable().create(**NAMES)
    table.rename("a column (new)")
    before = table.names()
    with pytest.raises(FeatureInUseError, match=r"a column \(new\)") as e:
        table.drop("columnMapping")
    assert e.value.errorClass == "DELTA_INVALID_COLUMN_NAMES_WHEN_REMOVING_COLUMN_MAPPING"
    assert table.names() == before


# ---------------------------------------------------------------------------- type widening


@pytest.mark.parametrize("name", ["typeWidening", "typeWidening-preview"])
def test_only_files_with_the_narrower_type_are_rewritten(name: str) -> None:
    table = RowTable().create(**{f"delta__feature__{name}": "supported"}, **WIDE)
    table.append([1, 2])
    table.widen()
    table.append([2**40])
    told = plan(table.load(), name)
    kept = table.load().files("id > 100").column("path").to_pylist()
    done = table.drop(name)
    assert told.files == 1
    assert set(kept) <= set(done.files().column("path").to_pylist())
    assert features(done) == {"appendOnly", "invariants", CP}
    assert done.schema.fields[0].metadata == {}
    assert str(done.schema.fields[0].type) == "long"
    assert "delta.enableTypeWidening" not in done.properties
    sound(table)


def test_a_change_that_no_file_remembers_is_taken_out_of_the_schema_alone() -> None:
    table = RowTable().create(**WIDE)
    table.widen()
    table.append([2**40])
    done = drop_feature(table.log, "typeWidening").snapshot
    assert done.schema.fields[0].metadata == {}
    assert table.rows() == [2**40]


# ---------------------------------------------------------------------------- checkpoints with sidecars


def test_v2_checkpoints_give_way_to_classic_ones() -> None:
    table = RowTable().create(delta__checkpointPolicy="v2", delta__checkpointInterval="2")
    table.append([1])
    table.append([2])
    assert table.load().segment.checkpoint.kind is Kind.V2  # type: ignore[union-attr]
    done = table.drop("v2Checkpoint")
    assert features(done) == {"appendOnly", "invariants", CP}
    assert done.properties["delta.checkpointPolicy"] == "classic"
    assert table.load().segment.checkpoint.kind is Kind.CLASSIC  # type: ignore[union-attr]
    sound(table)


def test_truncation_waits_until_no_v2_checkpoint_is_left() -> None:
    table = RowTable().create(delta__checkpointPolicy="v2", delta__checkpointInterval="2")
    table.append([1])
    table.append([2])
    table.set(delta__checkpointPolicy="classic")
    table.clock.tick(2 * DAY)
    with pytest.raises(errors.WaitForRetentionError):
        table.drop("v2Checkpoint", True)
    table.clock.tick(2 * DAY)
    assert table.drop("v2Checkpoint", True).protocol == Protocol(1, 2)
    assert not [n for n in table.names() if ".checkpoint." in n and n.endswith(".json")]
    sound(table)


# ---------------------------------------------------------------------------- settings


def test_row_ids_are_taken_from_every_file_and_the_mark_from_the_table() -> None:
    table = RowTable().create(delta__enableRowTracking="true")
    for number in range(3):
        table.append([number])
    assert table.load().files().column("baseRowId").null_count == 0
    done = table.drop("rowTracking")
    files = done.files()
    assert files.column("baseRowId").null_count == files.num_rows == 3
    assert files.column("defaultRowCommitVersion").null_count == 3
    assert not [k for k in done.properties if "row" in k.lower() and "Tracking" in k]
    assert (dict(done.domains), features(done)) == ({}, {"appendOnly", "domainMetadata", "invariants"})
    operations = [h["operation"] for h in done.history()]
    assert operations[:3] == ["DROP FEATURE", "ROW TRACKING UNBACKFILL", "SET TBLPROPERTIES"]
    table.append([9])
    assert table.drop("domainMetadata").protocol == Protocol(1, 2)
    sound(table)


def test_many_files_lose_their_row_ids_in_several_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    from tidegate.commands.drop_feature import rows

    monkeypatch.setattr(rows, "BATCH", 2)
    table = RowTable().create(delta__enableRowTracking="true")
    for number in range(5):
        table.append([number])
    told = plan(table.load(), "rowTracking")
    before = table.load().version
    done = table.drop("rowTracking")
    assert told.commits == done.version - before == 1 + 3 + 1
    sound(table)


def test_domains_that_nobody_owns_any_more_are_closed() -> None:
    table = RowTable().create(delta__feature__domainMetadata="supported")
    for name in ("user.a", "user.b"):
        Transaction.begin(table.log).commit([DomainMetadata(domain=name, configuration="{}")])
    done = table.drop("domainMetadata")
    assert (dict(done.domains), done.protocol) == ({}, Protocol(1, 2))


def test_in_commit_timestamps_end_with_their_provenance() -> None:
    table = RowTable().create()
    table.append([1])
    table.set(delta__enableInCommitTimestamps="true")
    assert "delta.inCommitTimestampEnablementVersion" in table.load().properties
    table.append([2])
    done = table.drop("inCommitTimestamp")
    assert not [k for k in done.properties if "CommitTimestamp" in k]
    assert done.protocol == Protocol(1, 2)
    assert "inCommitTimestamp" not in done.commit_info
    sound(table)


def test_check_constraints_are_the_users_and_stay() -> None:
    table = RowTable().create(delta__constraints__positive="id > 0")
    before = table.names()
    with pytest.raises(DropFeatureError, match=r"positive \(id > 0\)") as e:
        table.drop("checkConstraints")
    assert e.value.errorClass == "DELTA_CANNOT_DROP_CHECK_CONSTRAINT_FEATURE"
    assert table.names() == before
    transaction = Transaction.begin(table.log)
    transaction.update_metadata(transaction.metadata.with_configuration({}))
    transaction.commit(operation="DROP CONSTRAINT")
    assert table.drop("checkConstraints").protocol == Protocol(1, 2)


def test_the_check_by_vacuum_goes_behind_protection() -> None:
    table = RowTable().create(delta__feature__vacuumProtocolCheck="supported")
    assert features(table.drop("vacuumProtocolCheck")) == {"appendOnly", "invariants", CP}


def test_materialized_partition_columns_go_with_their_property() -> None:
    table = RowTable().create(delta__enableMaterializePartitionColumnsFeature="true")
    assert "materializePartitionColumns" in features(table.load())
    done = table.drop("materializePartitionColumns")
    assert (done.protocol, dict(done.properties)) == (Protocol(1, 2), {})


def test_every_removable_feature_that_is_written_here_has_its_removal() -> None:
    from tidegate.commands.drop_feature import REMOVALS

    wanted = {r.name for r in DELTA if r.removable and r.readable and r.writable}
    assert set(REMOVALS) == wanted
