"""Reading the query language into its tree, character by character, with errors that say where.

AND binds tighter than OR and than a mere space; ``+`` and ``-`` count among their neighbours. After a
field's colon everything up to a space is its value, so times and addresses need no quotes but IPv6 does.
"""

from __future__ import annotations

from tidegate.errors import QueryError
from tidegate.index.query import (
    All,
    Bool,
    Boost,
    Exists,
    Node,
    OneOf,
    Range,
    Regex,
    Term,
    Value,
    Wildcard,
    negation,
)


def parse_query(text: str, default_field: str | None = None) -> Node:
    """The tree of a query; ``QueryError`` says where a text stops making sense."""
    if not text.strip():
        raise QueryError("The query is empty.", hint="Write * for every row.")
    try:
        return _Parser(text, default_field).whole()
    except RecursionError:
        raise QueryError("The query is nested too deeply.") from None


# ---------------------------------------------------------------------------- reading

_STOPS = frozenset(' \t\r\n()"^')
_BOUND_STOPS = frozenset(" \t\r\n]}")


class _Parser:
    def __init__(self, text: str, default_field: str | None) -> None:
        self._text = text
        self._at = 0
        self._field = default_field

    # -- characters

    def _peek(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._text[at] if at < len(self._text) else ""

    def _space(self) -> None:
        while self._peek() and self._peek().isspace():
            self._at += 1

    def _word_ahead(self, word: str) -> bool:
        after = self._text[self._at + len(word) : self._at + len(word) + 1]
        return self._text.startswith(word, self._at) and (not after or after.isspace() or after in '("')

    def _take(self, word: str) -> bool:
        if self._word_ahead(word):
            self._at += len(word)
            self._space()
            return True
        return False

    def _wrong(self, what: str, hint: str | None = None) -> QueryError:
        shown = self._text if len(self._text) <= 120 else self._text[:120] + "…"
        return QueryError(
            f"The query {shown!r} cannot be read at character {self._at + 1}: {what}.", hint=hint
        )

    # -- connectives

    def whole(self) -> Node:
        node = self._any()
        self._space()
        if self._peek():
            raise self._wrong(f"{self._peek()!r} closes nothing")
        return node

    def _any(self) -> Node:
        """What OR joins, or nothing but a space; ``+`` and ``-`` count among their neighbours here."""
        must: list[Node] = []
        should: list[Node] = []
        never: list[Node] = []
        first = True
        while True:
            self._space()
            if not self._peek() or self._peek() == ")":
                break
            if not first and (self._take("OR") or self._take("||")) and self._peek() in ("", ")"):
                raise self._wrong("OR is followed by nothing")
            sign, node = self._all()
            {"+": must, "-": never, "": should}[sign].append(node)
            first = False
        if first:
            raise self._wrong("there is nothing between the brackets" if self._peek() else "it ends too soon")
        if not must and not never and len(should) == 1:
            return should[0]
        return Bool(tuple(must), tuple(should), tuple(never))

    def _all(self) -> tuple[str, Node]:
        sign, node = self._signed()
        parts = [(sign, node)]
        self._space()
        while self._take("AND") or self._take("&&"):
            parts.append(self._signed())
            self._space()
        if len(parts) == 1:
            return parts[0]
        must = [n for s, n in parts if s != "-"]
        return "", Bool(must=tuple(must), never=tuple(n for s, n in parts if s == "-"))

    def _signed(self) -> tuple[str, Node]:
        self._space()
        if self._peek() in ("+", "-") and self._peek(1) and not self._peek(1).isspace():
            sign = self._peek()
            self._at += 1
            return sign, self._unary()
        return "", self._unary()

    def _unary(self) -> Node:
        self._space()
        if self._take("NOT"):
            return negation(self._unary())
        if self._peek() == "!" and self._peek(1):
            self._at += 1
            return negation(self._unary())
        return self._boosted(self._primary())

    def _boosted(self, node: Node) -> Node:
        if self._peek() != "^":
            return node
        self._at += 1
        text = self._until(_STOPS)
        try:
            factor = float(text)
        except ValueError:
            raise self._wrong(f"{text!r} after ^ is no number") from None
        return Boost(node, factor)

    # -- leaves

    def _primary(self) -> Node:
        char = self._peek()
        if not char or char == ")":
            raise self._wrong("it ends too soon" if not char else "a bracket closes too early")
        for operator in ("AND", "OR"):
            if self._word_ahead(operator):
                raise self._wrong(f"{operator} has nothing on its left")
        if char == "(":
            return self._group(self._field)
        if char == "*" and (not self._peek(1) or self._peek(1) in " )"):
            self._at += 1
            return All() if self._field is None else Exists(self._field)
        if self._text.startswith("*:*", self._at):
            self._at += 3
            return All()
        name = self._field_name()
        if name is not None:
            return self._of_field(name)
        return self._value(self._field)

    def _group(self, field: str | None) -> Node:
        self._at += 1
        before, self._field = self._field, field
        node = self._any()
        self._field = before
        if self._peek() != ")":
            raise self._wrong("a bracket is not closed")
        self._at += 1
        return node

    def _field_name(self) -> str | None:
        """The name before a colon, if that is what comes; the colon is taken with it."""
        start = self._at
        name = ""
        while char := self._peek():
            if char == "`":
                end = self._text.find("`", self._at + 1)
                if end < 0:
                    raise self._wrong("a backquote is not closed")
                name += self._text[self._at + 1 : end].replace(".", "\\.")
                self._at = end + 1
            elif char == "\\" and self._peek(1):
                name += "\\." if self._peek(1) == "." else self._peek(1)
                self._at += 2
            elif char == ":" and name:
                self._at += 1
                return name
            elif char in _STOPS or char in ":[]{}/~*?":
                break
            else:
                name += char
                self._at += 1
        self._at = start
        return None

    def _of_field(self, name: str) -> Node:
        self._space()
        char = self._peek()
        if char == "(":
            return self._group(name)
        if char in ("[", "{"):
            return self._range(name)
        if char in (">", "<"):
            return self._compared(name)
        if self._text.startswith("IN", self._at) and self._text[self._at + 2 :].lstrip()[:1] == "[":
            return self._one_of(name)
        if char == "*" and (not self._peek(1) or self._peek(1) in " )"):
            self._at += 1
            return Exists(name)
        return self._value(name)

    def _range(self, name: str) -> Node:
        include_low = self._peek() == "["
        self._at += 1
        low = self._bound()
        self._space()
        if not self._take("TO"):
            raise self._wrong("a range has TO between its bounds", "Write field:[a TO b].")
        high = self._bound()
        self._space()
        if self._peek() not in ("]", "}"):
            raise self._wrong("a range is not closed", "Write field:[a TO b] or field:{a TO b}.")
        include_high = self._peek() == "]"
        self._at += 1
        return Range(name, low, high, include_low, include_high)

    def _bound(self) -> str | None:
        self._space()
        if self._peek() == '"':
            return self._quoted()
        text = self._until(_BOUND_STOPS)
        if not text:
            raise self._wrong("a bound is missing", "Write * where there is none.")
        return None if text == "*" else text

    def _compared(self, name: str) -> Node:
        operator = self._peek()
        self._at += 1
        if self._peek() == "=":
            operator += "="
            self._at += 1
        self._space()
        bound = self._quoted() if self._peek() == '"' else self._until(frozenset(" \t\r\n()^"))
        if not bound and self._text[self._at - 1 : self._at] != '"':
            raise self._wrong(f"{operator} is followed by nothing")
        if operator[0] == ">":
            return Range(name, bound, None, include_low=operator == ">=")
        return Range(name, None, bound, include_high=operator == "<=")

    def _one_of(self, name: str) -> Node:
        self._at = self._text.index("[", self._at) + 1
        values: list[Value] = []
        while True:
            self._space()
            while self._peek() == ",":
                self._at += 1
                self._space()
            if not self._peek():
                raise self._wrong("the list after IN is not closed")
            if self._peek() == "]":
                self._at += 1
                return OneOf(name, tuple(values))
            if self._peek() == '"':
                values.append(self._quoted())
            else:
                word = self._until(frozenset(" \t\r\n],"))
                values.append(word)

    def _value(self, field: str | None) -> Node:
        if self._peek() == '"':
            text = self._quoted()
            slop, prefix = 0, False
            if self._peek() == "~":
                self._at += 1
                digits = self._until(_STOPS)
                if not digits.isdecimal():
                    raise self._wrong("~ after a phrase is followed by a number of words")
                slop = int(digits)
            elif self._peek() == "*":
                self._at += 1
                prefix = True
            return Term(field, text, quoted=True, slop=slop, prefix=prefix)
        if self._peek() == "/":
            return self._regex(field)
        return self._word(field)

    def _regex(self, field: str | None) -> Node:
        end = self._at + 1
        while end < len(self._text) and self._text[end] != "/":
            end += 2 if self._text[end] == "\\" else 1
        if end >= len(self._text):
            raise self._wrong("a regular expression is not closed", "Write a plain / as \\/.")
        pattern = self._text[self._at + 1 : end].replace("\\/", "/")
        self._at = end + 1
        return Regex(field, pattern)

    def _word(self, field: str | None) -> Node:
        start = self._at
        parts: list[tuple[str, str]] = []
        fuzzy: int | None = None
        stops = _STOPS if field is not None else _STOPS | {":"}
        while (char := self._peek()) and char not in stops:
            if char == "\\" and self._peek(1):
                self._at += 1
                _extend(parts, self._peek())
            elif char in "*?":
                parts.append(("many" if char == "*" else "one", ""))
            elif char == "~" and parts:
                self._at += 1
                digits = self._until(_STOPS)
                if digits and not digits.isdecimal():
                    raise self._wrong("~ after a word is followed by a distance, 0 to 2")
                fuzzy = int(digits) if digits else 1
                break
            else:
                _extend(parts, char)
            self._at += 1
        if not parts:
            raise self._wrong(
                f"{self._peek()!r} is not expected here" if self._peek() else "it ends too soon"
            )
        if self._peek() == ":":
            raise self._wrong("a colon is not expected here", "Quote the value, or write \\:.")
        if any(kind != "text" for kind, _ in parts):
            if fuzzy is not None:
                self._at = start
                raise self._wrong("a pattern cannot be fuzzy as well")
            return Wildcard(field, tuple(parts))
        return Term(field, parts[0][1], fuzzy=fuzzy)

    def _quoted(self) -> str:
        out = ""
        self._at += 1
        while (char := self._peek()) != '"':
            if not char:
                raise self._wrong("a quote is not closed")
            if char == "\\" and self._peek(1):
                self._at += 1
                char = self._peek()
            out += char
            self._at += 1
        self._at += 1
        return out

    def _until(self, stops: frozenset[str]) -> str:
        out = ""
        while (char := self._peek()) and char not in stops:
            if char == "\\" and self._peek(1):
                self._at += 1
                char = self._peek()
            out += char
            self._at += 1
        return out


def _extend(parts: list[tuple[str, str]], char: str) -> None:
    if parts and parts[-1][0] == "text":
        parts[-1] = ("text", parts[-1][1] + char)
    else:
        parts.append(("text", char))
