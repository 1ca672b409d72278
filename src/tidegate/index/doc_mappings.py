"""The schemas of splits (``docMappingJson``), stored once in the metadata and referred to by a hash.

The hash does not see the order of keys, of named fields or white space: the text is brought to one form,
and 16 characters of its SHA-256 stand for it, under ``docMappingSchema.<hash>``. Splits with their schema
inline and splits with a reference stand side by side; a reference that leads nowhere is a damaged log.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import LogError

PREFIX = "docMappingSchema."


def canonical(text: str) -> str:
    """A schema in the one form that its hash is taken of; text that is no JSON is its own form."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return json.dumps(_sorted(value), separators=(",", ":"), ensure_ascii=False)


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _sorted(value[k]) for k in sorted(value)}
    if isinstance(value, list):
        items = [_sorted(v) for v in value]
        if items and all(isinstance(v, dict) and isinstance(v.get("name"), str) for v in items):
            items.sort(key=lambda v: str(v["name"]))
        return items
    return value


def reference(text: str) -> str:
    """The 16 characters that stand for a schema."""
    digest = hashlib.sha256(canonical(text).encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()[:16]


def deduplicate(
    adds: tuple[pa.RecordBatch, ...],
) -> tuple[tuple[pa.RecordBatch, ...], dict[str, str]]:
    """File actions with references in place of schemas, and the properties that hold these."""
    schemas: dict[str, str] = {}
    out = []
    for batch in adds:
        encoded = batch.column("docMappingJson").dictionary_encode()
        texts = encoded.dictionary.to_pylist()
        hashes = [reference(t) for t in texts]
        # As it was written first: another spelling of the same schema refers to that one.
        for name, text in zip(hashes, texts, strict=True):
            schemas.setdefault(PREFIX + name, text)
        if hashes:
            refs = pa.array(hashes, pa.string()).take(encoded.indices)
            batch = _with(batch, "docMappingRef", pc.coalesce(refs, batch.column("docMappingRef")))
            batch = _with(batch, "docMappingJson", pa.nulls(batch.num_rows, pa.string()))
        out.append(batch)
    return tuple(out), schemas


def resolve(files: pa.Table, configuration: Mapping[str, str], table: str) -> pa.Table:
    """Files with every reference resolved: ``docMappingJson`` is there wherever a schema is known.

    Where splits refer to schemas the column is a dictionary: a schema of hundreds of fields is held once,
    not once for each split. ``LogError`` where a reference leads nowhere.
    """
    refs = files.column("docMappingRef").combine_chunks()
    if refs.null_count == len(refs):
        return files
    encoded = refs.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    missing = [n for n in names if PREFIX + n not in configuration]
    if missing:
        raise LogError(
            f"The log is corrupted: splits refer to the schemas {', '.join(missing)}, which the metadata "
            "does not hold.",
            table=table,
            hint="Restore the metadata of the version before, or index these splits again.",
        )
    inline = files.column("docMappingJson").combine_chunks().dictionary_encode()
    texts = [*inline.dictionary.to_pylist(), *(configuration[PREFIX + n] for n in names)]
    referred = pc.add(encoded.indices, pa.scalar(len(inline.dictionary), pa.int32()))
    codes = pc.coalesce(inline.indices, referred)
    column = pa.DictionaryArray.from_arrays(codes, pa.array(texts, pa.string()))
    at = files.schema.get_field_index("docMappingJson")
    return files.set_column(at, pa.field("docMappingJson", column.type), column)


def _with(batch: pa.RecordBatch, name: str, column: pa.Array) -> pa.RecordBatch:
    at = batch.schema.get_field_index(name)
    return batch.set_column(at, batch.schema.field(at), column)
