"""Well-known clients of Delta tables, by release, and what each of them can do with a protocol.

What they support stands in ``clients.json``, with the source of each row and the day it was looked up: it is
data, and it ages. A client that accepts a feature only while nothing uses it says so (``writes_unused``).
"""

from __future__ import annotations

from collections.abc import Container
from functools import lru_cache
from importlib import resources

import msgspec

from tidegate.protocol.feature import Registry
from tidegate.protocol.protocol import Names, Protocol


class Client(msgspec.Struct, frozen=True, rename="camel"):
    """One release of one client."""

    client: str
    release: str
    date: str
    source: str
    reads: Names
    writes: Names
    writes_unused: Names = Names()
    max_reader_version: int = 3
    max_writer_version: int = 7

    def missing_for_read(self, protocol: Protocol, registry: Registry) -> tuple[str, ...]:
        """The features that keep this client from reading such a table, sorted."""
        if protocol.min_reader_version > self.max_reader_version:
            return (f"reader version {protocol.min_reader_version}",)
        rules = registry.rules
        needed = set(protocol.reader_features or ())
        for name in protocol.features(rules):
            known = registry.get(name) or rules.legacy_feature(name)
            if known is not None and known.reader_writer:
                needed.add(name)
        return tuple(sorted(needed - self.reads))

    def missing_for_write(
        self, protocol: Protocol, registry: Registry, in_use: Container[str]
    ) -> tuple[str, ...]:
        """The features that keep it from writing such a table; ``in_use`` are those that something uses."""
        if protocol.min_writer_version > self.max_writer_version:
            return (f"writer version {protocol.min_writer_version}",)
        lacking = set(self.missing_for_read(protocol, registry))
        for name in protocol.features(registry.rules) - self.writes:
            if name not in self.writes_unused or name in in_use:
                lacking.add(name)
        return tuple(sorted(lacking))


class Clients(msgspec.Struct, frozen=True):
    """All that are known, and the day on which they were looked up."""

    looked: str
    clients: tuple[Client, ...]


@lru_cache(maxsize=1)
def well_known() -> Clients:
    """The clients of the data file."""
    text = resources.files("tidegate.protocol").joinpath("clients.json").read_bytes()
    return msgspec.json.decode(text, type=Clients)
