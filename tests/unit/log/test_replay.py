"""Columnar reconciliation is the specification's, for every history and every way to read it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.histories import Beside, artefacts, build, histories, step
from support.tables import (
    FORMS,
    RawTable,
    State,
    add,
    commit_info,
    domain,
    features,
    metadata,
    remove,
    rows,
    seen,
    txn,
    vector,
)
from tidegate.errors import InvalidCommitError
from tidegate.log import live_files
from tidegate.log.actions import Add, Remove
from tidegate.log.columns import from_batch
from tidegate.log.commits import decode_commit
from tidegate.log.replay import (
    check_commit,
    file_key,
    file_keys,
    first_of_each,
    hide,
    hide_in_groups,
    keep_rows,
    reconcile_files,
)
from tidegate.log.snapshot import Snapshot, load


@st.composite
def tables(draw: Any) -> tuple[list[Any], list[Beside]]:
    history = draw(histories())
    return history, draw(artefacts(len(history)))


# ---------------------------------------------------------------------------- against the model


@given(tables())
def test_every_version_loads_as_the_model_has_it(drawn: tuple[list[Any], list[Beside]]) -> None:
    table = build(*drawn)
    for version in range(table.version + 1):
        snapshot = table.load(version)
        assert snapshot.version == version
        assert seen(snapshot) == table.state(version)
        assert (snapshot.num_files, snapshot.size_in_bytes) == (
            len(table.state(version).files),
            table.state(version).size,
        )
    assert seen(table.load()) == table.state()


@given(tables())
def test_a_reader_that_follows_by_update_sees_what_a_fresh_one_does(
    drawn: tuple[list[Any], list[Beside]],
) -> None:
    history, beside = drawn
    table = RawTable()
    following: Snapshot | None = None
    for actions, more in zip(history, beside, strict=True):
        step(table, actions, more)
        if following is None:
            following = table.load()
        if more.look is None:
            continue
        following = following.update()
        assert following.version == table.version
        if more.look == "some":
            found = following.files(columns=["path", "size", "deletionVector"])
            assert sorted(found.column("path").to_pylist()) == table.state().paths
        elif more.look == "files":
            assert seen(following) == table.state()
    assert following is not None
    assert seen(following.update()) == table.state()


@given(tables(), st.data())
def test_a_log_cut_below_a_checkpoint_reads_the_same_from_there_on(
    drawn: tuple[list[Any], list[Beside]], data: st.DataObject
) -> None:
    table = build(*drawn)
    start = data.draw(st.integers(0, table.version))
    table.checkpoint(start, data.draw(st.sampled_from(FORMS)))
    for name in table.names():
        if name[:20].isdecimal() and int(name[:20]) < start:
            table.delete(name)
    for version in range(start, table.version + 1):
        assert seen(table.load(version)) == table.state(version)


@given(histories())
def test_a_snapshot_advanced_commit_by_commit_never_reads_the_past_again(history: list[Any]) -> None:
    table = RawTable()
    step(table, history[0], Beside())
    snapshot = table.load()
    snapshot.files()
    for actions in history[1:]:
        step(table, actions, Beside())
        table.memory.journal.clear()
        snapshot = snapshot.update()
        assert seen(snapshot, tombstones=False) == table.state().without_tombstones()
        read = {o.name for o in table.memory.journal if o.op == "get"}
        assert read <= {table.log.commit_path(table.version), table.log.commit_path(table.version + 1)}


# ---------------------------------------------------------------------------- single rules


def state(*commits: list[Any]) -> State:
    table = RawTable().create(protocol=features("deletionVectors", writers=["domainMetadata"]))
    for actions in commits:
        table.commit(*actions)
    found = seen(table.load())
    assert found == table.state()
    return found


def test_a_new_vector_for_a_file_replaces_its_entry() -> None:
    first, second = vector("1"), vector("2")
    found = state(
        [add("a", dv=first)],
        [remove("a", dv=first), add("a", dv=second)],
    )
    assert [f["deletionVector"] for f in found.files.values()] == [second]
    assert [f["deletionVector"] for f in found.tombstones.values()] == [first]


def test_vectors_of_one_file_at_two_offsets_are_two_logical_files() -> None:
    first, second = vector("same", 1), vector("same", 40)
    found = state([add("a", dv=first)], [remove("a", dv=first), add("a", dv=second)])
    assert [f["deletionVector"]["offset"] for f in found.files.values()] == [40]


def test_adding_a_live_file_again_renews_its_entry() -> None:
    found = state([add("a", 1)], [add("a", 1, change=False, tags={"x": "y"})])
    assert [f["tags"] for f in found.files.values()] == [{"x": "y"}]


def test_a_removed_file_that_comes_back_is_live_and_no_tombstone() -> None:
    found = state([add("a")], [remove("a")], [add("a")])
    assert found.paths == ["a"]
    assert found.tombstones == {}


def test_two_spellings_of_a_local_absolute_path_are_one_file() -> None:
    table = RawTable().create()
    table.commit(add("file:///data/a"))
    table.commit(remove("/data/a"))
    assert table.load().files().num_rows == 0


def test_the_newest_txn_counts_even_if_it_is_lower() -> None:
    assert state([txn("app", 7)], [txn("app", 3)]).txns["app"]["version"] == 3


def test_a_removed_domain_is_gone_and_may_come_back() -> None:
    assert state([domain("d", "1")], [domain("d", "1", removed=True)]).domains == {}
    back = state([domain("d", "1")], [domain("d", "1", removed=True)], [domain("d", "2")])
    assert back.domains["d"]["configuration"] == "2"


def test_a_removed_domain_stays_gone_over_a_checkpoint_that_still_has_it() -> None:
    table = RawTable().create(domain("d", "1"), protocol=features(writers=["domainMetadata"]))
    table.checkpoint(0)
    table.commit(domain("d", "1", removed=True))
    assert dict(table.load().domains) == {}


def test_metadata_is_replaced_whole() -> None:
    table = RawTable().create(configuration={"one": "1"})
    table.commit(metadata(configuration={"two": "2"}))
    assert dict(table.load().properties) == {"two": "2"}


def test_a_compaction_made_of_commits_newest_first_counts_its_first_line() -> None:
    """Found in the wild: kernel-rs' test table has such a compaction, not reconciled at all."""
    table = RawTable().create()
    table.commit(add("a"))
    table.commit(remove("a"))
    newest_first = [remove("a"), add("a")]
    table.put(f"{1:020d}.{2:020d}.compacted.json", b"".join(map(_line, newest_first)))
    assert table.load().files().num_rows == 0


def _line(action: Any) -> bytes:
    import json

    return json.dumps(action).encode() + b"\n"


# ---------------------------------------------------------------------------- illegal commits

ILLEGAL = {
    "two protocols": [features(), features()],
    "two metadatas": [metadata(), metadata()],
    "two txns of one application": [txn("a", 1), txn("a", 2)],
    "two actions of one domain": [domain("d", "1"), domain("d", "2")],
    "two adds of one path": [add("a"), add("a", dv=vector())],
    "two removes of one path": [remove("a"), remove("a", dv=vector())],
    "an add and a remove of one file": [remove("a"), add("a")],
    "an add and a remove of one file with its vector": [add("a", dv=vector()), remove("a", dv=vector())],
}


@pytest.mark.parametrize("actions", ILLEGAL.values(), ids=ILLEGAL)
def test_a_commit_that_contradicts_itself_is_refused_by_name(actions: list[Any]) -> None:
    table = RawTable().create()
    table.commit(*actions)
    with pytest.raises(InvalidCommitError) as caught:
        table.load().files()
    assert caught.value.file == f"{1:020d}.json"
    assert caught.value.version == 1
    assert caught.value.table == table.store.url


def test_a_path_removed_and_added_with_another_vector_is_a_legal_commit() -> None:
    actions = [commit_info(), remove("a"), add("a", dv=vector()), txn("a", 1), txn("b", 1)]
    check_commit(decode_commit(b"".join(map(_line, actions)), "x"), "x")


# ---------------------------------------------------------------------------- the pieces


@given(histories())
def test_the_key_of_one_action_is_the_key_in_its_column(history: list[Any]) -> None:
    odd = [add("file:///x/y"), add("file:/x/z", dv=vector()), add("s3://b/file:/x")]
    for actions in [*history, odd]:
        found = decode_commit(b"".join(map(_line, [commit_info(), *actions])), "x")
        for kind, batches in ((Add, found.adds), (Remove, found.removes)):
            for batch in batches:
                assert file_keys(batch).to_pylist() == [file_key(a) for a in from_batch(batch, kind)]


@given(st.lists(st.sampled_from("abc")))
def test_first_of_each_marks_first_appearances(keys: list[str]) -> None:
    expected = [k not in keys[:i] for i, k in enumerate(keys)]
    assert first_of_each(pa.array(keys, pa.string())).to_pylist() == expected


@given(st.lists(st.booleans(), max_size=40))
def test_keep_rows_is_a_filter(mask: list[bool]) -> None:
    batch = pa.RecordBatch.from_pydict({"n": pa.array(range(len(mask)), pa.int64())})
    kept = [n for b in keep_rows(batch, pa.array(mask, pa.bool_())) for n in b.column(0).to_pylist()]
    assert kept == [n for n, keep in enumerate(mask) if keep]


def test_no_commits_make_an_empty_tail() -> None:
    tail = reconcile_files([])
    assert (tail.adds, tail.removes, tail.keys) == ([], [], None)


def test_many_small_commits_become_few_batches() -> None:
    table = RawTable().create()
    for number in range(50):
        table.commit(add(f"{number}"))
    assert table.load().files().column("path").num_chunks <= 2
    assert len(list(rows(table.load().files()))) == 50


def test_a_loaded_snapshot_stays_as_it_was_when_the_table_moves_on() -> None:
    table = RawTable().create(add("a"))
    before = table.load()
    table.commit(remove("a"), add("b"))
    after = before.update()
    assert load(table.log).version == 1
    assert before.files(columns=["path"]).column("path").to_pylist() == ["a"]
    assert after.files(columns=["path"]).column("path").to_pylist() == ["b"]
    assert (before.version, after.version) == (0, 1)


# ---------------------------------------------------------------------------- very many keys


@given(
    st.lists(st.lists(st.sampled_from([f"p{n}" for n in range(30)]), max_size=12), max_size=6),
    st.one_of(st.none(), st.lists(st.sampled_from([f"p{n}" for n in range(40)]), max_size=20)),
)
def test_batches_taken_together_keep_the_same_rows(batches: list[list[str]], named: list[str] | None) -> None:
    hidden = None if named is None else pa.array(named, pa.string())
    made = [pa.record_batch({"path": pa.array(paths, pa.string())}) for paths in batches]
    apart = [b.column("path").to_pylist() for batch in made for b in hide(batch, hidden)]
    together = [b.column("path").to_pylist() for b in hide_in_groups(iter(made), lambda: hidden)]
    assert together == apart
    assert all(together)


@pytest.mark.parametrize("form", ["classic", "multipart", "v2-json"])
@given(histories(), st.data())
def test_a_large_tail_over_a_checkpoint_makes_no_difference(
    form: str, history: list[Any], data: st.DataObject
) -> None:
    table = RawTable()
    at = data.draw(st.integers(0, len(history) - 1))
    for number, actions in enumerate(history):
        table.commit(*actions)
        if number == at:
            table.checkpoint(form=form)
    expected = seen(table.load())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(live_files, "_LARGE_TAIL", -1)
        assert seen(table.load()) == expected
        few = table.load().files("id > 3", columns=["path"])
    assert few.equals(table.load().files("id > 3", columns=["path"]))
