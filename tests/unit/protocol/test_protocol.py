"""The algebra of protocols, by example and by the thousand."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import InvalidProtocolError
from tidegate.protocol.delta import DELTA
from tidegate.protocol.protocol import DELTA_RULES, Legacy, Protocol, Rules, weakest

LEGACY = frozenset(f.name for f in DELTA_RULES.legacy)
NATIVE_READERS = frozenset(r.name for r in DELTA if r.reader_writer and not r.legacy)
NATIVE_WRITERS = frozenset(r.name for r in DELTA if not r.reader_writer and not r.legacy)


def names(*them: str) -> frozenset[str]:
    return frozenset(them)


@st.composite
def with_lists(draw: st.DrawFn) -> Protocol:
    """Legal protocols with lists, in any form: normal, or with a reader version higher than needed."""
    legacy = draw(st.frozensets(st.sampled_from(sorted(LEGACY))))
    readers = draw(st.frozensets(st.sampled_from(sorted(NATIVE_READERS)), max_size=3))
    writers = draw(st.frozensets(st.sampled_from(sorted(NATIVE_WRITERS)), max_size=3))
    mapping = legacy & {"columnMapping"}
    least = 3 if readers else 2 if mapping else 1
    reader = draw(st.integers(least, 3))
    return Protocol(reader, 7, readers | mapping if reader == 3 else None, legacy | readers | writers)


legacy_pairs = st.builds(Protocol, st.integers(1, 2), st.integers(1, 6))
protocols = legacy_pairs | with_lists()
normal = protocols.map(lambda p: p.denormalized_normalized())


# ---------------------------------------------------------------------------- what is supported


@pytest.mark.parametrize(
    ("pair", "implied"),
    [
        ((1, 1), names()),
        ((1, 2), names("appendOnly", "invariants")),
        ((1, 3), names("appendOnly", "invariants", "checkConstraints")),
        ((2, 4), LEGACY - {"columnMapping", "identityColumns"}),
        ((1, 5), LEGACY - {"columnMapping", "identityColumns"}),
        ((2, 5), LEGACY - {"identityColumns"}),
        ((1, 6), LEGACY - {"columnMapping"}),
        ((2, 6), LEGACY),
    ],
)
def test_versions_imply_features(pair: tuple[int, int], implied: frozenset[str]) -> None:
    protocol = Protocol(*pair)
    assert protocol.implicit_features() == protocol.features() == implied
    assert protocol.explicit_features == names()


def test_lists_imply_nothing() -> None:
    protocol = Protocol(2, 7, None, names("columnMapping"))
    assert protocol.implicit_features() == names()
    assert protocol.supports("columnMapping")
    assert not protocol.supports("appendOnly")
    assert Protocol(1, 2).supports("appendOnly")


def test_the_registry_and_the_rules_agree_on_what_versions_imply() -> None:
    rows = tuple(Legacy(r.name, r.min_reader, r.min_writer) for r in DELTA if r.legacy)
    assert rows == DELTA_RULES.legacy


# ---------------------------------------------------------------------------- forms


@pytest.mark.parametrize(
    ("given", "want"),
    [
        (Protocol(3, 7, names(), names()), Protocol(1, 1)),
        (Protocol(3, 7, names(), names("appendOnly", "invariants")), Protocol(1, 2)),
        (Protocol(1, 7, None, names("appendOnly")), Protocol(1, 7, None, names("appendOnly"))),
        (Protocol(3, 7, names(), names("rowTracking")), Protocol(1, 7, None, names("rowTracking"))),
        (
            Protocol(3, 7, names("columnMapping"), names("columnMapping")),
            Protocol(2, 7, None, names("columnMapping")),
        ),
        (Protocol(1, 2), Protocol(1, 2)),
        (Protocol(2, 3), Protocol(2, 3)),
    ],
)
def test_normalized(given: Protocol, want: Protocol) -> None:
    assert given.normalized() == want


def test_a_native_reader_feature_keeps_column_mapping_in_the_readers_list() -> None:
    both = names("columnMapping", "deletionVectors")
    assert Protocol(3, 7, both, both).normalized() == Protocol(3, 7, both, both)


def test_denormalized() -> None:
    assert Protocol(1, 2).denormalized() == Protocol(1, 7, None, names("appendOnly", "invariants"))
    assert Protocol(2, 5).denormalized() == Protocol(2, 7, None, LEGACY - {"identityColumns"})
    assert Protocol(1, 1).denormalized() == Protocol(1, 7, None, names())


@pytest.mark.parametrize(
    ("given", "want"), [((2, 3), (1, 3)), ((1, 5), (1, 4)), ((2, 1), (1, 1)), ((2, 6), (2, 6))]
)
def test_invalid_pairs_are_mended(given: tuple[int, int], want: tuple[int, int]) -> None:
    assert Protocol(*given).denormalized_normalized() == Protocol(*want)


def test_features_nobody_knows_are_kept_on_their_side() -> None:
    protocol = Protocol(3, 7, names("quantumFiles"), names("quantumFiles", "appendOnly", "slowInk"))
    assert protocol.normalized() == protocol
    assert protocol.without_feature("quantumFiles") == Protocol(1, 7, None, names("appendOnly", "slowInk"))


def test_versions_of_the_future_are_left_alone() -> None:
    future = Protocol(4, 8, names("x"), names("x"))
    assert future.denormalized_normalized() == future
    assert future.merge(Protocol(1, 2)).min_reader_version == 4
    assert future.merge(Protocol(1, 2)).features() >= names("x", "appendOnly")


@given(protocols)
def test_forms_keep_the_features_and_are_stable(protocol: Protocol) -> None:
    for form in (protocol.normalized(), protocol.denormalized(), protocol.denormalized_normalized()):
        assert form.features() == protocol.features()
        form.validate()
    weak = protocol.denormalized_normalized()
    assert weak == weak.denormalized_normalized() == weak.normalized()
    assert protocol.normalized() == protocol.normalized().normalized()
    assert protocol.denormalized() == protocol.denormalized().denormalized()


@given(protocols)
def test_the_weakest_form_asks_the_least(protocol: Protocol) -> None:
    weak = protocol.denormalized_normalized()
    assert weak.min_reader_version <= protocol.min_reader_version
    # Features that versions do not imply exactly have to be listed, which takes writer version 7.
    assert weak.min_writer_version <= max(protocol.min_writer_version, 7)
    assert weak == weakest(DELTA[name] for name in protocol.features())


# ---------------------------------------------------------------------------- merge


@given(protocols, protocols)
def test_merge_is_commutative_and_an_upper_bound(a: Protocol, b: Protocol) -> None:
    merged = a.merge(b)
    assert merged == b.merge(a)
    assert a.can_upgrade_to(merged)
    assert b.can_upgrade_to(merged)
    merged.validate()


@given(normal, normal, normal)
def test_merge_of_weakest_forms_is_associative_and_least(a: Protocol, b: Protocol, c: Protocol) -> None:
    assert a.merge(b).merge(c) == a.merge(b.merge(c)) == a.merge(b, c)
    assert a.merge(b).features() == a.features() | b.features()


@given(protocols)
def test_merge_is_idempotent(a: Protocol) -> None:
    assert a.merge(a) == a.denormalized_normalized()
    assert a.merge(Protocol(1, 1)) == a.denormalized_normalized()


def test_merge_takes_the_maximum_of_versions_first() -> None:
    assert Protocol(1, 6).merge(Protocol(2, 5)) == Protocol(2, 6)
    # Neither side implies column mapping; their maximum does, and the reference says so too.
    assert Protocol(2, 4).merge(Protocol(1, 5)) == Protocol(2, 5)


# ---------------------------------------------------------------------------- up and down


@given(protocols, protocols)
def test_upgrade_is_antisymmetric_up_to_form(a: Protocol, b: Protocol) -> None:
    assert a.can_upgrade_to(a)
    if a.can_upgrade_to(b) and b.can_upgrade_to(a):
        assert a.denormalized_normalized() == b.denormalized_normalized()


@given(protocols, protocols, protocols)
def test_upgrade_is_transitive(a: Protocol, b: Protocol, c: Protocol) -> None:
    up, upper = a.merge(b), a.merge(b).merge(c)
    assert a.can_upgrade_to(up)
    assert up.can_upgrade_to(upper)
    assert a.can_upgrade_to(upper)


@given(normal, st.sampled_from(sorted(r.name for r in DELTA)))
def test_adding_and_removing_a_feature_are_inverse(protocol: Protocol, name: str) -> None:
    row = DELTA[name]
    added = protocol.with_feature(row)
    assert added.supports(name)
    assert protocol.can_upgrade_to(added)
    removed = added.without_feature(name)
    assert not removed.supports(name)
    assert added.can_downgrade_to(removed, name)
    if not protocol.supports(name):
        assert removed == protocol
        assert added != protocol


def test_downgrade_takes_exactly_the_dropped_feature() -> None:
    full = Protocol(3, 7, names("deletionVectors"), names("deletionVectors", "appendOnly", "rowTracking"))
    rest = Protocol(1, 7, None, names("appendOnly", "rowTracking"))
    assert full.can_downgrade_to(rest, "deletionVectors")
    protected = rest.with_feature(DELTA["checkpointProtection"])
    assert full.can_downgrade_to(protected, "deletionVectors")
    assert not full.can_downgrade_to(rest.without_feature("rowTracking"), "deletionVectors")
    assert not full.can_downgrade_to(rest.with_feature(DELTA["clustering"]), "deletionVectors")
    assert not full.can_downgrade_to(full, "deletionVectors")
    assert not protected.can_downgrade_to(protected, "checkpointProtection")
    assert protected.can_downgrade_to(rest, "checkpointProtection")


# ---------------------------------------------------------------------------- legality


@pytest.mark.parametrize(
    ("protocol", "says"),
    [
        (Protocol(3, 6), "readerFeatures"),
        (Protocol(3, 6, names()), "needs writer version 7"),
        (Protocol(2, 5, names("columnMapping")), "readerFeatures stand only at reader version 3"),
        (Protocol(1, 2, None, names("appendOnly")), "writerFeatures stand only at writer version 7"),
        (Protocol(3, 7, None, names()), "reader version 3 needs readerFeatures"),
        (Protocol(3, 7, names()), "writer version 7 needs writerFeatures"),
        (Protocol(3, 7, names("deletionVectors"), names()), "writerFeatures lacks deletionVectors"),
        (Protocol(0, 2), "versions begin at 1"),
        (Protocol(1, -1), "versions begin at 1"),
    ],
)
def test_protocols_that_contradict_themselves(protocol: Protocol, says: str) -> None:
    with pytest.raises(InvalidProtocolError, match=says) as e:
        protocol.validate()
    assert e.value.code == "INVALID_PROTOCOL"


@pytest.mark.parametrize(
    "protocol",
    [
        Protocol(2, 3),
        Protocol(1, 5),
        Protocol(2, 7, None, names("columnMapping", "icebergCompatV1")),
        Protocol(3, 7, names(), names()),
        # Not for this method to judge: the registry refuses the number.
        Protocol(4, 7),
        Protocol(1, 8, None, names()),
    ],
    ids=str,
)
def test_odd_protocols_that_are_legal(protocol: Protocol) -> None:
    protocol.validate()


def test_rules_of_another_log_family() -> None:
    rules = Rules(reader_lists=3, writer_lists=3, lists_anywhere=True)
    Protocol(2, 2, names("a"), None).validate(rules)
    assert Protocol(2, 2).implicit_features(rules) == names()


# ---------------------------------------------------------------------------- the wire


def test_wire_form_is_sorted_and_leaves_out_what_is_not_there() -> None:
    assert Protocol(1, 2).to_wire() == {"minReaderVersion": 1, "minWriterVersion": 2}
    wire = Protocol(3, 7, names("b", "a"), names("c", "b", "a")).to_wire()
    assert list(wire.items()) == [
        ("minReaderVersion", 3),
        ("minWriterVersion", 7),
        ("readerFeatures", ["a", "b"]),
        ("writerFeatures", ["a", "b", "c"]),
    ]


@given(protocols)
def test_wire_round_trip(protocol: Protocol) -> None:
    text = msgspec.json.encode(protocol.to_wire())
    assert msgspec.json.decode(text, type=Protocol) == protocol


def test_null_lists_and_unknown_fields_are_read() -> None:
    text = b'{"minReaderVersion":1,"minWriterVersion":2,"readerFeatures":null,"later":1}'
    assert msgspec.json.decode(text, type=Protocol) == Protocol(1, 2)


def test_versions_have_no_defaults() -> None:
    with pytest.raises(TypeError):
        Protocol()  # type: ignore[call-arg]
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b"{}", type=Protocol)


def test_a_protocol_says_what_it_is() -> None:
    assert str(Protocol(1, 2)) == "protocol (1,2)"
    assert str(Protocol(3, 7, names(), names("b", "a"))) == "protocol (3,7) readers [] writers [a, b]"
