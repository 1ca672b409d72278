"""Writing an Arrow table into an index table without Spark: the same tasks, one of them, in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike

import pyarrow as pa

from tidegate.errors import OptionError, SchemaInvalidError
from tidegate.index.after_write import after_write
from tidegate.index.fields import mapping_for
from tidegate.index.log import IndexLog
from tidegate.index.settings import Settings
from tidegate.index.snapshot import IndexSnapshot
from tidegate.index.task_writer import COMMIT, TaskWriter, layout_of, with_constants
from tidegate.index.write import (
    check_replaced,
    check_write,
    committed,
    created,
    mapping_of,
    refuse_companion,
)
from tidegate.schema.arrow import from_arrow_schema, to_arrow_schema

_BATCH = 10_000


def write_table(
    table: pa.Table,
    url: str | PathLike[str],
    *,
    mode: str = "append",
    partition_by: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> IndexSnapshot:
    """Append the rows, or put them in the place of all there are; where there is no table, it is made."""
    if mode not in ("append", "overwrite"):
        raise OptionError(f"The mode is {mode!r}; without Spark it is append or overwrite.")
    settings = Settings(options)
    check_write(settings, options, mode)
    log = IndexLog.at(url, storage_options, settings.as_options())
    current = log.snapshot() if log.exists() else None
    if current is None:
        schema, partitions = from_arrow_schema(table.schema), tuple(partition_by)
        mapping = mapping_for(schema, partitions, settings)
    else:
        refuse_companion(current)
        log.check_writable(current)
        check_replaced(settings, current)
        schema, partitions, mapping = current.schema, current.partition_columns, mapping_of(current)
        if set(table.column_names) != set(schema.names):
            raise SchemaInvalidError(
                f"The rows have the columns {', '.join(table.column_names)}; the table has "
                f"{', '.join(schema.names)}.",
                table=log.url,
            )
        table = table.select(list(schema.names)).cast(to_arrow_schema(schema))
    if partitions:
        table = table.sort_by([(p, "ascending") for p in partitions])
    layout = layout_of(log.url, schema, partitions, mapping, settings, storage_options)
    batches = list(TaskWriter(layout).run(iter(table.to_batches(_BATCH))))
    adds = with_constants(pa.Table.from_batches(batches, COMMIT), mapping)
    if current is None:
        done = created(log, schema, partitions, mapping, adds)
    else:
        done = committed(log, adds, mode, settings)
    after_write(log, done, settings, storage_options=storage_options)
    return done
