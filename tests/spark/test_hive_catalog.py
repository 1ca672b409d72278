"""Tables by name in a Hive metastore: what one process enters, the next one finds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

PROGRAM = """
import sys
import tidegate
from tidegate.commands import catalog

folder, step = sys.argv[1:]
spark = tidegate.enable(tidegate.session(
    master="local[1]",
    **{
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": folder + "/warehouse",
        "spark.hadoop.javax.jdo.option.ConnectionURL": (
            f"jdbc:derby:;databaseName={folder}/metastore;create=true"
        ),
        "spark.log.level": "OFF",
    },
))
if step == "make":
    spark.range(3).write.format("delta").saveAsTable("kept")
    spark.range(2).write.format("delta").option("path", folder + "/outside").saveAsTable("outside")
else:
    assert spark.sql("SELECT sum(id) FROM kept WHERE id > 0").head() == (3,)
    assert spark.catalog.getTable("kept").tableType == "MANAGED"
    assert spark.table("outside").count() == 2
    where = catalog.location_of(spark, "kept")
    catalog.drop_table(spark, "kept")
    catalog.drop_table(spark, "outside")
    import pathlib
    assert not pathlib.Path(where).exists()
    assert tidegate.open(folder + "/outside").version == 0
print("DONE", step)
"""


def test_a_table_outlives_the_process_that_made_it(tmp_path: Path) -> None:
    for step in ("make", "find"):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path), step],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert f"DONE {step}" in done.stdout, done.stderr[-2000:]
