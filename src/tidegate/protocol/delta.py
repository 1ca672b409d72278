"""Every table feature of Delta, one row each.

The order is the one in which a table's metadata is asked for them: first the seven that versions imply,
then the ones that are always listed. A row says what this client does with the feature; raising that is
a change of this row and of the code that does it. Answers the section "Table Features" of the protocol.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate import properties as p
from tidegate.metadata import Metadata
from tidegate.protocol.feature import Feature, Registry, Support
from tidegate.protocol.protocol import DELTA_RULES, Names
from tidegate.schema.columns import generated_columns, identity_columns, invariants, not_null
from tidegate.schema.constraints import check_constraints
from tidegate.schema.mapping import mapping_mode
from tidegate.schema.types import TIMESTAMP_NTZ, VARIANT, is_geospatial

_Enabled = Callable[[Metadata], bool]


def _set(prop: p.Property[Any]) -> _Enabled:
    return lambda metadata: bool(metadata.property(prop))


def _needs(*names: str) -> Names:
    return Names(names)


def _legacy_writer(name: str, version: int, enabled_by: _Enabled, **more: bool) -> Feature:
    # What versions imply has always been added to existing tables without asking.
    return Feature(
        name=name,
        reader_writer=False,
        min_reader=0,
        min_writer=version,
        legacy=True,
        enabled_by=enabled_by,
        auto_update=True,
        removable=more.get("removable", False),
        fails_concurrent=more.get("fails_concurrent", False),
    )


def _writer(
    name: str,
    *,
    enabled_by: _Enabled | None = None,
    requires: Names = frozenset(),
    removable: bool = False,
    fails_concurrent: bool = False,
    support: Support = Support.FULL,
) -> Feature:
    return Feature(
        name=name,
        reader_writer=False,
        min_reader=0,
        min_writer=7,
        enabled_by=enabled_by,
        auto_update=enabled_by is not None,
        requires=requires,
        removable=removable,
        fails_concurrent=fails_concurrent,
        support=support,
        since="0.1.0" if support is Support.FULL else None,
    )


def _reader_writer(
    name: str,
    *,
    enabled_by: _Enabled | None = None,
    auto_update: bool | None = None,
    yields_to: Names = frozenset(),
    requires: Names = frozenset(),
    removable: bool = False,
    history_protection: bool = False,
    fails_concurrent: bool = False,
    support: Support = Support.FULL,
    catalog_managed: bool = False,
) -> Feature:
    return Feature(
        name=name,
        reader_writer=True,
        min_reader=3,
        min_writer=7,
        enabled_by=enabled_by,
        auto_update=enabled_by is not None if auto_update is None else auto_update,
        yields_to=yields_to,
        requires=requires,
        removable=removable,
        history_protection=history_protection,
        fails_concurrent=fails_concurrent,
        support=support,
        since="0.1.0" if support is Support.FULL else None,
        catalog_managed=catalog_managed,
    )


_LEGACY = (
    # A column that may not be null is an invariant too.
    _legacy_writer(
        "invariants",
        2,
        lambda m: bool(not_null(m.schema) or invariants(m.schema)),
        fails_concurrent=True,
    ),
    _legacy_writer("appendOnly", 2, _set(p.APPEND_ONLY)),
    _legacy_writer(
        "checkConstraints",
        3,
        lambda m: bool(check_constraints(m.configuration)),
        removable=True,
        fails_concurrent=True,
    ),
    _legacy_writer("generatedColumns", 4, lambda m: bool(generated_columns(m.schema)), fails_concurrent=True),
    _legacy_writer("changeDataFeed", 4, _set(p.ENABLE_CHANGE_DATA_FEED)),
    _legacy_writer("identityColumns", 6, lambda m: bool(identity_columns(m.schema)), fails_concurrent=True),
    Feature(
        name="columnMapping",
        reader_writer=True,
        min_reader=2,
        min_writer=5,
        legacy=True,
        enabled_by=lambda m: mapping_mode(m) != "none",
        auto_update=True,
        removable=True,
        history_protection=True,
    ),
)

_READER_WRITER = (
    # A new data type slips in unasked, so an existing table must be given the feature by hand.
    _reader_writer(
        "timestampNtz",
        enabled_by=lambda m: m.schema.contains(lambda t: t == TIMESTAMP_NTZ),
        auto_update=False,
    ),
    _reader_writer(
        "deletionVectors", enabled_by=_set(p.ENABLE_DELETION_VECTORS), removable=True, history_protection=True
    ),
    _reader_writer(
        "v2Checkpoint",
        enabled_by=lambda m: m.property(p.CHECKPOINT_POLICY) == "v2",
        removable=True,
        history_protection=True,
    ),
    _reader_writer("vacuumProtocolCheck", removable=True, history_protection=True),
    _reader_writer(
        "typeWidening",
        enabled_by=_set(p.ENABLE_TYPE_WIDENING),
        yields_to=_needs("typeWidening-preview"),
        removable=True,
        history_protection=True,
    ),
    _reader_writer("typeWidening-preview", removable=True, history_protection=True),
    _reader_writer(
        "variantType",
        enabled_by=lambda m: m.schema.contains(lambda t: t == VARIANT),
        yields_to=_needs("variantType-preview"),
        fails_concurrent=True,
    ),
    # Only asked for by a session conf of delta-spark; tables that have it keep it.
    _reader_writer("variantType-preview", fails_concurrent=True),
    # The property still enables the preview, as delta-spark does by default; a table may have either.
    _reader_writer(
        "variantShredding", requires=_needs("variantType"), fails_concurrent=True, support=Support.READ
    ),
    _reader_writer(
        "variantShredding-preview",
        enabled_by=_set(p.ENABLE_VARIANT_SHREDDING),
        yields_to=_needs("variantShredding"),
        fails_concurrent=True,
        support=Support.READ,
    ),
    _reader_writer(
        "geospatial",
        enabled_by=lambda m: m.schema.contains(is_geospatial),
        yields_to=_needs("geospatial-dev"),
        removable=True,
        history_protection=True,
        fails_concurrent=True,
        support=Support.NAME,
    ),
    _reader_writer(
        "geospatial-dev",
        removable=True,
        history_protection=True,
        fails_concurrent=True,
        support=Support.NAME,
    ),
    _reader_writer(
        "catalogManaged",
        requires=_needs("inCommitTimestamp", "vacuumProtocolCheck"),
        removable=True,
        support=Support.NAME,
        catalog_managed=True,
    ),
    _reader_writer("catalogOwned-preview", support=Support.NAME, catalog_managed=True),
    _reader_writer(
        "adaptiveMetadata-preview",
        requires=_needs(
            "catalogManaged", "rowTracking", "domainMetadata", "deletionVectors", "columnMapping"
        ),
        fails_concurrent=True,
        support=Support.NAME,
    ),
    _reader_writer(
        "redirectReaderWriter-preview",
        enabled_by=_set(p.REDIRECT_READER_WRITER),
        removable=True,
        fails_concurrent=True,
        support=Support.NAME,
    ),
)

_WRITER = (
    _writer(
        "rowTracking",
        enabled_by=_set(p.ENABLE_ROW_TRACKING),
        requires=_needs("domainMetadata"),
        removable=True,
    ),
    _writer("domainMetadata", removable=True),
    _writer("clustering", requires=_needs("domainMetadata"), fails_concurrent=True),
    _writer("allowColumnDefaults", fails_concurrent=True),
    _writer("inCommitTimestamp", enabled_by=_set(p.ENABLE_IN_COMMIT_TIMESTAMPS), removable=True),
    _writer(
        "materializePartitionColumns",
        enabled_by=_set(p.ENABLE_MATERIALIZE_PARTITION_COLUMNS),
        removable=True,
        fails_concurrent=True,
    ),
    _writer("checkpointProtection", removable=True, fails_concurrent=True),
    _writer(
        "icebergCompatV1",
        enabled_by=_set(p.ENABLE_ICEBERG_COMPAT_V1),
        requires=_needs("columnMapping"),
        support=Support.NAME,
    ),
    _writer(
        "icebergCompatV2",
        enabled_by=_set(p.ENABLE_ICEBERG_COMPAT_V2),
        requires=_needs("columnMapping"),
        support=Support.NAME,
    ),
    _writer(
        "icebergCompatV3",
        enabled_by=_set(p.ENABLE_ICEBERG_COMPAT_V3),
        requires=_needs("columnMapping", "rowTracking"),
        support=Support.NAME,
    ),
    _writer(
        "icebergWriterCompatV1",
        enabled_by=_set(p.ENABLE_ICEBERG_WRITER_COMPAT_V1),
        requires=_needs("icebergCompatV2"),
        support=Support.NAME,
    ),
    _writer(
        "coordinatedCommits-preview",
        enabled_by=_set(p.COMMIT_COORDINATOR),
        requires=_needs("inCommitTimestamp", "vacuumProtocolCheck"),
        removable=True,
        fails_concurrent=True,
        support=Support.NAME,
    ),
    _writer(
        "redirectWriterOnly-preview",
        enabled_by=_set(p.REDIRECT_WRITER_ONLY),
        removable=True,
        fails_concurrent=True,
        support=Support.NAME,
    ),
    _writer("collations-preview", support=Support.NAME),
)

DELTA = Registry(
    rows=_LEGACY + _READER_WRITER + _WRITER,
    rules=DELTA_RULES,
    max_reader_version=3,
    max_writer_version=7,
)
