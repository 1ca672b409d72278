"""The fields of an index: which column is searched how, and what that means to tantivy.

A column's kind follows from its type; for strings the user chooses: ``string`` (one exact token, the
default), ``text`` (words), ``json`` or ``ip``. All numbers, dates and timestamps are 64-bit integers or
doubles and keep their exact value: dates count days, timestamps microseconds, decimals units of their
last digit. A mapping is a plain value; its JSON is the ``docMappingJson`` of an add action.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from tidegate.errors import OptionError, SchemaInvalidError
from tidegate.index.settings import Settings, split_names
from tidegate.schema.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructType,
    duplicate_columns,
)

if TYPE_CHECKING:
    import tantivy

KINDS = ("string", "text", "json", "ip")
TOKENIZERS = ("default", "raw", "en_stem", "whitespace")
RECORDS = ("basic", "freq", "position")
LENGTHS = {"tantivy_max": 65530, "default": 255, "legacy": 40, "min": 1}

# The two fields of every split that no column has: which row it is, and which of its columns are null.
ROW, NULLS = "_rid", "_nulls"
# One term of tantivy's dictionary holds no more bytes than these.
MAX_TERM = 65_530
# Decimals up to this precision fit into 64 bits; longer ones are kept as digits that sort.
LONG_DIGITS = 18

_INTEGERS = frozenset({"byte", "short", "integer", "long", "date", "timestamp", "timestamp_ntz"})
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Field:
    """One column of an index table. ``indexed`` and ``stored`` are what may be left out of it."""

    column: str
    type: DataType
    kind: str
    tokenizer: str = "raw"
    record: str = "basic"
    max_token: int = 255
    fast: bool = False
    stored: bool = True
    indexed: bool = True
    # The field's name in the splits, where the column had another name when they were made.
    index_name: str | None = None

    @property
    def name(self) -> str:
        """The field's name in tantivy, whose own syntax not every column name survives."""
        if self.index_name is not None:
            return self.index_name
        if _PLAIN.fullmatch(self.column):
            return self.column
        return "_x" + self.column.encode().hex()

    @property
    def is_words(self) -> bool:
        """Whether values are cut into tokens."""
        return self.kind == "text"

    @property
    def analyzer(self) -> str:
        """The name under which the tokenizer is registered."""
        return "raw" if self.tokenizer == "raw" else f"{self.tokenizer}_{self.max_token}"


@dataclass(frozen=True, slots=True)
class DocMapping:
    """All columns of a table that its splits hold, in the table's order: partition columns are not."""

    fields: tuple[Field, ...]

    def __iter__(self) -> Any:
        return iter(self.fields)

    @property
    def indexed(self) -> tuple[Field, ...]:
        return tuple(f for f in self.fields if f.indexed)

    @property
    def stored(self) -> tuple[Field, ...]:
        return tuple(f for f in self.fields if f.stored)

    def find(self, column: str) -> Field | None:
        exact = next((f for f in self.fields if f.column == column), None)
        folded = column.casefold()
        return exact or next((f for f in self.fields if f.column.casefold() == folded), None)

    def renamed(self, columns: Mapping[str, str]) -> DocMapping:
        """The fields that have a name in ``columns`` (by their name in the index), under that name."""
        return DocMapping(
            tuple(
                f if f.column == columns[f.name] else replace(f, column=columns[f.name], index_name=f.name)
                for f in self.fields
                if f.name in columns
            )
        )

    def to_json(self) -> str:
        return _encode(self)

    def schema(self) -> tantivy.Schema:
        return _schema(self)


# ---------------------------------------------------------------------------- from a schema and options


def kind_of(type: DataType, column: str) -> str:
    """The kind that a type has by itself."""
    if isinstance(type, StructType | ArrayType | MapType):
        return "json"
    if isinstance(type, DecimalType):
        return "integer" if type.precision <= LONG_DIGITS else "string"
    if isinstance(type, PrimitiveType):
        name = type.name
        if name in _INTEGERS:
            return "integer"
        if name in ("float", "double"):
            return "float"
        if name == "boolean":
            return "boolean"
        if name in ("string", "binary") or name.startswith(("char(", "varchar(")):
            return "string"
    raise SchemaInvalidError(
        f"The column {column} has the type {type}, which an index table does not hold.",
        hint="Cast it, or leave it out.",
    )


def is_string(type: DataType) -> bool:
    return isinstance(type, PrimitiveType) and (
        type.name == "string" or type.name.startswith(("char(", "varchar("))
    )


def mapping_for(schema: StructType, partitions: Iterable[str], settings: Settings) -> DocMapping:
    """The fields of a new table: its columns less the partition columns, with the options applied."""
    twice = duplicate_columns(schema)
    if twice:
        raise SchemaInvalidError(f"The data has columns twice: {', '.join(twice)}.")
    aside = {p.casefold() for p in partitions}
    fields = {
        f.column.casefold(): f
        for f in (_default(s.name, s.type) for s in schema.fields if s.name.casefold() not in aside)
    }
    chosen = _Choices(schema, fields, settings)
    return DocMapping(tuple(chosen.apply()))


def _default(column: str, type: DataType) -> Field:
    kind = kind_of(type, column)
    fast = kind in ("integer", "float", "boolean")
    return Field(column, type, kind, fast=fast)


class _Choices:
    """The indexing options of a write, against the columns that they name."""

    def __init__(self, schema: StructType, fields: dict[str, Field], settings: Settings) -> None:
        self._schema, self._fields, self._settings = schema, fields, settings

    def apply(self) -> list[Field]:
        self._kinds()
        self._words()
        self._lengths()
        self._choices()
        return list(self._fields.values())

    def _at(self, column: str, option: str) -> str:
        key = column.casefold()
        if key not in self._fields:
            known = self._schema.field(column)
            what = "is a partition column, which is never indexed" if known else "is not a column of the data"
            raise OptionError(
                f"The option {option} names {column}, which {what}.",
                hint=f"The columns are {', '.join(f.column for f in self._fields.values())}.",
            )
        return key

    def _change(self, column: str, option: str, **changes: Any) -> None:
        key = self._at(column, option)
        self._fields[key] = replace(self._fields[key], **changes)

    def _grouped(self, prefix: str, values: Sequence[str]) -> Iterable[tuple[str, str]]:
        """Pairs of column and value from ``prefix.COLUMN = value`` and ``prefix.VALUE = columns``."""
        for rest, given in self._settings.below(prefix):
            if rest in values and rest not in self._fields:
                yield from ((column, rest) for column in split_names(given))
            elif given.lower() in values:
                yield rest, given.lower()
            else:
                raise OptionError(
                    f"The option {prefix}.{rest} is {given!r}.",
                    hint=f"Write {prefix}.COLUMN = {'|'.join(values)}, or {prefix}.{values[0]} = columns.",
                )

    def _kinds(self) -> None:
        option = "indexing.typemap"
        for column, kind in self._grouped(option, KINDS):
            field = self._fields[self._at(column, option)]
            nested = isinstance(field.type, StructType | ArrayType | MapType)
            if nested and kind == "json":
                continue
            if not is_string(field.type):
                raise OptionError(
                    f"The column {field.column} is {field.type}; only strings can be made {kind}.",
                    hint="Numbers and times have one kind, structs, arrays and maps are json.",
                )
            self._change(column, option, kind=kind, fast=kind == "ip")
        mode = (self._settings.get("indexing.json.mode") or "full").lower()
        if mode not in ("full", "minimal"):
            raise OptionError(f"The option indexing.json.mode is {mode!r}; it is full or minimal.")
        record = (self._settings.get("indexing.text.indexRecordOption") or "position").lower()
        if record not in RECORDS:
            raise OptionError(
                f"indexing.text.indexRecordOption is {record!r}; it is one of {', '.join(RECORDS)}."
            )
        length = self._settings.number("indexing.text.maxTokenLength", 255, least=1)
        for key, field in self._fields.items():
            if field.kind == "text":
                self._fields[key] = replace(field, tokenizer="default", record=record, max_token=length)
            elif field.kind == "json":
                self._fields[key] = replace(
                    field, tokenizer="default", record=record, max_token=length, fast=mode == "full"
                )

    def _words(self) -> None:
        for column, name in self._grouped("indexing.tokenizer", TOKENIZERS):
            self._only_words(column, "indexing.tokenizer", tokenizer=name)
        for column, name in self._grouped("indexing.indexrecordoption", RECORDS):
            self._only_words(column, "indexing.indexrecordoption", record=name)

    def _lengths(self) -> None:
        for rest, columns in self._settings.below("indexing.tokenLength"):
            length = LENGTHS.get(rest) or (int(rest) if rest.isdecimal() else 0)
            if not 1 <= length <= MAX_TERM:
                raise OptionError(
                    f"indexing.tokenLength.{rest} is no length of tokens.",
                    hint=f"Write a number from 1 to {MAX_TERM}, or one of {', '.join(LENGTHS)}.",
                )
            for column in split_names(columns):
                self._only_words(column, "indexing.tokenLength", max_token=length)

    def _only_words(self, column: str, option: str, **changes: Any) -> None:
        field = self._fields[self._at(column, option)]
        if field.kind not in ("text", "json"):
            raise OptionError(
                f"The option {option} names {field.column}, which is a {field.kind} field: it has no words.",
                hint=f"Make it text: indexing.typemap.{field.column} = text.",
            )
        self._change(column, option, **changes)

    def _choices(self) -> None:
        fast = self._settings.names("indexing.fastfields")
        slow = self._settings.names("indexing.nonfastfields")
        unindexed = self._settings.names("indexing.storeonlyfields")
        unstored = self._settings.names("indexing.indexonlyfields")
        for first, second, a, b in (
            (fast, slow, "fastfields", "nonfastfields"),
            (unindexed, unstored, "storeonlyfields", "indexonlyfields"),
        ):
            both = {c.casefold() for c in first} & {c.casefold() for c in second}
            if both:
                raise OptionError(f"indexing.{a} and indexing.{b} both name {', '.join(sorted(both))}.")
        for column in fast:
            self._change(column, "indexing.fastfields", fast=True)
        for column in slow:
            self._change(column, "indexing.nonfastfields", fast=False)
        for column in unindexed:
            self._change(column, "indexing.storeonlyfields", indexed=False, fast=False)
        for column in unstored:
            self._change(column, "indexing.indexonlyfields", stored=False)


# ---------------------------------------------------------------------------- as JSON


def _encode(mapping: DocMapping) -> str:
    items = [
        {
            "name": f.column,
            "type": f.kind,
            "sparkType": f.type.json_value(),
            "tokenizer": f.tokenizer,
            "record": f.record,
            "maxTokenLength": f.max_token,
            "fast": f.fast,
            "stored": f.stored,
            "indexed": f.indexed,
            **({} if f.index_name is None else {"indexName": f.index_name}),
        }
        for f in mapping.fields
    ]
    return msgspec.json.encode(items).decode()


@lru_cache(maxsize=256)
def decode_mapping(text: str) -> DocMapping:
    """The mapping that ``to_json`` wrote."""
    from tidegate.schema.types import parse_type

    try:
        items: list[Mapping[str, Any]] = msgspec.json.decode(text)
        return DocMapping(
            tuple(
                Field(
                    i["name"],
                    parse_type(i["sparkType"]),
                    i["type"],
                    i["tokenizer"],
                    i["record"],
                    i["maxTokenLength"],
                    i["fast"],
                    i["stored"],
                    i["indexed"],
                    i.get("indexName"),
                )
                for i in items
            )
        )
    except (msgspec.DecodeError, KeyError, TypeError) as e:
        raise SchemaInvalidError(
            "The document mapping of a split is not one that this client writes.",
            hint="Splits of other engines are listed, not searched.",
        ) from e


# ---------------------------------------------------------------------------- for tantivy


@lru_cache(maxsize=64)
def _schema(mapping: DocMapping) -> tantivy.Schema:
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field(ROW, fast=True)
    builder.add_text_field(NULLS, tokenizer_name="raw", index_option="basic")
    for f in mapping.indexed:
        if f.kind in ("text", "string"):
            builder.add_text_field(f.name, fast=f.fast, tokenizer_name=f.analyzer, index_option=f.record)
        elif f.kind == "json":
            builder.add_json_field(f.name, fast=f.fast, tokenizer_name=f.analyzer, index_option=f.record)
        elif f.kind == "ip":
            builder.add_ip_addr_field(f.name, indexed=True, fast=f.fast)
        elif f.kind == "float":
            builder.add_float_field(f.name, indexed=True, fast=f.fast)
        elif f.kind == "boolean":
            builder.add_boolean_field(f.name, indexed=True, fast=f.fast)
        else:
            builder.add_integer_field(f.name, indexed=True, fast=f.fast)
    return builder.build()


@lru_cache(maxsize=64)
def analyzer(tokenizer: str, max_token: int) -> tantivy.TextAnalyzer:
    """What cuts a text into tokens, in the index and in a query alike."""
    from tantivy import Filter, TextAnalyzerBuilder, Tokenizer

    if tokenizer == "raw":
        return TextAnalyzerBuilder(Tokenizer.raw()).build()
    if tokenizer == "whitespace":
        return TextAnalyzerBuilder(Tokenizer.whitespace()).filter(Filter.remove_long(max_token + 1)).build()
    builder = TextAnalyzerBuilder(Tokenizer.simple()).filter(Filter.remove_long(max_token + 1))
    builder = builder.filter(Filter.lowercase())
    if tokenizer == "en_stem":
        builder = builder.filter(Filter.stemmer("english"))
    return builder.build()


def register(index: tantivy.Index, mapping: DocMapping) -> None:
    """Tell an index the tokenizers of its fields; tantivy keeps them by name only."""
    raw = analyzer("raw", 255)
    for name, tokenizer, length in {(f.analyzer, f.tokenizer, f.max_token) for f in mapping.indexed}:
        if name != "raw":
            index.register_tokenizer(name, analyzer(tokenizer, length))
            index.register_fast_field_tokenizer(name, raw)
