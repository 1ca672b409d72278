"""What a statement says, as frozen values: names in parts, expressions as the text the user wrote.

Nothing here is looked up or checked against a table. Texts are spans of the statement itself; they
go to Spark as they came and are never put together anew from a tree.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class TableRef:
    """A table where it stands in a statement: its name, the span of it, and the version asked for."""

    parts: tuple[str, ...]
    start: int
    end: int
    version: str | None = None
    timestamp: str | None = None
    # Whether the table stands as a path between quotes.
    literal: bool = False

    @property
    def path(self) -> str | None:
        """The path of ``delta.`/path` ``, None for a name of the catalog."""
        if len(self.parts) == 2 and self.parts[0].lower() == "delta" and _is_path(self.parts[1]):
            return self.parts[1]
        return None

    @property
    def name(self) -> str:
        """The name as Spark reads it, every part quoted."""
        return ".".join("`" + p.replace("`", "``") + "`" for p in self.parts)

    def __str__(self) -> str:
        return ".".join(self.parts)


def _is_path(text: str) -> bool:
    return "/" in text


@dataclass(frozen=True)
class Statement:
    """Any statement that has one table as its subject."""

    table: TableRef


@dataclass(frozen=True)
class Vacuum(Statement):
    """``VACUUM t [FULL|LITE] [USING INVENTORY ...] [RETAIN n HOURS] [DRY RUN]``."""

    mode: str | None = None
    retain_hours: float | None = None
    dry_run: bool = False
    inventory: str | None = None


@dataclass(frozen=True)
class Optimize(Statement):
    """``OPTIMIZE t [FULL] [WHERE p] [ZORDER BY (c, ...)]``."""

    full: bool = False
    where: str | None = None
    zorder: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reorg(Statement):
    """``REORG TABLE t [WHERE p] APPLY (PURGE)``."""

    where: str | None = None
    action: str = "PURGE"


@dataclass(frozen=True)
class Restore(Statement):
    """``RESTORE [TABLE] t [TO] VERSION|TIMESTAMP AS OF x``; the version stands in the reference."""


@dataclass(frozen=True)
class Convert(Statement):
    """``CONVERT TO DELTA parquet.`p` [NO STATISTICS] [PARTITIONED BY (c type, ...)]``."""

    statistics: bool = True
    partition_schema: str | None = None


@dataclass(frozen=True)
class Generate(Statement):
    """``GENERATE symlink_format_manifest FOR TABLE t``."""

    mode: str = ""


@dataclass(frozen=True)
class Describe(Statement):
    """``DESCRIBE DETAIL|HISTORY|TABLE``: ``what`` is detail, history, table, extended or column."""

    what: str = "table"
    limit: int | None = None
    column: str = ""


@dataclass(frozen=True)
class Show(Statement):
    """``SHOW PARTITIONS|COLUMNS|TBLPROPERTIES|CREATE TABLE``: ``what`` in lower case."""

    what: str = ""
    key: str | None = None


@dataclass(frozen=True)
class Identity:
    """``GENERATED ALWAYS|BY DEFAULT AS IDENTITY (START WITH s INCREMENT BY i)``."""

    always: bool
    start: int = 1
    step: int = 1


@dataclass(frozen=True)
class ColumnDef:
    """One column of CREATE TABLE or ADD COLUMNS; ``name`` in parts, so that it may be nested."""

    name: tuple[str, ...]
    type: str
    nullable: bool = True
    default: str | None = None
    generated: str | None = None
    identity: Identity | None = None
    comment: str | None = None
    position: str | None = None


@dataclass(frozen=True)
class Create(Statement):
    """``CREATE [OR REPLACE] | REPLACE TABLE``, with columns, AS SELECT, LIKE or SHALLOW CLONE."""

    mode: str = "create"
    if_not_exists: bool = False
    using: str | None = None
    columns: tuple[ColumnDef, ...] = ()
    partitioned: tuple[str, ...] = ()
    clustered: tuple[str, ...] = ()
    comment: str | None = None
    location: str | None = None
    properties: dict[str, str] = field(default_factory=dict)
    query: str | None = None
    like: TableRef | None = None
    clone: TableRef | None = None
    bucketed: bool = False
    temporary: bool = False


@dataclass(frozen=True)
class Insert(Statement):
    """``INSERT [WITH SCHEMA EVOLUTION] INTO|OVERWRITE``.

    ``partition`` maps a column to its text, None where it is dynamic.
    """

    overwrite: bool = False
    by_name: bool = False
    columns: tuple[str, ...] = ()
    partition: dict[str, str | None] = field(default_factory=dict)
    if_not_exists: bool = False
    replace_where: str | None = None
    query: str = ""
    evolution: bool = False
    # INSERT OVERWRITE DIRECTORY: files in a folder, with no table.
    directory: bool = False


@dataclass(frozen=True)
class Update(Statement):
    """``UPDATE t [AS a] SET c = v, ... [WHERE p]``."""

    alias: str | None = None
    set: tuple[tuple[str, str], ...] = ()
    where: str | None = None


@dataclass(frozen=True)
class Delete(Statement):
    """``DELETE FROM t [AS a] [WHERE p]``."""

    alias: str | None = None
    where: str | None = None


@dataclass(frozen=True)
class MergeClause:
    """One WHEN: ``kind`` is matched, not_matched or not_matched_by_source; ``action`` update, insert, delete.

    ``values`` is None for ``*``.
    """

    kind: str
    action: str
    condition: str | None = None
    values: tuple[tuple[str, str], ...] | None = ()


@dataclass(frozen=True)
class Merge(Statement):
    """``[WITH ...] MERGE [WITH SCHEMA EVOLUTION] INTO t USING s ON c WHEN ...``.

    ``common`` is the text of the WITH before it.
    """

    alias: str | None = None
    source: str = ""
    source_alias: str | None = None
    on: str = ""
    clauses: tuple[MergeClause, ...] = ()
    evolution: bool = False
    common: str = ""


@dataclass(frozen=True)
class Truncate(Statement):
    """``TRUNCATE TABLE t [PARTITION (...)]``."""

    partition: dict[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Refresh(Statement):
    """``REFRESH TABLE t``."""


@dataclass(frozen=True)
class Drop(Statement):
    """``DROP TABLE [IF EXISTS] t [PURGE]``."""

    if_exists: bool = False
    purge: bool = False


@dataclass(frozen=True)
class Alter(Statement):
    """``ALTER TABLE t`` with one change, as ``action`` names it; what belongs to it in its own fields.

    ALTER COLUMN may change several columns: then there is one of these for each, in ``each``.
    """

    action: str = ""
    name: tuple[str, ...] = ()
    to: tuple[str, ...] = ()
    text: str | None = None
    columns: tuple[ColumnDef, ...] = ()
    names: tuple[tuple[str, ...], ...] = ()
    properties: dict[str, str] = field(default_factory=dict)
    flag: bool = False
    each: tuple[Alter, ...] = ()


@dataclass(frozen=True)
class Index(Statement):
    """A statement of an index table, as ``action`` names it; what belongs to it in its own fields."""

    action: str = ""
    where: str | None = None
    size: str | None = None
    max_dest: int | None = None
    max_source: int | None = None
    hours: float | None = None
    log_hours: float | None = None
    dry_run: bool = False
    include_all: bool = False
    to: str | None = None
    columns: tuple[str, ...] = ()
    modes: dict[str, str] = field(default_factory=dict)
