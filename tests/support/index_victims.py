"""What is killed of index tables, without Spark: splits written, merged, dropped, a companion refreshed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from support import log_dml
from support.log_commands import Work
from support.splits import append_index, write_index
from tidegate.index.companion import build, refresh
from tidegate.index.log import IndexLog
from tidegate.index.merge_splits import merge_splits
from tidegate.index.tables import Searchable
from tidegate.log.table_log import TableLog

TEXT = {"indexing.typemap.s": "text"}
COMPANION = "_search_index"


def rows(start: int) -> pa.Table:
    ids = list(range(start, start + 6))
    return pa.table({"id": ids, "p": ["ab"[i % 2] for i in ids], "s": [f"word{i} common" for i in ids]})


def _append(log: TableLog) -> None:
    append_index(log.url, rows(100), TEXT, ("p",))


def _overwrite(log: TableLog) -> None:
    append_index(log.url, rows(100), TEXT, ("p",), overwrite=True)


INDEX: dict[str, Work] = {
    "write splits": _append,
    "overwrite splits": _overwrite,
    "merge splits": lambda log: merge_splits(IndexLog.at(log.url), "10M"),
    "drop splits": lambda log: IndexLog.at(log.url).drop_partitions("p = 'a'"),
    "refresh a companion": lambda log: refresh(IndexLog.at(f"{log.url}/{COMPANION}")),
}


def make(name: str, path: Path) -> None:
    """The table that a command is for."""
    if name == "refresh a companion":
        log = TableLog.at(path)
        log_dml.create(log)
        log_dml.run(log, log_dml.append(list(range(6))))
        build(str(path), None, ["id"])
        log_dml.run(log, log_dml.append(list(range(100, 106))))
    else:
        write_index(path, [rows(0), rows(10)], TEXT, ("p",))


def found(path: Path) -> list[int]:
    """What a search finds; words and values must agree."""
    companion = path / COMPANION
    table = Searchable.open(companion if companion.exists() else path)
    ids = sorted(table.search("id:>=0", ["id"]).table().column("id").to_pylist())
    assert table.count("id:>=0") == len(ids)
    if not companion.exists():
        assert table.count("common") == len(ids)
    return ids
