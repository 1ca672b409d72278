"""Making or replacing a table together with its first rows: one commit, or nothing at all.

What CREATE TABLE AS SELECT, ``saveAsTable`` and ``writeTo(...).create`` share. A replacement gives the
table new metadata and takes all rows away in the very commit that brings the new ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike

from pyspark.sql import DataFrame

from tidegate.commands import clustering, create
from tidegate.commands.create import Definition, Mode
from tidegate.commands.lowering import settle
from tidegate.commands.once import Once
from tidegate.commands.options import WRITE, Options, table_properties
from tidegate.commands.removes import as_removes
from tidegate.commands.write import write_metrics
from tidegate.errors import NotATableError, OptionError, TableExistsError
from tidegate.log.actions import Action
from tidegate.log.snapshot import Snapshot
from tidegate.schema.types import StructType
from tidegate.spark.confs import conf, log_at
from tidegate.spark.write.files import write_files
from tidegate.spark.write.fit import check_columns, check_storable, schema_of
from tidegate.transaction.pending import Operation
from tidegate.transaction.transaction import Committed, Transaction

__all__ = ["Mode", "create_as"]

_NAMES = {
    "create": "CREATE TABLE AS SELECT",
    "createIfNotExists": "CREATE TABLE AS SELECT",
    "replace": "REPLACE TABLE AS SELECT",
    "createOrReplace": "CREATE OR REPLACE TABLE AS SELECT",
}


def create_as(
    frame: DataFrame,
    url: str | PathLike[str],
    *,
    mode: Mode = "create",
    schema: StructType | None = None,
    partition_by: Sequence[str] = (),
    cluster_by: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    name: str | None = None,
    comment: str | None = None,
    options: Mapping[str, str] | None = None,
    defaults: Mapping[str, str] | None = None,
    managed: bool = False,
    base: Snapshot | None = None,
) -> Committed | None:
    """Make the table at ``url`` from the rows of ``frame``; None if it is to stay as it is.

    What others commit after ``base`` has come between; without it, what they commit from now on.
    ``schema`` is the table's where it says more than the data does: comments, constraints, defaults.
    """
    given = Options(options or {}, WRITE)
    for option in ("replaceOn", "replaceUsing"):
        if given.get(option) is not None:
            raise OptionError(
                f"{option} replaces rows of a table that is there; it does not go with making one.",
                hint="Leave it out, or overwrite the table.",
                errorClass="DELTA_DFV2_CREATE_REPLACE_INCOMPATIBLE_REPLACE_ON_OR_USING",
            )
    log = log_at(frame.sparkSession, url)
    if base is not None and base.url == log.url:
        transaction = Transaction(log, base, defaults=defaults)
    else:
        transaction = Transaction.begin(log, defaults=defaults)
    snapshot = transaction.snapshot
    if snapshot is not None and mode == "create":
        raise TableExistsError(
            f"The table {name or transaction.log.url} already exists.",
            table=transaction.log.url,
            hint="Append to it, or replace it.",
            errorClass="TABLE_OR_VIEW_ALREADY_EXISTS",
        )
    if snapshot is not None and mode == "createIfNotExists":
        return None
    if snapshot is None and mode == "replace":
        raise NotATableError(
            f"The table {name or transaction.log.url} cannot be found, so it cannot be replaced.",
            table=transaction.log.url,
            hint="Use createOrReplace to make it.",
            errorClass="TABLE_OR_VIEW_NOT_FOUND",
        )
    once = Once.of(frame.sparkSession, given)
    if once.is_done(transaction):
        return None
    schema = schema_of(frame) if schema is None else schema
    check_columns(schema, tuple(partition_by))
    check_storable(schema, partition_by)
    asked = {**table_properties(frame.sparkSession, options), **(properties or {})}
    definition = Definition(schema, partition_by, cluster_by, asked, name, comment)
    most = transaction.log.settings().clustering_columns
    metadata = create.metadata_of(definition, most)
    removes = None
    if snapshot is None:
        transaction.update_metadata(metadata)
    else:
        removes = as_removes(transaction.files(), transaction.log.clock())
        lowers = conf(frame.sparkSession, "replace.protocolDowngradeAllowed", False)
        create.replace_metadata(transaction, snapshot, metadata, defaults, lowers_protocol=lowers)
    actions: list[Action] = once.actions(transaction)
    if cluster_by or (snapshot is not None and clustering.is_clustered(snapshot)):
        columns = clustering.resolve(transaction.metadata, cluster_by, most)
        actions.append(clustering.domain(transaction.metadata, columns))
    operation = _NAMES[mode]
    adds, _ = write_files(transaction, frame, given.as_mapping(), operation=operation)
    parameters = {
        "partitionBy": list(transaction.metadata.partition_columns),
        "clusterBy": list(cluster_by),
        "description": comment,
        "isManaged": str(managed).lower(),
        "properties": asked,
    }
    committed = transaction.commit(
        actions,
        Operation(operation, parameters),
        adds=adds,
        removes=removes,
        metrics=write_metrics(adds, removes),
        user_metadata=given.get("userMetadata"),
    )
    once.settle()
    settle(committed, snapshot)
    return committed
