"""A listing against its definition, for whatever names, directory and start hypothesis thinks of."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import MemoryStore as ObstoreMemory

from tidegate.storage import LocalStore, MemoryStore, ObjectStore, Store

SEGMENT = st.text(alphabet="a0-.~_é\ue000🌊", min_size=1, max_size=3).filter(
    lambda text: text not in (".", "..")
)
NAME = st.lists(SEGMENT, min_size=1, max_size=3).map("/".join)
START = st.text(alphabet="a0-./~_é\ue000🌊\x01", max_size=4)


def no_file_is_a_directory(names: set[str]) -> bool:
    return not any(other.startswith(f"{name}/") for name in names for other in names)


BACKENDS: dict[str, Callable[[], tuple[AbstractContextManager[str], Callable[[str], Store]]]] = {
    "local": lambda: (tempfile.TemporaryDirectory(), LocalStore),
    "memory": lambda: (nullcontext(""), lambda _: MemoryStore()),
    "objects": lambda: (nullcontext(""), lambda _: ObjectStore(ObstoreMemory(), url="s3://b")),
    "objects without order": lambda: (
        nullcontext(""),
        lambda _: ObjectStore(ObstoreMemory(), url="s3://b", ordered=False),
    ),
}


@pytest.mark.parametrize("backend", BACKENDS)
@given(
    names=st.sets(NAME, max_size=12).filter(no_file_is_a_directory),
    directory=st.just("") | SEGMENT | NAME,
    start=START | NAME,
    recursive=st.booleans(),
)
def test_a_listing_is_its_definition(
    backend: str, names: set[str], directory: str, start: str, recursive: bool
) -> None:
    place, make = BACKENDS[backend]()
    base = f"{directory}/" if directory else ""
    below = [name.removeprefix(base) for name in names if name.startswith(base)]
    asked = [name for name in below if name.encode() >= start.encode() and (recursive or "/" not in name)]
    with place as root:
        store = make(root)
        for name in names:
            store.put(name, name.encode())
        found = list(store.list_from(directory, start, recursive=recursive))
    assert [info.name for info in found] == [base + name for name in sorted(asked, key=str.encode)]
    assert [info.size for info in found] == [len(info.name.encode()) for info in found]
