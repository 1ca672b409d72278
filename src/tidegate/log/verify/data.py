"""The files that the log says are live: there, of the recorded size, and on request what is in them.

Few files are looked at one by one, many with one listing of the whole table. Files outside the table
(absolute paths, as shallow clones have them) are looked at where they are, if this client can go
there. The deep check opens every file and every deletion vector, on a few threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidegate.errors import (
    DataError,
    DVFileMissingError,
    FileMissingError,
    StorageError,
    TidegateError,
)
from tidegate.files import deletion_vectors as vectors
from tidegate.files import stats as statistics
from tidegate.files.deletion_vectors import DeletionVector
from tidegate.files.paths import resolve_path
from tidegate.log.snapshot import Snapshot
from tidegate.log.verify.report import Checked, Findings, Progress
from tidegate.storage.opening import open_store
from tidegate.storage.store import Store

# Up to this many files are asked for one by one; beyond, the table is listed.
_FEW = 64
_SLICE = 65_536
_READERS = 8

T = TypeVar("T")
R = TypeVar("R")


def check_data(
    snapshot: Snapshot, found: Findings, checked: Checked, *, deep: bool, progress: Progress | None
) -> None:
    """Check the live files of ``snapshot`` and their deletion vectors."""
    try:
        _check(snapshot, found, checked, deep=deep, progress=progress)
    except _TableStoreFailed as e:
        raise e.error from None


def _check(
    snapshot: Snapshot, found: Findings, checked: Checked, *, deep: bool, progress: Progress | None
) -> None:
    # Splits of index tables are looked for, not looked into: that is for those who can search them.
    deep = deep and snapshot.log.dialect.form.skip is None
    key = snapshot.log.dialect.form.key
    files = snapshot.files(columns=["size", *key, *(["stats"] if deep else [])])
    if progress is not None:
        progress("looking for data files", 0, None)
    places = _Places(snapshot)
    sizes = _Sizes(places, files.num_rows)
    _check_files(files, snapshot.version, places, sizes, found, checked)
    if "deletionVector" in key:
        _check_vectors(files, snapshot.version, places, sizes, found, checked)
    if deep:
        _check_deep(files, snapshot.version, places, found, checked, progress)


@dataclass(frozen=True, slots=True)
class _Place:
    """A file in some store; ``inside`` the table or not."""

    store: Store
    name: str
    inside: bool


class _Places:
    """Where the files are that the log names."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.store = snapshot.log.store
        self._open = lru_cache(maxsize=64)(open_store)
        self._root = self.store.url.rstrip("/") + "/"
        self.log_dir = snapshot.log.log_dir

    def of(self, path: str) -> _Place:
        """The place of an ``add.path``, or of the URI of a deletion vector."""
        found = resolve_path(path)
        if not found.absolute:
            return _Place(self.store, found.name, True)
        if found.name.startswith(self._root):
            return _Place(self.store, found.name[len(self._root) :], True)
        parent, _, name = found.name.rpartition("/")
        return _Place(self._open(parent or "/"), name, False)


class _Sizes:
    """The sizes of files, None for those that are not there."""

    def __init__(self, places: _Places, wanted: int) -> None:
        self._places = places
        self._listed: pa.Table | None = None
        if wanted > _FEW:
            self._listed = self._listing()

    def _listing(self) -> pa.Table:
        pieces: list[pa.Table] = []
        names: list[str] = []
        sizes: list[int] = []
        skip = f"{self._places.log_dir}/"
        for info in self._places.store.list_from("", recursive=True):
            if info.name.startswith(skip):
                continue
            names.append(info.name)
            sizes.append(info.size)
            if len(names) == _SLICE:
                pieces.append(pa.table({"name": pa.array(names, pa.string()), "size": sizes}))
                names, sizes = [], []
        pieces.append(pa.table({"name": pa.array(names, pa.string()), "size": pa.array(sizes, pa.int64())}))
        return pa.concat_tables(pieces)

    def many(self, names: pa.Array) -> pa.Array | pa.ChunkedArray:
        """The sizes of files inside the table."""
        if self._listed is None:
            return pa.array([self._head(_Place(self._places.store, n, True)) for n in names.to_pylist()])
        return self._listed.column("size").take(pc.index_in(names, value_set=self._listed.column("name")))

    def one(self, place: _Place) -> int | None:
        if place.inside and self._listed is not None:
            size = self.many(pa.array([place.name]))[0].as_py()
            return None if size is None else int(size)
        return self._head(place)

    @staticmethod
    def _head(place: _Place) -> int | None:
        try:
            return place.store.head(place.name).size
        except FileMissingError:
            return None
        except StorageError as e:
            if place.inside:
                raise _TableStoreFailed(e) from e
            raise


class _TableStoreFailed(Exception):
    """The table's own store failed, which ends the proof; one of another place only leaves a gap in it."""

    def __init__(self, error: StorageError) -> None:
        super().__init__(str(error))
        self.error = error


# ---------------------------------------------------------------------------- data files


def _check_files(
    files: pa.Table, version: int, places: _Places, sizes: _Sizes, found: Findings, checked: Checked
) -> None:
    for batch in files.select(["path", "size"]).to_batches(_SLICE):
        checked.data_files += batch.num_rows
        paths = batch.column("path")
        # What is plain needs no decoding and is looked up as one column.
        odd = pc.match_substring_regex(paths, r"%|^/|^[A-Za-z][A-Za-z0-9+.-]*:|(^|/)\.{0,2}(/|$)")
        plain = batch.filter(pc.invert(odd))
        there = sizes.many(plain.column("path"))
        wrong = pc.or_kleene(pc.is_null(there), pc.not_equal(there, pc.fill_null(plain.column("size"), -1)))
        if pc.any(wrong).as_py():
            rows = zip(
                plain.column("path").filter(wrong).to_pylist(),
                plain.column("size").filter(wrong).to_pylist(),
                there.filter(wrong).to_pylist(),
                strict=True,
            )
            for path, size, actual in rows:
                _report_file(path, size, actual, version, found)
        for path, size in zip(*(c.to_pylist() for c in batch.filter(odd).columns), strict=True):
            try:
                place = places.of(path)
                actual = sizes.one(place)
            except TidegateError as e:
                _elsewhere(e, path, version, found)
            else:
                _report_file(path, size, actual, version, found)


def _report_file(path: str, size: int | None, actual: int | None, version: int, found: Findings) -> None:
    if actual is None:
        found.error("DATA_FILE_MISSING", "The data file is live in the log but not there.", version, path)
    elif actual != size:
        message = f"The data file has {actual} bytes, the log says {size}."
        found.error("DATA_FILE_SIZE", message, version, path)


def _elsewhere(error: TidegateError, path: str, version: int, found: Findings) -> None:
    """A file that could not be looked at: outside of what this client can reach, or no place at all."""
    if isinstance(error, StorageError):
        message = f"The file is outside the table and could not be looked at: {error.message}"
        found.warning("DATA_FILE_ELSEWHERE", message, version, path)
    else:
        found.raised(error, version, path)


# ---------------------------------------------------------------------------- deletion vectors


def _check_vectors(
    files: pa.Table, version: int, places: _Places, sizes: _Sizes, found: Findings, checked: Checked
) -> None:
    """Every file of deletion vectors is there and long enough for all that the log says is in it."""
    column = files.column("deletionVector")
    if column.null_count == len(column):
        return
    flat = pa.Table.from_struct_array(column.drop_null().combine_chunks())
    checked.deletion_vectors += flat.num_rows
    # The vector's bytes stand between their length and their checksum, of four bytes each.
    end = pc.add(pc.fill_null(pc.cast(flat.column("offset"), pa.int64()), 1), 8)
    flat = flat.append_column("end", pc.add(end, pc.cast(flat.column("sizeInBytes"), pa.int64())))
    for row in flat.group_by(["storageType", "pathOrInlineDv"]).aggregate([("end", "max")]).to_pylist():
        vector = DeletionVector(
            storage_type=row["storageType"] or "",
            path_or_inline_dv=row["pathOrInlineDv"] or "",
            size_in_bytes=0,
            cardinality=0,
        )
        name = None
        try:
            name = vector.file
            if name is not None:
                place = _vector_place(vector, name, places)
                _report_vector(name, row["end_max"], sizes.one(place), version, found)
        except DataError as e:
            found.raised(e, version, name or vector.path_or_inline_dv)
        except TidegateError as e:
            _elsewhere(e, name or vector.path_or_inline_dv, version, found)


def _vector_place(vector: DeletionVector, name: str, places: _Places) -> _Place:
    if vector.storage_type == vectors.ABSOLUTE:
        return places.of(name)
    return _Place(places.store, name, True)


def _report_vector(name: str, end: int, actual: int | None, version: int, found: Findings) -> None:
    if actual is None:
        message = "The file of deletion vectors is not there: deleted rows would come back."
        found.error("DV_FILE_MISSING", message, version, name)
    elif actual < end:
        message = f"The file of deletion vectors has {actual} bytes, the log speaks of {end}."
        found.error("DV_SIZE_MISMATCH", message, version, name)


# ---------------------------------------------------------------------------- deep


@dataclass(frozen=True, slots=True)
class _Row:
    path: str
    records: int | None
    vector: dict[str, Any] | None


def _rows(files: pa.Table) -> Iterator[_Row]:
    for batch in files.to_batches(_SLICE):
        records = statistics.num_records(batch.column("stats"))
        for path, count, vector in zip(
            batch.column("path").to_pylist(),
            records.to_pylist(),
            batch.column("deletionVector").to_pylist(),
            strict=True,
        ):
            yield _Row(path, count, vector)


def _check_deep(
    files: pa.Table,
    version: int,
    places: _Places,
    found: Findings,
    checked: Checked,
    progress: Progress | None,
) -> None:
    """Open every data file, and decode every deletion vector."""
    for n, (row, problems) in enumerate(_ahead(lambda r: _look_inside(r, places), _rows(files))):
        if progress is not None:
            progress("reading data files", n, files.num_rows)
        checked.footers += 1
        for code, message, file in problems:
            found.error(code, message, version, file or row.path)


_Problem = tuple[str, str, str | None]


def _look_inside(row: _Row, places: _Places) -> list[_Problem]:
    problems: list[_Problem] = []
    rows: int | None = None
    inside = False
    try:
        place = places.of(row.path)
        inside = place.inside
        rows = pq.ParquetFile(place.store.open_input(place.name)).metadata.num_rows
    except (FileMissingError, FileNotFoundError):
        pass  # told already
    except TidegateError:
        if inside:
            raise
        return []  # cannot be reached: told already
    except (pa.ArrowException, OSError, ValueError) as e:
        said = (str(e).splitlines() or [type(e).__name__])[0]
        problems.append(("DATA_FILE_CORRUPT", f"The data file cannot be read as parquet: {said}", None))
    if rows is not None and row.records is not None and rows != row.records:
        message = f"The data file has {rows} rows, its statistics in the log say {row.records}."
        problems.append(("NUM_RECORDS_MISMATCH", message, None))
    if row.vector is not None:
        problems += _decode_vector(row.vector, rows, places)
    return problems


def _decode_vector(raw: dict[str, Any], rows: int | None, places: _Places) -> list[_Problem]:
    try:
        vector = msgspec.convert({k: v for k, v in raw.items() if v is not None}, DeletionVector)
        if vector.storage_type not in (vectors.UUID_RELATIVE, vectors.INLINE, vectors.ABSOLUTE):
            return []  # told already

        def get_range(name: str, offset: int, length: int) -> bytes:
            place = _vector_place(vector, name, places)
            return place.store.get_range(place.name, offset, length)

        bitmap = vectors.read(vector, get_range)
    except msgspec.ValidationError as e:
        return [("DV_INVALID", f"The deletion vector's descriptor makes no sense: {e}.", None)]
    except DVFileMissingError:
        return []  # told already
    except DataError as e:
        return [(e.code, e.message, e.file)]
    except TidegateError:
        return []
    if rows is not None and len(bitmap) and bitmap.max() >= rows:
        return [("DV_INVALID", f"It deletes row {bitmap.max()} of a data file of {rows} rows.", None)]
    return []


def _ahead(work: Callable[[T], R], items: Iterable[T]) -> Iterator[tuple[T, R]]:
    """Run ``work`` on a few threads, in order, a few items ahead."""
    waiting: deque[tuple[T, Future[R]]] = deque()
    with ThreadPoolExecutor(_READERS, thread_name_prefix="tidegate-verify") as pool:
        for item in items:
            waiting.append((item, pool.submit(work, item)))
            if len(waiting) > 4 * _READERS:
                first, future = waiting.popleft()
                yield first, future.result()
        while waiting:
            first, future = waiting.popleft()
            yield first, future.result()
