"""Deletion vectors: which rows of a data file are no longer there.

A vector is a 64-bit Roaring bitmap of row positions, kept inline in the log (Z85), or in a file
beside the data that packs many of them. What is read is checked before it is believed: size,
checksum, format and cardinality, each with an error of its own, for a vector that is misread
brings deleted rows back. Specification: "Deletion Vectors" and "Deletion Vector Format".
"""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated

import msgspec
from pyroaring import BitMap64

from tidegate.errors import (
    DVCardinalityError,
    DVChecksumError,
    DVFileMissingError,
    DVInvalidError,
    DVSizeMismatchError,
    FileMissingError,
)
from tidegate.files import z85

MAGIC_PORTABLE = 1681511377
MAGIC_NATIVE = 1681511376
FILE_VERSION = 1

UUID_RELATIVE = "u"
INLINE = "i"
ABSOLUTE = "p"

_UUID_CHARS = 20
# The first vector of a file stands right behind the version byte.
_FIRST_OFFSET = 1
_MAX_SIZE = 2**31 - 1

GetRange = Callable[[str, int, int], bytes]
_Int = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class DeletionVector(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The descriptor that an ``add`` or ``remove`` carries."""

    storage_type: str
    path_or_inline_dv: str
    offset: _Int | None = None
    size_in_bytes: _Int
    cardinality: _Long

    @property
    def unique_id(self) -> str:
        """What tells two vectors of one data file apart; half of a logical file's key."""
        base = self.storage_type + self.path_or_inline_dv
        return base if self.offset is None else f"{base}@{self.offset}"

    @property
    def is_inline(self) -> bool:
        return self.storage_type == INLINE

    @property
    def file(self) -> str | None:
        """Where the bytes are: a name below the table for ``u``, a URI for ``p``, None when inline."""
        if self.storage_type == INLINE:
            return None
        if self.storage_type == ABSOLUTE:
            return self.path_or_inline_dv
        if self.storage_type == UUID_RELATIVE:
            return relative_name(self.path_or_inline_dv)
        raise DVInvalidError(
            f"The deletion vector has the storage type {self.storage_type!r}; u, i and p are known.",
            hint="A newer writer may have made it: look for a release of this client that knows the type.",
        )


def relative_name(path: str) -> str:
    """The file name below the table for the ``[prefix]uuid`` of a vector of type ``u``."""
    prefix, text = path[:-_UUID_CHARS], path[-_UUID_CHARS:]
    try:
        raw = z85.decode(text)
        if len(raw) != 16:
            raise ValueError(f"{len(text)} characters, where {_UUID_CHARS} must stand")
    except ValueError as e:
        raise DVInvalidError(f"The deletion vector's path {path!r} does not end in a Z85 UUID: {e}.") from e
    name = f"deletion_vector_{uuid.UUID(bytes=raw)}.bin"
    return f"{prefix}/{name}" if prefix else name


def relative_path(identifier: uuid.UUID, prefix: str = "") -> str:
    """The ``pathOrInlineDv`` of a vector in the file that ``relative_name`` will find."""
    return prefix + z85.encode(identifier.bytes)


# ---------------------------------------------------------------------------- bitmaps


def encode(bitmap: BitMap64) -> bytes:
    """The portable bytes of a bitmap, as they stand in files and inline."""
    copy = bitmap.copy()
    copy.run_optimize()
    return struct.pack("<i", MAGIC_PORTABLE) + bytes(copy.serialize())


def decode(data: bytes) -> BitMap64:
    """The bitmap in ``data``: the portable format, or the older one of Spark's native writer."""
    if len(data) < 4:
        raise DVInvalidError(f"A deletion vector of {len(data)} bytes has no room for its format number.")
    (magic,) = struct.unpack_from("<i", data)
    if magic == MAGIC_PORTABLE:
        return _decode_portable(data)
    if magic == MAGIC_NATIVE:
        return _decode_native(data, "<i")
    # The specification's own inline example has its numbers the other way round.
    if struct.unpack_from(">i", data)[0] == MAGIC_NATIVE:
        return _decode_native(data, ">i")
    raise DVInvalidError(
        f"The deletion vector's format number is {magic}; {MAGIC_PORTABLE} and {MAGIC_NATIVE} are known.",
        hint="The file is damaged, or a newer writer made it.",
    )


def _decode_portable(data: bytes) -> BitMap64:
    if len(data) < 12:
        raise DVInvalidError("The deletion vector ends before its number of buckets.")
    (buckets,) = struct.unpack_from("<Q", data, 4)
    if buckets == 0:
        return BitMap64()
    try:
        bitmap = BitMap64.deserialize(bytes(data[4:]))
    except (ValueError, MemoryError) as e:
        raise DVInvalidError(f"The deletion vector's bytes are no Roaring bitmap: {e}.") from e
    if bitmap and bitmap.max() >= 1 << 63:
        raise DVInvalidError(f"The deletion vector names row {bitmap.max()}, which no file can have.")
    return bitmap


def _decode_native(data: bytes, integer: str) -> BitMap64:
    if len(data) < 8:
        raise DVInvalidError("The deletion vector ends before its number of bitmaps.")
    (count,) = struct.unpack_from(integer, data, 4)
    if count < 0:
        raise DVInvalidError(f"The deletion vector says that it holds {count} bitmaps.")
    # The bitmaps themselves are the same in both formats: only what stands between them differs.
    portable = bytearray(struct.pack("<iQ", MAGIC_PORTABLE, count))
    at = 8
    for high in range(count):
        size = struct.unpack_from(integer, data, at)[0] if at + 4 <= len(data) else -1
        at += 4
        if size < 0 or at + size > len(data):
            raise DVInvalidError(f"The deletion vector ends in bitmap {high + 1} of {count}.")
        portable += struct.pack("<I", high) + data[at : at + size]
        at += size
    return _decode_portable(bytes(portable))


# ---------------------------------------------------------------------------- reading


def read(vector: DeletionVector, get_range: GetRange) -> BitMap64:
    """The rows that ``vector`` deletes, checked in every way the descriptor and the file allow.

    ``get_range(name, offset, length)`` is the store's: names below the table for type ``u``, the
    URI as it stands in the log for type ``p``. It may return fewer bytes at the end of a file.
    """
    file = vector.file
    data = _inline_bytes(vector) if file is None else _stored_bytes(vector, file, get_range)
    try:
        bitmap = decode(data)
    except DVInvalidError as e:
        raise e.at(file=file) from None
    if len(bitmap) != vector.cardinality:
        raise DVCardinalityError(
            f"The deletion vector holds {len(bitmap)} rows, the log says {vector.cardinality}.",
            file=file,
            hint="The vector and the log do not belong together; restore the file from a backup.",
        )
    return bitmap


def _inline_bytes(vector: DeletionVector) -> bytes:
    try:
        data = z85.decode(vector.path_or_inline_dv)
    except ValueError as e:
        raise DVInvalidError(f"The inline deletion vector is no Z85 text: {e}.") from e
    # Z85 pads to four bytes, so the text may stand for up to three bytes more than the vector has.
    if not 0 <= len(data) - vector.size_in_bytes < 4:
        raise DVSizeMismatchError(
            f"The inline deletion vector has {len(data)} bytes, the log says {vector.size_in_bytes}."
        )
    return data[: vector.size_in_bytes]


def _stored_bytes(vector: DeletionVector, file: str, get_range: GetRange) -> bytes:
    size = vector.size_in_bytes
    if size < 0 or (vector.offset or 0) < 0:
        raise DVInvalidError(
            f"The log says that the deletion vector has {size} bytes at offset {vector.offset}.", file=file
        )
    # No offset means 0, the beginning of the file, where the version byte stands.
    offset = max(vector.offset or 0, _FIRST_OFFSET)
    # The version byte is at hand for the first vector of a file, and only then is it worth reading.
    lead = 1 if offset == _FIRST_OFFSET else 0
    try:
        data = get_range(file, offset - lead, lead + 4 + size + 4)
    except FileMissingError as e:
        raise DVFileMissingError(
            "The deletion vector's file is not there: its deleted rows would come back.",
            file=file,
            hint="Restore the file, or the table to a version that does not need it.",
        ) from e
    if lead and data[:1] != bytes([FILE_VERSION]):
        found = data[0] if data else "none"
        raise DVInvalidError(
            f"The file has the version {found}; this client reads version {FILE_VERSION}.", file=file
        )
    data = data[lead:]
    stored = struct.unpack_from(">i", data)[0] if len(data) >= 4 else None
    if stored != size or len(data) < 4 + size + 4:
        found = f"{len(data)} bytes are left there" if stored in (None, size) else f"the file says {stored}"
        raise DVSizeMismatchError(
            f"The log says that the deletion vector at offset {offset} has {size} bytes, but {found}.",
            file=file,
            hint="The file is damaged or is not the one the log means.",
        )
    body = data[4 : 4 + size]
    (checksum,) = struct.unpack_from(">I", data, 4 + size)
    if checksum != zlib.crc32(body):
        raise DVChecksumError(
            f"The checksum of the deletion vector at offset {offset} does not match its bytes.",
            file=file,
            hint="The file is damaged; restore it from a backup.",
        )
    return body


# ---------------------------------------------------------------------------- writing


@dataclass(frozen=True, slots=True)
class VectorFile:
    """The bytes of one deletion-vector file, and a descriptor for each bitmap in it."""

    name: str
    data: bytes
    vectors: tuple[DeletionVector, ...]


def write_file(
    bitmaps: Iterable[BitMap64], *, identifier: uuid.UUID | None = None, prefix: str = ""
) -> VectorFile:
    """Pack bitmaps into one file, in order. The caller writes ``data`` to ``name`` below the table."""
    path = relative_path(identifier or uuid.uuid4(), prefix)
    out = bytearray([FILE_VERSION])
    vectors: list[DeletionVector] = []
    for bitmap in bitmaps:
        body = encode(bitmap)
        if len(out) + len(body) + 8 > _MAX_SIZE:
            raise DVInvalidError(
                "A deletion-vector file holds at most 2 GiB; spread these bitmaps over more files."
            )
        vectors.append(
            DeletionVector(
                storage_type=UUID_RELATIVE,
                path_or_inline_dv=path,
                offset=len(out),
                size_in_bytes=len(body),
                cardinality=len(bitmap),
            )
        )
        out += struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    return VectorFile(relative_name(path), bytes(out), tuple(vectors))


def inline(bitmap: BitMap64) -> DeletionVector:
    """A descriptor that carries the bitmap in itself."""
    body = encode(bitmap)
    padded = body + b"\0" * (-len(body) % 4)
    return DeletionVector(
        storage_type=INLINE,
        path_or_inline_dv=z85.encode(padded),
        size_in_bytes=len(body),
        cardinality=len(bitmap),
    )
