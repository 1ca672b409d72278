"""A table that is there, described once more: what counts as the same columns, what a replacement keeps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.commands.create import Definition, check_same, create
from tidegate.commands.drop_feature import drop_feature
from tidegate.errors import SchemaInvalidError
from tidegate.log import protection
from tidegate.log.snapshot import load
from tidegate.log.table_log import TableLog
from tidegate.schema.types import INTEGER, LONG, DataType, StructField, StructType


def _schema(kind: DataType = INTEGER, comment: str = "", nullable: bool = True) -> StructType:
    inner = StructField("a", kind, nullable, {"comment": comment} if comment else {})
    return StructType((StructField("s", StructType((inner,)), True, {}), StructField("x", INTEGER, True, {})))


@pytest.mark.parametrize("mode", ["none", "name"])
def test_columns_inside_others_are_compared_by_what_is_said_of_them(tmp_path: object, mode: str) -> None:
    log = TableLog.at(f"{tmp_path}/t")
    described = Definition(_schema(comment="one"), properties={"delta.columnMapping.mode": mode})
    create(log, described)
    check_same(load(log), replace(described, properties={}))
    for other in (_schema(), _schema(LONG, "one"), _schema(comment="one", nullable=False)):
        with pytest.raises(SchemaInvalidError, match=r"columns \(s") as caught:
            check_same(load(log), Definition(other))
        assert caught.value.errorClass == "DELTA_CREATE_TABLE_SCHEME_MISMATCH"


@pytest.mark.parametrize("lowers", [False, True])
def test_versions_that_were_protected_are_so_in_the_table_that_replaces_theirs(
    tmp_path: object, lowers: bool
) -> None:
    log = TableLog.at(f"{tmp_path}/t")
    create(log, Definition(_schema(), properties={"delta.enableDeletionVectors": "true"}))
    drop_feature(log, "deletionVectors")
    before = protection.boundary(load(log))
    create(log, Definition(_schema(LONG)), "createOrReplace", lowers_protocol=lowers)
    snapshot = load(log)
    assert snapshot.protocol.supports("checkpointProtection")
    assert protection.boundary(snapshot) == before > 0
