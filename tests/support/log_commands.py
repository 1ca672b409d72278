"""The commands that need no Spark, and those on rows as the log sees them: each a function of a log.

``make`` is a table in memory, ten days older than ``now``: what it has removed is past the retention, its log
is not. Versions 1 to 4 bring ten numbers each, in a file of their own; version 5 deletes the 5, version 6 the
second file altogether.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from support import log_dml
from support.log_dml import rewriter
from support.tables import START, Clock
from tidegate.commands.alter import cluster_by, drop_constraint, set_properties, unset_properties
from tidegate.commands.alter_columns import NewColumn, add_columns
from tidegate.commands.alter_names import drop_columns, rename_column
from tidegate.commands.clone import clone
from tidegate.commands.convert import convert_folder
from tidegate.commands.drop_feature import drop_feature
from tidegate.commands.generate import MODE, generate
from tidegate.commands.restore import restore
from tidegate.commands.upgrade import add_feature_support
from tidegate.commands.vacuum import vacuum
from tidegate.log.checkpoint.write import write_checkpoint
from tidegate.log.retention import clean_up
from tidegate.log.snapshot import load
from tidegate.log.table_log import TableLog
from tidegate.schema.types import LONG, StructField
from tidegate.storage.memory import MemoryStore

Work = Callable[[TableLog], object]
TEMPLATE_ROWS = 40
_DAY = 86_400_000
_NOW = START + 11 * _DAY


def now() -> int:
    return _NOW


VECTORS = {"delta.enableDeletionVectors": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}
FLAVOURS: dict[str, Mapping[str, str]] = {
    "plain": {},
    "vectors": {**VECTORS, "delta.checkpointPolicy": "v2"},
    "everything": {
        **VECTORS,
        **MAPPED,
        "delta.enableRowTracking": "true",
        "delta.enableInCommitTimestamps": "true",
        "delta.checkpointPolicy": "v2",
    },
}


def fill(log: TableLog, properties: Mapping[str, str], tick: Callable[[], object] = lambda: None) -> None:
    """The template, into an empty place."""
    log_dml.create(log, **properties)
    for first in range(0, TEMPLATE_ROWS, 10):
        tick()
        log_dml.run(log, log_dml.append(list(range(first, first + 10))))
    for low, high in ((5, 5), (10, 19)):
        tick()
        log_dml.run(log, log_dml.delete(low, high))


def make(properties: Mapping[str, str]) -> MemoryStore:
    clock = Clock()
    store = MemoryStore(clock=clock)
    fill(TableLog(store, clock=clock), properties, clock.tick)
    store.put("an-orphan.parquet", b"of a writer that died")
    clock.now = _NOW
    return store


@dataclass(frozen=True)
class Command:
    name: str
    work: Work
    steps: bool = False

    def __str__(self) -> str:
        return self.name


def _on_rows(work: log_dml.Work) -> Work:
    return lambda log: log_dml.run(log, work)


def _setting(**properties: str) -> Work:
    given = {k.replace("__", "."): v for k, v in properties.items()}
    return lambda log: set_properties(log, given)


def _dropping(feature: str) -> Work:
    return lambda log: drop_feature(log, feature, rewriter=rewriter)


def _checkpoint(log: TableLog) -> None:
    write_checkpoint(load(log))


def _clean(log: TableLog) -> None:
    snapshot = load(log)
    write_checkpoint(snapshot)
    clean_up(snapshot, before=log.clock())


def _once(log: TableLog) -> None:
    """A batch that was tried before may be tried again."""
    log_dml.run(log, log_dml.batch("stream", 1, [140, 141]))


ROWS: dict[str, Work] = {
    "append": _on_rows(log_dml.append([100, 101])),
    "append among the rows": _on_rows(log_dml.append([3, 33])),
    "batch of a stream": _once,
    "overwrite": _on_rows(log_dml.overwrite([110, 111])),
    "replace where": _on_rows(log_dml.replace(0, 9, [0, 1, 2])),
    "delete": _on_rows(log_dml.delete(3, 3)),
    "delete elsewhere": _on_rows(log_dml.delete(32, 39)),
    "truncate": _on_rows(log_dml.overwrite([])),
    "update": _on_rows(log_dml.update(4, 6, 1000)),
    "update elsewhere": _on_rows(log_dml.update(22, 24, 1000)),
    "merge inserts": _on_rows(log_dml.insert_absent([2, 3, 5])),
    "optimize": _on_rows(log_dml.compact(0, 39)),
}
SERVICES: dict[str, Work] = {
    "vacuum": vacuum,
    "vacuum lite": lambda log: vacuum(log, mode="lite"),
    "restore": lambda log: restore(log, version=4),
    "checkpoint": _checkpoint,
    "cleanup": _clean,
    "generate": lambda log: generate(log, MODE),
}
ALTERATIONS: dict[str, Work] = {
    "set a property": _setting(mine="1"),
    "unset a property": lambda log: unset_properties(log, ["delta.enableDeletionVectors"], if_exists=True),
    "enable vectors": _setting(delta__enableDeletionVectors="true"),
    "enable the feed": _setting(delta__enableChangeDataFeed="true"),
    "track rows": _setting(delta__enableRowTracking="true"),
    "keep times": _setting(delta__enableInCommitTimestamps="true"),
    "map columns": _setting(delta__columnMapping__mode="name"),
    "add a column": lambda log: add_columns(log, [NewColumn(StructField("extra", LONG))]),
    "drop a column": lambda log: drop_columns(log, ["extra"], if_exists=True),
    "rename a column": lambda log: rename_column(log, "id", "number"),
    "drop a constraint": lambda log: drop_constraint(log, "none", if_exists=True),
    "cluster by": lambda log: cluster_by(log, ["id"]),
    "upgrade": lambda log: add_feature_support(log, "vacuumProtocolCheck"),
    "drop deletion vectors": _dropping("deletionVectors"),
    "drop v2 checkpoints": _dropping("v2Checkpoint"),
    "drop column mapping": _dropping("columnMapping"),
    "drop row tracking": _dropping("rowTracking"),
    "drop in-commit timestamps": _dropping("inCommitTimestamp"),
}
# Those make a commit for each step.
_STEPS = {"vacuum", "vacuum lite", "track rows"}

COMMANDS: dict[str, Command] = {
    name: Command(name, work, steps=name in _STEPS or name.startswith("drop "))
    for name, work in {**ROWS, **SERVICES, **ALTERATIONS}.items()
}
# On a place of their own: a folder of files, and a table elsewhere.
MAKERS: dict[str, Work] = {
    "clone": lambda log: clone(TableLog.at(f"{log.url}-source"), log),
    "convert": convert_folder,
}
