"""The head of the table that a transaction leaves behind: its protocol and its metadata.

New metadata brings the features that it needs into the protocol; a protocol loses nothing but the feature
that is being dropped. What is refused is refused before a file is written: once data is there, only the
marks of identity columns may move.
Specification: "Change Metadata", "Protocol Evolution".
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace

import msgspec

from tidegate import properties
from tidegate.errors import InvalidCommitError, TransactionStateError
from tidegate.log.snapshot import Snapshot
from tidegate.log.table_log import TableLog
from tidegate.metadata import Metadata
from tidegate.protocol import negotiate
from tidegate.protocol.protocol import Protocol
from tidegate.schema.mapping import mapping_mode
from tidegate.schema.names import check_feed_names, check_names, check_partition_types
from tidegate.transaction.conflicts import only_identity_moved
from tidegate.transaction.manifests import MANIFEST_PROPERTIES, check_kept
from tidegate.transaction.pending import Changes
from tidegate.transaction.upkeep import mapped, tracked


class Head:
    """What a transaction makes of a table's protocol and metadata."""

    def __init__(self, log: TableLog, snapshot: Snapshot | None, defaults: Mapping[str, str] | None) -> None:
        self.log = log
        self.snapshot = snapshot
        self._defaults = defaults
        self._empty = Metadata(id=str(uuid.uuid4()))
        self._new_metadata: Metadata | None = None
        self._new_protocol: Protocol | None = None
        self._has_written = False
        self._protects = False
        if snapshot is not None:
            log.registry.check_write(snapshot.protocol, table=log.url, version=snapshot.version)

    @property
    def read_version(self) -> int:
        """The version this transaction reads; -1 on a path without a log."""
        return -1 if self.snapshot is None else self.snapshot.version

    @property
    def metadata(self) -> Metadata:
        """The metadata as this transaction will leave it."""
        if self._new_metadata is not None:
            return self._new_metadata
        return self._empty if self.snapshot is None else self.snapshot.metadata

    @property
    def protocol(self) -> Protocol:
        """The protocol as this transaction will leave it."""
        if self._new_protocol is not None:
            return self._new_protocol
        if self.snapshot is None:
            return negotiate.for_new_table(self.metadata, self._defaults, self.log.registry)
        return self.snapshot.protocol

    @property
    def has_written(self) -> bool:
        """Whether files have been written in this transaction."""
        return self._has_written

    def mark_written(self) -> None:
        """Data files are about to be written: from here on the metadata stands.

        Set before the job starts, and it stays set when the job fails.
        """
        self._has_written = True

    def update_metadata(self, metadata: Metadata) -> None:
        """Give the table new metadata, and the protocol whatever the metadata needs."""
        if self._has_written:
            raise TransactionStateError(
                "Cannot update the metadata in a transaction that has already written data.",
                table=self.log.url,
                hint="Change the metadata before the first file is written.",
            )
        if self._new_metadata is not None:
            raise TransactionStateError(
                "The metadata has been changed in this transaction already.",
                table=self.log.url,
                hint="Put both changes into one.",
            )
        if self.snapshot is None:
            self._create(metadata)
        else:
            self._change(metadata, self.snapshot)

    def move_identity(self, metadata: Metadata) -> None:
        """Move the marks of identity columns; also after data was written, which is when they are known."""
        if not only_identity_moved(self.metadata, metadata):
            raise TransactionStateError(
                "Only the marks of identity columns may move here.",
                table=self.log.url,
                hint="Change other metadata before the first file is written.",
            )
        if metadata != self.metadata:
            self._new_metadata = metadata

    def _create(self, metadata: Metadata) -> None:
        protocol = self._protocol_to_create(metadata)
        configuration = negotiate.configuration_for_new_table(metadata.configuration, self._defaults)
        metadata = mapped(metadata.with_configuration(properties.validate(configuration)), None)
        metadata = tracked(metadata)
        metadata.validate()
        self._check_names(metadata)
        check_kept(metadata, None)
        if metadata.created_time is None:
            metadata = msgspec.structs.replace(metadata, created_time=self.log.clock())
        self._new_metadata, self._new_protocol = metadata, protocol

    def _protocol_to_create(self, metadata: Metadata) -> Protocol:
        protocol = negotiate.for_new_table(metadata, self._defaults, self.log.registry)
        asked = self._new_protocol
        return protocol if asked is None else asked.merge(protocol, rules=self.log.registry.rules)

    def _change(self, metadata: Metadata, snapshot: Snapshot) -> None:
        registry = self.log.registry
        current = self._new_protocol or snapshot.protocol
        before = snapshot.metadata.configuration
        # Only what is being set now speaks to the protocol; what some writer once stored does not.
        asked = {k: v for k, v in metadata.configuration.items() if before.get(k) != v}
        protocol, stored = negotiate.apply_properties(current, asked, registry)
        kept = {k: v for k, v in metadata.configuration.items() if k not in asked}
        configuration = {**negotiate.strip_protocol_properties(kept), **stored}
        metadata = tracked(mapped(metadata.with_configuration(configuration), snapshot.metadata))
        metadata.validate()
        self._check_names(metadata)
        if not asked.keys().isdisjoint(MANIFEST_PROPERTIES):
            check_kept(metadata, snapshot)
        protocol = negotiate.check_requirements(metadata, protocol, registry) or protocol
        self._new_metadata = metadata
        if protocol != snapshot.protocol:
            self._new_protocol = protocol

    def _check_names(self, metadata: Metadata) -> None:
        """Refuse new columns that no data file, no directory or no feed could carry."""
        if metadata.property(properties.ENABLE_CHANGE_DATA_FEED):
            old = self.snapshot
            fed = old is not None and old.metadata.property(properties.ENABLE_CHANGE_DATA_FEED)
            check_feed_names(metadata.schema, old.schema if old is not None and fed else None)
        if mapping_mode(metadata) == "none":
            before = None if self.snapshot is None else self.snapshot.schema
            check_names(metadata.schema, metadata.partition_columns, before)
        known = () if self.snapshot is None else self.snapshot.partition_columns
        check_partition_types(metadata.partition_schema, known)

    def update_protocol(
        self,
        protocol: Protocol,
        *,
        dropped: str | None = None,
        protect: bool = False,
        lowers: bool = False,
    ) -> None:
        """Give the table a new protocol; it may only lose the one feature that is being dropped.

        With ``protect`` the versions before this commit are protected from it on, whichever it becomes.
        With ``lowers`` it may lose others too: the caller answers for it that nothing of them is left.
        """
        if lowers:
            self.log.registry.check_write(protocol, table=self.log.url)
        else:
            self._check_transition(protocol, dropped)
        self._new_protocol = protocol
        self._protects = protect

    def _check_transition(self, protocol: Protocol, dropped: str | None = None) -> None:
        if self.snapshot is not None:
            negotiate.check_transition(
                self.snapshot.protocol, protocol, dropped=dropped, registry=self.log.registry
            )
        self.log.registry.check_write(protocol, table=self.log.url)

    def _with_head(self, changes: Changes) -> Changes:
        """``changes`` with the protocol and the metadata of this transaction, each checked on its way."""
        protocol, metadata = changes.protocol, changes.metadata
        if metadata is not None and self._new_metadata is not None:
            raise _twice("metaData").at(table=self.log.url)
        if protocol is not None:
            known = self._new_protocol
            if known is not None and not known.can_upgrade_to(protocol, self.log.registry.rules):
                raise _twice("protocol").at(table=self.log.url)
            self._check_transition(protocol)
        elif metadata is not None:
            protocol = self._protocol_for(metadata)
        return replace(
            changes, protocol=protocol or self._new_protocol, metadata=metadata or self._new_metadata
        )

    def _protocol_for(self, metadata: Metadata) -> Protocol | None:
        """What metadata that comes among the actions needs beyond the protocol there is."""
        negotiate.assert_no_protocol_properties(metadata.configuration)
        if self._has_written and not only_identity_moved(self.metadata, metadata):
            raise TransactionStateError(
                "Cannot update the metadata in a transaction that has already written data.",
                table=self.log.url,
                hint="Only the marks of identity columns may still move.",
            )
        if self.snapshot is None:
            return self._protocol_to_create(metadata)
        return negotiate.check_requirements(
            metadata, self._new_protocol or self.snapshot.protocol, self.log.registry
        )


def _twice(name: str) -> InvalidCommitError:
    return InvalidCommitError(
        f"A commit holds at most one {name} action.",
        hint="It was changed in the transaction already; leave it out of the actions.",
    )
