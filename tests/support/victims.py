"""What is killed: the commands of ``log_commands`` on tables on a disk, and those of Spark.

``make`` is a table ten days old, so that what it has removed is past its retention. ``outcome`` is all that a
command may change there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.arrow_rows import rows_of
from support.index_victims import INDEX
from support.log_commands import ALTERATIONS, MAKERS, ROWS, SERVICES, Work, fill
from support.race_tables import aged
from tidegate.log.snapshot import load
from tidegate.log.table_log import TableLog
from tidegate.transaction.manifests import FOLDER

FEATURES = {
    "delta.enableDeletionVectors": "true",
    "delta.checkpointPolicy": "v2",
    "delta.enableRowTracking": "true",
    "delta.enableInCommitTimestamps": "true",
}
PLAIN: dict[str, Work] = {**ROWS, **SERVICES, **ALTERATIONS, **MAKERS}
_ALL = {**PLAIN, **INDEX}


def make(path: Path, properties: Mapping[str, str] = FEATURES) -> str:
    """The template of ``log_commands``, on a disk."""
    fill(TableLog.at(path), properties)
    aged(path)
    return str(path)


def carry_out(spark: Any, command: str, path: str) -> None:
    """Run a command by its name, in the session if there is one."""
    if spark is None:
        _ALL[command](TableLog.at(path))
    else:
        from support.race_commands import COMMANDS

        COMMANDS[command].work(spark, path)


def warm() -> None:
    """Have everything in memory that a command imports late."""
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        path = make(Path(directory) / "table")
        for name in ("vacuum", "update", "drop deletion vectors"):
            PLAIN[name](TableLog.at(path))


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
