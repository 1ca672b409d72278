"""What lies below a table, for VACUUM: its files, and on a disk the folders that are empty.

A disk is walked folder by folder, side by side, each looked at once; what lies behind a link to a folder has
another name, and is none of VACUUM's business. Elsewhere a large table is listed in ranges of names: the
folders of its first levels are where one range ends and the next begins, so that no file is asked for
twice and none is left out. A store that knows no folders is listed in one go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice, takewhile

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.commands.table_names import hidden
from tidegate.errors import OptionError
from tidegate.log.snapshot import Snapshot
from tidegate.log.table_log import TableLog
from tidegate.schema.mapping import mapping_mode, physical_name
from tidegate.storage.local import LocalStore
from tidegate.storage.store import FileInfo, Foldered, Store

FILES = pa.schema([("name", pa.string()), ("size", pa.int64()), ("modified", pa.int64())])
THREADS = 8
# So many ranges keep all threads busy to the end, though some hold more files than others.
RANGES = 8 * THREADS
_LEVELS = 3

# Names from the first on, before the second; to the end without one.
Range = tuple[str, str | None]
# Lists all below a table's root, told some of its folders, where the work can be divided.
Lister = Callable[[TableLog, Sequence[str]], pa.Table]


@dataclass(frozen=True)
class Found:
    """Files that are the table's business, how many folders they lie in, and folders without any file."""

    files: pa.Table
    folders: int = 1
    empty: tuple[FileInfo, ...] = ()


def listed(snapshot: Snapshot, lister: Lister | None = None) -> Found:
    """Every file below the table that is the table's business; ``lister`` lists what is not a disk."""
    partitions = _partitions(snapshot)
    store = snapshot.log.store
    if isinstance(store, LocalStore):
        return _walked(store, partitions)
    files = (lister or list_here)(snapshot.log, marks(store, partitions))
    mask = [not hidden(n, partitions) for n in files.column("name").to_pylist()]
    files = files.filter(pa.array(mask, pa.bool_()))
    return Found(files, len(_folders_of(files)) + 1)


def _walked(store: LocalStore, partitions: Sequence[str]) -> Found:
    """What lies on a disk, level by level, without folders that are none of the table's business."""
    parts: list[pa.Table] = []
    folders: list[FileInfo] = []
    passed: list[str] = []
    names = [""]

    def shown(name: str) -> bool:
        return _is_text(name) and not hidden(name, partitions)

    with ThreadPoolExecutor(THREADS, thread_name_prefix="tidegate-vacuum") as pool:
        while names:
            level = list(pool.map(store.entries, names))
            parts.append(as_table(info for found in level for info in found.files if shown(info.name)))
            below = [f for found in level for f in found.folders if shown(f"{f.name}/x")]
            folders += below
            names = [f.name for f in below]
            for found in level:
                passed += found.linked
                passed += [i.name for i in (*found.files, *found.folders) if not _is_text(i.name)]
    files = pa.concat_tables(parts).sort_by("name")
    # What is passed by lies in its folder all the same.
    used = _folders_of(files) | _with_those_above(name.rpartition("/")[0] for name in passed)
    folders.sort(key=lambda folder: (folder.name.count("/"), folder.name))
    return Found(files, len(folders) + 1, tuple(f for f in folders if f.name not in used))


def _is_text(name: str) -> bool:
    """Whether a name is UTF-8, as all that a log can name; a disk has others too."""
    if name.isascii():
        return True
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _partitions(snapshot: Snapshot) -> list[str]:
    """The names that partition folders may begin with."""
    fields = snapshot.metadata.partition_schema.fields
    mode = mapping_mode(snapshot.metadata)
    return [physical_name(f, mode) for f in fields] + [f.name for f in fields]


# ---------------------------------------------------------------------------- ranges


def marks(store: Store, partitions: Sequence[str] = ()) -> list[str]:
    """Folders of the first levels, in order, as many levels as it takes to divide the work."""
    if not isinstance(store, Foldered):
        return []
    found: set[str] = set()
    for level in islice(_levels(store, partitions), _LEVELS):
        found |= {f"{folder.name}/" for folder in level}
        if len(found) >= RANGES:
            break
    return sorted(found)


def ranges(at: Sequence[str], most: int) -> list[Range]:
    """At most so many ranges of names that together are all names, cut at some of the marks."""
    step = max(1, -(-len(at) // max(1, most - 1)))
    starts = ["", *at[::step]]
    return list(zip(starts, [*starts[1:], None], strict=True))


def within(store: Store, bounds: Range) -> Iterator[FileInfo]:
    """The files of one range."""
    start, end = bounds
    found = store.list_from("", start, recursive=True)
    return found if end is None else takewhile(lambda info: info.name < end, found)


def list_here(log: TableLog, at: Sequence[str]) -> pa.Table:
    """List side by side in threads of this process."""
    bounds = ranges(at, RANGES)
    with ThreadPoolExecutor(THREADS, thread_name_prefix="tidegate-vacuum") as pool:
        parts = list(pool.map(lambda one: as_table(within(log.store, one)), bounds))
    return pa.concat_tables(parts)


def as_table(infos: Iterator[FileInfo]) -> pa.Table:
    names: list[str] = []
    sizes: list[int] = []
    times: list[int] = []
    for info in infos:
        names.append(info.name)
        sizes.append(info.size)
        times.append(info.modified)
    return pa.table([names, sizes, times], schema=FILES)


# ---------------------------------------------------------------------------- folders


def _folders_of(files: pa.Table) -> set[str]:
    """The folders that some files lie in, and the folders of those."""
    return _with_those_above(pc.unique(_parents(files.column("name"))).to_pylist())


def _with_those_above(folders: Iterable[str]) -> set[str]:
    out: set[str] = set()
    for folder in folders:
        while folder and folder not in out:
            out.add(folder)
            folder = folder.rpartition("/")[0]
    return out


def _parents(names: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    return pc.replace_substring_regex(names, r"/?[^/]*$", "")


def _levels(store: Foldered, partitions: Sequence[str]) -> Iterator[list[FileInfo]]:
    """The folders that are the table's business, those at the root first, then those below them."""
    names = [""]
    with ThreadPoolExecutor(THREADS, thread_name_prefix="tidegate-vacuum") as pool:
        while names:
            below = [folder for found in pool.map(store.folders, names) for folder in found]
            shown = [folder for folder in below if not hidden(f"{folder.name}/x", partitions)]
            names = [folder.name for folder in shown]
            yield shown


def idle_folders(found: Found, cutoff: int) -> list[str]:
    """Folders that are empty and older than ``cutoff``, the deepest first.

    One that is younger was made or emptied within the retention: a writer may be about to use it.
    """
    return [f.name for f in reversed(found.empty) if f.modified < cutoff]


# ---------------------------------------------------------------------------- links


def real_names(store: Store, names: pa.Array) -> pa.Array:
    """On a disk: the names without links of those files that ``names`` name through links to folders."""
    if not isinstance(store, LocalStore):
        return names.slice(0, 0)
    parents = _parents(names)
    moved = {f: real for f, real in store.moved(pc.unique(parents).to_pylist()).items() if real is not None}
    through = pc.is_in(parents, value_set=pa.array(list(moved), pa.string()))
    named = zip(parents.filter(through).to_pylist(), names.filter(through).to_pylist(), strict=True)
    found = [f"{moved[parent]}/{name.rpartition('/')[2]}".lstrip("/") for parent, name in named]
    return pa.array([name for name in found if _is_text(name)], pa.string())


def without_linked(store: Store, files: pa.Table) -> pa.Table:
    """On a disk: the files that no link to a folder leads to."""
    if not isinstance(store, LocalStore):
        return files
    parents = _parents(files.column("name"))
    moved = pa.array(list(store.moved(pc.unique(parents).to_pylist())), pa.string())
    return files.filter(pc.invert(pc.is_in(parents, value_set=moved)))


# ---------------------------------------------------------------------------- an inventory


def from_inventory(snapshot: Snapshot, given: pa.Table) -> Found:
    """An inventory in place of a listing; a file that it names more than once is as young as it says."""
    needed = {"path", "length", "isDir", "modificationTime"}
    missing = needed - set(given.column_names)
    if missing:
        raise OptionError(
            f"The inventory has no column {', '.join(sorted(missing))}.",
            hint="It needs path string, length bigint, isDir boolean, modificationTime bigint.",
            errorClass="DELTA_INVALID_INVENTORY_SCHEMA",
        )
    files = given.filter(pc.invert(pc.fill_null(given.column("isDir"), False)))
    prefix = snapshot.url.rstrip("/") + "/"
    names = []
    for path in files.column("path").to_pylist():
        # Inventories are listings: paths are literal, not URI-encoded as in the log.
        plain = path.removeprefix("file:") if path.startswith("file:") else path
        plain = "/" + plain.lstrip("/") if path.startswith("file:") else plain
        names.append(plain[len(prefix) :] if plain.startswith(prefix) else plain)
    table = pa.table(
        [
            pa.array(names, pa.string()),
            files.column("length").cast(pa.int64()),
            files.column("modificationTime").cast(pa.int64()),
        ],
        schema=FILES,
    )
    partitions = _partitions(snapshot)
    mask = [not (hidden(n, partitions) or n.startswith("/") or "://" in n) for n in names]
    table = table.filter(pa.array(mask, pa.bool_()))
    once = table.group_by("name").aggregate([("size", "max"), ("modified", "max")])
    once = without_linked(snapshot.log.store, once.rename_columns(FILES.names).sort_by("name"))
    return Found(once, given.num_rows - files.num_rows + 1)
