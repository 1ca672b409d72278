"""The corpus runner's adapter for the log alone: it opens a table and asks for schema and files."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import tidegate
from tidegate.errors import TidegateError


class LogAdapter:
    """Answers the corpus checks ``state`` and ``error`` without reading data files."""

    def read(self, path: str, version: int | None = None) -> pa.Table:
        snapshot = tidegate.open(path, version=version)
        assert snapshot.schema is not None
        return snapshot.files()

    def state(self, path: str) -> dict[str, Any]:
        snapshot = tidegate.open(path)
        return {
            "version": snapshot.version,
            "num_files": snapshot.files().num_rows,
            "minReader": snapshot.protocol.min_reader_version,
            "minWriter": snapshot.protocol.min_writer_version,
        }

    def write(self, path: str) -> None:
        tidegate.Transaction.begin(path).commit(operation="EMPTY")

    def code(self, error: BaseException) -> str:
        return error.code if isinstance(error, TidegateError) else type(error).__name__
