"""The paths of data files: URI encoding, hive-style directories, and what lies inside a table.

``add.path`` is a URI by RFC 2396, percent-encoded, relative to the table or absolute. The names of
partition directories have an escaping of their own (Hive's), which happens first and is never
undone: partition values come from the log, not from paths. A relative path that climbs out of the
table is refused.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import PathOutsideTableError

HIVE_DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"

# What RFC 2396 allows in a path, less the colon: in a first segment it would read as a scheme.
_SAFE = "/-_.!~*'()@&=+$,;"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
# How the URI of a file on this machine begins.
_LOCAL = re.compile("^file:(?://localhost/+|/{3,}|/(?!/))")
# The characters that Spark escapes in the name of a partition directory (ExternalCatalogUtils).
_HIVE_ESCAPED = re.compile("[\x01-\x1f\"#%'*/:=?\\\\\x7f{\\[\\]^]")
# Up to this many paths are looked at one by one.
_FEW = 32
_CLIMBS = r"(?:^|/|%2[fF])(?:\.|%2[eE]){2}(?:/|%2[fF]|$)|^[./]*$"


@dataclass(frozen=True, slots=True)
class DataPath:
    """Where a file is: a literal name below the table, an absolute path on a disk, or a decoded URI."""

    name: str
    absolute: bool = False


def encode_path(path: str) -> str:
    """A path as ``add.path`` carries it."""
    return quote(path, safe=_SAFE)


def encode_location(url: str) -> str:
    """A table's address as the beginning of paths in a log."""
    if url.startswith("/"):
        return f"file:{encode_path(url)}"
    scheme, mark, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}{mark}{authority}{slash}{encode_path(path)}"


def decode_path(path: str) -> str:
    """The path that ``add.path`` stands for."""
    return unquote(path, errors="surrogateescape")


def resolve_path(path: str) -> DataPath:
    """Where the file of an ``add.path`` is. ``PathOutsideTableError`` if it climbs out of the table."""
    if path.startswith("/") or _SCHEME.match(path):
        return DataPath(_LOCAL.sub("/", decode_path(path)), absolute=True)
    parts: list[str] = []
    for part in decode_path(path).split("/"):
        if part == "..":
            if not parts:
                raise _outside(path)
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    if not parts:
        raise _outside(path)
    return DataPath("/".join(parts))


def refuse_outside(paths: pa.Array | pa.ChunkedArray) -> None:
    """``resolve_path``'s refusal for a whole column: only paths that look odd are looked at."""
    for chunk in paths.chunks if isinstance(paths, pa.ChunkedArray) else [paths]:
        if not _may_climb(chunk):
            continue
        odd = pc.match_substring_regex(chunk, _CLIMBS)
        for path in chunk.filter(odd).to_pylist():
            resolve_path(path)


def _may_climb(paths: pa.Array) -> bool:
    """Whether any path deserves a look of its own: one search over the bytes of all, not one for each."""
    if len(paths) == 0 or not pa.types.is_string(paths.type):
        return len(paths) > 0
    if len(paths) <= _FEW:
        return any(not p or p.startswith(".") or ".." in p or "%2" in p for p in paths.to_pylist())
    if pc.any(pc.starts_with(paths, ".")).as_py() or pc.any(pc.equal(pc.binary_length(paths), 0)).as_py():
        return True
    _, offsets, data = paths.buffers()
    at = memoryview(offsets).cast("i")
    span = struct.pack("=qq", at[paths.offset], at[paths.offset + len(paths)])
    whole = pa.Array.from_buffers(pa.large_binary(), 1, [None, pa.py_buffer(span), data])
    # Each pattern begins with what to look for, which is what makes the search fast.
    return any(pc.match_substring_regex(whole, odd)[0].as_py() for odd in (r"\.\.", "%2[eE]"))


def _outside(path: str) -> PathOutsideTableError:
    return PathOutsideTableError(
        f"The relative path {path!r} does not name a file inside the table.",
        hint="No honest writer makes such a path; the log is damaged or forged. Do not follow it.",
    )


# ---------------------------------------------------------------------------- directories


def escape_path_name(name: str) -> str:
    """A column name or value as Hive and Spark write it in the name of a directory."""
    return _HIVE_ESCAPED.sub(lambda m: f"%{ord(m[0]):02X}", name)


def unescape_path_name(name: str) -> str:
    """What ``escape_path_name`` was given. Only escapes of one byte exist."""
    return re.sub("%([0-9A-Fa-f]{2})", lambda m: chr(int(m[1], 16)), name)


def partition_directory(values: Iterable[tuple[str, str | None]]) -> str:
    """``a=1/b=x`` for serialized partition values in order; not URI-encoded yet."""
    return "/".join(
        f"{escape_path_name(name)}={HIVE_DEFAULT_PARTITION if not value else escape_path_name(value)}"
        for name, value in values
    )


def location(url: str) -> str:
    """A table's address as Spark writes it."""
    return f"file:{url}" if url.startswith("/") else url
