"""Upgrades by hand: give a table higher versions, or one more feature.

One commit, which holds the new protocol and nothing else. Versions stand for groups of features and only
add: lower ones than the table has change nothing. A feature brings along what it requires. What properties
and schema need is added where those are changed.
"""

from __future__ import annotations

from tidegate.errors import NotATableError
from tidegate.log.table_log import TableLog
from tidegate.protocol import negotiate
from tidegate.transaction.pending import Operation
from tidegate.transaction.transaction import Committed, Transaction


def upgrade_table_protocol(log: TableLog, reader_version: int, writer_version: int) -> Committed | None:
    """Raise the table's versions to these; None where it has them, or more, already."""
    versions = {
        "delta.minReaderVersion": str(reader_version),
        "delta.minWriterVersion": str(writer_version),
    }
    return _upgrade(log, versions)


def add_feature_support(log: TableLog, feature: str) -> Committed | None:
    """Add a feature and what it requires; None where the table supports it already."""
    return _upgrade(log, {f"{negotiate.FEATURE_PREFIX}{feature}": "supported"})


def _upgrade(log: TableLog, asked: dict[str, str]) -> Committed | None:
    transaction = Transaction.begin(log)
    snapshot = transaction.snapshot
    if snapshot is None:
        raise NotATableError("There is no table here.", table=log.url)
    protocol, _ = negotiate.apply_properties(snapshot.protocol, asked, log.registry)
    if protocol == snapshot.protocol:
        return None
    transaction.update_protocol(protocol)
    operation = Operation("UPGRADE PROTOCOL", {"newProtocol": protocol.to_wire()})
    return transaction.commit(operation=operation)
