"""What differs between the two families of logs. Everything else in ``log/`` serves both.

``DELTA`` is the log of Delta tables. The dialect of index tables joins it with its own directory,
actions and checkpoint codec.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidegate.log.actions import CommitActions, decode_commit
from tidegate.protocol.delta import DELTA as DELTA_FEATURES
from tidegate.protocol.feature import Registry


@dataclass(frozen=True)
class Dialect:
    """One family of transaction logs."""

    name: str
    log_dir: str
    registry: Registry
    decode: Callable[[bytes, str], CommitActions]


DELTA = Dialect("delta", "_delta_log", DELTA_FEATURES, decode_commit)
