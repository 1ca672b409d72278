"""Writing checkpoints: classic, and V2 with sidecars, streamed batch by batch from a snapshot.

File rows never meet as one table: each batch is read, reconciled, given its parsed statistics on a
worker thread and handed to the parquet writer. Nothing is published before the number of rows in
the finished files equals what was streamed and what the version's checksum says.
Specification: "Checkpoints", "Checkpoint Schema", "V2 Spec", "Last Checkpoint File".
"""

from __future__ import annotations

import itertools
import logging
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate import properties
from tidegate.errors import CheckpointCorruptError, NameTakenError
from tidegate.log import checksum as checksums
from tidegate.log import names
from tidegate.log.actions import (
    ADD_SCHEMA,
    REMOVE_SCHEMA,
    Action,
    Add,
    CheckpointMetadata,
    Sidecar,
    encode_lines,
    from_batch,
    to_wire,
)
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
    AddLayout,
    Rows,
)
from tidegate.log.checkpoint.read import conform
from tidegate.log.checksum import Checksum
from tidegate.log.memory import steady_memory
from tidegate.log.reading import Ground
from tidegate.log.segment import Checkpoint, LogFile
from tidegate.log.snapshot import Snapshot, read_hint
from tidegate.storage.drafts import Draft, MemoryDraft, drafting
from tidegate.storage.store import FileInfo

_log = logging.getLogger(__name__)

GROUP_ROWS = 131_072
SIDECAR_ACTIONS = 50_000
_FEW_ROWS = 4_096
_STEP_ROWS = 4_096
# Up to this many files, what a checkpoint says stays in memory for the next one.
_SMALL_TABLE = 16_384


class _ParquetFile:
    """A parquet file being written, in row groups of one size, counting its rows."""

    def __init__(self, schema: pa.Schema, draft: Draft) -> None:
        self._draft = draft
        self._schema = schema
        self._writer = pq.ParquetWriter(
            draft.sink,
            schema,
            compression="snappy",
            use_dictionary=False,
            write_page_checksum=True,
            # Most columns of most rows are null, and pass faster in larger steps.
            write_batch_size=_STEP_ROWS,
        )
        self._waiting: list[pa.RecordBatch] = []
        self._rows_waiting = 0
        self.rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self._waiting.append(batch)
            self._rows_waiting += batch.num_rows
            self.rows += batch.num_rows
            if self._rows_waiting >= GROUP_ROWS:
                self.end_group()
                self._draft.nudge()

    def end_group(self) -> None:
        """Close the row group: what is written next stands in another one."""
        if self._waiting:
            table = pa.Table.from_batches(self._waiting, self._schema)
            self._writer.write_table(table, row_group_size=self._rows_waiting)
            self._waiting, self._rows_waiting = [], 0

    def finish(self) -> int:
        """End the file, read back how many rows it holds; its size in bytes."""
        self.end_group()
        self._writer.close()
        with self._draft.written() as data:
            found = pq.ParquetFile(data).metadata.num_rows
            if found != self.rows:
                raise CheckpointCorruptError(
                    f"The checkpoint just written holds {found} rows instead of {self.rows}; "
                    "it is not published."
                )
            return int(data.size())


class _ParquetBytes(_ParquetFile):
    """The same in memory."""

    def __init__(self, schema: pa.Schema) -> None:
        self._memory = MemoryDraft()
        super().__init__(schema, self._memory)

    def bytes(self) -> pa.Buffer:
        self.finish()
        return self._memory.sink.getvalue()


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
    write = _write_v2 if v2 else _write_classic
    with steady_memory():
        written = snapshot.replay(lambda: write(snapshot))
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
        log.store.put(log.path(names.LAST_CHECKPOINT), log.dialect.encode_hint(hint))


class _Stream:
    """The live adds of a snapshot, shaped for the checkpoint, and what was counted on the way."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.layout = AddLayout.of(snapshot)
        crc = snapshot.checksum
        known = checksums.counts_of(crc) if crc is not None else None
        self.boundaries = known[1] if known is not None else checksums.BOUNDARIES
        self.counts = checksums.count([], self.boundaries)
        self.few: list[Add] | None = []
        self._tombstones: list[pa.StructArray] = []
        self._written: list[pa.RecordBatch] | None = [] if self.layout.json_stats else None

    def __iter__(self) -> Iterator[pa.StructArray]:
        for batch, shaped in self.snapshot.add_batches(self.layout.parsed_stats is not None, self._work):
            self.counts = self.counts.plus(batch)
            if self._written is not None:
                self._written.append(
                    pa.RecordBatch.from_arrays(shaped.flatten(), [f.name for f in shaped.type])
                )
                if self.counts.files > _SMALL_TABLE:
                    self._written = None
            if self.few is not None:
                if self.counts.files <= checksums.MAX_FILES:
                    columns = shaped.flatten()
                    flat = pa.RecordBatch.from_arrays(columns, [f.name for f in shaped.type])
                    self.few += from_batch(flat, Add)
                else:
                    self.few = None
            yield shaped

    def rows(self) -> Iterator[tuple[str, pa.StructArray]]:
        """Removes, then adds: who goes by paths alone, and takes the last word, must find the files live.

        The first adds are asked for first, so that the checkpoint before is read while the commits
        since, which both need, are decoded.
        """
        adds = iter(self)
        first = list(itertools.islice(adds, 1))
        self._tombstones = list(_tombstones(self.snapshot))
        for removes in self._tombstones:
            yield "remove", removes
        for values in itertools.chain(first, adds):
            yield "add", values

    def ground(self, checkpoint: Checkpoint) -> Ground | None:
        """What was written, kept for the next checkpoint if it is little enough."""
        removes = self._tombstones
        if self._written is None or sum(map(len, removes)) > _SMALL_TABLE:
            return None
        wanted = [*ADD_SCHEMA.names, *(["stats_parsed"] if self.layout.parsed_stats is not None else [])]
        adds: list[pa.RecordBatch] = []
        if self._written:
            adds = pa.Table.from_batches(self._written).select(wanted).combine_chunks().to_batches()
        gone = [
            conform(pa.RecordBatch.from_arrays(r.flatten(), [f.name for f in r.type]), REMOVE_SCHEMA)
            for r in removes
        ]
        return Ground(checkpoint.key, tuple(adds), tuple(gone))

    def _work(self, batch: pa.RecordBatch) -> tuple[checksums.Counts, pa.StructArray]:
        return checksums.count([batch], self.boundaries), self.layout.shape(batch)

    def checksum(self) -> Checksum:
        """The checksum of what was streamed, after it was checked against the version's own."""
        crc = self.snapshot.checksum
        if crc is not None and (crc.num_files, crc.table_size_bytes) != (
            self.counts.files,
            self.counts.size,
        ):
            raise CheckpointCorruptError(
                f"Replay finds {self.counts.files} files of {self.counts.size} bytes, the checksum of the "
                f"version says {crc.num_files} of {crc.table_size_bytes}; the checkpoint is not published.",
                table=self.snapshot.url,
                version=self.snapshot.version,
                hint="Run `tidegate verify` to see which of them is wrong.",
            )
        if crc is not None:
            return crc
        return checksums.of_state(
            self.counts,
            self.snapshot.small,
            boundaries=self.boundaries,
            txn_id=self.snapshot.commit_info.get("txnId"),
            in_commit_timestamp=self.snapshot.in_commit_timestamp,
            all_files=self.few if self.layout.json_stats else None,
        )


def _small_rows(snapshot: Snapshot, rows: Rows) -> Iterator[pa.RecordBatch]:
    """Protocol, metadata, transactions and domains, the protocol first."""
    protocol, metadata = snapshot.protocol.to_wire(), to_wire(snapshot.metadata)["metaData"]
    yield rows.of("protocol", pa.array([protocol], PROTOCOL))
    metadata["configuration"] = list(metadata["configuration"].items())
    metadata["format"] = {**metadata["format"], "options": list(metadata["format"]["options"].items())}
    yield rows.of("metaData", pa.array([metadata], METADATA))
    txns = [msgspec.to_builtins(t) for t in snapshot.transactions.values()]
    yield rows.of("txn", pa.array(txns, TXN))
    domains = [msgspec.to_builtins(d) for d in snapshot.domains.values()]
    yield rows.of("domainMetadata", pa.array(domains, DOMAIN))


def _tombstones(snapshot: Snapshot) -> Iterator[pa.StructArray]:
    """Unexpired removes, without the statistics and tags that checkpoints leave out."""
    schema = pa.schema(list(REMOVE))
    for batch in snapshot.tombstones().to_batches():
        flat = conform(batch, schema)
        at = schema.get_field_index("dataChange")
        flat = flat.set_column(at, schema.field(at), pa.repeat(pa.scalar(False), batch.num_rows))
        yield pa.StructArray.from_arrays(flat.columns, fields=list(REMOVE))


def _write_classic(snapshot: Snapshot) -> Written:
    stream = _Stream(snapshot)
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
    name = names.classic(snapshot.version)
    with drafting(snapshot.log.store, snapshot.log.path(name)) as draft:
        file = _ParquetFile(rows.schema, draft)
        for action, values in stream.rows():
            file.write(rows.of(action, values))
        if file.rows > _FEW_ROWS:
            # On their own, the few other actions are found without scanning the files' rows.
            file.end_group()
        for batch in _small_rows(snapshot, rows):
            file.write(batch)
        checksum = stream.checksum()
        length = file.finish()
    hint = Hint(
        version=snapshot.version,
        size=file.rows,
        size_in_bytes=length,
        num_of_add_files=stream.counts.files,
    )
    placed = _placed(snapshot, name, length)
    return Written(hint, checksum, placed, stream.ground(placed))


def _placed(snapshot: Snapshot, name: str, size: int) -> Checkpoint:
    parsed = names.parse(name)
    assert parsed is not None
    info = FileInfo(snapshot.log.path(name), size, snapshot.log.clock())
    return Checkpoint(snapshot.version, parsed.kind, (LogFile(parsed, info),))


def _write_v2(snapshot: Snapshot, top_level: str = "json") -> Written:
    """Sidecars first, each whole before it is named; the top level last, which publishes them."""
    stream = _Stream(snapshot)
    rows = Rows({"add": stream.layout.type, "remove": REMOVE})
    log = snapshot.log
    sidecars: list[Sidecar] = []
    pending: _ParquetBytes | None = None
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
            pending = pending or _ParquetBytes(rows.schema)
            piece = batch.slice(at, SIDECAR_ACTIONS - pending.rows)
            pending.write(piece)
            at += piece.num_rows
            if pending.rows >= SIDECAR_ACTIONS:
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
    return Written(hint, checksum, _placed(snapshot, name, length))


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
    file = _ParquetBytes(rows.schema)
    first = {"version": snapshot.version, "tags": list(tags.items())}
    file.write(rows.of("checkpointMetadata", pa.array([first], CHECKPOINT_METADATA)))
    for batch in _small_rows(snapshot, rows):
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
