"""From a query's tree to tantivy's own queries, for the fields of one split.

Words are cut by the very tokenizer that cut the text, values are encoded as the rows were, and a partition
column, which no split holds, answers by the value its split has. What a field's kind cannot answer is
refused with the remedy; what is answered is answered exactly.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tidegate.errors import QueryError
from tidegate.index import ranges
from tidegate.index.constants import check, holds
from tidegate.index.encode import ELEMENT, encode_number
from tidegate.index.fields import NULLS, DocMapping, Field, analyzer, register
from tidegate.index.names import Names
from tidegate.index.query import (
    All,
    Bool,
    Boost,
    Exists,
    Node,
    Nothing,
    OneOf,
    Range,
    Regex,
    Term,
    Typed,
    Wildcard,
)
from tidegate.index.values import (
    address,
    as_text,
    as_value,
    folded,
    integer_bounds,
    json_bound,
    networks,
    readings,
)
from tidegate.schema.types import DecimalType

if TYPE_CHECKING:
    import tantivy


def validate(node: Node, names: Names) -> None:
    """Refuse a query that some split would refuse, before any split is looked at."""
    Compiler(names, _empty_index(names.mapping), None).compile(node)


@lru_cache(maxsize=32)
def _empty_index(mapping: DocMapping) -> tantivy.Index:
    import tantivy

    index = tantivy.Index(mapping.schema())
    register(index, mapping)
    return index


class Compiler:
    """Compiles for one split: its index, its mapping, and the values its partition columns have."""

    def __init__(self, names: Names, index: tantivy.Index, constants: Mapping[str, Any] | None) -> None:
        import tantivy

        self._t = tantivy
        self._q = tantivy.Query
        self._names = names
        self._index = index
        # The index's own: a field is known by its place in it, and a split may have more than are asked for.
        self._schema = index.schema
        self._constants = constants

    def compile(self, node: Node) -> tantivy.Query:
        if isinstance(node, All):
            return self._q.all_query()
        if isinstance(node, Nothing):
            return self._q.empty_query()
        if isinstance(node, Bool):
            return self._bool(node)
        if isinstance(node, Boost):
            return self._q.boost_query(self.compile(node.node), node.factor)
        return self._leaf(node)

    def _bool(self, node: Bool) -> tantivy.Query:
        occur = self._t.Occur
        parts = [(occur.Must, self.compile(n)) for n in node.must]
        parts += [(occur.Should, self.compile(n)) for n in node.should]
        never = [(occur.MustNot, self.compile(n)) for n in node.never]
        if not parts:
            parts = [(occur.Must, self._q.all_query())]
        return self._q.boolean_query(parts + never)

    def _leaf(self, node: Node) -> tantivy.Query:
        name: str | None = getattr(node, "field", None)
        if name is None:
            found = [self._of_field(node, f, "") for f in self._defaults(node)]
            return found[0] if len(found) == 1 else self._any_of(found)
        field, partition, path = self._names.find(name)
        if field is None:
            column = self._names.partitions.field(partition)
            assert column is not None
            if self._constants is None:
                check(node, column)
                return self._q.all_query()
            answer = holds(node, column, self._constants.get(partition))
            return self._q.all_query() if answer else self._q.empty_query()
        return self._of_field(node, field, path)

    def _defaults(self, node: Node) -> list[Field]:
        """The default fields; a phrase is looked for in those of them that keep positions."""
        fields = self._names.defaults()
        if isinstance(node, Term) and node.quoted:
            return [f for f in fields if f.kind != "text" or f.record == "position"] or fields
        return fields

    def _any_of(self, queries: list[tantivy.Query]) -> tantivy.Query:
        return self._q.boolean_query([(self._t.Occur.Should, q) for q in queries])

    def _all_of(self, queries: list[tantivy.Query]) -> tantivy.Query:
        return self._q.boolean_query([(self._t.Occur.Must, q) for q in queries])

    def _of_field(self, node: Node, field: Field, path: str) -> tantivy.Query:
        if isinstance(node, Range) and node.low is None and node.high is None:
            node = Exists(field.column)
        if isinstance(node, Exists) and not path:
            null = self._q.term_query(self._schema, NULLS, field.name)
            occur = self._t.Occur
            return self._q.boolean_query([(occur.Must, self._q.all_query()), (occur.MustNot, null)])
        if isinstance(node, OneOf):
            if not node.values:
                return self._q.empty_query()
            return self._any_of(
                [self._of_field(Term(None, v, quoted=True), field, path) for v in node.values]
            )
        if field.kind == "json":
            return self._json(node, field, path or ELEMENT)
        if field.kind == "text":
            return self._text(node, field, field.name)
        if field.kind == "string" and not isinstance(field.type, DecimalType):
            return self._string(node, field)
        if field.kind == "ip":
            return self._ip(node, field)
        return self._number(node, field)

    # ------------------------------------------------------------------ words

    def _text(self, node: Node, field: Field, name: str) -> tantivy.Query:
        if isinstance(node, Term):
            return self._words(node, field, name)
        if isinstance(node, Wildcard):
            return self._q.regex_query(self._schema, name, ranges.pattern(folded(node.parts, field)))
        if isinstance(node, Regex):
            return self._regex(name, node.pattern)
        raise QueryError(
            f"The column {field.column} is a text field: its words have no order to compare by.",
            hint=f"Make it exact: indexing.typemap.{field.column} = string.",
        )

    def _words(self, node: Term, field: Field, name: str) -> tantivy.Query:
        text = str(node.value.value if isinstance(node.value, Typed) else node.value)
        tokens = [
            (t.position, t.text) for t in analyzer(field.tokenizer, field.max_token).pre_tokenize(text).tokens
        ]
        if not tokens:
            return self._q.empty_query()
        if node.fuzzy is not None:
            if len(tokens) != 1:
                raise QueryError(f"A fuzzy search is for one word; {text!r} has {len(tokens)}.")
            return self._fuzzy(name, tokens[0][1], node.fuzzy)
        if node.prefix:
            return self._phrase_prefix(field, name, [t for _, t in tokens])
        if len(tokens) == 1:
            return self._q.term_query(self._schema, name, tokens[0][1], index_option=field.record)
        if field.record == "position":
            first = tokens[0][0]
            return self._q.phrase_query(self._schema, name, [(p - first, t) for p, t in tokens], node.slop)
        if node.quoted:
            raise self._no_positions(field)
        return self._all_of(
            [self._q.term_query(self._schema, name, t, index_option=field.record) for _, t in tokens]
        )

    def _phrase_prefix(self, field: Field, name: str, words: list[str]) -> tantivy.Query:
        """By regular expressions: tantivy's own prefix phrase looks at no more than fifty words."""
        last = ranges.escape(words[-1]) + ranges.ANY + "*"
        if len(words) == 1:
            return self._q.regex_query(self._schema, name, last)
        if field.record != "position":
            raise self._no_positions(field)
        return self._q.regex_phrase_query(self._schema, name, [*map(ranges.escape, words[:-1]), last])

    def _no_positions(self, field: Field) -> QueryError:
        return QueryError(
            f"The column {field.column} keeps no positions (it records {field.record}); a phrase needs them.",
            hint="Join the words by AND, or index it with indexrecordoption.position.",
        )

    def _fuzzy(self, name: str, text: str, distance: int) -> tantivy.Query:
        if distance > 2:
            raise QueryError(f"A fuzzy search allows a distance of 0, 1 or 2; this one asks for {distance}.")
        return self._q.fuzzy_term_query(self._schema, name, text, distance, True, False)

    def _regex(self, name: str, pattern: str) -> tantivy.Query:
        try:
            return self._q.regex_query(self._schema, name, pattern)
        except ValueError as e:
            raise QueryError(f"The regular expression {pattern!r} cannot be used: {e}") from e

    # ------------------------------------------------------------------ exact strings

    def _string(self, node: Node, field: Field) -> tantivy.Query:
        name = field.name
        if isinstance(node, Term):
            text = as_text(node.value, field)
            if node.fuzzy is not None:
                return self._fuzzy(name, text, node.fuzzy)
            if node.prefix:
                return self._q.regex_query(self._schema, name, ranges.escape(text) + ranges.ANY + "*")
            return self._q.term_query(self._schema, name, text, index_option="basic")
        if isinstance(node, Wildcard):
            return self._q.regex_query(self._schema, name, ranges.pattern(node.parts))
        if isinstance(node, Regex):
            return self._regex(name, node.pattern)
        assert isinstance(node, Range)
        low = None if node.low is None else as_text(node.low, field)
        high = None if node.high is None else as_text(node.high, field)
        return self._between(field, low, high, node.include_low, node.include_high)

    def _between(
        self, field: Field, low: str | None, high: str | None, lowest: bool, highest: bool
    ) -> tantivy.Query:
        for bound in (low, high):
            if (
                bound is not None
                and len(bound) > ranges.MAX_BOUND
                and not isinstance(field.type, DecimalType)
            ):
                raise QueryError(
                    f"A bound of a range of {field.column} has {len(bound)} characters; the index "
                    f"compares no more than {ranges.MAX_BOUND}.",
                    hint="Use a shorter bound and filter the result with where().",
                )
        alphabet = ranges.DIGITS if isinstance(field.type, DecimalType) else ranges.ANY
        parts = []
        if low is not None:
            parts.append(ranges.above(low, lowest, alphabet))
        if high is not None:
            expression = ranges.below(high, highest, alphabet)
            if not expression:
                return self._q.empty_query()
            parts.append(expression)
        return self._all_of([self._q.regex_query(self._schema, field.name, p) for p in parts])

    # ------------------------------------------------------------------ numbers and times

    def _number(self, node: Node, field: Field) -> tantivy.Query:
        if isinstance(node, Term):
            if node.fuzzy is not None or node.prefix or node.slop:
                raise self._not_words(field)
            value = (
                encode_number(as_value(node.value, field), field)
                if field.kind != "boolean"
                else as_value(node.value, field)
            )
            if value is None:
                return self._q.empty_query()
            return self._q.term_query(self._schema, field.name, value, index_option="basic")
        if not isinstance(node, Range):
            raise self._not_words(field)
        low = None if node.low is None else as_value(node.low, field)
        high = None if node.high is None else as_value(node.high, field)
        if field.kind == "boolean":
            return self._booleans(field, low, high, node)
        if field.kind == "float":
            return self._native_range(
                field, self._t.FieldType.Float, None if low is None else float(low) + 0.0,
                None if high is None else float(high) + 0.0, node.include_low, node.include_high,
            )  # fmt: skip
        found = integer_bounds(low, high, node.include_low, node.include_high, field)
        if found is None:
            return self._q.empty_query()
        first, last = found
        if field.kind == "string":
            return self._digits(field, first, last)
        return self._native_range(field, self._t.FieldType.Integer, first, last, True, True)

    def _native_range(
        self, field: Field, kind: Any, low: Any, high: Any, lowest: bool, highest: bool
    ) -> tantivy.Query:
        return self._q.range_query(
            self._schema,
            field.name,
            kind,
            low,
            high,
            lowest or low is None,
            highest or high is None,
            use_inverted_index=not field.fast,
        )

    def _digits(self, field: Field, first: int | None, last: int | None) -> tantivy.Query:
        """Long decimals are forty digits: a range of them is one of strings."""
        offset = 10**38
        low = None if first is None else f"{first + offset:040d}"
        high = None if last is None else f"{last + offset:040d}"
        return self._between(field, low, high, True, True)

    def _booleans(self, field: Field, low: Any, high: Any, node: Range) -> tantivy.Query:
        found = []
        for value in (False, True):
            after = low is None or value > low or (node.include_low and value == low)
            before = high is None or value < high or (node.include_high and value == high)
            if after and before:
                found.append(self._q.term_query(self._schema, field.name, value, index_option="basic"))
        return self._any_of(found) if found else self._q.empty_query()

    def _not_words(self, field: Field) -> QueryError:
        return QueryError(
            f"The column {field.column} is {field.type}: it has values and ranges, not patterns of words.",
            hint=f"Write {field.column}:VALUE or {field.column}:[A TO B].",
        )

    # ------------------------------------------------------------------ addresses

    def _ip(self, node: Node, field: Field) -> tantivy.Query:
        if isinstance(node, Term) and node.fuzzy is None:
            low, high = networks(as_text(node.value, field), field)
        elif isinstance(node, Wildcard):
            low, high = networks(node.text, field)
        elif isinstance(node, Range):
            low = "::" if node.low is None else address(as_text(node.low, field), field)
            high = (
                str(ipaddress.IPv6Address((1 << 128) - 1))
                if node.high is None
                else address(as_text(node.high, field), field)
            )
            return self._native_range(
                field, self._t.FieldType.IpAddr, low, high, node.include_low or node.low is None,
                node.include_high or node.high is None,
            )  # fmt: skip
        else:
            raise self._not_words(field)
        if low == high:
            return self._q.term_query(self._schema, field.name, low, index_option="basic")
        return self._native_range(field, self._t.FieldType.IpAddr, low, high, True, True)

    # ------------------------------------------------------------------ JSON

    def _json(self, node: Node, field: Field, path: str) -> tantivy.Query:
        name = f"{field.name}.{path}"
        if isinstance(node, Exists):
            self._needs_fast(field, "whether a path is there")
            return self._q.exists_query(name, True)
        if isinstance(node, Term):
            return self._json_term(node, field, name)
        if isinstance(node, Range):
            self._needs_fast(field, "ranges")
            return self._json_range(node, field, name)
        raise QueryError(
            f"Patterns are not looked for inside the JSON column {field.column}.",
            hint="Search a whole word, or extract the path into a column of its own.",
        )

    def _needs_fast(self, field: Field, what: str) -> None:
        if not field.fast:
            raise QueryError(
                f"The JSON column {field.column} was indexed without fast paths, which {what} need.",
                hint="Write the table with indexing.json.mode = full.",
            )

    def _json_term(self, node: Term, field: Field, name: str) -> tantivy.Query:
        found = [self._words(node, field, name)]
        if node.fuzzy is None and not node.prefix:
            for value in readings(node.value):
                found.append(self._q.term_query(self._schema, name, value))
        return self._any_of(found)

    def _json_range(self, node: Range, field: Field, name: str) -> tantivy.Query:
        bounds = [None if b is None else json_bound(b, field) for b in (node.low, node.high)]
        if any(isinstance(b, float) for b in bounds):
            bounds = [None if b is None else float(b) if not isinstance(b, str) else b for b in bounds]
        low, high = ("*" if b is None else repr(b) if isinstance(b, float) else str(b) for b in bounds)
        opening = "[" if node.include_low or node.low is None else "{"
        closing = "]" if node.include_high or node.high is None else "}"
        text = re.sub(r"([^\w.\\-])", r"\\\1", name)
        try:
            return self._index.parse_query(f"{text}:{opening}{low} TO {high}{closing}", [])
        except ValueError as e:
            raise QueryError(f"The range of {field.column} cannot be searched: {e}") from e
