"""Scripts of SQL statements that two engines run, each in a database and a folder of its own.

``{t}`` and ``{u}`` are free names of the catalog, ``{p}`` is a folder. A statement that begins with ``!``
must be refused. Queries say their order.
"""

from __future__ import annotations

SCRIPTS: dict[str, list[str]] = {
    "create like": [
        "CREATE TABLE {t} (a INT NOT NULL COMMENT 'one', p STRING) USING delta PARTITIONED BY (p) "
        "TBLPROPERTIES ('k' = 'v')",
        "INSERT INTO {t} VALUES (1, 'x')",
        "CREATE TABLE {u} LIKE {t}",
        "DESCRIBE {u}",
        "SELECT * FROM {u}",
        "SHOW TBLPROPERTIES {u}",
        "CREATE TABLE {v} LIKE {t} USING delta LOCATION '{p}/x' TBLPROPERTIES ('own' = 'yes')",
        "DESCRIBE delta.`{p}/x`",
        "SHOW TBLPROPERTIES {v}",
    ],
    "merge with schema evolution": [
        "CREATE TABLE {t} USING delta AS SELECT id, 'old' AS v FROM range(2)",
        "MERGE WITH SCHEMA EVOLUTION INTO {t} t USING (SELECT id + 1 AS id, 'new' AS v, 1 AS "
        "extra FROM range(2)) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED "
        "THEN INSERT *",
        "SELECT * FROM {t} ORDER BY id",
        "MERGE WITH SCHEMA EVOLUTION INTO {t} t USING (SELECT 0L AS id, 'x' AS more) s ON t.id = "
        "s.id WHEN MATCHED THEN UPDATE SET more = s.more",
        "SELECT * FROM {t} ORDER BY id",
        "!MERGE INTO {t} t USING (SELECT 0L AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
        "DESCRIBE {t}",
    ],
    "replace columns": [
        "CREATE TABLE {t} (a INT, b STRING, s STRUCT<x: INT>) USING delta",
        "INSERT INTO {t} VALUES (1, 'x', named_struct('x', 1))",
        "ALTER TABLE {t} REPLACE COLUMNS (b STRING COMMENT 'first', a INT, s STRUCT<y: INT, x: INT>, c DATE)",
        "DESCRIBE {t}",
        "SELECT * FROM {t}",
        "!ALTER TABLE {t} REPLACE COLUMNS (b STRING)",
        "!ALTER TABLE {t} REPLACE COLUMNS (b INT, a INT, s STRUCT<y: INT, x: INT>, c DATE)",
        "!ALTER TABLE {t} REPLACE COLUMNS (b STRING, a INT, s STRUCT<y: INT, x: INT>, c DATE, n "
        "INT NOT NULL)",
        "DESCRIBE HISTORY {t}",
    ],
    "truncate": [
        "CREATE TABLE {t} (a INT, p INT) USING delta PARTITIONED BY (p)",
        "INSERT INTO {t} VALUES (1, 1), (2, 2)",
        "TRUNCATE TABLE {t}",
        "SELECT * FROM {t}",
        "DESCRIBE HISTORY {t}",
    ],
    "update of nested columns": [
        "CREATE TABLE {t} (id INT, s STRUCT<a: INT, b: STRUCT<c: STRING>>) USING delta",
        "INSERT INTO {t} VALUES (1, named_struct('a', 1, 'b', named_struct('c', 'x')))",
        "UPDATE {t} SET s.b.c = 'y' WHERE s.a = 1",
        "UPDATE {t} SET s.a = s.a + 1, id = s.a",
        "SELECT * FROM {t}",
    ],
}
