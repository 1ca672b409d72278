"""After a drop every command asks the protocol of the version it reads, not that of the newest one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.row_tables import RowTable
from tidegate.commands.alter import set_properties
from tidegate.commands.clone import clone
from tidegate.commands.restore import restore
from tidegate.errors import UnsupportedReaderFeatureError
from tidegate.files.row_ids import DOMAIN, decode_mark
from tidegate.log.snapshot import load
from tidegate.log.table_log import TableLog
from tidegate.log.verify import verify
from tidegate.protocol.delta import DELTA
from tidegate.storage import MemoryStore

OLD = DELTA.without(["deletionVectors"])


@pytest.fixture
def table() -> RowTable:
    """Rows deleted by vectors in version 3, the feature dropped since."""
    made = RowTable().create()
    made.append([1, 2, 3])
    made.set(delta__enableDeletionVectors="true")
    assert made.delete([2]) == 3
    made.drop("deletionVectors")
    made.append([9])
    return made


def test_a_restore_to_before_the_drop_brings_the_feature_back_and_keeps_the_protection(
    table: RowTable,
) -> None:
    boundary = table.load().properties["delta.requireCheckpointProtectionBeforeVersion"]
    restore(table.log, version=3)
    assert table.rows() == [1, 3]
    assert table.load().protocol.features() >= {"deletionVectors", "checkpointProtection"}
    assert table.load().properties["delta.requireCheckpointProtectionBeforeVersion"] == boundary
    assert verify(table.log).errors == ()
    table.expected[table.load().version] = [1, 3]
    table.drop("deletionVectors")
    assert table.rows() == [1, 3]
    assert verify(table.log).errors == ()


@pytest.mark.parametrize(
    "act",
    [
        lambda log: load(log, 3),
        lambda log: restore(log, version=3),
        lambda log: clone(log, TableLog(MemoryStore(clock=log.clock), clock=log.clock), version=3),
    ],
    ids=["time travel", "restore", "clone"],
)
def test_who_lacks_the_feature_is_refused_the_versions_that_need_it(
    table: RowTable, act: Callable[[TableLog], object]
) -> None:
    before = table.names()
    with pytest.raises(UnsupportedReaderFeatureError) as e:
        act(table.client(OLD))
    assert (e.value.errorClass, e.value.version) == ("DELTA_UNSUPPORTED_FEATURES_FOR_READ", 3)
    assert table.names() == before


def test_who_lacks_the_feature_restores_and_clones_what_it_may(table: RowTable) -> None:
    old = table.client(OLD)
    restore(old, version=1)
    assert table.rows() == [1, 2, 3]


# ---------------------------------------------------------------------------- ids of rows


@pytest.fixture
def tracked() -> RowTable:
    """Three files with row ids in version 3; row tracking dropped since."""
    made = RowTable().create(delta__enableRowTracking="true")
    for values in ([1, 2], [3], [4, 5]):
        made.append(values)
    made.drop("rowTracking")
    return made


def _ids(table: RowTable, version: int | None = None) -> dict[str, int | None]:
    files = table.load(version).files(columns=["path", "baseRowId"])
    return dict(zip(files.column("path").to_pylist(), files.column("baseRowId").to_pylist(), strict=True))


def _mark(table: RowTable) -> int:
    return decode_mark(table.load().domains[DOMAIN].configuration)


def test_a_restore_to_before_the_drop_gives_rows_their_ids_back(tracked: RowTable) -> None:
    assert set(_ids(tracked).values()) == {None}
    restore(tracked.log, version=3)
    assert _ids(tracked) == _ids(tracked, 3)
    assert sorted(i for i in _ids(tracked).values() if i is not None) == [0, 2, 3]
    assert _mark(tracked) == 4
    changes = tracked.load().files(columns=["path", "dataChange"]).column("dataChange").to_pylist()
    assert changes == [False] * 3
    tracked.append([6])
    assert max(i for i in _ids(tracked).values() if i is not None) == 5
    assert verify(tracked.log).errors == ()


def test_ids_given_anew_after_a_drop_give_way_to_those_that_come_back(tracked: RowTable) -> None:
    set_properties(tracked.log, {"delta.enableRowTracking": "true"})
    tracked.append([7])
    assert None not in _ids(tracked).values()
    restore(tracked.log, version=1)
    assert _ids(tracked) == _ids(tracked, 1)
    tracked.append([8])
    tracked.append([9])
    given = sorted(i for i in _ids(tracked).values() if i is not None)
    assert len(set(given)) == len(given) == 3
    restore(tracked.log, version=3)
    assert _ids(tracked) == _ids(tracked, 3)
    assert _mark(tracked) >= 4
    tracked.append([10])
    assert max(i for i in _ids(tracked).values() if i is not None) > 4
    assert verify(tracked.log).errors == ()
