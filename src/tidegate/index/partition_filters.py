"""Conditions that choose whole partitions: for merging, dropping and replacing splits.

A split belongs to one partition, so such a condition takes it or leaves it; one that needs to look into
rows cannot be served and is refused.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import OptionError
from tidegate.files.predicate import Predicate
from tidegate.files.predicate import parse as parse_predicate
from tidegate.files.skipping import evaluate_partitions
from tidegate.index.snapshot import IndexSnapshot


def on_partitions(where: str, snapshot: IndexSnapshot, what: str) -> Predicate:
    """The condition, if it speaks of partition columns alone; ``what`` begins the refusal."""
    predicate = parse_predicate(where).resolve(snapshot.schema)
    partitions = {c.casefold() for c in snapshot.partition_columns}
    if not predicate.is_known or not all(c[0].casefold() in partitions for c in predicate.columns):
        raise OptionError(
            f"{what} is said by partition columns alone.",
            hint=f"They are {', '.join(snapshot.partition_columns) or 'none'}.",
        )
    return predicate


def within(files: pa.Table, predicate: Predicate, snapshot: IndexSnapshot) -> pa.Table:
    """Those of the splits whose partition fulfils the condition."""
    mask = evaluate_partitions(files, predicate, snapshot.schema, snapshot.partition_columns)
    return files.filter(pc.fill_null(mask, False))


def check_within(adds: pa.Table, where: str, snapshot: IndexSnapshot) -> None:
    """Refuse new splits outside of the partitions that they are to replace."""
    predicate = on_partitions(where, snapshot, "What is replaced")
    inside = within(adds, predicate, snapshot)
    if inside.num_rows != adds.num_rows:
        outside = adds.filter(pc.invert(pc.is_in(adds.column("path"), inside.column("path"))))
        values = dict(outside.column("partitionValues")[0].as_py())
        raise OptionError(
            f"Some rows are not of the partitions that are replaced ({where}): there are some of {values}.",
            table=snapshot.url,
            hint="Filter the rows by the same condition.",
        )
