"""One table's log as everything else holds it: where it is, whose dialect, which clock, which client.

A ``TableLog`` is a plain value. Tests hand in a clock that does not tick by itself and a registry
that knows fewer features, which is how an old client is simulated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from os import PathLike

from tidegate.log import names
from tidegate.log import segment as segments
from tidegate.log.dialect import DELTA, Dialect, Reader
from tidegate.log.segment import Checkpoint, Listing
from tidegate.log.settings import Asked, Settings
from tidegate.protocol.feature import Registry
from tidegate.storage.opening import open_store
from tidegate.storage.store import Store

Clock = Callable[[], int]
# What commits are to carry as ``userMetadata`` where their command does not say; asked at each commit.
Remark = Callable[[], str | None]
# Stands for the registry of the dialect, whichever that is.
_OF_DIALECT = Registry((), DELTA.registry.rules, 0, 0)


def system_clock() -> int:
    """Milliseconds since 1970, UTC."""
    return time.time_ns() // 1_000_000


def no_remark() -> str | None:
    """Nothing to say of a commit."""
    return None


@dataclass(frozen=True)
class TableLog:
    """The log of one table, not yet read."""

    store: Store
    dialect: Dialect = DELTA
    clock: Clock = system_clock
    # The client's: that of the dialect, unless another client is played.
    registry: Registry = field(default=_OF_DIALECT)
    remark: Remark = field(default=no_remark, compare=False)
    settings: Asked = field(default=Settings, compare=False)

    def __post_init__(self) -> None:
        if self.registry is _OF_DIALECT:
            object.__setattr__(self, "registry", self.dialect.registry)

    @classmethod
    def at(
        cls,
        url: str | PathLike[str],
        storage_options: Mapping[str, str] | None = None,
        *,
        dialect: Dialect = DELTA,
        clock: Clock = system_clock,
    ) -> TableLog:
        """The log of the table at ``url``; nothing is read yet."""
        return cls(open_store(url, storage_options), dialect, clock)

    @property
    def url(self) -> str:
        return self.store.url

    @property
    def log_dir(self) -> str:
        return self.dialect.log_dir

    def path(self, name: str) -> str:
        """The store's name of the log file ``name``."""
        return f"{self.dialect.log_dir}/{name}"

    def listing(self, start: int = 0, until: int | None = None, *, before: int | None = None) -> Listing:
        """What the log directory holds from version ``start`` on; see ``segment.list_log``."""
        return segments.list_log(
            self.store, self.log_dir, start, until, before=before, parse=self.dialect.parse
        )

    def reader(self, checkpoint: Checkpoint, expected: str | None = None) -> Reader:
        """Who reads ``checkpoint``; ``expected`` is the checksum of its bytes, where one is known."""
        return self.dialect.reader(self.store, self.log_dir, checkpoint, expected)

    def commit_path(self, version: int) -> str:
        return self.path(names.commit(version))
