"""Writing a DataFrame into a table: append, overwrite, error and ignore, one commit each.

The schema is fitted or refused before any job runs; the commit carries the adds, the removes of an
overwrite, new metadata and the idempotence marker together, or nothing at all.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from tidegate.commands import clustering, dynamic, replace, rows
from tidegate.commands.auto_compact import after_write
from tidegate.commands.create import end_of_clustering
from tidegate.commands.evolution import check_dependents, widening
from tidegate.commands.merge.source import Source
from tidegate.commands.once import Once
from tidegate.commands.options import WRITE, Options, table_properties
from tidegate.commands.removes import with_data_change
from tidegate.errors import MetadataChangedException, OptionError, SchemaInvalidError, TableExistsError
from tidegate.files.stats import has_bounds
from tidegate.log.actions import Action
from tidegate.log.snapshot import Snapshot
from tidegate.metadata import Metadata
from tidegate.schema.columns import filled_columns
from tidegate.schema.paths import Path
from tidegate.schema.types import StructType
from tidegate.spark.confs import log_at
from tidegate.spark.scan.origins import reads_newest
from tidegate.spark.write.assigned import assigned, refuse_losses
from tidegate.spark.write.files import write_files
from tidegate.spark.write.fit import check_columns, check_storable, merged, schema_of
from tidegate.spark.write.identity import check_explicit, to_generate
from tidegate.spark.write.layout import refuse_reserved
from tidegate.transaction.pending import Operation, num_records
from tidegate.transaction.transaction import Committed, Transaction

MODES = ("append", "overwrite", "error", "errorifexists", "ignore")
STREAMING = "STREAMING UPDATE"
_SELECTIVE = ("replaceWhere", "replaceOn", "replaceUsing")
# Writers that number rows of one table at once take turns; each turn is one commit of another writer.
_TURNS = 50


@dataclass(frozen=True)
class Saved:
    """That a write overwrites a table of the catalog by its name: ``saveAsTable``."""

    managed: bool


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
    saved: Saved | None = None,
    base: Snapshot | None = None,
    by_policy: bool = False,
) -> Committed | None:
    """Write ``frame`` to the table at ``url``; None if nothing is to be done, or nothing has changed.

    ``operation`` is what the history says was done, an ordinary write by default; a table that is ``saved``
    under its name once more is told as one that was replaced. What others commit after ``base`` has come
    between; without it, what they commit from now on. With ``by_policy`` text is cast too, as the session's
    store assignment policy says (see ``assigned``).
    """
    mode = mode.lower()
    if mode not in MODES:
        raise OptionError(f"There is no save mode {mode!r}.", hint=f"The modes are {', '.join(MODES)}.")
    given = Options(options or {}, WRITE).with_session(frame.sparkSession)
    _check_options(given, mode)
    once = Once.of(frame.sparkSession, given)
    properties = {**table_properties(frame.sparkSession, options), **(properties or {})}
    for turn in itertools.count(1):
        log = log_at(frame.sparkSession, url)
        transaction = (
            Transaction.begin(log, defaults=defaults)
            if base is None or turn > 1
            else Transaction(log, base, defaults=defaults)
        )
        work = _Write(frame, transaction, mode, given, once, saved, by_policy)
        try:
            return work.run(partition_by, properties, operation)
        except MetadataChangedException:
            # Another writer took the numbers of an identity column; nothing of ours is visible. Rows that
            # were read from the table are those of before.
            if turn >= _TURNS or not work.numbers_rows or work.reads_itself:
                raise
    raise AssertionError


def _check_options(given: Options, mode: str) -> None:
    """Refuse options that contradict each other."""
    selective = [n for n in _SELECTIVE if given.get(n) is not None]
    if len(selective) > 1:
        raise OptionError(
            f"{' and '.join(selective)} exclude each other.",
            errorClass="DELTA_OVERWRITE_BY_FILTER_INCOMPATIBLE_REPLACE_ON_OR_USING"
            if "replaceWhere" in selective
            else "DELTA_INCOMPATIBLE_DATAFRAME_OPTIONS",
        )
    by_rows = bool(selective) and selective[0] != "replaceWhere"
    if selective and mode != "overwrite":
        raise OptionError(
            f"{selective[0]} replaces rows, so it goes with the mode overwrite, not {mode}.",
            hint='Write .mode("overwrite").',
        )
    if by_rows and given.said("partitionOverwriteMode") == "dynamic":
        raise OptionError(
            f"{selective[0]} and partitionOverwriteMode = dynamic exclude each other.",
            errorClass="DELTA_DYNAMIC_PARTITION_OVERWRITE_INCOMPATIBLE_REPLACE_ON_OR_USING",
        )
    if given.flag("overwriteSchema") and mode == "overwrite":
        if selective:
            raise OptionError(
                f"overwriteSchema replaces the whole table; it does not go with {selective[0]}.",
                hint="Write with mergeSchema = true to add columns.",
                errorClass="DELTA_INCOMPATIBLE_DATAFRAME_OPTIONS"
                if by_rows
                else "DELTA_REPLACE_WHERE_IN_OVERWRITE",
            )
        if given.said("partitionOverwriteMode") == "dynamic":
            raise OptionError(
                "overwriteSchema replaces the whole table; it goes with no dynamic overwrite.",
                errorClass="DELTA_OVERWRITE_SCHEMA_WITH_DYNAMIC_PARTITION_OVERWRITE",
            )
    if given.get("partitionOverwriteMode") not in (None, "static", "dynamic"):
        raise OptionError("partitionOverwriteMode is static or dynamic.")
    rows = given.get("maxRecordsPerFile")
    if rows is not None and not rows.lstrip("-").isdecimal():
        raise OptionError(f"maxRecordsPerFile is {rows!r}; it is a whole number.")
    if not given.flag("dataChange", True) and by_rows:
        raise OptionError(
            f"{selective[0]} changes rows, so it goes with no dataChange = false.",
            errorClass="DELTA_INCOMPATIBLE_DATAFRAME_OPTIONS",
        )


class _Write:
    """One attempt to write a DataFrame in one transaction."""

    def __init__(
        self,
        frame: DataFrame,
        transaction: Transaction,
        mode: str,
        given: Options,
        once: Once,
        saved: Saved | None = None,
        by_policy: bool = False,
    ) -> None:
        self.frame = frame
        self.by_policy = by_policy
        self.spark = frame.sparkSession
        self.transaction = transaction
        self.mode = mode
        self.given = given
        self.once = once
        self.saved = saved
        self.numbers_rows = False
        self.reads_itself = False

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
        if self.once.is_done(transaction):
            return None
        overwrite = self.mode == "overwrite" and exists
        if exists and self.by_policy and not (overwrite and given.flag("overwriteSchema")):
            self.frame = assigned(self.frame, transaction.metadata.schema)
        data = schema_of(self.frame)
        changes: list[Action] = []
        if exists:
            changes = _evolve(self.frame.sparkSession, transaction, data, given, partition_by, overwrite)
            if not (self.by_policy or (operation is not None and operation.name == STREAMING)):
                refuse_losses(data, transaction.metadata.schema)
        else:
            _create(transaction, data, partition_by, properties)
        self._check_partitions()
        self.reads_itself = exists and reads_newest(self.frame, transaction.log.url)
        if self.reads_itself:
            transaction.read_table()
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
        if operation is not None and operation.name == STREAMING:
            # As Delta names what a stream did.
            metrics["numAddedFiles"] = metrics.pop("numFiles")
            metrics["numRemovedFiles"] = str(removes.num_rows)
            metrics.pop("numRemovedBytes", None)
        if overwrite and any(given.get(n) is not None for n in _SELECTIVE):
            metrics = replace.metrics(taken, adds, cdcs)
        adds = pa.concat_tables([adds, taken.adds.select(adds.column_names)]) if taken.adds.num_rows else adds
        cdcs = pa.concat_tables([cdcs, taken.cdcs])
        if not given.flag("dataChange", True):
            adds, removes = with_data_change(adds, False), with_data_change(removes, False)
        done = transaction.commit_if_needed(
            [*self.once.actions(transaction), *changes],
            operation or self._operation(overwrite, partition_by or ()),
            adds=adds,
            removes=removes,
            cdcs=cdcs,
            metrics=metrics,
            user_metadata=given.get("userMetadata"),
        )
        self.once.settle()
        after_write(self.spark, transaction.log, done)
        return done

    def _check_partitions(self) -> None:
        """Refuse two ways to say which partitions are replaced, where there are partitions."""
        if (
            self.given.get("replaceWhere") is not None
            and self.given.said("partitionOverwriteMode") == "dynamic"
            and self.transaction.metadata.partition_columns
        ):
            raise OptionError(
                "replaceWhere and partitionOverwriteMode = dynamic exclude each other.",
                errorClass="DELTA_REPLACE_WHERE_WITH_DYNAMIC_PARTITION_OVERWRITE",
            )

    @property
    def _is_dynamic(self) -> bool:
        if any(self.given.get(n) is not None for n in _SELECTIVE) or self.given.flag("overwriteSchema"):
            return False
        dynamic = self.given.get("partitionOverwriteMode") == "dynamic"
        return dynamic and bool(self.transaction.metadata.partition_columns)

    def _taken_out(self) -> replace.TakenOut:
        """What an overwrite takes out of the table."""
        snapshot = self.transaction.snapshot
        assert snapshot is not None
        where = self.given.get("replaceWhere")
        if where is not None:
            alias = self.given.get("targetAlias")
            found = replace.condition(self.spark, snapshot, where, alias)
            if not self.given.flag("dataChange", True) and not found.is_decided_by(
                snapshot.partition_columns
            ):
                raise OptionError(
                    "replaceWhere speaks of columns that are not partition columns, so rows change; it goes "
                    "with no dataChange = false.",
                    errorClass="DELTA_REPLACE_WHERE_WITH_FILTER_DATA_CHANGE_UNSET",
                )
            return replace.rows_where(self.spark, self.transaction, snapshot, found, alias)
        on, using = self.given.get("replaceOn"), self.given.get("replaceUsing")
        if on is not None or using is not None:
            columns = [c.strip().strip("`") for c in (using or "").split(",")]
            matching = replace.Matching(columns, on, self.given.get("targetAlias"))
            matching.check(self.spark, snapshot, self.frame)
            # What leaves and what comes must be decided by the same rows.
            source = Source.of(self.frame)
            self.frame = source.named(source.kept(source.given))
            return replace.rows_matching(
                self.spark, self.transaction, snapshot, self.frame, matching, source.moment
            )
        # What a dynamic overwrite replaces, and so has read, is known once its files are written.
        files = snapshot.files() if self._is_dynamic else self.transaction.files()
        return replace.TakenOut(rows.removed(self.transaction, files))

    def _write(self, taken: replace.TakenOut) -> tuple[pa.Table, pa.Table]:
        where = self.given.get("replaceWhere")
        return write_files(
            self.transaction,
            self.frame,
            self.given.as_mapping(),
            operation="WRITE",
            # A table that is only being made has nothing to replace, and takes what comes.
            constraints=replace.constraint(self.spark, where, self.given.get("targetAlias"))
            if where is not None and self.transaction.snapshot is not None
            else (),
            # A version that has change files is told by them alone.
            tells_inserts=taken.cdcs.num_rows > 0,
        )

    def _operation(self, overwrite: bool, partition_by: Sequence[str]) -> Operation:
        """What the history says, with those options that a reader could not see in the commit itself."""
        given = self.given
        texts: dict[str, object] = {
            "predicate": given.get("replaceWhere"),
            "replaceOnCond": given.get("replaceOn"),
            "replaceUsingCols": None if (using := given.get("replaceUsing")) is None else f"({using})",
        }
        flags: dict[str, object] = {
            "isDynamicPartitionOverwrite": overwrite and self._is_dynamic,
            "canOverwriteSchema": overwrite and given.flag("overwriteSchema"),
            "canMergeSchema": given.flag("mergeSchema"),
        }
        said = {k: v for k, v in {**texts, **flags}.items() if v is not None and v is not False}
        if self.saved is not None and overwrite:
            metadata = self.transaction.metadata
            return Operation(
                "CREATE OR REPLACE TABLE AS SELECT",
                {
                    "partitionBy": list(metadata.partition_columns),
                    "clusterBy": [],
                    "description": metadata.description,
                    "isManaged": str(self.saved.managed).lower(),
                    "properties": dict(metadata.configuration),
                    **said,
                    "isV1SaveAsTableOverwrite": True,
                },
            )
        mode = "Overwrite" if overwrite else "Append" if self.mode == "append" else "ErrorIfExists"
        return Operation("WRITE", {"mode": mode, "partitionBy": list(partition_by), **said})


def _create(
    transaction: Transaction,
    data: StructType,
    partition_by: Sequence[str] | None,
    properties: Mapping[str, str] | None,
) -> None:
    wanted = _in_case(data, partition_by or ())
    check_columns(data, wanted)
    check_storable(data, wanted)
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
) -> list[Action]:
    """Change the table's schema where an option asks for it; refuse a partitioning that differs.

    What else the commit must say of the columns is returned.
    """
    metadata = transaction.metadata
    if given.flag("overwriteSchema") and overwrite:
        wanted = _in_case(data, partition_by or ())
        check_columns(data, wanted)
        check_storable(data, wanted)
        changed = msgspec.structs.replace(metadata, schema_string=data.to_json(), partition_columns=wanted)
        if changed == metadata:
            return []
        transaction.update_metadata(changed)
        return _clustering_after(transaction)
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
            check_dependents(metadata, schema, transaction.log.url)
            transaction.update_metadata(metadata.with_schema(schema))
    # Columns that the write itself fills may be left out, those of partitions too.
    filled = filled_columns(metadata.schema)
    others = [f for f in metadata.schema.fields if f.name in filled and data.field(f.name) is None]
    check_columns(StructType((*data.fields, *others)), metadata.partition_columns)
    return []


def _clustering_after(transaction: Transaction) -> list[Action]:
    """What becomes of the clustering with new columns: it lasts where all of its own are among them.

    Said also where nothing changes: columns may have other names in files, and whoever chooses others
    meanwhile knows nothing of the new ones.
    """
    before, after = transaction.snapshot, transaction.metadata
    if before is None or not clustering.is_clustered(before):
        return []
    columns: list[Path] = []
    for path in clustering.clustering_columns(before):
        found = after.schema.resolve(path)
        if found is None or not has_bounds(found[1].type) or found[0] not in clustering.indexed(after):
            return end_of_clustering(before)
        columns.append(found[0])
    return end_of_clustering(before) if after.partition_columns else [clustering.domain(after, columns)]


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
