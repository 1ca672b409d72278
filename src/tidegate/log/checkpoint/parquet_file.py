"""A parquet file of a checkpoint as it is being written: row groups of one size, rows counted and read back.

Nothing is published before the number of rows in the finished file equals what was handed to it.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.errors import CheckpointCorruptError
from tidegate.storage.drafts import Draft, MemoryDraft

GROUP_ROWS = 131_072
_STEP_ROWS = 4_096


class ParquetFile:
    """A parquet file being written, in row groups of one size, counting its rows."""

    def __init__(self, schema: pa.Schema, draft: Draft) -> None:
        self._draft = draft
        self._schema = schema
        self._writer = pq.ParquetWriter(
            draft.sink,
            schema,
            compression="snappy",
            use_dictionary=False,
            write_page_checksum=True,
            # Most columns of most rows are null, and pass faster in larger steps.
            write_batch_size=_STEP_ROWS,
        )
        self._waiting: list[pa.RecordBatch] = []
        self._rows_waiting = 0
        self.rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self._waiting.append(batch)
            self._rows_waiting += batch.num_rows
            self.rows += batch.num_rows
            if self._rows_waiting >= GROUP_ROWS:
                self.end_group()
                self._draft.nudge()

    def end_group(self) -> None:
        """Close the row group: what is written next stands in another one."""
        if self._waiting:
            table = pa.Table.from_batches(self._waiting, self._schema)
            self._writer.write_table(table, row_group_size=self._rows_waiting)
            self._waiting, self._rows_waiting = [], 0

    def finish(self) -> int:
        """End the file, read back how many rows it holds; its size in bytes."""
        self.end_group()
        self._writer.close()
        with self._draft.written() as data:
            found = pq.ParquetFile(data).metadata.num_rows
            if found != self.rows:
                raise CheckpointCorruptError(
                    f"The checkpoint just written holds {found} rows instead of {self.rows}; "
                    "it is not published."
                )
            return int(data.size())


class ParquetBytes(ParquetFile):
    """The same in memory."""

    def __init__(self, schema: pa.Schema) -> None:
        self._memory = MemoryDraft()
        super().__init__(schema, self._memory)

    def bytes(self) -> pa.Buffer:
        self.finish()
        return self._memory.sink.getvalue()
