"""What is killed: commands on small tables of one column, by the log and Arrow alone, and those of Spark.

``make`` writes the table of ``row_tables`` to a disk and makes it ten days old, so that what it has removed
is past its retention. ``outcome`` is all that a command may change there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.arrow_rows import rows_of
from support.race_tables import aged
from support.row_tables import RowTable, rewriter
from support.tables import Clock
from tidegate.commands.alter import cluster_by, set_properties, unset_properties
from tidegate.commands.alter_columns import NewColumn, add_columns, rename_column
from tidegate.commands.clone import clone
from tidegate.commands.convert import convert_folder
from tidegate.commands.drop_feature import drop_feature
from tidegate.commands.generate import FOLDER, MODE, generate
from tidegate.commands.restore import restore
from tidegate.commands.upgrade import add_feature_support
from tidegate.commands.vacuum import vacuum
from tidegate.log.checkpoint.write import write_checkpoint
from tidegate.log.retention import clean_up
from tidegate.log.snapshot import load
from tidegate.log.table_log import TableLog, system_clock
from tidegate.schema.types import LONG, StructField
from tidegate.storage.local import LocalStore

Work = Callable[[Any, str], object]
FEATURES = {
    "delta.enableDeletionVectors": "true",
    "delta.checkpointPolicy": "v2",
    "delta.enableRowTracking": "true",
    "delta.enableInCommitTimestamps": "true",
}
# Versions 0 to 5: made, three times ten numbers, one row deleted, and one file altogether.
LAST = 5


def make(path: Path, properties: Mapping[str, str] = FEATURES) -> str:
    """A table at ``path``, and beside it a folder of parquet files that is no table."""
    table = RowTable(Clock(system_clock()), LocalStore(path))  # type: ignore[arg-type]
    table.create(**properties)
    for first in (0, 10, 20):
        table.append(list(range(first, first + 10)))
    table.delete([5])
    table.delete(list(range(10, 20)))
    aged(path)
    return str(path)


def _dropping(feature: str) -> Work:
    return lambda spark, path: drop_feature(TableLog.at(path), feature, rewriter=rewriter)


def _setting(**properties: str) -> Work:
    given = {k.replace("__", "."): v for k, v in properties.items()}
    return lambda spark, path: set_properties(TableLog.at(path), given)


def _checkpoint(spark: Any, path: str) -> None:
    write_checkpoint(load(TableLog.at(path)))


def _clean(spark: Any, path: str) -> None:
    snapshot = load(TableLog.at(path))
    write_checkpoint(snapshot)
    clean_up(snapshot, before=snapshot.log.clock())


def _convert(spark: Any, path: str) -> None:
    convert_folder(TableLog.at(path))


PLAIN: dict[str, Work] = {
    "vacuum": lambda spark, path: vacuum(TableLog.at(path)),
    "vacuum lite": lambda spark, path: vacuum(TableLog.at(path), mode="lite"),
    "restore": lambda spark, path: restore(TableLog.at(path), version=3),
    "set a property": _setting(mine="1"),
    "unset a property": lambda spark, path: unset_properties(
        TableLog.at(path), ["delta.enableDeletionVectors"], if_exists=True
    ),
    "map columns": _setting(delta__columnMapping__mode="name"),
    "add a column": lambda spark, path: add_columns(
        TableLog.at(path), [NewColumn(StructField("extra", LONG))]
    ),
    "rename a column": lambda spark, path: rename_column(TableLog.at(path), "id", "number"),
    "cluster by": lambda spark, path: cluster_by(TableLog.at(path), ["id"]),
    "upgrade": lambda spark, path: add_feature_support(TableLog.at(path), "vacuumProtocolCheck"),
    "track rows": _setting(delta__enableRowTracking="true"),
    "drop deletion vectors": _dropping("deletionVectors"),
    "drop v2 checkpoints": _dropping("v2Checkpoint"),
    "drop column mapping": _dropping("columnMapping"),
    "drop row tracking": _dropping("rowTracking"),
    "drop in-commit timestamps": _dropping("inCommitTimestamp"),
    "checkpoint": _checkpoint,
    "cleanup": _clean,
    "generate": lambda spark, path: generate(TableLog.at(path), MODE),
    "clone": lambda spark, path: clone(TableLog.at(f"{path}-source"), TableLog.at(path)),
    "convert": _convert,
}

COMMANDS: dict[str, Work] = dict(PLAIN)


def warm() -> None:
    """Have everything in memory that a command imports late."""
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        path = make(Path(directory) / "table")
        PLAIN["vacuum"](None, path)
        PLAIN["drop deletion vectors"](None, path)


# ---------------------------------------------------------------------------- outcomes


@dataclass(frozen=True)
class Outcome:
    """What a command may leave behind, as far as two runs of it agree."""

    rows: tuple[int, ...]
    schema: str
    properties: tuple[tuple[str, str], ...]
    features: frozenset[str]
    domains: frozenset[str]
    data_files: int
    manifests: int

    def same(self, other: Outcome) -> bool:
        return not self.difference(other)

    def difference(self, other: Outcome) -> list[str]:
        """What differs; files that nobody refers to may lie about, but none may be missing."""
        named = [n for n in self.__dataclass_fields__ if n != "data_files"]
        out = [f"{n}: {getattr(self, n)}" for n in named if getattr(self, n) != getattr(other, n)]
        return out if self.data_files >= other.data_files else [*out, f"data_files: {self.data_files}"]


_OWN = ("requireCheckpointProtection", "inCommitTimestampEnablement", "materialized", "maxColumnId")


def outcome(path: str) -> Outcome | None:
    """The table at ``path``; None where there is none."""
    if not (Path(path) / "_delta_log").is_dir() or not any((Path(path) / "_delta_log").glob("*.json")):
        return None
    snapshot = load(TableLog.at(path))
    metadata = snapshot.metadata
    return Outcome(
        rows=tuple(sorted(next(iter(r.values())) for r in rows_of(snapshot))),
        schema=", ".join(f"{f.name} {f.type}" for f in snapshot.schema.fields),
        properties=tuple(
            sorted((k, v) for k, v in metadata.configuration.items() if not any(o in k for o in _OWN))
        ),
        features=frozenset(snapshot.protocol.features(snapshot.log.registry.rules)),
        domains=frozenset(snapshot.domains),
        data_files=len([p for p in Path(path).glob("*.parquet") if p.is_file()]),
        # What a dead writer left half done is hidden, from those who read manifests too.
        manifests=len([p for p in (Path(path) / FOLDER).rglob("[!.]*") if p.is_file()]),
    )
