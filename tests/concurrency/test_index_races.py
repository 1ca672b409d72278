"""Writers of one index table at once: who goes on, who is told of a conflict, and that nothing is lost.

Races are made, not waited for: the loser's store lets the winner go first, just before the put of its commit.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from support.index_tables import (
    SCHEMA,
    V2,
    RawIndex,
    adds,
    handmade,
    legacy,
    metadata,
    paths,
    protocol,
    split,
)
from tidegate.errors import (
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    ProtocolVersionException,
)
from tidegate.index import doc_mappings
from tidegate.index.log import IndexLog
from tidegate.log.verify import verify
from tidegate.protocol.protocol import Protocol

Act = Callable[[IndexLog], Any]


def race(table: RawIndex, loser: Act, winner: Act, *, times: int = 1, **options: Any) -> Any:
    """Run ``loser``; before each of its first puts of a commit, ``winner`` commits."""
    store = table.store.handle()
    left = [times]

    def first(op: str, name: str) -> None:
        if op == "put_if_absent" and name[-25:-5].isdigit() and "checkpoint" not in name and left[0]:
            left[0] -= 1
            winner(table.log(checkpoint__enabled=False, **options))

    store.hook = first
    result = loser(table.log(store=store, checkpoint__enabled=False, **options))
    assert left[0] == 0, "there was no race"
    return result


def one(path: str, **more: Any) -> Any:
    return adds(split(path, {"day": "1"}, **more))


def table_of(reader: int = 2, writer: int = 2, **lists: Any) -> RawIndex:
    table = handmade(protocol(reader, writer, **lists), metadata(["day"]))
    table.commit(*({"add": split(f"{n}.split", {"day": str(n % 2)})} for n in range(4)))
    return table


def prove(table: RawIndex) -> None:
    assert verify(table.table_log(), data=False).ok


# ---------------------------------------------------------------------------- protocols


def test_of_two_first_writers_of_a_legacy_table_the_loser_takes_over_the_protocol() -> None:
    table = legacy()
    found = race(table, lambda log: log.append(adds("b.split")), lambda log: log.append(adds("a.split")))
    assert (table.keys(2), table.keys(3)) == (["protocol", "add"], ["add"])
    assert found.protocol == Protocol(2, 2)
    assert paths(table.log().snapshot()) == ["a.split", "b.split", "old.split"]
    prove(table)


def test_a_first_writer_that_loses_to_an_upgrade_keeps_the_higher_one() -> None:
    table = legacy()
    race(table, lambda log: log.append(adds("b.split")), lambda log: log.upgrade_protocol(3, 3))
    assert table.keys(3) == ["add"]
    assert table.log().snapshot().protocol.min_reader_version == 3


def test_two_writers_that_raise_version_1_at_once_both_go_on() -> None:
    table = table_of(1, 1)
    race(table, lambda log: log.append(one("b.split", **V2)), lambda log: log.skip("0.split", "bad"))
    assert (table.keys(2), table.keys(3)) == (["protocol", "skip"], ["add"])
    assert table.log().snapshot().protocol == Protocol(2, 2)


def test_protocols_that_rise_on_different_sides_are_merged() -> None:
    table = table_of(1, 1)
    race(table, lambda log: log.upgrade_protocol(2, 1), lambda log: log.upgrade_protocol(1, 2))
    assert table.lines(2)[0] == protocol(1, 2)
    assert table.lines(3)[0] == protocol(2, 2)


def test_features_of_both_sides_are_united() -> None:
    table = table_of(2, 2, writerFeatures=["checkpoint"])
    race(
        table,
        lambda log: log.append(one("b.split", docMappingJson="[]")),
        lambda log: log.upgrade_protocol(3, 3),
        schemaDeduplication__enabled=True,
    )
    found = table.log().snapshot().protocol
    assert "schemaDeduplication" in (found.writer_features or ())
    assert "checkpoint" in (found.writer_features or ())


@pytest.mark.parametrize("upgrade_first", [True, False])
def test_an_upgrade_and_an_append_both_succeed_in_either_order(upgrade_first: bool) -> None:
    table = table_of(1, 1)
    append: Act = lambda log: log.append(one("b.split"))  # noqa: E731
    upgrade: Act = lambda log: log.upgrade_protocol(2, 2)  # noqa: E731
    race(table, append if upgrade_first else upgrade, upgrade if upgrade_first else append)
    found = table.log().snapshot()
    assert (found.version, found.protocol) == (3, Protocol(2, 2))
    assert "b.split" in paths(found)


def test_a_writer_that_loses_to_a_protocol_it_does_not_support_is_refused() -> None:
    table = table_of()
    with pytest.raises(ProtocolVersionException, match="requires writer version 9"):
        race(table, lambda log: log.append(one("b.split")), lambda log: table.commit(protocol(2, 9)))
    assert table.version == 2


# ---------------------------------------------------------------------------- splits


def test_two_merges_of_the_same_splits_conflict() -> None:
    table = table_of()
    with pytest.raises(ConcurrentDeleteReadException):
        race(
            table,
            lambda log: log.replace(["0.split", "2.split"], one("late.split")),
            lambda log: log.replace(["2.split", "0.split"], one("early.split")),
        )
    assert paths(table.log().snapshot()) == ["1.split", "3.split", "early.split"]


def test_two_merges_of_different_splits_both_succeed() -> None:
    table = table_of()
    race(
        table,
        lambda log: log.replace(["0.split", "2.split"], one("even.split")),
        lambda log: log.replace(["1.split", "3.split"], one("odd.split")),
    )
    assert paths(table.log().snapshot()) == ["even.split", "odd.split"]


@pytest.mark.parametrize(
    "winner",
    [
        lambda log: log.drop_partitions("day = '0'"),
        lambda log: log.overwrite(one("new.split")),
        lambda log: log.remove(["2.split"]),
    ],
    ids=["dropped partitions", "an overwrite", "a removal"],
)
def test_a_merge_does_not_bring_back_what_was_removed(winner: Act) -> None:
    table = table_of()
    with pytest.raises(DeltaConcurrentModificationException):
        race(table, lambda log: log.replace(["0.split", "2.split"], one("merged.split")), winner)
    assert "merged.split" not in paths(table.log().snapshot())


def test_a_merge_planned_on_a_version_where_a_split_was_live_conflicts_later_too() -> None:
    table = table_of()
    log = table.log()
    planned = log.snapshot()
    log.drop_partitions("day = '0'")
    with pytest.raises(DeltaConcurrentModificationException):
        table.log().replace(["0.split", "2.split"], one("merged.split"), read=planned)
    with pytest.raises(ConcurrentDeleteDeleteException):
        table.log().replace(["0.split"], one("merged.split"))


def test_a_merge_and_an_append_both_succeed() -> None:
    table = table_of()
    race(
        table,
        lambda log: log.replace(["0.split", "2.split"], one("merged.split")),
        lambda log: log.append(one("new.split")),
    )
    assert paths(table.log().snapshot()) == ["1.split", "3.split", "merged.split", "new.split"]


def test_an_overwrite_takes_what_was_appended_meanwhile_too() -> None:
    table = table_of()
    race(table, lambda log: log.overwrite(one("all.split")), lambda log: log.append(one("new.split")))
    assert paths(table.log().snapshot()) == ["all.split"]


def test_dropping_a_partition_takes_what_came_into_it_meanwhile() -> None:
    table = table_of()
    race(
        table,
        lambda log: log.drop_partitions("day = '1'"),
        lambda log: log.append(one("new.split")),
        times=1,
    )
    assert paths(table.log().snapshot()) == ["0.split", "2.split"]


def test_dropping_a_partition_does_not_mind_another_one() -> None:
    table = table_of()
    found = race(
        table,
        lambda log: log.drop_partitions("day = '0'"),
        lambda log: log.append(one("new.split")),
    )
    assert found.version == 3
    assert paths(found) == ["1.split", "3.split", "new.split"]


def test_skips_of_one_split_add_up() -> None:
    table = table_of()
    found = race(table, lambda log: log.skip("0.split", "late"), lambda log: log.skip("0.split", "early"))
    assert (found.skips["0.split"].skip_count, found.skips["0.split"].reason) == (2, "late")


def test_a_writer_that_loses_again_and_again_goes_on() -> None:
    table = table_of()
    names = iter(f"w{n}.split" for n in range(20))
    found = race(
        table, lambda log: log.append(one("mine.split")), lambda log: log.append(one(next(names))), times=12
    )
    assert found.version == 14
    assert len(paths(found)) == 4 + 12 + 1


# ---------------------------------------------------------------------------- metadata


def test_two_writers_with_new_schemas_both_store_theirs() -> None:
    table = RawIndex()
    table.log().create(SCHEMA)
    race(
        table,
        lambda log: log.append(adds(split("b.split", docMappingJson='["b"]'))),
        lambda log: log.append(adds(split("a.split", docMappingJson='["a"]'))),
        schemaDeduplication__enabled=True,
    )
    rows = {r["path"]: r["docMappingJson"] for r in table.log().snapshot().files().to_pylist()}
    assert rows == {"a.split": '["a"]', "b.split": '["b"]'}
    schemas = [k for k in table.log().snapshot().configuration if k.startswith(doc_mappings.PREFIX)]
    assert len(schemas) == 2


def test_an_append_that_loses_to_new_metadata_is_told_so() -> None:
    table = table_of()
    with pytest.raises(MetadataChangedException):
        race(
            table,
            lambda log: log.append(one("b.split")),
            lambda log: log.update_metadata(lambda m: m.with_configuration({"a": "b"})),
        )


def test_changes_of_the_metadata_are_applied_one_after_the_other() -> None:
    table = table_of()

    def setting(key: str) -> Act:
        return lambda log: log.update_metadata(lambda m: m.with_configuration({**m.configuration, key: "1"}))

    race(table, setting("b"), setting("a"))
    assert dict(table.log().snapshot().configuration) == {"a": "1", "b": "1"}


def test_two_creators_end_with_one_table() -> None:
    table = RawIndex()
    found = race(table, lambda log: log.create(SCHEMA), lambda log: log.create(SCHEMA))
    assert (found.version, table.version) == (0, 0)
    assert found.metadata.id == table.log().snapshot().metadata.id


# ---------------------------------------------------------------------------- many at once


@pytest.mark.parametrize("kind", ["legacy", "new"])
def test_many_writers_all_succeed_with_versions_of_their_own(tmp_path: Path, kind: str) -> None:
    if kind == "new":
        IndexLog.at(tmp_path).create(SCHEMA)
    else:
        raw = legacy()
        (tmp_path / "_transaction_log").mkdir()
        for name in raw.names():
            (tmp_path / "_transaction_log" / name).write_bytes(raw.bytes(name))
    start = IndexLog.at(tmp_path).snapshot().version

    def write(writer: int) -> list[int]:
        log = IndexLog.at(tmp_path, options={"spark.indextables.checkpoint.interval": "4"})
        return [log.append(adds(split(f"{writer}-{n}.split", **V2))).version for n in range(6)]

    with ThreadPoolExecutor(6) as pool:
        versions = [v for done in pool.map(write, range(6)) for v in done]
    assert sorted(versions) == list(range(start + 1, start + 37))
    found = IndexLog.at(tmp_path).snapshot()
    assert len([p for p in paths(found) if "-" in p]) == 36
    assert found.protocol == Protocol(2, 2)
    protocols = [r for r in IndexLog.at(tmp_path).describe(include_all=True).to_pylist()
                 if r["action_type"] == "protocol" and not r["is_checkpoint"]]  # fmt: skip
    assert len(protocols) == 1
    assert verify(IndexLog.at(tmp_path).log, data=False).ok
