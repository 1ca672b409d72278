"""``_last_checkpoint``: a hint where the newest checkpoint stands, with a checksum of its own text.

It may be stale, torn or wrong, so it only decides where a listing begins; one whose checksum does
not match is not believed at all.
Specification: "Last Checkpoint File", "JSON checksum".
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import msgspec

from tidegate.errors import FileMissingError
from tidegate.log import names
from tidegate.storage.store import Store

_log = logging.getLogger(__name__)


class Hint(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The fields of ``_last_checkpoint`` that Tidegate reads and writes."""

    version: int
    size: int = -1
    parts: int | None = None
    size_in_bytes: int | None = None
    num_of_add_files: int | None = None
    v2_checkpoint: dict[str, Any] | None = None
    checksum: str | None = None
    # On index tables, where ``checksum`` is that of the checkpoint's bytes:
    num_files: int | None = None
    created_time: int | None = None
    checkpoint_id: str | None = None
    format: str | None = None
    state_dir: str | None = None


def canonical(value: Any, path: str = "") -> list[tuple[str, str]]:
    """The leaves of a JSON value as (path, text) pairs in the specification's canonical spelling."""
    if isinstance(value, dict):
        inner = [(_quoted(k), v) for k, v in value.items()]
    elif isinstance(value, list):
        inner = [(str(i), v) for i, v in enumerate(value)]
    else:
        return [(path, _leaf(value))]
    return [pair for k, v in inner for pair in canonical(v, f"{path}+{k}" if path else k)]


def _quoted(text: str) -> str:
    return f'"{quote(text, safe="")}"'


def _leaf(value: Any) -> str:
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)


def checksum(value: dict[str, Any]) -> str:
    """MD5 of the canonical form; the top-level ``checksum`` itself does not count."""
    pairs = sorted(
        canonical({k: v for k, v in value.items() if k != "checksum"}), key=lambda p: p[0].encode()
    )
    text = ",".join(f"{path}={leaf}" for path, leaf in pairs)
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def decode(data: bytes) -> Hint | None:
    """The hint in ``data``, or None if it is torn, malformed or its checksum does not match."""
    try:
        value = msgspec.json.decode(data)
        hint = msgspec.convert(value, Hint)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError):
        return None
    if not 0 <= hint.version <= names.MAX_VERSION or (
        hint.checksum is not None and hint.checksum != checksum(value)
    ):
        return None
    return hint


def decode_index(data: bytes) -> Hint | None:
    """The hint of an index table; its checksum speaks of the checkpoint, and is proven when that is read."""
    try:
        hint = msgspec.json.decode(data, type=Hint)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return hint if 0 <= hint.version <= names.MAX_VERSION else None


def encode_index(hint: Hint, summed: bool = True) -> bytes:
    """The text of the hint of an index table, whose checksum is the checkpoint's."""
    return msgspec.json.encode(hint)


def encode(hint: Hint, summed: bool = True) -> bytes:
    """The text of the hint: version, size and parts first, as old readers want, checksum last, if wanted."""
    value = {k: v for k, v in msgspec.to_builtins(hint).items() if k != "checksum"}
    if summed:
        value["checksum"] = checksum(value)
    return msgspec.json.encode(value)


def read(store: Store, log_dir: str, decode: Callable[[bytes], Hint | None] = decode) -> Hint | None:
    """The hint of a log, None where there is none that can be believed."""
    try:
        data = store.get(f"{log_dir}/{names.LAST_CHECKPOINT}")
    except FileMissingError:
        return None
    hint = decode(data)
    if hint is None:
        _log.info("%s: _last_checkpoint cannot be believed and is ignored", store.url)
    return hint
