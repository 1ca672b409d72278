"""The statements that define and fill tables: CREATE, REPLACE, INSERT, SHOW."""

from __future__ import annotations

from dataclasses import replace

from sqlglot.tokenizer_core import TokenType

from tidegate.errors import SqlSyntaxError
from tidegate.schema.paths import join_path
from tidegate.sql import nodes
from tidegate.sql.dialect import Walk, at_offset
from tidegate.sql.modify import dotted, partition_spec

_RESERVED = {
    "provider": "USING says it",
    "location": "LOCATION says it",
    "owner": "it is who makes the table",
    "external": "a table with a LOCATION is external",
}


def create(walk: Walk) -> nodes.Statement | None:
    """``CREATE [OR REPLACE] TABLE`` and ``REPLACE TABLE``; views, functions and the like are Spark's."""
    mode = "replace"
    if walk.take("CREATE"):
        mode = "create_or_replace" if walk.take("OR", "REPLACE") else "create"
    else:
        walk.need("REPLACE")
    if walk.take("TEMPORARY") or walk.take("TEMP") or walk.take("GLOBAL", "TEMPORARY"):
        return _temporary(walk)
    walk.take("EXTERNAL")
    if not walk.take("TABLE"):
        return None
    if_not_exists = mode == "create" and walk.take("IF", "NOT", "EXISTS")
    if walk.peek("IF", "NOT", "EXISTS"):
        raise walk.error("What is replaced may exist: expected a name")
    node = nodes.Create(walk.table(), mode, if_not_exists)
    if walk.take("SHALLOW", "CLONE"):
        node = replace(node, clone=walk.table(travel=True))
    elif walk.take("LIKE"):
        node = replace(node, like=walk.table(travel=True))
    elif walk.here is not None and walk.here.token_type is TokenType.L_PAREN:
        node = replace(node, columns=tuple(walk.listed(lambda: column(walk))))
    while walk.here is not None and not _is_query(walk):
        node = _clause(walk, node)
    if walk.here is not None:
        walk.take("AS")
        node = replace(node, query=walk.rest("a query"))
    return node


def _temporary(walk: Walk) -> nodes.Create | None:
    """``TEMPORARY TABLE`` or ``VIEW ... USING``, as far as the format."""
    if not (walk.take("TABLE") or walk.take("VIEW")):
        return None
    walk.take("IF", "NOT", "EXISTS")
    table = walk.table()
    if walk.here is not None and walk.here.token_type is TokenType.L_PAREN:
        walk.bracketed()
    if not walk.take("USING"):
        return None
    return nodes.Create(table, using=".".join(walk.parts("a format")).lower(), temporary=True)


def _is_query(walk: Walk) -> bool:
    return any(walk.peek(w) for w in ("AS", "SELECT", "WITH", "VALUES", "FROM", "TABLE")) or (
        walk.here is not None and walk.here.token_type is TokenType.L_PAREN
    )


def _clause(walk: Walk, node: nodes.Create) -> nodes.Create:
    """One clause of CREATE TABLE; they come in any order."""
    if walk.take("USING"):
        return replace(node, using=".".join(walk.parts("a format")).lower())
    if walk.take("PARTITIONED", "BY"):
        names, columns = _partitioned(walk, node)
        return replace(node, partitioned=names, columns=columns)
    if walk.take("CLUSTER", "BY"):
        return replace(node, clustered=_clustering(walk))
    if walk.take("COMMENT"):
        return replace(node, comment=walk.string("a comment"))
    if walk.take("LOCATION"):
        return replace(node, location=walk.string("a location"))
    if walk.take("OPTIONS"):
        said = properties(walk)
        path = next((k for k in said if k.lower() == "path"), None)
        node = node if path is None else replace(node, location=said.pop(path))
        return replace(node, properties={**node.properties, **said})
    if walk.take("TBLPROPERTIES"):
        return replace(node, properties={**node.properties, **table_properties(walk)})
    if walk.take("CLUSTERED", "BY"):
        walk.bracketed()
        if walk.take("SORTED", "BY"):
            walk.bracketed()
        walk.need("INTO")
        walk.integer("a number of buckets")
        walk.need("BUCKETS")
        return replace(node, bucketed=True)
    raise walk.error("Expected a clause of CREATE TABLE")


def _clustering(walk: Walk) -> tuple[str, ...]:
    if walk.take("NONE"):
        return ()
    return tuple(join_path(p) for p in walk.listed(walk.parts))


def _partitioned(walk: Walk, node: nodes.Create) -> tuple[tuple[str, ...], tuple[nodes.ColumnDef, ...]]:
    """Partition columns by name; with a type, as Hive has it, they are columns of their own."""
    names: list[str] = []
    columns = list(node.columns)

    def one() -> None:
        name = walk.identifier("a partition column")
        names.append(name)
        follows = walk.here
        if follows is not None and follows.token_type not in (TokenType.COMMA, TokenType.R_PAREN):
            columns.append(nodes.ColumnDef((name,), walk.type()))

    walk.listed(one)
    return tuple(names), tuple(columns)


def properties(walk: Walk) -> dict[str, str]:
    """``('k' = 'v', a.b = 3)``; values may be strings, numbers or true and false."""

    def one() -> tuple[str, str]:
        key = property_key(walk)
        walk.symbol(TokenType.EQ)
        token = walk.here
        if token is None:
            raise walk.error("Expected a value")
        if token.token_type is TokenType.STRING:
            return key, walk.string("a value")
        sign = "-" if walk.symbol(TokenType.DASH) else ""
        token = walk.here
        if token is None or token.token_type in (TokenType.R_PAREN, TokenType.COMMA):
            raise walk.error("Expected a value")
        walk.at += 1
        return key, sign + token.text

    return dict(walk.listed(one))


def table_properties(walk: Walk) -> dict[str, str]:
    """``TBLPROPERTIES (...)``, in which nothing may be said that a clause of its own says."""
    return {unreserved(walk, key): value for key, value in properties(walk).items()}


def unreserved(walk: Walk, key: str) -> str:
    """The key of a property, unless Spark keeps it for itself."""
    if key in _RESERVED:
        refused = SqlSyntaxError(
            f"{key} is no property that can be set: {_RESERVED[key]}.",
            errorClass="UNSUPPORTED_FEATURE.SET_TABLE_PROPERTY",
        )
        raise at_offset(refused, walk.text, walk.tokens[walk.at - 1].start)
    return key


def property_key(walk: Walk) -> str:
    if walk.here is not None and walk.here.token_type is TokenType.STRING:
        return walk.string("a property")
    parts = [walk.identifier("a property")]
    while walk.symbol(TokenType.DOT) or walk.symbol(TokenType.DASH):
        joint = walk.tokens[walk.at - 1].text
        parts.append(joint + walk.identifier("a property"))
    return "".join(parts)


def column(walk: Walk) -> nodes.ColumnDef:
    """``name type [NOT NULL] [DEFAULT v] [GENERATED ...] [COMMENT 'c'] [FIRST | AFTER c]``."""
    name = walk.parts("a column")
    walk.symbol(TokenType.COLON)
    node = nodes.ColumnDef(name, walk.type())
    while walk.here is not None and walk.here.token_type not in (TokenType.COMMA, TokenType.R_PAREN):
        if walk.take("NOT", "NULL"):
            node = replace(node, nullable=False)
        elif walk.take("NULL"):
            node = replace(node, nullable=True)
        elif walk.take("DEFAULT"):
            node = replace(node, default=walk.default())
        elif walk.take("COMMENT"):
            node = replace(node, comment=walk.string("a comment"))
        elif walk.take("GENERATED"):
            node = _generated(walk, node)
        elif walk.peek("FIRST") or walk.peek("AFTER"):
            node = replace(node, position=position(walk))
        else:
            raise walk.error("Expected NOT NULL, DEFAULT, GENERATED or COMMENT")
    return node


def position(walk: Walk) -> str | None:
    """FIRST, or AFTER a column, if either stands here."""
    if walk.take("FIRST"):
        return "first"
    return "after " + dotted((walk.identifier("a column"),)) if walk.take("AFTER") else None


def _generated(walk: Walk, node: nodes.ColumnDef) -> nodes.ColumnDef:
    always = walk.take("ALWAYS")
    if not always:
        walk.need("BY", "DEFAULT")
    walk.need("AS")
    if not walk.take("IDENTITY"):
        if not always:
            raise walk.error("Expected IDENTITY, for a value by default has no expression")
        return replace(node, generated=walk.bracketed())
    start, step = 1, 1
    if walk.symbol(TokenType.L_PAREN):
        while not walk.symbol(TokenType.R_PAREN):
            if walk.take("START", "WITH") or walk.take("START"):
                start = walk.integer("a first value")
            elif walk.take("INCREMENT", "BY") or walk.take("INCREMENT"):
                step = walk.integer("a step")
            else:
                raise walk.error("Expected START WITH, INCREMENT BY or )")
            walk.symbol(TokenType.COMMA)
    return replace(node, identity=nodes.Identity(always, start, step))


def insert(walk: Walk, common: str = "") -> nodes.Statement | None:
    """``INSERT [WITH SCHEMA EVOLUTION] INTO|OVERWRITE [TABLE] t ... query``, behind ``common``.

    These are common table expressions that the query may name.
    """
    walk.need("INSERT")
    evolution = walk.take("WITH", "SCHEMA", "EVOLUTION")
    overwrite = walk.take("OVERWRITE")
    if not overwrite:
        walk.need("INTO")
    elif walk.peek("DIRECTORY") or walk.peek("LOCAL", "DIRECTORY"):
        return _into_directory(walk)
    walk.take("TABLE")
    node = nodes.Insert(walk.table(), overwrite, evolution=evolution)
    if walk.take("PARTITION"):
        node = replace(node, partition=partition_spec(walk))
        node = replace(node, if_not_exists=walk.take("IF", "NOT", "EXISTS"))
    if walk.take("REPLACE", "WHERE"):
        node = replace(node, replace_where=walk.expression("a predicate"))
    elif walk.take("BY", "NAME"):
        node = replace(node, by_name=True)
    elif walk.here is not None and walk.here.token_type is TokenType.L_PAREN and not _opens_query(walk):
        node = replace(node, columns=tuple(walk.listed(walk.identifier)))
    return replace(node, query=common + walk.rest("a query"))


def _into_directory(walk: Walk) -> nodes.Statement | None:
    """``INSERT OVERWRITE [LOCAL] DIRECTORY '/path' USING delta``; one of another format is Spark's."""
    walk.take("LOCAL")
    walk.need("DIRECTORY")
    if walk.here is None or walk.here.token_type is not TokenType.STRING:
        return None
    node = nodes.Insert(walk.table(), overwrite=True, directory=True)
    return node if walk.take("USING", "DELTA") else None


def _opens_query(walk: Walk) -> bool:
    """Whether the parenthesis here holds a query, not a list of columns."""
    ahead = Walk(walk.text, walk.tokens)
    ahead.at = walk.at
    while ahead.symbol(TokenType.L_PAREN):
        pass
    return any(ahead.peek(w) for w in ("SELECT", "WITH", "VALUES", "FROM"))


def show(walk: Walk) -> nodes.Statement | None:
    walk.need("SHOW")
    if walk.take("PARTITIONS"):
        node = nodes.Show(walk.table(), "partitions")
        if walk.take("PARTITION"):
            return None
    elif walk.take("COLUMNS"):
        if not walk.take("IN"):
            walk.need("FROM")
        node = nodes.Show(walk.table(), "columns")
        if walk.take("IN") or walk.take("FROM"):
            return None
    elif walk.take("TBLPROPERTIES"):
        node = nodes.Show(walk.table(), "tblproperties")
        if walk.symbol(TokenType.L_PAREN):
            node = replace(node, key=property_key(walk))
            walk.need_symbol(TokenType.R_PAREN, ")")
    elif walk.take("CREATE", "TABLE"):
        node = nodes.Show(walk.table(), "create table")
        if walk.take("AS", "SERDE"):
            return None
    else:
        return None
    walk.end()
    return node
