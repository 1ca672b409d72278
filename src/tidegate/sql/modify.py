"""The statements that change rows: UPDATE, DELETE, MERGE, TRUNCATE; DROP TABLE and REFRESH TABLE."""

from __future__ import annotations

from dataclasses import replace

from sqlglot.tokenizer_core import TokenType

from tidegate.sql import nodes
from tidegate.sql.dialect import Walk


def update(walk: Walk) -> nodes.Statement:
    walk.need("UPDATE")
    table = walk.table()
    alias = walk.alias()
    walk.need("SET")
    assigned = assignments(walk)
    where = walk.expression("a condition") if walk.take("WHERE") else None
    walk.end()
    return nodes.Update(table, alias, assigned, where)


def assignments(walk: Walk) -> tuple[tuple[str, str], ...]:
    """``c = v, a.b = w``; the columns as Spark reads them, the values as they were written."""
    out = [_assignment(walk)]
    while walk.symbol(TokenType.COMMA):
        out.append(_assignment(walk))
    return tuple(out)


def _assignment(walk: Walk) -> tuple[str, str]:
    column = dotted(walk.parts("a column"))
    walk.need_symbol(TokenType.EQ, "=")
    return column, walk.expression("a value")


def dotted(parts: tuple[str, ...]) -> str:
    """A column's name in Spark's spelling, quoted where a part is odd."""
    return ".".join(p if p.isidentifier() else "`" + p.replace("`", "``") + "`" for p in parts)


def delete(walk: Walk) -> nodes.Statement:
    walk.need("DELETE", "FROM")
    table = walk.table()
    alias = walk.alias()
    where = walk.expression("a condition") if walk.take("WHERE") else None
    walk.end()
    return nodes.Delete(table, alias, where)


def truncate(walk: Walk) -> nodes.Statement:
    walk.need("TRUNCATE", "TABLE")
    node = nodes.Truncate(walk.table())
    if walk.take("PARTITION"):
        node = replace(node, partition=partition_spec(walk))
    walk.end()
    return node


def partition_spec(walk: Walk) -> dict[str, str | None]:
    """``(a = 1, b)``: a value's text, or None where the partition is dynamic."""

    def one() -> tuple[str, str | None]:
        name = walk.identifier("a partition column")
        return name, walk.expression("a value") if walk.symbol(TokenType.EQ) else None

    return dict(walk.listed(one))


def refresh(walk: Walk) -> nodes.Statement:
    walk.need("REFRESH", "TABLE")
    node = nodes.Refresh(walk.table())
    walk.end()
    return node


def drop(walk: Walk) -> nodes.Statement | None:
    walk.need("DROP")
    if not walk.take("TABLE"):
        return None
    if_exists = walk.take("IF", "EXISTS")
    table = walk.table()
    purge = walk.take("PURGE")
    walk.end()
    return nodes.Drop(table, if_exists, purge)


def merge(walk: Walk, common: str = "") -> nodes.Statement:
    """A MERGE, behind ``common`` table expressions that its source may name."""
    walk.need("MERGE")
    evolution = walk.take("WITH", "SCHEMA", "EVOLUTION")
    walk.need("INTO")
    table = walk.table()
    alias = walk.alias()
    walk.need("USING")
    source = _source(walk)
    source_alias = walk.alias()
    walk.need("ON")
    on = walk.expression("the condition of the merge")
    clauses: list[nodes.MergeClause] = []
    while walk.take("WHEN"):
        clauses.append(_clause(walk))
    walk.end()
    if not clauses:
        raise walk.error("Expected WHEN")
    return nodes.Merge(table, alias, source, source_alias, on, tuple(clauses), evolution, common)


def _source(walk: Walk) -> str:
    """The source as it may stand behind FROM: a query in parentheses, or a table with its version."""
    first = walk.here
    if first is not None and first.token_type is TokenType.L_PAREN:
        walk.bracketed()
    else:
        walk.table(travel=True)
        if walk.here is not None and walk.here.token_type is TokenType.L_PAREN:
            walk.bracketed()
    assert first is not None
    return walk.text[first.start : walk.tokens[walk.at - 1].end + 1]


def _clause(walk: Walk) -> nodes.MergeClause:
    kind = "matched"
    if walk.take("NOT", "MATCHED"):
        kind = "not_matched"
        if walk.take("BY", "SOURCE"):
            kind = "not_matched_by_source"
        else:
            walk.take("BY", "TARGET")
    else:
        walk.need("MATCHED")
    condition = walk.expression("a condition") if walk.take("AND") else None
    walk.need("THEN")
    if kind == "not_matched":
        walk.need("INSERT")
        return nodes.MergeClause(kind, "insert", condition, _insert_values(walk))
    if walk.take("DELETE"):
        return nodes.MergeClause(kind, "delete", condition)
    walk.need("UPDATE")
    walk.need("SET")
    if kind == "matched" and walk.symbol(TokenType.STAR):
        return nodes.MergeClause(kind, "update", condition, None)
    return nodes.MergeClause(kind, "update", condition, assignments(walk))


def _insert_values(walk: Walk) -> tuple[tuple[str, str], ...] | None:
    if walk.symbol(TokenType.STAR):
        return None
    columns = [dotted(n) for n in walk.listed(walk.parts)]
    walk.need("VALUES")
    values = walk.listed(walk.expression)
    if len(columns) != len(values):
        raise walk.error(f"Expected {len(columns)} values for {len(columns)} columns, not {len(values)}")
    return tuple(zip(columns, values, strict=True))
