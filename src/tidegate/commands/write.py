"""Writing a DataFrame into a table: append, overwrite, error and ignore, one commit each.

The schema is fitted or refused before any job runs; the commit carries the adds, the removes of an
overwrite, new metadata and the idempotence marker together, or nothing at all.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Mapping, Sequence
from os import PathLike

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from tidegate.commands import dynamic, replace, rows
from tidegate.commands.auto_compact import after_write
from tidegate.commands.evolution import widening
from tidegate.commands.options import WRITE, Options, table_properties
from tidegate.commands.removes import with_data_change
from tidegate.errors import MetadataChangedException, OptionError, SchemaInvalidError, TableExistsError
from tidegate.log.actions import Action, Txn
from tidegate.metadata import Metadata
from tidegate.schema.columns import generated_columns
from tidegate.schema.types import StructType
from tidegate.spark.confs import log_at
from tidegate.spark.write.files import write_files
from tidegate.spark.write.fit import check_columns, check_storable, merged, schema_of
from tidegate.spark.write.identity import check_explicit, to_generate
from tidegate.spark.write.layout import refuse_reserved
from tidegate.transaction.pending import Operation, num_records
from tidegate.transaction.transaction import Committed, Transaction

MODES = ("append", "overwrite", "error", "errorifexists", "ignore")
_SELECTIVE = ("replaceWhere", "replaceOn", "replaceUsing")
# Writers that number rows of one table at once take turns; each turn is one commit of another writer.
_TURNS = 50


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
    given = Options(options or {}, WRITE).with_session(frame.sparkSession)
    _check_options(given, mode)
    properties = {**table_properties(frame.sparkSession, options), **(properties or {})}
    for turn in itertools.count(1):
        work = _Write(
            frame, Transaction.begin(log_at(frame.sparkSession, url), defaults=defaults), mode, given
        )
        try:
            return work.run(partition_by, properties, operation)
        except MetadataChangedException:
            # Another writer took the numbers of an identity column; nothing of ours is visible.
            if turn >= _TURNS or not work.numbers_rows:
                raise
    raise AssertionError


def _check_options(given: Options, mode: str) -> None:
    """Refuse options that contradict each other."""
    selective = [n for n in _SELECTIVE if given.get(n) is not None]
    if len(selective) > 1:
        raise OptionError(f"{' and '.join(selective)} exclude each other.")
    if selective and mode != "overwrite":
        raise OptionError(
            f"{selective[0]} replaces rows, so it goes with the mode overwrite, not {mode}.",
            hint='Write .mode("overwrite").',
        )
    if selective and given.said("partitionOverwriteMode") == "dynamic":
        raise OptionError(
            f"{selective[0]} and partitionOverwriteMode = dynamic exclude each other.",
            errorClass="DELTA_REPLACE_WHERE_WITH_DYNAMIC_PARTITION_OVERWRITE",
        )
    if given.flag("overwriteSchema") and mode == "overwrite":
        if selective:
            raise OptionError(
                f"overwriteSchema replaces the whole table; it does not go with {selective[0]}.",
                errorClass="DELTA_REPLACE_WHERE_IN_OVERWRITE",
            )
        if given.said("partitionOverwriteMode") == "dynamic":
            raise OptionError(
                "overwriteSchema replaces the whole table; it goes with no dynamic overwrite.",
                errorClass="DELTA_OVERWRITE_SCHEMA_WITH_DYNAMIC_PARTITION_OVERWRITE",
            )
    app, version = given.get("txnAppId"), given.get("txnVersion")
    if (app is None) != (version is None):
        raise OptionError(
            "txnAppId and txnVersion go together.",
            hint="Give both of them, or neither.",
            errorClass="DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS",
        )
    if version is not None and not version.lstrip("-").isdecimal():
        raise OptionError(f"txnVersion is {version!r}; it is a whole number.")
    if given.get("partitionOverwriteMode") not in (None, "static", "dynamic"):
        raise OptionError("partitionOverwriteMode is static or dynamic.")
    rows = given.get("maxRecordsPerFile")
    if rows is not None and not rows.lstrip("-").isdecimal():
        raise OptionError(f"maxRecordsPerFile is {rows!r}; it is a whole number.")
    given.flag("dataChange", True)


class _Write:
    """One attempt to write a DataFrame in one transaction."""

    def __init__(self, frame: DataFrame, transaction: Transaction, mode: str, given: Options) -> None:
        self.frame = frame
        self.spark = frame.sparkSession
        self.transaction = transaction
        self.mode = mode
        self.given = given
        self.numbers_rows = False

    def run(
        self,
        partition_by: Sequence[str] | None,
        properties: Mapping[str, str] | None,
        operation: Operation | None,
    ) -> Committed | None:
        transaction, given = self.transaction, self.given
        exists = transaction.snapshot is not None
        if exists and self.mode in ("error", "errorifexists"):
            raise TableExistsError(
                "A table already exists here.",
                table=transaction.log.url,
                hint="Use the mode append or overwrite.",
            )
        if exists and self.mode == "ignore":
            return None
        if self._already_done():
            return None
        overwrite = self.mode == "overwrite" and exists
        data = schema_of(self.frame)
        if exists:
            _evolve(self.frame.sparkSession, transaction, data, given, partition_by, overwrite)
        else:
            _create(transaction, data, partition_by, properties)
        refuse_reserved(self.frame.columns, transaction.metadata.schema)
        check_explicit(transaction.metadata, self.frame.columns)
        self.numbers_rows = bool(to_generate(transaction.metadata, self.frame.columns))
        taken = self._taken_out() if overwrite else replace.TakenOut()
        adds, cdcs = self._write(taken)
        removes = taken.removes
        if overwrite and self._is_dynamic:
            removes = dynamic.touched(transaction.metadata, removes, adds)
            dynamic.note_read(transaction, removes, adds)
        metrics = write_metrics(adds, removes if overwrite else None)
        if given.get("replaceWhere") or given.get("replaceOn") or given.get("replaceUsing"):
            metrics["numCopiedRows"] = str(taken.copied)
            if taken.deleted is not None:
                metrics["numDeletedRows"] = str(taken.deleted)
        adds = pa.concat_tables([adds, taken.adds.select(adds.column_names)]) if taken.adds.num_rows else adds
        cdcs = pa.concat_tables([cdcs, taken.cdcs])
        if not given.flag("dataChange", True):
            adds, removes = with_data_change(adds, False), with_data_change(removes, False)
        done = transaction.commit(
            self._idempotence(),
            operation or self._operation(overwrite),
            adds=adds,
            removes=removes,
            cdcs=cdcs,
            metrics=metrics,
            user_metadata=given.get("userMetadata"),
        )
        given.reset(self.spark)
        after_write(self.spark, transaction.log, done)
        return done

    @property
    def _is_dynamic(self) -> bool:
        if any(self.given.get(n) is not None for n in _SELECTIVE) or self.given.flag("overwriteSchema"):
            return False
        dynamic = self.given.get("partitionOverwriteMode") == "dynamic"
        return dynamic and bool(self.transaction.metadata.partition_columns)

    def _already_done(self) -> bool:
        app, version = self.given.get("txnAppId"), self.given.get("txnVersion")
        if app is None or version is None:
            return False
        seen = self.transaction.app_version(app)
        return seen is not None and seen >= int(version)

    def _taken_out(self) -> replace.TakenOut:
        """What an overwrite takes out of the table."""
        snapshot = self.transaction.snapshot
        assert snapshot is not None
        where = self.given.get("replaceWhere")
        if where is not None:
            found = replace.condition(self.spark, snapshot, where)
            return replace.rows_where(self.spark, self.transaction, snapshot, found)
        on, using = self.given.get("replaceOn"), self.given.get("replaceUsing")
        if on is not None or using is not None:
            return replace.rows_matching(
                self.spark,
                self.transaction,
                snapshot,
                self.frame,
                using=[c.strip().strip("`") for c in (using or "").split(",") if c.strip()],
                on=on,
                alias=self.given.get("targetAlias"),
            )
        # What a dynamic overwrite replaces, and so has read, is known once its files are written.
        files = snapshot.files() if self._is_dynamic else self.transaction.files()
        return replace.TakenOut(rows.removed(self.transaction, files))

    def _write(self, taken: replace.TakenOut) -> tuple[pa.Table, pa.Table]:
        where = self.given.get("replaceWhere")
        frame = replace.with_change_rows(self.frame) if taken.cdcs.num_rows else self.frame
        return write_files(
            self.transaction,
            frame,
            self.given.as_mapping(),
            operation="WRITE",
            constraints=replace.constraint(self.spark, where) if where is not None else (),
        )

    def _idempotence(self) -> list[Action]:
        app, version = self.given.get("txnAppId"), self.given.get("txnVersion")
        if app is None or version is None:
            return []
        return [Txn(app_id=app, version=int(version), last_updated=self.transaction.log.clock())]

    def _operation(self, overwrite: bool) -> Operation:
        parameters: dict[str, object] = {
            "mode": "Overwrite" if overwrite else "Append" if self.mode == "append" else "ErrorIfExists",
            "partitionBy": list(self.transaction.metadata.partition_columns),
        }
        where = self.given.get("replaceWhere")
        if where is not None:
            parameters["predicate"] = where
        return Operation("WRITE", parameters)


def _create(
    transaction: Transaction,
    data: StructType,
    partition_by: Sequence[str] | None,
    properties: Mapping[str, str] | None,
) -> None:
    wanted = _in_case(data, partition_by or ())
    check_columns(data, wanted)
    check_storable(data)
    transaction.update_metadata(
        Metadata(
            id=str(uuid.uuid4()),
            schema_string=data.to_json(),
            partition_columns=wanted,
            configuration=dict(properties or {}),
        )
    )


def _in_case(data: StructType, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(f.name if (f := data.field(n)) is not None else n for n in names)


def _evolve(
    spark: SparkSession,
    transaction: Transaction,
    data: StructType,
    given: Options,
    partition_by: Sequence[str] | None,
    overwrite: bool,
) -> None:
    """Change the table's schema where an option asks for it; refuse a partitioning that differs."""
    metadata = transaction.metadata
    if given.flag("overwriteSchema") and overwrite:
        wanted = _in_case(data, partition_by or ())
        check_columns(data, wanted)
        check_storable(data)
        changed = msgspec.structs.replace(metadata, schema_string=data.to_json(), partition_columns=wanted)
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
        schema = merged(metadata.schema, data, widens=widening(spark, metadata), small_grow=True)
        if schema != metadata.schema:
            check_storable(schema)
            transaction.update_metadata(metadata.with_schema(schema))
    # A generated partition column may be left out: its values are made of the others.
    made = {g.name for g in generated_columns(metadata.schema)} - {f.name for f in data.fields}
    check_columns(data, tuple(c for c in metadata.partition_columns if c not in made))


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
