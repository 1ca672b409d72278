"""How a call ends: exit codes, errors as a sentence or as an object, nothing else on stdout."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.tables import RawTable, features, protocol, remove
from tidegate._version import __version__
from tidegate.cli.options import HANDLER
from tidegate.log import names
from tidegate.storage.local import LocalStore

Run = Callable[..., Any]
VERBS = ("describe", "history", "protocol", "files", "log", "checkpoint", "verify")


@pytest.fixture(autouse=True)
def quiet_again() -> Iterator[None]:
    """What --verbose turned on is turned off for the next test."""
    yield
    logger = logging.getLogger("tidegate")
    logger.setLevel(logging.NOTSET)
    for handler in [h for h in logger.handlers if h.name == HANDLER]:
        logger.removeHandler(handler)


# ---------------------------------------------------------------------------- 2: could not


@pytest.mark.parametrize("verb", VERBS)
def test_no_table_is_a_sentence_with_its_code_and_exit_two(run: Run, tmp_path: Path, verb: str) -> None:
    said = run(verb, tmp_path)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("tidegate: [NOT_A_TABLE] There is no table here")
    assert str(tmp_path) in said.err


@pytest.mark.parametrize("verb", VERBS)
def test_no_table_is_an_object_in_json(run: Run, tmp_path: Path, verb: str) -> None:
    told = run(verb, tmp_path, "--json")
    assert (told.code, told.err) == (2, "")
    error = told.json["error"]
    assert (error["code"], error["table"], error["version"]) == ("NOT_A_TABLE", str(tmp_path), None)
    assert error["errorClass"] == "DELTA_TABLE_NOT_FOUND"
    assert error["message"]


@pytest.mark.parametrize("verb", VERBS)
def test_a_version_that_is_not_there(run: Run, path: Path, verb: str) -> None:
    error = run(verb, path, "--version", "99", "--json").json["error"]
    assert (error["code"], error["version"]) == ("VERSION_NOT_FOUND", 99)


@pytest.mark.parametrize("verb", [v for v in VERBS if v != "checkpoint"])
def test_a_time_before_the_table(run: Run, path: Path, verb: str) -> None:
    said = run(verb, path, "--timestamp", "1971-01-01")
    assert said.code == 2
    assert "[TIMESTAMP_OUT_OF_RANGE]" in said.err


@pytest.mark.parametrize("verb", [v for v in VERBS if v != "protocol"])
@pytest.mark.parametrize(
    ("head", "code"),
    [
        (protocol(4, 7, readers=[], writers=[]), "UNSUPPORTED_READER_VERSION"),
        (features("timeMachine"), "UNSUPPORTED_READER_FEATURE"),
    ],
)
def test_a_table_of_the_future_is_refused(
    run: Run, tmp_path: Path, verb: str, head: dict[str, Any], code: str
) -> None:
    made = RawTable.on_disk(tmp_path / "t").create(protocol=head)
    told = run(verb, made.store.url, "--json")
    if verb == "log":
        assert told.code == 0  # it lists files and promises nothing about what they mean
    else:
        assert (told.code, told.json["error"]["code"]) == (2, code)


def test_a_checkpoint_of_a_table_this_client_may_not_write_is_refused(run: Run, tmp_path: Path) -> None:
    made = RawTable.on_disk(tmp_path / "t").create(protocol=features(writers=["collations-preview"]))
    before = made.names()
    assert run("checkpoint", made.store.url, "--json").json["error"]["code"] == "UNSUPPORTED_WRITER_FEATURE"
    assert made.names() == before


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("describe",),
        ("frobnicate", "t"),
        ("describe", "t", "--version", "minus one"),
        ("describe", "t", "--version", "-1"),
        ("describe", "t", "--storage-option", "novalue"),
        ("describe", "t", "--version", "1", "--timestamp", "2026-01-01"),
        ("protocol", "t", "--version", "1", "--timestamp", "2026-01-01"),
        ("history", "t", "--limit", "-1"),
        ("verify", "t", "--deep", "--no-data"),
        ("verify", "t", "--frob"),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_exit_two(run: Run, arguments: tuple[str, ...]) -> None:
    said = run(*arguments)
    assert said.code == 2
    assert "Usage: tidegate" in said.err + said.out


def test_a_secret_in_a_malformed_option_is_not_repeated(run: Run) -> None:
    assert "hunter2" not in run("describe", "t", "--storage-option", "hunter2").err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("files", "{}", "--where", "nope = 1"), "PREDICATE_INVALID"),
        (("files", "{}", "--where", "id = = 1"), "PREDICATE_INVALID"),
        (("files", "{}", "--columns", "nope"), "PREDICATE_INVALID"),
        (("describe", "{}", "--timestamp", "yesterday"), "TIMESTAMP_OUT_OF_RANGE"),
        (("describe", "ftp://host/table"), "UNSUPPORTED_SCHEME"),
        (("describe", "{}", "--storage-option", "colour=red"), "STORAGE"),
    ],
)
def test_what_cannot_be_answered_is_told_by_its_code(
    run: Run, path: Path, arguments: tuple[str, ...], code: str
) -> None:
    told = run(*(a.format(path) for a in arguments), "--json")
    assert (told.code, told.json["error"]["code"]) == (2, code)


def test_a_mistake_of_ours_is_told_as_one(run: Run, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(LocalStore, "list_from", broken)
    said = run("describe", path)
    assert (said.code, said.out) == (2, "")
    assert "[INTERNAL] RuntimeError: boom" in said.err
    assert "Traceback" not in said.err
    assert run("describe", path, "--json").json["error"]["code"] == "INTERNAL"
    assert "Traceback" in run("describe", path, "--verbose").err


def test_an_interrupted_call_is_no_answer(run: Run, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalStore, "list_from", stopped)
    assert run("verify", path).code == 130


# ---------------------------------------------------------------------------- 1: found something


def damage_gap(table: RawTable, path: Path) -> tuple[str, str]:
    table.delete(names.commit(2))
    return "VERSIONS_NOT_CONTIGUOUS", names.commit(2)


def damage_commit(table: RawTable, path: Path) -> tuple[str, str]:
    table.edit(names.commit(3), lambda data: data[:-9])
    return "COMMIT_CORRUPT", names.commit(3)


def damage_checkpoint(table: RawTable, path: Path) -> tuple[str, str]:
    name = table.checkpoint(4)[0]
    table.edit(name, lambda data: data[: len(data) // 2])
    return "CHECKPOINT_CORRUPT", name


def damage_state(table: RawTable, path: Path) -> tuple[str, str]:
    name = table.checkpoint(3)[0]
    table.put(names.classic(4), table.bytes(name))
    return "CHECKPOINT_MISMATCH", names.classic(4)


def damage_sidecar(table: RawTable, path: Path) -> tuple[str, str]:
    first, *_, top = table.checkpoint(4, "v2-json")
    table.delete(first)
    return "SIDECAR_MISSING", top


def damage_checksum(table: RawTable, path: Path) -> tuple[str, str]:
    return "CHECKSUM_MISMATCH", table.checksum(4, numFiles=77)


def damage_garbage(table: RawTable, path: Path) -> tuple[str, str]:
    return "CHECKSUM_CORRUPT", table.put(names.checksum(4), b"\x00garbage")


def damage_compaction(table: RawTable, path: Path) -> tuple[str, str]:
    name = table.compact(1, 3)
    table.edit(name, lambda data: data.replace(b"f2.parquet", b"fX.parquet"))
    return "COMPACTION_MISMATCH", name


def damage_absence(table: RawTable, path: Path) -> tuple[str, str]:
    (path / "day=2026-01-03" / "f3.parquet").unlink()
    return "DATA_FILE_MISSING", "day=2026-01-03/f3.parquet"


def damage_size(table: RawTable, path: Path) -> tuple[str, str]:
    (path / "day=2026-01-03" / "f3.parquet").write_bytes(b"short")
    return "DATA_FILE_SIZE", "day=2026-01-03/f3.parquet"


DAMAGE = [
    damage_gap,
    damage_commit,
    damage_checkpoint,
    damage_state,
    damage_sidecar,
    damage_checksum,
    damage_garbage,
    damage_compaction,
    damage_absence,
    damage_size,
]


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda d: d.__name__.removeprefix("damage_"))
def test_verify_finds_damage_names_the_place_and_exits_with_one(
    run: Run, table: RawTable, path: Path, damage: Callable[[RawTable, Path], tuple[str, str]]
) -> None:
    code, file = damage(table, path)
    told = run("verify", path, "--json")
    assert (told.code, told.json["ok"]) == (1, False)
    assert (code, file) in {(f["code"], f["file"]) for f in told.json["findings"]}
    said = run("verify", path)
    assert said.code == 1
    assert code in said.out
    assert file in said.out
    assert "Found" in said.out.splitlines()[-1]


def test_deep_finds_what_lies_in_a_file_of_the_right_size(run: Run, path: Path) -> None:
    file = path / "day=2026-01-03" / "f3.parquet"
    file.write_bytes(b"x" * file.stat().st_size)
    assert run("verify", path).code == 0
    told = run("verify", path, "--deep", "--json")
    assert (told.code, told.json["findings"][0]["code"]) == (1, "DATA_FILE_CORRUPT")


def test_a_warning_alone_is_exit_zero(run: Run, table: RawTable, path: Path) -> None:
    table.hint(99)
    told = run("verify", path, "--json")
    assert (told.code, told.json["ok"], told.json["warnings"]) == (0, True, 1)
    assert "The table is sound; 1 warning." in run("verify", path).out


# ---------------------------------------------------------------------------- in a process of its own


def test_the_help_is_good_reading(spawn: Run) -> None:
    said = spawn("--help")
    assert (said.code, said.err) == (0, "")
    for words in ("without Spark", "Examples:", "Exit codes:", "0   good", *VERBS, "--where", "--verbose"):
        assert words in " ".join(said.out.split("\n"))
    # Each verb's line is whole, also at an old terminal: nothing ends in dots.
    narrow = spawn("--help", COLUMNS="80")
    assert "...\n" not in narrow.out.partition("Commands:")[2]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_a_help_of_its_own(run: Run, verb: str) -> None:
    said = run(verb, "--help")
    assert said.code == 0
    for option in ("TABLE", "--version", "--json", "--storage-option"):
        assert option in said.out


def test_the_version_is_printed(spawn: Run) -> None:
    said = spawn("--version")
    assert (said.code, said.out, said.err) == (0, f"tidegate {__version__}\n", "")


def test_a_process_answers_with_its_exit_code(spawn: Run, table: RawTable, path: Path) -> None:
    good = spawn("verify", path, "--json")
    assert (good.code, good.err, json.loads(good.out)["ok"]) == (0, "", True)
    table.put(names.checksum(4), b"garbage")
    assert spawn("verify", path).code == 1
    nowhere = spawn("verify", path / "nowhere")
    assert (nowhere.code, nowhere.out) == (2, "")
    assert "[NOT_A_TABLE]" in nowhere.err


def test_verbose_tells_each_step_on_stderr_only(spawn: Run, path: Path) -> None:
    said = spawn("-v", "describe", path, "--json")
    assert json.loads(said.out)["version"] == 5
    assert "DEBUG tidegate.storage" in said.err
    assert spawn("describe", path, "-v").err.count("DEBUG") > 0
    assert spawn("describe", path).err == ""


def test_a_screen_that_knows_no_unicode_is_no_reason_to_fail(
    spawn_many: Callable[..., list[Any]], path: Path
) -> None:
    done = spawn_many(["files", path], ["verify", path], PYTHONIOENCODING="ascii")
    assert [(said.code, said.err) for said in done] == [(0, ""), (0, "")]


def test_a_reader_that_goes_away_is_no_traceback(root: Path, table: RawTable, path: Path) -> None:
    for number in range(40):
        table.commit(remove(f"{'x' * 2000}{number}.parquet"))
    environ = {**os.environ, "PYTHONPATH": str(root / "src")}
    command = [sys.executable, "-m", "tidegate.cli", "history", str(path), "--json"]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        error = process.stderr.read().decode()
    assert "Traceback" not in error
    assert "BrokenPipe" not in error


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_terminal_packages_it_says_what_to_install(root: Path, missing: str) -> None:
    script = (
        "import sys\n"
        f"sys.modules[{missing!r}] = None\n"
        "sys.argv = ['tidegate', 'describe', '/tmp']\n"
        "from tidegate.cli import main\n"
        "main()\n"
    )
    environ = {**os.environ, "PYTHONPATH": str(root / "src")}
    ran = subprocess.run(
        [sys.executable, "-c", script], env=environ, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "pip install 'tidegate[cli]'" in ran.stderr
    assert "Traceback" not in ran.stderr
