"""What goes into a checkpoint: the rows of a snapshot, streamed batch by batch and counted on the way.

File rows never meet as one table: each batch is read, reconciled and given its parsed statistics on a
worker thread.
Specification: "Checkpoints", "Checkpoint Schema".
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import msgspec
import pyarrow as pa

from tidegate.errors import CheckpointCorruptError
from tidegate.log import checksum as checksums
from tidegate.log.actions import Add, to_wire
from tidegate.log.checkpoint.layout import DOMAIN, METADATA, PROTOCOL, REMOVE, TXN, AddLayout, Rows
from tidegate.log.checkpoint.read import conform
from tidegate.log.checksum import Checksum
from tidegate.log.columns import ADD_SCHEMA, REMOVE_SCHEMA, from_batch
from tidegate.log.reading import Ground
from tidegate.log.segment import Checkpoint
from tidegate.log.snapshot import Snapshot

# Up to this many files, what a checkpoint says stays in memory for the next one.
_SMALL_TABLE = 16_384


class Stream:
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


def small_rows(snapshot: Snapshot, rows: Rows) -> Iterator[pa.RecordBatch]:
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
