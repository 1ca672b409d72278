"""What ``features`` tells of a table: why each is there, whether it is in use, what a drop would take."""

from __future__ import annotations

import pytest

from support.row_tables import RowTable
from support.tables import DAY, RawTable, column, domain, metadata, schema_string
from support.tables import features as lists
from tidegate.commands.features import FeatureState, features
from tidegate.log.snapshot import load
from tidegate.protocol.delta import DELTA


def told(table: RowTable | RawTable) -> dict[str, FeatureState]:
    return {f.name: f for f in features(load(table.log))}


def test_a_property_that_enables_a_feature_is_its_reason() -> None:
    table = RowTable().create(delta__enableDeletionVectors="true")
    table.append([1, 2])
    found = told(table)["deletionVectors"]
    assert found.why == ("property delta.enableDeletionVectors = true",)
    assert (found.in_use, found.droppable, found.binds) == (True, True, "readers and writers")
    assert found.drop == "5 commits, 4 checkpoints"
    table.delete([1])
    found = told(table)["deletionVectors"]
    assert found.why[1] == "1 files have deletion vectors"
    assert "1 file of" in found.drop
    assert "to rewrite by Spark" in found.drop


def test_what_versions_imply_says_so() -> None:
    found = told(RowTable().create(delta__minWriterVersion="4"))
    assert found["generatedColumns"].why == ("the table's versions imply it",)
    assert (found["generatedColumns"].listed, found["generatedColumns"].in_use) == (False, False)
    assert "cannot be removed" in found["generatedColumns"].drop
    assert found["checkConstraints"].droppable


def test_a_feature_that_nothing_uses_is_told_apart() -> None:
    found = told(RowTable().create(delta__feature__vacuumProtocolCheck="supported"))["vacuumProtocolCheck"]
    assert (found.in_use, found.droppable) == (False, True)
    assert found.why[0].startswith("nothing now")


def test_constraints_keep_their_feature_and_say_which() -> None:
    found = told(RowTable().create(delta__constraints__positive="id > 0"))["checkConstraints"]
    assert found.why == ("constraints: positive (id > 0)", "the table's versions imply it")
    assert not found.droppable
    assert "positive" in found.drop


def test_features_that_others_require_say_by_whom() -> None:
    table = RowTable().create(delta__enableRowTracking="true")
    table.append([1])
    found = told(table)
    assert "rowTracking requires it" in found["domainMetadata"].why
    assert "rowTracking require" in found["domainMetadata"].drop
    assert found["rowTracking"].droppable


def test_protection_is_there_for_the_history() -> None:
    table = RowTable().create(delta__feature__vacuumProtocolCheck="supported")
    done = table.drop("vacuumProtocolCheck")
    found = told(table)["checkpointProtection"]
    assert f"version {done.version}" in found.why[0]
    assert found.plan is not None
    assert found.plan.wait == DAY


def test_the_schema_is_a_reason() -> None:
    table = RawTable()
    table.commit(
        lists("timestampNtz", "columnMapping", writers=["generatedColumns", "clustering", "domainMetadata"]),
        metadata(
            schema_string(
                column("t", "timestamp_ntz"),
                column("g", "long", **{"delta.generationExpression": "1"}),
            )
        ),
        domain("delta.clustering", '{"clusteringColumns":[["g"]]}'),
    )
    found = told(table)
    assert found["timestampNtz"].why == ("columns of timestamp_ntz: t",)
    assert found["generatedColumns"].why == ("generated columns: g",)
    assert found["clustering"].why == ("clustering columns: g",)
    assert found["columnMapping"].in_use is False


@pytest.mark.parametrize("row", [r for r in DELTA if r.readable], ids=lambda r: r.name)
def test_every_feature_can_be_told_of(row: object) -> None:
    name = row.name  # type: ignore[attr-defined]
    table = RawTable().create(protocol={"protocol": DELTA.protocol_of([name]).to_wire()})
    found = told(table)[name]
    assert found.why
    assert found.drop
    assert set(found.as_row()) == {"name", "binds", "listed", "why", "inUse", "droppable", "drop"}
