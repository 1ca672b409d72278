"""The checksum of ``_last_checkpoint``, and what becomes of a hint on its way to disk and back."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from support.tables import RawTable, small_table
from tidegate.log.checkpoint import hint as hints
from tidegate.log.checkpoint.hint import Hint, checksum

SPEC = {
    "k0": "'v 0'",
    "checksum": "adsaskfljadfkjadfkj",
    "k1": {"k2": 2, "k3": ["v3", [1, 2], {"k4": "v4", "k5": ["v5", "v6", "v7"]}]},
}

LEAVES = st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.text(max_size=5))
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(
    st.text(max_size=3).filter(lambda k: k != "checksum"), VALUES, min_size=1, max_size=4
)


def test_the_specifications_own_example() -> None:
    assert checksum(SPEC) == "6a92d155a59bf2eecbd4b4ec7fd1f875"


def test_the_specifications_canonical_form() -> None:
    pairs = hints.canonical({k: v for k, v in SPEC.items() if k != "checksum"})
    assert dict(pairs) == {
        '"k0"': '"%27v%200%27"',
        '"k1"+"k2"': "2",
        '"k1"+"k3"+0': '"v3"',
        '"k1"+"k3"+1+0': "1",
        '"k1"+"k3"+1+1': "2",
        '"k1"+"k3"+2+"k4"': '"v4"',
        '"k1"+"k3"+2+"k5"+0': '"v5"',
        '"k1"+"k3"+2+"k5"+1': '"v6"',
        '"k1"+"k3"+2+"k5"+2': '"v7"',
    }


def shuffled(value: Any, order: random.Random) -> Any:
    if isinstance(value, dict):
        items = [(k, shuffled(v, order)) for k, v in value.items()]
        order.shuffle(items)
        return dict(items)
    return [shuffled(v, order) for v in value] if isinstance(value, list) else value


@given(OBJECTS, st.randoms(use_true_random=False))
def test_the_order_of_keys_does_not_matter(value: dict[str, Any], order: random.Random) -> None:
    assert checksum(shuffled(value, order)) == checksum(value)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [p for k, v in value.items() for p in leaves(v, (*path, k))]
    if isinstance(value, list):
        return [p for i, v in enumerate(value) for p in leaves(v, (*path, i))]
    return [path]


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


@given(OBJECTS, LEAVES, st.data())
def test_a_change_of_any_leaf_changes_it(value: dict[str, Any], other: Any, data: st.DataObject) -> None:
    places = leaves(value)
    assume(places)
    path = data.draw(st.sampled_from(places))
    assume((type(at(value, path)), at(value, path)) != (type(other), other))
    changed = json.loads(json.dumps(value))
    at(changed, path[:-1])[path[-1]] = other
    assert checksum(changed) != checksum(value)


@given(OBJECTS, st.text())
def test_its_own_field_does_not_count(value: dict[str, Any], own: str) -> None:
    assert checksum({**value, "checksum": own}) == checksum(value)


def test_a_checksum_deeper_down_counts() -> None:
    assert checksum({"a": {"checksum": "1"}}) != checksum({"a": {"checksum": "2"}})


HINTS = st.builds(
    Hint,
    version=st.integers(0, 2**63 - 1),
    size=st.integers(0, 2**40),
    parts=st.one_of(st.none(), st.integers(1, 9)),
    size_in_bytes=st.one_of(st.none(), st.integers(0, 2**40)),
    num_of_add_files=st.one_of(st.none(), st.integers(0, 2**40)),
)


@given(HINTS)
def test_a_hint_reads_back_with_the_right_checksum(hint: Hint) -> None:
    data = hints.encode(hint)
    found = hints.decode(data)
    assert found is not None
    assert found.checksum == checksum(json.loads(data))
    assert (found.version, found.size, found.parts) == (hint.version, hint.size, hint.parts)
    assert (found.size_in_bytes, found.num_of_add_files) == (hint.size_in_bytes, hint.num_of_add_files)


@given(HINTS, st.data())
def test_a_hint_with_one_byte_changed_is_not_believed_or_says_the_same(
    hint: Hint, data: st.DataObject
) -> None:
    text = hints.encode(hint)
    place = data.draw(st.integers(0, len(text) - 1))
    byte = data.draw(st.integers(0, 255))
    found = hints.decode(text[:place] + bytes([byte]) + text[place + 1 :])
    if found is not None and found.checksum is not None:
        assert (found.version, found.size, found.parts) == (hint.version, hint.size, hint.parts)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_hint_or_none(data: bytes) -> None:
    found = hints.decode(data)
    assert found is None or found.version >= 0


@pytest.mark.parametrize(
    "text",
    ['{"version":1,"x":"\\ud800","checksum":"a"}', '{"version":1,"\\udfff":1,"checksum":"a"}'],
)
def test_half_a_character_in_a_hint_is_no_crash(text: str) -> None:
    assert hints.decode(text.encode()) is None


def test_version_size_and_parts_come_first_and_the_checksum_last() -> None:
    text = hints.encode(Hint(version=3, size=9, parts=2, size_in_bytes=1)).decode()
    assert text.startswith('{"version":3,"size":9,"parts":2,')
    assert list(json.loads(text))[-1] == "checksum"


def test_a_hint_of_delta_spark_is_understood() -> None:
    text = (
        b'{"version":2,"size":20,"sizeInBytes":18000,"numOfAddFiles":4,"v2Checkpoint":{"path":"x.json",'
        b'"sizeInBytes":900,"modificationTime":1714496114594,"nonFileActions":[{"txn":{"appId":"a"}}]},'
        b'"checkpointSchema":{"type":"struct","fields":[]}}'
    )
    found = hints.decode(text)
    assert found is not None
    assert (found.version, found.num_of_add_files) == (2, 4)


def test_no_hint_is_no_error() -> None:
    assert hints.read(RawTable().store, "_delta_log") is None
    table = small_table()
    assert hints.read(table.store, "_delta_log") is None
    table.hint(2)
    found = hints.read(table.store, "_delta_log")
    assert found is not None
    assert found.version == 2
