"""SQL expressions as trees, through sqlglot's parser of Spark's dialect.

A text that cannot be read is a ``ParseError`` of sqlglot's, and nothing else: Spark shows some expressions in
words that are no SQL (``Map(mode -> FAILFAST)``), over which the parser itself falls.
"""

from __future__ import annotations

from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError


def tree_of(sql: str) -> Any:
    """The tree of one expression."""
    try:
        return sqlglot.parse_one(sql, read="spark", into=exp.Condition)
    except (AttributeError, LookupError, TypeError, ValueError) as e:
        raise ParseError(f"The parser fell over {sql[:200]!r}.") from e
