"""Names that need column mapping, and those of a change feed: refused where they are new."""

from __future__ import annotations

import pytest

from tidegate.errors import SchemaInvalidError
from tidegate.schema.names import check_feed_names, check_names, names_to_map
from tidegate.schema.types import INTEGER, ArrayType, MapType, StructField, StructType


def schema(*names: str) -> StructType:
    return StructType(tuple(StructField(name, INTEGER) for name in names))


@pytest.mark.parametrize("character", list(" ,;{}()\n\t="))
def test_each_character_that_files_cannot_carry(character: str) -> None:
    with pytest.raises(SchemaInvalidError, match=r"delta.columnMapping.mode = name") as refused:
        check_names(schema("id", f"a{character}b"))
    assert refused.value.errorClass == "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES"


def test_other_characters_are_fine() -> None:
    check_names(schema("a.b", "a-b", "a%b", "größe", "a/b", "a:b", "a`b", "a[b]"))


def test_names_within_structs_arrays_and_maps() -> None:
    inner = schema("x y")
    whole = StructType(
        (
            StructField("s", inner),
            StructField("a", ArrayType(inner)),
            StructField("m", MapType(inner, inner)),
        )
    )
    assert len(names_to_map(whole)) == 4


def test_what_a_table_had_before_may_stay() -> None:
    check_names(schema("a b", "c"), before=schema("a b"))
    with pytest.raises(SchemaInvalidError, match="c d"):
        check_names(schema("a b", "c d"), before=schema("a b"))


def test_a_partition_column_has_an_error_class_of_its_own() -> None:
    with pytest.raises(SchemaInvalidError) as refused:
        check_names(schema("a", "p q"), ["p q"])
    assert refused.value.errorClass == "DELTA_INVALID_PARTITION_COLUMN_NAME"


def test_a_table_with_a_feed_has_no_columns_by_the_feeds_names() -> None:
    check_feed_names(schema("change_type", "_commit"))
    with pytest.raises(SchemaInvalidError, match="_Change_Type, _commit_version") as refused:
        check_feed_names(schema("a", "_Change_Type", "_commit_version"))
    assert refused.value.errorClass == "DELTA_TABLE_ALREADY_CONTAINS_CDC_COLUMNS"
    # What somebody has made stays, and gets no more of them.
    check_feed_names(schema("_commit_version", "b"), schema("_commit_version"))
    with pytest.raises(SchemaInvalidError) as refused:
        check_feed_names(schema("_commit_version", "_change_type"), schema("_commit_version"))
    assert refused.value.errorClass == "RESERVED_CDC_COLUMNS_ON_WRITE"
