"""A listing that was taken while another writer committed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from support.tables import RawTable, add
from tidegate.errors import VersionsNotContiguousError
from tidegate.log.snapshot import load
from tidegate.storage.store import FileInfo


class _TornListing:
    """A store whose listings leave one commit out, the first time or always."""

    def __init__(self, store: Any, name: str, times: int) -> None:
        self._store, self._name, self._times = store, name, times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def list_from(self, *args: Any, **kwargs: Any) -> Iterator[FileInfo]:
        self._times -= 1
        torn = self._times >= 0
        return (
            f for f in self._store.list_from(*args, **kwargs) if not (torn and f.name.endswith(self._name))
        )


def _table() -> RawTable:
    table = RawTable()
    table.create()
    for i in range(3):
        table.commit(add(f"f{i}"))
    return table


def test_a_commit_that_one_listing_misses_is_found_by_the_next() -> None:
    table = _table()
    log = replace(table.log, store=_TornListing(table.log.store, f"{2:020d}.json", 1))
    assert load(log).version == 3


def test_a_commit_that_is_really_missing_is_named() -> None:
    table = _table()
    log = replace(table.log, store=_TornListing(table.log.store, f"{2:020d}.json", 100))
    with pytest.raises(VersionsNotContiguousError, match="version 2 is missing"):
        load(log)
