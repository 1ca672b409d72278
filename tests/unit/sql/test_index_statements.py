"""The statements of index tables as values, and where a mistake is."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.errors import OptionError, SqlSyntaxError
from tidegate.sql import nodes
from tidegate.sql.parse import parse


def node(text: str) -> Any:
    found = parse(text)
    assert isinstance(found, nodes.Index)
    return found


@pytest.mark.parametrize(
    ("text", "where", "size", "most_made", "most_sources"),
    [
        ("", None, None, None, None),
        ("WHERE p = 'MAX DEST SPLITS'", "p = 'MAX DEST SPLITS'", None, None, None),
        ("TARGET SIZE 100M", None, "100M", None, None),
        ("MAX DEST SPLITS 3", None, None, 3, None),
        ("max source splits per merge 40;", None, None, None, 40),
        ("WHERE p > 1 AND q = 2 MAX DEST SPLITS 3", "p > 1 AND q = 2", None, 3, None),
        (
            "WHERE p IN (1, 2) TARGET SIZE 2G MAX DEST SPLITS 3 MAX SOURCE SPLITS PER MERGE 4",
            "p IN (1, 2)",
            "2G",
            3,
            4,
        ),
    ],
)
def test_merge_splits_takes_its_options(
    text: str, where: str | None, size: str | None, most_made: int | None, most_sources: int | None
) -> None:
    for table in ("'/data/t'", "indextables.`/data/t`", "db.t"):
        found = node(f"MERGE SPLITS {table} {text}")
        assert found.action == "merge splits"
        assert (found.where, found.size) == (where, size)
        assert (found.max_dest, found.max_source) == (most_made, most_sources)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("MERGE SPLITS t MAX DEST SPLITS ¦many", SqlSyntaxError),
        ("MERGE SPLITS t MAX DEST SPLITS ¦1.5", SqlSyntaxError),
        ("MERGE SPLITS t MAX SOURCE SPLITS PER MERGE¦", SqlSyntaxError),
        ("MERGE SPLITS t MAX DEST SPLITS 3 ¦TARGET SIZE 100M", SqlSyntaxError),
        ("MERGE SPLITS t ¦PRECOMMIT", OptionError),
    ],
)
def test_a_wrong_merge_splits_says_where(text: str, kind: type[SqlSyntaxError | OptionError]) -> None:
    with pytest.raises(kind) as caught:
        parse(text.replace("¦", ""))
    assert (caught.value.line, caught.value.column) == (1, text.index("¦") + 1)


def test_a_table_by_its_path_is_no_statement_of_index_tables() -> None:
    found = parse("UPDATE indextables.`/data/t` SET a = 1")
    assert isinstance(found, nodes.Update)
