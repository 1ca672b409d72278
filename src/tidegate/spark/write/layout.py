"""Where the delayed commit protocol puts a file, and what it calls it. Pure rules, no I/O.

A task writes each file at its final place under a name of its own; nothing is renamed. Change rows
are told apart by the virtual partition column ``__is_cdc``, which decides the directory and never
appears among a file's partition values.
"""

from __future__ import annotations

import random
import string
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.errors import CommitRefusedError, SchemaInvalidError
from tidegate.files.paths import partition_directory, unescape_path_name
from tidegate.schema.types import StructType

# Columns that a DataFrame on its way into a table may carry beside the table's own: what kind of change
# a row is (null for data), and the row tracking of a row that moves from one file to another.
CHANGE_TYPE = "_change_type"
ROW_ID = "__tidegate_row_id"
ROW_COMMIT_VERSION = "__tidegate_row_commit_version"
SPECIAL = (CHANGE_TYPE, ROW_ID, ROW_COMMIT_VERSION)

CDC_COLUMN = "__is_cdc"
CDC_DIRECTORY = "_change_data"
_TRUE, _FALSE = f"{CDC_COLUMN}=true", f"{CDC_COLUMN}=false"
_NULL = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class Placed:
    """A file's name below the table, its partition values, and whether it holds change rows."""

    path: str
    partition_values: dict[str, str | None]
    is_cdc: bool


def directory_of(partition: str | None, random_prefix: str | None = None) -> str:
    """The directory of a file whose task was given the partition directory ``partition``."""
    if random_prefix is not None:
        return random_prefix
    if partition is None or partition == _FALSE:
        return ""
    if partition.startswith(_TRUE):
        return CDC_DIRECTORY + partition[len(_TRUE) :]
    if partition.startswith(_FALSE):
        return partition[len(_FALSE) :].lstrip("/")
    return partition


def directory_for(
    values: Sequence[tuple[str, str | None]], *, is_cdc: bool = False, prefix_length: int = 0
) -> str:
    """The directory of a file with these partition values, in order; change rows keep to their own."""
    partition = partition_directory([(CDC_COLUMN, "true" if is_cdc else "false"), *values])
    return directory_of(partition, random_prefix(prefix_length) if prefix_length and not is_cdc else None)


def file_name(split: int, extension: str, *, is_cdc: bool = False, separator: str = "-") -> str:
    """``part-00000-<uuid>-c000.snappy.parquet``; ``cdc-`` for change rows, ``.c000`` in partitions."""
    prefix = "cdc" if is_cdc else "part"
    return f"{prefix}-{split:05d}-{uuid.uuid4()}{separator}c000.{extension}"


def partition_values(directory: str) -> dict[str, str | None]:
    """The values that a Hive-style directory spells out, unescaped; the null name is null."""
    out: dict[str, str | None] = {}
    for part in directory.split("/"):
        name, found, value = part.partition("=")
        if found:
            text = unescape_path_name(value)
            out[unescape_path_name(name)] = None if text == _NULL else text
    return out


def placed(partition: str | None, name: str, random_prefix: str | None = None) -> Placed:
    """One written file: the directory rules and the partition values together."""
    values = partition_values(partition or "")
    is_cdc = values.pop(CDC_COLUMN, None) == "true"
    directory = directory_of(partition, random_prefix)
    return Placed(f"{directory}/{name}" if directory else name, values, is_cdc)


def random_prefix(length: int, rng: random.Random | None = None) -> str:
    """A random directory, so that object stores spread the load."""
    rng = rng or random.SystemRandom()
    return "".join(rng.choice(string.ascii_letters + string.digits) for _ in range(length))


def refuse_reserved(columns: Sequence[str], table: StructType) -> None:
    """Refuse data that brings a column by which we route rows, unless the table has a column of that name."""
    found = [c for c in columns if c in SPECIAL and table.field(c) is None]
    if found:
        raise SchemaInvalidError(
            f"The data has the column {found[0]}, which the table lacks; such names are reserved.",
            hint="Drop the column, or give it another name.",
            errorClass="DELTA_METADATA_MISMATCH",
        )


def refuse_absolute(path: str) -> None:
    """Files are added below the table only."""
    if path.startswith("/") or "://" in path:
        raise CommitRefusedError(f"{path} does not support adding files with an absolute path")
