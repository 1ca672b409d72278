"""The protocols tables get when they are created, altered, and lose features: one test per scenario.

CREATE is ``for_new_table``, ALTER is ``apply_properties`` and then the upgrade for the new metadata, DROP is
algebra: without the feature, and on the fast path with checkpoint protection where history needs it.
Most scenarios run with test features in the registry; "plain" ones run without.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from tidegate.metadata import Metadata
from tidegate.protocol.delta import DELTA
from tidegate.protocol.feature import Feature, Registry
from tidegate.protocol.negotiate import (
    apply_properties,
    check_requirements,
    check_transition,
    configuration_for_new_table,
    for_new_table,
)
from tidegate.protocol.protocol import Protocol
from tidegate.schema.types import INTEGER, LONG, StructField, StructType

TRW = "testRemovableWriter"
TRRW = "testRemovableReaderWriter"


def row(name: str, reader: int, writer: int, *, legacy: bool = False, removable: bool = False) -> Feature:
    return Feature(
        name=name,
        reader_writer=reader > 0,
        min_reader=reader,
        min_writer=writer,
        legacy=legacy,
        removable=removable,
        history_protection=removable and reader > 0,
    )


TESTING = DELTA.with_features(
    row("testLegacyWriter", 0, 5, legacy=True),
    row("testLegacyReaderWriter", 2, 5, legacy=True),
    row("testRemovableLegacyWriter", 0, 5, legacy=True, removable=True),
    row("testRemovableLegacyReaderWriter", 2, 5, legacy=True, removable=True),
    row("testWriter", 0, 7),
    row("testReaderWriter", 3, 7),
    row(TRW, 0, 7, removable=True),
    row(TRRW, 3, 7, removable=True),
)

SHORT_NAMES = {
    "ao": "appendOnly",
    "inv": "invariants",
    "cc": "checkConstraints",
    "cdf": "changeDataFeed",
    "gc": "generatedColumns",
    "cm": "columnMapping",
    "id": "identityColumns",
    "dv": "deletionVectors",
    "tw": "testWriter",
    "trw": TRW,
    "trrw": TRRW,
    "cp": "checkpointProtection",
}
CDF = {"delta.enableChangeDataFeed": "true"}
DV = {"delta.enableDeletionVectors": "true"}
NAME = {"delta.columnMapping.mode": "name"}
PLAIN_SCHEMA = StructType((StructField("id", LONG),))
GENERATED = StructType(
    (StructField("id", INTEGER), StructField("id2", INTEGER, True, {"delta.generationExpression": "id + 1"}))
)


class Table(NamedTuple):
    protocol: Protocol
    metadata: Metadata


def versions(reader: int, writer: int) -> dict[str, str]:
    return {"delta.minReaderVersion": str(reader), "delta.minWriterVersion": str(writer)}


def features(*short: str) -> dict[str, str]:
    return {f"delta.feature.{SHORT_NAMES[s]}": "supported" for s in short}


def expected(reader: int, writer: int, *short: str) -> Protocol:
    if writer < 7:
        return Protocol(reader, writer)
    names = frozenset(SHORT_NAMES[s] for s in short)
    readers = names & {SHORT_NAMES[s] for s in ("dv", "cm", "trrw")}
    return Protocol(reader, writer, readers if reader == 3 else None, names)


def create(
    properties: Mapping[str, str],
    defaults: Mapping[str, str] | None = None,
    schema: StructType = PLAIN_SCHEMA,
    registry: Registry = TESTING,
) -> Table:
    metadata = Metadata(id="t", schema_string=schema.to_json(), configuration=dict(properties))
    protocol = for_new_table(metadata, defaults, registry)
    registry.check_write(protocol)
    return Table(protocol, metadata.with_configuration(configuration_for_new_table(properties, defaults)))


def alter(table: Table, properties: Mapping[str, str], registry: Registry = TESTING) -> Table:
    protocol, stored = apply_properties(table.protocol, properties, registry)
    metadata = table.metadata.with_configuration({**table.metadata.configuration, **stored})
    upgraded = check_requirements(metadata, protocol, registry) or protocol
    check_transition(table.protocol, upgraded, registry=registry)
    return Table(upgraded, metadata)


def drop(table: Table, name: str, *, fast: bool, registry: Registry = TESTING) -> Table:
    protected = registry["checkpointProtection"]
    new = table.protocol.without_feature(name, registry.rules)
    if fast and registry[name].history_protection:
        new = new.with_feature(protected, registry.rules)
    check_transition(table.protocol, new, dropped=name, registry=registry)
    return table._replace(protocol=new)


# ---------------------------------------------------------------------------- CREATE


@pytest.mark.parametrize(
    ("properties", "want"),
    [
        pytest.param({}, expected(1, 2), id="default"),
        pytest.param(versions(1, 1), expected(1, 1), id="versions-override-the-default"),
        pytest.param(versions(3, 7), expected(1, 1), id="lists-without-features"),
        pytest.param(features("trw"), expected(1, 7, "inv", "ao", "trw"), id="default-is-under-a-feature"),
        pytest.param(
            {**versions(3, 7), **features("trw")}, expected(1, 7, "trw"), id="given-versions-take-its-place"
        ),
        pytest.param(
            features("trw", "cm"),
            expected(2, 7, "ao", "inv", "trw", "cm"),
            id="column-mapping-needs-reader-2",
        ),
        pytest.param(
            {**versions(1, 7), **features("trrw")}, expected(3, 7, "trrw"), id="reader-1-rises-to-3"
        ),
        pytest.param(
            {**versions(2, 7), **features("trrw")}, expected(3, 7, "trrw"), id="reader-2-rises-to-3"
        ),
        pytest.param({"delta.minWriterVersion": "3"}, expected(1, 3), id="writer-version-alone"),
        pytest.param(
            {"delta.minWriterVersion": "3", **DV},
            expected(3, 7, "ao", "inv", "cc", "dv"),
            id="writer-version-alone-with-deletion-vectors",
        ),
    ],
)
def test_create(properties: dict[str, str], want: Protocol) -> None:
    assert create(properties).protocol == want


def test_column_mapping_of_writer_lists_stays_out_of_the_readers_list() -> None:
    assert create(features("trw", "cm")).protocol.reader_features is None


INVALID = [(2, 1), (2, 2), (2, 3), (2, 4), (1, 5)]


@pytest.mark.parametrize(("reader", "writer"), INVALID)
@pytest.mark.parametrize("way", ["create", "session-defaults", "alter"])
def test_versions_that_imply_less_come_down(reader: int, writer: int, way: str) -> None:
    if way == "create":
        table = create(versions(reader, writer), registry=DELTA)
    elif way == "session-defaults":
        table = create({}, versions(reader, writer), registry=DELTA)
    else:
        table = alter(create(versions(1, 1), registry=DELTA), versions(reader, writer), DELTA)
    assert table.protocol == Protocol(1, min(writer, 4))


@pytest.mark.parametrize(
    ("properties", "defaults", "want"),
    [
        pytest.param(versions(1, 4), DV, expected(3, 7, "dv", "inv", "ao", "cc", "cdf", "gc"), id="with-1-4"),
        pytest.param({}, DV, expected(3, 7, "dv", "inv", "ao"), id="no-versions"),
        pytest.param({}, {**versions(1, 7), **DV}, expected(3, 7, "dv"), id="default-versions-1-7"),
    ],
)
def test_native_feature_on_by_default(
    properties: dict[str, str], defaults: dict[str, str], want: Protocol
) -> None:
    assert create(properties, defaults).protocol == want


@pytest.mark.parametrize(
    ("properties", "defaults", "want"),
    [
        pytest.param(CDF, {}, expected(1, 7, "ao", "inv", "cdf"), id="create"),
        pytest.param({**versions(1, 3), **CDF}, {}, expected(1, 7, "ao", "inv", "cc", "cdf"), id="1-3"),
        pytest.param({**versions(1, 4), **CDF}, {}, expected(1, 4), id="1-4"),
        pytest.param({}, CDF, expected(1, 7, "ao", "inv", "cdf"), id="session"),
        pytest.param({**versions(1, 7), **CDF}, {}, expected(1, 7, "cdf"), id="1-7"),
        pytest.param({}, {**versions(1, 7), **CDF}, expected(1, 7, "cdf"), id="session-1-7-and-feed"),
        pytest.param(CDF, versions(1, 7), expected(1, 7, "cdf"), id="session-1-7"),
        pytest.param(versions(1, 7), CDF, expected(1, 7, "cdf"), id="session-feed-with-1-7"),
    ],
)
def test_legacy_feature_on_by_default(
    properties: dict[str, str], defaults: dict[str, str], want: Protocol
) -> None:
    assert create(properties, defaults).protocol == want


@pytest.mark.parametrize(
    ("properties", "defaults", "want"),
    [
        pytest.param({}, {}, expected(1, 7, "ao", "inv", "gc"), id="default"),
        pytest.param(versions(1, 7), {}, expected(1, 7, "gc"), id="1-7"),
        pytest.param({}, versions(1, 7), expected(1, 7, "gc"), id="session-1-7"),
    ],
)
def test_generated_column(properties: dict[str, str], defaults: dict[str, str], want: Protocol) -> None:
    assert create(properties, defaults, GENERATED).protocol == want


# ---------------------------------------------------------------------------- ALTER


@pytest.mark.parametrize(
    ("created", "altered", "want"),
    [
        pytest.param({}, {"delta.minWriterVersion": "3"}, expected(1, 3), id="writer-version-alone"),
        pytest.param(
            {},
            {"delta.minWriterVersion": "3", **DV},
            expected(3, 7, "ao", "inv", "cc", "dv"),
            id="writer-version-alone-with-deletion-vectors",
        ),
        pytest.param(versions(1, 1), versions(1, 4), expected(1, 4), id="1-1-plus-1-4"),
        pytest.param(versions(1, 2), versions(1, 4), expected(1, 4), id="1-2-plus-1-4"),
        pytest.param(versions(1, 4), versions(1, 2), expected(1, 4), id="lower-is-nothing"),
        pytest.param(versions(1, 4), versions(1, 4), expected(1, 4), id="same-is-nothing"),
        pytest.param(versions(1, 6), versions(2, 5), expected(2, 6), id="1-6-plus-2-5"),
        pytest.param(versions(2, 5), versions(1, 6), expected(2, 6), id="2-5-plus-1-6"),
        pytest.param(
            features("tw"),
            versions(1, 3),
            expected(1, 7, "ao", "cc", "inv", "tw"),
            id="versions-add-features",
        ),
        pytest.param(
            features("tw", "id"),
            versions(1, 3),
            expected(1, 7, "ao", "cc", "inv", "id", "tw"),
            id="versions-add-features-to-identity-columns",
        ),
        pytest.param(
            versions(1, 3),
            {**versions(1, 7), **CDF},
            expected(1, 7, "ao", "inv", "cc", "cdf"),
            id="1-3-then-feed",
        ),
        pytest.param(features("inv"), versions(1, 2), expected(1, 2), id="invariants-plus-1-2"),
        pytest.param(features("cc"), versions(1, 2), expected(1, 3), id="constraints-plus-1-2"),
        pytest.param(versions(1, 2), features("cc"), expected(1, 3), id="1-2-plus-constraints"),
        pytest.param({}, {**versions(1, 4), **CDF}, expected(1, 4), id="feed-with-1-4"),
        pytest.param({}, {**versions(1, 7), **CDF}, expected(1, 7, "inv", "ao", "cdf"), id="feed-with-1-7"),
        pytest.param({}, NAME, expected(2, 7, "ao", "inv", "cm"), id="mapping"),
        pytest.param(
            {}, {**versions(1, 7), **NAME}, expected(2, 7, "inv", "ao", "cm"), id="mapping-with-1-7"
        ),
    ],
)
def test_alter(created: dict[str, str], altered: dict[str, str], want: Protocol) -> None:
    assert alter(create(created), altered).protocol == want


@pytest.mark.parametrize(
    ("altered", "want"),
    [
        pytest.param(features("cm"), expected(2, 5), id="feature"),
        pytest.param({**versions(1, 7), **NAME}, expected(2, 5), id="mode-with-1-7"),
        pytest.param(NAME, expected(2, 5), id="mode"),
    ],
)
def test_column_mapping_completes_legacy_versions_plain(altered: dict[str, str], want: Protocol) -> None:
    assert alter(create(versions(1, 4), registry=DELTA), altered, DELTA).protocol == want


@pytest.mark.parametrize(
    ("properties", "defaults", "want"),
    [
        pytest.param(NAME, {}, expected(2, 7, "ao", "inv", "cm"), id="default"),
        pytest.param({**versions(1, 4), **NAME}, {}, expected(2, 5), id="1-4"),
        pytest.param({**versions(1, 7), **NAME}, {}, expected(2, 7, "cm"), id="1-7"),
        pytest.param(NAME, versions(1, 7), expected(2, 7, "cm"), id="session-1-7"),
    ],
)
def test_create_with_column_mapping_plain(
    properties: dict[str, str], defaults: dict[str, str], want: Protocol
) -> None:
    assert create(properties, defaults, registry=DELTA).protocol == want


@pytest.mark.parametrize("pair", [(1, 1), (1, 2), (1, 3), (1, 4), (2, 5), (1, 7), (3, 7), (2, 2), (2, 3)])
def test_versions_set_on_a_table_with_lists_add_what_they_imply(pair: tuple[int, int]) -> None:
    altered = alter(create(features("trw")), versions(*pair)).protocol
    implied = Protocol(*pair).implicit_features(TESTING.rules)
    assert altered.explicit_features == implied | {"invariants", "appendOnly", TRW}


# ---------------------------------------------------------------------------- DROP


@pytest.mark.parametrize("fast", [True, False], ids=["fast", "with-history-truncation"])
@pytest.mark.parametrize(
    ("created", "dropped", "want", "want_fast"),
    [
        pytest.param(versions(1, 3), "cc", expected(1, 2), expected(1, 2), id="1-3-minus-constraints"),
        pytest.param(
            versions(1, 4),
            "cc",
            expected(1, 7, "ao", "inv", "gc", "cdf"),
            expected(1, 7, "ao", "inv", "gc", "cdf"),
            id="1-4-minus-constraints",
        ),
        pytest.param(features("trw"), "trw", expected(1, 2), expected(1, 2), id="writer-feature"),
        pytest.param(
            {**versions(1, 7), **features("trw")},
            "trw",
            expected(1, 1),
            expected(1, 1),
            id="writer-feature-of-1-7",
        ),
        pytest.param(
            features("cm", "trw", "trrw"),
            "trrw",
            expected(2, 7, "inv", "ao", "cm", "trw"),
            expected(2, 7, "inv", "ao", "cm", "trw", "cp"),
            id="reader-comes-down-to-2",
        ),
        pytest.param(
            features("trw", "trrw"),
            "trrw",
            expected(1, 7, "inv", "ao", "trw"),
            expected(1, 7, "inv", "ao", "trw", "cp"),
            id="reader-comes-down-to-1",
        ),
    ],
)
def test_drop(created: dict[str, str], dropped: str, want: Protocol, want_fast: Protocol, fast: bool) -> None:
    table = drop(create(created), SHORT_NAMES[dropped], fast=fast)
    assert table.protocol == (want_fast if fast else want)


@pytest.mark.parametrize(
    ("fast", "want"),
    [(True, expected(1, 7, "inv", "ao", "cc", "cdf", "gc", "cp")), (False, expected(1, 4))],
    ids=["fast", "with-history-truncation"],
)
def test_drop_column_mapping_from_legacy_versions_plain(fast: bool, want: Protocol) -> None:
    table = create(versions(2, 5), registry=DELTA)
    assert drop(table, "columnMapping", fast=fast, registry=DELTA).protocol == want


@pytest.mark.parametrize("order", ["versions-first", "drop-first"])
@pytest.mark.parametrize("writer", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("feature", [TRW, TRRW])
def test_versions_come_down_to_what_is_needed(feature: str, writer: int, order: str) -> None:
    reader = max(TESTING[feature].min_reader, 1)
    properties = {**versions(reader, 7), f"delta.feature.{feature}": "supported", **features("cdf")}
    table = create(properties)
    if order == "versions-first":
        table = drop(alter(table, versions(1, writer)), feature, fast=False)
    else:
        table = alter(drop(table, feature, fast=False), versions(1, writer))
    if writer < 4:
        feed = expected(1, 7, "cdf")
        assert table.protocol == feed.merge(Protocol(1, writer), rules=TESTING.rules)
        assert table.protocol.features() == {"changeDataFeed"} | Protocol(1, writer).features()
    else:
        assert table.protocol == Protocol(1, writer)


@pytest.mark.parametrize("feature", [TRW, TRRW])
@pytest.mark.parametrize("set_versions", ["never", "before", "after"])
def test_way_back_to_legacy_versions(feature: str, set_versions: str) -> None:
    table = create({**versions(3, 7), f"delta.feature.{feature}": "supported", **features("cdf")})
    if set_versions == "before":
        table = alter(table, versions(1, 4))
    table = drop(table, feature, fast=False)
    if set_versions == "after":
        table = alter(table, versions(1, 4))
    assert table.protocol == (expected(1, 7, "cdf") if set_versions == "never" else expected(1, 4))
