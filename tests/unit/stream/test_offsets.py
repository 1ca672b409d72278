"""Offsets of streams and the limits of a batch, as pure values."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import OptionError, StreamOffsetError
from tidegate.spark.stream.offsets import BEFORE, Budget, Limits, StreamOffset, byte_count, check_forward

ID = "5fba94ed-9794-4965-ba6e-6ee3c0d22af9"
offsets = st.builds(
    StreamOffset, st.just(ID), st.integers(0, 2**53), st.integers(BEFORE, 2**53), st.booleans()
)


@given(offsets)
def test_an_offset_survives_the_checkpoint(offset: StreamOffset) -> None:
    assert StreamOffset.from_json(offset.to_json(), ID) == offset


@given(offsets, offsets)
def test_equal_offsets_and_only_those_have_equal_texts(one: StreamOffset, other: StreamOffset) -> None:
    assert (one == other) == (one.to_json() == other.to_json())


def test_the_text_is_that_of_delta_spark() -> None:
    assert json.loads(StreamOffset(ID, 7, 3, True).to_json()) == {
        "sourceVersion": 1,
        "reservoirId": ID,
        "reservoirVersion": 7,
        "index": 3,
        "isStartingVersion": True,
    }


def _text(**changes: object) -> str:
    body = {
        "sourceVersion": 1,
        "reservoirId": ID,
        "reservoirVersion": 7,
        "index": -1,
        "isStartingVersion": False,
    }
    return json.dumps({**body, **changes})


def test_the_place_before_all_files_is_read_in_its_newer_form_too() -> None:
    newer = StreamOffset.from_json(_text(sourceVersion=3, index=-100), ID)
    assert newer == StreamOffset.from_json(_text(), ID) == StreamOffset(ID, 7)


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "no JSON",
        _text(sourceVersion=2),
        _text(sourceVersion=9),
        _text(sourceVersion=3, index=-20),
        _text(index=-3),
        _text(reservoirVersion=-1),
        _text(reservoirVersion="7"),
    ],
)
def test_what_is_no_offset_is_refused(text: str) -> None:
    with pytest.raises(StreamOffsetError):
        StreamOffset.from_json(text, ID)


def test_the_checkpoint_of_another_table_is_refused_by_its_name() -> None:
    with pytest.raises(StreamOffsetError, match="new checkpoint") as caught:
        StreamOffset.from_json(_text(), "another", table="/t")
    assert caught.value.errorClass == "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE"
    assert caught.value.table == "/t"


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (StreamOffset(ID, 3), StreamOffset(ID, 2, 5)),
        (StreamOffset(ID, 3, 4), StreamOffset(ID, 3, 3)),
        (StreamOffset(ID, 3), StreamOffset(ID, 4, 0, True)),
    ],
)
def test_a_stream_never_goes_back(start: StreamOffset, end: StreamOffset) -> None:
    check_forward(start, start)
    with pytest.raises(StreamOffsetError, match="go back"):
        check_forward(start, end)


# ---------------------------------------------------------------------------- limits


def _one_by_one(sizes: list[int], files: int | None, size: int | None) -> int:
    """What the limits say, a file at a time: taken while there is room for a file and for a byte."""
    taken = used = 0
    for one in sizes:
        if (files is not None and taken >= files) or (size is not None and used >= size):
            break
        taken, used = taken + 1, used + one
    return taken


@given(
    st.lists(st.integers(0, 50), max_size=20),
    st.one_of(st.none(), st.integers(1, 20)),
    st.one_of(st.none(), st.integers(1, 200)),
    st.integers(0, 20),
)
def test_a_budget_takes_files_as_if_one_by_one(
    sizes: list[int], files: int | None, size: int | None, cut: int
) -> None:
    wanted = _one_by_one(sizes, files, size)
    assert Budget(Limits(files, size)).admit(pa.array(sizes, pa.int64())) == wanted
    in_two = Budget(Limits(files, size))
    first = in_two.admit(pa.array(sizes[:cut], pa.int64()))
    rest = in_two.admit(pa.array(sizes[cut:], pa.int64())) if first == len(sizes[:cut]) else 0
    assert first + rest == wanted


def test_a_commit_that_must_stay_together_is_taken_whole_or_waits() -> None:
    budget = Budget(Limits(3, None))
    assert budget.admit_whole(pa.array([1, 1, 1, 1, 1]))
    assert not budget.admit_whole(pa.array([1]))
    budget = Budget(Limits(3, 100))
    assert budget.admit_whole(pa.array([50]))
    assert budget.admit_whole(pa.array([], pa.int64()))
    assert not budget.admit_whole(pa.array([51]))
    assert budget.spent


def test_the_default_is_a_thousand_files_unless_bytes_are_limited() -> None:
    assert Limits.of(None, None) == Limits(1000, None)
    assert Limits.of(None, "1k") == Limits(None, 1024)
    assert Limits.of("5", "2m") == Limits(5, 2 << 20)


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5", ""])
def test_a_number_of_files_is_a_whole_number_above_zero(text: str) -> None:
    with pytest.raises(OptionError, match="maxFilesPerTrigger"):
        Limits.of(text, None)


@pytest.mark.parametrize(
    ("text", "size"), [("7", 7), ("7b", 7), ("7 kb", 7 << 10), ("2g", 2 << 30), ("1TB", 1 << 40)]
)
def test_sizes_are_read_as_spark_spells_them(text: str, size: int) -> None:
    assert byte_count(text) == size


@pytest.mark.parametrize("text", ["", "g", "0", "7x", "-7m", "1.5g"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="maxBytesPerTrigger"):
        byte_count(text)
