"""Random SQL: statements that do not speak of Delta, with all the noise of real texts; and those that do."""

from __future__ import annotations

from hypothesis import strategies as st

WORDS = ["a", "b1", "x", "größe", "`odd name`", "`VACUUM t`", "`a``b`", "version", "timestamp", "changes"]
NAME = st.sampled_from(
    ["nothere", "db_x.nothere", "`odd name`", "`x``y`", "größe", "optimize_log", "delta_t"]
)
NOISE = st.sampled_from(
    [
        " ",
        "  ",
        "\t",
        "\n",
        "\r\n",
        " /* OPTIMIZE t */ ",
        " -- VACUUM t; delta.`/p`\n",
        " /* a /* nested */ b */ ",
    ]
)
LITERAL = st.sampled_from(
    [
        "1",
        "'x'",
        "'it''s'",
        "'OPTIMIZE delta.`/p`'",
        "'t VERSION AS OF 3'",
        '"two; words"',
        "'\\\\'",
        "NULL",
        "DATE '2024-01-01'",
        "INTERVAL '1' DAY",
        "X'1F'",
        "r'raw\\n'",
        "1.5e3",
        "10L",
        "'☃ 漢字'",
        "date_format(x, 'v@v1')",
    ]
)
COLUMN = st.sampled_from(WORDS)


def _joined(*parts: st.SearchStrategy[str] | str) -> st.SearchStrategy[str]:
    """The parts, with noise between them."""
    made = [st.just(p) if isinstance(p, str) else p for p in parts]
    spaced: list[st.SearchStrategy[str]] = [made[0]]
    for part in made[1:]:
        spaced += [NOISE, part]
    return st.tuples(*spaced).map("".join)


EXPRESSION = st.recursive(
    st.one_of(COLUMN, LITERAL, st.sampled_from([":p", "?", "x -> x + 1", "*"])),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" + ", " = ", " AND ", "||", " <=> "]), inner).map("".join),
        st.tuples(st.sampled_from(["abs(", "transform(a, ", "CAST(", "("]), inner, st.just(")")).map("".join),
        inner.map(lambda e: f"CASE WHEN {e} THEN 1 END"),
    ),
    max_leaves=5,
)
QUERY = st.recursive(
    _joined(
        st.sampled_from(["SELECT", "select /*+ BROADCAST(t) */", "SELECT DISTINCT"]),
        st.lists(EXPRESSION, min_size=1, max_size=3).map(", ".join),
        "FROM",
        NAME,
        st.sampled_from(
            ["", "AS t", "WHERE a = 'UPDATE t SET x'", "LATERAL VIEW explode(a) e AS c", "ORDER BY 1"]
        ),
    ),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" UNION ALL ", " EXCEPT "]), inner).map("".join),
        inner.map(lambda q: f"WITH c AS ({q}) SELECT * FROM c"),
        inner.map(lambda q: f"SELECT * FROM ({q}) s WHERE a IN ({q})"),
    ),
    max_leaves=3,
)
OTHER = st.one_of(
    QUERY,
    _joined("EXPLAIN EXTENDED", QUERY),
    _joined("CREATE OR REPLACE TEMPORARY VIEW v AS", QUERY),
    _joined("CREATE TABLE", NAME, "USING parquet AS", QUERY),
    _joined("CREATE TABLE", NAME, "(a INT, b STRING) USING csv OPTIONS (header 'true')"),
    _joined("INSERT INTO", NAME, QUERY),
    _joined("INSERT OVERWRITE DIRECTORY '/nowhere' USING parquet", QUERY),
    _joined("UPDATE", NAME, "SET a = 1 WHERE", EXPRESSION),
    _joined("DELETE FROM", NAME, "WHERE", EXPRESSION),
    _joined("MERGE INTO", NAME, "USING", NAME, "ON", EXPRESSION, "WHEN MATCHED THEN DELETE"),
    _joined("DROP TABLE IF EXISTS", NAME),
    _joined("ALTER TABLE", NAME, "RENAME TO", NAME),
    _joined("CACHE LAZY TABLE c AS", QUERY),
    _joined("ANALYZE TABLE", NAME, "COMPUTE STATISTICS"),
    _joined("TABLE", NAME),
    _joined("FROM", NAME, "SELECT a"),
    _joined("FROM", NAME, "|> WHERE", EXPRESSION),
    st.sampled_from(
        [
            "SHOW TABLES",
            "USE default",
            "SET a.b = 'VACUUM t'",
            "VALUES (1, 'OPTIMIZE t')",
            "DESCRIBE FUNCTION abs",
            "SHOW CREATE TABLE nothere",
            "SELEKT 1",
            "",
            ";",
            "'",
            "SELECT 'open",
            "BEGIN SELECT 1; END",
            "SELECT 1; SELECT 2",
            "EXECUTE IMMEDIATE 'OPTIMIZE t'",
            "DECLARE x INT DEFAULT 1",
            "COMMENT ON TABLE nothere IS 'VACUUM'",
        ]
    ),
)
ELSEWHERE = st.tuples(NOISE, OTHER, NOISE, st.sampled_from(["", ";", " ; "])).map("".join)

# Statements about a Delta table, right and wrong, that must end in an answer or in an error of ours.
_VALUE = st.one_of(
    COLUMN, LITERAL, st.sampled_from(["DEFAULT", "id", "v", "id + 1", "nope", "(SELECT 1)", "f(1)"])
)
_PREDICATE = st.one_of(
    st.sampled_from(["id = 1", "true", "v IS NULL", "id IN (1, 2)", "nope = 1", "id =", "id = 'x'", "1"]),
    EXPRESSION,
)


def about(table: str) -> st.SearchStrategy[str]:
    """Statements about one table, cut off and garbled at times."""
    t = st.just(table)
    whole = st.one_of(
        _joined(
            "OPTIMIZE", t, st.sampled_from(["", "WHERE id = 1", "ZORDER BY (id)", "FULL", "ZORDER (id)"])
        ),
        _joined(
            "VACUUM", t, st.sampled_from(["DRY RUN", "RETAIN 200 HOURS DRY RUN", "RETAIN x", "LITE FULL"])
        ),
        _joined("DESCRIBE", st.sampled_from(["DETAIL", "HISTORY", "EXTENDED", "TABLE"]), t),
        _joined("SHOW", st.sampled_from(["PARTITIONS", "COLUMNS IN", "TBLPROPERTIES", "CREATE TABLE"]), t),
        _joined("RESTORE TABLE", t, "TO VERSION AS OF", st.sampled_from(["0", "99", "x", "-1", "'0'"])),
        _joined(
            "SELECT * FROM",
            t,
            st.sampled_from(["VERSION AS OF 0", "VERSION AS OF 99", "TIMESTAMP AS OF 'x'"]),
        ),
        _joined("DELETE FROM", t, "WHERE", _PREDICATE),
        _joined("UPDATE", t, "SET", COLUMN, "=", _VALUE, "WHERE", _PREDICATE),
        _joined("UPDATE", t, "SET v =", _VALUE),
        _joined("INSERT INTO", t, "VALUES (", _VALUE, ",", _VALUE, ")"),
        _joined(
            "INSERT INTO",
            t,
            st.sampled_from(["(id)", "(nope)", "BY NAME", "REPLACE WHERE id = 1"]),
            "SELECT 1",
        ),
        _joined("MERGE INTO", t, "USING (SELECT 1 AS id) s ON", _PREDICATE, "WHEN MATCHED THEN DELETE"),
        _joined(
            "ALTER TABLE", t, "SET TBLPROPERTIES (", st.sampled_from(["'k' = 'v'", "'delta.x' = 1", "k"]), ")"
        ),
        _joined("ALTER TABLE", t, "ADD COLUMN", COLUMN, st.sampled_from(["INT", "NOPE", "STRUCT<", ""])),
        _joined(
            "ALTER TABLE", t, st.sampled_from(["DROP FEATURE x", "ADD PARTITION (a = 1)", "ALTER COLUMN id"])
        ),
    )
    cut = st.tuples(whole, st.integers(0, 200)).map(lambda p: p[0][: max(p[1], len(table) + 12)])
    return st.one_of(whole, cut)
