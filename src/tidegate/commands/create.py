"""Creating and replacing tables: metadata, protocol and clustering in one commit. No Spark is needed.

A table is created only where none is; a replacement removes every row and gives the table new
metadata in the same commit, so that no reader sees a table in between. Features are not lost by a
replacement, unless the session lets them go. Session defaults count here and nowhere else.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import msgspec

from tidegate import properties
from tidegate.commands import clustering
from tidegate.commands.lowering import lowered, settle
from tidegate.commands.removes import as_removes
from tidegate.commands.schema_edits import check_indexed
from tidegate.errors import (
    ManualEnablementError,
    NotATableError,
    OptionError,
    PropertyError,
    SchemaInvalidError,
    TableExistsError,
)
from tidegate.log.actions import Action
from tidegate.log.snapshot import Snapshot, load
from tidegate.log.table_log import TableLog
from tidegate.metadata import Metadata
from tidegate.protocol import negotiate
from tidegate.schema.columns import (
    default_columns,
    generated_columns,
    identity_columns,
    is_long,
    unenforced_not_null,
    users_metadata,
    without_unenforced,
)
from tidegate.schema.mapping import mapping_mode
from tidegate.schema.names import check_partitions_once
from tidegate.schema.paths import join_path, split_path
from tidegate.schema.stored import check_types
from tidegate.schema.types import LONG, StructType, duplicate_columns
from tidegate.transaction.pending import Operation
from tidegate.transaction.transaction import Committed, Transaction

Mode = Literal["create", "createIfNotExists", "replace", "createOrReplace"]


@dataclass(frozen=True)
class Definition:
    """What a table is to be."""

    schema: StructType
    partition_by: Sequence[str] = ()
    cluster_by: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None
    comment: str | None = None


def create(
    log: TableLog,
    definition: Definition,
    mode: Mode = "create",
    *,
    defaults: Mapping[str, str] | None = None,
    managed: bool = False,
    lowers_protocol: bool = False,
) -> Committed | None:
    """Make the table, or replace it; None where there is one already and the mode leaves it alone."""
    transaction = Transaction.begin(log, defaults=defaults)
    exists = transaction.snapshot is not None
    if exists and mode == "create":
        raise TableExistsError(
            f"The table {definition.name or log.url} already exists.",
            table=log.url,
            hint="Use createIfNotExists, createOrReplace, or another place.",
            errorClass="TABLE_OR_VIEW_ALREADY_EXISTS",
        )
    if exists and mode == "createIfNotExists":
        return None
    if not exists and mode == "replace":
        raise NotATableError(
            f"The table {definition.name or log.url} cannot be found, so it cannot be replaced.",
            table=log.url,
            hint="Use createOrReplace to make it.",
            errorClass="TABLE_OR_VIEW_NOT_FOUND",
        )
    if mode in ("replace", "createOrReplace") and not definition.schema.fields:
        raise SchemaInvalidError(
            f"{definition.name or log.url} is to be replaced by a table without columns.",
            table=log.url,
            hint="Say which columns it is to have, or fill it AS SELECT.",
            errorClass="DELTA_SCHEMA_NOT_PROVIDED",
        )
    if not exists and mode != "createOrReplace":
        check_empty(log, definition.name, has_columns=bool(definition.schema.fields))
    most = log.settings().clustering_columns
    definition = replace(definition, schema=_enforced(definition.schema, log.settings().unenforced_not_null))
    metadata = metadata_of(definition, most)
    parameters = {
        "partitionBy": list(metadata.partition_columns),
        "clusterBy": list(definition.cluster_by),
        "description": definition.comment,
        "isManaged": str(managed).lower(),
        "properties": dict(definition.properties),
    }
    actions: list[Action] = []
    if transaction.snapshot is None:
        transaction.update_metadata(metadata)
        removes = None
    else:
        removes = as_removes(transaction.files(), log.clock())
        replace_metadata(
            transaction, transaction.snapshot, metadata, defaults, lowers_protocol=lowers_protocol
        )
    if default_columns(metadata.schema) and not transaction.protocol.supports("allowColumnDefaults"):
        raise ManualEnablementError(
            "The table does not have the feature allowColumnDefaults, so its columns have no defaults.",
            table=log.url,
            hint="Add the property delta.feature.allowColumnDefaults = supported.",
            errorClass="WRONG_COLUMN_DEFAULTS_FOR_DELTA_FEATURE_NOT_ENABLED",
        )
    if definition.cluster_by or (
        transaction.snapshot is not None and clustering.is_clustered(transaction.snapshot)
    ):
        columns = clustering.resolve(transaction.metadata, definition.cluster_by, most)
        actions.append(clustering.domain(transaction.metadata, columns))
    name = {"create": "CREATE TABLE", "createIfNotExists": "CREATE TABLE", "replace": "REPLACE TABLE"}
    operation = Operation(name.get(mode, "CREATE OR REPLACE TABLE"), parameters)
    committed = transaction.commit(actions, operation, removes=removes)
    settle(committed, transaction.snapshot)
    return committed


def check_empty(log: TableLog, name: str | None, *, has_columns: bool = True) -> None:
    """A new table begins where there are no files: those of another format would not be in it."""
    inside = f"{log.log_dir}/"
    if all(f.name.startswith(inside) for f in log.store.list_from("", recursive=True)):
        return
    name = name or log.url
    if not has_columns:
        raise NotATableError(
            f"{name} has no columns to be made with, and there are files but no log where it is to be.",
            table=log.url,
            hint="CONVERT TO DELTA makes a table of parquet files.",
            errorClass="DELTA_CREATE_EXTERNAL_TABLE_WITHOUT_TXN_LOG",
        )
    raise TableExistsError(
        f"{name} cannot be made here: there are files already, and no log.",
        table=log.url,
        hint="Take an empty place; CONVERT TO DELTA makes a table of parquet files.",
        errorClass="DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION",
    )


def not_bucketed(name: str) -> OptionError:
    return OptionError(
        f"{name} cannot be bucketed: Delta tables have no buckets.",
        hint="Partition it, or cluster it with CLUSTER BY.",
        errorClass="DELTA_OPERATION_NOT_ALLOWED_DETAIL",
    )


def existing(log: TableLog) -> Snapshot | None:
    """The table that is there, None where there is none."""
    try:
        return load(log)
    except NotATableError:
        return None


def check_same(snapshot: Snapshot, definition: Definition) -> None:
    """Whether a table that is there already is the one that is described; a name may then be given to it.

    What the description leaves out is the table's own: without columns it says nothing of them.
    """

    def differs(what: str, there: object, described: object, error_class: str) -> SchemaInvalidError:
        return SchemaInvalidError(
            f"There is a table already whose {what} differ: it has {there}, described are {described}.",
            table=snapshot.url,
            hint="Leave them out to enter the table as it is.",
            errorClass=error_class,
        )

    if definition.schema.fields:
        there, described = _told(snapshot.schema), _told(definition.schema)
        if there != described:
            which = [n for n in {**there, **described} if there.get(n) != described.get(n)]
            shown = ", ".join(snapshot.schema.names), ", ".join(definition.schema.names)
            raise differs(f"columns ({', '.join(which)})", *shown, "DELTA_CREATE_TABLE_SCHEME_MISMATCH")
        made, asked_for = (
            {g.name.lower(): g.expression for g in generated_columns(s)}
            for s in (snapshot.schema, definition.schema)
        )
        if made != asked_for:
            raise differs("generated columns", made, asked_for, "DELTA_CREATE_TABLE_SCHEME_MISMATCH")
    partitions = list(snapshot.partition_columns), list(definition.partition_by)
    clusters = (
        [join_path(c) for c in clustering.clustering_columns(snapshot)],
        [join_path(split_path(c)) for c in definition.cluster_by],
    )
    for what, (has, asks), name in (
        ("partition columns", partitions, "DELTA_CREATE_TABLE_WITH_DIFFERENT_PARTITIONING"),
        ("clustering columns", clusters, "DELTA_CREATE_TABLE_WITH_DIFFERENT_CLUSTERING"),
    ):
        if (definition.schema.fields or asks) and [c.lower() for c in has] != [c.lower() for c in asks]:
            raise differs(what, has, asks, name)
    have = snapshot.metadata.configuration
    wanted = properties.validate(dict(definition.properties))
    asked = {k: v for k, v in wanted.items() if have.get(k) != v}
    if asked:
        shown_properties = {k: have.get(k) for k in asked}, asked
        raise differs("properties", *shown_properties, "DELTA_CREATE_TABLE_WITH_DIFFERENT_PROPERTY")


def _told(schema: StructType) -> dict[str, object]:
    """What a description says of the columns, whatever their order: type, nulls and what users attached.

    Columns inside others speak for themselves, for in a table they have ids that no description has.
    """
    return {
        join_path(path).lower(): (str(f.type).lower(), f.nullable, users_metadata(f))
        for path, f in schema.walk()
    }


def metadata_of(definition: Definition, most_clustering: int) -> Metadata:
    """The metadata of a new table; refuses a definition that makes no table."""
    schema = definition.schema
    _check_schema(schema, definition.partition_by)
    partitions = tuple(f.name if (f := schema.field(n)) is not None else n for n in definition.partition_by)
    configuration = dict(definition.properties)
    if definition.cluster_by:
        configuration[clustering.FEATURE_PROPERTY] = "supported"
    elif clustering.FEATURE_PROPERTY in configuration:
        raise PropertyError(
            "A table is clustered by its columns, not by a property.",
            hint="Use CLUSTER BY, or clusterBy(...).",
            errorClass="DELTA_CREATE_TABLE_SET_CLUSTERING_TABLE_FEATURE_NOT_ALLOWED",
        )
    metadata = Metadata(
        id=str(uuid.uuid4()),
        name=definition.name,
        description=definition.comment,
        schema_string=schema.to_json(),
        partition_columns=partitions,
        configuration=configuration,
    )
    clustering.resolve(metadata, definition.cluster_by, most_clustering)
    check_indexed(metadata)
    return metadata


def _enforced(schema: StructType, lenient: bool) -> StructType:
    """The schema without NOT NULL inside arrays and maps, which no write checks; refused, or left out."""
    inside = unenforced_not_null(schema)
    if inside and not lenient:
        raise SchemaInvalidError(
            f"{join_path(inside[0])} is NOT NULL inside an array or a map, where it would not be checked.",
            hint="Leave it out; where "
            "spark.databricks.delta.constraints.allowUnenforcedNotNull.enabled is true, that is done here.",
            errorClass="DELTA_NESTED_NOT_NULL_CONSTRAINT",
        )
    return without_unenforced(schema) if inside else schema


def replace_metadata(
    transaction: Transaction,
    snapshot: Snapshot,
    metadata: Metadata,
    defaults: Mapping[str, str] | None,
    *,
    lowers_protocol: bool = False,
) -> None:
    """New metadata for a table that stands: its features stay, unless ``lowers_protocol`` lets them go.

    Its column ids are never given again, and its older versions stay as protected as they are.
    """
    clustering.refuse_partitions(snapshot, metadata)
    registry = snapshot.log.registry
    wanted = negotiate.for_new_table(metadata, defaults, registry)
    if lowers_protocol:
        transaction.update_protocol(lowered(snapshot, wanted), lowers=True)
    else:
        transaction.update_protocol(snapshot.protocol.merge(wanted, rules=registry.rules))
    configuration = properties.validate(
        negotiate.configuration_for_new_table(metadata.configuration, defaults)
    )
    configuration = negotiate.strip_protocol_properties(configuration)
    metadata = metadata.with_configuration(configuration)
    before = snapshot.metadata
    if mapping_mode(metadata) != "none" and mapping_mode(before) != "none":
        highest = properties.COLUMN_MAPPING_MAX_ID.key
        configuration[highest] = before.configuration.get(highest, "0")
    metadata = metadata.with_configuration({**configuration, **boundary_of(before)})
    created = snapshot.log.clock()
    transaction.update_metadata(msgspec.structs.replace(metadata, created_time=created))


def boundary_of(replaced: Metadata) -> dict[str, str]:
    """The boundary of protected versions, which those of a table that is replaced keep."""
    key = properties.REQUIRE_CHECKPOINT_PROTECTION_BEFORE.key
    return {key: replaced.configuration[key]} if key in replaced.configuration else {}


def end_of_clustering(replaced: Snapshot) -> list[Action]:
    """What ends the clustering of a table that is replaced, if it has any."""
    found = replaced.domains.get(clustering.DOMAIN)
    if found is None or not replaced.protocol.supports("domainMetadata"):
        return []
    return [msgspec.structs.replace(found, removed=True)]


def _check_schema(schema: StructType, partition_by: Sequence[str]) -> None:
    twice = duplicate_columns(schema)
    if twice:
        raise SchemaInvalidError(
            f"The table has columns twice: {', '.join(twice)}.", errorClass="COLUMN_ALREADY_EXISTS"
        )
    check_types(schema)
    check_partitions_once(partition_by)
    missing = [c for c in partition_by if schema.field(c) is None]
    if missing:
        raise SchemaInvalidError(
            f"There is no column {', '.join(missing)} to partition by; the table has "
            f"{', '.join(schema.names) or 'no columns'}.",
            errorClass="DELTA_PARTITION_COLUMN_NOT_FOUND",
        )
    if schema.fields and len(partition_by) >= len(schema.fields):
        raise SchemaInvalidError(
            "All columns are partition columns; at least one must hold data.",
            errorClass="DELTA_CANNOT_USE_ALL_COLUMNS_FOR_PARTITION",
        )
    partitions = {c.lower() for c in partition_by}
    generated = {g.name.lower() for g in generated_columns(schema)}
    for identity in identity_columns(schema):
        found = schema.field(identity.name)
        assert found is not None
        if found.type != LONG:
            raise SchemaInvalidError(
                f"The identity column {identity.name} is {found.type}; it must be a bigint.",
                errorClass="DELTA_IDENTITY_COLUMNS_UNSUPPORTED_DATA_TYPE",
            )
        if identity.step == 0:
            raise SchemaInvalidError(
                f"The identity column {identity.name} has the step 0, so it would number nothing.",
                errorClass="DELTA_IDENTITY_COLUMNS_ILLEGAL_STEP",
            )
        if not (is_long(identity.start) and is_long(identity.step)):
            raise SchemaInvalidError(
                f"The identity column {identity.name} starts with {identity.start} and goes in steps of "
                f"{identity.step}; both must fit into a bigint.",
                errorClass="ARITHMETIC_OVERFLOW",
            )
        if identity.name.lower() in partitions:
            raise SchemaInvalidError(
                f"The identity column {identity.name} cannot be a partition column.",
                errorClass="DELTA_IDENTITY_COLUMNS_PARTITION_NOT_SUPPORTED",
            )
        if identity.name.lower() in generated:
            raise SchemaInvalidError(
                f"The column {identity.name} is generated twice: as an identity and by an expression.",
                errorClass="DELTA_IDENTITY_COLUMNS_WITH_GENERATED_EXPRESSION",
            )
