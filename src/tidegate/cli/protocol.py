"""``tidegate protocol``: who may read and who may write the table, feature by feature.

The one verb that opens a table this client may not read: to say so is its work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer

from tidegate.cli import screen
from tidegate.cli.failure import verb
from tidegate.cli.meanings import MEANINGS
from tidegate.cli.options import (
    Dialect,
    Json,
    StorageOptions,
    Table,
    Timestamp,
    Verbose,
    Version,
    snapshot,
    table_log,
)
from tidegate.cli.patience import Patience
from tidegate.errors import TidegateError
from tidegate.log import segment as segments
from tidegate.log.snapshot import Snapshot
from tidegate.protocol.feature import Feature, Registry
from tidegate.protocol.protocol import Protocol


@verb
def command(
    table: Table,
    version: Version = None,
    timestamp: Timestamp = None,
    json: Json = False,
    dialect: Dialect = None,
    storage_option: StorageOptions = None,
    verbose: Verbose = False,
) -> int:
    """Who may read and who may write the table.

    Its versions and features, what each means, and whether this client supports it. Works also for tables
    that this client may not read.
    """
    with Patience("reading the log"):
        found = _open(table, version, timestamp, storage_option, dialect)
        protocol, registry = found.protocol, found.log.registry
    facts = {
        "table": found.url,
        "version": found.version,
        **protocol.to_wire(),
        "canRead": _refusal(protocol, registry, write=False) is None,
        "canWrite": _refusal(protocol, registry, write=True) is None,
        "readRefusal": _refusal(protocol, registry, write=False),
        "writeRefusal": _refusal(protocol, registry, write=True),
        "features": [_feature(n, protocol, registry) for n in sorted(protocol.features(registry.rules))],
    }
    if json:
        screen.document(facts)
    else:
        _show(facts)
    return 0


def _open(
    table: str,
    version: int | None,
    timestamp: str | None,
    options: Sequence[str] | None,
    dialect: str | None,
) -> Snapshot:
    """A snapshot that nobody has asked yet whether this client may read it."""
    if timestamp is not None:
        if version is not None:
            raise typer.BadParameter("give a version or a timestamp, not both", param_hint="--timestamp")
        return snapshot(table, version, timestamp, options, dialect)
    log = table_log(table, options, dialect)
    listing = log.listing()
    segment = segments.build(listing, log.url, version)
    assert segment is not None, "a listing from 0 has a segment or raises"
    found = Snapshot(log, segment)
    _ = found.protocol
    return found


def _refusal(protocol: Protocol, registry: Registry, *, write: bool) -> str | None:
    try:
        (registry.check_write if write else registry.check_read)(protocol)
    except TidegateError as e:
        return f"[{e.code}] {e.message.splitlines()[0]}"
    return None


def _feature(name: str, protocol: Protocol, registry: Registry) -> dict[str, Any]:
    row = registry.get(name)
    both = name in (protocol.reader_features or ()) or (row is not None and row.reader_writer)
    return {
        "name": name,
        "binds": "readers and writers" if both else "writers",
        "listed": name in protocol.explicit_features,
        "known": row is not None,
        "readable": not both if row is None else row.readable,
        "writable": row is not None and row.writable,
        "meaning": meaning(name, row),
    }


def meaning(name: str, row: Feature | None) -> str:
    """One line on what a feature asks for."""
    if row is None:
        return "unknown to this release of Tidegate"
    preview = name.removesuffix("-preview").removesuffix("-dev")
    text = MEANINGS.get(name) or MEANINGS.get(preview, "")
    return f"{text} (preview)" if preview != name and name not in MEANINGS else text


def _show(facts: dict[str, Any]) -> None:
    screen.fields(
        [
            ("table", facts["table"]),
            ("version", facts["version"]),
            ("reader version", facts["minReaderVersion"]),
            ("writer version", facts["minWriterVersion"]),
            ("this client reads it", _answer(facts["canRead"], facts["readRefusal"])),
            ("this client writes it", _answer(facts["canWrite"], _other_refusal(facts))),
        ]
    )
    screen.line()
    if not facts["features"]:
        screen.line("The table asks for no features.")
        return
    screen.rows(
        ["feature", "binds", "by", "read here", "written here", "what it means"],
        [
            (
                f["name"],
                f["binds"],
                "name" if f["listed"] else "version",
                _supported(f["readable"], f["binds"] != "writers"),
                _supported(f["writable"], True),
                f["meaning"],
            )
            for f in facts["features"]
        ],
        fold=["what it means"],
    )


def _answer(yes: bool, refusal: str | None) -> str:
    return "yes" if yes else f"no: {refusal}"


def _other_refusal(facts: dict[str, Any]) -> str | None:
    refusal: str | None = facts["writeRefusal"]
    return "for the same reason" if refusal is not None and refusal == facts["readRefusal"] else refusal


def _supported(yes: bool, binding: bool) -> str:
    return "not needed" if not binding else "supported" if yes else "NOT supported"
