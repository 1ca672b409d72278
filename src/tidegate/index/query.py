"""The query language: what a user writes, as a small frozen tree.

It is tantivy's, with its gaps closed: words and "phrases" (``~2`` slop, ``*`` prefix), ``field:value``,
AND OR NOT + - and brackets, ``[a TO b]`` and ``{a TO b}``, ``> >= < <=``, ``IN [a b]``, ``wor*`` and
``w?rd``, ``word~1`` (fuzzy), ``/regex/``, ``field:*`` (has a value), ``10.0.0.0/8`` on addresses, paths
into JSON (``payload.user.name:ann``) and ``^2`` (boost). Two words side by side mean OR.
A backslash takes the meaning from the next character; a column with odd letters stands in backquotes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Typed:
    """A value that comes from a program, not from text: taken as it is."""

    value: Any


Value = str | Typed


class Node:
    """A condition on rows; true or false, never null."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class All(Node):
    """Every row."""


@dataclass(frozen=True, slots=True)
class Nothing(Node):
    """No row."""


@dataclass(frozen=True, slots=True)
class Term(Node):
    """A word, a phrase or a value; without a field it is looked for in every text field."""

    field: str | None
    value: Value
    quoted: bool = False
    slop: int = 0
    prefix: bool = False
    fuzzy: int | None = None


@dataclass(frozen=True, slots=True)
class Wildcard(Node):
    """A pattern: texts, with None for ``*`` and a dot for ``?`` between them."""

    field: str | None
    parts: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        return "".join("*" if kind == "many" else "?" if kind == "one" else t for kind, t in self.parts)


@dataclass(frozen=True, slots=True)
class Regex(Node):
    field: str | None
    pattern: str


@dataclass(frozen=True, slots=True)
class Range(Node):
    """Between two bounds; None is no bound."""

    field: str
    low: Value | None
    high: Value | None
    include_low: bool = True
    include_high: bool = True


@dataclass(frozen=True, slots=True)
class OneOf(Node):
    field: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Exists(Node):
    """The column is not null; of a JSON path: it is there."""

    field: str


@dataclass(frozen=True, slots=True)
class Bool(Node):
    """All of ``must``, none of ``never``, and one of ``should`` unless there is a ``must``."""

    must: tuple[Node, ...] = ()
    should: tuple[Node, ...] = ()
    never: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Boost(Node):
    node: Node
    factor: float


def conjunction(nodes: list[Node]) -> Node:
    return nodes[0] if len(nodes) == 1 else Bool(must=tuple(nodes)) if nodes else All()


def negation(node: Node) -> Node:
    return Bool(never=(node,))


def with_field(node: Node, field: str) -> Node:
    """The tree with every word that has no field of its own looked for in ``field``."""
    if isinstance(node, Term | Wildcard | Regex):
        return node if node.field is not None else replace(node, field=field)
    if isinstance(node, Bool):
        return Bool(
            tuple(with_field(n, field) for n in node.must),
            tuple(with_field(n, field) for n in node.should),
            tuple(with_field(n, field) for n in node.never),
        )
    if isinstance(node, Boost):
        return Boost(with_field(node.node, field), node.factor)
    return node


def fields_of(node: Node) -> set[str]:
    """Every field that a query names."""
    if isinstance(node, Bool):
        return {f for n in (*node.must, *node.should, *node.never) for f in fields_of(n)}
    if isinstance(node, Boost):
        return fields_of(node.node)
    found = getattr(node, "field", None)
    return {found} if found is not None else set()
