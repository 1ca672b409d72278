"""What ``commitInfo`` says of a commit: the same in every attempt, but for the times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from tidegate._version import __version__
from tidegate.transaction.conflicts import Isolation
from tidegate.transaction.pending import Operation

ENGINE = f"Tidegate/{__version__}"
# In the tags of a commit to a table that tracks rows: whether those it moved or changed have kept their ids.
_ROWS_PRESERVED = "delta.rowTracking.preserved"


@dataclass(frozen=True)
class CommitNote:
    """What is known of a commit before its version is."""

    operation: Operation
    metrics: Mapping[str, Any] | None
    user_metadata: str | None
    tags: Mapping[str, str] | None
    isolation: Isolation
    is_blind: bool
    read_version: int
    txn_id: str

    def without_row_ids(self) -> CommitNote:
        """The note of a commit whose rows could not keep their ids."""
        return replace(self, tags={**(self.tags or {}), _ROWS_PRESERVED: "false"})

    def with_row_ids(self) -> CommitNote:
        """The note of a commit whose rows kept their ids, as every command sees to it; a given tag stays."""
        return replace(self, tags={_ROWS_PRESERVED: "true", **(self.tags or {})})

    def render(self, now: int, own_time: int | None) -> dict[str, Any]:
        """The fields in the order in which readers look for them, an in-commit timestamp first."""
        info: dict[str, Any] = {}
        if own_time is not None:
            info["inCommitTimestamp"] = own_time
        info["timestamp"] = now if own_time is None else own_time
        info["operation"] = self.operation.name
        info["operationParameters"] = {k: _parameter(v) for k, v in self.operation.parameters.items()}
        if self.read_version >= 0:
            info["readVersion"] = self.read_version
        info["isolationLevel"] = self.isolation.value
        info["isBlindAppend"] = self.is_blind
        info["operationMetrics"] = {k: _json(v) for k, v in (self.metrics or {}).items()}
        if self.user_metadata is not None:
            info["userMetadata"] = self.user_metadata
        if self.tags:
            info["tags"] = dict(self.tags)
        info["engineInfo"] = ENGINE
        info["txnId"] = self.txn_id
        return info


def _parameter(value: Any) -> str | int | float | bool | None:
    """A parameter as Delta writes it: lists and maps are JSON in a text, all else stands as it is."""
    return value if value is None or isinstance(value, str | int | float) else _json(value)


def _json(value: Any) -> str | None:
    """A metric as Delta writes it: text, also for a number."""
    return value if value is None or isinstance(value, str) else msgspec.json.encode(value).decode()
