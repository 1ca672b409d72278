"""Names of files below a table: how the log's paths, the storage's names and deletion vectors meet.

A path of the log is a URI, a name of the storage is literal; whatever lies below the table has one
name, whichever way it is written. Files elsewhere keep their absolute form.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.files.deletion_vectors import DeletionVector
from tidegate.files.paths import resolve_path
from tidegate.storage.opening import same_scheme

_SHOWN_FOLDERS = ("_change_data", "_delta_index")


def below(root: str, paths: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Paths of the log as names below the table; those elsewhere keep their absolute form."""
    if isinstance(paths, pa.ChunkedArray):
        paths = paths.combine_chunks()
    odd = pc.match_substring_regex(paths, r"%|^/|^[A-Za-z][A-Za-z0-9+.-]*:|^\.|//|/\.")
    if not pc.any(odd).as_py():
        return paths
    fixed = [
        _name_below(root, p) if o else p for p, o in zip(paths.to_pylist(), odd.to_pylist(), strict=True)
    ]
    return pa.array(fixed, pa.string())


def _name_below(root: str, path: str) -> str:
    found = resolve_path(path)
    try:
        found.name.encode()
    except UnicodeEncodeError:
        # A name that is no UTF-8 (%FF) is none that Arrow can hold; VACUUM leaves such files alone.
        return path
    if not found.absolute:
        return found.name
    name, prefix = (same_scheme(text) for text in (found.name, root.rstrip("/") + "/"))
    return name[len(prefix) :] if name.startswith(prefix) else found.name


def vector_names(root: str, vectors: pa.Array | pa.ChunkedArray) -> set[str]:
    """The files of deletion vectors, as names below the table."""
    if isinstance(vectors, pa.ChunkedArray):
        vectors = vectors.combine_chunks()
    if vectors.null_count == len(vectors):
        return set()
    kinds = pc.struct_field(vectors, "storageType").to_pylist()
    places = pc.struct_field(vectors, "pathOrInlineDv").to_pylist()
    out = set()
    for kind, place in set(zip(kinds, places, strict=True)):
        if kind is None or kind == "i":
            continue
        file = DeletionVector(storage_type=kind, path_or_inline_dv=place, size_in_bytes=0, cardinality=0).file
        if file is not None:
            out.add(file if kind == "u" else _name_below(root, file))
    return out


def hidden(name: str, partitions: Sequence[str] = ()) -> bool:
    """Whether a name is none of the table's data: some folder of it, or the file, begins with _ or a dot."""
    if name[:1] not in "_." and "/_" not in name and "/." not in name:
        return False
    *folders, leaf = name.split("/")
    if leaf[:1] in ("_", "."):
        return True
    for folder in folders:
        if folder[:1] not in ("_", "."):
            continue
        if not folder.startswith(_SHOWN_FOLDERS) and not any(folder.startswith(f"{p}=") for p in partitions):
            return True
    return False
