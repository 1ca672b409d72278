"""``features``, ``drop-feature`` and ``protocol --clients``: plans that are kept, answers before acting."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.tables import RawTable, add, features, stats, vector
from tidegate.log.snapshot import load
from tidegate.log.table_log import TableLog

Run = Callable[..., Any]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A table that may have deletion vectors, and has none."""
    made = RawTable.on_disk(tmp_path / "t").create(
        protocol=features("deletionVectors", writers=["appendOnly", "invariants"]),
        configuration={"delta.enableDeletionVectors": "true"},
    )
    made.commit(add("f", stats=stats()))
    return tmp_path / "t"


def test_features_in_words_and_in_json(run: Run, place: Path) -> None:
    facts = run("features", place, "--json").json
    by_name = {f["name"]: f for f in facts["features"]}
    assert (facts["table"], facts["version"]) == (str(place), 1)
    assert by_name["deletionVectors"]["inUse"] is True
    assert by_name["appendOnly"]["droppable"] is False
    said = run("features", place)
    assert (said.code, said.err) == (0, "")
    for words in ("property delta.enableDeletionVectors = true", "5 commits, 4 checkpoints"):
        assert words in said.out
    assert run("features", place, "--version", "0", "--json").json["version"] == 0


def test_a_dry_run_changes_nothing_and_the_drop_keeps_the_plan(run: Run, place: Path) -> None:
    before = sorted(p.name for p in (place / "_delta_log").iterdir())
    dry = run("drop-feature", place, "deletionVectors", "--dry-run", "--json").json
    assert sorted(p.name for p in (place / "_delta_log").iterdir()) == before
    assert (dry["dropped"], dry["plan"]["commits"], dry["plan"]["checkpoints"]) == (False, 5, 4)
    assert (dry["plan"]["filesToRewrite"], dry["plan"]["waitMilliseconds"]) == (0, 0)
    assert (
        "unset delta.enableDeletionVectors" in run("drop-feature", place, "deletionVectors", "--dry-run").out
    )
    done = run("drop-feature", place, "deletionVectors", "--json")
    assert (done.code, done.err) == (0, "")
    assert done.json["dropped"] is True
    assert done.json["version"] == 1 + dry["plan"]["commits"]
    assert done.json["writerFeatures"] == dry["plan"]["protocol"]["writerFeatures"]
    assert len(list((place / "_delta_log").glob("*.checkpoint.parquet"))) == dry["plan"]["checkpoints"]
    assert run("verify", place, "--no-data", "--json").json["checked"]["drops"] == 1
    assert "behind checkpoints that hide them" in run("verify", place, "--no-data").out


def test_a_drop_in_words_tells_the_plan_and_then_what_was_done(run: Run, place: Path) -> None:
    said = run("drop-feature", place, "deletionVectors")
    assert (said.code, said.err) == (0, "")
    for words in ("takes", "wait", "3 empty commits", "Version 6 has dropped deletionVectors."):
        assert words in said.out


@pytest.mark.parametrize(
    ("arguments", "code", "error_class"),
    [
        (("appendOnly",), "FEATURE_NOT_REMOVABLE", "DELTA_FEATURE_DROP_NONREMOVABLE_FEATURE"),
        (("v2Checkpoint",), "FEATURE_NOT_PRESENT", "DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT"),
        (("abc",), "FEATURE_NOT_DROPPABLE_HERE", "DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE"),
    ],
)
def test_refusals_end_with_two_and_name_their_class(
    run: Run, place: Path, arguments: tuple[str, ...], code: str, error_class: str
) -> None:
    for more in ((), ("--dry-run",)):
        told = run("drop-feature", place, *arguments, *more, "--json")
        assert told.code == 2
        assert (told.json["error"]["code"], told.json["error"]["errorClass"]) == (code, error_class)


def test_truncation_says_that_it_waits(run: Run, place: Path) -> None:
    dry = run("drop-feature", place, "deletionVectors", "--truncate-history", "--dry-run", "--json").json
    assert dry["plan"]["waitMilliseconds"] == 86_400_000
    told = run("drop-feature", place, "deletionVectors", "--truncate-history", "--json")
    assert (told.code, told.json["error"]["code"]) == (2, "WAIT_FOR_RETENTION")
    assert load(TableLog.at(place)).protocol.supports("deletionVectors")


def test_what_must_be_rewritten_is_in_the_plan(run: Run, tmp_path: Path) -> None:
    made = RawTable.on_disk(tmp_path / "t").create(
        protocol=features("deletionVectors", writers=["appendOnly", "invariants"])
    )
    made.commit(add("f", 1234, dv=vector(), stats=stats()))
    plan = run("drop-feature", tmp_path / "t", "deletionVectors", "--dry-run", "--json").json["plan"]
    assert (plan["filesToRewrite"], plan["bytesToRewrite"]) == (1, 1234)
    assert "1 file, 1.2 KiB" in run("drop-feature", tmp_path / "t", "deletionVectors", "--dry-run").out


def test_clients_now_and_after_a_change(run: Run, place: Path) -> None:
    def able(*arguments: str) -> dict[tuple[str, str], tuple[bool, bool]]:
        facts = run("protocol", place, "--json", *arguments).json
        return {(c["client"], c["release"]): (c["canRead"], c["canWrite"]) for c in facts["clients"]}

    now, after = able("--clients"), able("--without", "deletionVectors")
    more = able("--with", "typeWidening")
    old, new, rust = ("delta-spark", "2.3.0"), ("delta-spark", "4.4.0"), ("delta-rs", "1.6.6")
    assert (now[old], now[new], now[rust]) == ((True, False), (True, True), (True, True))
    assert (after[old], after[new], after[rust]) == ((True, False), (True, True), (True, False))
    assert (more[old], more[new], more[rust]) == ((False, False), (True, True), (False, False))
    assert load(TableLog.at(place)).version == 1, "nothing was changed"
    said = run("protocol", place, "--without", "deletionVectors").out
    assert "checkpointProtection" in said
    assert "Clients, as of " in said
    assert "clients" not in run("protocol", place, "--json").json
    told = run("protocol", place, "--with", "abc", "--json")
    assert (told.code, told.json["error"]["code"]) == (2, "UNKNOWN_FEATURE")


def test_a_checkpoint_before_the_boundary_asks_for_the_protocol_of_its_version(
    run: Run, tmp_path: Path
) -> None:
    """The newest version is for everybody; one before the drop needs what nobody here has."""
    base = ["appendOnly", "checkpointProtection", "invariants"]
    made = RawTable.on_disk(tmp_path / "t").create(
        protocol=features("fromTheFuture", writers=base),
        configuration={"delta.requireCheckpointProtectionBeforeVersion": "2"},
    )
    made.commit(add("f", stats=stats()))
    made.commit(features(writers=base))
    made.commit(add("g", stats=stats()))
    before = made.names()
    for version in ("0", "1"):
        told = run("checkpoint", tmp_path / "t", "--version", version, "--json")
        assert (told.code, told.json["error"]["code"]) == (2, "UNSUPPORTED_READER_FEATURE")
        assert made.names() == before
    for version in ("2", "3"):
        assert run("checkpoint", tmp_path / "t", "--version", version, "--json").code == 0
