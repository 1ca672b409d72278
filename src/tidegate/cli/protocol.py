"""``tidegate protocol``: who may read and who may write the table, feature by feature.

The one verb that opens a table this client may not read: to say so is its work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

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
from tidegate.log import traces
from tidegate.log.dialect import DELTA
from tidegate.log.snapshot import Snapshot, unguarded
from tidegate.protocol.clients import well_known
from tidegate.protocol.feature import Feature, Registry
from tidegate.protocol.protocol import CHECKPOINT_PROTECTION, Protocol

Clients = Annotated[
    bool,
    typer.Option(
        "--clients", help="Which well-known clients can read and write the table.", show_default=False
    ),
]
With = Annotated[
    list[str] | None,
    typer.Option("--with", metavar="NAME", help="As if the table had this feature too.", show_default=False),
]
Without = Annotated[
    list[str] | None,
    typer.Option("--without", metavar="NAME", help="As if this feature were dropped.", show_default=False),
]


@verb
def command(
    table: Table,
    version: Version = None,
    timestamp: Timestamp = None,
    clients: Clients = False,
    with_: With = None,
    without: Without = None,
    json: Json = False,
    dialect: Dialect = None,
    storage_option: StorageOptions = None,
    verbose: Verbose = False,
) -> int:
    """Who may read and who may write the table.

    Its versions and features, what each means, and whether this client supports it. Works also for tables
    that this client may not read. With --clients, what other clients make of it; with --with and --without,
    what they would make of it after a feature has been added or dropped.
    """
    with Patience("reading the log"):
        found = _open(table, version, timestamp, storage_option, dialect)
        registry = found.log.registry
        protocol = _changed(found.protocol, registry, with_ or (), without or ())
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
    if (clients or with_ or without) and found.log.dialect is DELTA:
        facts |= _clients(found, protocol)
    if json:
        screen.document(facts)
    else:
        _show(facts)
        if "clients" in facts:
            _show_clients(facts)
    return 0


def _changed(
    protocol: Protocol, registry: Registry, added: Sequence[str], dropped: Sequence[str]
) -> Protocol:
    """The protocol with features added and dropped, as a drop in one step leaves it."""
    rules = registry.rules
    if added:
        rows = [registry[name] for name in registry.closure(registry[n].name for n in added)]
        protocol = protocol.with_features(*rows, rules=rules)
    for name in dropped:
        row = registry[name]
        protocol = protocol.without_feature(row.name, rules)
        if row.history_protection:
            protocol = protocol.with_feature(registry[CHECKPOINT_PROTECTION], rules)
    return protocol


def _clients(found: Snapshot, protocol: Protocol) -> dict[str, Any]:
    """What each well-known client could do with the table, if it had this protocol."""
    registry = found.log.registry
    in_use = {n for n in protocol.features(registry.rules) if _in_use(n, found)}
    known = well_known()
    return {
        "looked": known.looked,
        "clients": [
            {
                "client": c.client,
                "release": c.release,
                "date": c.date,
                "canRead": not c.missing_for_read(protocol, registry),
                "canWrite": not c.missing_for_write(protocol, registry, in_use),
                "missing": list(c.missing_for_write(protocol, registry, in_use)),
                "source": c.source,
            }
            for c in known.clients
        ],
    }


def _in_use(name: str, found: Snapshot) -> bool:
    return traces.in_metadata(name, found.metadata, found.log.registry)


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
    return unguarded(table_log(table, options, dialect), version)


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


def _show_clients(facts: dict[str, Any]) -> None:
    screen.line()
    screen.rows(
        ["client", "release", "of", "reads it", "writes it", "lacks"],
        [
            (c["client"], c["release"], c["date"], c["canRead"], c["canWrite"], ", ".join(c["missing"]))
            for c in facts["clients"]
        ],
        title=f"Clients, as of {facts['looked']}",
        fold=["lacks"],
    )


def _answer(yes: bool, refusal: str | None) -> str:
    return "yes" if yes else f"no: {refusal}"


def _other_refusal(facts: dict[str, Any]) -> str | None:
    refusal: str | None = facts["writeRefusal"]
    return "for the same reason" if refusal is not None and refusal == facts["readRefusal"] else refusal


def _supported(yes: bool, binding: bool) -> str:
    return "not needed" if not binding else "supported" if yes else "NOT supported"
