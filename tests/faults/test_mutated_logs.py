"""Logs that were damaged: the old answer, what the protocol makes of the bytes, or a typed error.

Two kinds of damage. What breaks structure (a file cut in the middle of a line, zeroed, lost, overwritten,
put beside others under odd names) may never change an answer: the version that a reader reports has exactly
the files it had when it was written. What stays well-formed (a number, a line more or less) is simply
another log; but where a checksum contradicts it, ``verify`` says so. Never anything but a ``TidegateError``.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from support.histories import EVERYTHING
from support.tables import (
    LOG,
    RawTable,
    State,
    add,
    domain,
    metadata,
    remove,
    seen,
    stats,
    txn,
    vector,
)
from tidegate.errors import TidegateError
from tidegate.log.checkpoint.write import write_checkpoint
from tidegate.log.history import version_at
from tidegate.log.verify import Report, verify

# ---------------------------------------------------------------------------- tables to damage

SETTINGS = {"delta.enableDeletionVectors": "true", "delta.feature.v2Checkpoint": "supported"}


def _grow(table: RawTable, number: int) -> None:
    """One more commit through the product, with a bit of everything in it."""
    actions = [
        add(f"f{number}.parquet", 100 + number, stats=stats(10 + number, number, number + 9)),
        txn(f"app{number % 2}", number, table.clock()),
    ]
    if number % 3 == 0:
        actions.append(domain("user.domain", json.dumps({"n": number})))
    if number >= 3:
        dv = vector("v4") if number == 6 else None
        actions.append(remove(f"f{number - 3}.parquet", 97 + number, dv=dv, time=table.clock()))
    if number == 4:
        old = "f3.parquet"
        actions += [remove(old, 103), add(old, 103, dv=vector("v4"), stats=stats(13))]
    table.transact(*actions)


def _table(**more: str) -> RawTable:
    table = RawTable()
    configuration = {**SETTINGS, "delta.feature.domainMetadata": "supported", **more}
    table.transact(metadata(configuration=configuration))
    for number in range(8):
        _grow(table, number)
    return table


def _classic() -> RawTable:
    return _table(**{"delta.checkpointInterval": "3"})


def _v2() -> RawTable:
    return _table(**{"delta.checkpointInterval": "3", "delta.checkpointPolicy": "v2"})


def _compacted() -> RawTable:
    return _table(**{"delta.checkpointInterval": "100", "tidegate.logCompactionInterval": "3"})


def _foreign() -> RawTable:
    """Multipart and other checkpoints by hand, a hint, and commits cleaned up below the first of them."""
    table = _table(**{"delta.checkpointInterval": "100"})
    table.checkpoint(3, "multipart", parts=3)
    table.checkpoint(5, "v2-parquet")
    table.checkpoint(7, "v2-inline")
    table.hint(7)
    table.delete_commits(3)
    table.delete(*(f"{v:020d}.crc" for v in range(3)))
    return table


def _one_checkpoint() -> RawTable:
    """Nothing to fall back to: the checkpoint is all there is below version 6."""
    table = _table(**{"delta.checkpointInterval": "100"})
    write_checkpoint(table.load(6))
    table.delete_commits(6)
    return table


TABLES: dict[str, Callable[[], RawTable]] = {
    "classic": _classic,
    "v2": _v2,
    "compacted": _compacted,
    "foreign": _foreign,
    "one checkpoint": _one_checkpoint,
}


@lru_cache
def original(name: str) -> RawTable:
    table = TABLES[name]()
    report = verify(table.log, data=False)
    assert report.errors == (), report.errors
    return table


@lru_cache
def truth(name: str) -> tuple[State, ...]:
    table = original(name)
    return tuple(table.state(v).without_tombstones() for v in range(table.version + 1))


def copy(name: str) -> RawTable:
    return original(name).survivor()


# ---------------------------------------------------------------------------- looking at a table


def told(error: TidegateError) -> TidegateError:
    """An error is a sentence with a code, whatever caused it."""
    assert str(error).startswith(f"[{error.code}] ")
    assert len(error.message) > 10
    return error


def observe(table: RawTable, version: int | None = None) -> tuple[int, State] | TidegateError:
    """A version and what it holds, everything asked for; or the typed error."""
    try:
        snapshot = table.load(version)
        assert snapshot.schema is not None
        # A checkpoint that lists a file twice is taken at its word; verify knows better.
        state = seen(snapshot, tombstones=False, twice=True)
        snapshot.tombstones()
        _ = snapshot.num_files, snapshot.timestamp, snapshot.commit_info
        assert snapshot.files("id > 5", ["path"]).num_rows <= snapshot.files().num_rows
    except TidegateError as e:
        return told(e)
    return snapshot.version, state


def look_everywhere(
    table: RawTable, latest: int, data: st.DataObject
) -> list[tuple[int, State] | TidegateError]:
    """The latest version, an older one, and every other door: nothing but typed errors may come out."""
    out = [observe(table), observe(table, data.draw(st.integers(0, latest + 1), label="version"))]
    for ask in (
        lambda: table.load().history(),
        lambda: version_at(table.log, table.clock() - 3_000),
        lambda: table.load(latest - 2).update().files(),
    ):
        try:
            ask()
        except TidegateError as e:
            told(e)
    return out


def prove(table: RawTable) -> Report | None:
    """What ``verify`` says; None where it refuses the question, with a typed error."""
    try:
        return verify(table.log, data=False)
    except TidegateError as e:
        told(e)
        return None


def is_true(name: str, seen_there: tuple[int, State] | TidegateError) -> bool:
    """A typed error, or a version of the table exactly as it was written."""
    if isinstance(seen_there, TidegateError):
        return True
    version, state = seen_there
    return version < len(truth(name)) and state == truth(name)[version]


# ---------------------------------------------------------------------------- damage

Damage = Callable[[RawTable, st.DataObject], str]


def pick(table: RawTable, data: st.DataObject, suffix: str = "") -> str:
    return data.draw(st.sampled_from([n for n in table.names() if n.endswith(suffix)]), label="file")


def well_formed(data: bytes) -> bool:
    """Whether every line still is a JSON object, so that nothing shows that any is missing."""
    lines = [line for line in data.split(b"\n") if line.strip()]
    try:
        return bool(lines) and all(isinstance(json.loads(line), dict) for line in lines)
    except ValueError:
        return False


def cut_off(table: RawTable, data: st.DataObject) -> str:
    """The end of a file is missing."""
    name = pick(table, data)
    size = len(table.bytes(name))
    at = data.draw(st.integers(0, max(size - 1, 0)), label="length")
    table.edit(name, lambda b: b[:at])
    return name


def emptied(table: RawTable, data: st.DataObject) -> str:
    name = pick(table, data)
    table.edit(name, lambda b: b"")
    return name


def zeroed(table: RawTable, data: st.DataObject) -> str:
    """A file as a crashed disk leaves it: the right length, no content."""
    name = pick(table, data)
    table.edit(name, lambda b: b"\x00" * len(b))
    return name


def garbage(table: RawTable, data: st.DataObject) -> str:
    name = pick(table, data)
    noise = random.Random(data.draw(st.integers(0, 2**32), label="noise"))
    table.edit(name, lambda b: noise.randbytes(len(b)))
    return name


def lost(table: RawTable, data: st.DataObject) -> str:
    name = pick(table, data)
    table.delete(name)
    return name


def line_cut(table: RawTable, data: st.DataObject) -> str:
    """Some line of a JSON file lost its end, the others are whole."""
    name = pick(table, data, ".json")
    lines = table.bytes(name).splitlines()
    if not lines:
        return name  # another damage has emptied it
    at = data.draw(st.integers(0, len(lines) - 1), label="line")
    keep = data.draw(st.integers(1, max(len(lines[at]) - 1, 1)), label="kept")
    lines[at] = lines[at][:keep]
    table.edit(name, lambda _: b"\n".join(lines) + b"\n")
    return name


def noise_line(table: RawTable, data: st.DataObject) -> str:
    """A line that is no action stands between the others."""
    name = pick(table, data, ".json")
    lines = table.bytes(name).splitlines()
    lines.insert(data.draw(st.integers(0, len(lines))), data.draw(st.binary(min_size=1, max_size=20)))
    table.edit(name, lambda _: b"\n".join(lines) + b"\n")
    return name


ODD = (
    "{name}.tmp",
    ".{name}.crc",
    "_copy_of_{name}",
    "{name}~",
    "x/{name}",
    "00000000000000000002.checkpoint.0000000009.0000000003.parquet",
    "00000000000000000002.checkpoint.0000000001.0000000099.parquet",
    "00000000000000000001.00000000000000000001.compacted.json",
    "99999999999999999999.json",
    "00000000000000000002.checkpoint.not-a-uuid.json",
    "_sidecars/nobody-asked-for-me.parquet",
    "_staged_commits/00000000000000000009.3a0d65cd-4056-49b8-937b-95f9e3ee90e5.json",
)


def odd_name(table: RawTable, data: st.DataObject) -> str:
    """The bytes of one file, or none, under a name that is not the log's."""
    name = pick(table, data)
    content = data.draw(st.sampled_from([b"", b"?", table.bytes(name)]))
    bare = name.rsplit("/", 1)[-1]
    return table.put(data.draw(st.sampled_from(ODD)).format(name=bare), content)


STRUCTURAL: dict[str, Damage] = {
    "cut off": cut_off,
    "emptied": emptied,
    "zeroed": zeroed,
    "garbage": garbage,
    "lost": lost,
    "a line cut": line_cut,
    "a line of noise": noise_line,
    "an odd name": odd_name,
}


def lost_lines(name: str, table: RawTable) -> bool:
    """Whether damage left a JSON file that looks whole but lacks something: then it is another log."""
    before = original(name)
    kept = set(table.names())
    return any(
        n.endswith((".json", ".crc"))
        and n in kept
        and table.bytes(n) != before.bytes(n)
        and well_formed(table.bytes(n))
        for n in before.names()
    )


@given(st.sampled_from(sorted(TABLES)), st.sampled_from(sorted(STRUCTURAL)), st.data())
def test_broken_structure_never_changes_an_answer(name: str, how: str, data: st.DataObject) -> None:
    table = copy(name)
    file = STRUCTURAL[how](table, data)
    note(f"{how}: {file}")
    answers = look_everywhere(table, original(name).version, data)
    prove(table)
    if not lost_lines(name, table):
        for answer in answers:
            assert is_true(name, answer), answer


@given(st.sampled_from(sorted(TABLES)), st.data())
def test_several_damages_at_once_never_change_an_answer(name: str, data: st.DataObject) -> None:
    table = copy(name)
    for how in data.draw(st.lists(st.sampled_from(sorted(STRUCTURAL)), min_size=2, max_size=4)):
        if table.names():
            note(f"{how}: {STRUCTURAL[how](table, data)}")
    answers = look_everywhere(table, original(name).version, data)
    if not lost_lines(name, table):
        for answer in answers:
            assert is_true(name, answer), answer


@given(st.sampled_from(sorted(TABLES)), st.data())
def test_a_file_lost_from_the_middle_is_worked_around_or_named(name: str, data: st.DataObject) -> None:
    """Whatever one file is lost, the latest version has its files, or the error says what is wrong."""
    table = copy(name)
    file = lost(table, data)
    answer = observe(table)
    if isinstance(answer, TidegateError):
        assert answer.code in {
            "VERSIONS_NOT_CONTIGUOUS",
            "LOG_TRUNCATED",
            "CHECKPOINT_INCOMPLETE",
            "CHECKPOINT_CORRUPT",
            "SIDECAR_MISSING",
        }
    else:
        newest = f"{original(name).version:020d}.json"
        assert answer[0] == original(name).version - (file == newest)
        assert is_true(name, answer)


# ---------------------------------------------------------------------------- well-formed damage


def numbers(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [p for k, v in value.items() for p in numbers(v, (*path, k))]
    if isinstance(value, list):
        return [p for i, v in enumerate(value) for p in numbers(v, (*path, i))]
    return [path] if isinstance(value, int) and not isinstance(value, bool) else []


def number_changed(table: RawTable, data: st.DataObject) -> str:
    name = data.draw(
        st.sampled_from([n for n in table.names() if n.endswith((".json", ".crc"))]), label="file"
    )
    lines = [json.loads(line) for line in table.bytes(name).splitlines()]
    places = [(i, p) for i, line in enumerate(lines) for p in numbers(line)]
    if not places:
        return name
    line, path = data.draw(st.sampled_from(places), label="place")
    here = lines[line]
    for step in path[:-1]:
        here = here[step]
    here[path[-1]] = data.draw(
        st.one_of(st.integers(-3, 1000), st.integers(-(2**70), 2**70), st.just(2**31), st.just(2**63)),
        label="number",
    )
    table.edit(name, lambda _: b"".join(json.dumps(x).encode() + b"\n" for x in lines))
    return name


def line_removed(table: RawTable, data: st.DataObject) -> str:
    name = pick(table, data, ".json")
    lines = table.bytes(name).splitlines()
    del lines[data.draw(st.integers(0, len(lines) - 1), label="line")]
    table.edit(name, lambda _: b"".join(x + b"\n" for x in lines))
    return name


def line_doubled(table: RawTable, data: st.DataObject) -> str:
    name = pick(table, data, ".json")
    lines = table.bytes(name).splitlines()
    at = data.draw(st.integers(0, len(lines) - 1), label="line")
    lines.insert(data.draw(st.integers(0, len(lines)), label="to"), lines[at])
    table.edit(name, lambda _: b"".join(x + b"\n" for x in lines))
    return name


def line_moved(table: RawTable, data: st.DataObject) -> str:
    """A line of one file stands in another."""
    source, target = pick(table, data, ".json"), pick(table, data, ".json")
    line = data.draw(st.sampled_from(table.bytes(source).splitlines()), label="line")
    table.edit(target, lambda b: b + line + b"\n")
    return target


def files_swapped(table: RawTable, data: st.DataObject) -> str:
    one, other = pick(table, data), pick(table, data)
    first, second = table.bytes(one), table.bytes(other)
    table.edit(one, lambda _: second)
    table.edit(other, lambda _: first)
    return f"{one} and {other}"


def text_changed(table: RawTable, data: st.DataObject) -> str:
    """One character inside of a JSON file is another."""
    name = data.draw(
        st.sampled_from([n for n in table.names() if n.endswith((".json", ".crc"))]), label="file"
    )
    at = data.draw(st.integers(0, len(table.bytes(name)) - 1), label="at")
    other = data.draw(st.sampled_from([bytes([c]) for c in b'0917aZ"{}[]:,.-/ \\\x00\xff']), label="byte")
    table.edit(name, lambda b: b[:at] + other + b[at + 1 :])
    return name


def bytes_changed(table: RawTable, data: st.DataObject) -> str:
    """Some bytes of a parquet file are others: its footer as well as its pages."""
    found = [n for n in table.names() if n.endswith(".parquet")]
    if not found:
        return "none"
    name = data.draw(st.sampled_from(found), label="file")
    size = len(table.bytes(name))
    tail = data.draw(st.booleans(), label="near the end")
    low = max(0, size - 1500) if tail else 0
    places = data.draw(st.lists(st.integers(low, size - 1), min_size=1, max_size=4), label="at")
    content = bytearray(table.bytes(name))
    for at in places:
        content[at] ^= data.draw(st.integers(1, 255))
    table.edit(name, lambda _: bytes(content))
    return name


def copied(table: RawTable, data: st.DataObject) -> str:
    """A file of the log once more, as another version."""
    name = pick(table, data)
    if not name[:20].isdecimal():
        return name
    version = data.draw(st.integers(0, original_version(table) + 2), label="version")
    return table.put(f"{version:020d}{name[20:]}", table.bytes(name))


def original_version(table: RawTable) -> int:
    return table.version


WELL_FORMED: dict[str, Damage] = {
    "a number changed": number_changed,
    "a line removed": line_removed,
    "a line doubled": line_doubled,
    "a line moved": line_moved,
    "a character changed": text_changed,
    "files swapped": files_swapped,
    "bytes of parquet changed": bytes_changed,
    "a file copied": copied,
}


def summary(state: State) -> tuple[Any, ...]:
    """What a checksum speaks of."""
    return len(state.files), state.size, state.protocol, state.metadata


@given(st.sampled_from(sorted(TABLES)), st.sampled_from(sorted(WELL_FORMED)), st.data())
def test_a_log_that_says_something_else_is_read_or_refused_and_verify_finds_it(
    name: str, how: str, data: st.DataObject
) -> None:
    table = copy(name)
    file = WELL_FORMED[how](table, data)
    note(f"{how}: {file}")
    answers = look_everywhere(table, original(name).version, data)
    latest = answers[0]
    report = prove(table)
    if report is None:
        return
    if isinstance(latest, TidegateError):
        assert not report.ok, f"readers are refused ({latest}), and verify has nothing to say"
        return
    version, state = latest
    if len(state.files) != table.load().files().num_rows:
        assert not report.ok, "a checkpoint lists a file twice, and verify has nothing to say"
    checksum = f"{version:020d}.crc"
    if version >= len(truth(name)) or checksum not in table.names():
        return
    if summary(state) != summary(truth(name)[version]):
        assert not report.ok, "the checksum contradicts what readers see, and verify has nothing to say"


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("field", ["numFiles", "tableSizeBytes"])
def test_a_checksum_that_lies_is_found(name: str, field: str) -> None:
    table = copy(name)
    file = f"{table.version:020d}.crc"
    body = json.loads(table.bytes(file))
    body[field] += 1
    table.edit(file, lambda _: json.dumps(body).encode())
    assert not verify(table.log, data=False).ok


@pytest.mark.parametrize("kind", ["add", "remove"])
@pytest.mark.parametrize("name", ["classic", "v2", "compacted"])
def test_every_single_action_line_that_goes_missing_is_found_by_verify(name: str, kind: str) -> None:
    """One by one: each add and remove of each commit that has a checksum."""
    base = original(name)
    looked = 0
    for version in range(base.version + 1):
        file = f"{version:020d}.json"
        lines = base.bytes(file).splitlines()
        for at, line in enumerate(lines):
            if kind not in json.loads(line):
                continue
            table = copy(name)
            kept = b"".join(x + b"\n" for i, x in enumerate(lines) if i != at)
            table.edit(file, lambda _, kept=kept: kept)  # type: ignore[misc]
            report = verify(table.log, data=False)
            assert not report.ok, f"{file}, line {at + 1}"
            looked += 1
    assert looked >= 4


def test_the_tables_hold_what_they_are_for() -> None:
    kinds = {
        "classic": ".checkpoint.parquet",
        "v2": "_sidecars/",
        "compacted": "compacted.json",
        "foreign": "0000000003.parquet",
        "one checkpoint": ".checkpoint.parquet",
    }
    for name, part in kinds.items():
        table = original(name)
        assert any(part in n for n in table.names()), name
        assert any(n.endswith(".crc") for n in table.names())
        assert seen(table.load(), tombstones=False) == truth(name)[-1]
        assert len(truth(name)[-1].files) >= 2
        assert table.log.log_dir == LOG
    assert EVERYTHING["protocol"]["minReaderVersion"] == 3
