"""Reading the statements of index tables: MERGE SPLITS, PURGE INDEXTABLE and their kin.

``INDEXTABLES`` and ``TANTIVY4SPARK`` are one word here, and so are their singulars. A table is a path between
quotes, ``indextables.`/path` `` or a name. What another engine serves and this one has no use for (caches
to warm, profilers) is refused by name.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot.tokenizer_core import TokenType

from tidegate.errors import OptionError
from tidegate.sql import nodes
from tidegate.sql.dialect import Walk, at_offset

_WORDS = ("INDEXTABLES", "INDEXTABLE", "TANTIVY4SPARK", "INDEXFILES")
_FORMATS = ("indextables", "tantivy4spark")


def index_statement(walk: Walk) -> nodes.Statement | None:
    """The statement, if its first words make it one of an index table."""
    if walk.take("MERGE", "SPLITS"):
        return _merge(walk)
    first = walk.here
    if first is None or len(walk.tokens) < 2 or walk.tokens[1].text.upper() not in _WORDS:
        return None
    if len(walk.tokens) > 2 and walk.tokens[2].token_type is TokenType.DOT:
        # A table by its path, in a statement of any table.
        return None
    verb = first.text.upper()
    walk.at = 2
    if verb == "PURGE":
        return _purge(walk)
    if verb == "DROP" and walk.take("PARTITIONS", "FROM"):
        node = nodes.Index(_table(walk), "drop partitions")
        walk.need("WHERE")
        return _ended(walk, replace(node, where=walk.rest("a predicate")))
    if verb in ("CHECKPOINT", "COMPACT"):
        return _ended(walk, nodes.Index(_table(walk), "checkpoint"))
    if verb == "TRUNCATE" and walk.take("TIME", "TRAVEL"):
        node = nodes.Index(_table(walk), "truncate")
        return _ended(walk, replace(node, dry_run=walk.take("DRY", "RUN")))
    if verb in ("DESCRIBE", "DESC") and walk.take("TRANSACTION", "LOG"):
        node = nodes.Index(_table(walk), "describe log")
        return _ended(walk, replace(node, include_all=walk.take("INCLUDE", "ALL")))
    if verb in ("DESCRIBE", "DESC") and walk.take("STATE"):
        return _ended(walk, nodes.Index(_table(walk), "describe state"))
    if verb == "REPAIR":
        return _repair(walk)
    if verb == "BUILD":
        return _build(walk)
    raise at_offset(
        OptionError(
            f"{walk.text[first.start : walk.tokens[-1].end + 1]} is not served.",
            hint="Served are MERGE SPLITS, PURGE, DROP PARTITIONS, CHECKPOINT, TRUNCATE TIME TRAVEL, "
            "DESCRIBE TRANSACTION LOG, DESCRIBE STATE, REPAIR TRANSACTION LOG and BUILD COMPANION.",
        ),
        walk.text,
        first.start,
    )


def _ended(walk: Walk, node: nodes.Index) -> nodes.Index:
    walk.end()
    return node


def _table(walk: Walk) -> nodes.TableRef:
    """A path between quotes, ``indextables.`/path` ``, or a name."""
    ref = walk.table()
    token = walk.tokens[walk.at - 1]
    if token.token_type is TokenType.STRING:
        return replace(ref, parts=(_FORMATS[0], ref.parts[-1]))
    return ref


def index_path(ref: nodes.TableRef) -> str | None:
    """The path that a reference to an index table is, None for a name."""
    if len(ref.parts) == 2 and ref.parts[0].lower() in _FORMATS and "/" in ref.parts[1]:
        return ref.parts[1]
    return None


def _merge(walk: Walk) -> nodes.Index:
    node = nodes.Index(_table(walk), "merge splits")
    if walk.take("WHERE"):
        node = replace(node, where=walk.expression("a predicate"))
    if walk.take("TARGET", "SIZE"):
        node = replace(node, size=_size(walk))
    if walk.take("MAX", "DEST", "SPLITS"):
        node = replace(node, max_dest=walk.integer("a number of splits"))
    if walk.take("MAX", "SOURCE", "SPLITS", "PER", "MERGE"):
        node = replace(node, max_source=walk.integer("a number of splits"))
    if walk.peek("PRECOMMIT"):
        raise at_offset(
            OptionError(
                "MERGE SPLITS ... PRECOMMIT is not served.",
                hint="Leave it out, or write with mergeOnWrite.enabled = true.",
            ),
            walk.text,
            walk.tokens[walk.at].start,
        )
    return _ended(walk, node)


def _size(walk: Walk) -> str:
    """``100M``, which reads as a number and a name, or a whole number of bytes."""
    token = walk.here
    if token is None or token.token_type not in (TokenType.NUMBER, TokenType.VAR, TokenType.STRING):
        raise walk.error("Expected a size such as 100M")
    walk.at += 1
    text, follows = token.text, walk.here
    if (
        follows is not None
        and follows.start == token.end + 1
        and follows.token_type is not TokenType.SEMICOLON
    ):
        walk.at += 1
        text += follows.text
    return text


def _purge(walk: Walk) -> nodes.Index:
    node = nodes.Index(_table(walk), "purge")
    if walk.take("OLDER", "THAN"):
        node = replace(node, hours=_hours(walk))
    if walk.take("TRANSACTION", "LOG", "RETENTION"):
        node = replace(node, log_hours=_hours(walk))
    return _ended(walk, replace(node, dry_run=walk.take("DRY", "RUN")))


def _hours(walk: Walk) -> float:
    count = walk.integer("a number of days or hours")
    if walk.take("DAYS") or walk.take("DAY"):
        return 24.0 * count
    if not walk.take("HOUR"):
        walk.need("HOURS")
    return float(count)


def _repair(walk: Walk) -> nodes.Index:
    walk.need("TRANSACTION", "LOG")
    node = nodes.Index(_table(walk), "repair")
    walk.need("AT", "LOCATION")
    return _ended(walk, replace(node, to=walk.string("a location")))


def _build(walk: Walk) -> nodes.Index:
    walk.need("COMPANION", "FOR", "DELTA")
    node = nodes.Index(walk.table(), "build companion")
    if walk.take("INCLUDE", "COLUMNS"):
        node = replace(node, columns=tuple(walk.listed(lambda: _column(walk))))
    if walk.take("INDEXING", "MODES"):
        node = replace(node, modes=dict(walk.listed(lambda: _mode(walk))))
    walk.need("AT", "LOCATION")
    return _ended(walk, replace(node, to=walk.string("a location")))


def _column(walk: Walk) -> str:
    quoted = walk.here is not None and walk.here.token_type is TokenType.STRING
    return walk.string("a column") if quoted else walk.identifier("a column")


def _mode(walk: Walk) -> tuple[str, str]:
    name = _column(walk)
    walk.need_symbol(TokenType.COLON, ":")
    return name, _column(walk)
