"""Spark's dialect in sqlglot, extended for Delta: tokens, and a walk over them that keeps the user's text.

The walk reads words, names and literals; where an expression or a type ends is asked of sqlglot's own
rules. Every piece is a span of the statement as it was written. What cannot be read is a syntax error
with its line and column.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from tidegate.commands.marks import marked
from tidegate.errors import SqlSyntaxError, TidegateError
from tidegate.sql.nodes import TableRef

ErrorT = TypeVar("ErrorT", bound=TidegateError)
_QUOTES = "'\"`"


class DeltaSpark(Spark):
    """Spark's SQL in which the words that begin our statements are words like any other."""

    class Tokenizer(Spark.Tokenizer):
        KEYWORDS: ClassVar = {
            **{k: v for k, v in Spark.Tokenizer.KEYWORDS.items() if v is not TokenType.COMMAND},
            "VOID": TokenType.VOID,
        }
        COMMANDS: ClassVar = set()


_DIALECT = DeltaSpark()


def tokens_of(text: str) -> list[Token]:
    """The tokens of a statement, comments left out."""
    try:
        return list(_DIALECT.tokenize(text))
    except SqlglotError as e:
        # A string, a name or a comment does not end; the tokenizer does not say where it begins.
        error = SqlSyntaxError("A string, a quoted name or a comment that begins here does not end.")
        raise at_offset(error, text, unread(text)) from e


def at_offset(error: ErrorT, text: str, offset: int) -> ErrorT:
    """``error`` with the line and column of a place in the statement."""
    before = text[:offset]
    error.line = before.count("\n") + 1
    error.column = offset - (before.rfind("\n") + 1) + 1
    return error


def unread(text: str) -> int:
    """Where the string, quoted name or comment begins that has no end."""
    at = 0
    while at < len(text):
        start = at
        if text[at] in _QUOTES:
            at = _closed(text, at)
        elif text.startswith("--", at):
            at = text.find("\n", at) % (len(text) + 1)
        elif text.startswith("/*", at):
            at = text.find("*/", at + 2) + 1
            at = at + 1 if at else -1
        else:
            at += 1
        if at < 0:
            return start
    return max(len(text) - 1, 0)


def _closed(text: str, at: int) -> int:
    """Behind the quote that closes the one at ``at``; -1 if none does."""
    quote, at = text[at], at + 1
    while at < len(text):
        if text[at] == "\\" and quote != "`":
            at += 1
        elif text[at] == quote:
            return at + 1
        at += 1
    return -1


class Walk:
    """A walk over tokens: words matched one after another, spans taken with sqlglot's own rules."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text = text
        self.tokens = tokens
        self.at = 0
        self.first_table: TableRef | None = None

    @property
    def here(self) -> Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def peek(self, *words: str) -> int:
        """How many tokens the words ahead are, if they stand here; else 0. A token may hold two words."""
        at, seen = self.at, 0
        while seen < len(words):
            token = self.tokens[at] if at < len(self.tokens) else None
            if token is None or token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
                return 0
            parts = token.text.upper().split()
            if not parts or tuple(parts) != words[seen : seen + len(parts)]:
                return 0
            seen += len(parts)
            at += 1
        return at - self.at

    def take(self, *words: str) -> bool:
        """Step over the words if they stand here."""
        count = self.peek(*words)
        self.at += count
        return count > 0

    def need(self, *words: str) -> None:
        if not self.take(*words):
            raise self.error(f"Expected {' '.join(words)}")

    def symbol(self, kind: TokenType) -> bool:
        if self.here is not None and self.here.token_type is kind:
            self.at += 1
            return True
        return False

    def need_symbol(self, kind: TokenType, text: str) -> None:
        if not self.symbol(kind):
            raise self.error(f"Expected {text}")

    def error(self, message: str) -> SqlSyntaxError:
        """A syntax error at the place where the walk stands."""
        token = self.here
        if token is None:
            end = self.tokens[-1].end + 1 if self.tokens else 0
            return at_offset(SqlSyntaxError(f"{message} at the end of the statement."), self.text, end)
        found = self.text[token.start : token.end + 1]
        return at_offset(SqlSyntaxError(f"{message}, found {found!r}."), self.text, token.start)

    def end(self) -> None:
        if self.here is not None:
            raise self.error("Expected the end of the statement")

    # ------------------------------------------------------------------ names and literals

    def identifier(self, what: str = "a name") -> str:
        token = self.here
        named = token is not None and (
            token.token_type in (TokenType.VAR, TokenType.IDENTIFIER)
            or (token.text[:1].isalpha() and token.token_type is not TokenType.STRING)
        )
        if token is None or not named:
            raise self.error(f"Expected {what}")
        self.at += 1
        return token.text

    def parts(self, what: str = "a name") -> tuple[str, ...]:
        out = [self.identifier(what)]
        while self.symbol(TokenType.DOT):
            out.append(self.identifier(what))
        return tuple(out)

    def string(self, what: str) -> str:
        """A string literal; pieces that stand side by side are one."""
        if self.here is None or self.here.token_type is not TokenType.STRING:
            raise self.error(f"Expected {what}")
        first = self.at
        while self.symbol(TokenType.STRING):
            pass
        return "".join(t.text for t in self.tokens[first : self.at])

    def integer(self, what: str) -> int:
        sign = -1 if self.symbol(TokenType.DASH) else 1
        token = self.here
        if token is None or token.token_type is not TokenType.NUMBER or not token.text.isdecimal():
            raise self.error(f"Expected {what}")
        self.at += 1
        return sign * int(token.text)

    def listed(self, one: Callable[[], Any]) -> list[Any]:
        """``(one, one, ...)``."""
        self.need_symbol(TokenType.L_PAREN, "(")
        out = [one()]
        while self.symbol(TokenType.COMMA):
            out.append(one())
        self.need_symbol(TokenType.R_PAREN, ")")
        return out

    # ------------------------------------------------------------------ spans

    def _spanned(self, rule: str, what: str) -> str:
        """The text that a rule of sqlglot's parser takes from here."""
        first = self.here
        if first is None:
            raise self.error(f"Expected {what}")
        parser: Any = DeltaSpark.Parser(error_level=ErrorLevel.IMMEDIATE, dialect=_DIALECT)
        rest = self.tokens[self.at :]
        taken = 0

        def measure(p: Any) -> Any:
            nonlocal taken
            found = getattr(p, rule)()
            taken = p._index if found is not None else 0
            # What follows is ours to read; sqlglot would complain of it.
            p._advance(len(rest) - p._index)
            return found

        try:
            parser._parse(measure, rest, self.text)
        except SqlglotError as e:
            self._step_to(e)
            raise self.error(f"{what[:1].upper() + what[1:]} cannot be read") from e
        if not taken:
            raise self.error(f"Expected {what}")
        self.at += taken
        return self.text[first.start : self.tokens[self.at - 1].end + 1]

    def _step_to(self, error: SqlglotError) -> None:
        """Go to the token that sqlglot stopped at, or the end where it wanted more."""
        told = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
        for at in range(self.at, len(self.tokens)):
            if (self.tokens[at].line, self.tokens[at].col) == (told.get("line"), told.get("col")):
                self.at = at if "Required" not in str(told.get("description")) else at + 1
                return

    def expression(self, what: str = "an expression") -> str:
        return self._spanned("_parse_disjunction", what)

    def default(self) -> str:
        """The default of a column, which NOT NULL may follow: no part of it, unless IS comes before."""
        tokens, depth = self.tokens, 0
        for at in range(self.at, len(tokens) - 1):
            depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(tokens[at].token_type, 0)
            is_not_null = (tokens[at].text.upper(), tokens[at + 1].text.upper()) == ("NOT", "NULL")
            if depth == 0 and is_not_null and tokens[at - 1].text.upper() != "IS":
                self.tokens = tokens[:at]
                break
        try:
            return self.expression("a default")
        finally:
            self.tokens = tokens

    def type(self) -> str:
        # The type of a column that is null alone, which sqlglot does not know.
        return "void" if self.take("VOID") else self._spanned("_parse_types", "a type")

    def bracketed(self) -> str:
        """The text between a pair of parentheses, both left out."""
        first = self.here
        self.need_symbol(TokenType.L_PAREN, "(")
        depth = 1
        while depth:
            token = self.here
            if token is None or first is None:
                raise self.error("Expected )")
            depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
            self.at += 1
        assert first is not None
        return self.text[first.end + 1 : self.tokens[self.at - 1].start].strip()

    def rest(self, what: str) -> str:
        """Everything from here to the end of the statement."""
        if self.here is None:
            raise self.error(f"Expected {what}")
        start = self.here.start
        self.at = len(self.tokens)
        return self.text[start : self.tokens[-1].end + 1]

    # ------------------------------------------------------------------ tables

    def table(self, *, travel: bool = False) -> TableRef:
        """A table's name; a string literal is a path. With ``travel``, the version asked for too."""
        token = self.here
        if token is None:
            raise self.error("Expected a table")
        if token.token_type is TokenType.STRING:
            path = self.string("a path")
            ref = TableRef(("delta", path), token.start, self.tokens[self.at - 1].end, literal=True)
        else:
            parts = self.parts("a table")
            ref = TableRef(parts, token.start, self.tokens[self.at - 1].end)
        self.first_table = self.first_table or ref
        return self.travelled(ref) if travel else ref

    def travelled(self, ref: TableRef) -> TableRef:
        """``ref`` with the version or timestamp that follows it, if one does."""
        version, timestamp = None, None
        if self.here is not None and self.here.token_type is TokenType.PARAMETER and self._touches(ref):
            version, timestamp = self._at_sign()
        else:
            began = self.at
            self.take("FOR")
            self.take("SYSTEM")
            if self.take("VERSION", "AS", "OF") or self.take("SYSTEM_VERSION", "AS", "OF"):
                version = self.expression("a version")
            elif self.take("TIMESTAMP", "AS", "OF") or self.take("SYSTEM_TIME", "AS", "OF"):
                timestamp = self._spanned("_parse_bitwise", "a timestamp")
            else:
                self.at = began
                return ref
        return TableRef(ref.parts, ref.start, self.tokens[self.at - 1].end, version, timestamp)

    def _touches(self, ref: TableRef) -> bool:
        return self.here is not None and self.here.start == ref.end + 1

    def _at_sign(self) -> tuple[str | None, str | None]:
        """``@v12`` or ``@20240131120000000``, written right behind the name."""
        self.at += 1
        token = self.here
        found = marked(token.text) if token is not None else None
        if found is not None:
            self.at += 1
            version, timestamp = found
            return version, None if timestamp is None else f"'{timestamp}'"
        raise self.error("Expected a version such as @v12, or a timestamp such as @20240131120000000")

    def alias(self) -> str | None:
        if self.take("AS"):
            return self.identifier("an alias")
        token = self.here
        if token is not None and token.token_type in DeltaSpark.Parser.TABLE_ALIAS_TOKENS:
            stops = (("SET",), ("USING",), ("WHERE",), ("ON",))
            if not any(self.peek(*s) for s in stops):
                return self.identifier("an alias")
        return None
