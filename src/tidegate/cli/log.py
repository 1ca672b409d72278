"""``tidegate log``: every file of the log, what it is and what is in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import unquote

from tidegate.cli import screen
from tidegate.cli.failure import FOUND, verb
from tidegate.cli.options import (
    Dialect,
    Json,
    Limit,
    StorageOptions,
    Table,
    Timestamp,
    Verbose,
    Version,
    table_log,
    version_of,
)
from tidegate.cli.patience import Patience
from tidegate.errors import TidegateError
from tidegate.log import checksum as checksums
from tidegate.log import names
from tidegate.log import segment as segments
from tidegate.log.checkpoint.json_read import JsonCheckpointReader
from tidegate.log.commits import CommitActions
from tidegate.log.dialect import Reader
from tidegate.log.segment import Checkpoint, Listing, LogFile, Segment
from tidegate.log.table_log import TableLog

Entry = dict[str, Any]


@verb
def command(
    table: Table,
    version: Version = None,
    timestamp: Timestamp = None,
    limit: Limit = None,
    json: Json = False,
    dialect: Dialect = None,
    storage_option: StorageOptions = None,
    verbose: Verbose = False,
) -> int:
    """The files of the log, and what each holds.

    Commits, checkpoints, checksums and compactions, with the number of actions in each. A star marks the
    files that make the version. With --limit, only the newest N versions are listed.
    """
    log = table_log(table, storage_option, dialect)
    with Patience("reading the log") as bar:
        upto = version_of(table, version, timestamp, storage_option, dialect)
        _check_there(log, upto)
        listing = log.listing(0, upto)
        entries = list(_entries(log, listing, upto, limit, bar))
    if json:
        screen.document({"table": log.url, "version": segments.latest(listing), "files": entries})
    else:
        screen.rows(
            ["", "file", "what", "size", "modified", "holds"],
            [_row(e) for e in entries],
            right=["size"],
            fold=["file", "what", "holds"],
        )
        screen.line()
        screen.line(f"{screen.plural(len(entries), 'file')} in {log.url}/{log.log_dir}")
    return FOUND if any("error" in e for e in entries) else 0


def _check_there(log: TableLog, version: int | None) -> None:
    """Refuse a path without a log, and a version that it does not reach. Damage is no reason to refuse."""
    whole = log.listing()
    if whole.empty:
        segments.build(whole, log.url)
    first = segments.earliest(whole)
    if version is not None and (version > segments.latest(whole) or (first is not None and version < first)):
        raise segments.out_of_range(whole, log.url, version)


def _row(entry: Entry) -> tuple[Any, ...]:
    told = entry["error"]["message"] if "error" in entry else entry["holds"]
    return (
        "*" if entry["used"] else "",
        entry["name"],
        entry["kind"],
        screen.size(entry["size"]),
        _to_the_second(entry["modified"]),
        f"CANNOT BE READ: {told}" if "error" in entry else told,
    )


def _to_the_second(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}Z"


def _entries(
    log: TableLog,
    listing: Listing,
    upto: int | None,
    limit: int | None,
    bar: Patience,
) -> Iterator[Entry]:
    used = _used(_segment(log, listing, upto))
    files: list[tuple[int, int, Callable[[], list[Entry]]]] = []
    for order, group in enumerate((listing.commits, listing.checksums)):
        for f in group.values():
            files.append((f.name.version, order, _describer(log, f, used)))
    for f in listing.compactions:
        files.append((f.name.end, 2, _describer(log, f, used)))
    for c in listing.checkpoints:
        files.append((c.version, 3, partial(_checkpoint, log, c, used)))
    files.sort(key=lambda f: f[:2])
    if limit is not None:
        kept = set(sorted({v for v, _, _ in files})[max(0, len({v for v, _, _ in files}) - limit) :])
        files = [f for f in files if f[0] in kept]
    for done, (_, _, describe) in enumerate(files):
        bar("reading the log", done, len(files))
        yield from describe()
    yield from _hint(log)


def _segment(log: TableLog, listing: Listing, upto: int | None) -> Segment | None:
    try:
        return segments.build(listing, log.url, upto)
    except TidegateError:
        return None


def _used(segment: Segment | None) -> set[str]:
    if segment is None:
        return set()
    files = [*segment.deltas(), *((segment.checksum,) if segment.checksum else ())]
    if segment.checkpoint is not None:
        files += segment.checkpoint.files
    return {f.info.name for f in files}


def _describer(log: TableLog, file: LogFile, used: set[str]) -> Callable[[], list[Entry]]:
    def describe() -> list[Entry]:
        return [_entry(file, used, lambda: _holds(log, file))]

    return describe


def _entry(file: LogFile, used: set[str], read: Callable[[], dict[str, Any]]) -> Entry:
    entry: Entry = {
        "name": file.name.text,
        "kind": file.name.kind.value,
        "version": file.name.end,
        "size": file.info.size,
        "modified": screen.from_milliseconds(file.info.modified),
        "used": file.info.name in used,
    }
    try:
        entry["holds"] = read()
    except TidegateError as e:
        entry["error"] = {"code": e.code, "message": e.message}
    return entry


def _holds(log: TableLog, file: LogFile) -> dict[str, Any]:
    data = log.store.get(file.info.name)
    if file.name.kind is names.Kind.CHECKSUM:
        crc = checksums.decode(data)
        if crc is None:
            raise TidegateError("The checksum is torn or malformed; readers ignore it.")
        return {"numFiles": crc.num_files, "tableSizeBytes": crc.table_size_bytes}
    actions = log.dialect.decode(data, file.name.text)
    holds = _counted(actions)
    operation = actions.commit_info.get("operation") if file.name.kind is names.Kind.COMMIT else None
    return {"operation": operation, **holds} if isinstance(operation, str) else holds


def _counted(actions: CommitActions) -> dict[str, Any]:
    counts = {
        "protocol": len(actions.protocols),
        "metaData": len(actions.metadatas),
        "add": sum(b.num_rows for b in actions.adds),
        "remove": sum(b.num_rows for b in actions.removes),
        "cdc": sum(b.num_rows for b in actions.cdcs),
        "txn": len(actions.txns),
        "domainMetadata": len(actions.domains),
        "sidecar": len(actions.sidecars),
        "skip": len(actions.skips),
    }
    return {name: n for name, n in counts.items() if n}


def _checkpoint(log: TableLog, checkpoint: Checkpoint, used: set[str]) -> list[Entry]:
    """The entries of one checkpoint: what it holds stands with its first file, sidecars follow it."""
    reader = log.reader(checkpoint)

    def read() -> dict[str, Any]:
        small = reader.small
        counts = {
            "protocol": int(small.protocol is not None),
            "metaData": int(small.metadata is not None),
            "add": _rows(reader, "add"),
            "remove": _rows(reader, "remove"),
            "txn": len(small.txns),
            "domainMetadata": len(small.domains),
            "sidecar": len(reader.sidecars),
            "skip": len(reader.skips) if isinstance(reader, JsonCheckpointReader) else 0,
        }
        return {name: n for name, n in counts.items() if n}

    first = checkpoint.files[0]
    entries = [_entry(first, used, read)]
    for file in checkpoint.files[1:]:
        entries.append(_entry(file, used, lambda: {"partOf": first.name.text}))
    if "error" in entries[0]:
        return entries
    for sidecar in reader.sidecars:
        entries.append(
            {
                "name": f"{names.SIDECAR_DIR}/{unquote(sidecar.path).rsplit('/', 1)[-1]}",
                "kind": "sidecar",
                "version": checkpoint.version,
                "size": sidecar.size_in_bytes,
                "modified": screen.from_milliseconds(sidecar.modification_time),
                "used": first.info.name in used,
                "holds": {"partOf": first.name.text},
            }
        )
    return entries


def _rows(reader: Reader, action: str) -> int:
    return sum(b.num_rows for b in reader.batches(action, ["path"], lambda b: [b.select(["path"])]))


def _hint(log: TableLog) -> Iterator[Entry]:
    name = log.path(names.LAST_CHECKPOINT)
    try:
        info, data = log.store.head(name), log.store.get(name)
    except TidegateError:
        return
    entry: Entry = {
        "name": names.LAST_CHECKPOINT,
        "kind": "hint",
        "version": None,
        "size": info.size,
        "modified": screen.from_milliseconds(info.modified),
        "used": False,
    }
    hint = log.dialect.decode_hint(data)
    if hint is None:
        entry["error"] = {"code": "LAST_CHECKPOINT", "message": "The hint is torn; readers ignore it."}
    else:
        entry["holds"] = {"checkpoint": hint.version, "actions": hint.size}
        entry["version"] = hint.version
    yield entry
