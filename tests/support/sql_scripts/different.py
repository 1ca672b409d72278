"""The statements of the scripts that we answer otherwise than delta-spark, each with the reason."""

from __future__ import annotations

_SHOWN = "SHOW CREATE TABLE answers here; delta-spark refuses it"
_REPLACED = "a path is replaced as a name is; delta-spark refuses other columns there"
_DEFAULTS = "DEFAULT is a value in MERGE too; delta-spark does not resolve it there"
_RETAINED = "RETAIN counts; delta-spark takes the table's own retention unless it says 0 HOURS"
_NOT_NULL = "a column without nulls may become NOT NULL; delta-spark refuses it always"
_MARKED = "a mark may stand behind a name and behind a path; delta-spark reads it within the path alone"
_FEATURE = "ADD FEATURE is a statement; delta-spark has the property delta.feature.* for it"
_ANALYZED = "ANALYZE TABLE goes to Spark, which keeps statistics beside the name; delta-spark refuses it"

# By the name of the script, then by the statement.
DIFFERENT: dict[str, dict[str, str]] = {
    "create with everything a column may say": {"SHOW CREATE TABLE {t}": _SHOWN},
    "create with identity": {"SHOW CREATE TABLE {t}": _SHOWN},
    "create at a location": {"SHOW CREATE TABLE {t}": _SHOWN},
    "create by path": {
        "CREATE OR REPLACE TABLE delta.`{p}/x` (c INT) USING delta": _REPLACED,
        "SELECT * FROM delta.`{p}/x`": _REPLACED,
    },
    "merge with defaults": {
        "MERGE INTO {t} USING (SELECT 1 AS a UNION ALL SELECT 50) s ON {t}.a = s.a "
        "WHEN MATCHED THEN UPDATE SET b = DEFAULT "
        "WHEN NOT MATCHED THEN INSERT (a, b, c) VALUES (s.a, DEFAULT, DEFAULT)": _DEFAULTS,
        "SELECT * FROM {t} ORDER BY a, b, c": _DEFAULTS,
    },
    "vacuum for a time of its own": {"VACUUM {t} RETAIN 1 HOURS": _RETAINED},
    "time travel by a mark": {
        "SELECT * FROM {t}@v1": _MARKED,
        "SELECT * FROM delta.`{p}/x`@v1": _MARKED,
        "INSERT INTO {t} SELECT a + 10 FROM {t}@v1": _MARKED,
        "SELECT a FROM {t} ORDER BY a": _MARKED,
    },
    "add a feature": {
        "ALTER TABLE {t} ADD FEATURE deletionVectors": _FEATURE,
        "SHOW TBLPROPERTIES {t}": _FEATURE,
    },
    "names wherever they stand": {"ANALYZE TABLE {t} COMPUTE STATISTICS": _ANALYZED},
    "set not null": {"ALTER TABLE {t} ALTER COLUMN a SET NOT NULL": _NOT_NULL},
}
