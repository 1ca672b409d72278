"""``tidegate.open``: the first front door, and the only one that needs neither Spark nor a writer.

Which family a table is of shows in the directory of its log. Where both are there the Delta table is the
one that is opened, and that is said; ``dialect`` decides otherwise. Looking for the other one costs a
Delta table nothing: on remote stores it is done while the log is read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timezone
from os import PathLike

from tidegate.errors import NotATableError, OptionError, TimestampOutOfRangeError
from tidegate.log.dialect import DELTA, DIALECTS, INDEX, Dialect
from tidegate.log.history import version_at
from tidegate.log.moments import moment_of
from tidegate.log.snapshot import Snapshot, load
from tidegate.log.table_log import TableLog
from tidegate.storage.local import LocalStore
from tidegate.storage.memory import MemoryStore
from tidegate.storage.opening import open_store
from tidegate.storage.store import Store

_log = logging.getLogger(__name__)
Moment = datetime | str | int


def open(
    url: str | PathLike[str],
    *,
    version: int | None = None,
    timestamp: datetime | str | int | None = None,
    storage_options: Mapping[str, str] | None = None,
    dialect: str | None = None,
) -> Snapshot:
    """Open the table at ``url`` at its latest version, at ``version``, or as of ``timestamp``.

    ``timestamp`` is a datetime, an ISO 8601 text or milliseconds since 1970; without a zone it is
    UTC. ``dialect`` is ``delta`` or ``indextables``; without it the log directory tells. Nothing but
    the log is read, and no Spark is needed.
    """
    store = open_store(url, storage_options)
    if version is not None and (isinstance(version, bool) or not isinstance(version, int)):
        raise OptionError(
            f"{version!r} is no version.", table=store.url, hint="Versions are whole numbers from 0 on."
        )
    if timestamp is not None and version is not None:
        raise TimestampOutOfRangeError(
            "Both a version and a timestamp are given; a table can be opened at one of them.", table=store.url
        )
    if dialect is not None:
        return _open(TableLog(store, dialect_of(dialect)), version, timestamp)
    with _looking_for(store, INDEX) as is_there:
        try:
            found = _open(TableLog(store), version, timestamp)
        except NotATableError:
            if not is_there():
                raise
            return _open(TableLog(store, INDEX), version, timestamp)
        if is_there():
            _log.warning(both(store))
        return found


def find_log(
    url: str | PathLike[str],
    storage_options: Mapping[str, str] | None = None,
    dialect: str | None = None,
    *,
    tell: Callable[[str], None] = _log.warning,
) -> TableLog:
    """The log of the table at ``url``, of whichever family it is; Delta's where there is none at all."""
    store = open_store(url, storage_options)
    if dialect is not None:
        return TableLog(store, dialect_of(dialect))
    if _has_log(store, INDEX):
        if not _has_log(store, DELTA):
            return TableLog(store, INDEX)
        tell(both(store))
    return TableLog(store)


def dialect_of(name: str) -> Dialect:
    """The dialect called ``name``."""
    found = DIALECTS.get(name.lower())
    if found is None:
        raise OptionError(f"There is no dialect {name!r}.", hint=f"They are: {', '.join(DIALECTS)}.")
    return found


def both(store: Store) -> str:
    """The word on a place that holds two tables."""
    return (
        f"{store.url} holds both a Delta table ({DELTA.log_dir}) and an index table ({INDEX.log_dir}): the "
        f"Delta table is opened. For the other one, say that the dialect is {INDEX.name}."
    )


def _open(log: TableLog, version: int | None, timestamp: Moment | None) -> Snapshot:
    if timestamp is None:
        return load(log, version)
    latest = load(log)
    found = version_at(log, milliseconds(timestamp), latest=latest)
    return latest if found == latest.version else load(log, found)


def _has_log(store: Store, dialect: Dialect) -> bool:
    return next(iter(store.list_from(dialect.log_dir)), None) is not None


@contextmanager
def _looking_for(store: Store, dialect: Dialect) -> Iterator[Callable[[], bool]]:
    """Whether there is a log of ``dialect``: asked for when it matters, or beside other work."""
    if isinstance(store, LocalStore | MemoryStore):
        yield lambda: _has_log(store, dialect)
        return
    with ThreadPoolExecutor(1, thread_name_prefix="tidegate-open") as pool:
        coming = pool.submit(_has_log, store, dialect)
        yield coming.result


def milliseconds(value: datetime | str | int) -> int:
    """A moment as milliseconds since 1970."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.replace("Z", "+00:00"))
        except ValueError:
            raise _no_time(value, "Write it like 2026-01-31T12:00:00Z.") from None
    if not isinstance(value, datetime):
        hint = "Give a datetime, a text like 2026-01-31T12:00:00Z, or milliseconds since 1970."
        raise _no_time(value, hint)
    if value.tzinfo is None:
        value = value.replace(tzinfo=timezone.utc)
    return moment_of(value)


def _no_time(value: object, hint: str) -> TimestampOutOfRangeError:
    return TimestampOutOfRangeError(
        f"The provided timestamp ({value!r}) cannot be converted to a valid timestamp.",
        hint=hint,
        errorClass="DELTA_TIMESTAMP_INVALID",
    )
