"""Writing checkpoints: classic, and V2 with sidecars, streamed batch by batch from a snapshot.

File rows never meet as one table: each batch is read, reconciled, given its parsed statistics on a
worker thread and handed to the parquet writer. Nothing is published before the number of rows in
the finished files equals what was streamed and what the version's checksum says.
Specification: "Checkpoints", "Checkpoint Schema", "V2 Spec", "Last Checkpoint File".
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from tidegate import properties
from tidegate.errors import NameTakenError
from tidegate.log import checksum as checksums
from tidegate.log import names
from tidegate.log.actions import Action, CheckpointMetadata, Sidecar, to_wire
from tidegate.log.checkpoint.hint import Hint
from tidegate.log.checkpoint.json_write import write_json
from tidegate.log.checkpoint.layout import (
    CHECKPOINT_METADATA,
    DOMAIN,
    METADATA,
    PROTOCOL,
    REMOVE,
    SIDECAR,
    TXN,
    Rows,
)
from tidegate.log.checkpoint.parquet_file import ParquetBytes, ParquetFile
from tidegate.log.checkpoint.parts import number_of_parts, split
from tidegate.log.checkpoint.stream import Stream, small_rows
from tidegate.log.checksum import Checksum
from tidegate.log.commits import encode_lines
from tidegate.log.memory import steady_memory
from tidegate.log.reading import Ground
from tidegate.log.segment import Checkpoint, LogFile
from tidegate.log.snapshot import Snapshot, read_hint
from tidegate.storage.drafts import drafting
from tidegate.storage.store import FileInfo

_log = logging.getLogger(__name__)

SIDECAR_ACTIONS = 50_000
_FEW_ROWS = 4_096


@dataclass(frozen=True)
class Written:
    """A checkpoint that is in place: its hint, and the checksum of the version that its rows imply.

    Versions of index tables have no checksum.
    """

    hint: Hint
    checksum: Checksum | None
    checkpoint: Checkpoint
    ground: Ground | None = None


def write_checkpoint(
    snapshot: Snapshot, *, policy: str | None = None, per_part: int | None = None
) -> Written:
    """Checkpoint ``snapshot`` in the form its table property (or ``policy``) names; then the hint.

    On index tables the form is JSON, in parts of ``per_part`` actions where the protocol allows them.
    """
    snapshot.log.registry.check_read(snapshot.protocol, table=snapshot.url, version=snapshot.version)
    snapshot.log.registry.check_write(snapshot.protocol, table=snapshot.url, version=snapshot.version)
    if not snapshot.log.dialect.checksums:
        found = snapshot.replay(lambda: write_json(snapshot, per_part=per_part))
        return _finish(snapshot, Written(found.hint, None, found.checkpoint))
    policy = policy or str(properties.get(snapshot.metadata.configuration, properties.CHECKPOINT_POLICY))
    # A reader without the feature would not look for a V2 checkpoint, and miss what it stands for.
    v2 = policy == "v2" and snapshot.protocol.supports("v2Checkpoint")
    said = snapshot.log.settings()
    with steady_memory():
        if v2:
            written = snapshot.replay(lambda: _write_v2(snapshot, said.top_level, said.part_size))
        else:
            written = snapshot.replay(lambda: _write_classic(snapshot, said.part_size))
    return _finish(snapshot, written)


def _finish(snapshot: Snapshot, written: Written) -> Written:
    publish_hint(snapshot, written.hint)
    snapshot.stand_on(written.checkpoint, written.ground, hint=written.hint)
    _log.debug("%s: checkpoint of version %d written", snapshot.url, snapshot.version)
    return written


def publish_hint(snapshot: Snapshot, hint: Hint) -> None:
    """Point ``_last_checkpoint`` at a checkpoint, unless it points further already."""
    log = snapshot.log
    known = read_hint(log)
    if known is None or known.version <= hint.version:
        encoded = log.dialect.encode_hint(hint, log.settings().hint_checksum)
        log.store.put(log.path(names.LAST_CHECKPOINT), encoded)


def _write_classic(snapshot: Snapshot, part_size: int | None = None) -> Written:
    """One file; several where the session sets their size and the table is not of the kind with sidecars."""
    stream = Stream(snapshot)
    rows = Rows(
        {
            "txn": TXN,
            "add": stream.layout.type,
            "remove": REMOVE,
            "metaData": METADATA,
            "protocol": PROTOCOL,
            "domainMetadata": DOMAIN,
        }
    )
    parts = 1
    if part_size is not None and not snapshot.protocol.supports("v2Checkpoint"):
        parts = number_of_parts(snapshot.num_files + snapshot.tombstones().num_rows, part_size)
    called = [names.part(snapshot.version, n + 1, parts) for n in range(parts)]
    if parts == 1:
        called = [names.classic(snapshot.version)]
    with ExitStack() as drafts:
        files = [
            ParquetFile(
                rows.schema, drafts.enter_context(drafting(snapshot.log.store, snapshot.log.path(name)))
            )
            for name in called
        ]
        for action, values in stream.rows():
            for part, own in split(values, parts) if parts > 1 else ((0, values),):
                files[part].write(rows.of(action, own))
        if files[0].rows > _FEW_ROWS:
            # On their own, the few other actions are found without scanning the files' rows.
            files[0].end_group()
        for batch in small_rows(snapshot, rows):
            files[0].write(batch)
        checksum = stream.checksum()
        lengths = [file.finish() for file in files]
    hint = Hint(
        version=snapshot.version,
        size=sum(file.rows for file in files),
        parts=parts if parts > 1 else None,
        size_in_bytes=sum(lengths),
        num_of_add_files=stream.counts.files,
    )
    placed = _placed(snapshot, dict(zip(called, lengths, strict=True)))
    return Written(hint, checksum, placed, stream.ground(placed))


def _placed(snapshot: Snapshot, sizes: dict[str, int]) -> Checkpoint:
    """The checkpoint of these files, which were put just now."""
    files = []
    for name, size in sizes.items():
        parsed = names.parse(name)
        assert parsed is not None
        files.append(LogFile(parsed, FileInfo(snapshot.log.path(name), size, snapshot.log.clock())))
    return Checkpoint(snapshot.version, files[0].name.kind, tuple(files))


def _write_v2(snapshot: Snapshot, top_level: str = "json", part_size: int | None = None) -> Written:
    """Sidecars first, each whole before it is named; the top level last, which publishes them."""
    stream = Stream(snapshot)
    most = part_size or SIDECAR_ACTIONS
    rows = Rows({"add": stream.layout.type, "remove": REMOVE})
    log = snapshot.log
    sidecars: list[Sidecar] = []
    pending: ParquetBytes | None = None
    actions = size = 0

    def close() -> None:
        nonlocal pending, actions, size
        if pending is None:
            return
        data = pending.bytes()
        name = f"{uuid.uuid4()}.parquet"
        log.store.put_if_absent(log.path(f"{names.SIDECAR_DIR}/{name}"), data)
        sidecars.append(Sidecar(path=name, size_in_bytes=data.size, modification_time=log.clock()))
        actions, size, pending = actions + pending.rows, size + data.size, None

    def batches() -> Iterator[pa.RecordBatch]:
        for action, values in stream.rows():
            yield rows.of(action, values)

    for batch in batches():
        at = 0
        while at < batch.num_rows:
            pending = pending or ParquetBytes(rows.schema)
            piece = batch.slice(at, most - pending.rows)
            pending.write(piece)
            at += piece.num_rows
            if pending.rows >= most:
                close()
    close()
    checksum = stream.checksum()
    tags: dict[str, str | None] = {
        "sidecarNumActions": str(actions),
        "sidecarSizeInBytes": str(size),
        "numOfAddFiles": str(stream.counts.files),
    }
    top: list[Action] = [
        CheckpointMetadata(version=snapshot.version, tags=tags),
        snapshot.protocol,
        snapshot.metadata,
        *snapshot.transactions.values(),
        *snapshot.domains.values(),
        *sidecars,
    ]
    name = names.v2(snapshot.version, str(uuid.uuid4()), top_level)
    data: bytes | pa.Buffer
    if top_level == "json":
        data = encode_lines(to_wire(a) for a in top)
    else:
        data = _v2_parquet(snapshot, sidecars, tags)
    log.store.put_if_absent(log.path(name), data)
    length = len(data) if isinstance(data, bytes) else data.size
    hint = Hint(
        version=snapshot.version,
        size=actions + len(top),
        size_in_bytes=size + length,
        num_of_add_files=stream.counts.files,
        v2_checkpoint={"path": name, "sizeInBytes": length, "modificationTime": log.clock()},
    )
    return Written(hint, checksum, _placed(snapshot, {name: length}))


def _v2_parquet(snapshot: Snapshot, sidecars: list[Sidecar], tags: dict[str, str | None]) -> pa.Buffer:
    rows = Rows(
        {
            "checkpointMetadata": CHECKPOINT_METADATA,
            "txn": TXN,
            "metaData": METADATA,
            "protocol": PROTOCOL,
            "domainMetadata": DOMAIN,
            "sidecar": SIDECAR,
        }
    )
    file = ParquetBytes(rows.schema)
    first = {"version": snapshot.version, "tags": list(tags.items())}
    file.write(rows.of("checkpointMetadata", pa.array([first], CHECKPOINT_METADATA)))
    for batch in small_rows(snapshot, rows):
        file.write(batch)
    named = [msgspec.to_builtins(s) for s in sidecars]
    file.write(rows.of("sidecar", pa.array(named, SIDECAR)))
    return file.bytes()


def write_checksum(snapshot: Snapshot, checksum: Checksum | None) -> None:
    """Put ``N.crc`` in place, where there is one; one that is there already stays."""
    if checksum is None:
        return
    log = snapshot.log
    try:
        # Not worth a wait for the disk: a checksum that is lost or torn is as good as none.
        log.store.put_if_absent(
            log.path(names.checksum(snapshot.version)), checksums.encode(checksum), durable=False
        )
    except NameTakenError:
        _log.debug("%s: version %d has its checksum already", log.url, snapshot.version)
