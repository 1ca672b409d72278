"""What may stand as a name below a store's root.

Names are literal: nothing is decoded, folded or normalised, so two different names are never one
file. That holds only where no backend may normalise either, hence empty and ``.`` segments are
refused everywhere, and ``..`` and absolute names because they leave the root.
"""

from __future__ import annotations

from tidegate.errors import PathOutsideTableError, StorageError


def check_name(name: str, root: str) -> str:
    """``name`` if it names a file below ``root``; raises otherwise."""
    segments = name.split("/")
    if name.startswith("/") or ".." in segments:
        raise PathOutsideTableError(
            f"The name {name!r} leads out of the store.",
            table=root,
            hint="Names are relative to the root and have no '..' segments.",
        )
    if "" in segments or "." in segments or "\0" in name:
        raise StorageError(
            f"{name!r} cannot name a file: it has an empty segment, a '.' segment or a NUL.", table=root
        )
    return name


def check_directory(directory: str, root: str) -> str:
    """``directory`` without a closing slash; the empty name is the root itself."""
    directory = directory.removesuffix("/")
    return check_name(directory, root) if directory else ""


def check_range(name: str, offset: int, length: int, root: str) -> None:
    """Raises if the range starts before the file or ends before it starts."""
    if offset < 0 or length < 0:
        raise StorageError(
            f"A range of {length} bytes from {offset} is no part of a file.", table=root, file=name
        )
