"""The statements that look after a table: VACUUM, OPTIMIZE, REORG, RESTORE, CONVERT, GENERATE, DESCRIBE."""

from __future__ import annotations

from dataclasses import replace

from sqlglot.tokenizer_core import TokenType

from tidegate.schema.paths import join_path
from tidegate.sql import nodes
from tidegate.sql.dialect import Walk

# What a VACUUM takes once each.
_CLAUSES = (("FULL",), ("LITE",), ("RETAIN",), ("DRY", "RUN"), ("USING", "INVENTORY"))


def vacuum(walk: Walk) -> nodes.Statement:
    """``VACUUM t`` and its modifiers, in any order, each at most once."""
    walk.need("VACUUM")
    walk.take("TABLE")
    node = nodes.Vacuum(walk.table())
    while walk.here is not None:
        if node.mode is None and (walk.peek("FULL") or walk.peek("LITE")):
            node = replace(node, mode=walk.identifier().lower())
        elif node.retain_hours is None and walk.take("RETAIN"):
            node = replace(node, retain_hours=_number(walk))
            walk.need("HOURS")
        elif not node.dry_run and walk.take("DRY", "RUN"):
            node = replace(node, dry_run=True)
        elif node.inventory is None and walk.take("USING", "INVENTORY"):
            node = replace(node, inventory=_source(walk))
        else:
            wrong = walk.error("Expected FULL, LITE, USING INVENTORY, RETAIN n HOURS or DRY RUN")
            if any(walk.peek(*clause) for clause in _CLAUSES):
                wrong.errorClass = "DUPLICATE_CLAUSES"
            raise wrong
    return node


def _number(walk: Walk) -> float:
    sign = -1.0 if walk.symbol(TokenType.DASH) else 1.0
    token = walk.here
    if token is None or token.token_type is not TokenType.NUMBER:
        raise walk.error("Expected a number")
    walk.at += 1
    return sign * float(token.text)


def _source(walk: Walk) -> str:
    """A table or a query in parentheses, as something that may stand behind FROM."""
    if walk.here is not None and walk.here.token_type is TokenType.L_PAREN:
        return f"({walk.bracketed()})"
    return walk.table().name


def optimize(walk: Walk) -> nodes.Statement:
    walk.need("OPTIMIZE")
    walk.take("TABLE")
    node = nodes.Optimize(walk.table())
    if walk.take("FULL"):
        node = replace(node, full=True)
    if walk.take("WHERE"):
        node = replace(node, where=walk.expression("a predicate"))
    if walk.take("ZORDER", "BY"):
        bracket = walk.here is not None and walk.here.token_type is TokenType.L_PAREN
        names = walk.listed(walk.parts) if bracket else _names(walk)
        node = replace(node, zorder=tuple(join_path(n) for n in names))
    walk.end()
    return node


def _names(walk: Walk) -> list[tuple[str, ...]]:
    out = [walk.parts("a column")]
    while walk.symbol(TokenType.COMMA):
        out.append(walk.parts("a column"))
    return out


def reorg(walk: Walk) -> nodes.Statement:
    walk.need("REORG")
    walk.take("TABLE")
    node = nodes.Reorg(walk.table())
    if walk.take("WHERE"):
        node = replace(node, where=walk.expression("a predicate"))
    walk.need("APPLY")
    node = replace(node, action=" ".join(walk.bracketed().upper().split()))
    walk.end()
    return node


def restore(walk: Walk) -> nodes.Statement:
    walk.need("RESTORE")
    walk.take("TABLE")
    table = walk.table()
    walk.take("TO")
    table = walk.travelled(table)
    if table.version is None and table.timestamp is None:
        raise walk.error("Expected VERSION AS OF or TIMESTAMP AS OF")
    walk.end()
    return nodes.Restore(table)


def convert(walk: Walk) -> nodes.Statement:
    walk.need("CONVERT", "TO", "DELTA")
    node = nodes.Convert(walk.table())
    if walk.take("NO", "STATISTICS"):
        node = replace(node, statistics=False)
    if walk.take("PARTITIONED", "BY"):
        node = replace(node, partition_schema=walk.bracketed())
    walk.end()
    return node


def generate(walk: Walk) -> nodes.Statement:
    walk.need("GENERATE")
    mode = walk.identifier("the kind of manifest")
    walk.need("FOR", "TABLE")
    node = nodes.Generate(walk.table(), mode)
    walk.end()
    return node


def describe(walk: Walk) -> nodes.Statement | None:
    """``DESCRIBE DETAIL|HISTORY`` are Delta's; ``DESCRIBE [TABLE] [EXTENDED] t`` is ours for our tables."""
    if not walk.take("DESCRIBE"):
        walk.need("DESC")
    if walk.take("DETAIL"):
        node = nodes.Describe(walk.table(), "detail")
    elif walk.take("HISTORY"):
        node = nodes.Describe(walk.table(), "history")
        if walk.take("LIMIT"):
            if walk.here is not None and walk.here.token_type is TokenType.DASH:
                raise walk.error("Expected a number of versions")
            node = replace(node, limit=walk.integer("a number of versions"))
    else:
        for other in ("FUNCTION", "DATABASE", "SCHEMA", "NAMESPACE", "CATALOG", "QUERY", "PROCEDURE"):
            if walk.peek(other):
                return None
        walk.take("TABLE")
        extended = walk.take("EXTENDED") or walk.take("FORMATTED")
        if walk.here is None or walk.peek("SELECT") or walk.peek("WITH") or walk.peek("VALUES"):
            return None
        node = nodes.Describe(walk.table(), "extended" if extended else "table")
        if walk.here is not None and not walk.peek("PARTITION") and not walk.peek("AS"):
            node = replace(node, what="column", column=walk.identifier("a column"))
        if walk.here is not None:
            return None
    walk.end()
    return node
