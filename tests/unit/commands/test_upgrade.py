"""Upgrades by hand: one commit each, only ever up, with all that a feature requires."""

from __future__ import annotations

import pytest

from support.tables import RawTable, add, features, protocol
from support.transactions import commit_info, commit_lines
from tidegate import errors
from tidegate.commands.upgrade import add_feature_support, upgrade_table_protocol
from tidegate.protocol.delta import DELTA
from tidegate.protocol.protocol import Protocol
from tidegate.transaction.transaction import Transaction


def table(head: dict[str, object] | None = None) -> RawTable:
    made = RawTable().create(protocol=head or protocol(1, 2))
    made.commit(add("f"))
    return made


@pytest.mark.parametrize(
    ("start", "asked", "then"),
    [
        ((1, 1), (1, 4), Protocol(1, 4)),
        ((1, 2), (1, 4), Protocol(1, 4)),
        ((1, 6), (2, 5), Protocol(2, 6)),
        ((1, 2), (2, 5), Protocol(2, 5)),
        ((1, 2), (3, 7), None),
        ((1, 4), (1, 2), None),
        ((1, 4), (1, 4), None),
        ((2, 5), (1, 3), None),
    ],
)
def test_versions_only_go_up(start: tuple[int, int], asked: tuple[int, int], then: Protocol | None) -> None:
    made = table(protocol(*start))
    done = upgrade_table_protocol(made.log, *asked)
    assert (done is None) == (then is None)
    assert made.load().protocol == (then or Protocol(*start))
    assert made.load().version == 1 + (then is not None)


def test_an_upgrade_is_one_commit_with_the_protocol_alone() -> None:
    made = table()
    done = add_feature_support(made.log, "rowTracking")
    assert done is not None
    assert [next(iter(line)) for line in commit_lines(made, done.version)] == ["commitInfo", "protocol"]
    assert commit_info(made, done.version)["operation"] == "UPGRADE PROTOCOL"
    assert made.load().protocol.features() == {"appendOnly", "domainMetadata", "invariants", "rowTracking"}
    assert made.load().files().num_rows == 1


def test_a_feature_that_is_there_is_not_added_again() -> None:
    made = table()
    assert add_feature_support(made.log, "appendOnly") is None
    assert add_feature_support(made.log, "DeletionVectors") is not None
    assert add_feature_support(made.log, "deletionVectors") is None
    assert made.load().protocol.reader_features == {"deletionVectors"}


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("abc", errors.UnknownFeatureError),
        ("geospatial", errors.UnsupportedReaderFeatureError),
        ("catalogManaged", errors.CatalogManagedError),
        ("icebergCompatV2", errors.UnsupportedWriterFeatureError),
    ],
)
def test_what_this_client_could_not_use_is_not_added(name: str, error: type[Exception]) -> None:
    made = table()
    before = made.names()
    with pytest.raises(error):
        add_feature_support(made.log, name)
    assert made.names() == before


@pytest.mark.parametrize("versions", [(0, 2), (1, 8), (4, 7), (-1, 2)])
def test_versions_that_do_not_exist_are_refused(versions: tuple[int, int]) -> None:
    made = table()
    with pytest.raises(errors.PropertyError):
        upgrade_table_protocol(made.log, *versions)
    assert made.load().version == 1


def test_there_must_be_a_table() -> None:
    with pytest.raises(errors.NotATableError):
        add_feature_support(RawTable().log, "deletionVectors")


def test_who_read_before_the_upgrade_is_rebased_unless_the_feature_forbids_it() -> None:
    made = table()
    slow = Transaction.begin(made.log)
    add_feature_support(made.log, "deletionVectors")
    assert slow.commit([]).version == 3
    slow = Transaction.begin(made.log)
    add_feature_support(made.log, "allowColumnDefaults")
    with pytest.raises(errors.ProtocolChangedException):
        slow.commit([])


def test_two_upgrades_at_once_are_told_apart() -> None:
    made = table(features(writers=["appendOnly"]))
    slow = Transaction.begin(made.log)
    slow.update_protocol(slow.protocol.with_feature(DELTA["v2Checkpoint"]))
    add_feature_support(made.log, "deletionVectors")
    with pytest.raises(errors.ProtocolChangedException):
        slow.commit([])
