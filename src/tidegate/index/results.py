"""The result of a search: a DataFrame that is made only when something of Spark is wanted.

``toArrow``, ``count`` and ``isEmpty`` are answered by the search itself. Everything else, from ``show`` to a
join, is asked of the DataFrame, which is made then; wherever PySpark wants a DataFrame, this is one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidegate.index.travel import translating

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Result:
    """Rows that are known how to get."""

    def __init__(
        self, table: Callable[[], pa.Table], count: Callable[[], int], frame: Callable[[], DataFrame]
    ) -> None:
        self._make_table, self._make_count, self._make_frame = table, count, frame

    @cached_property
    def frame(self) -> DataFrame:
        """The DataFrame itself."""
        return self._make_frame()

    def toArrow(self) -> pa.Table:
        """The rows as an Arrow table; without Spark where the driver can search alone."""
        with translating():
            return self._make_table()

    def count(self) -> int:
        """How many rows there are, without reading any."""
        with translating():
            return self._make_count()

    def isEmpty(self) -> bool:
        return self.count() == 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "frame":
            raise AttributeError(name)
        return getattr(self.frame, name)

    def __getitem__(self, item: Any) -> Any:
        return self.frame[item]

    def __repr__(self) -> str:
        return f"Result[{', '.join(f'{n}: {t}' for n, t in self.frame.dtypes)}]"

    # mypy holds ``__class__`` to be a plain attribute of object.
    @property  # type: ignore[misc]
    def __class__(self) -> type:
        # So that isinstance(result, DataFrame) holds, which PySpark asks of what is joined and united.
        return type(self.frame)
