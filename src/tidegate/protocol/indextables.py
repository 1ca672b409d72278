"""Versions and features of index tables, and the gate before them.

Version 1 is the log as it began, 2 adds skips, footer offsets and the metadata of splits, 3 adds multipart
checkpoints and schemas stored once; 4 (Avro state) is known by name and refused. A table without a
protocol action is of version 1 and *legacy*, which is not the same as one that says 1. Raising takes the
maximum of each version and the union of the lists, so nothing ever comes down. Lists count at any version.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tidegate._version import __version__
from tidegate.errors import InvalidProtocolError, ProtocolVersionException
from tidegate.protocol.feature import Feature, Registry, Support
from tidegate.protocol.protocol import Legacy, Names, Protocol, Rules

_log = logging.getLogger(__name__)

LEGACY = Protocol(1, 1)
NEW_TABLE = Protocol(2, 2)
MIN_VERSION = 1
CURRENT_VERSION = 2
HIGHEST_VERSION = 3

MULTIPART = "multiPartCheckpoint"
DEDUPLICATION = "schemaDeduplication"
_READERS_2 = Names({"skippedFiles", "extendedMetadata", "footerOffsets"})
_WRITERS_2 = _READERS_2 | {"checkpoint", "optimizeWrite"}
_V3 = Names({MULTIPART, DEDUPLICATION})
AVRO_STATE = Protocol(4, 4, Names({"avroState"}), Names({"avroState"}))

DOCS = "docs/protocol-versions.md"
UPGRADE = "pip install --upgrade tidegate"


# ---------------------------------------------------------------------------- the algebra


def raised(current: Protocol, *others: Protocol) -> Protocol:
    """The least protocol that asks for what any of these asks for; ``current`` itself if nothing rises."""
    every = (current, *others)
    new = Protocol(
        max(p.min_reader_version for p in every),
        max(p.min_writer_version for p in every),
        _united(p.reader_features for p in every),
        _united(p.writer_features for p in every),
    )
    if _covers(current, new):
        return current
    return _listed(new)


def _united(lists: Iterable[Names | None]) -> Names | None:
    present = [names for names in lists if names is not None]
    return Names().union(*present) if present else None


def _covers(current: Protocol, new: Protocol) -> bool:
    """Whether ``new`` asks for nothing more; an empty list asks for no more than none at all."""
    return (
        (new.min_reader_version, new.min_writer_version)
        == (current.min_reader_version, current.min_writer_version)
        and (new.reader_features or Names()) == (current.reader_features or Names())
        and (new.writer_features or Names()) == (current.writer_features or Names())
    )


def _listed(protocol: Protocol) -> Protocol:
    """From version 3 on a protocol that this client writes says what it stands for."""
    readers, writers = protocol.reader_features, protocol.writer_features
    if protocol.min_reader_version >= HIGHEST_VERSION:
        readers = (readers or Names()) | _READERS_2
    if protocol.min_writer_version >= HIGHEST_VERSION:
        writers = (writers or Names()) | _WRITERS_2
    return replace_lists(protocol, readers, writers)


def replace_lists(protocol: Protocol, readers: Names | None, writers: Names | None) -> Protocol:
    return Protocol(protocol.min_reader_version, protocol.min_writer_version, readers, writers)


def requiring(*features: str) -> Protocol:
    """The protocol that some features of version 3 ask for; that of version 2 where there are none."""
    if not features:
        return NEW_TABLE
    names = Names(features)
    return Protocol(3, 3, _READERS_2 | names, _WRITERS_2 | names)


def has_feature(protocol: Protocol, name: str) -> bool:
    """Whether writers of the table may make use of a feature of version 3.

    A table of version 3 without lists, as other writers make them, allows all of that version.
    """
    if protocol.min_reader_version < HIGHEST_VERSION:
        return False
    return name in protocol.explicit_features or protocol.writer_features is None


def records_skips(protocol: Protocol) -> bool:
    """Whether a table may hold what version 2 brought, for readers and for writers."""
    return min(protocol.min_reader_version, protocol.min_writer_version) >= CURRENT_VERSION


def minimum_reader(features: Iterable[str]) -> int:
    """The reader version that some features need."""
    names = Names(features)
    if "avroState" in names:
        return 4
    return HIGHEST_VERSION if names & _V3 else CURRENT_VERSION


# ---------------------------------------------------------------------------- the gate


@dataclass(frozen=True, eq=False)
class IndexRegistry(Registry):
    """What a client of index tables supports. Not ``enforced``, it warns and lets everyone through."""

    enforced: bool = True

    def relaxed(self) -> IndexRegistry:
        """The same client with its checks switched off."""
        return replace(self, enforced=False)

    def missing_for_read(self, protocol: Protocol) -> tuple[str, ...]:
        return tuple(sorted(n for n in protocol.reader_features or () if not self._readable(n)))

    def missing_for_write(self, protocol: Protocol) -> tuple[str, ...]:
        return tuple(sorted(n for n in protocol.writer_features or () if not self._writable(n)))

    def check_read(self, protocol: Protocol, *, table: str | None = None, version: int | None = None) -> None:
        """Refuse a table whose readers need more than this client has."""
        self._check("reader", protocol, table, version)

    def check_write(
        self, protocol: Protocol, *, table: str | None = None, version: int | None = None
    ) -> None:
        """Refuse a table that this client may not write: a writer reads too, so both gates are passed."""
        self._check("reader", protocol, table, version)
        self._check("writer", protocol, table, version)

    def _check(self, side: str, protocol: Protocol, table: str | None, version: int | None) -> None:
        asked, highest, missing = (
            (protocol.min_reader_version, self.max_reader_version, self.missing_for_read)
            if side == "reader"
            else (protocol.min_writer_version, self.max_writer_version, self.missing_for_write)
        )
        if asked > highest:
            self._refuse(
                f"{'The table' if table is None else f'Table at {table}'} requires {side} version {asked}; "
                f"this client supports {side} versions up to {highest}.",
                protocol,
                table,
                version,
                code=f"UNSUPPORTED_{side.upper()}_VERSION",
            )
        elif asked < MIN_VERSION:
            raise InvalidProtocolError(f"{protocol}: versions begin at 1", table=table, version=version)
        elif names := missing(protocol):
            self._refuse(
                f"Table requires unsupported {side} features: {', '.join(names)}"
                + ("" if table is None else f" (table at {table})"),
                protocol,
                table,
                version,
                code=f"UNSUPPORTED_{side.upper()}_FEATURE",
            )

    def _refuse(
        self, first: str, protocol: Protocol, table: str | None, version: int | None, *, code: str
    ) -> None:
        if not self.enforced:
            _log.warning("%s The protocol check is off, so the operation goes on.", first)
            return
        error_class = {
            "UNSUPPORTED_READER_FEATURE": "DELTA_UNSUPPORTED_FEATURES_FOR_READ",
            "UNSUPPORTED_WRITER_FEATURE": "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE",
        }.get(code)
        raise ProtocolVersionException(
            f"{first}\n\n{self._page(protocol)}",
            code=code,
            table=table,
            version=version,
            errorClass=error_class,
        )

    def _page(self, protocol: Protocol) -> str:
        def features(side: str, names: Iterable[str] | None) -> list[str]:
            return [] if names is None else [f"  {side}Features = {', '.join(sorted(names)) or 'none'}"]

        readable = [row.name for row in self.rows if row.reader_writer and row.readable]
        writable = [row.name for row in self.rows if row.writable]
        return "\n".join(
            [
                "This table requires:",
                f"  minReaderVersion = {protocol.min_reader_version}",
                f"  minWriterVersion = {protocol.min_writer_version}",
                *features("reader", protocol.reader_features),
                *features("writer", protocol.writer_features),
                "",
                f"Your current version ({self.client} {__version__}) supports:",
                f"  readerVersion = {self.max_reader_version}",
                f"  writerVersion = {self.max_writer_version}",
                *features("reader", readable),
                *features("writer", writable),
                "",
                f"Please upgrade {self.client}: {UPGRADE}",
                f"See: {DOCS}",
            ]
        )


def _row(name: str, version: int, *, readers: bool = True, support: Support = Support.FULL) -> Feature:
    return Feature(
        name=name,
        reader_writer=readers,
        min_reader=version if readers else 0,
        min_writer=version,
        support=support,
        since="0.1.0" if support else None,
    )


INDEX = IndexRegistry(
    rows=(
        _row("skippedFiles", 2),
        _row("extendedMetadata", 2),
        _row("footerOffsets", 2),
        _row("checkpoint", 2, readers=False),
        _row("optimizeWrite", 2, readers=False),
        _row(MULTIPART, 3),
        _row(DEDUPLICATION, 3),
        _row("avroState", 4, support=Support.NAME),
    ),
    rules=Rules(
        reader_lists=HIGHEST_VERSION,
        writer_lists=HIGHEST_VERSION,
        legacy=(
            Legacy("skippedFiles", 2, 2),
            Legacy("extendedMetadata", 2, 2),
            Legacy("footerOffsets", 2, 2),
            Legacy("checkpoint", 0, 2),
            Legacy("optimizeWrite", 0, 2),
        ),
        lists_anywhere=True,
    ),
    max_reader_version=HIGHEST_VERSION,
    max_writer_version=HIGHEST_VERSION,
)
