"""The proof of a log: what is sound verifies clean, and each kind of damage is found where it is."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from support.tables import (
    DAY,
    FORMS,
    PARTITIONED,
    RawTable,
    Wire,
    add,
    checkpoint_bytes,
    commit_info,
    domain,
    features,
    lines,
    metadata,
    protocol,
    remove,
    small_table,
    state_actions,
    stats,
    txn,
    vector,
)
from tidegate.errors import (
    NotATableError,
    ProtocolError,
    StorageError,
    TidegateError,
    UnsupportedReaderFeatureError,
    UnsupportedReaderVersionError,
    VersionNotFoundError,
)
from tidegate.files import deletion_vectors
from tidegate.log import names
from tidegate.log.checksum import BOUNDARIES
from tidegate.log.table_log import TableLog
from tidegate.log.verify import Finding, Report, verify, walk
from tidegate.log.verify.report import MAX_OF_A_CODE
from tidegate.log.verify.state import State

VECTORS = features("deletionVectors", writers=["appendOnly", "invariants", "domainMetadata"])


def proven(table: RawTable, **options: Any) -> Report:
    return verify(table.log, **{"data": False, **options})


def only(report: Report) -> Finding:
    """The one finding of a report."""
    assert len(report.findings) == 1, report.findings
    return report.findings[0]


def codes(report: Report) -> set[str]:
    return {f.code for f in report.findings}


def with_files(table: RawTable) -> RawTable:
    """Bytes of the recorded size for every live file."""
    for file in table.state().files.values():
        table.store.put(file["path"], b"x" * file["size"])
    return table


def full_table() -> RawTable:
    """A table of eight versions that has a bit of everything in its log."""
    table = RawTable().create(protocol=VECTORS, schema=PARTITIONED, partitions=["day"])
    for number in range(1, 5):
        day = {"day": f"2026-01-0{number}"}
        table.commit(
            add(f"f{number}.parquet", 100 * number, values=day, stats=stats()),
            txn(f"app-{number % 2}", number),
        )
    table.commit(
        remove("f1.parquet", 100, time=table.clock()), domain("user.settings", '{"a":1}'), domain("gone")
    )
    table.commit(
        remove("f2.parquet", 200, time=table.clock()),
        add("f2.parquet", 200, values={"day": "2026-01-02"}, dv=vector("x", cardinality=7)),
        domain("gone", removed=True),
    )
    table.commit(add("f5.parquet", 20_000, values={"day": ""}))
    return table


def complete_checksum(table: RawTable, version: int, **other: Any) -> str:
    """``N.crc`` with every field there is, counted by hand."""
    files = list(table.state(version).files.values())
    bins = [0] * len(BOUNDARIES)
    sizes = [0] * len(BOUNDARIES)
    deleted = [0] * 10
    for file in files:
        at = max(i for i, low in enumerate(BOUNDARIES) if low <= file["size"])
        bins[at] += 1
        sizes[at] += file["size"]
        deleted[len(str(file["deletionVector"]["cardinality"])) if "deletionVector" in file else 0] += 1
    cardinalities = [f["deletionVector"]["cardinality"] for f in files if "deletionVector" in f]
    body = {
        "fileSizeHistogram": {
            "sortedBinBoundaries": BOUNDARIES,
            "fileCounts": bins,
            "totalBytes": sizes,
        },
        "allFiles": [{**f, "dataChange": False} for f in files],
        "numDeletedRecordsOpt": sum(cardinalities),
        "numDeletionVectorsOpt": len(cardinalities),
        "deletedRecordCountsHistogramOpt": {"deletedRecordCounts": deleted},
    }
    return table.checksum(version, **{**body, **other})


# ---------------------------------------------------------------------------- what is sound


@pytest.mark.parametrize("form", FORMS)
def test_a_log_with_checkpoints_checksums_and_compactions_is_proven(form: str) -> None:
    table = full_table()
    for version in range(table.version + 1):
        complete_checksum(table, version)
    table.checkpoint(3, form)
    table.checkpoint(6, form)
    table.hint(6)
    table.compact(2, 5)
    report = proven(table)
    assert report.findings == ()
    checked = report.checked
    assert (checked.commits, checked.checkpoints, checked.checksums, checked.compactions) == (8, 2, 8, 1)
    assert (checked.checkpoints_unproven, checked.checksums_unproven) == (0, 0)


def test_what_the_product_writes_is_proven_with_its_files() -> None:
    table = RawTable()
    table.transact(metadata(configuration={"delta.checkpointInterval": "4"}))
    for number in range(12):
        table.transact(add(f"f{number}.parquet", 10 + number, stats=stats()), txn("app", number))
    table.transact(remove("f3.parquet", 13, time=table.clock()))
    report = proven(with_files(table), data=True)
    assert report.findings == ()
    assert (report.version, report.checked.checkpoints, report.checked.checksums) == (13, 3, 14)
    assert report.checked.data_files == 11


def test_after_a_cleanup_the_first_checkpoint_stands_unproven_and_the_next_is_compared() -> None:
    table = full_table()
    table.checkpoint(3)
    table.checkpoint(6)
    table.delete_commits(below=3)
    report = proven(table)
    assert report.findings == ()
    assert (report.checked.checkpoints_unproven, report.checked.checkpoints) == (1, 1)


def test_a_cleanup_that_was_cut_off_is_no_damage() -> None:
    table = full_table()
    table.checkpoint(2)
    table.checkpoint(6)
    for version in range(8):
        table.checksum(version)
    table.delete_commits(below=5)
    report = proven(table)
    assert report.findings == ()
    assert report.checked.checkpoints_unproven == 2
    assert report.checked.checksums == 3


def test_two_checkpoints_of_one_version_are_both_compared() -> None:
    table = full_table()
    table.checkpoint(4, "classic")
    table.checkpoint(4, "v2-json")
    assert proven(table).checked.checkpoints == 2


def test_expired_tombstones_and_transactions_may_be_absent_from_a_checkpoint() -> None:
    configuration = {"delta.setTransactionRetentionDuration": "interval 1 hour"}
    table = RawTable().create(configuration=configuration)
    table.commit(add("a.parquet"), txn("old", 1, updated=table.clock()))
    table.commit(remove("a.parquet", time=table.clock()))
    table.clock.tick(9 * DAY)
    actions = [a for group in state_actions(table.state()) for a in group]
    table.put(names.classic(2), checkpoint_bytes([a for a in actions if not {"remove", "txn"} & a.keys()]))
    assert proven(table).findings == ()


def test_an_older_version_is_proven_whatever_happened_later() -> None:
    table = small_table()
    table.put(names.commit(4), b"{")
    assert proven(table, version=3).findings == ()
    assert not proven(table).ok


def test_a_fresh_table_without_any_file_is_proven() -> None:
    report = proven(RawTable().create(), data=True, deep=True)
    assert report.findings == ()
    assert (report.version, report.checked.commits) == (0, 1)


def test_progress_is_reported_with_how_much_there_is() -> None:
    seen: list[tuple[str, int, int | None]] = []
    table = small_table()
    verify(with_files(table).log, progress=lambda *told: seen.append(told))
    assert ("replaying the log", 4, 5) in seen
    assert {what for what, _, _ in seen} == {"replaying the log", "looking for data files"}


def test_the_work_grows_with_the_log_and_not_with_its_square() -> None:
    def operations(versions: int) -> int:
        table = RawTable().create()
        for number in range(versions):
            table.commit(add(f"f{number}.parquet"))
            table.checksum(number)
        table.memory.journal.clear()
        assert proven(table).findings == ()
        # Each commit is read once by the proof, and once more by the reader that opens the table after it.
        read = [name for op, name in table.memory.journal if op == "get" and name.endswith(".json")]
        assert len(read) == 2 * len(set(read))
        return len(table.memory.journal)

    assert operations(80) <= 2.2 * operations(40)


def test_many_small_commits_are_laid_over_the_state_together(monkeypatch: pytest.MonkeyPatch) -> None:
    laid: list[int] = []
    whole = State.lay
    monkeypatch.setattr(State, "lay", lambda s, w, c: laid.append(len(w.steps)) or whole(s, w, c))
    table = RawTable().create()
    for number in range(50):
        table.commit(add(f"f{number}.parquet"))
        table.checksum()
    assert proven(table).findings == ()
    assert laid == [51]


# Every draw is a table whose log is kept by the model; verify must agree with it at every version.
_STEPS = st.lists(
    st.dictionaries(st.integers(0, 4), st.sampled_from("arvu"), min_size=1, max_size=4),
    min_size=1,
    max_size=9,
)


def drawn_table(steps: list[dict[int, str]]) -> RawTable:
    """Adds, removes, new deletion vectors and renewed entries of five paths."""
    table = RawTable().create(protocol=VECTORS)
    for turn, step in enumerate(steps):
        live = {f["path"]: f for f in table.state().files.values()}
        actions: list[Wire] = []
        for number, what in step.items():
            path = f"f{number}.parquet"
            old = live.get(path)
            if what == "a" and old is None:
                actions.append(add(path, 1000 * turn * turn + number))
            elif old is not None and what == "u":
                actions.append({"add": {**old, "dataChange": False, "tags": {"turn": str(turn)}}})
            elif old is not None:
                size = None if turn % 3 == 0 else old["size"]
                actions.append(remove(path, size, dv=old.get("deletionVector"), time=table.clock()))
                if what == "v":
                    actions.append(
                        add(path, old["size"], dv=vector(f"{turn}-{number}", cardinality=turn * 11 + 1))
                    )
        table.commit(*actions)
    return table


@given(_STEPS, st.sampled_from([1, 4, 65_536]), st.sampled_from(FORMS), st.data())
def test_any_history_is_proven_and_any_wrong_count_is_found(
    steps: list[dict[int, str]], window: int, form: str, data: st.DataObject
) -> None:
    table = drawn_table(steps)
    for version in range(table.version + 1):
        body: dict[str, Any] = {} if version % 2 else {"allFiles": None}
        complete_checksum(table, version, **body)
        if version % 4 == 2:
            table.checkpoint(version, form)
    if table.version > 1:
        name = table.compact(1, table.version)
        if not table.bytes(name):
            table.delete(name)
    patch = pytest.MonkeyPatch()
    patch.setattr(walk, "_WINDOW_ROWS", window)
    try:
        report = proven(table)
        assert report.findings == ()
        assert report.checked.checksums == table.version + 1
        wrong = data.draw(st.integers(0, table.version))
        name = names.checksum(wrong)
        body = json.loads(table.bytes(name))
        table.put(name, json.dumps({**body, "numFiles": body["numFiles"] + 1}).encode())
        found = only(proven(table))
    finally:
        patch.undo()
    assert (found.severity, found.code, found.version, found.file) == (
        "error",
        "CHECKSUM_MISMATCH",
        wrong,
        name,
    )


# ---------------------------------------------------------------------------- commits


def test_a_missing_commit_is_named() -> None:
    table = small_table()
    table.delete(names.commit(2))
    found = only(proven(table))
    assert (found.code, found.version, found.file) == ("VERSIONS_NOT_CONTIGUOUS", 2, names.commit(2))


def test_a_gap_below_the_newest_checkpoint_is_found_though_the_table_opens() -> None:
    table = small_table()
    table.checkpoint(4)
    table.delete(names.commit(1), names.commit(2))
    assert table.load().version == 4
    found = only(proven(table))
    assert (found.code, found.version) == ("VERSIONS_NOT_CONTIGUOUS", 1)
    assert "versions 1 to 2" in found.message


def test_commits_that_end_before_the_last_checkpoint_are_a_gap() -> None:
    table = small_table()
    table.checkpoint(4)
    table.delete(names.commit(3), names.commit(4))
    assert only(proven(table)).version == 3


def test_a_lost_last_commit_is_betrayed_by_its_checksum() -> None:
    table = small_table()
    table.checksum(4)
    table.delete(names.commit(4))
    assert table.load().version == 3
    found = only(proven(table))
    assert (found.code, found.version, found.file) == ("COMMIT_MISSING", 4, names.commit(4))


def test_a_log_that_begins_nowhere_is_truncated() -> None:
    table = small_table()
    table.delete_commits(below=2)
    assert only(proven(table)).code == "LOG_TRUNCATED"


@pytest.mark.parametrize(
    ("damage", "code", "said"),
    [
        (lambda data: data[:-20], "COMMIT_CORRUPT", "Line 2"),
        (lambda data: b"", "COMMIT_CORRUPT", "empty"),
        (lambda data: data + b"\xff\xfe\n", "COMMIT_CORRUPT", "Line 3"),
        (lambda data: data + lines([txn("a", 1), txn("a", 2)]), "INVALID_COMMIT", "two txn"),
        (lambda data: data + lines([metadata(), metadata()]), "INVALID_COMMIT", "two metaData"),
        (lambda data: data + lines([add("f2.parquet", 200)]), "INVALID_COMMIT", "two add"),
        (
            lambda data: data + lines([remove("f2.parquet", 200)]),
            "INVALID_COMMIT",
            "both an add and a remove",
        ),
        (lambda data: data + lines([add("x.parquet", -1)]), "INVALID_COMMIT", "negative size"),
        (lambda data: data + lines([add("../x.parquet")]), "PATH_OUTSIDE_TABLE", "../x.parquet"),
        (lambda data: data + lines([protocol(3, 5, readers=[])]), "INVALID_PROTOCOL", "reader version 3"),
        (lambda data: data + lines([metadata(schema='{"type":"struct"')]), "SCHEMA_INVALID", ""),
        (lambda data: data + lines([metadata(partitions=["nope"])]), "SCHEMA_INVALID", "nope"),
        (
            lambda data: data + lines([add("x.parquet", dv=vector())]),
            "INVALID_COMMIT",
            "lacks deletion",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and value else None,
)
def test_a_damaged_commit_is_found_in_its_file(
    damage: Callable[[bytes], bytes], code: str, said: str
) -> None:
    table = small_table()
    table.edit(names.commit(2), damage)
    found = next(f for f in proven(table).errors if f.code == code)
    assert (found.version, found.file) == (2, names.commit(2))
    assert said in found.message


def test_a_first_commit_without_protocol_or_metadata_is_found() -> None:
    table = RawTable()
    table.commit(add("a.parquet"))
    assert codes(proven(table)) == {"NO_PROTOCOL", "NO_METADATA"}


def test_a_path_that_is_live_with_two_vectors_is_found_where_it_became_so() -> None:
    table = RawTable().create(protocol=VECTORS)
    table.commit(add("a.parquet", dv=vector("one")), add("b.parquet"))
    table.commit(add("a.parquet", dv=vector("two")))
    table.commit(add("c.parquet"))
    found = only(proven(table))
    assert (found.code, found.version, found.file) == ("INVALID_COMMIT", 2, names.commit(2))
    assert "a.parquet" in found.message


def test_features_that_the_protocol_lacks_are_found() -> None:
    table = RawTable().create(protocol=features(writers=["appendOnly"]))
    table.commit(metadata(configuration={"delta.enableDeletionVectors": "true"}))
    found = only(proven(table))
    assert (found.code, found.version) == ("FEATURES_MISMATCH", 1)


@pytest.mark.parametrize(("second", "said"), [({}, "none"), ({"inCommitTimestamp": 500}, "not after")])
def test_in_commit_timestamps_that_are_missing_or_go_back_are_found(second: Wire, said: str) -> None:
    head = features(writers=["inCommitTimestamp"])
    table = RawTable()
    table.commit(
        commit_info(inCommitTimestamp=500),
        head,
        metadata(configuration={"delta.enableInCommitTimestamps": "true"}),
    )
    table.commit(commit_info(**second), add("a.parquet"))
    table.commit(commit_info(inCommitTimestamp=502), add("b.parquet"))
    found = only(proven(table))
    assert (found.code, found.version) == ("INVALID_COMMIT", 1)
    assert said in found.message


def test_a_broken_commit_costs_only_what_depends_on_it() -> None:
    table = full_table()
    for version in range(8):
        table.checksum(version)
    table.checkpoint(5)
    table.edit(names.commit(3), lambda data: data[: len(data) // 2])
    report = proven(table)
    assert codes(report) == {"COMMIT_CORRUPT"}
    # 0 to 2 before the damage, 5 to 7 on the checkpoint; 3 and 4 have nothing to stand on.
    assert (report.checked.checksums, report.checked.checksums_unproven) == (6, 2)


# ---------------------------------------------------------------------------- checkpoints

Change = Callable[[list[Wire]], list[Wire]]


def replaced(kind: str, **fields: Any) -> Change:
    """Every action of a kind with some fields replaced."""
    return lambda actions: [{kind: {**a[kind], **fields}} if kind in a else a for a in actions]


def without(kind: str, **fields: Any) -> Change:
    """All but the actions of a kind that have these fields."""
    return lambda actions: [
        a for a in actions if kind not in a or any(a[kind].get(k) != v for k, v in fields.items())
    ]


CHECKPOINT_DAMAGE: dict[str, tuple[Change, str]] = {
    "a file absent": (without("add", path="f3.parquet"), "f3.parquet that replay finds live is absent"),
    "a file too many": (lambda a: [*a, add("ghost.parquet")], "ghost.parquet is there, but"),
    "a file twice": (lambda a: [*a, add("f3.parquet", 300, values={"day": "2026-01-03"})], "twice"),
    "another size": (replaced("add", size=7), "another size"),
    "another partition": (replaced("add", partitionValues={"day": "1999-01-01"}), "partition column day"),
    "another vector": (replaced("add", deletionVector=vector("other")), "with the vector"),
    "no vector": (replaced("add", deletionVector=None), "f2.parquet is there, but"),
    "a removed file live": (lambda a: [*a, add("f1.parquet", 100)], "f1.parquet is live and removed at once"),
    "a tombstone absent": (
        without("remove", path="f1.parquet"),
        "unexpired tombstone of the file f1",
    ),
    "another protocol": (
        replaced("protocol", readerFeatures=[], writerFeatures=[]),
        "replay finds protocol",
    ),
    "another schema": (replaced("metaData", schemaString='{"type":"struct","fields":[]}'), "the schema"),
    "another property": (replaced("metaData", configuration={"a": "b"}), "the property a is 'b'"),
    "another id": (replaced("metaData", id="other"), "the table's id"),
    "other partitioning": (replaced("metaData", partitionColumns=[]), "partitioned by"),
    "a transaction absent": (without("txn", appId="app-1"), "application app-1 (version 3) is absent"),
    "an older transaction": (replaced("txn", version=0), "app-1 is at 0, replay finds 3"),
    "a strange transaction": (lambda a: [*a, txn("x", 1)], "application x, replay finds none"),
    "a domain absent": (without("domainMetadata"), "the domain user.settings is absent"),
    "another domain": (replaced("domainMetadata", configuration="{}"), "another configuration"),
    "a removed domain live": (lambda a: [*a, domain("gone")], "the domain gone is there"),
}


@pytest.mark.parametrize("damage", CHECKPOINT_DAMAGE)
def test_a_checkpoint_that_is_not_the_replay_is_found(damage: str) -> None:
    change, said = CHECKPOINT_DAMAGE[damage]
    table = full_table()
    actions = [a for group in state_actions(table.state(6)) for a in group]
    table.put(names.classic(6), checkpoint_bytes(change(actions)))
    found = [f for f in proven(table).errors if f.code == "CHECKPOINT_MISMATCH"]
    assert {(f.version, f.file) for f in found} == {(6, names.classic(6))}
    assert any(said in f.message for f in found), found


@pytest.mark.parametrize("kind", ["protocol", "metaData"])
def test_a_checkpoint_without_its_head_is_found(kind: str) -> None:
    table = full_table()
    actions = [a for group in state_actions(table.state(6)) for a in group]
    table.put(names.classic(6), checkpoint_bytes([a for a in actions if kind not in a]))
    assert "CHECKPOINT_CORRUPT" in codes(proven(table))


@pytest.mark.parametrize("form", FORMS)
def test_a_checkpoint_cut_short_is_found_though_readers_get_round_it(form: str) -> None:
    table = full_table()
    name = table.checkpoint(6, form)[-1]
    table.edit(name, lambda data: data[: len(data) // 2])
    assert table.load().files().num_rows == 4
    found = only(proven(table))
    assert (found.code, found.version) == ("CHECKPOINT_CORRUPT", 6)
    assert found.file == name


def test_a_damaged_page_is_found_in_a_column_that_is_not_compared() -> None:
    table = RawTable().create()
    table.commit(*(add(f"f{n}.parquet", stats=stats(n + 1)) for n in range(50)))
    actions = [a for group in state_actions(table.state()) for a in group]
    data = io.BytesIO()
    plain = pq.read_table(pa.BufferReader(checkpoint_bytes(actions)))
    pq.write_table(plain, data, compression="none", use_dictionary=False, write_page_checksum=True)
    broken = data.getvalue().replace(b'"numRecords":17', b'"numRecords":71', 1)
    table.put(names.classic(1), broken)
    found = only(proven(table))
    assert (found.code, found.file) == ("CHECKPOINT_CORRUPT", names.classic(1))


def test_sidecars_that_are_missing_or_of_another_size_are_named() -> None:
    table = full_table()
    first, second, top = table.checkpoint(6, "v2-json")
    table.delete(first)
    found = only(proven(table))
    assert (found.code, found.version, found.file) == ("SIDECAR_MISSING", 6, top)
    assert first.rsplit("/", 1)[-1] in found.message
    table.put(first, table.bytes(second) + b"x")
    assert {f.code for f in proven(table).findings} >= {"SIDECAR_SIZE"}


def test_a_checkpoint_of_another_version_than_its_name_is_found() -> None:
    table = full_table()
    name = table.checkpoint(6, "v2-inline")[0]
    table.edit(name, lambda data: data.replace(b'{"version":6', b'{"version":5', 1))
    assert "another" in only(proven(table)).message


def test_a_multipart_checkpoint_with_a_part_missing_is_a_warning() -> None:
    table = full_table()
    table.delete(table.checkpoint(6, "multipart")[0])
    report = proven(table)
    assert report.ok
    found = only(report)
    assert (found.severity, found.code, found.version) == ("warning", "CHECKPOINT_INCOMPLETE", 6)


def test_a_log_of_which_only_parts_of_a_checkpoint_are_left_is_an_error() -> None:
    table = full_table()
    parts = table.checkpoint(6, "multipart")
    table.delete_commits(below=8)
    table.delete(parts[0])
    report = proven(table)
    assert report.version == 6
    assert [f.code for f in report.errors] == ["CHECKPOINT_INCOMPLETE"]


def test_tombstones_nobody_heard_of_are_a_warning() -> None:
    table = full_table()
    actions = [a for group in state_actions(table.state(6)) for a in group]
    table.put(names.classic(6), checkpoint_bytes([*actions, remove("ghost.parquet")]))
    found = only(proven(table))
    assert (found.severity, found.code) == ("warning", "CHECKPOINT_MISMATCH")


def hinted(body: bytes) -> Callable[[RawTable], None]:
    return lambda table: table.put("_last_checkpoint", body) and None


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (hinted(b'{"version":6,'), "cannot be read"),
        (hinted(b'{"version":6,"size":1,"checksum":"00"}'), "its own checksum"),
        (hinted(b'{"version":99,"size":1}'), "no complete checkpoint"),
        (hinted(b'{"version":3,"size":1}'), "stale"),
        (hinted(b'{"version":6,"size":1,"parts":4}'), "4 parts"),
        (hinted(b'{"version":6,"size":1,"numOfAddFiles":9}'), "9 files"),
        (hinted(b'{"version":6,"size":1,"v2Checkpoint":{"path":"x.json"}}'), "x.json"),
    ],
    ids=["torn", "checksum", "nowhere", "stale", "parts", "files", "path"],
)
def test_a_hint_that_cannot_be_believed_is_a_warning(write: Callable[[RawTable], None], said: str) -> None:
    table = full_table()
    table.checkpoint(3)
    table.checkpoint(6)
    write(table)
    report = proven(table)
    assert report.ok
    found = only(report)
    assert (found.severity, found.code, found.file) == ("warning", "LAST_CHECKPOINT", "_last_checkpoint")
    assert said in found.message


# ---------------------------------------------------------------------------- checksums


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("numFiles", 9, "numFiles is 9, replay finds 4"),
        ("tableSizeBytes", 9, "tableSizeBytes is 9"),
        ("numMetadata", 2, "numMetadata is 2"),
        ("numProtocol", 0, "numProtocol is 0"),
        ("numDeletedRecordsOpt", 1, "numDeletedRecordsOpt is 1, replay finds 7"),
        ("numDeletionVectorsOpt", 0, "numDeletionVectorsOpt is 0, replay finds 1"),
        (
            "deletedRecordCountsHistogramOpt",
            {"deletedRecordCounts": [4] + [0] * 9},
            "deletedRecordCountsHistogramOpt",
        ),
        ("protocol", {"minReaderVersion": 1, "minWriterVersion": 2}, "it has protocol (1,2), replay finds"),
        ("metadata", {**metadata()["metaData"], "name": "other"}, "the table's name is 'other'"),
        ("setTransactions", [{"appId": "app-1", "version": 9}], "app-1 is at 9, replay finds 3"),
        ("domainMetadata", [], "the domain user.settings is absent"),
        ("allFiles", [], "in allFiles 4 files"),
        (
            "fileSizeHistogram",
            {"sortedBinBoundaries": [0, 500], "fileCounts": [4, 0], "totalBytes": [900, 20_000]},
            "the histogram of file sizes is not",
        ),
        (
            "fileSizeHistogram",
            {"sortedBinBoundaries": [0, 5, 4], "fileCounts": [4, 0, 0], "totalBytes": [0, 0, 0]},
            "bins that make no sense",
        ),
        ("inCommitTimestampOpt", 5, "inCommitTimestampOpt is 5, the commit says 4"),
        ("txnId", "theirs", "txnId is theirs, the commit says ours"),
    ],
)
def test_a_checksum_that_contradicts_the_commits_is_found(field: str, value: Any, said: str) -> None:
    table = full_table()
    # The last commit once more, now with what the checksum repeats of it.
    table.commits[-1][0] = commit_info(inCommitTimestamp=4, txnId="ours")
    table.put(names.commit(7), lines(table.commits[-1]))
    name = complete_checksum(table, 7)
    assert proven(table).findings == ()
    complete_checksum(table, 7, **{field: value})
    found = [f for f in proven(table).errors if said in f.message]
    assert [(f.code, f.version, f.file) for f in found] == [("CHECKSUM_MISMATCH", 7, name)]


def test_a_histogram_with_bins_of_its_own_is_counted_in_them() -> None:
    table = full_table()
    sound = {"sortedBinBoundaries": [0, 300], "fileCounts": [1, 3], "totalBytes": [200, 20_700]}
    table.checksum(7, histogramOpt=sound)
    table.checksum(6)
    assert proven(table).findings == ()


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"numFiles":1}', b'{"numFiles":-1,"tableSizeBytes":0}'])
def test_a_garbage_checksum_is_found(data: bytes) -> None:
    table = small_table()
    table.put(names.checksum(3), data)
    found = only(proven(table))
    assert (found.severity, found.code, found.version) == ("error", "CHECKSUM_CORRUPT", 3)
    assert found.file == names.checksum(3)


def test_old_checksums_without_protocol_and_metadata_are_one_warning() -> None:
    table = small_table()
    for version in range(5):
        table.checksum(version, protocol=None, metadata=None)
    report = proven(table)
    assert report.ok
    assert "5 checksums" in only(report).message


def test_damage_that_stays_well_formed_is_found_where_the_checksum_contradicts() -> None:
    table = small_table()
    for version in range(5):
        table.checksum(version)
    table.edit(names.commit(2), lambda data: data.replace(b'"size":200', b'"size":201'))
    found = proven(table).errors
    assert [(f.code, f.version) for f in found] == [("CHECKSUM_MISMATCH", v) for v in (2, 3, 4)]


# ---------------------------------------------------------------------------- log compactions


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (without("add", path="f3.parquet"), "f3.parquet that replay finds live is absent"),
        (lambda a: [*a, add("ghost.parquet")], "ghost.parquet is there"),
        (without("remove", path="f1.parquet"), "the remove of 'f1.parquet' is absent"),
        (lambda a: [*a, remove("ghost.parquet")], "it removes 'ghost.parquet'"),
        (without("txn"), "application app-1 (version 3) is absent"),
        (without("domainMetadata", domain="gone"), "the tombstone of the domain gone is absent"),
        (lambda a: [*a, metadata()], "it has metadata, replay finds no metadata"),
    ],
)
def test_a_compaction_that_is_not_its_commits_is_found(change: Change, said: str) -> None:
    table = full_table()
    name = table.compact(1, 6)
    assert proven(table).findings == ()
    actions = [json.loads(line) for line in table.bytes(name).splitlines()]
    table.put(name, lines(change(actions)))
    found = proven(table).errors
    assert {(f.code, f.version, f.file) for f in found} == {("COMPACTION_MISMATCH", 6, name)}
    assert any(said in f.message for f in found)


def test_a_garbage_compaction_is_found_and_one_without_its_commits_is_unproven() -> None:
    table = full_table()
    name = table.compact(1, 3)
    table.checkpoint(4)
    table.delete_commits(below=3)
    assert proven(table).findings == ()
    assert proven(table).checked.compactions_unproven == 1
    table.put(name, b'{"add":')
    found = only(proven(table))
    assert (found.code, found.file) == ("COMMIT_CORRUPT", name)


# ---------------------------------------------------------------------------- data files


def parquet(rows: int) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array(range(rows), pa.int64())}), sink)
    return sink.getvalue()


def table_with_data(count: int = 3, rows: int = 10) -> RawTable:
    """A table with real parquet files in it."""
    table = RawTable().create(protocol=VECTORS)
    data = parquet(rows)
    for number in range(count):
        table.store.put(f"f{number}.parquet", data)
    table.commit(*(add(f"f{n}.parquet", len(data), stats=stats(rows)) for n in range(count)))
    return table


@pytest.mark.parametrize("count", [3, 200])
def test_missing_data_files_and_files_of_another_size_are_named(count: int) -> None:
    table = table_with_data(count)
    assert proven(table, data=True).findings == ()
    table.store.delete(["f1.parquet"])
    table.store.put("f2.parquet", b"short")
    report = proven(table, data=True)
    assert [(f.code, f.version, f.file) for f in report.errors] == [
        ("DATA_FILE_MISSING", 1, "f1.parquet"),
        ("DATA_FILE_SIZE", 1, "f2.parquet"),
    ]
    assert report.checked.data_files == count


def test_only_live_files_are_looked_for() -> None:
    table = table_with_data()
    table.commit(remove("f0.parquet"))
    table.store.delete(["f0.parquet"])
    assert proven(table, data=True).findings == ()
    assert not proven(table, data=True, version=1).ok


ODD_PATHS = ("a%20b%25c.parquet", "./x.parquet", "d/../x.parquet")


@pytest.mark.parametrize(("many", "path"), list(product([False, True], ODD_PATHS)))
def test_paths_that_are_spelled_oddly_are_found(many: bool, path: str) -> None:
    table = table_with_data(100 if many else 1)
    table.store.put("a b%c.parquet", b"12345")
    table.store.put("x.parquet", b"12345")
    table.commit(add(path, 5))
    assert proven(table, data=True).findings == ()


def test_files_outside_the_table_are_looked_at_where_they_are(tmp_path: Path) -> None:
    table = RawTable.on_disk(tmp_path / "table").create()
    (tmp_path / "other dir").mkdir()
    (tmp_path / "other dir" / "a.parquet").write_bytes(b"12345")
    outside = (tmp_path / "other dir" / "a.parquet").as_uri()
    (tmp_path / "table" / "b.parquet").write_bytes(b"123")
    table.commit(
        add(outside, 5), add((tmp_path / "table" / "b.parquet").as_uri(), 3), add(f"{tmp_path}/none", 5)
    )
    found = only(verify(table.log))
    assert (found.code, found.file) == ("DATA_FILE_MISSING", f"{tmp_path}/none")


def test_a_file_in_a_place_this_client_cannot_go_to_is_a_warning() -> None:
    table = RawTable().create()
    table.commit(add("hdfs://name-node/a.parquet"))
    report = proven(table, data=True, deep=True)
    assert report.ok
    found = only(report)
    assert (found.code, found.file) == ("DATA_FILE_ELSEWHERE", "hdfs://name-node/a.parquet")


def with_vector(table: RawTable, bitmap: BitMap64, **other: Any) -> str:
    """Give ``f0.parquet`` a deletion vector; returns the name of its file."""
    made = deletion_vectors.write_file([bitmap])
    table.store.put(made.name, made.data)
    descriptor = made.vectors[0]
    dv = {
        "storageType": descriptor.storage_type,
        "pathOrInlineDv": descriptor.path_or_inline_dv,
        "offset": descriptor.offset,
        "sizeInBytes": descriptor.size_in_bytes,
        "cardinality": descriptor.cardinality,
        **other,
    }
    old = table.state().files["f0.parquet", None]
    table.commit(remove("f0.parquet", old["size"]), add("f0.parquet", old["size"], stats=old["stats"], dv=dv))
    return made.name


def test_deletion_vectors_are_proven_with_their_files() -> None:
    table = table_with_data()
    with_vector(table, BitMap64([1, 2, 9]))
    report = proven(table, data=True, deep=True)
    assert report.findings == ()
    assert (report.checked.deletion_vectors, report.checked.footers) == (1, 3)


def test_a_missing_or_short_file_of_deletion_vectors_is_named() -> None:
    table = table_with_data()
    name = with_vector(table, BitMap64([1, 2]))
    table.store.put(name, table.store.get(name)[:-3])
    found = only(proven(table, data=True))
    assert (found.code, found.version, found.file) == ("DV_SIZE_MISMATCH", 2, name)
    table.store.delete([name])
    assert only(proven(table, data=True, deep=True)).code == "DV_FILE_MISSING"


def test_deep_decodes_deletion_vectors() -> None:
    table = table_with_data()
    name = with_vector(table, BitMap64([1, 2]))
    data = table.store.get(name)
    table.store.put(name, data[:-6] + bytes([data[-6] ^ 1]) + data[-5:])
    assert proven(table, data=True).findings == ()
    found = only(proven(table, data=True, deep=True))
    assert (found.code, found.version, found.file) == ("DV_CHECKSUM", 2, name)


@pytest.mark.parametrize(
    ("rows", "other", "code"),
    [
        ([1, 10], {}, "DV_INVALID"),
        ([1, 2], {"cardinality": 3}, "DV_CARDINALITY"),
        ([1], {"storageType": "q"}, "DV_INVALID"),
    ],
)
def test_deep_finds_vectors_that_do_not_fit(rows: list[int], other: Wire, code: str) -> None:
    table = table_with_data()
    with_vector(table, BitMap64(rows), **other)
    assert only(proven(table, data=True, deep=True)).code == code


def test_deep_opens_data_files_and_counts_their_rows() -> None:
    table = table_with_data()
    size = len(table.store.get("f0.parquet"))
    table.store.put("f0.parquet", b"x" * size)
    other = parquet(11)
    table.store.put("f3.parquet", other)
    table.commit(add("f3.parquet", len(other), stats=stats(10)))
    assert proven(table, data=True).findings == ()
    report = proven(table, data=True, deep=True)
    assert {(f.code, f.file) for f in report.errors} == {
        ("DATA_FILE_CORRUPT", "f0.parquet"),
        ("NUM_RECORDS_MISMATCH", "f3.parquet"),
    }


def test_a_table_without_its_data_is_told_briefly() -> None:
    table = RawTable().create()
    table.commit(*(add(f"f{n}.parquet") for n in range(1000)))
    report = proven(table, data=True)
    assert len(report.findings) == MAX_OF_A_CODE + 1
    assert f"{1000 - MAX_OF_A_CODE} more" in report.findings[-1].message


# ---------------------------------------------------------------------------- what is no finding


def test_no_table_and_no_such_version_are_raised() -> None:
    with pytest.raises(NotATableError):
        proven(RawTable())
    with pytest.raises(VersionNotFoundError):
        proven(small_table(), version=99)


def test_a_table_this_client_may_not_read_is_raised() -> None:
    with pytest.raises(UnsupportedReaderVersionError):
        proven(RawTable().create(protocol=protocol(4, 7, readers=[], writers=[])))
    with pytest.raises(UnsupportedReaderFeatureError):
        proven(RawTable().create(protocol=features("fromTheFuture")))


def test_a_checksum_that_lies_about_the_protocol_does_not_keep_the_proof_out() -> None:
    table = small_table()
    table.checksum(4, protocol=protocol(4, 7, readers=[], writers=[])["protocol"])
    assert codes(proven(table)) == {"CHECKSUM_MISMATCH", "UNSUPPORTED_READER_VERSION"}


def test_a_store_that_fails_is_raised() -> None:
    table = with_files(small_table())
    table.checksum(3)
    table.checkpoint(4, "v2-json")
    table.compact(1, 3)
    table.hint(4)
    clean = table.survivor()
    assert verify(clean.log, deep=False).findings == ()
    for number in range(1, len(clean.memory.journal) + 1):
        failing = table.survivor()
        failing.memory.fail_at(number)
        with pytest.raises(StorageError):
            verify(failing.log)


TRACKED = features(writers=["appendOnly", "invariants", "domainMetadata", "rowTracking"])


def _tracked(mark: int, *ids: int | None) -> RawTable:
    """A file of ten rows for each of ``ids``, in a table that tracks its rows."""
    given = [{} if i is None else {"baseRowId": i, "defaultRowCommitVersion": 0} for i in ids]
    files = [add(f"f{n}", stats='{"numRecords":10}', **more) for n, more in enumerate(given)]
    said = domain("delta.rowTracking", json.dumps({"rowIdHighWaterMark": mark}))
    return RawTable().create(
        *files, said, protocol=TRACKED, configuration={"delta.enableRowTracking": "true"}
    )


@pytest.mark.parametrize(
    ("table", "findings"),
    [
        (_tracked(29, 0, 10, 20), []),
        (_tracked(99, 90, 0), []),
        (_tracked(9, 0, None), [("ROW_IDS_MISSING", "f1")]),
        (_tracked(28, 20, 10), [("ROW_ID_MARK", None)]),
        (_tracked(29, 0, 9, 20), [("ROW_IDS_TWICE", "f1")]),
        (_tracked(29, 5, 5), [("ROW_IDS_TWICE", "f1")]),
    ],
    ids=["one after another", "with holes", "without ids", "above the mark", "in part", "the same"],
)
def test_row_ids_are_in_every_file_of_its_own_and_below_the_mark(
    table: RawTable, findings: list[tuple[str, str | None]]
) -> None:
    found = [f for f in proven(table).errors if f.code.startswith("ROW_")]
    assert [(f.code, f.file) for f in found] == findings


def test_a_commit_that_cleanup_takes_away_meanwhile_is_a_warning() -> None:
    table = small_table()
    table.checkpoint(4)
    other = table.memory.handle()
    table.memory.call_at(2, lambda: other.delete([f"_delta_log/{names.commit(0)}"]))
    report = proven(table)
    assert report.ok
    assert (only(report).code, only(report).version) == ("COMMIT_MISSING", 0)


@given(st.data())
def test_whatever_keeps_readers_out_is_found_and_nothing_ends_in_a_traceback(data: st.DataObject) -> None:
    table = full_table()
    for version in (0, 3, 7):
        table.checksum(version)
    table.checkpoint(3, data.draw(st.sampled_from(FORMS)))
    table.compact(4, 6)
    table.hint(3)
    if data.draw(st.booleans()):
        table.delete_commits(below=3)
    # Names and sizes differ from run to run (checkpoints have random names): draws must not.
    chosen, per_mille = data.draw(st.integers(0, 100)), data.draw(st.integers(0, 1000))
    name = table.names()[chosen % len(table.names())]
    before = table.bytes(name)
    at = len(before) * per_mille // 1000
    junk = data.draw(st.binary(min_size=1, max_size=3))
    damaged = {
        "cut": before[:at],
        "flip": before[:at] + junk + before[at + len(junk) :],
        "drop": before[:at] + before[at + 7 :],
        "insert": before[:at] + junk + before[at:],
        "delete": None,
    }[data.draw(st.sampled_from(["cut", "flip", "drop", "insert", "delete"]))]
    if damaged is None:
        table.delete(name)
    else:
        table.put(name, damaged)
    try:
        snapshot = table.load()
        snapshot.files()
        _ = snapshot.schema, snapshot.transactions, snapshot.domains
        refused = None
    except TidegateError as e:
        refused = e
    try:
        report = proven(table)
    except (NotATableError, ProtocolError):
        return
    assert refused is None or not report.ok


# ---------------------------------------------------------------------------- tables of other writers

SOUND = (
    "dat__deletion_vectors",
    "dat__multi_partitioned",
    "drs__checkpoint-v2-table",
    "golden__hive-deltatbl-special-chars-in-partition-column",
    "golden__multi-part-checkpoint",
    "golden__v2-checkpoint-json",
    "golden__v2-checkpoint-parquet",
    "kjava__kernel-pagination-multi-part-checkpoints",
    "krs__cdf-table-with-cdc-and-dvs",
    "krs__compacted-log-files-table",
    "krs__table-with-dv-small",
    "krs__v2-checkpoints-parquet-with-sidecars",
    "trino__databricks122__deletion_vectors",
    "trino__deltalake__multipart_v2_checkpoint",
    "trino__databricks133__parsed_stats_struct",
)


@pytest.mark.corpus
@pytest.mark.parametrize("case", SOUND)
def test_a_sound_table_of_another_writer_is_proven_in_depth(corpus: Path, case: str) -> None:
    path = corpus / "open" / case / "delta"
    if not path.is_dir():
        pytest.skip(f"{case} is not in this corpus")
    report = verify(TableLog.at(path), deep=True)
    assert report.findings == ()
    assert report.checked.data_files == report.checked.footers > 0


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("case", "code"),
    [
        ("neg__checkpoint-truncated-no-fallback", "CHECKPOINT_CORRUPT"),
        ("neg__commit-after-checkpoint-missing", "VERSIONS_NOT_CONTIGUOUS"),
        ("neg__commit-truncated-midline", "COMMIT_CORRUPT"),
        ("neg__dv-cardinality", "DV_CARDINALITY"),
        ("neg__dv-checksum", "DV_CHECKSUM"),
        ("neg__dv-file-missing", "DV_FILE_MISSING"),
        ("neg__dv-size-mismatch", "DV_SIZE_MISMATCH"),
        ("neg__multipart-incomplete-no-fallback", "CHECKPOINT_INCOMPLETE"),
        ("neg__schema-unknown-type", "SCHEMA_INVALID"),
        ("neg__sidecar-missing-no-fallback", "SIDECAR_MISSING"),
        ("res__checkpoint-truncated-with-commits", "CHECKPOINT_CORRUPT"),
        ("res__version-checksum-garbage", "CHECKSUM_CORRUPT"),
    ],
)
def test_the_damage_in_a_table_of_another_writer_is_found(corpus: Path, case: str, code: str) -> None:
    path = corpus / "open" / case / "delta"
    if not path.is_dir():
        pytest.skip(f"{case} is not in this corpus")
    assert code in {f.code for f in verify(TableLog.at(path), deep=True).errors}


@pytest.mark.corpus
@pytest.mark.parametrize(
    "case",
    [
        "res__last-checkpoint-garbage",
        "res__last-checkpoint-points-nowhere",
        "res__multipart-incomplete-with-commits",
    ],
)
def test_what_readers_get_round_is_no_error(corpus: Path, case: str) -> None:
    path = corpus / "open" / case / "delta"
    if not path.is_dir():
        pytest.skip(f"{case} is not in this corpus")
    report = verify(TableLog.at(path))
    assert report.ok
    assert report.warnings
