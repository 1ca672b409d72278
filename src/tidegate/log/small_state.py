"""The small state of one version: everything that does not grow with the number of files.

Each piece comes from its cheapest witness: what the caller knows already, the version's checksum, the
tail of the log, the checkpoint. Each is asked once. ``replayed`` alone never believes a checksum.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType

from tidegate.errors import FileMissingError, NoMetadataError, NoProtocolError
from tidegate.log import checksum as checksums
from tidegate.log.actions import DomainMetadata, Skip, Txn
from tidegate.log.checkpoint.json_read import JsonCheckpointReader
from tidegate.log.checksum import Checksum
from tidegate.log.commits import CommitActions
from tidegate.log.reading import LogReading
from tidegate.log.replay import SmallState, reconcile_skips, reconcile_small, small_state
from tidegate.metadata import Metadata
from tidegate.protocol.protocol import Protocol

_log = logging.getLogger(__name__)

Spoken = tuple[Protocol | None, Metadata]


class SmallStateReader:
    """Protocol, metadata, application transactions, domains and skips of a version, as they are asked for."""

    def __init__(
        self, reading: LogReading, *, known: SmallState | None = None, checksum: Checksum | None = None
    ) -> None:
        self._reading = reading
        self._known = known
        self._known_checksum = checksum

    @cached_property
    def checksum(self) -> Checksum | None:
        """What ``N.crc`` says of this version; None where it is missing or cannot be believed."""
        if self._known_checksum is not None:
            return self._known_checksum
        file = self._reading.segment.checksum
        if file is None:
            return None
        log = self._reading.log
        try:
            found = checksums.decode(log.store.get(file.info.name))
        except FileMissingError:
            return None
        if found is None:
            _log.info("%s: the checksum of version %d is ignored", log.url, self._reading.version)
        return found

    @cached_property
    def head(self) -> tuple[Protocol, Metadata]:
        """Protocol and metadata; an index table may have a protocol that no action speaks."""
        protocol, metadata = self.spoken
        if protocol is None:
            log = self._reading.log
            unspoken = log.dialect.unspoken
            if unspoken is None:
                raise NoProtocolError(
                    "No protocol action is found up to this version, so nobody can say who may read it.",
                    table=log.url,
                    version=self._reading.version,
                )
            protocol = unspoken(log.url)
        return protocol, metadata

    @cached_property
    def spoken(self) -> Spoken:
        """Protocol and metadata as actions of the log say them."""
        crc = self.checksum
        if crc is not None and crc.protocol is not None and crc.metadata is not None:
            return crc.protocol, crc.metadata
        state = self._known if self._known is not None else self._newest_head()
        if state.metadata is None:
            raise NoMetadataError(
                "No metaData action is found up to this version, so the table has no schema.",
                table=self._reading.log.url,
                version=self._reading.version,
            )
        return state.protocol, state.metadata

    def _newest_head(self) -> SmallState:
        """As much of the tail as it takes to know protocol and metadata, or all there is."""
        state = SmallState()
        for found in self._reading.segment.deltas():
            state = state.over(small_state(self._reading.actions(found)))
            if state.protocol is not None and state.metadata is not None:
                return state
        return self._all

    @cached_property
    def _all(self) -> SmallState:
        if self._known is not None:
            return self._known
        crc = self.checksum
        if (
            crc is not None
            and crc.set_transactions is not None
            and crc.domain_metadata is not None
            and crc.protocol is not None
            and crc.metadata is not None
        ):
            return SmallState(
                crc.protocol,
                crc.metadata,
                {t.app_id: t for t in crc.set_transactions},
                {d.domain: d for d in crc.domain_metadata},
            )
        return self.replayed()

    @property
    def all(self) -> SmallState:
        """Everything but the skips in one value."""
        return SmallState(*self.spoken, self._all.txns, self._all.domains)

    @property
    def txns(self) -> dict[str, Txn]:
        """The last ``txn`` of every application."""
        return self._all.txns

    @property
    def live_domains(self) -> dict[str, DomainMetadata]:
        return self._all.live_domains()

    def replayed(self) -> SmallState:
        """Everything by replay alone, never from a checksum; what ``verify`` compares with."""
        return self._reading.replay(self._replay)

    def _replay(self) -> SmallState:
        tail = reconcile_small(self._reading.deltas())
        reader = self._reading.reader()
        return tail if reader is None else tail.over(reader.small)

    @cached_property
    def skips(self) -> Mapping[str, Skip]:
        """On index tables: the splits that could not be used, by path; a removed one is forgotten."""
        return MappingProxyType(self._reading.replay(self._replay_skips))

    def _replay_skips(self) -> dict[str, Skip]:
        reader = self._reading.reader()
        known = reader.skips if isinstance(reader, JsonCheckpointReader) else ()
        # Newest first is how a segment comes, and oldest first how skips add up.
        return reconcile_skips({s.path: s for s in known}, reversed(self._reading.deltas()))

    # ------------------------------------------------------------------ moving on

    @property
    def is_whole(self) -> bool:
        """Whether everything but the skips is known by now, so that nothing is left to replay."""
        return self._known is not None or "_all" in self.__dict__

    def carried_on(
        self, reading: LogReading, new: Sequence[CommitActions], checksum: Checksum | None
    ) -> SmallStateReader:
        """The small state after ``new``, ascending: whatever is known here is known there."""
        known: SmallState | None = None
        if self.is_whole:
            known = self.all
            for actions in new:
                known = small_state(actions).over(known)
        out = SmallStateReader(reading, known=known, checksum=checksum)
        if known is None and checksum is None and "spoken" in self.__dict__:
            protocol, metadata = self.spoken
            for actions in new:
                protocol, metadata = actions.protocol or protocol, actions.metadata or metadata
            out.__dict__["spoken"] = (protocol, metadata)
        if "skips" in self.__dict__:
            out.__dict__["skips"] = MappingProxyType(reconcile_skips(self.skips, new))
        return out
