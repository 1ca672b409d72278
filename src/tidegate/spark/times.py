"""One time for a command of several queries: what asks for the current time gets the same answer in each.

On a classic session the time is put into the plans. On Spark Connect the plan is the server's; there it is
put into the texts and columns that a command was given, and a frame asks for the time on its own.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from typing import Any

import sqlglot
from pyspark.sql import DataFrame
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from tidegate.spark.jvm import compiled, gateway_of, is_connect

# What asks for the current time, and the type that the answer is cast to.
_NOW = {
    "current_timestamp": None,
    "now": None,
    "current_date": "DATE",
    "curdate": "DATE",
    "localtimestamp": "TIMESTAMP_NTZ",
    "unix_timestamp": "BIGINT",
}
# These need no parentheses.
_BARE = frozenset({"current_timestamp", "current_date", "localtimestamp"})


def now_micros() -> int:
    """The current time in microseconds since 1970."""
    return time.time_ns() // 1000


def pinned(frame: DataFrame, micros: int) -> DataFrame:
    """The frame with ``micros`` for the current time, wherever its plan asks for it.

    Rows that Spark holds in its cache stay what they are.
    """
    spark = frame.sparkSession
    if is_connect(spark):
        return frame
    times = compiled(spark, "CurrentTimes.java")
    execution = frame._jdf.queryExecution()
    if times.at(execution.analyzed(), str(micros)) is None:
        return frame
    plan = times.at(execution.withCachedData(), str(micros))
    if plan is None:
        return frame
    made = gateway_of(spark).org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan)
    return DataFrame(made, spark)


def in_text(text: str, micros: int, taken: Collection[str] = ()) -> str:
    """SQL in which ``micros`` stands for the current time; a bare word that is the name of a column stays."""
    try:
        tokens = sqlglot.tokenize(text, read="spark")
    except SqlglotError:
        return text
    out, at = [], 0
    for start, end, name in _asked(tokens, {t.casefold() for t in taken}):
        out.append(text[at:start] + _written(name, micros))
        at = end + 1
    return "".join([*out, text[at:]])


def in_function(name: str, arguments: int, micros: int) -> str | None:
    """The SQL that stands for a call of a function, None if it does not ask for the current time."""
    return _written(name.lower(), micros) if not arguments and name.lower() in _NOW else None


def _asked(tokens: Any, taken: Collection[str]) -> Iterator[tuple[int, int, str]]:
    """Where a text asks for the current time: from, to, by which name."""
    for i, token in enumerate(tokens):
        name = token.text.casefold()
        if name not in _NOW or token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            continue
        if i and tokens[i - 1].token_type is TokenType.DOT:
            continue
        behind = [t.token_type for t in tokens[i + 1 : i + 3]]
        if behind == [TokenType.L_PAREN, TokenType.R_PAREN]:
            yield token.start, tokens[i + 2].end, name
        elif behind[:1] not in ([TokenType.L_PAREN], [TokenType.DOT]) and name in _BARE and name not in taken:
            yield token.start, token.end, name


def _written(name: str, micros: int) -> str:
    moment = f"timestamp_micros({micros})"
    kind = _NOW[name]
    return moment if kind is None else f"CAST({moment} AS {kind})"
