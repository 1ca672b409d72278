"""What two histories of a table are compared by: what users see of it, without what differs by chance."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from support.arrow_rows import ROW_ID, rows_of
from tidegate.log.snapshot import Snapshot
from tidegate.log.table_log import TableLog
from tidegate.log.verify import verify

# Names and numbers that a table gives itself; barriers move with the versions.
_BY_CHANCE = ("materializedRow", "inCommitTimestampEn", "requireCheckpointProtection", "maxColumnId")
_PRESERVED = "delta.rowTracking.preserved"


@dataclass(frozen=True)
class State:
    """A table as users see it."""

    rows: tuple[str, ...]
    columns: Any
    configuration: Any
    features: frozenset[str]
    domains: Any
    applications: Any
    row_ids: Any
    feed: Any = None

    def difference(self, other: State) -> list[str]:
        return [
            f"{name}: {getattr(self, name)} != {getattr(other, name)}"
            for name in self.__dataclass_fields__
            if getattr(self, name) != getattr(other, name)
        ]


def as_text(row: dict[str, Any]) -> str:
    return json.dumps(row, sort_keys=True, default=str)


def state_of(snapshot: Snapshot, *, known: int, feed: Any = None) -> State:
    """What the table has come to; ids of rows are those of the ``known`` first numbers of the column id.

    They are left out where a commit says that it could not keep them.
    """
    found = rows_of(snapshot)
    first = snapshot.schema.fields[0].name
    numbered = [(r[first], r.pop(ROW_ID)) for r in found if ROW_ID in r]
    assert len({n for _, n in numbered}) == len(numbered), "two rows have one id"
    # Of two rows with one value the older one has the lower id.
    ids = dict(sorted(numbered, reverse=True))
    lost = any((entry.get("tags") or {}).get(_PRESERVED) == "false" for entry in _infos(snapshot))
    configuration = snapshot.metadata.configuration
    return State(
        rows=tuple(sorted(as_text(r) for r in found)),
        columns=(
            [(f.name, str(f.type), f.nullable) for f in snapshot.schema.fields],
            snapshot.partition_columns,
        ),
        configuration={k: v for k, v in configuration.items() if not any(c in k for c in _BY_CHANCE)},
        features=frozenset(snapshot.protocol.features(snapshot.log.registry.rules)),
        domains={
            n: _without_names(snapshot, d.configuration)
            for n, d in snapshot.domains.items()
            if n != "delta.rowTracking"
        },
        applications={a: t.version for a, t in snapshot.transactions.items()},
        row_ids=None if lost else {i: r for i, r in ids.items() if 0 <= i < known},
        feed=feed,
    )


def _infos(snapshot: Snapshot) -> list[dict[str, Any]]:
    log = snapshot.log
    out = []
    for version in sorted(log.listing(0, snapshot.version).commits):
        for line in log.store.get(log.commit_path(version)).splitlines():
            out.append(json.loads(line).get("commitInfo", {}))
    return out


def _without_names(snapshot: Snapshot, text: str) -> str:
    """A domain's text with the names that users see in the place of physical ones."""
    for f in snapshot.schema.fields:
        text = text.replace(str(f.metadata.get("delta.columnMapping.physicalName", f.name)), f.name)
    return text


def problems(log: TableLog) -> list[Any]:
    """What ``verify`` has to say against the table."""
    return [f for f in verify(log, deep=True).findings if f.severity == "error"]
