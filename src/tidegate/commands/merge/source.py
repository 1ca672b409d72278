"""The source of a MERGE, read once: its rows stay what they are while they are asked for again.

Each row gets a number of its own, and the rows are kept by Spark with their lineage cut: a block that is
lost fails what asks for it, where computing it anew could give other rows, and MERGE begins again. Names,
aliases and columns that a user has taken from the frame mean the same in every frame that comes out of here,
and so does the current time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidegate.schema.types import ArrayType, DataType, DecimalType, MapType, PrimitiveType, StructType
from tidegate.spark.expressions import qualified, quote
from tidegate.spark.jvm import is_connect
from tidegate.spark.present import Moment
from tidegate.spark.remote_columns import alias_of, plans_of, renamed
from tidegate.spark.write.fit import schema_of

SOURCE_ROW = "__tidegate_source_row"
# What Spark may send to every task; beyond it the source is shuffled.
_BROADCAST = 48 << 20
_WIDTHS = {
    "byte": 1,
    "boolean": 1,
    "short": 2,
    "integer": 4,
    "float": 4,
    "date": 4,
    "string": 20,
    "binary": 100,
}


@dataclass(frozen=True)
class Source:
    """The source as the user gave it, and the moment that the whole MERGE takes for now."""

    given: DataFrame
    alias: str | None
    schema: StructType
    moment: Moment
    beside: tuple[str, ...] = ()

    @classmethod
    def of(cls, frame: DataFrame, beside: tuple[str, ...] = ()) -> Source:
        """The source as it will be read; ``beside`` are the columns that the table has."""
        alias: str | None = None
        if is_connect(frame.sparkSession):
            alias = alias_of(frame) or "__tidegate_source"
            frame = frame.alias(alias)
        return cls(frame, alias, schema_of(frame), Moment.now(), beside)

    @property
    def names(self) -> tuple[str, ...]:
        return self.schema.names

    def column(self, name: str) -> Column:
        """A column of the source, whatever the other side calls its own."""
        if self.alias is not None:
            return qualified(self.alias, name)
        return self.given[quote(name)]

    def every(self, rows: DataFrame) -> Column:
        """All that ``rows`` of the source have, in what was made of them: columns that share a name too."""
        return rows["*"] if self.alias is None else F.col(f"{quote(self.alias)}.*")

    def bound(self, column: Any) -> Any:
        """A user's column, text or value; one that was taken from the frame means the rows that were read.

        On Connect the current time is the MERGE's in it.
        """
        if self.alias is None or not isinstance(column, str | Column):
            return column
        if isinstance(column, Column):
            names = frozenset(n.lower() for n in self.names)
            column = renamed(column, plans_of(self.given), self.alias, names)
        return self.moment.bound(self.given.sparkSession, column, (*self.names, *self.beside))

    def named(self, frame: DataFrame) -> DataFrame:
        """A frame that came from the source, under the source's name where that gets lost."""
        return frame if self.alias is None else frame.alias(self.alias)

    def read(self) -> DataFrame:
        """The rows, numbered, read now."""
        numbered = self.given.withColumn(SOURCE_ROW, F.monotonically_increasing_id())
        return self.named(self.kept(numbered))

    def at_once(self, frame: DataFrame) -> DataFrame:
        """A frame in which the current time is that of the MERGE."""
        return self.moment.at_once(frame)

    def kept(self, frame: DataFrame) -> DataFrame:
        """The frame's rows, computed now and kept while they are needed."""
        return self.at_once(frame).localCheckpoint(eager=True)

    def broadcasts(self, rows: int) -> bool:
        """Whether so many rows of the source are few enough to be sent to every task."""
        spark = self.given.sparkSession
        said = str(spark.conf.get("spark.sql.autoBroadcastJoinThreshold") or "")
        if said.strip().startswith("-"):
            return False
        return rows * (16 + sum(_width(f.type) for f in self.schema.fields)) <= _BROADCAST


def _width(kind: DataType) -> int:
    if isinstance(kind, StructType):
        return sum(_width(f.type) for f in kind.fields)
    if isinstance(kind, ArrayType):
        return 4 * _width(kind.element)
    if isinstance(kind, MapType):
        return 4 * (_width(kind.key) + _width(kind.value))
    if isinstance(kind, DecimalType):
        return 16
    return _WIDTHS.get(kind.name, 8) if isinstance(kind, PrimitiveType) else 8
