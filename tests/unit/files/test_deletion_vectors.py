"""Deletion vectors: formats, checks, files, and the specification's own example."""

from __future__ import annotations

import contextlib
import struct
import uuid
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap, BitMap64

from tidegate.errors import (
    DVCardinalityError,
    DVChecksumError,
    DVFileMissingError,
    DVInvalidError,
    DVSizeMismatchError,
    FileMissingError,
    TidegateError,
)
from tidegate.files import deletion_vectors as dv
from tidegate.files import z85

GetRange = Callable[[str, int, int], bytes]

ROWS = st.one_of(
    st.sets(st.integers(0, 300)),
    st.sets(st.integers(0, 2**40)),
    st.builds(lambda a, n: set(range(a, a + n)), st.integers(0, 2**33), st.integers(0, 5000)),
)


def store(**files: bytes) -> GetRange:
    def get_range(name: str, offset: int, length: int) -> bytes:
        if name not in files:
            raise FileMissingError(f"{name} is not there")
        return files[name][offset : offset + length]

    return get_range


def described(file: dv.VectorFile, at: int = 0, **changes: object) -> dv.DeletionVector:
    return msgspec.structs.replace(file.vectors[at], **changes)


def broken(file: dv.VectorFile, at: int, byte: int) -> GetRange:
    data = bytearray(file.data)
    data[at] = byte
    return store(**{file.name: bytes(data)})


# ---------------------------------------------------------------------------- Z85


@given(st.binary().map(lambda b: b[: len(b) // 4 * 4]))
def test_z85_text_stands_for_its_bytes(data: bytes) -> None:
    assert z85.decode(z85.encode(data)) == data


def test_z85_agrees_with_the_rfc() -> None:
    assert z85.encode(bytes.fromhex("864FD26FB559F75B")) == "HelloWorld"


@pytest.mark.parametrize("text", ["1", "123456", "1234~", "#####", "\N{SNOWMAN}0000"])
def test_text_that_is_no_z85_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        z85.decode(text)


# ---------------------------------------------------------------------------- formats


def test_the_inline_example_of_the_specification_is_read() -> None:
    text = b"""{"storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
               "sizeInBytes": 40, "cardinality": 6}"""
    vector = msgspec.json.decode(text, type=dv.DeletionVector)
    assert list(dv.read(vector, store())) == [3, 4, 7, 11, 18, 29]
    assert vector.is_inline
    assert vector.unique_id == "i" + vector.path_or_inline_dv


def test_an_inline_vector_in_the_portable_format_is_read() -> None:
    vector = dv.DeletionVector(
        storage_type="i",
        path_or_inline_dv="^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
        size_in_bytes=44,
        cardinality=6,
    )
    assert list(dv.read(vector, store())) == [3, 4, 7, 11, 18, 29]


@given(ROWS)
def test_a_bitmap_comes_back_from_its_bytes(rows: set[int]) -> None:
    assert dv.decode(dv.encode(BitMap64(rows))) == BitMap64(rows)


@given(ROWS)
def test_an_inline_vector_comes_back(rows: set[int]) -> None:
    vector = dv.inline(BitMap64(rows))
    assert dv.read(vector, store()) == BitMap64(rows)


@given(st.lists(st.sets(st.integers(0, 2**32 - 1), max_size=20), max_size=3))
def test_the_native_format_of_old_writers_is_read(buckets: list[set[int]]) -> None:
    data = struct.pack("<ii", dv.MAGIC_NATIVE, len(buckets))
    for low in buckets:
        body = BitMap(low).serialize()
        data += struct.pack("<i", len(body)) + body
    expected = {high << 32 | row for high, low in enumerate(buckets) for row in low}
    assert set(dv.decode(data)) == expected


def test_empty_buckets_between_full_ones_are_read() -> None:
    empty, seven = BitMap().serialize(), BitMap([7]).serialize()
    data = struct.pack("<iQ", dv.MAGIC_PORTABLE, 2)
    data += struct.pack("<I", 0) + empty + struct.pack("<I", 1) + seven
    assert list(dv.decode(data)) == [2**32 + 7]


@given(st.binary(max_size=200))
def test_any_bytes_are_a_bitmap_or_an_error_of_ours(data: bytes) -> None:
    for magic in (b"", struct.pack("<i", dv.MAGIC_PORTABLE), struct.pack("<i", dv.MAGIC_NATIVE)):
        with contextlib.suppress(DVInvalidError):
            dv.decode(magic + data)


@given(ROWS, st.data())
def test_damaged_bytes_are_a_bitmap_or_an_error_of_ours(rows: set[int], data: st.DataObject) -> None:
    whole = bytearray(dv.encode(BitMap64(rows)))
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    for damaged in (bytes(whole), bytes(cut)):
        with contextlib.suppress(DVInvalidError):
            dv.decode(damaged)


def test_a_row_beyond_63_bits_is_refused() -> None:
    data = struct.pack("<i", dv.MAGIC_PORTABLE) + BitMap64([2**63 + 1]).serialize()
    with pytest.raises(DVInvalidError, match="which no file can have"):
        dv.decode(data)


# ---------------------------------------------------------------------------- descriptors


def test_the_examples_of_the_specification_name_their_files() -> None:
    relative = dv.DeletionVector(
        storage_type="u",
        path_or_inline_dv="ab^-aqEH.-t@S}K{vb[*k^",
        offset=4,
        size_in_bytes=40,
        cardinality=6,
    )
    assert relative.file == "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    assert relative.unique_id == "uab^-aqEH.-t@S}K{vb[*k^@4"
    absolute = msgspec.structs.replace(relative, storage_type="p", path_or_inline_dv="s3://t/dv.bin")
    assert absolute.file == "s3://t/dv.bin"


@given(st.uuids(), st.text("abcXYZ019", max_size=5))
def test_the_name_of_a_relative_file_comes_from_its_path(identifier: uuid.UUID, prefix: str) -> None:
    name = dv.relative_name(dv.relative_path(identifier, prefix))
    assert name == (f"{prefix}/" if prefix else "") + f"deletion_vector_{identifier}.bin"


@pytest.mark.parametrize("path", ["", "short", "no_uuid_at_all_in_here", "~" * 20])
def test_a_path_without_a_uuid_is_refused(path: str) -> None:
    with pytest.raises(DVInvalidError):
        dv.relative_name(path)


def test_an_unknown_storage_type_is_refused() -> None:
    vector = dv.DeletionVector(storage_type="q", path_or_inline_dv="x", size_in_bytes=1, cardinality=1)
    with pytest.raises(DVInvalidError, match="'q'"):
        dv.read(vector, store())


def test_a_descriptor_keeps_the_names_of_the_protocol() -> None:
    vector = dv.write_file([BitMap64([1])]).vectors[0]
    wire = msgspec.to_builtins(vector)
    assert list(wire) == ["storageType", "pathOrInlineDv", "offset", "sizeInBytes", "cardinality"]
    assert msgspec.convert(wire, dv.DeletionVector) == vector


# ---------------------------------------------------------------------------- files


@given(st.lists(ROWS, max_size=5), st.sampled_from(["", "ab"]))
def test_many_vectors_in_one_file_are_each_read_back(many: list[set[int]], prefix: str) -> None:
    file = dv.write_file([BitMap64(rows) for rows in many], prefix=prefix)
    assert file.data[0] == 1
    assert len(file.vectors) == len(many)
    for vector, rows in zip(file.vectors, many, strict=True):
        assert vector.file == file.name
        assert dv.read(vector, store(**{file.name: file.data})) == BitMap64(rows)


def test_a_vector_without_an_offset_is_the_first_of_its_file() -> None:
    file = dv.write_file([BitMap64([5]), BitMap64([6])])
    assert list(dv.read(described(file, offset=None), store(**{file.name: file.data}))) == [5]


def test_an_absolute_vector_is_asked_for_by_its_uri() -> None:
    file = dv.write_file([BitMap64([5])])
    vector = described(file, storage_type="p", path_or_inline_dv="s3://b/x.bin")
    assert list(dv.read(vector, store(**{"s3://b/x.bin": file.data}))) == [5]


def test_a_file_that_is_gone_is_named() -> None:
    file = dv.write_file([BitMap64([5])])
    with pytest.raises(DVFileMissingError, match=r"deletion_vector_.*\.bin"):
        dv.read(file.vectors[0], store())


def test_a_size_that_differs_from_the_log_is_refused() -> None:
    file = dv.write_file([BitMap64([5])])
    vector = described(file, size_in_bytes=file.vectors[0].size_in_bytes + 4)
    with pytest.raises(DVSizeMismatchError, match="the file says"):
        dv.read(vector, store(**{file.name: file.data}))


def test_a_file_that_ends_too_early_is_refused() -> None:
    file = dv.write_file([BitMap64([5])])
    with pytest.raises(DVSizeMismatchError, match="are left"):
        dv.read(file.vectors[0], store(**{file.name: file.data[:-3]}))


def test_a_flipped_byte_breaks_the_checksum() -> None:
    file = dv.write_file([BitMap64([5])])
    with pytest.raises(DVChecksumError):
        dv.read(file.vectors[0], broken(file, 12, 0xEE))


def test_a_wrong_cardinality_is_refused() -> None:
    file = dv.write_file([BitMap64([5, 6])])
    with pytest.raises(DVCardinalityError, match="holds 2 rows, the log says 3"):
        dv.read(described(file, cardinality=3), store(**{file.name: file.data}))


def test_another_version_of_the_file_is_refused() -> None:
    file = dv.write_file([BitMap64([5])])
    with pytest.raises(DVInvalidError, match="version 2"):
        dv.read(file.vectors[0], broken(file, 0, 2))


@pytest.mark.parametrize("changes", [{"offset": -1}, {"size_in_bytes": -1}])
def test_a_place_that_cannot_be_is_refused(changes: dict[str, int]) -> None:
    file = dv.write_file([BitMap64([5])])
    with pytest.raises(DVInvalidError):
        dv.read(described(file, **changes), store(**{file.name: file.data}))


@pytest.mark.parametrize("text", ["abc", "~~~~~", "00000"])
def test_inline_text_that_is_no_vector_is_refused(text: str) -> None:
    vector = dv.DeletionVector(storage_type="i", path_or_inline_dv=text, size_in_bytes=4, cardinality=1)
    with pytest.raises(DVInvalidError):
        dv.read(vector, store())


def test_an_inline_vector_of_another_size_is_refused() -> None:
    vector = msgspec.structs.replace(dv.inline(BitMap64([1])), size_in_bytes=4)
    with pytest.raises(DVSizeMismatchError):
        dv.read(vector, store())


@given(ROWS.filter(bool), st.data())
def test_damage_to_a_file_never_brings_rows_back_unnoticed(rows: set[int], data: st.DataObject) -> None:
    file = dv.write_file([BitMap64(rows)])
    at = data.draw(st.integers(0, len(file.data) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda b: b != file.data[at]))
    with pytest.raises(TidegateError):
        dv.read(file.vectors[0], broken(file, at, byte))
