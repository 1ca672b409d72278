"""Keeping an index table: dropping partitions, truncating, purging, describing, repairing."""

from __future__ import annotations

import json

import pytest

from support.index_tables import (
    LOG,
    SCHEMA,
    RawIndex,
    adds,
    created,
    handmade,
    metadata,
    paths,
    protocol,
    split,
)
from support.tables import DAY, HOUR
from tidegate.errors import OptionError, PredicateError, TableExistsError, VersionNotFoundError
from tidegate.log.verify import verify

WEEK = 7 * DAY


def partitioned(*days: str | None) -> RawIndex:
    table = RawIndex()
    table.log().create(SCHEMA, ["day"])
    table.log().append(adds(*(split(f"{n}.split", {"day": day}) for n, day in enumerate(days))))
    return table


def with_files(*names: str) -> RawIndex:
    """A table whose splits are there as files too, one commit each."""
    table = created()
    for name in names:
        table.split_file(name)
        table.log().append(adds(name))
    return table


def stored(table: RawIndex) -> list[str]:
    return sorted(i.name for i in table.store.handle().list_from("", recursive=True) if LOG not in i.name)


# ---------------------------------------------------------------------------- partitions


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ("day = '10'", ["0.split", "2.split", "3.split"]),
        ("day < '2'", ["2.split", "3.split"]),
        ("day IS NULL", ["0.split", "1.split", "2.split"]),
        ("day IN ('9', '10') OR day IS NULL", ["0.split"]),
        ("day = '77'", ["0.split", "1.split", "2.split", "3.split"]),
        ("NOT (day = '9')", ["2.split", "3.split"]),
    ],
)
def test_the_partitions_that_match_are_dropped(where: str, left: list[str]) -> None:
    table = partitioned("1", "10", "9", None)
    assert paths(table.log().drop_partitions(where)) == left


def test_dropping_is_exact_by_type_and_not_by_text() -> None:
    from support.tables import column, schema_string

    table = RawIndex()
    table.log().create(schema_string(column("id"), column("hour", "integer")), ["hour"])
    table.log().append(adds(*(split(f"{h}.split", {"hour": str(h)}) for h in (2, 9, 10, 100))))
    assert paths(table.log().drop_partitions("hour > 9")) == ["2.split", "9.split"]


def test_dropping_by_another_column_is_refused() -> None:
    table = partitioned("1")
    with pytest.raises(PredicateError):
        table.log().drop_partitions("id > 3")
    assert table.version == 1


def test_dropping_nothing_makes_no_commit() -> None:
    assert partitioned("1").log().drop_partitions("day = '2'").version == 1


# ---------------------------------------------------------------------------- truncation


def test_truncation_leaves_the_latest_version_and_nothing_before_it() -> None:
    table = with_files("a.split", "b.split", "c.split")
    told = table.log().truncate_history(dry_run=True)
    assert (told.versions_deleted, told.dry_run, table.version) == (3, True, 3)
    assert "00000000000000000000.json" in table.names()
    done = table.log().truncate_history()
    assert (done.versions_deleted, done.files_preserved) == (3, 3)
    assert table.names() == [f"{3:020d}.checkpoint.json", f"{3:020d}.json", "_last_checkpoint"]
    assert paths(table.log().snapshot()) == ["a.split", "b.split", "c.split"]
    with pytest.raises(VersionNotFoundError):
        table.log().snapshot(version=1)
    assert table.log().append(adds("d.split")).version == 4


def test_truncating_again_is_harmless() -> None:
    table = with_files("a.split")
    for _ in range(3):
        table.log().truncate_history()
        assert paths(table.log().snapshot()) == ["a.split"]
    assert verify(table.table_log()).ok


def test_a_writer_that_read_a_truncated_version_is_told_so() -> None:
    from tidegate.errors import ConcurrentWriteException

    table = with_files("a.split")
    other = table.log()
    begun = other.transaction(other.snapshot())
    for n in range(3):
        table.log().append(adds(f"{n}.split"))
    table.log().truncate_history()
    with pytest.raises(ConcurrentWriteException):
        begun.commit(adds=adds("late.split"))
    assert table.names() == [f"{4:020d}.checkpoint.json", f"{4:020d}.json", "_last_checkpoint"]


# ---------------------------------------------------------------------------- purging


def test_a_purge_takes_what_no_version_names_and_is_old_enough() -> None:
    table = with_files("a.split", "b.split")
    table.split_file("orphan.split")
    table.split_file("day=1/orphan.split")
    table.split_file("notes.txt")
    table.clock.tick(WEEK + HOUR)
    table.split_file("being-written.split")
    told = table.log().purge(dry_run=True)
    assert told.paths == ("day=1/orphan.split", "orphan.split")
    assert "orphan.split" in stored(table)
    done = table.log().purge()
    assert (done.paths, done.size_in_bytes) == (told.paths, 200)
    assert stored(table) == ["a.split", "b.split", "being-written.split", "notes.txt"]


def test_a_purge_keeps_what_time_travel_needs() -> None:
    table = with_files("a.split", "b.split")
    table.split_file("ab.split")
    table.log().replace(["a.split", "b.split"], adds("ab.split"))
    table.clock.tick(WEEK + HOUR)
    assert table.log().purge().paths == ()
    assert paths(table.log().snapshot(version=2)) == ["a.split", "b.split"]


def test_what_only_expired_versions_need_goes_with_them() -> None:
    table = with_files("a.split", "b.split")
    table.split_file("ab.split")
    table.log().replace(["a.split", "b.split"], adds("ab.split"))
    table.log().checkpoint()
    table.clock.tick(40 * DAY)
    told = table.log().purge(dry_run=True)
    assert told.paths == ("a.split", "b.split")
    assert [n.rsplit("/", 1)[-1] for n in told.log_files] == [f"{v:020d}.json" for v in range(3)]
    table.log().purge()
    assert stored(table) == ["ab.split"]
    assert paths(table.log().snapshot()) == ["ab.split"]
    assert verify(table.table_log()).ok


def test_a_split_that_was_added_again_is_kept() -> None:
    table = with_files("a.split")
    table.log().remove(["a.split"])
    table.log().append(adds("a.split"))
    table.clock.tick(40 * DAY)
    for _ in range(3):
        assert table.log().purge().paths == ()
    assert paths(table.log().snapshot()) == ["a.split"]


def test_splits_that_a_checkpoint_alone_names_are_kept() -> None:
    table = with_files("a.split", "b.split")
    table.log().truncate_history()
    table.clock.tick(40 * DAY)
    assert table.log().purge().paths == ()


def test_paths_with_escapes_and_absolute_paths_are_recognised() -> None:
    table = created()
    for name in ("day=a%20b/x.split", "plain.split", "day=a b/y.split"):
        table.split_file(name)
    table.log().append(
        adds("day=a%20b/x.split", f"{table.store.url}/plain.split", "day=a%20b/y.split", "s3://else/z.split")
    )
    table.clock.tick(WEEK + HOUR)
    assert table.log().purge().paths == ()


def test_a_short_retention_is_refused_unless_the_check_is_off() -> None:
    table = with_files("a.split")
    table.split_file("orphan.split")
    table.clock.tick(2 * HOUR)
    with pytest.raises(OptionError, match="retentionCheckEnabled"):
        table.log().purge(retention_hours=1)
    assert table.log(purge__retentionCheckEnabled=False).purge(retention_hours=1).paths == ("orphan.split",)


def test_parts_of_a_checkpoint_that_nobody_names_go() -> None:
    table = with_files("a.split")
    table.put(f"{1:020d}.checkpoint.0123456789ab.00001.json", b"{}")
    table.clock.tick(WEEK + HOUR)
    table.log().purge()
    assert not any("0123456789ab" in n for n in table.names())


# ---------------------------------------------------------------------------- describing


def test_the_log_as_a_table_has_a_row_for_each_action() -> None:
    table = handmade(protocol(2, 2, writerFeatures=["checkpoint"]), metadata(["day"]), {"later": {"x": 1}})
    table.commit({"add": split("a.split", {"day": None}, splitTags=["t"], minValues={"id": "1"})})
    table.log().skip("a.split", "bad")
    table.log().overwrite(adds())
    rows = table.log().describe().to_pylist()
    assert [(r["version"], r["action_type"]) for r in rows] == [
        (0, "protocol"),
        (0, "metadata"),
        (0, "unknown"),
        (1, "add"),
        (2, "skip"),
        (3, "remove"),
    ]
    assert rows[0]["writer_features"] == ["checkpoint"]
    assert json.loads(rows[1]["format"])["provider"] == "indextables"
    assert rows[3]["partition_values"] == [("day", None)]
    assert (rows[3]["split_tags"], rows[3]["num_records"], rows[3]["is_checkpoint"]) == (["t"], 10, False)
    assert (rows[4]["reason"], rows[4]["skip_count"]) == ("bad", 1)
    assert rows[5]["log_file_path"] == f"{LOG}/{3:020d}.json"


def test_what_makes_the_latest_version_is_described_or_every_file() -> None:
    table = with_files("a.split", "b.split")
    table.log().checkpoint()
    table.log().append(adds("c.split"))
    short, long = table.log().describe(), table.log().describe(include_all=True)
    assert short.column("is_checkpoint").to_pylist() == [True] * 4 + [False]
    assert long.num_rows == 2 + 1 + 1 + 4 + 1


def test_parts_show_in_the_description() -> None:
    table = with_files("a.split", "b.split", "c.split")
    table.log(checkpoint__multiPart__enabled=True, checkpoint__actionsPerPart=2).checkpoint()
    files = set(table.log().describe().column("log_file_path").to_pylist())
    assert len([f for f in files if ".checkpoint." in f]) == 3


# ---------------------------------------------------------------------------- repairing


def test_a_repaired_log_has_the_splits_that_are_there() -> None:
    table = with_files("a.split", "b.split")
    table.log().append(adds("gone.split", "s3://else/far.split"))
    target = RawIndex()
    done = table.log().repair(target.log())
    assert (done.total_splits, done.valid_splits, done.missing) == (4, 3, ("gone.split",))
    assert paths(target.log().snapshot()) == ["a.split", "b.split", "s3://else/far.split"]
    assert target.log().snapshot().metadata == table.log().snapshot().metadata
    assert table.version == 3


def test_a_repair_does_not_write_where_there_is_a_log() -> None:
    table = with_files("a.split")
    with pytest.raises(TableExistsError):
        table.log().repair(created().log())
