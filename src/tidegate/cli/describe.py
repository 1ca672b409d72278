"""``tidegate describe``: what the table is at a version: schema, partitioning, size, properties."""

from __future__ import annotations

from typing import Any

import msgspec

from tidegate.cli import screen
from tidegate.cli.failure import verb
from tidegate.cli.options import Dialect, Json, StorageOptions, Table, Timestamp, Verbose, Version, snapshot
from tidegate.cli.patience import Patience
from tidegate.log.snapshot import Snapshot
from tidegate.schema.types import StructField


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
    """What the table is: schema, size, properties."""
    with Patience("reading the log"):
        found = snapshot(table, version, timestamp, storage_option, dialect)
        facts = describe(found)
    if json:
        screen.document(facts)
    else:
        _show(found, facts)
    return 0


def describe(found: Snapshot) -> dict[str, Any]:
    """Everything the verb tells, in the form of its JSON."""
    metadata, protocol = found.metadata, found.protocol
    checkpoint = found.segment.checkpoint
    return {
        "table": found.url,
        "version": found.version,
        "timestamp": found.timestamp,
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "createdTime": screen.from_milliseconds(metadata.created_time),
        "format": metadata.format.provider,
        "partitionColumns": list(metadata.partition_columns),
        "numFiles": found.num_files,
        "sizeInBytes": found.size_in_bytes,
        "protocol": protocol.to_wire(),
        "properties": dict(sorted(metadata.configuration.items())),
        "schema": _json(metadata.schema_string),
        "transactions": {app: txn.version for app, txn in sorted(found.transactions.items())},
        "domains": {name: d.configuration for name, d in sorted(found.domains.items())},
        "checkpoint": None if checkpoint is None else checkpoint.version,
        "commitsAfterCheckpoint": len(found.segment.commits),
    }


def _json(text: str) -> Any:
    """The schema as JSON; text that is none is shown as it is."""
    try:
        return msgspec.json.decode(text) if text else None
    except msgspec.DecodeError:
        return text


def _show(found: Snapshot, facts: dict[str, Any]) -> None:
    protocol = found.protocol
    screen.fields(
        [
            ("table", facts["table"]),
            ("version", facts["version"]),
            ("committed", facts["timestamp"]),
            ("name", facts["name"]),
            ("description", facts["description"]),
            ("id", facts["id"]),
            ("created", facts["createdTime"]),
            ("format", facts["format"]),
            ("partitioned by", facts["partitionColumns"] or "nothing"),
            ("files", screen.number(facts["numFiles"])),
            ("size", screen.size(facts["sizeInBytes"])),
            ("protocol", f"reader {protocol.min_reader_version}, writer {protocol.min_writer_version}"),
            ("features", sorted(protocol.features(found.log.registry.rules))),
            ("log", _log_state(facts)),
        ]
    )
    partitions = {c.lower() for c in found.partition_columns}
    screen.line()
    screen.rows(
        ["column", "type", "null", "comment"],
        [_column(f, partitions) for f in found.schema.fields],
        title="Columns",
        fold=["type", "comment"],
    )
    screen.line()
    for title, entries in (
        ("Properties", facts["properties"]),
        ("Transactions", facts["transactions"]),
        ("Domains", facts["domains"]),
    ):
        if entries:
            screen.fields(entries.items(), title=title)
            screen.line()


def _column(field: StructField, partitions: set[str]) -> tuple[str, str, str, str]:
    comment = str(field.metadata.get("comment", ""))
    if field.name.lower() in partitions:
        comment = f"partition column; {comment}" if comment else "partition column"
    return field.name, str(field.type), "yes" if field.nullable else "no", comment


def _log_state(facts: dict[str, Any]) -> str:
    after = screen.plural(facts["commitsAfterCheckpoint"], "commit")
    if facts["checkpoint"] is None:
        return f"no checkpoint, {after}"
    return f"checkpoint of version {facts['checkpoint']}, {after} after it"
