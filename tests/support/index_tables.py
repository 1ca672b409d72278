"""Index tables for tests: logs written by hand, and handles on them that play several clients.

``RawIndex`` is a table in memory with a clock that stands still. ``commit(...)`` writes the lines of the
next version byte for byte; ``log(**options)`` is a client with these settings, ``old_client`` one that
knows less. What the product writes is read back as plain JSON by ``lines``.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from support.tables import Clock, column, schema_string
from tidegate.index.log import IndexLog, add_table
from tidegate.index.log_settings import LogSettings
from tidegate.log.dialect import INDEX
from tidegate.log.snapshot import Snapshot, load
from tidegate.log.table_log import TableLog
from tidegate.protocol.feature import Registry
from tidegate.protocol.indextables import INDEX as REGISTRY
from tidegate.storage import MemoryStore

Wire = dict[str, Any]

LOG = "_transaction_log"
SCHEMA = schema_string(
    column("id"), column("message", "string"), column("day", "string"), column("at", "timestamp")
)


def protocol(reader: int = 2, writer: int = 2, **features: Iterable[str]) -> Wire:
    lists = {name: sorted(names) for name, names in features.items()}
    return {"protocol": {"minReaderVersion": reader, "minWriterVersion": writer, **lists}}


def metadata(
    partitions: Iterable[str] = (),
    configuration: Mapping[str, str] | None = None,
    provider: str = "indextables",
    schema: str = SCHEMA,
) -> Wire:
    return {
        "metaData": {
            "id": "5f0c0f7a-8f0a-4c8e-9a43-0f6a3f7f2a11",
            "format": {"provider": provider, "options": {}},
            "schemaString": schema,
            "partitionColumns": list(partitions),
            "configuration": dict(configuration or {}),
            "createdTime": 1704067200000,
        }
    }


def split(path: str, values: Mapping[str, str | None] | None = None, **more: Any) -> Wire:
    """The body of an add; ``more`` by wire names."""
    return {
        "path": path,
        "partitionValues": dict(values or {}),
        "size": 100,
        "modificationTime": 1704067200000,
        "dataChange": True,
        "numRecords": 10,
        **more,
    }


V2 = {"footerStartOffset": 60, "footerEndOffset": 100, "hasFooterOffsets": True}


def adds(*bodies: Wire | str) -> pa.Table:
    return add_table([split(b) if isinstance(b, str) else b for b in bodies])


def remove(path: str, **more: Any) -> Wire:
    return {"remove": {"path": path, "deletionTimestamp": 1704153600000, "dataChange": True, **more}}


def skip(path: str, key: str = "skip", **more: Any) -> Wire:
    body = {"path": path, "skipTimestamp": 1704067200000, "reason": "Corrupted footer", "operation": "merge"}
    return {key: {**body, **more}}


class RawIndex:
    """An index table in memory, and the clients that look at it."""

    def __init__(self, store: MemoryStore | None = None, clock: Clock | None = None) -> None:
        self.clock = clock or Clock()
        self.store = store or MemoryStore(url="memory://index", clock=self.clock)

    # ------------------------------------------------------------------ by hand

    def put(self, name: str, data: bytes) -> None:
        self.store.handle().put(f"{LOG}/{name}", data)

    def bytes(self, name: str) -> bytes:
        return self.store.handle().get(f"{LOG}/{name}")

    def names(self) -> list[str]:
        return [f.name.removeprefix(f"{LOG}/") for f in self.store.handle().list_from(LOG)]

    @property
    def version(self) -> int:
        return max((int(n[:20]) for n in self.names() if n[:20].isdigit()), default=-1)

    def commit(self, *lines: Wire, compressed: bool = False) -> int:
        """Write the next version, byte for byte."""
        version = self.version + 1
        data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        self.put(f"{version:020d}.json", b"\x01\x01" + gzip.compress(data) if compressed else data)
        return version

    def lines(self, name: int | str) -> list[Wire]:
        """The lines of a commit or of another file of the log."""
        data = self.bytes(f"{name:020d}.json" if isinstance(name, int) else name)
        if data[:1] == b"\x01":
            data = gzip.decompress(data[2:])
        return [json.loads(line) for line in data.splitlines()]

    def keys(self, name: int | str) -> list[str]:
        """The actions of a file, in order."""
        return [key for line in self.lines(name) for key in line]

    def split_file(self, path: str, data: bytes = b"x" * 100) -> None:
        self.store.handle().put(path, data)

    # ------------------------------------------------------------------ clients

    def table_log(self, registry: Registry = REGISTRY, *, store: MemoryStore | None = None) -> TableLog:
        return TableLog(store or self.store, INDEX, self.clock, registry)

    def log(
        self, registry: Registry = REGISTRY, *, store: MemoryStore | None = None, **options: Any
    ) -> IndexLog:
        """A client; options by their keys with ``__`` for the dots: ``protocol__autoUpgrade=False``."""
        settings = {f"spark.indextables.{k.replace('__', '.')}": str(v).lower() for k, v in options.items()}
        return IndexLog(self.table_log(registry, store=store), LogSettings.of(settings))

    def load(self, version: int | None = None) -> Snapshot:
        return load(self.table_log(), version)

    def survivor(self) -> RawIndex:
        return RawIndex(self.store.survivor(), self.clock)


def old_client(version: int, *features: str) -> Registry:
    """A client that supports versions up to ``version``, and these features only."""
    return replace(
        REGISTRY.restricted_to(features, max_reader=version, max_writer=version), client="Tidegate 0.0.1"
    )


def created(**options: Any) -> RawIndex:
    """A table made by the product, with no splits yet."""
    table = RawIndex()
    table.log(**options).create(SCHEMA)
    return table


def handmade(*first: Wire) -> RawIndex:
    """A table whose version 0 holds these lines."""
    table = RawIndex()
    table.commit(*first)
    return table


def legacy(**more: Any) -> RawIndex:
    """A table as it was before there were protocols."""
    table = handmade(metadata(provider="tantivy4spark", **more))
    table.commit({"add": split("old.split")})
    return table


def paths(found: Snapshot | Any) -> list[str]:
    return sorted(found.files(columns=["path"]).column("path").to_pylist())
