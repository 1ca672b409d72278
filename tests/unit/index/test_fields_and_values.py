"""Fields of an index table: the options that choose them, and values that come back as they went in."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from support.splits import write_index
from tidegate.errors import OptionError, QueryError, SchemaInvalidError, ValueNotIndexableError
from tidegate.index.fields import decode_mapping, mapping_for
from tidegate.index.settings import Settings
from tidegate.schema.types import PrimitiveType, StructField, StructType, parse_type

SCHEMA = StructType(
    (
        StructField("id", PrimitiveType("long")),
        StructField("Body", PrimitiveType("string")),
        StructField("host", PrimitiveType("string")),
        StructField("day", PrimitiveType("date")),
    )
)


def fields(**options: str) -> dict[str, object]:
    named = {k.replace("__", "."): v for k, v in options.items()}
    return {f.column: f for f in mapping_for(SCHEMA, ["day"], Settings(named))}


def test_both_forms_of_an_option_name_columns_in_any_case() -> None:
    one = fields(spark__indextables__indexing__typemap__BODY="text")
    other = fields(indexing__typemap__text="body")
    assert one == other
    assert one["Body"].kind == "text"
    assert "day" not in one


def test_tokenizer_record_length_fast_stored_and_indexed_are_chosen_by_column() -> None:
    found = fields(
        indexing__typemap__body="text",
        indexing__tokenizer__en_stem="body",
        indexing__indexrecordoption__body="basic",
        indexing__tokenlength__legacy="body",
        indexing__fastfields="host",
        indexing__nonfastfields="id",
        indexing__indexonlyfields="host",
    )
    body, host = found["Body"], found["host"]
    assert (body.tokenizer, body.record, body.max_token) == ("en_stem", "basic", 40)
    assert (host.fast, host.stored, found["id"].fast) == (True, False, False)


def test_a_mapping_survives_its_json() -> None:
    mapping = mapping_for(SCHEMA, ["day"], Settings({"indexing.typemap.body": "text"}))
    assert decode_mapping(mapping.to_json()) == mapping


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"indexing.typemap.nobody": "text"}, "nobody"),
        ({"indexing.typemap.day": "text"}, "partition column"),
        ({"indexing.typemap.body": "blob"}, "blob"),
        ({"indexing.typemap.id": "text"}, "only strings"),
        ({"indexing.tokenizer.host": "default"}, "no words"),
        ({"indexing.fastfields": "id", "indexing.nonfastfields": "ID"}, "both"),
        ({"indexing.json.mode": "some"}, "full or minimal"),
        ({"indexing.tokenLength.many": "body"}, "no length"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused_by_name(options: dict[str, str], word: str) -> None:
    with pytest.raises(OptionError, match=word):
        mapping_for(SCHEMA, ["day"], Settings(options))


def test_a_type_that_no_field_holds_is_refused_with_its_column() -> None:
    schema = StructType((StructField("v", parse_type("variant")),))
    with pytest.raises(SchemaInvalidError, match="column v"):
        mapping_for(schema, [], Settings())


def test_every_type_comes_back_exactly(tmp_path: Path) -> None:
    utc = timezone.utc
    rows = [
        {
            "i8": -128,
            "i64": 2**63 - 1,
            "f32": 0.5,
            "f64": -1e308,
            "flag": True,
            "d": date(1582, 1, 1),
            "ts": datetime(2026, 1, 31, 1, 2, 3, 4, utc),
            "ntz": datetime(1969, 7, 20, 1, 2, 3, 999999),
            "small": Decimal("-12345678901234567.8"),
            "big": Decimal("9" * 36 + ".99"),
            "raw": b"\x00\xff",
            "text": "Grüße, 日本",
            "struct": {"a": 1, "b": [1.5, None]},
            "map": [("k", 2)],
        },
        {},
    ]
    schema = pa.schema(
        [
            ("i8", pa.int8()),
            ("i64", pa.int64()),
            ("f32", pa.float32()),
            ("f64", pa.float64()),
            ("flag", pa.bool_()),
            ("d", pa.date32()),
            ("ts", pa.timestamp("us", "UTC")),
            ("ntz", pa.timestamp("us")),
            ("small", pa.decimal128(18, 1)),
            ("big", pa.decimal128(38, 2)),
            ("raw", pa.binary()),
            ("text", pa.string()),
            ("struct", pa.struct([("a", pa.int32()), ("b", pa.list_(pa.float64()))])),
            ("map", pa.map_(pa.string(), pa.int64())),
        ]
    )
    given = pa.Table.from_pylist(rows, schema)
    table = write_index(tmp_path / "t", [given], {"indexing.typemap.text": "text"})
    assert table.search().table().to_pylist() == given.to_pylist()
    for query in (
        "i8:-128",
        f"i64:{2**63 - 1}",
        "i64:>9223372036854775806",
        "f32:0.5",
        "flag:true",
        "d:1582-01-01",
        "ts:2026-01-31T01:02:03.000004Z",
        "ntz:[1969-07-20T01:02:03.999999 TO *]",
        "small:-12345678901234567.8",
        "small:<0",
        f"big:{'9' * 36}.99",
        "big:>=1",
        "raw:00ff",
        "text:grüße",
        "struct.a:1",
        "struct.b:1.5",
        "map.k:2",
        "map.k:[1 TO 2]",
    ):
        assert table.count(query) == 1, query
        assert table.count(f"NOT {query}") == 1, query


def test_values_that_a_field_cannot_hold_are_refused_with_the_remedy(tmp_path: Path) -> None:
    long = pa.table({"s": ["x" * 70_000]})
    with pytest.raises(ValueNotIndexableError, match=r"70000 bytes.*storeonlyfields"):
        write_index(tmp_path / "long", [long])
    with pytest.raises(ValueNotIndexableError, match="no IP address"):
        write_index(tmp_path / "ip", [pa.table({"s": ["here"]})], {"indexing.typemap.s": "ip"})
    with pytest.raises(ValueNotIndexableError, match="not JSON"):
        write_index(tmp_path / "json", [pa.table({"s": ["{"]})], {"indexing.typemap.s": "json"})
    stored = write_index(tmp_path / "kept", [long], {"indexing.storeonlyfields": "s"})
    assert stored.search().table().equals(long)
    with pytest.raises(QueryError, match="only stored"):
        stored.search("s:x").table()


def test_words_longer_than_the_limit_are_not_found_and_do_not_move_the_others(tmp_path: Path) -> None:
    text = pa.table({"s": ["one " + "x" * 41 + " two"]})
    table = write_index(
        tmp_path / "t", [text], {"indexing.typemap.s": "text", "indexing.tokenLength.legacy": "s"}
    )
    assert table.count("x" * 41) == 0
    assert table.count('"one two"') == 0
    assert table.count(f'"one {"x" * 41} two"') == 1


def test_addresses_are_found_by_value_network_octets_and_range(tmp_path: Path) -> None:
    addresses = ["10.0.0.1", "10.0.255.255", "10.1.0.0", "::1", "::ffff:10.0.0.1", None]
    table = write_index(tmp_path / "t", [pa.table({"a": addresses})], {"indexing.typemap.a": "ip"})
    assert table.count("a:10.0.0.1") == 2
    assert table.count("a:10.0.0.0/16") == 3
    assert table.count("a:10.0.*.*") == 3
    assert table.count("a:10.0.*") == 3
    assert table.count("a:[10.0.0.2 TO 10.1.0.0]") == 2
    assert table.count('a:"::1"') == 1
    for wrong in ("a:10.*.1.*", "a:nowhere", "a:10.0.0.0/99"):
        with pytest.raises(QueryError):
            table.count(wrong)
