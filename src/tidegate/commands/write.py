"""Writing a DataFrame into a table: append, overwrite, error and ignore, one commit each.

The schema is fitted or refused before any job runs; the commit carries the adds, the removes of an
overwrite, new metadata and the idempotence marker together, or nothing at all.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from os import PathLike

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from tidegate.commands.options import WRITE, Options
from tidegate.commands.removes import as_removes
from tidegate.errors import OptionError, SchemaInvalidError, TableExistsError
from tidegate.files.predicate import parse
from tidegate.files.skipping import evaluate_partitions
from tidegate.log.actions import Action, Txn
from tidegate.metadata import Metadata
from tidegate.schema.mapping import mapping_mode
from tidegate.schema.types import StructType
from tidegate.spark.write.files import write_files
from tidegate.spark.write.fit import check_columns, merged, schema_of
from tidegate.transaction.pending import Operation, num_records
from tidegate.transaction.transaction import Committed, Transaction

MODES = ("append", "overwrite", "error", "errorifexists", "ignore")


def write(
    frame: DataFrame,
    url: str | PathLike[str],
    *,
    mode: str = "error",
    partition_by: Sequence[str] | None = None,
    options: Mapping[str, str] | None = None,
    properties: Mapping[str, str] | None = None,
    defaults: Mapping[str, str] | None = None,
    operation: Operation | None = None,
) -> Committed | None:
    """Write ``frame`` to the table at ``url``; None if the mode says that nothing is to be done.

    ``operation`` is what the history says was done, an ordinary write by default.
    """
    mode = mode.lower()
    if mode not in MODES:
        raise OptionError(f"There is no save mode {mode!r}.", hint=f"The modes are {', '.join(MODES)}.")
    given = Options(options or {}, WRITE)
    transaction = Transaction.begin(url, defaults=defaults)
    exists = transaction.snapshot is not None
    if exists and mode in ("error", "errorifexists"):
        raise TableExistsError(
            "There is a table already.", table=transaction.log.url, hint="Use the mode append or overwrite."
        )
    if exists and mode == "ignore":
        return None
    done = _already_done(transaction, given)
    if done:
        return None
    overwrite = mode == "overwrite" and exists
    data = schema_of(frame)
    if exists:
        _evolve(transaction, data, given, partition_by, overwrite)
    else:
        _create(transaction, data, partition_by, properties)
    removes = _removes(transaction, given) if overwrite else None
    adds, _ = write_files(transaction, frame, given.as_mapping(), operation="WRITE")
    dynamic = given.get("partitionOverwriteMode") == "dynamic"
    if overwrite and dynamic and transaction.metadata.partition_columns:
        removes = _touched(removes, adds)
    if not given.flag("dataChange", True):
        adds, removes = _unchanged(adds), _unchanged(removes) if removes is not None else None
    actions: list[Action] = []
    if (app := given.get("txnAppId")) is not None:
        now = transaction.log.clock()
        actions.append(Txn(app_id=app, version=int(given.get("txnVersion") or 0), last_updated=now))
    parameters = {
        "mode": "Overwrite" if overwrite else "Append" if mode == "append" else "ErrorIfExists",
        "partitionBy": list(transaction.metadata.partition_columns),
    }
    if given.get("replaceWhere"):
        parameters["predicate"] = str(given.get("replaceWhere"))
    return transaction.commit(
        actions,
        operation or Operation("WRITE", parameters),
        adds=adds,
        removes=removes,
        metrics=write_metrics(adds, removes),
        user_metadata=given.get("userMetadata"),
    )


def _already_done(transaction: Transaction, given: Options) -> bool:
    app, version = given.get("txnAppId"), given.get("txnVersion")
    if (app is None) != (version is None):
        raise OptionError("txnAppId and txnVersion go together.", hint="Give both of them, or neither.")
    if app is None or version is None:
        return False
    seen = transaction.app_version(app)
    return seen is not None and seen >= int(version)


def _create(
    transaction: Transaction,
    data: StructType,
    partition_by: Sequence[str] | None,
    properties: Mapping[str, str] | None,
) -> None:
    partitions = _in_case(data, partition_by or ())
    check_columns(data, partitions)
    transaction.update_metadata(
        Metadata(
            id=str(uuid.uuid4()),
            schema_string=data.to_json(),
            partition_columns=partitions,
            configuration=dict(properties or {}),
        )
    )


def _in_case(data: StructType, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(f.name if (f := data.field(n)) is not None else n for n in names)


def _evolve(
    transaction: Transaction,
    data: StructType,
    given: Options,
    partition_by: Sequence[str] | None,
    overwrite: bool,
) -> None:
    """Change the table's schema where an option asks for it; refuse a partitioning that differs."""
    metadata = transaction.metadata
    if given.flag("overwriteSchema") and overwrite:
        if given.get("replaceWhere") or given.get("partitionOverwriteMode") == "dynamic":
            raise OptionError("overwriteSchema replaces the whole table; it goes with no partial overwrite.")
        partitions = _in_case(data, partition_by or ())
        check_columns(data, partitions)
        changed = msgspec.structs.replace(
            metadata, schema_string=data.to_json(), partition_columns=partitions
        )
        if changed != metadata:
            transaction.update_metadata(changed)
        return
    if partition_by is not None and [c.lower() for c in partition_by] != [
        c.lower() for c in metadata.partition_columns
    ]:
        raise SchemaInvalidError(
            f"The table is partitioned by {list(metadata.partition_columns)}, the write by "
            f"{list(partition_by)}.",
            table=transaction.log.url,
            hint="Leave partitionBy out, or overwrite with overwriteSchema = true.",
            errorClass="DELTA_METADATA_MISMATCH",
        )
    if given.flag("mergeSchema"):
        schema = merged(metadata.schema, data)
        if schema != metadata.schema:
            transaction.update_metadata(metadata.with_schema(schema))
    check_columns(data, metadata.partition_columns)


def _removes(transaction: Transaction, given: Options) -> pa.Table:
    """The live files that an overwrite replaces, as removes."""
    snapshot = transaction.snapshot
    assert snapshot is not None
    text = given.get("replaceWhere")
    if text is None:
        files = transaction.files()
    else:
        if given.get("partitionOverwriteMode") == "dynamic":
            raise OptionError("replaceWhere and partitionOverwriteMode = dynamic exclude each other.")
        predicate = parse(text).resolve(snapshot.schema)
        partitions = {c.lower() for c in snapshot.partition_columns}
        if not all(c[0].lower() in partitions for c in predicate.columns):
            raise OptionError(
                "replaceWhere speaks of columns that are not partition columns, which this release does "
                "not replace yet.",
                hint=f"The partition columns are {', '.join(snapshot.partition_columns) or 'none'}.",
            )
        files = transaction.files(predicate)
        files = files.filter(
            evaluate_partitions(
                files, predicate, snapshot.schema, snapshot.partition_columns, mapping_mode(snapshot.metadata)
            )
        )
    return as_removes(files, transaction.log.clock())


def _touched(removes: pa.Table | None, adds: pa.Table) -> pa.Table | None:
    """Of the removes those whose partition the adds write into."""
    if removes is None:
        return None
    keys = [sorted(dict(v or []).items(), key=str) for v in adds.column("partitionValues").to_pylist()]
    new = {str(k) for k in keys}
    old = removes.column("partitionValues").to_pylist()
    mask = [str(sorted(dict(v or []).items(), key=str)) in new for v in old]
    return removes.filter(pa.array(mask, pa.bool_()))


def _unchanged(files: pa.Table) -> pa.Table:
    at = files.schema.get_field_index("dataChange")
    return files.set_column(at, files.schema.field(at), pa.array([False] * files.num_rows, pa.bool_()))


def write_metrics(adds: pa.Table, removes: pa.Table | None) -> dict[str, str]:
    rows = sum(pc.sum(num_records(c)).as_py() or 0 for c in adds.column("stats").chunks)
    out = {
        "numFiles": str(adds.num_rows),
        "numOutputRows": str(rows),
        "numOutputBytes": str(pc.sum(adds.column("size")).as_py() or 0),
    }
    if removes is not None:
        out["numRemovedFiles"] = str(removes.num_rows)
        out["numRemovedBytes"] = str(pc.sum(removes.column("size")).as_py() or 0)
    return out
