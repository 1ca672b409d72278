"""Names of columns that need column mapping: refused on every way to a schema, allowed with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import tidegate
from tidegate import DeltaTable

pytestmark = pytest.mark.spark

CHARACTERS = "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES"


def refused(action: Callable[[], object], error_class: str = CHARACTERS) -> None:
    with pytest.raises(AnalysisException) as error:
        action()
    assert error.value.getCondition() == error_class


def test_tables_are_not_made_with_such_names(spark: SparkSession, table: str, tmp_path: Path) -> None:
    odd = spark.sql("SELECT 1 AS `a b`, 2 AS c")
    name = f"delta.`{table}`"
    refused(lambda: odd.write.format("delta").save(table))
    refused(lambda: spark.sql("SELECT array(named_struct('x,y', 1)) s").write.format("delta").save(table))
    refused(lambda: odd.write.format("delta").saveAsTable("odd_names"))
    refused(lambda: odd.writeTo("odd_names").using("delta").create())
    refused(lambda: spark.sql(f"CREATE TABLE {name} (`a=b` INT) USING delta"))
    refused(lambda: spark.sql(f"CREATE TABLE {name} USING delta AS SELECT count(*) FROM range(3)"))
    refused(lambda: DeltaTable.create(spark).location(table).addColumn("a;b", "int").execute())
    partitioned = odd.write.format("delta").partitionBy("a b")
    refused(lambda: partitioned.save(table), "DELTA_INVALID_PARTITION_COLUMN_NAME")
    odd.write.parquet(str(tmp_path / "parquet"))
    refused(lambda: DeltaTable.convertToDelta(spark, f"parquet.`{tmp_path / 'parquet'}`"))
    assert not DeltaTable.isDeltaTable(spark, table)
    assert "odd_names" not in {t.name for t in spark.catalog.listTables()}


def test_tables_are_not_widened_by_such_names(spark: SparkSession, table: str) -> None:
    spark.range(1).write.format("delta").save(table)
    name = f"delta.`{table}`"
    odd = spark.range(2).withColumn("a b", F.lit(1))
    appended = odd.write.format("delta").mode("append").option("mergeSchema", True)
    refused(lambda: appended.save(table))
    replaced = odd.write.format("delta").mode("overwrite").option("overwriteSchema", True)
    refused(lambda: replaced.save(table))
    refused(lambda: spark.sql(f"ALTER TABLE {name} ADD COLUMNS (`a(b)` INT)"))
    refused(lambda: spark.sql(f"ALTER TABLE {name} REPLACE COLUMNS (id BIGINT, `a b` INT)"))
    refused(lambda: spark.sql(f"REPLACE TABLE {name} (`a b` INT) USING delta"))
    merge = DeltaTable.forPath(spark, table).alias("t").merge(odd.alias("s"), "t.id = s.id")
    refused(lambda: merge.whenNotMatchedInsertAll().withSchemaEvolution().execute())
    assert tidegate.open(table).version == 0


def test_column_mapping_allows_them(spark: SparkSession, table: str) -> None:
    spark.range(1).write.format("delta").save(table)
    name = f"delta.`{table}`"
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    spark.sql(f"ALTER TABLE {name} ADD COLUMNS (`a b` INT)")
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN `a b` TO `x = (y)`")
    spark.sql(f"INSERT INTO {name} VALUES (1, 2)")
    found = spark.read.format("delta").load(table)
    assert sorted(tuple(r) for r in found.where("`x = (y)` is not null").collect()) == [(1, 2)]


def test_a_table_of_another_writer_with_such_names_is_read_written_and_described(
    spark: SparkSession, table: str
) -> None:
    spark.range(1).toDF("ab").write.format("delta").save(table)
    first = Path(table, "_delta_log", f"{0:020}.json")
    first.write_text(first.read_text().replace('\\"ab\\"', '\\"a b\\"'))
    for other in [*Path(table, "_delta_log").glob("*.crc"), *Path(table, "_delta_log").glob(".*")]:
        other.unlink()
    spark.range(5, 6).toDF("a b").write.format("delta").mode("append").save(table)
    spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('delta.appendOnly' = 'true')")
    assert spark.read.format("delta").load(table).where("`a b` = 5").count() == 1
