"""An index table at one version: protocol, schema, live splits, and the splits to leave alone for now.

A thin cover over the engine's snapshot. The protocol is checked before every answer; the check looks at
values in memory only, so that it costs microseconds and no storage call. Schemas of splits come inline,
wherever the log keeps them. Splits that were skipped are still in ``files``: nothing is missing silently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.files.predicate import Predicate
from tidegate.index import doc_mappings
from tidegate.log.actions import Skip
from tidegate.log.snapshot import Snapshot
from tidegate.metadata import Metadata
from tidegate.protocol.protocol import Protocol
from tidegate.schema.types import StructType


@dataclass(frozen=True)
class IndexSnapshot:
    """The table at ``version``; made by ``IndexLog``."""

    base: Snapshot
    # Not, where whoever opened the table has switched the tracking of skipped splits off.
    tracks_skips: bool = True

    @property
    def version(self) -> int:
        return self.base.version

    @property
    def url(self) -> str:
        return self.base.url

    @property
    def timestamp(self) -> datetime:
        return self.base.timestamp

    @property
    def protocol(self) -> Protocol:
        """The protocol; (1,1) for a legacy table, whose log says none."""
        return self.base.protocol

    @property
    def is_legacy(self) -> bool:
        """Whether the log holds no protocol action up to this version."""
        return self.base.spoken_protocol is None

    @property
    def metadata(self) -> Metadata:
        return self.base.metadata

    @property
    def schema(self) -> StructType:
        return self.base.schema

    @property
    def schema_json(self) -> str:
        return self.metadata.schema_string

    @property
    def partition_columns(self) -> tuple[str, ...]:
        return self.metadata.partition_columns

    @property
    def configuration(self) -> Mapping[str, str]:
        return self.base.properties

    def check_readable(self) -> None:
        """Refuse a table whose readers need more than this client has. No storage is touched."""
        log = self.base.log
        log.registry.check_read(self.protocol, table=log.url, version=self.version)

    # ------------------------------------------------------------------ splits

    def files(
        self, predicate: str | Predicate | None = None, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """The live splits, one row each, with every field of ``add`` or with ``columns``.

        ``predicate`` (SQL text) drops splits that cannot hold a matching row, by partition values and
        bounds. ``docMappingJson`` is filled in where a split refers to its schema.
        """
        self.check_readable()
        asked = list(columns) if columns is not None else None
        inline = asked is None or "docMappingJson" in asked
        if asked is not None and inline and "docMappingRef" not in asked:
            found = self.base.files(predicate, [*asked, "docMappingRef"])
            return doc_mappings.resolve(found, self.configuration, self.url).select(asked)
        found = self.base.files(predicate, asked)
        return doc_mappings.resolve(found, self.configuration, self.url) if inline else found

    @property
    def num_files(self) -> int:
        self.check_readable()
        return self.base.num_files

    @property
    def size_in_bytes(self) -> int:
        self.check_readable()
        return self.base.size_in_bytes

    @property
    def num_records(self) -> int | None:
        """How many rows the splits say they have; None where one does not say."""
        counts = self.files(columns=["path", "numRecords"]).column("numRecords")
        return None if counts.null_count else pc.sum(counts).as_py() or 0

    # ------------------------------------------------------------------ skips

    @property
    def skips(self) -> Mapping[str, Skip]:
        """The splits that could not be used, by path: why, how often, and when to try again."""
        self.check_readable()
        return self.base.skips

    def cooling(self, now: int | None = None) -> frozenset[str]:
        """The paths that are not to be tried again yet, at ``now`` (milliseconds)."""
        if not self.tracks_skips:
            return frozenset()
        moment = self.base.log.clock() if now is None else now
        return frozenset(p for p, s in self.skips.items() if (s.retry_after or 0) > moment)

    def without_cooling(self, files: pa.Table, now: int | None = None) -> pa.Table:
        """``files`` without those in their cooldown: what a merge may plan with, never what a read uses."""
        cooling = self.cooling(now)
        if not cooling:
            return files
        waiting = pc.is_in(files.column("path"), value_set=pa.array(sorted(cooling), pa.string()))
        return files.filter(pc.invert(waiting))
