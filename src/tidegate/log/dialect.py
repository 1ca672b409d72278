"""What differs between the two families of logs. Everything else in ``log/`` serves both.

``DELTA`` is the log of Delta tables, ``INDEX`` that of index tables: another directory, other lines and
columns, JSON checkpoints, commits without a commitInfo, and tables that may have no protocol action at all.
A dialect is a value; ``compressed`` gives the one that writes its files behind the gzip prefix.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from tidegate.log import names
from tidegate.log.checkpoint import hint as hints
from tidegate.log.checkpoint.hint import Hint
from tidegate.log.checkpoint.json_read import JsonCheckpointReader
from tidegate.log.checkpoint.read import CheckpointReader
from tidegate.log.commits import DELTA_FORM, CommitActions, Form, decode_commit
from tidegate.log.index_actions import INDEX_FORM, decode_index_commit, wrapped
from tidegate.log.names import LogName
from tidegate.log.segment import Checkpoint
from tidegate.metadata import Metadata
from tidegate.protocol.delta import DELTA as DELTA_FEATURES
from tidegate.protocol.feature import Registry
from tidegate.protocol.indextables import INDEX as INDEX_FEATURES
from tidegate.protocol.indextables import LEGACY
from tidegate.protocol.protocol import Protocol
from tidegate.storage.store import Store

_log = logging.getLogger(__name__)

Reader: TypeAlias = CheckpointReader | JsonCheckpointReader


def _plain(data: bytes) -> bytes:
    return data


def _parquet_reader(
    store: Store, log_dir: str, checkpoint: Checkpoint, expected: str | None = None
) -> Reader:
    return CheckpointReader(store, log_dir, checkpoint)


@dataclass(frozen=True)
class Dialect:
    """One family of transaction logs."""

    name: str
    log_dir: str
    registry: Registry
    form: Form
    decode: Callable[[bytes, str], CommitActions]
    parse: Callable[[str], LogName | None] = names.parse
    # Who reads a checkpoint; the last argument is the checksum that the hint gives for its bytes.
    reader: Callable[[Store, str, Checkpoint, str | None], Reader] = _parquet_reader
    decode_hint: Callable[[bytes], Hint | None] = hints.decode
    # The second says whether the hint is to carry a checksum of its own text.
    encode_hint: Callable[[Hint, bool], bytes] = hints.encode
    # What is done to the bytes of a log file before they are stored.
    encode: Callable[[bytes], bytes] = _plain
    # What a table may call its format. Whether the rest of the metadata is looked at when a table is opened.
    providers: tuple[str, ...] = ("parquet",)
    validates_metadata: bool = True
    # The protocol of a table, by its URL, that has no protocol action; None: it cannot be read.
    unspoken: Callable[[str], Protocol] | None = None
    # Whether commits carry a commitInfo, versions a checksum file, and checkpoints tombstones.
    commit_info: bool = True
    checksums: bool = True
    tombstones: bool = True

    def check_metadata(self, metadata: Metadata) -> None:
        """Refuse metadata that no reader of such tables could serve."""
        metadata.validate(providers=self.providers, deep=self.validates_metadata)


_warned: set[str] = set()
_warned_lock = threading.Lock()


def _legacy(url: str) -> Protocol:
    """The protocol of an index table that names none; said once for each table in a process."""
    with _warned_lock:
        known = url in _warned
        _warned.add(url)
    if not known:
        _log.warning(
            "Table at %s has no protocol action, defaulting to version 1. The next write adds one; "
            "IndexTable.upgradeProtocol does so at once.",
            url,
        )
    return LEGACY


DELTA = Dialect("delta", "_delta_log", DELTA_FEATURES, DELTA_FORM, decode_commit)
INDEX = Dialect(
    "indextables",
    "_transaction_log",
    INDEX_FEATURES,
    INDEX_FORM,
    decode_index_commit,
    parse=names.parse_index,
    reader=JsonCheckpointReader,
    decode_hint=hints.decode_index,
    encode_hint=hints.encode_index,
    providers=("indextables", "tantivy4spark"),
    validates_metadata=False,
    unspoken=_legacy,
    commit_info=False,
    checksums=False,
    tombstones=False,
)
DIALECTS = {d.name: d for d in (DELTA, INDEX)}


def compressed(dialect: Dialect) -> Dialect:
    """The dialect that writes its log files compressed."""
    return replace(dialect, encode=wrapped)
