"""ALTER TABLE: one change of a table's metadata, protocol or constraints."""

from __future__ import annotations

from dataclasses import replace

from sqlglot.tokenizer_core import TokenType

from tidegate.sql import nodes
from tidegate.sql.define import column, position, property_key, table_properties, unreserved
from tidegate.sql.dialect import Walk

# What ALTER COLUMN may say of several columns at once.
_LISTED = ("column type", "column comment", "column position", "column nullable", "column default")


def alter(walk: Walk) -> nodes.Statement | None:
    """The change, ``other`` if no Delta table takes it; None for RENAME TO, which is the catalog's alone."""
    walk.need("ALTER", "TABLE")
    node = nodes.Alter(walk.table())
    for words, read in (
        (("ADD",), _add),
        (("DROP",), _drop),
        (("RENAME", "COLUMN"), _rename),
        (("SET",), _set),
        (("UNSET",), _unset),
        (("ALTER",), _column),
        (("CHANGE",), _column),
        (("CLUSTER", "BY"), _cluster),
        (("REPLACE", "COLUMNS"), _replace_columns),
    ):
        began = walk.at
        if walk.take(*words):
            found = read(walk, node)
            if found is not None:
                walk.end()
                return found
            walk.at = began
    if walk.peek("RENAME", "TO"):
        return None
    return replace(node, action="other", text=walk.rest("a change"))


def comment(walk: Walk) -> nodes.Statement | None:
    """``COMMENT ON TABLE t IS 'text'``, or NULL for none."""
    walk.need("COMMENT", "ON", "TABLE")
    node = nodes.Alter(walk.table(), "set properties")
    walk.need("IS")
    text = "" if walk.take("NULL") else walk.string("a comment")
    walk.end()
    return replace(node, properties={"comment": text})


def _add(walk: Walk, node: nodes.Alter) -> nodes.Alter | None:
    if walk.take("CONSTRAINT"):
        name = walk.identifier("a name")
        walk.need("CHECK")
        return replace(node, action="add constraint", name=(name,), text=walk.bracketed())
    if walk.take("FEATURE"):
        return replace(node, action="add feature", name=(_feature(walk),))
    if walk.take("COLUMNS") or walk.take("COLUMN"):
        bracket = walk.here is not None and walk.here.token_type is TokenType.L_PAREN
        found = walk.listed(lambda: column(walk)) if bracket else _columns(walk)
        return replace(node, action="add columns", columns=tuple(found))
    return None


def _columns(walk: Walk) -> list[nodes.ColumnDef]:
    out = [column(walk)]
    while walk.symbol(TokenType.COMMA):
        out.append(column(walk))
    return out


def _feature(walk: Walk) -> str:
    """A feature's name; some have a hyphen in them."""
    if walk.here is not None and walk.here.token_type is TokenType.STRING:
        return walk.string("a feature")
    return property_key(walk)


def _drop(walk: Walk, node: nodes.Alter) -> nodes.Alter | None:
    if walk.take("CONSTRAINT"):
        if_exists = walk.take("IF", "EXISTS")
        return replace(
            node, action="drop constraint", name=(walk.identifier("a constraint"),), flag=if_exists
        )
    if walk.take("FEATURE"):
        name = _feature(walk)
        return replace(node, action="drop feature", name=(name,), flag=walk.take("TRUNCATE", "HISTORY"))
    if walk.take("COLUMNS") or walk.take("COLUMN"):
        if_exists = walk.take("IF", "EXISTS")
        bracket = walk.here is not None and walk.here.token_type is TokenType.L_PAREN
        names = walk.listed(walk.parts) if bracket else _names(walk)
        return replace(node, action="drop columns", names=tuple(names), flag=if_exists)
    return None


def _names(walk: Walk) -> list[tuple[str, ...]]:
    out = [walk.parts("a column")]
    while walk.symbol(TokenType.COMMA):
        out.append(walk.parts("a column"))
    return out


def _rename(walk: Walk, node: nodes.Alter) -> nodes.Alter:
    name = walk.parts("a column")
    walk.need("TO")
    return replace(node, action="rename column", name=name, to=(walk.identifier("a new name"),))


def _set(walk: Walk, node: nodes.Alter) -> nodes.Alter | None:
    if walk.take("TBLPROPERTIES"):
        return replace(node, action="set properties", properties=table_properties(walk))
    if walk.take("LOCATION"):
        return replace(node, action="set location", text=walk.string("a location"))
    return None


def _unset(walk: Walk, node: nodes.Alter) -> nodes.Alter | None:
    if not walk.take("TBLPROPERTIES"):
        return None
    if_exists = walk.take("IF", "EXISTS")
    keys = walk.listed(lambda: (unreserved(walk, property_key(walk)),))
    return replace(node, action="unset properties", names=tuple(keys), flag=if_exists)


def _cluster(walk: Walk, node: nodes.Alter) -> nodes.Alter:
    if walk.take("NONE"):
        return replace(node, action="cluster by")
    return replace(node, action="cluster by", names=tuple(walk.listed(walk.parts)))


def _replace_columns(walk: Walk, node: nodes.Alter) -> nodes.Alter:
    return replace(node, action="replace columns", columns=tuple(walk.listed(lambda: column(walk))))


def _column(walk: Walk, node: nodes.Alter) -> nodes.Alter:
    """``ALTER|CHANGE [COLUMN] c`` with a type, comment, place, default, null or identity; or a list of it."""
    walk.take("COLUMN")
    found = [_altered(walk, node)]
    while found[0].action in _LISTED and walk.symbol(TokenType.COMMA):
        found.append(_altered(walk, node))
        if found[-1].action not in _LISTED:
            raise walk.error("Expected a change that may stand beside others")
    return replace(node, action="columns", each=tuple(found)) if found[0].action in _LISTED else found[0]


def _altered(walk: Walk, node: nodes.Alter) -> nodes.Alter:
    node = replace(node, name=walk.parts("a column"))
    if walk.take("TYPE"):
        return replace(node, action="column type", text=walk.type())
    if walk.take("COMMENT"):
        return replace(node, action="column comment", text=walk.string("a comment"))
    if walk.peek("FIRST") or walk.peek("AFTER"):
        return replace(node, action="column position", text=position(walk))
    if walk.take("SET", "NOT", "NULL"):
        return replace(node, action="column nullable", flag=False)
    if walk.take("DROP", "NOT", "NULL"):
        return replace(node, action="column nullable", flag=True)
    if walk.take("SET", "DEFAULT"):
        return replace(node, action="column default", text=walk.expression("a default"))
    if walk.take("DROP", "DEFAULT"):
        return replace(node, action="column default", text=None)
    if walk.take("SYNC", "IDENTITY"):
        return replace(node, action="sync identity")
    # Hive's form: the old name, the new one, the type, a comment and a place.
    new = walk.identifier("TYPE, COMMENT, FIRST, AFTER, SET, DROP or SYNC IDENTITY")
    return replace(node, action="column change", to=(new,), columns=(_changed(walk, new),))


def _changed(walk: Walk, name: str) -> nodes.ColumnDef:
    out = nodes.ColumnDef((name,), walk.type())
    if walk.take("COMMENT"):
        out = replace(out, comment=walk.string("a comment"))
    return replace(out, position=position(walk))
