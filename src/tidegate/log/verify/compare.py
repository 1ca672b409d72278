"""Two states of a table held against each other: what differs, each difference as half a sentence.

Pure functions. ``expected`` is what replay found, ``found`` what a checkpoint, a checksum or a log
compaction says. Only what readers must agree on counts: two spellings of one schema are equal, and
so are an absent and an empty partition value. What retention lets a writer leave out may be absent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tidegate import properties
from tidegate.errors import TidegateError
from tidegate.log.actions import Add, DomainMetadata, Txn
from tidegate.log.checksum import Checksum, Counts, SizeHistogram
from tidegate.log.columns import to_batch
from tidegate.log.replay import SmallState, file_keys
from tidegate.log.verify.state import FILE_SCHEMA, Batches
from tidegate.metadata import Metadata
from tidegate.protocol.protocol import Protocol
from tidegate.schema.mapping import mapping_mode, physical_name

_SHOWN = 3


# ---------------------------------------------------------------------------- small state


def small_differences(expected: SmallState, found: SmallState, now: int) -> Iterator[str]:
    """What differs beside the files. ``now`` tells which transactions may have expired."""
    yield from protocol_differences(expected.protocol, found.protocol)
    yield from metadata_differences(expected.metadata, found.metadata)
    yield from transaction_differences(expected, found.txns, now)
    yield from domain_differences(expected.live_domains(), found.live_domains())


def protocol_differences(expected: Protocol | None, found: Protocol | None) -> Iterator[str]:
    if expected is None or found is None:
        if expected is not found:
            yield f"it has {found or 'no protocol'}, replay finds {expected or 'none'}"
        return

    def essence(p: Protocol) -> tuple[Any, ...]:
        # Some writers spell "no list" as an empty one.
        return (p.min_reader_version, p.min_writer_version, p.reader_features or (), p.writer_features or ())

    if essence(expected) != essence(found):
        yield f"it has {found}, replay finds {expected}"


def metadata_differences(expected: Metadata | None, found: Metadata | None) -> Iterator[str]:
    if expected is None or found is None:
        if expected is not found:
            here, there = ("metadata" if m is not None else "no metadata" for m in (found, expected))
            yield f"it has {here}, replay finds {there}"
        return
    for name in ("id", "name", "description"):
        ours, theirs = getattr(expected, name) or None, getattr(found, name) or None
        if ours != theirs:
            yield f"the table's {name} is {theirs!r}, replay finds {ours!r}"
    # Some writers leave the time of creation out; one that is there is the same everywhere.
    made, known = found.created_time, expected.created_time
    if made is not None and known is not None and made != known:
        yield f"the table was created at {made}, replay finds {known}"
    if expected.format.provider != found.format.provider:
        yield f"the format is {found.format.provider!r}, replay finds {expected.format.provider!r}"
    if _json(expected.schema_string) != _json(found.schema_string):
        yield "the schema is not the one that replay finds"
    if expected.partition_columns != found.partition_columns:
        yield (
            f"the table is partitioned by {list(found.partition_columns)}, replay finds "
            f"{list(expected.partition_columns)}"
        )
    for key in sorted(expected.configuration.keys() | found.configuration.keys()):
        ours, theirs = expected.configuration.get(key), found.configuration.get(key)
        if ours != theirs:
            yield f"the property {key} is {theirs!r}, replay finds {ours!r}"


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text


def transaction_differences(expected: SmallState, found: Mapping[str, Txn], now: int) -> Iterator[str]:
    """Application transactions; one that has expired by now may be absent."""
    for app, ours in expected.txns.items():
        theirs = found.get(app)
        if theirs is None:
            if not _expired(ours, expected.metadata, now):
                yield f"the transaction of application {app} (version {ours.version}) is absent"
        elif theirs.version != ours.version:
            yield f"application {app} is at {theirs.version}, replay finds {ours.version}"
    for app in found.keys() - expected.txns.keys():
        yield f"it has a transaction of application {app}, replay finds none"


def _expired(txn: Txn, metadata: Metadata | None, now: int) -> bool:
    if metadata is None or txn.last_updated is None:
        return False
    keep = property_of(metadata, properties.SET_TRANSACTION_RETENTION)
    return keep is not None and txn.last_updated <= now - keep


def domain_differences(
    expected: Mapping[str, DomainMetadata], found: Mapping[str, DomainMetadata]
) -> Iterator[str]:
    for name in sorted(expected.keys() | found.keys()):
        ours, theirs = expected.get(name), found.get(name)
        if ours is None or theirs is None:
            yield f"the domain {name} is {'absent' if theirs is None else 'there, replay finds none'}"
        elif ours.configuration != theirs.configuration:
            yield f"the domain {name} has another configuration than replay finds"


def property_of(metadata: Metadata, prop: properties.Property[Any]) -> Any:
    """A property's value; its default where the table has one that makes no sense."""
    try:
        return metadata.property(prop)
    except TidegateError:
        return prop.default


# ---------------------------------------------------------------------------- files


def partition_names(metadata: Metadata | None) -> list[str]:
    """The names under which partition values stand in the log; none where the metadata is broken."""
    if metadata is None:
        return []
    try:
        mode = mapping_mode(metadata)
        return [physical_name(f, mode) for f in metadata.partition_schema.fields]
    except TidegateError:
        return []


def keys_of(batches: Batches) -> pa.ChunkedArray:
    return pa.chunked_array([file_keys(b) for b in batches], pa.string())


def _column(batches: Batches, name: str, kind: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([b.column(name) for b in batches], kind)


def file_differences(expected: Batches, found: Batches, partitions: Sequence[str]) -> Iterator[str]:
    """Live files: the same logical files, of the same sizes, in the same partitions."""
    ours, theirs = keys_of(expected), keys_of(found)
    at = pc.index_in(theirs, value_set=ours)
    both = pc.is_valid(at)
    distinct = pc.count_distinct(at, mode="only_valid").as_py()
    if distinct < len(ours):
        missing = ours.filter(pc.invert(pc.is_in(ours, value_set=theirs)))
        yield f"{_files(missing)} that replay finds live {_are(missing)} absent"
    if at.null_count:
        extra = theirs.filter(pc.invert(both))
        yield f"{_files(extra)} {_are(extra)} there, but replay does not find {_them(extra)} live"
    if distinct < len(at) - at.null_count:
        yield f"{len(at) - at.null_count - distinct} files stand in it twice"
    at, keys = at.filter(both), theirs.filter(both)
    for name, column in _compared(partitions):
        here = column(found).filter(both)
        there = column(expected).take(at)
        differs = pc.not_equal(here, there)
        if pc.any(differs).as_py():
            odd = keys.filter(differs)
            yield f"{_files(odd)} {_are(odd)} there with another {name} than replay finds"


def _compared(partitions: Sequence[str]) -> Iterator[tuple[str, Callable[[Batches], pa.ChunkedArray]]]:
    for name in ("size", "baseRowId"):
        yield name, partial(_numbers, name)
    for name in partitions:
        yield f"value of the partition column {name}", partial(_partition_values, name)


def _numbers(name: str, batches: Batches) -> pa.ChunkedArray:
    return pc.fill_null(_column(batches, name, FILE_SCHEMA.field(name).type), -1)


def _partition_values(name: str, batches: Batches) -> pa.ChunkedArray:
    """The values of one partition column; null, empty and absent are one and the same."""
    maps = [pc.map_lookup(b.column("partitionValues"), pa.scalar(name), "first") for b in batches]
    return pc.fill_null(pa.chunked_array(maps, pa.string()), "")


def tombstone_differences(expected: Batches, found: Batches, live: Batches, horizon: int) -> Iterator[str]:
    """Tombstones: of those younger than ``horizon`` none may be absent, and no live file is one."""
    theirs = keys_of(found)
    young = [b.filter(pc.greater(pc.fill_null(b.column("deletionTimestamp"), 0), horizon)) for b in expected]
    ours = keys_of(young)
    missing = _not_in(ours, theirs)
    if len(missing):
        yield f"the unexpired tombstone{_s(missing)} of {_files(missing)} {_are(missing)} absent"
    if len(theirs):
        lively = keys_of(live)
        both = lively.filter(pc.is_in(lively, value_set=theirs))
        if len(both):
            yield f"{_files(both)} {_are(both)} live and removed at once"


def strange_tombstones(expected: Batches, live: Batches, found: Batches) -> str | None:
    """Tombstones that replay does not know. Harmless, for nobody reads what they speak of."""
    odd = _not_in(_not_in(keys_of(found), keys_of(expected)), keys_of(live))
    return f"{_files(odd)} {_are(odd)} removed in it, but never in the commits" if len(odd) else None


def _not_in(keys: pa.ChunkedArray, others: pa.ChunkedArray) -> pa.ChunkedArray:
    return keys.filter(pc.invert(pc.is_in(keys, value_set=others))) if len(keys) and len(others) else keys


def live_twice(files: Batches) -> pa.ChunkedArray:
    """Paths that are live more than once, with different deletion vectors."""
    paths = pa.chunked_array([b.column("path") for b in files], pa.string())
    if all(b.column("deletionVector").null_count == b.num_rows for b in files):
        return paths.slice(0, 0)  # without vectors a path is a logical file, and those are distinct
    if pc.count_distinct(paths).as_py() == len(paths):
        return paths.slice(0, 0)
    counts = pc.value_counts(paths)
    twice = pc.greater(counts.field("counts"), 1)
    return pa.chunked_array([counts.field("values").filter(twice)])


def _files(keys: pa.ChunkedArray) -> str:
    shown = ", ".join(str(k).replace("\x00", " with the vector ") for k in keys.slice(0, _SHOWN).to_pylist())
    if len(keys) == 1:
        return f"the file {shown}"
    return f"{len(keys)} files ({shown}{', …' if len(keys) > _SHOWN else ''})"


def _are(keys: pa.ChunkedArray) -> str:
    return "is" if len(keys) == 1 else "are"


def _them(keys: pa.ChunkedArray) -> str:
    return "it" if len(keys) == 1 else "them"


def _s(keys: pa.ChunkedArray) -> str:
    return "" if len(keys) == 1 else "s"


# ---------------------------------------------------------------------------- checksums


def checksum_differences(
    crc: Checksum, small: SmallState, commit_info: Mapping[str, Any], now: int
) -> Iterator[str]:
    """What a checksum says of everything but counts, against replay."""
    for name, number in (("numMetadata", crc.num_metadata), ("numProtocol", crc.num_protocol)):
        if number != 1:
            yield f"{name} is {number}, it is always 1"
    if crc.protocol is not None:
        yield from protocol_differences(small.protocol, crc.protocol)
    if crc.metadata is not None:
        yield from metadata_differences(small.metadata, crc.metadata)
    if crc.set_transactions is not None:
        yield from transaction_differences(small, {t.app_id: t for t in crc.set_transactions}, now)
    if crc.domain_metadata is not None:
        found = {d.domain: d for d in crc.domain_metadata if not d.removed}
        yield from domain_differences(small.live_domains(), found)
    histogram = histogram_of(crc)
    if histogram is not None and not well_formed(histogram):
        yield "the histogram of file sizes has bins that make no sense"
    for name, value, wire in (
        ("txnId", crc.txn_id, "txnId"),
        ("inCommitTimestampOpt", crc.in_commit_timestamp_opt, "inCommitTimestamp"),
    ):
        own = commit_info.get(wire)
        if value is not None and own is not None and value != own:
            yield f"{name} is {value}, the commit says {own}"


def count_differences(crc: Checksum, counts: Counts) -> Iterator[str]:
    """What a checksum counts, against what replay counts in the same bins."""
    pairs: list[tuple[str, Any, Any]] = [
        ("numFiles", crc.num_files, counts.files),
        ("tableSizeBytes", crc.table_size_bytes, counts.size),
        ("numDeletedRecordsOpt", crc.num_deleted_records_opt, counts.deleted),
        ("numDeletionVectorsOpt", crc.num_deletion_vectors_opt, counts.vectors),
    ]
    deleted = crc.deleted_record_counts_histogram_opt
    if deleted is not None:
        pairs.append(("deletedRecordCountsHistogramOpt", deleted.deleted_record_counts, counts.deleted_bins))
    for name, found, expected in pairs:
        if found is not None and found != expected:
            yield f"{name} is {_shown(found)}, replay finds {_shown(expected)}"
    histogram = histogram_of(crc)
    if histogram is None or len(histogram.file_counts) != len(counts.bins) or not well_formed(histogram):
        return
    files, sizes = tuple(n for n, _ in counts.bins), tuple(s for _, s in counts.bins)
    if (histogram.file_counts, histogram.total_bytes) != (files, sizes):
        yield "the histogram of file sizes is not the one that replay finds"


def histogram_of(crc: Checksum) -> SizeHistogram | None:
    return crc.file_size_histogram or crc.histogram_opt


def well_formed(histogram: SizeHistogram) -> bool:
    """Whether the bins can be counted at all: boundaries that ascend from 0, one count for each."""
    bins = histogram.sorted_bin_boundaries
    return (
        bins[:1] == (0,)
        and all(a < b for a, b in pairwise(bins))
        and len(bins) == len(histogram.file_counts) == len(histogram.total_bytes)
    )


def listed_differences(files: Batches, listed: list[Add], partitions: Sequence[str]) -> Iterator[str]:
    """The checksum's own list of files, which small tables have, against replay."""
    for difference in file_differences(files, [to_batch(listed, FILE_SCHEMA)], partitions):
        yield f"in allFiles {difference}"


def _shown(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
