"""From a location, as a person writes it, to the store that serves it.

A location is a path or a URL; the scheme picks the backend. Paths of object stores and plain local
paths are literal, ``file:`` URLs are percent-decoded. A URL that carries credentials or a query is
refused, without being quoted: what a store shows as its URL can then be shown anywhere.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from tidegate.errors import StorageError, UnsupportedSchemeError
from tidegate.storage.local import LocalStore
from tidegate.storage.memory import MemoryStore
from tidegate.storage.names import check_directory
from tidegate.storage.options import check_unused
from tidegate.storage.store import Store

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_S3 = frozenset({"s3", "s3a", "s3n"})
_GCS = frozenset({"gs", "gcs"})
_AZURE = frozenset({"az", "azure", "abfs", "abfss", "wasb", "wasbs", "adl"})
_SAME = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs", "wasbs": "wasb", "azure": "az"}
SCHEMES = ("file", "memory", *sorted(_S3), *sorted(_GCS), *sorted(_AZURE))

_memory: dict[str, MemoryStore] = {}
_memory_lock = threading.Lock()


def open_store(url: str | os.PathLike[str], options: Mapping[str, Any] | None = None) -> Store:
    """The store at ``url``; ``options`` win over the environment.

    ``memory://NAME/path`` is one set of bytes per NAME for the whole process.
    """
    options = _mapping(options)
    location = _text(url)
    found = _SCHEME.match(location) if isinstance(url, str) else None
    if found is None:
        if not location:
            raise StorageError("The location of the table is empty.")
        check_unused(options, location)
        return LocalStore(location)
    scheme, rest = found[1].lower(), location[found.end() :]
    if scheme == "file":
        path = _file_path(rest)
        check_unused(options, path)
        return LocalStore(path)
    if scheme == "memory":
        check_unused(options, location)
        return _open_memory(rest)
    if scheme in _S3 | _GCS | _AZURE:
        return _open_objects(scheme, rest, options)
    raise UnsupportedSchemeError(
        f"No store here serves the scheme {found[1]!r}.",
        hint=f"Schemes: {', '.join(SCHEMES)}. A local path with a colon in it is written ./{found[1]}:...",
    )


def same_scheme(url: str) -> str:
    """An address under the first of the schemes that mean the same store: ``s3`` for ``s3a``, and so on."""
    found = _SCHEME.match(url)
    return url if found is None else f"{_SAME.get(found[1].lower(), found[1])}:{url[found.end() :]}"


def _mapping(options: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if options is None:
        return {}
    if not isinstance(options, Mapping) or not all(isinstance(key, str) for key in options):
        raise StorageError("Storage options are a mapping of names to values, such as region.")
    return options


def _text(url: str | os.PathLike[str]) -> str:
    """The location as text that can be asked for. It is not quoted in errors: it may carry credentials."""
    location = os.fspath(url) if isinstance(url, str | os.PathLike) else url
    if not isinstance(location, str):
        raise StorageError(f"The location of a table is a path or a URL as text, not {type(url).__name__}.")
    try:
        os.fsencode(location)
    except UnicodeEncodeError:
        raise StorageError("The location of the table holds half a character, which no name can.") from None
    if "\0" in location:
        raise StorageError("The location of the table holds a zero character, which no name can.")
    return location


def _file_path(rest: str) -> str:
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise StorageError(
                "A file URL that names another host cannot be opened.", hint="Write file:///path."
            )
        rest = slash + path
    path = unquote(rest, errors="surrogateescape")
    if not path.startswith("/") or "\0" in path:
        raise StorageError("A file URL holds an absolute path.", hint="Write file:///path.")
    return path


def _open_memory(rest: str) -> MemoryStore:
    name, _, path = rest.removeprefix("//").partition("/")
    path = path.strip("/")
    with _memory_lock:
        shared = _memory.setdefault(name, MemoryStore(url=f"memory://{name}"))
    return shared.handle(path)


def _open_objects(scheme: str, rest: str, options: Mapping[str, Any]) -> Store:
    # obstore is wanted here only: who works on local files need not have it.
    from tidegate.storage import clients

    authority, _, path = rest.removeprefix("//").partition("/")
    user, at, host = authority.rpartition("@")
    container_at_account = scheme in _AZURE and at and ":" not in user
    if (at and not container_at_account) or "?" in rest:
        raise StorageError(
            f"A {scheme}: URL must not carry credentials or a query.",
            hint="Pass keys, tokens and signatures as options or in the environment.",
        )
    bucket = user if container_at_account else host
    shown = f"{scheme}://{authority}"
    if not bucket:
        raise StorageError(f"A {scheme}: URL names a bucket or container: {scheme}://NAME/path.")
    prefix = check_directory(path.rstrip("/"), shown)
    shown = f"{shown}/{prefix}" if prefix else shown
    if scheme in _S3:
        return clients.open_s3(shown, bucket, prefix, options)
    if scheme in _GCS:
        return clients.open_gcs(shown, bucket, prefix, options)
    return clients.open_azure(shown, bucket, prefix, host if container_at_account else "", options)
