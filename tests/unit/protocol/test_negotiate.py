"""How tables come by their protocol: what metadata needs, what properties ask for, what is refused."""

from __future__ import annotations

import pytest

from tidegate.errors import (
    FeaturesMismatchError,
    InvalidProtocolError,
    ManualEnablementError,
    PropertyError,
    ProtocolDowngradeException,
    ProtocolPropertyError,
    UnknownFeatureError,
    UnsupportedWriterFeatureError,
)
from tidegate.metadata import Metadata
from tidegate.protocol import negotiate
from tidegate.protocol.delta import DELTA
from tidegate.protocol.feature import Feature
from tidegate.protocol.protocol import Protocol
from tidegate.schema.types import (
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP_NTZ,
    VARIANT,
    ArrayType,
    StructField,
    StructType,
)


def names(*them: str) -> frozenset[str]:
    return frozenset(them)


def metadata(*fields: StructField, **properties: str) -> Metadata:
    """Metadata with properties given as ``appendOnly="true"``; underscores stand for dots."""
    configuration = {f"delta.{key.replace('_', '.')}": value for key, value in properties.items()}
    return Metadata(id="t", schema_string=StructType(fields).to_json(), configuration=configuration)


def configured(**properties: str) -> dict[str, str]:
    return metadata(**properties).configuration


INVARIANT = StructField("a", LONG, True, {"delta.invariants": '{"expression":{"expression":"a < 3"}}'})
NOT_NULL = StructField("b", LONG, nullable=False)
GENERATED = StructField("c", INTEGER, True, {"delta.generationExpression": "a + 1"})
IDENTITY = StructField(
    "d",
    LONG,
    True,
    {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": False},
)
NTZ = StructField("e", ArrayType(TIMESTAMP_NTZ))


def test_the_demo_of_the_document() -> None:
    protocol = negotiate.for_new_table(metadata(appendOnly="true"))
    assert protocol.min_reader_version == 1, "minReaderVersion should be the default 1"
    assert protocol.min_writer_version == 2, "minWriterVersion should be 2 because of append-only tables"


# ---------------------------------------------------------------------------- the required minimum


@pytest.mark.parametrize(
    ("given", "versions", "used"),
    [
        (metadata(), (0, 0), ()),
        (metadata(INVARIANT), (0, 2), ("invariants",)),
        (metadata(NOT_NULL), (0, 2), ("invariants",)),
        (metadata(appendOnly="true"), (0, 2), ("appendOnly",)),
        (metadata(constraints_positive="id > 0"), (0, 3), ("checkConstraints",)),
        (metadata(GENERATED), (0, 4), ("generatedColumns",)),
        (metadata(enableChangeDataFeed="true"), (0, 4), ("changeDataFeed",)),
        (metadata(enableChangeDataCapture="true"), (0, 4), ("changeDataFeed",)),
        (metadata(IDENTITY), (0, 6), ("identityColumns",)),
        (metadata(columnMapping_mode="name"), (2, 5), ("columnMapping",)),
        (metadata(columnMapping_mode="none"), (0, 0), ()),
        (metadata(enableDeletionVectors="true"), (3, 7), ("deletionVectors",)),
        (metadata(enableRowTracking="true"), (0, 7), ("rowTracking",)),
    ],
)
def test_required_minimum_of_one_feature(
    given: Metadata, versions: tuple[int, int], used: tuple[str, ...]
) -> None:
    protocol, features = negotiate.required_minimum(given)
    assert (protocol.min_reader_version, protocol.min_writer_version) == versions
    assert features == used


def test_required_minimum_asks_in_the_order_of_the_document() -> None:
    everything = metadata(
        INVARIANT,
        GENERATED,
        IDENTITY,
        NTZ,
        appendOnly="true",
        constraints_c="id > 0",
        enableChangeDataFeed="true",
        columnMapping_mode="id",
        enableRowTracking="true",
    )
    protocol, features = negotiate.required_minimum(everything)
    assert features == (
        "invariants",
        "appendOnly",
        "checkConstraints",
        "generatedColumns",
        "changeDataFeed",
        "identityColumns",
        "columnMapping",
        "timestampNtz",
        "rowTracking",
    )
    assert protocol.reader_features == names("columnMapping", "timestampNtz")
    assert protocol.writer_features == names(*features, "domainMetadata")


def test_required_minimum_of_legacy_features_is_their_maximum() -> None:
    protocol, _ = negotiate.required_minimum(metadata(IDENTITY, columnMapping_mode="name"))
    assert protocol == Protocol(2, 6)


# ---------------------------------------------------------------------------- what metadata enables


def test_automatically_enabled_closes_over_requirements() -> None:
    assert negotiate.automatically_enabled(metadata(enableRowTracking="true")) == names(
        "rowTracking", "domainMetadata"
    )


def test_automatically_enabled_starts_from_the_protocols_writer_features() -> None:
    protocol = Protocol(3, 7, names("deletionVectors"), names("deletionVectors", "clustering"))
    assert negotiate.automatically_enabled(metadata(appendOnly="true"), protocol) == names(
        "deletionVectors", "clustering", "domainMetadata", "appendOnly"
    )
    # What versions imply is not in the writers' list.
    assert negotiate.automatically_enabled(metadata(), Protocol(1, 4)) == names()


@pytest.mark.parametrize(
    ("given", "preview", "stable"),
    [
        (metadata(enableTypeWidening="true"), "typeWidening-preview", "typeWidening"),
        (metadata(StructField("v", VARIANT)), "variantType-preview", "variantType"),
    ],
)
def test_a_preview_stands_for_the_stable_feature(given: Metadata, preview: str, stable: str) -> None:
    assert negotiate.automatically_enabled(given) == names(stable)
    old = Protocol(3, 7, names(preview), names(preview))
    negotiate.assert_features_match(old, given)
    assert negotiate.upgrade_for_metadata(old, given) is None


def test_shredding_enables_the_preview_unless_the_table_has_the_stable_feature() -> None:
    shredded = metadata(enableVariantShredding="true")
    assert negotiate.automatically_enabled(shredded) == names("variantShredding-preview")
    both = names("variantShredding", "variantType")
    negotiate.assert_features_match(Protocol(3, 7, both, both), shredded)


def test_minimum_components() -> None:
    assert negotiate.minimum_components_from_auto(metadata()) == (0, 0, names())
    assert negotiate.minimum_components_from_auto(metadata(appendOnly="true")) == (0, 2, names("appendOnly"))
    assert negotiate.minimum_components_from_metadata(metadata()) == (1, 1, names())
    given = metadata(minWriterVersion="2", feature_rowTracking="supported")
    assert negotiate.minimum_components_from_metadata(given) == (
        1,
        7,
        names("appendOnly", "invariants", "rowTracking", "domainMetadata"),
    )
    mapped = metadata(minReaderVersion="1", minWriterVersion="4", columnMapping_mode="name")
    assert negotiate.minimum_components_from_metadata(mapped)[:2] == (2, 5)


# ---------------------------------------------------------------------------- new tables


def test_an_empty_table_is_1_2() -> None:
    assert negotiate.for_new_table(metadata()) == Protocol(1, 2)


def test_requirements_come_with_a_feature() -> None:
    protocol = negotiate.for_new_table(metadata(enableRowTracking="true"))
    assert protocol == Protocol(
        1, 7, None, names("rowTracking", "domainMetadata", "appendOnly", "invariants")
    )
    named = negotiate.for_new_table(metadata(feature_clustering="supported"))
    assert named.supports("domainMetadata")


def test_a_user_goes_before_the_session() -> None:
    protocol = negotiate.for_new_table(
        metadata(minWriterVersion="1", enableDeletionVectors="false"),
        configured(minReaderVersion="1", minWriterVersion="4", enableDeletionVectors="true"),
    )
    assert protocol == Protocol(1, 1)


def test_features_of_the_session() -> None:
    protocol = negotiate.for_new_table(metadata(), configured(feature_vacuumProtocolCheck="enabled"))
    assert protocol.reader_features == names("vacuumProtocolCheck")


@pytest.mark.parametrize("where", ["table", "session"])
def test_defaults_can_be_ignored(where: str) -> None:
    defaults = configured(minWriterVersion="4", feature_deletionVectors="supported", appendOnly="true")
    mine = metadata(ignoreProtocolDefaults="true") if where == "table" else metadata()
    if where == "session":
        defaults = {**defaults, "delta.ignoreProtocolDefaults": "true"}
    # Protocol defaults only: the session's other properties still reach the table.
    assert negotiate.for_new_table(mine, defaults) == Protocol(1, 7, None, names("appendOnly"))


def test_a_table_may_insist_on_the_defaults() -> None:
    defaults = {"delta.ignoreProtocolDefaults": "true", "delta.minWriterVersion": "4"}
    assert negotiate.for_new_table(metadata(ignoreProtocolDefaults="false"), defaults) == Protocol(1, 4)


def test_keys_and_names_are_taken_in_any_case() -> None:
    given = Metadata(
        id="t",
        configuration={
            "DELTA.MINWRITERVERSION": "7",
            "delta.minreaderversion": "1",
            "Delta.Feature.DELETIONVECTORS": "Supported",
            "delta.ENABLEchangeDataFeed": "TRUE",
        },
    )
    protocol = negotiate.for_new_table(given)
    assert protocol == Protocol(3, 7, names("deletionVectors"), names("deletionVectors", "changeDataFeed"))
    stored = negotiate.configuration_for_new_table(given.configuration)
    assert stored == {"delta.enableChangeDataFeed": "TRUE"}


def test_what_is_stored_is_the_sessions_under_the_users_and_stripped() -> None:
    mine = {"delta.appendOnly": "false", "delta.feature.x": "supported", "owner": "me"}
    session = {"delta.appendOnly": "true", "delta.checkpointInterval": "5", "delta.minReaderVersion": "1"}
    assert negotiate.configuration_for_new_table(mine, session) == {
        "delta.appendOnly": "false",
        "delta.checkpointInterval": "5",
        "owner": "me",
    }
    assert negotiate.strip_protocol_properties(
        {"delta.ignoreProtocolDefaults": "true", "delta.minWriterVersion": "7", "k": "v"}
    ) == {"k": "v"}


@pytest.mark.parametrize("key", ["minReaderVersion", "minWriterVersion"])
@pytest.mark.parametrize("value", ["0", "8", "-1", "three", "1.5", ""])
def test_versions_that_are_none(key: str, value: str) -> None:
    with pytest.raises(PropertyError, match=f"delta.{key} is '{value}': it needs a number from 1 to"):
        negotiate.for_new_table(metadata(**{key: value}))


def test_reader_3_alone_is_refused_with_the_remedy() -> None:
    with pytest.raises(InvalidProtocolError, match=r"Set delta\.minWriterVersion to 7 too"):
        negotiate.for_new_table(metadata(minReaderVersion="3"))


def test_unknown_features_are_refused_by_name() -> None:
    with pytest.raises(UnknownFeatureError, match="quantumfiles") as e:
        negotiate.for_new_table(metadata(feature_quantumFiles="supported"))
    assert e.value.errorClass == "DELTA_UNSUPPORTED_FEATURES_IN_CONFIG"
    assert "deletionVectors" in (e.value.hint or "")


def test_a_feature_has_one_status() -> None:
    with pytest.raises(PropertyError, match=r"'disabled'.*'supported'") as e:
        negotiate.for_new_table(metadata(feature_deletionVectors="disabled"))
    assert e.value.errorClass == "DELTA_UNSUPPORTED_FEATURE_STATUS"


@pytest.mark.parametrize(
    "given", [metadata(**{"feature_collations-preview": "supported"}), metadata(enableIcebergCompatV2="true")]
)
def test_no_table_is_made_that_this_client_could_not_write(given: Metadata) -> None:
    with pytest.raises(UnsupportedWriterFeatureError, match=r"collations-preview|icebergCompatV2"):
        negotiate.for_new_table(given)


# ---------------------------------------------------------------------------- existing tables


def test_metadata_that_asks_for_nothing_new_upgrades_nothing() -> None:
    assert negotiate.upgrade_for_metadata(Protocol(1, 2), metadata(appendOnly="true")) is None
    assert negotiate.upgrade_for_metadata(Protocol(2, 3), metadata()) is None


def test_an_upgrade_brings_what_the_feature_requires() -> None:
    upgraded = negotiate.upgrade_for_metadata(Protocol(1, 1), metadata(enableRowTracking="true"))
    assert upgraded == Protocol(1, 7, None, names("rowTracking", "domainMetadata"))


def test_a_new_type_must_be_enabled_by_hand() -> None:
    with pytest.raises(ManualEnablementError, match="timestampNtz") as e:
        negotiate.upgrade_for_metadata(Protocol(1, 2), metadata(NTZ))
    assert "appendOnly, invariants" in e.value.message, "what the table supports"
    assert "'delta.feature.timestampNtz' = 'supported'" in (e.value.hint or "")
    assert e.value.errorClass == "DELTA_FEATURES_REQUIRE_MANUAL_ENABLEMENT"
    by_hand, _ = negotiate.apply_properties(Protocol(1, 2), configured(feature_timestampNtz="supported"))
    assert negotiate.upgrade_for_metadata(by_hand, metadata(NTZ)) is None
    assert negotiate.for_new_table(metadata(NTZ)).supports("timestampNtz"), "a new table asks nobody"


def test_all_features_that_need_a_hand_are_named() -> None:
    shy = Feature(
        name="testWriterMetadataNoAutoUpdate",
        reader_writer=False,
        min_reader=0,
        min_writer=7,
        enabled_by=lambda m: m.configuration.get("shy") == "true",
    )
    registry = DELTA.with_features(shy)
    given = metadata(NTZ, enableDeletionVectors="true").with_configuration({"shy": "true"})
    with pytest.raises(ManualEnablementError, match="testWriterMetadataNoAutoUpdate, timestampNtz"):
        negotiate.upgrade_for_metadata(Protocol(1, 1), given, registry)


def test_apply_properties_strips_what_it_consumes() -> None:
    protocol, stored = negotiate.apply_properties(
        Protocol(1, 1),
        {
            "delta.minwriterversion": "2",
            "delta.feature.deletionVectors": "supported",
            "delta.appendonly": "true",
        },
    )
    assert protocol == Protocol(
        3, 7, names("deletionVectors"), names("deletionVectors", "appendOnly", "invariants")
    )
    assert stored == {"delta.appendOnly": "true"}


def test_apply_properties_leaves_the_protocol_alone_where_nothing_is_asked() -> None:
    odd = Protocol(2, 3)
    assert negotiate.apply_properties(odd, {"delta.appendOnly": "true"})[0] is odd
    supported = Protocol(3, 7, names("deletionVectors"), names("deletionVectors"))
    again = negotiate.apply_properties(supported, configured(feature_deletionVectors="supported"))
    assert again[0] is supported


def test_a_writer_version_alone_adds_writer_features() -> None:
    table = Protocol(3, 7, names("deletionVectors"), names("deletionVectors"))
    protocol, _ = negotiate.apply_properties(table, configured(minWriterVersion="5"))
    assert protocol.features() == names("deletionVectors") | Protocol(1, 5).features()


def test_session_defaults_do_not_touch_existing_tables() -> None:
    protocol, stored = negotiate.apply_properties(Protocol(1, 1), configured(ignoreProtocolDefaults="true"))
    assert (protocol, stored) == (Protocol(1, 1), {})


@pytest.mark.parametrize("key", ["delta.minReaderVersion", "delta.minWriterVersion"])
def test_versions_that_reach_the_transaction_are_a_defect(key: str) -> None:
    given = metadata().with_configuration({key: "2"})
    with pytest.raises(AssertionError) as e:
        negotiate.check_requirements(given, Protocol(1, 2))
    assert isinstance(e.value, ProtocolPropertyError)
    assert e.value.message == f"Should not have the protocol version ({key}) as part of table properties"


@pytest.mark.parametrize("key", ["delta.feature.deletionVectors", "delta.ignoreProtocolDefaults"])
def test_other_protocol_properties_are_too(key: str) -> None:
    with pytest.raises(ProtocolPropertyError, match=key):
        negotiate.check_requirements(metadata().with_configuration({key: "true"}), Protocol(1, 2))


def test_check_requirements_returns_the_upgrade_or_none() -> None:
    assert negotiate.check_requirements(metadata(), Protocol(1, 2)) is None
    upgraded = negotiate.check_requirements(metadata(enableChangeDataFeed="true"), Protocol(1, 3))
    assert upgraded is not None
    assert upgraded.features() == Protocol(1, 3).features() | {"changeDataFeed"}


# ---------------------------------------------------------------------------- metadata and protocol together


def test_metadata_that_uses_what_the_lists_lack_is_refused_by_name() -> None:
    protocol = Protocol(3, 7, names(), names("appendOnly"))
    given = metadata(NTZ, enableDeletionVectors="true", appendOnly="true")
    with pytest.raises(FeaturesMismatchError, match="lacks: deletionVectors, timestampNtz") as e:
        negotiate.assert_features_match(protocol, given)
    assert e.value.code == "FEATURES_MISMATCH"
    assert e.value.errorClass == "DELTA_FEATURES_PROTOCOL_METADATA_MISMATCH"


def test_missing_requirements_of_listed_features_are_named() -> None:
    with pytest.raises(FeaturesMismatchError, match="domainMetadata"):
        negotiate.assert_features_match(Protocol(1, 7, None, names("rowTracking")), metadata())


@pytest.mark.parametrize("protocol", [Protocol(1, 1), Protocol(1, 2), Protocol(2, 5)], ids=str)
def test_legacy_protocols_are_left_alone(protocol: Protocol) -> None:
    negotiate.assert_features_match(protocol, metadata(NTZ, enableDeletionVectors="true"))


def test_features_nobody_knows_do_not_matter_here() -> None:
    negotiate.assert_features_match(Protocol(1, 7, None, names("liquid")), metadata(StructField("s", STRING)))


def test_protocols_do_not_come_down_by_themselves() -> None:
    both = Protocol(3, 7, names("deletionVectors"), names("deletionVectors", "appendOnly"))
    negotiate.check_transition(both, both.merge(Protocol(1, 4)))
    with pytest.raises(ProtocolDowngradeException, match="would lose appendOnly") as e:
        negotiate.check_transition(both, both.without_feature("appendOnly"))
    assert e.value.errorClass == "DELTA_INVALID_PROTOCOL_DOWNGRADE"
    negotiate.check_transition(both, both.without_feature("deletionVectors"), dropped="deletionVectors")
    with pytest.raises(ProtocolDowngradeException, match="would lose appendOnly"):
        negotiate.check_transition(both, Protocol(1, 1), dropped="deletionVectors")
    with pytest.raises(ProtocolDowngradeException, match="is not the old one without deletionVectors"):
        negotiate.check_transition(both, both, dropped="deletionVectors")
