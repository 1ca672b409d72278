"""The gate: who is let through, and what the refused are told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import (
    CatalogManagedError,
    InvalidProtocolError,
    ProtocolError,
    UnknownFeatureError,
    UnsupportedReaderFeatureError,
    UnsupportedReaderVersionError,
    UnsupportedWriterFeatureError,
    UnsupportedWriterVersionError,
)
from tidegate.protocol.delta import DELTA
from tidegate.protocol.feature import Feature, Registry, Support
from tidegate.protocol.protocol import Protocol, Rules

# The features as the reference has them: name, versions, letters, requirements. The letters: l(egacy),
# r(eader-writer), a(uto), u(pdates existing tables), d(roppable), h(istory protection), f(ails concurrent).
REFERENCE = """
appendOnly 0,2 lau
invariants 0,2 lauf
checkConstraints 0,3 laudf
changeDataFeed 0,4 lau
generatedColumns 0,4 lauf
columnMapping 2,5 lraudh
identityColumns 0,6 lauf
timestampNtz 3,7 ra
deletionVectors 3,7 raudh
v2Checkpoint 3,7 raudh
vacuumProtocolCheck 3,7 rdh
catalogManaged 3,7 rd inCommitTimestamp,vacuumProtocolCheck
coordinatedCommits-preview 0,7 audf inCommitTimestamp,vacuumProtocolCheck
rowTracking 0,7 aud domainMetadata
domainMetadata 0,7 d
clustering 0,7 f domainMetadata
allowColumnDefaults 0,7 f
materializePartitionColumns 0,7 audf
icebergCompatV1 0,7 au columnMapping
icebergCompatV2 0,7 au columnMapping
icebergCompatV3 0,7 au columnMapping,rowTracking
inCommitTimestamp 0,7 aud
typeWidening 3,7 raudh
typeWidening-preview 3,7 rdh
variantType 3,7 rauf
variantType-preview 3,7 rf
variantShredding 3,7 rf variantType
variantShredding-preview 3,7 rauf
geospatial 3,7 raudhf
geospatial-dev 3,7 rdhf
checkpointProtection 0,7 df
adaptiveMetadata-preview 3,7 rf catalogManaged,rowTracking,domainMetadata,deletionVectors,columnMapping
redirectReaderWriter-preview 3,7 raudf
redirectWriterOnly-preview 0,7 audf
"""


def names(*them: str) -> frozenset[str]:
    return frozenset(them)


def lists(*writers: str, readers: tuple[str, ...] | None = None) -> Protocol:
    return Protocol(
        3 if readers is not None else 1, 7, names(*readers) if readers is not None else None, names(*writers)
    )


# ---------------------------------------------------------------------------- the rows


@pytest.mark.parametrize("line", REFERENCE.strip().splitlines(), ids=lambda line: line.split()[0])
def test_row(line: str) -> None:
    name, versions, flags, *rest = line.split()
    if "," in flags:
        flags, rest = "", [flags]
    row = DELTA[name]
    assert f"{row.min_reader},{row.min_writer}" == versions
    assert {
        "l": row.legacy,
        "r": row.reader_writer,
        "a": row.enabled_by is not None,
        "u": row.auto_update,
        "d": row.removable,
        "h": row.history_protection,
        "f": row.fails_concurrent,
    } == {letter: letter in flags for letter in "lraudhf"}
    assert row.requires == names(*(rest[0].split(",") if rest else ()))


def test_every_row_is_sound() -> None:
    assert len({row.name.lower() for row in DELTA}) == len(DELTA.rows)
    for row in DELTA:
        assert all(name in DELTA for name in row.requires | row.yields_to), row.name
        # What versions imply was always added without asking, so it must be possible to.
        assert not (row.legacy and row.enabled_by) or row.auto_update, row.name
        assert not row.history_protection or row.removable, row.name
        assert (row.since is None) == (row.support is not Support.FULL), row.name


def test_names_are_found_in_any_case() -> None:
    assert DELTA["DELETIONVECTORS"].name == "deletionVectors"
    assert "rowtracking" in DELTA
    assert 7 not in DELTA
    assert DELTA.get("quantumFiles") is None
    with pytest.raises(UnknownFeatureError, match=r"deletionVector is not.*Did you mean deletionVectors\?"):
        DELTA["deletionVector"]


def test_closure_follows_requirements_all_the_way() -> None:
    assert DELTA.closure(["icebergCompatV3"]) == names(
        "icebergCompatV3", "columnMapping", "rowTracking", "domainMetadata"
    )
    assert DELTA.closure(["ROWTRACKING", "quantumFiles"]) == names(
        "rowTracking", "domainMetadata", "quantumFiles"
    )


def test_dependents_keep_a_feature_from_being_dropped() -> None:
    protocol = lists("rowTracking", "clustering", "domainMetadata")
    assert DELTA.dependents("domainMetadata", protocol) == ("clustering", "rowTracking")
    assert DELTA.dependents("rowTracking", protocol) == ()


def test_protocol_of_a_set_brings_what_it_requires() -> None:
    assert DELTA.protocol_of(["rowTracking"]) == lists("rowTracking", "domainMetadata")
    assert DELTA.protocol_of(["appendOnly", "invariants"]) == Protocol(1, 2)


# ---------------------------------------------------------------------------- who may read


def test_every_version_up_to_3_and_7_is_let_through() -> None:
    for reader in (1, 2):
        for writer in range(1, 7):
            DELTA.check_write(Protocol(reader, writer))
    DELTA.check_write(Protocol(3, 7, names(), names()))


@pytest.mark.parametrize("reader", [4, 99])
def test_a_reader_version_of_the_future_is_refused_by_number(reader: int) -> None:
    with pytest.raises(UnsupportedReaderVersionError) as e:
        DELTA.check_read(Protocol(reader, 7), table="s3://b/t", version=4)
    text = str(e.value)
    assert f"requires reader version {reader}" in text
    assert "Tidegate reads versions up to 3 with" in text
    assert "newer release of Tidegate" in text
    assert (e.value.table, e.value.version) == ("s3://b/t", 4)
    assert e.value.errorClass == "DELTA_INVALID_PROTOCOL_VERSION"


def test_a_writer_version_of_the_future_refuses_writes_and_leaves_reads_alone() -> None:
    protocol = Protocol(1, 8, None, names())
    DELTA.check_read(protocol)
    with pytest.raises(UnsupportedWriterVersionError, match="requires writer version 8"):
        DELTA.check_write(protocol)


def test_unknown_reader_features_are_refused_by_name() -> None:
    protocol = lists("quantumFiles", "appendOnly", readers=("quantumFiles",))
    with pytest.raises(UnsupportedReaderFeatureError) as e:
        DELTA.check_read(protocol, table="t")
    assert "quantumFiles (unknown here)" in e.value.message
    assert "deletionVectors" in e.value.message, "what this client supports"
    assert "release notes" in (e.value.hint or "")
    assert DELTA.missing_for_read(protocol) == ("quantumFiles",)


def test_unknown_writer_features_refuse_writes_and_leave_reads_alone() -> None:
    protocol = lists("liquid", "domainMetadata")
    DELTA.check_read(protocol)
    with pytest.raises(UnsupportedWriterFeatureError, match=r"liquid \(unknown here\)"):
        DELTA.check_write(protocol)


@pytest.mark.parametrize(
    "name",
    [r.name for r in DELTA if r.reader_writer and not r.catalog_managed and not r.readable],
)
def test_reader_features_known_by_name_only_are_refused(name: str) -> None:
    with pytest.raises(UnsupportedReaderFeatureError, match=name):
        DELTA.check_read(lists(name, readers=(name,)))


@pytest.mark.parametrize("name", ["catalogManaged", "catalogOwned-preview"])
def test_catalog_managed_tables_are_refused_by_path(name: str) -> None:
    with pytest.raises(CatalogManagedError, match=name) as e:
        DELTA.check_read(lists(name, "inCommitTimestamp", readers=(name,)))
    assert e.value.code == "CATALOG_MANAGED"
    assert "catalog" in (e.value.hint or "")


@pytest.mark.parametrize("name", [r.name for r in DELTA if not r.reader_writer and r.support is Support.NAME])
def test_writer_features_known_by_name_only_can_be_read(name: str) -> None:
    protocol = lists(name)
    DELTA.check_read(protocol)
    with pytest.raises(UnsupportedWriterFeatureError, match=name):
        DELTA.check_write(protocol)


WRITTEN = """
appendOnly invariants checkConstraints changeDataFeed generatedColumns columnMapping identityColumns
deletionVectors timestampNtz v2Checkpoint vacuumProtocolCheck rowTracking domainMetadata clustering
allowColumnDefaults inCommitTimestamp typeWidening typeWidening-preview variantType variantType-preview
materializePartitionColumns checkpointProtection
"""


def test_features_this_client_writes() -> None:
    assert {row.name for row in DELTA if row.writable} == set(WRITTEN.split())
    for name in WRITTEN.split():
        DELTA.check_write(DELTA.protocol_of([name]))


@pytest.mark.parametrize("name", ["variantShredding", "variantShredding-preview"])
def test_shredded_variants_are_read_and_not_written(name: str) -> None:
    protocol = DELTA.protocol_of([name])
    DELTA.check_read(protocol)
    with pytest.raises(UnsupportedWriterFeatureError, match=name):
        DELTA.check_write(protocol)


# ---------------------------------------------------------------------------- legality, with the rows at hand


@pytest.mark.parametrize(
    ("protocol", "lacks"),
    [
        (lists("deletionVectors"), "deletionVectors"),
        (lists("deletionVectors", readers=()), "deletionVectors"),
        (lists("columnMapping"), "columnMapping"),
        (lists("columnMapping", readers=()), "columnMapping"),
    ],
    ids=str,
)
def test_features_that_bind_readers_must_be_told_to_readers(protocol: Protocol, lacks: str) -> None:
    with pytest.raises(InvalidProtocolError, match=f"{lacks} binds readers"):
        DELTA.check_read(protocol)


def test_column_mapping_of_reader_2_stands_in_the_writers_list_alone() -> None:
    DELTA.check_write(Protocol(2, 7, None, names("columnMapping", "appendOnly")))


def test_illegal_protocols_are_refused_with_the_place() -> None:
    with pytest.raises(InvalidProtocolError) as e:
        DELTA.check_read(Protocol(2, 5, names("columnMapping"), names("columnMapping")), table="t", version=3)
    assert (e.value.table, e.value.version) == ("t", 3)


# ---------------------------------------------------------------------------- other clients


def test_an_old_client_has_not_heard_of_a_feature() -> None:
    old = DELTA.without(["deletionVectors"])
    protocol = DELTA.protocol_of(["deletionVectors"])
    DELTA.check_read(protocol)
    with pytest.raises(UnsupportedReaderFeatureError, match=r"deletionVectors \(unknown here\)"):
        old.check_read(protocol)


@pytest.mark.parametrize("protocol", [Protocol(2, 5), Protocol(2, 7, None, names("columnMapping"))], ids=str)
def test_versions_still_imply_what_an_old_client_lacks(protocol: Protocol) -> None:
    old = DELTA.without(["columnMapping"])
    with pytest.raises(UnsupportedReaderFeatureError, match="columnMapping"):
        old.check_read(protocol)
    # Reader version 2 with a writer version below 5 implies nothing for readers.
    old.check_read(Protocol(2, 3))


def test_an_old_client_writes_only_what_versions_imply_for_it() -> None:
    old = DELTA.without(["identityColumns"])
    old.check_write(Protocol(1, 5))
    with pytest.raises(UnsupportedWriterFeatureError, match="identityColumns"):
        old.check_write(Protocol(1, 6))
    old.check_read(Protocol(1, 6))


def test_a_client_of_the_old_days() -> None:
    ancient = DELTA.restricted_to(["appendOnly", "invariants"], max_reader=1, max_writer=2)
    ancient.check_write(Protocol(1, 2))
    with pytest.raises(UnsupportedReaderVersionError, match="reads versions up to 1 with no features"):
        ancient.check_read(Protocol(2, 5))
    with pytest.raises(UnsupportedWriterVersionError):
        ancient.check_write(Protocol(1, 3))


def test_a_release_is_named_where_one_is_known() -> None:
    later = DELTA.with_features(
        Feature(
            name="geospatial",
            reader_writer=True,
            min_reader=3,
            min_writer=7,
            support=Support.NAME,
            since="0.4.0",
        )
    )
    with pytest.raises(UnsupportedReaderFeatureError, match=r"Look for Tidegate 0\.4\.0 or newer"):
        later.check_read(lists("geospatial", readers=("geospatial",)))


def test_a_new_row_of_a_known_name_replaces_it() -> None:
    row = Feature(name="collations-preview", reader_writer=False, min_reader=0, min_writer=7)
    grown = DELTA.with_features(row)
    assert len(grown.rows) == len(DELTA.rows)
    grown.check_write(lists("collations-preview"))
    assert not DELTA["collations-preview"].writable, "a registry is a value"


def test_another_log_family_has_its_own_rules() -> None:
    rules = Rules(reader_lists=3, writer_lists=3, lists_anywhere=True)
    row = Feature(name="schemaDeduplication", reader_writer=True, min_reader=3, min_writer=3)
    family = Registry(rows=(row,), rules=rules, max_reader_version=3, max_writer_version=3)
    family.check_write(Protocol(2, 2))
    family.check_write(Protocol(3, 3, names("schemaDeduplication"), names("schemaDeduplication")))
    with pytest.raises(UnsupportedReaderFeatureError, match="avroState"):
        family.check_read(Protocol(2, 2, names("avroState"), None))
    with pytest.raises(UnsupportedReaderVersionError):
        family.check_read(Protocol(4, 4))


@given(
    st.frozensets(st.sampled_from(sorted(r.name for r in DELTA))),
    st.frozensets(st.sampled_from(sorted(r.name for r in DELTA))),
)
def test_a_client_that_lacks_a_feature_is_never_let_through(
    table: frozenset[str], known: frozenset[str]
) -> None:
    protocol = DELTA.protocol_of(table)
    client = DELTA.restricted_to(known)
    for name in protocol.features():
        row = DELTA[name]
        if row.reader_writer and (name not in known or not row.readable):
            with pytest.raises(ProtocolError) as e:
                client.check_read(protocol)
            assert name in str(e.value)
        if name not in known or not row.writable:
            with pytest.raises(ProtocolError):
                client.check_write(protocol)
