"""What a search finds, held against a walk over the rows: the common end of the tests with random queries."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from support.splits import write_index
from tidegate.index.log import IndexLog
from tidegate.index.merge_splits import merge_splits
from tidegate.index.tables import Searchable

Row = dict[str, Any]
# A query, and whether a row matches it.
Case = tuple[str, Callable[[Row], bool]]


def assert_found(
    pieces: Sequence[Sequence[Row]],
    asked: Sequence[Case],
    schema: pa.Schema,
    options: Mapping[str, str],
    partitions: tuple[str, ...] = (),
    *,
    merge: bool,
) -> None:
    """Each piece is one write; every query finds exactly the rows that match, by their ``id``."""
    everything: list[Row] = []
    tables = []
    for piece in pieces:
        numbered = [{"id": len(everything) + i, **row} for i, row in enumerate(piece)]
        everything += numbered
        tables.append(pa.Table.from_pylist(numbered, schema))
    folder = tempfile.mkdtemp()
    try:
        table = write_index(f"{folder}/t", tables, options, partitions)
        if merge:
            merge_splits(IndexLog.at(f"{folder}/t"), "10M")
            table = Searchable.open(f"{folder}/t")
        for text, matches in asked:
            want = [row["id"] for row in everything if matches(row)]
            assert sorted(table.search(text, ["id"]).table().column("id").to_pylist()) == want, text
            assert table.count(text) == len(want), text
    finally:
        shutil.rmtree(folder)
