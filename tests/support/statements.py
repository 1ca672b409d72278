"""Statements that two engines run over copies of one table: DELETE, UPDATE and MERGE in many shapes.

Each is Python that both understand: ``t`` is the table, ``s`` the source, ``F`` the functions. ``SOURCE`` is
the source of those that name none. The table has nested columns, nulls, and a row deleted.
"""

from __future__ import annotations

from dataclasses import dataclass

COLUMNS = (
    "id long, p int, s string, n struct<a: long, b: struct<c: string, d: int>>, "
    "arr array<struct<x: int, y: string>>, m map<string, struct<v: int>>, d date, dec decimal(10, 2), q int"
)


def rows(name: str) -> list[str]:
    """SQL that fills the table ``name``: twenty rows, six without most values, one deleted."""
    return [
        f"insert into {name} select /*+ coalesce(1) */ id, cast(id % 3 as int), "
        "if(id = 7, null, concat('s', id)), "
        "if(id = 8, null, named_struct('a', id, 'b', named_struct('c', 'c', 'd', cast(id as int)))), "
        "array(named_struct('x', cast(id as int), 'y', 'y')), map('k', named_struct('v', cast(id as int))), "
        "date_add(date'2026-01-01', cast(id as int)), cast(id as decimal(10, 2)), "
        "if(id % 5 = 0, null, cast(id as int)) from range(20)",
        f"insert into {name} select /*+ coalesce(1) */ id, cast(id % 3 as int), concat('s', id), "
        "null, null, null, null, null, null from range(20, 26)",
        f"delete from {name} where id = 11",
    ]


def source(columns: str, of: str = "range(5, 35, 3)") -> str:
    """A source as Python: columns over some ids."""
    return f'spark.sql("select {columns} from {of}").alias("s")'


_DATA = (
    "id, cast(id % 3 as int) p, concat('n', id) s, "
    "named_struct('a', id, 'b', named_struct('c', 'z', 'd', 1)) n, "
    "array(named_struct('x', 1, 'y', 'n')) arr, map('j', named_struct('v', 2)) m, date'2026-05-05' d, "
    "cast(1.5 as decimal(10, 2)) dec, 3 q"
)
SOURCE = source(_DATA)


@dataclass(frozen=True)
class Statement:
    """What is run, and on which source."""

    code: str
    source: str = SOURCE


def _merge(clauses: str, on: str = "t.id = s.id", of: str = SOURCE, evolves: bool = False) -> Statement:
    evolution = ".withSchemaEvolution()" if evolves else ""
    return Statement(f't.merge(s, "{on}"){evolution}{clauses}.execute()', of)


_DELETES = {
    "equality": "id = 3",
    "several values": "id in (1, 5, 7, 25)",
    "null": "null",
    "true": "true",
    "is null": "q is null",
    "null-safe": "q <=> null",
    "a nested field": "n.b.d > 10",
    "a nested null": "n.b.c is null",
    "an element": "arr[0].x = 4",
    "a value of a map": "m['k'].v = 6",
    "a partition": "p in (0, 2)",
    "a partition and data": "p = 1 and id > 10",
    "a partition or data": "p = 1 or id = 3",
    "a function of a partition": "p + 1 = 2",
    "dates": "d < '2026-01-05'",
    "decimals": "dec >= 7.5",
    "like": "s like 's1%'",
    "another case": "ID > 15 and S is not null",
    "not": "not (q > 3)",
    "nothing": "id = 1000",
    "a cast": "cast(id as string) between '1' and '3'",
}
_UPDATES = {
    "one column": ("id = 3", {"s": "'x'"}),
    "to null": ("id < 4", {"s": "null", "n": "null", "q": "null"}),
    "columns by each other": ("id > 4", {"q": "cast(id as int)", "s": "cast(q as string)"}),
    "nested fields": ("id < 9", {"n.b.d": "n.b.d + 1", "n.a": "0"}),
    "a struct by name": ("id < 3", {"n": "named_struct('b', named_struct('d', 1, 'c', 'u'), 'a', 2L)"}),
    "casts": ("id < 5", {"s": "id", "q": "'7'", "dec": "1"}),
    "an array": ("id < 5", {"arr": "array(named_struct('x', 9, 'y', null))"}),
    "a map": ("id < 5", {"m": "map('a', named_struct('v', 1), 'b', null)"}),
    "the partition": ("p = 2", {"p": "0"}),
    "the partition to null": ("p = 2", {"p": "null"}),
    "another case": ("ID = 5", {"S": "upper(S)"}),
    "quoted names": ("`id` = 5", {"`s`": "'b'", "n.`a`": "5"}),
    "nothing": ("id = 999", {"s": "'x'"}),
    "never": ("q > 3 and null", {"s": "'x'"}),
    "by the alias": ("t.id = 5", {"t.s": "t.s || t.id"}),
    "to the same": ("id = 5", {"s": "s"}),
    "a date from text": ("id = 5", {"d": "'2026-02-02'"}),
    "a subquery": ("id < 5", {"q": "q + (select max(id) from range(9))"}),
}
_ALL, _NEW, _GONE = ".whenMatchedUpdateAll()", ".whenNotMatchedInsertAll()", ".whenMatchedDelete()"
_NO_ROWS = source(_DATA, "range(0)")
_TWICE = "(select id, 1 w from range(5) union all select id, 2 w from range(5))"
_MERGES = {
    "upsert": _merge(_ALL + _NEW),
    "update": _merge(_ALL),
    "insert": _merge(_NEW),
    "delete": _merge(_GONE),
    "delete or insert": _merge(_GONE + _NEW),
    "upsert by key and partition": _merge(_ALL + _NEW, "t.id = s.id and t.p = s.p"),
    "insert some": _merge('.whenNotMatchedInsertAll("s.id > 30")'),
    "insert some columns": _merge('.whenNotMatchedInsert(values={"id": "s.id", "n": "s.n"})'),
    "two inserts": _merge(
        '.whenNotMatchedInsert("s.id % 2 = 0", {"id": "s.id", "s": "\'even\'"})'
        '.whenNotMatchedInsert(values={"id": "s.id", "p": "7"})'
    ),
    "update some": _merge('.whenMatchedUpdate("s.id > 10", {"s": "s.s", "q": "t.q + s.q"})' + _NEW),
    "delete some, update the rest": _merge('.whenMatchedDelete("s.id % 2 = 0")' + _ALL),
    "many clauses": _merge(
        '.whenMatchedUpdate("s.id = 5", {"s": "\'five\'"}).whenMatchedDelete("s.id = 8")'
        '.whenMatchedUpdate("s.id = 14", {"n.b.c": "\'deep\'"}).whenMatchedDelete("t.q is null")'
        '.whenNotMatchedInsert("s.id = 29", {"id": "s.id"}).whenNotMatchedInsertAll("s.id = 32")',
    ),
    "by source delete": _merge(".whenNotMatchedBySourceDelete()"),
    "by source update": _merge(".whenNotMatchedBySourceUpdate(set={'s': \"'gone'\"})"),
    "by source and all others": _merge(
        _ALL + _NEW + ".whenNotMatchedBySourceDelete('t.id < 4')"
        ".whenNotMatchedBySourceUpdate('t.q is null', {'q': '0', 's': 't.s'})",
    ),
    "by source in a partition": _merge(_ALL + ".whenNotMatchedBySourceDelete('t.p = 1')"),
    "never": _merge(_ALL + _NEW, "false"),
    "replace all rows": _merge(".whenNotMatchedBySourceDelete()" + _NEW, "1 = 0"),
    "no source": _merge(_ALL + _NEW, of=_NO_ROWS),
    "no source, by source": _merge(_ALL + _NEW + ".whenNotMatchedBySourceDelete('t.id > 20')", of=_NO_ROWS),
    "null keys": _merge(
        '.whenMatchedUpdate(set={"s": "\'m\'"}).whenNotMatchedInsert(values={"id": "s.id"})',
        "t.q = s.q",
        source("id, if(id % 2 = 0, null, cast(id as int)) q"),
    ),
    "null-safe keys": _merge(
        _GONE, "t.q <=> s.q", source("id, if(id = 5, null, cast(id as int)) q", "range(5, 9)")
    ),
    "several deletes of a row": _merge(_GONE, of=source("id, w", _TWICE)),
    "several matches": _merge(_ALL, of=source(_DATA, _TWICE)),
    "texts as keys": _merge(
        '.whenMatchedUpdate(set={"s": "s.v"})', "t.s = s.k", source("concat('s', id) k, 'v' v")
    ),
    "keys of another type": _merge(
        '.whenMatchedUpdate(set={"s": "s.v"}).whenNotMatchedInsert(values={"id": "s.k", "s": "s.v"})',
        "t.id = s.k",
        source("cast(id as string) k, 'v' v"),
    ),
    "a range": _merge(
        '.whenMatchedUpdate(set={"s": "\'r\'"})',
        "t.id between s.lo and s.lo + 1",
        source("id lo", "range(3, 20, 5)"),
    ),
    "a condition on the table": _merge(_ALL + _NEW, "t.id = s.id and t.q > 4"),
    "a condition on the source": _merge(_ALL + _NEW, "t.id = s.id and s.q > 14"),
    "one partition": _merge(_ALL + _NEW, "t.id = s.id and t.p = 2"),
    "a function of the key": _merge(_GONE, "upper(t.s) = upper(s.s)", source("concat('S', id) s")),
    "a nested key": _merge(_GONE, "t.n.b.d = s.k", source("cast(id as int) k")),
    "dates as keys": _merge(
        _GONE + '.whenNotMatchedInsert(values={"d": "s.d"})',
        "t.d = s.d",
        source("date_add(date'2026-01-01', cast(id as int)) d"),
    ),
    "decimals as keys": _merge(
        _GONE + '.whenNotMatchedInsert(values={"dec": "s.k"})',
        "t.dec = s.k",
        source("cast(id as decimal(12, 1)) k"),
    ),
    "another case": _merge('.whenMatchedUpdate(set={"S": "S.S"})' + _NEW, "T.ID = S.ID"),
    "names without an alias": _merge(
        '.whenMatchedUpdate(set={"s": "v"}).whenNotMatchedInsert(values={"id": "k"})',
        "id = k",
        source("id k, 'v' v"),
    ),
    "nested fields": _merge('.whenMatchedUpdate(set={"n.a": "s.id * 10", "n.b.c": "s.s"})'),
    "structs by name": _merge(
        '.whenMatchedUpdate(set={"n": "s.n"}).whenNotMatchedInsert(values={"id": "s.id", "n": "s.n"})',
        of=source("id, named_struct('b', named_struct('d', 4, 'c', 'k'), 'a', cast(2 as int)) n"),
    ),
    "columns that the table lacks": _merge(_ALL + _NEW, of=SOURCE.replace("3 q", "3 q, 1 extra")),
    "literals": _merge(
        '.whenMatchedUpdate(set={"q": "1"}).whenNotMatchedInsert(values={"id": "1000", "s": "null"})'
    ),
    "nothing to do": _merge('.whenMatchedUpdate("s.id > 1000", {"s": "null"})'),
    "columns that the source lacks": _merge(_ALL + _NEW, of=source("id, 's' s")),
    "fields that the table lacks": _merge(_ALL, of=SOURCE.replace("'d', 1", "'d', 1, 'e', 2")),
    "fields that the source lacks": _merge(_ALL, of=SOURCE.replace(", 'd', 1", "")),
}
_BOTH = _ALL + _NEW
_EVOLVING = {
    "a column": _merge(_BOTH, of=SOURCE.replace("3 q", "3 q, id * 2 w, 'x' z"), evolves=True),
    "a column, inserting": _merge(_NEW, of=SOURCE.replace("3 q", "3 q, id * 2 w"), evolves=True),
    "a column, updating": _merge(_ALL, of=SOURCE.replace("3 q", "3 q, id * 2 w"), evolves=True),
    "fewer columns": _merge(_BOTH, of=source("id, 'few' s"), evolves=True),
    "fewer columns and a new one": _merge(_BOTH, of=source("id, 'few' s, 1 w"), evolves=True),
    "a column by name": _merge(
        '.whenMatchedUpdate(set={"w": "s.w"}).whenNotMatchedInsert(values={"id": "s.id", "w": "s.w + 1"})',
        of=source("id, 5 w"),
        evolves=True,
    ),
    "no column by value": _merge(
        '.whenMatchedUpdate(set={"s": "s.w"})', of=source("id, 5 w, 6 x"), evolves=True
    ),
    "fields": _merge(
        _BOTH,
        of=source("id, named_struct('a', id, 'b', named_struct('c', 'z', 'd', 1, 'e', 'new'), 'f', 2) n"),
        evolves=True,
    ),
    "fewer fields": _merge(
        _BOTH, of=source("id, named_struct('b', named_struct('e', 'new')) n"), evolves=True
    ),
    "fields of elements": _merge(
        _BOTH, of=source("id, array(named_struct('x', 1, 'y', 'n', 'z', 3)) arr"), evolves=True
    ),
    "fields of values": _merge(
        _BOTH, of=source("id, map('j', named_struct('v', 2, 'w', 3)) m"), evolves=True
    ),
    "null columns": _merge(_BOTH, of=source("id, null s"), evolves=True),
    "a field by name": _merge(
        '.whenMatchedUpdate(set={"n.b.e": "s.n.b.e"})',
        of=source("id, named_struct('a', id, 'b', named_struct('c', 'z', 'd', 1, 'e', 'new')) n"),
        evolves=True,
    ),
    "by name and all": _merge(
        '.whenMatchedUpdate("s.id = 5", {"s": "\'named\'"})' + _BOTH,
        of=SOURCE.replace("3 q", "3 q, 1 w"),
        evolves=True,
    ),
    "nothing by deletes": _merge(_GONE, of=SOURCE.replace("3 q", "3 q, 1 w"), evolves=True),
    "beside by source": _merge(
        _BOTH + ".whenNotMatchedBySourceUpdate(set={'s': \"'b'\"})",
        of=SOURCE.replace("3 q", "3 q, 1 w"),
        evolves=True,
    ),
    "without a match": _merge(_ALL, of=source(_DATA + ", 1 w", "range(100, 105)"), evolves=True),
    "no wider type": _merge(_BOTH, of=SOURCE.replace("3 q", "cast(id as bigint) q"), evolves=True),
    "null structs": _merge(
        _BOTH,
        of=source("id, cast(null as struct<a: bigint, b: struct<c: string, e: int>>) n"),
        evolves=True,
    ),
    "a whole struct": _merge(
        '.whenMatchedUpdate(set={"n": "s.n"}).whenNotMatchedInsert(values={"id": "s.id", "n": "s.n"})',
        of=source("id, named_struct('a', id, 'g', 1) n"),
        evolves=True,
    ),
}
STATEMENTS = {
    "delete all": Statement("t.delete()"),
    **{f"delete: {name}": Statement(f't.delete("{condition}")') for name, condition in _DELETES.items()},
    "update all": Statement("t.update(set={'p': 'p + 1'})"),
    "update: columns": Statement("t.update(F.col('q').isNull(), {'s': F.lit('z'), 'q': F.col('p') + 1})"),
    **{
        f"update: {name}": Statement(f't.update("{condition}", {values!r})')
        for name, (condition, values) in _UPDATES.items()
    },
    **{f"merge: {name}": statement for name, statement in _MERGES.items()},
    **{f"merge evolves: {name}": statement for name, statement in _EVOLVING.items()},
}
