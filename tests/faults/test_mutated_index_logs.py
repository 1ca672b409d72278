"""Logs of index tables that were damaged: the right answer or a typed error, never anything else.

Structural damage to a checkpoint or a hint (cut, zeroed, lost) must not change an answer as long as the
commits are there; a commit that is cut in the middle of a line is an error that names it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.index_tables import RawIndex, adds, created, paths, split
from tidegate.errors import TidegateError
from tidegate.log.verify import verify

PARTS = {"checkpoint__multiPart__enabled": True, "checkpoint__actionsPerPart": 2}
FORMS: dict[str, dict[str, Any]] = {
    "one file": {},
    "compressed": {"transaction__compression__enabled": True},
    "parts": PARTS,
    "compressed parts": {**PARTS, "transaction__compression__enabled": True},
}


@lru_cache(maxsize=8)
def whole(form: str) -> RawIndex:
    table = created()
    log = table.log(checkpoint__enabled=False, **FORMS[form])
    for n in range(5):
        log.append(
            adds(split(f"{n}.split", docMappingJson="[]", minValues={"id": "1"}, maxValues={"id": "2"}))
        )
    log.skip("3.split", "bad")
    log.remove(["0.split"])
    log.checkpoint()
    log.append(adds("last.split"))
    return table


EXPECTED = ["1.split", "2.split", "3.split", "4.split", "last.split"]


def answer(table: RawIndex) -> list[str] | None:
    """What a reader gets; None where it is told, by a typed error, that there is no answer."""
    try:
        found = table.log().snapshot()
        assert list(found.skips) == ["3.split"]
        found.files("id = 1")
        return paths(found)
    except TidegateError:
        return None


@pytest.mark.parametrize("form", FORMS)
def test_undamaged_logs_answer(form: str) -> None:
    assert answer(whole(form)) == EXPECTED
    assert verify(whole(form).table_log(), data=False).ok


def damage(data: bytes, kind: str, at: int) -> bytes | None:
    at %= max(1, len(data))
    if kind == "cut":
        return data[:at]
    if kind == "zeroed":
        return data[:at] + bytes(len(data) - at)
    if kind == "garbled":
        return data[:at] + bytes([data[at] ^ 0x5A]) + data[at + 1 :]
    return b"" if kind == "emptied" else None


@pytest.mark.parametrize("form", FORMS)
@given(
    st.integers(0, 30),
    st.sampled_from(["cut", "zeroed", "garbled", "emptied", "lost"]),
    st.integers(0, 5_000),
)
def test_a_damaged_checkpoint_or_hint_changes_no_answer(form: str, which: int, kind: str, at: int) -> None:
    table = whole(form).survivor()
    names = [n for n in table.names() if "checkpoint" in n]
    name = names[which % len(names)]
    data = damage(table.bytes(name), kind, at)
    if data is None:
        table.store.delete([f"_transaction_log/{name}"])
    else:
        table.put(name, data)
    # A hint that was garbled may still be one, with another number in it; what it says is only a hint.
    assert answer(table) == EXPECTED
    verify(table.table_log(), data=False)


@pytest.mark.parametrize("form", ["one file", "compressed"])
@given(st.integers(0, 30), st.sampled_from(["cut", "zeroed", "emptied", "lost"]), st.integers(0, 2_000))
def test_a_damaged_commit_is_an_error_or_does_not_matter(form: str, which: int, kind: str, at: int) -> None:
    table = whole(form).survivor()
    names = [n for n in table.names() if "checkpoint" not in n]
    name = names[which % len(names)]
    before = table.bytes(name)
    data = damage(before, kind, at)
    if data is None:
        table.store.delete([f"_transaction_log/{name}"])
    else:
        table.put(name, data)
    found = answer(table)
    # What is cut at the end of a line is a shorter commit, and what is lost at the end an older table.
    last = name == names[-1]
    assert found in (None, EXPECTED, EXPECTED[:-1] if last else EXPECTED)
    verify_or_error(table)


def verify_or_error(table: RawIndex) -> None:
    try:
        verify(table.table_log(), data=False)
    except TidegateError:
        return


@given(st.binary(max_size=200))
def test_any_bytes_as_a_commit_are_a_commit_or_a_typed_error(data: bytes) -> None:
    table = created()
    table.put(f"{1:020d}.json", data)
    try:
        table.log().snapshot().files()
    except TidegateError:
        return


@given(st.binary(max_size=120))
def test_any_bytes_as_a_hint_are_ignored_or_believed(data: bytes) -> None:
    table = whole("one file").survivor()
    table.put("_last_checkpoint", data)
    assert answer(table) == EXPECTED
