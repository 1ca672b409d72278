"""What a table feature is, and what a client knows of them: the registry.

A feature is a row: what enables it, what it needs, how it is removed, and whether this client reads it,
writes it or only knows its name. A registry holds the rows and the version rules of one log family, and
is the gate: ``check_read`` and ``check_write`` refuse a table before anything of it is touched, and say
what is missing, what this client supports and where to look. Registries are values; a smaller one is an
older client.
"""

from __future__ import annotations

import difflib
import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from tidegate.errors import (
    CatalogManagedError,
    InvalidProtocolError,
    UnknownFeatureError,
    UnsupportedReaderFeatureError,
    UnsupportedReaderVersionError,
    UnsupportedWriterFeatureError,
    UnsupportedWriterVersionError,
)
from tidegate.metadata import Metadata
from tidegate.protocol.protocol import Legacy, Names, Protocol, Rules


class Support(enum.Flag):
    """What this client does with a feature. NAME: it knows the name and refuses the table."""

    NAME = 0
    READ = enum.auto()
    WRITE = enum.auto()
    FULL = READ | WRITE


@dataclass(frozen=True, kw_only=True)
class Feature:
    """One row of a registry."""

    name: str
    reader_writer: bool
    min_reader: int
    min_writer: int
    legacy: bool = False
    # What metadata enables the feature: on a new table always, on an existing one if auto_update.
    enabled_by: Callable[[Metadata], bool] | None = None
    auto_update: bool = False
    # Metadata does not enable the feature where the table already has one of these in its place.
    yields_to: Names = frozenset()
    requires: Names = frozenset()
    removable: bool = False
    # Versions before a drop need the feature to be read: history is then truncated, or protected.
    history_protection: bool = False
    # A transaction that began without the feature is not rebased over the commit that adds it.
    fails_concurrent: bool = False
    support: Support = Support.FULL
    # The release of Tidegate that supports it in full; None: none yet.
    since: str | None = "0.1.0"
    catalog_managed: bool = False

    @property
    def readable(self) -> bool:
        """Readers need not care about writer-only features."""
        return not self.reader_writer or Support.READ in self.support

    @property
    def writable(self) -> bool:
        return Support.WRITE in self.support

    def enabled_in(self, metadata: Metadata, protocol: Protocol, rules: Rules) -> bool:
        """Whether the metadata enables this feature on a table of that protocol."""
        if self.enabled_by is None or any(protocol.supports(name, rules) for name in self.yields_to):
            return False
        return self.enabled_by(metadata)


@dataclass(frozen=True, eq=False)
class Registry:
    """The features a client knows, in order, and the versions it supports."""

    rows: tuple[Feature, ...]
    rules: Rules
    max_reader_version: int
    max_writer_version: int
    client: str = "Tidegate"
    _by_name: Mapping[str, Feature] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {row.name.lower(): row for row in self.rows})

    # ------------------------------------------------------------------ looking up

    def __iter__(self) -> Iterator[Feature]:
        return iter(self.rows)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._by_name

    def get(self, name: str) -> Feature | None:
        """The row of that name, in any case."""
        return self._by_name.get(name.lower())

    def __getitem__(self, name: str) -> Feature:
        row = self.get(name)
        if row is None:
            near = difflib.get_close_matches(name.lower(), self._by_name, n=1)
            raise UnknownFeatureError(
                f"{name} is not a table feature {self.client} knows",
                hint=f"Did you mean {self._by_name[near[0]].name}?" if near else None,
            )
        return row

    def closure(self, names: Iterable[str]) -> Names:
        """These features and all they require; names that are not known require nothing."""
        found: set[str] = set()
        todo = list(names)
        while todo:
            name = todo.pop()
            row = self.get(name)
            name = row.name if row else name
            if name not in found:
                found.add(name)
                todo.extend(row.requires if row else ())
        return Names(found)

    def dependents(self, name: str, protocol: Protocol) -> tuple[str, ...]:
        """The features of a table that require this one, and keep it from being dropped."""
        present = (self.get(n) for n in protocol.features(self.rules))
        return tuple(sorted(row.name for row in present if row and name in row.requires))

    def protocol_of(self, names: Iterable[str]) -> Protocol:
        """The weakest protocol that supports these features and what they require."""
        return Protocol(1, 1).with_features(*(self[n] for n in self.closure(names)), rules=self.rules)

    # ------------------------------------------------------------------ other clients

    def with_features(self, *rows: Feature) -> Registry:
        """A client that knows more; a row of a known name replaces it."""
        new = {row.name.lower() for row in rows}
        kept = tuple(row for row in self.rows if row.name.lower() not in new)
        legacy = tuple(
            Legacy(row.name, row.min_reader, row.min_writer)
            for row in rows
            if row.legacy and self.rules.legacy_feature(row.name) is None
        )
        rules = replace(self.rules, legacy=self.rules.legacy + legacy)
        return replace(self, rows=kept + rows, rules=rules)

    def without(self, names: Iterable[str]) -> Registry:
        """A client that has never heard of some features. What versions imply does not change."""
        gone = {n.lower() for n in names}
        return replace(self, rows=tuple(row for row in self.rows if row.name.lower() not in gone))

    def restricted_to(
        self, names: Iterable[str], *, max_reader: int | None = None, max_writer: int | None = None
    ) -> Registry:
        """A client that has heard of these features only, and perhaps of lower versions only."""
        kept = {n.lower() for n in names}
        return replace(
            self,
            rows=tuple(row for row in self.rows if row.name.lower() in kept),
            max_reader_version=self.max_reader_version if max_reader is None else max_reader,
            max_writer_version=self.max_writer_version if max_writer is None else max_writer,
        )

    # ------------------------------------------------------------------ the gate

    def missing_for_read(self, protocol: Protocol) -> tuple[str, ...]:
        """The features that stand between this client and reading such a table, sorted."""
        needed = set(protocol.reader_features or ())
        for name in protocol.features(self.rules):
            # A (2,7) protocol lists column mapping for writers alone, and still binds readers.
            known = self.get(name) or self.rules.legacy_feature(name)
            if known is not None and known.reader_writer:
                needed.add(name)
        return tuple(sorted(n for n in needed if not self._readable(n)))

    def missing_for_write(self, protocol: Protocol) -> tuple[str, ...]:
        """The features that stand between this client and writing such a table, sorted."""
        return tuple(sorted(n for n in protocol.features(self.rules) if not self._writable(n)))

    def check_read(self, protocol: Protocol, *, table: str | None = None, version: int | None = None) -> None:
        """Refuse a table this client may not read, or whose protocol is not legal."""
        if protocol.min_reader_version > self.max_reader_version:
            raise UnsupportedReaderVersionError(
                f"the table requires reader version {protocol.min_reader_version}. {self._reads()}",
                table=table,
                version=version,
                hint=f"Look for a newer release of {self.client}, or use the client that wrote the table.",
            )
        self._check_legal(protocol, table, version)
        missing = self.missing_for_read(protocol)
        if any(row is not None and row.catalog_managed for row in map(self.get, missing)):
            raise CatalogManagedError(
                f"the table is managed by a catalog ({', '.join(missing)}), which alone knows its commits: "
                f"{self.client} opens tables by path and could miss some. {self._reads()}",
                table=table,
                version=version,
                hint="Use a client that asks the catalog.",
                errorClass="DELTA_PATH_BASED_ACCESS_TO_CATALOG_MANAGED_TABLE_BLOCKED",
            )
        if missing:
            raise UnsupportedReaderFeatureError(
                f"reading the table requires features that {self.client} does not support: "
                f"{self._describe(missing)}. {self._reads()}",
                table=table,
                version=version,
                hint=self._where_to_look(missing),
            )

    def check_write(
        self, protocol: Protocol, *, table: str | None = None, version: int | None = None
    ) -> None:
        """Refuse a table this client may not write: a writer reads too, so both gates are passed."""
        self.check_read(protocol, table=table, version=version)
        if protocol.min_writer_version > self.max_writer_version:
            raise UnsupportedWriterVersionError(
                f"the table requires writer version {protocol.min_writer_version}. {self._writes()}",
                table=table,
                version=version,
                hint=f"Look for a newer release of {self.client}, or use the client that wrote the table.",
            )
        missing = self.missing_for_write(protocol)
        if missing:
            raise UnsupportedWriterFeatureError(
                f"writing the table requires features that {self.client} does not support: "
                f"{self._describe(missing)}. {self._writes()}",
                table=table,
                version=version,
                hint=self._where_to_look(missing),
            )

    # ------------------------------------------------------------------ inside

    def _readable(self, name: str) -> bool:
        row = self.get(name)
        return row is not None and row.readable

    def _writable(self, name: str) -> bool:
        row = self.get(name)
        return row is not None and row.writable

    def _check_legal(self, protocol: Protocol, table: str | None, version: int | None) -> None:
        try:
            protocol.validate(self.rules)
            self._check_readers_bound(protocol)
        except InvalidProtocolError as e:
            raise e.at(table=table, version=version) from None

    def _check_readers_bound(self, protocol: Protocol) -> None:
        if self.rules.lists_anywhere or protocol.min_reader_version > self.rules.reader_lists:
            return
        unbound = (protocol.writer_features or Names()) - (protocol.reader_features or Names())
        for row in (self.get(name) for name in sorted(unbound)):
            if row is None or not row.reader_writer:
                continue
            # Column mapping came with reader version 2, where there is no list to put it in.
            if row.legacy and row.min_reader <= protocol.min_reader_version < self.rules.reader_lists:
                continue
            raise InvalidProtocolError(
                f"{protocol}: {row.name} binds readers too, and readerFeatures lacks it"
            )

    def _describe(self, missing: tuple[str, ...]) -> str:
        return ", ".join(n if n in self else f"{n} (unknown here)" for n in missing)

    def _reads(self) -> str:
        names = ", ".join(sorted(row.name for row in self.rows if row.reader_writer and row.readable))
        return f"{self.client} reads versions up to {self.max_reader_version} with {names or 'no features'}."

    def _writes(self) -> str:
        names = ", ".join(sorted(row.name for row in self.rows if row.writable))
        return f"{self.client} writes versions up to {self.max_writer_version} with {names or 'no features'}."

    def _where_to_look(self, missing: tuple[str, ...]) -> str:
        since = {row.since if row else None for row in map(self.get, missing)}
        release = next(iter(since)) if len(since) == 1 else None
        if release is not None:
            return f"Look for {self.client} {release} or newer."
        return (
            f"This release of {self.client} does not have them: look in the release notes of newer ones, "
            "or have the features dropped by the client that added them."
        )
