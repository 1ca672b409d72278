"""One table of each kind that engines exchange, as the statements that make it: ``{t}`` is the table.

Every engine that knows SQL runs the same statements; ``more`` are those with which a second engine goes on.
``rust_lacks`` is the feature for which delta-rs refuses the table; without it, delta-rs reads it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """A kind of table: how it is made, how it is gone on with, and the feature delta-rs lacks for it."""

    name: str
    make: tuple[str, ...]
    more: tuple[str, ...] = ()
    rust_lacks: str | None = None
    changes: bool = False


def _table(columns: str, properties: str = "", partitioned: str = "") -> str:
    listed = f" TBLPROPERTIES ({properties})" if properties else ""
    parts = f" PARTITIONED BY ({partitioned})" if partitioned else ""
    return f"CREATE TABLE {{t}} ({columns}) USING delta{parts}{listed}"


_PAIRS = "INSERT INTO {t} VALUES (1, 'a'), (2, 'b'), (3, NULL), (NULL, '')"
_MORE = ("INSERT INTO {t} VALUES (10, 'x'), (11, 'y')",)

KINDS = (
    Kind("plain", (_table("id BIGINT, v STRING"), _PAIRS), _MORE),
    Kind(
        "partitioned by every type",
        (
            _table(
                "v INT, s STRING, i INT, l BIGINT, d DATE, t TIMESTAMP, b BOOLEAN, c DECIMAL(10, 2), "
                "f DOUBLE",
                partitioned="s, i, l, d, t, b, c, f",
            ),
            "INSERT INTO {t} VALUES (1, 'a b/c=d%', 1, -5, DATE '2024-02-29', "
            "TIMESTAMP '2024-02-29 12:34:56.789', true, 1.50, 2.5)",
            "INSERT INTO {t} VALUES (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
            "INSERT INTO {t} VALUES (3, 'ä:ö', 0, 9223372036854775807, DATE '1969-12-31', "
            "TIMESTAMP '1969-12-31 23:59:59', false, -0.01, -1.0)",
        ),
        ("INSERT INTO {t} SELECT v + 10, s, i, l, d, t, b, c, f FROM {t}",),
    ),
    Kind(
        "nested",
        (
            _table(
                "id INT, s STRUCT<a: INT, b: STRUCT<c: STRING>>, l ARRAY<STRUCT<x: INT>>, m MAP<STRING, INT>"
            ),
            "INSERT INTO {t} SELECT 1, named_struct('a', 1, 'b', named_struct('c', 'x')), "
            "array(named_struct('x', 1), NULL), map('k', 1, 'n', NULL)",
            "INSERT INTO {t} SELECT 2, NULL, array(), map()",
            "INSERT INTO {t} SELECT 3, named_struct('a', NULL, 'b', NULL), NULL, NULL",
        ),
        ("INSERT INTO {t} SELECT id + 10, s, l, m FROM {t}",),
    ),
    Kind(
        "all types",
        (
            _table(
                "a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f FLOAT, g DOUBLE, h DECIMAL(38, 10), "
                "i STRING, j BINARY, k DATE, l TIMESTAMP"
            ),
            "INSERT INTO {t} VALUES (true, -128Y, 32767S, -2147483648, 9223372036854775807, 1.5F, "
            "double('NaN'), 12345678901234567890.0123456789, 'ü', X'00FF', DATE '0001-01-01', "
            "TIMESTAMP '9999-12-31 23:59:59.999999')",
            "INSERT INTO {t} VALUES (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
        ),
        ("INSERT INTO {t} SELECT * FROM {t} WHERE a",),
    ),
    Kind(
        "timestamps without a zone",
        (
            _table("id INT, t TIMESTAMP_NTZ"),
            "INSERT INTO {t} VALUES (1, TIMESTAMP_NTZ '2024-03-31 02:30:00.123456'), (2, NULL)",
        ),
    ),
    Kind(
        "column mapping by name",
        (
            _table("id BIGINT, `odd name` STRING", "'delta.columnMapping.mode' = 'name'"),
            _PAIRS,
            "ALTER TABLE {t} RENAME COLUMN id TO key",
            "ALTER TABLE {t} ADD COLUMNS (extra INT)",
            "INSERT INTO {t} VALUES (5, 'e', 6)",
        ),
        ("INSERT INTO {t} VALUES (10, 'x', 1)", "ALTER TABLE {t} DROP COLUMN extra"),
    ),
    Kind(
        "column mapping by id",
        (
            _table("id BIGINT, v STRUCT<a: INT>", "'delta.columnMapping.mode' = 'id'"),
            "INSERT INTO {t} SELECT id, named_struct('a', CAST(id AS INT)) FROM range(3)",
        ),
        ("INSERT INTO {t} SELECT id + 10, NULL FROM range(2)",),
    ),
    Kind(
        "deletion vectors",
        (
            _table("id BIGINT, v STRING", "'delta.enableDeletionVectors' = 'true'"),
            "INSERT INTO {t} SELECT id, CAST(id AS STRING) FROM range(20)",
            "DELETE FROM {t} WHERE id % 5 = 1",
            "UPDATE {t} SET v = 'changed' WHERE id = 7",
        ),
        ("DELETE FROM {t} WHERE id % 5 = 2",),
    ),
    Kind(
        "change data feed",
        (
            _table("id BIGINT, v STRING", "'delta.enableChangeDataFeed' = 'true'"),
            "INSERT INTO {t} SELECT id, 'a' FROM range(6)",
            "UPDATE {t} SET v = 'b' WHERE id = 1",
            "DELETE FROM {t} WHERE id = 2",
            "MERGE INTO {t} t USING (SELECT id + 5 AS id, 'c' AS v FROM range(2)) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        ),
        ("DELETE FROM {t} WHERE id = 3",),
        changes=True,
    ),
    Kind(
        "V2 checkpoints",
        (
            _table(
                "id BIGINT, v STRING", "'delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '2'"
            ),
            *(f"INSERT INTO {{t}} VALUES ({i}, 'v{i}')" for i in range(4)),
        ),
        _MORE,
    ),
    Kind(
        "row tracking",
        (
            _table("id BIGINT, v STRING", "'delta.enableRowTracking' = 'true'"),
            "INSERT INTO {t} SELECT id, 'a' FROM range(6)",
            "UPDATE {t} SET v = 'b' WHERE id = 1",
        ),
        ("UPDATE {t} SET v = 'c' WHERE id = 2",),
    ),
    Kind(
        "in-commit timestamps",
        (_table("id BIGINT, v STRING", "'delta.enableInCommitTimestamps' = 'true'"), _PAIRS),
        _MORE,
    ),
    Kind(
        "type widening",
        (
            _table("id INT, v STRING", "'delta.enableTypeWidening' = 'true'"),
            "INSERT INTO {t} VALUES (1, 'a')",
            "ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT",
            "INSERT INTO {t} VALUES (9223372036854775807, 'b')",
        ),
        _MORE,
        rust_lacks="typeWidening",
    ),
    Kind(
        "generated columns",
        (
            _table("ts TIMESTAMP, day DATE GENERATED ALWAYS AS (CAST(ts AS DATE))"),
            "INSERT INTO {t} (ts) VALUES (TIMESTAMP '2024-01-31 10:00:00')",
        ),
        ("INSERT INTO {t} (ts) VALUES (TIMESTAMP '2024-02-01 23:59:59')",),
    ),
    Kind(
        "identity columns",
        (
            _table("id BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 1 INCREMENT BY 1), v STRING"),
            "INSERT INTO {t} (v) VALUES ('a')",
        ),
        ("INSERT INTO {t} (v) VALUES ('b')",),
    ),
    Kind(
        "CHECK constraints",
        (
            _table("id BIGINT NOT NULL, v STRING"),
            "ALTER TABLE {t} ADD CONSTRAINT positive CHECK (id > 0)",
            "INSERT INTO {t} VALUES (1, 'a')",
        ),
        _MORE,
    ),
    Kind(
        "default columns",
        (
            _table("id BIGINT, v STRING DEFAULT 'none'", "'delta.feature.allowColumnDefaults' = 'supported'"),
            "INSERT INTO {t} (id) VALUES (1)",
        ),
        ("INSERT INTO {t} (id) VALUES (2)",),
    ),
    Kind(
        "clustering",
        ("CREATE TABLE {t} (id BIGINT, v STRING) USING delta CLUSTER BY (id)", _PAIRS, "OPTIMIZE {t}"),
        _MORE,
    ),
)
