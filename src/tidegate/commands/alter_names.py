"""Columns that go, and columns that get another name. No data is touched.

Both need column mapping, so that files know the column under a name of its own. What speaks of a column
(constraints, generated columns) keeps it as it is; what only lists it (partitions, statistics) follows.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import msgspec

from tidegate import properties
from tidegate.commands.alter import begin
from tidegate.commands.clustering import clustering_columns
from tidegate.commands.dependents import constraints_on, generated_from
from tidegate.commands.schema_edits import edit, holder_of, renamed, resolve, without
from tidegate.errors import AlterRefusedError
from tidegate.log.snapshot import Snapshot
from tidegate.log.table_log import TableLog
from tidegate.metadata import Metadata
from tidegate.schema.mapping import mapping_mode
from tidegate.schema.paths import Path, join_path, split_names, split_path
from tidegate.schema.types import StructType, duplicate_columns
from tidegate.transaction.pending import Operation
from tidegate.transaction.transaction import Committed


def drop_columns(log: TableLog, names: Iterable[str], *, if_exists: bool = False) -> Committed | None:
    """DROP COLUMNS: from the schema alone; files keep what they have."""
    transaction, snapshot = begin(log)
    schema, exact = snapshot.schema, log.settings().case_sensitive
    _need_mapping(snapshot, "dropped")
    dropped: list[str] = []
    for name in names:
        there = schema.resolve(name)
        if if_exists and (there is None or (exact and there[0] != split_path(name))):
            continue
        path, _ = resolve(schema, split_path(name), exact)
        refuse_dependents(snapshot, path, "dropped")
        _check_struct(schema, path, log.url)
        refuse_listed(snapshot, path)
        schema = edit(schema, path[:-1], partial(without, name=path[-1]))
        dropped.append(join_path(path))
    if not dropped:
        return None
    partitions = {c.lower() for c in snapshot.partition_columns}
    if not any(f.name.lower() not in partitions for f in schema.fields):
        raise AlterRefusedError(
            "The last column that holds data cannot be dropped.",
            table=log.url,
            errorClass="DELTA_DROP_COLUMN_ON_SINGLE_FIELD_SCHEMA",
        )
    metadata = snapshot.metadata.with_schema(schema)
    for name in dropped:
        metadata = with_indexed(metadata, split_path(name), None)
    transaction.update_metadata(metadata)
    return transaction.commit(operation=Operation("DROP COLUMNS", {"columns": dropped}))


def refuse_listed(snapshot: Snapshot, path: Path) -> None:
    """Refuse to drop a column that the table is clustered or partitioned by."""
    if any(path == c[: len(path)] for c in clustering_columns(snapshot)):
        raise AlterRefusedError(
            f"The table is clustered by {join_path(path)}.",
            table=snapshot.url,
            hint="Cluster it by other columns first.",
            errorClass="DELTA_UNSUPPORTED_DROP_CLUSTERING_COLUMN",
        )
    if path[0].lower() in {c.lower() for c in snapshot.partition_columns}:
        raise AlterRefusedError(
            f"The table is partitioned by {path[0]}, which cannot be dropped.",
            table=snapshot.url,
            errorClass="DELTA_UNSUPPORTED_DROP_PARTITION_COLUMN",
        )


def _check_struct(schema: StructType, path: Path, table: str) -> None:
    """A column can leave a struct, which must keep another one."""
    above = None if len(path) == 1 else schema.find(path[:-1])
    if above is None:
        return
    if not isinstance(above.type, StructType):
        raise AlterRefusedError(
            f"{join_path(path)} is no column of a struct; it goes with {join_path(path[:-1])} alone.",
            table=table,
            errorClass="DELTA_UNSUPPORTED_DROP_NESTED_COLUMN_FROM_NON_STRUCT_TYPE",
        )
    if len(above.type.fields) == 1:
        raise AlterRefusedError(
            f"{join_path(path)} is the only column in {join_path(path[:-1])}.",
            table=table,
            hint=f"Drop {join_path(path[:-1])}.",
            errorClass="DELTA_DROP_COLUMN_ON_SINGLE_FIELD_SCHEMA",
        )


def with_indexed(metadata: Metadata, path: Path, new: str | None) -> Metadata:
    """The columns that are to have statistics, with one renamed, or gone without a new name."""
    key = properties.DATA_SKIPPING_STATS_COLUMNS.key
    if not metadata.configuration.get(key):
        return metadata
    at, lower = len(path), [p.lower() for p in path]
    out = []
    for name in split_names(metadata.configuration[key]):
        found = split_path(name)
        if [p.lower() for p in found[:at]] != lower:
            out.append(name)
        elif new is not None:
            out.append(_listed((*found[: at - 1], new, *found[at:])))
    others = {k: v for k, v in metadata.configuration.items() if k != key}
    return metadata.with_configuration({**others, key: ",".join(out)} if out else others)


def _listed(path: Path) -> str:
    """A column as it stands among others with commas between them."""
    return ".".join(p if p.isidentifier() else "`" + p.replace("`", "``") + "`" for p in path)


def rename_column(log: TableLog, name: str, new_name: str) -> Committed:
    """RENAME COLUMN, at any level; the new name is that of the last level alone."""
    transaction, snapshot = begin(log)
    _need_mapping(snapshot, "renamed")
    path, _ = resolve(snapshot.schema, split_path(name), log.settings().case_sensitive)
    if holder_of(snapshot.schema, path) != path:
        raise AlterRefusedError(f"{join_path(path)} has no name that could be changed.", table=log.url)
    new = split_path(new_name)
    if not all(new):
        raise AlterRefusedError(f"{join_path(path)} cannot be renamed to nothing.", table=log.url)
    if len(new) > 1 and tuple(p.lower() for p in new[:-1]) != tuple(p.lower() for p in path[:-1]):
        raise AlterRefusedError("A column cannot be moved into another one by a rename.", table=log.url)
    refuse_dependents(snapshot, path, "renamed")
    schema = edit(snapshot.schema, path[:-1], lambda s: renamed(s, path[-1], new[-1]))
    if duplicate_columns(schema) or new[-1].lower() == path[-1].lower():
        raise AlterRefusedError(
            f"There is a column {new_name} already.",
            table=log.url,
            errorClass="FIELD_ALREADY_EXISTS",
        )
    partitions = snapshot.partition_columns
    if len(path) == 1:
        partitions = tuple(new[-1] if c.lower() == path[0].lower() else c for c in partitions)
    metadata = msgspec.structs.replace(
        snapshot.metadata, schema_string=schema.to_json(), partition_columns=partitions
    )
    transaction.update_metadata(with_indexed(metadata, path, new[-1]))
    parameters = {"oldColumnPath": join_path(path), "newColumnPath": join_path((*path[:-1], new[-1]))}
    return transaction.commit(operation=Operation("RENAME COLUMN", parameters))


def _need_mapping(snapshot: Snapshot, what: str) -> None:
    if mapping_mode(snapshot.metadata) == "none":
        raise AlterRefusedError(
            f"Columns of this table cannot be {what}: its files know them by the names that users see.",
            table=snapshot.url,
            hint="Set delta.columnMapping.mode = name first.",
            errorClass="DELTA_UNSUPPORTED_DROP_COLUMN"
            if what == "dropped"
            else "DELTA_UNSUPPORTED_RENAME_COLUMN",
        )


def refuse_dependents(snapshot: Snapshot, path: Path, what: str, left: StructType | None = None) -> None:
    """Refuse to touch a column that a constraint or a generated column speaks of.

    Generated columns that are not ``left`` go too, and do not count.
    """
    checks = constraints_on(snapshot.metadata, path)
    if checks:
        raise AlterRefusedError(
            f"The column {join_path(path)} cannot be {what}: constraints speak of it ({', '.join(checks)}).",
            table=snapshot.url,
            hint="Drop them first.",
            errorClass="DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE",
        )
    made = [
        name
        for name in generated_from(snapshot.metadata, path)
        if left is None or left.field(name) is not None
    ]
    if made:
        raise AlterRefusedError(
            f"The column {join_path(path)} cannot be {what}: {', '.join(made)} are generated from it.",
            table=snapshot.url,
            errorClass="DELTA_GENERATED_COLUMNS_DEPENDENT_COLUMN_CHANGE",
        )
