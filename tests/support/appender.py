"""One of several Spark processes that append to the same tables at once.

``python appender.py NUMBER TIMES TABLE ...`` appends ``TIMES`` small DataFrames to each table, in rows that
say which process and which turn they come from.
"""

from __future__ import annotations

import sys

import tidegate


def main(number: int, times: int, tables: list[str]) -> None:
    spark = tidegate.session(
        master="local[1]",
        **{"spark.driver.memory": "512m", "spark.log.level": "OFF", "spark.sql.shuffle.partitions": "1"},
    )
    tidegate.enable(spark)
    print("READY", flush=True)
    sys.stdin.readline()
    for turn in range(times):
        for table in tables:
            frame = spark.range(0, 5, 1, 1).selectExpr(f"{number} as writer", f"{turn} as turn", "id")
            frame.write.format("delta").mode("append").save(table)
    spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
