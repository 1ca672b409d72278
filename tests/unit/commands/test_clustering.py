"""Clustered tables: what may be clustered by what, and which files the next clustering takes. No Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from support.tables import RawTable, column, schema_string
from tidegate.commands.alter import cluster_by, set_properties
from tidegate.commands.alter_names import drop_columns, rename_column
from tidegate.commands.clustering import PROVIDER, cube_tags, own_columns, to_cluster
from tidegate.commands.create import Definition, check_same, create
from tidegate.commands.detail import detail
from tidegate.commands.optimize_metrics import clustering_stats
from tidegate.commands.options import WRITE, Options
from tidegate.commands.removes import as_removes
from tidegate.commands.write import _evolve
from tidegate.errors import ConcurrentTransactionException, TidegateError
from tidegate.log.snapshot import Snapshot, load
from tidegate.log.table_log import TableLog
from tidegate.schema.types import StructType, parse_schema
from tidegate.transaction.transaction import Transaction

COLUMNS = frozenset({'["a","s.`x.y`"]', '["`col-1`","`col-2`"]'})
VECTOR = pa.struct([("cardinality", pa.int64())])


def _file(cube: str | None = None, *, by: Any = (("a",), ("s", "x.y")), size: int = 10, **more: Any) -> Any:
    tags = None if cube is None else list(cube_tags(cube, by, "hilbert").items())
    provider = None if cube is None else PROVIDER
    return {"tags": tags, "size": size, "clusteringProvider": provider, "deletionVector": None, **more}


def _table(*rows: Any) -> pa.Table:
    schema = pa.schema(
        [
            ("path", pa.string()),
            ("tags", pa.map_(pa.string(), pa.string())),
            ("size", pa.int64()),
            ("clusteringProvider", pa.string()),
            ("deletionVector", VECTOR),
        ]
    )
    return pa.Table.from_pylist([{"path": str(i), **row} for i, row in enumerate(rows)], schema=schema)


def _taken(*rows: Any, size: int = 100, full: bool = False) -> list[int]:
    return [int(p) for p in to_cluster(_table(*rows), COLUMNS, size, full=full).column("path").to_pylist()]


OTHER = _file("other", by=(("b",),))
PHYSICAL = _file("mine", by=(("col-1",), ("col-2",)))


@pytest.mark.parametrize("full", [False, True])
def test_files_in_no_cube_and_in_small_ones_are_taken_and_whole_cubes_are_not(full: bool) -> None:
    whole = [_file("whole", size=60), _file("whole", size=40)]
    assert _taken(_file(), _file("small"), *whole, PHYSICAL, full=full) == [0, 1, 4]


def test_files_clustered_by_other_columns_wait_for_a_full_clustering() -> None:
    assert _taken(_file(), OTHER) == [0]
    assert _taken(_file("mine"), OTHER) == []
    assert _taken(_file("mine"), OTHER, full=True) == [0, 1]
    assert _taken(_file("mine", by=(("s", "x.y"), ("a",)))) == []


@pytest.mark.parametrize("full", [False, True])
def test_one_cube_alone_is_settled_unless_rows_of_it_are_deleted(full: bool) -> None:
    assert _taken(_file("mine"), _file("mine"), full=full) == []
    assert _taken(_file("mine"), _file("mine", deletionVector={"cardinality": 1}), full=full) == [0, 1]
    assert _taken(_file("mine"), _file("second"), full=full) == [0, 1]
    assert _taken(full=full) == []


def test_files_of_another_provider_are_never_taken() -> None:
    foreign = _file("mine", clusteringProvider="somebody")
    assert _taken(foreign, _file(clusteringProvider="somebody"), _file(), full=True) == [2]


def test_the_statistics_count_cubes_of_the_columns_or_of_all_where_it_is_full() -> None:
    files = _table(_file(), _file("one"), _file("one"), OTHER)
    chosen = to_cluster(files, COLUMNS, 100)
    assert clustering_stats(files, chosen, COLUMNS, full=False) == {
        "inputZCubeFiles": {"numFiles": 2, "size": 20},
        "inputOtherFiles": {"numFiles": 2, "size": 20},
        "inputNumZCubes": 1,
        "mergedFiles": {"numFiles": 3, "size": 30},
    }
    found = clustering_stats(files, files, COLUMNS, full=True)
    assert (found["inputZCubeFiles"]["numFiles"], found["inputNumZCubes"]) == (3, 2)


# ---------------------------------------------------------------------------- definitions


def _schema() -> StructType:
    struct = {"type": "struct", "fields": [column("x.y", "integer"), column("z", "integer")]}
    columns = (column("a", "integer"), column("b-c"), column("yes", "boolean"), column("s", struct))
    return parse_schema(schema_string(*columns))


def test_what_cannot_be_clustered_is_refused_by_name() -> None:
    log = RawTable().log
    create(log, Definition(_schema(), cluster_by=["a"]))
    property_ = {"delta.feature.clustering": "supported"}
    for attempt, condition in (
        (lambda: cluster_by(log, ["yes"]), "DELTA_CLUSTERING_COLUMNS_DATATYPE_NOT_SUPPORTED"),
        (lambda: cluster_by(log, ["s"]), "DELTA_CLUSTERING_COLUMNS_DATATYPE_NOT_SUPPORTED"),
        (lambda: cluster_by(log, ["a", "A"]), "DELTA_DUPLICATE_COLUMNS_FOUND.CLUSTER_BY"),
        (lambda: cluster_by(log, ["nothing"]), "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA"),
        (
            lambda: set_properties(log, property_),
            "DELTA_ALTER_TABLE_SET_CLUSTERING_TABLE_FEATURE_NOT_ALLOWED",
        ),
        (
            lambda: set_properties(log, {"ClusteringColumns": '[["a"]]'}),
            "DELTA_CANNOT_MODIFY_TABLE_PROPERTY",
        ),
        (
            lambda: create(RawTable().log, Definition(_schema(), properties=property_)),
            "DELTA_CREATE_TABLE_SET_CLUSTERING_TABLE_FEATURE_NOT_ALLOWED",
        ),
        (
            lambda: create(log, Definition(_schema(), partition_by=["a"]), "createOrReplace"),
            "DELTA_CLUSTERING_REPLACE_TABLE_WITH_PARTITIONED_TABLE",
        ),
    ):
        with pytest.raises(TidegateError) as caught:
            attempt()
        assert caught.value.errorClass == condition
    assert load(log).version == 0


@pytest.mark.parametrize("columns", [["b-c"], []])
def test_a_partitioned_table_is_not_clustered_and_not_by_nothing_either(columns: list[str]) -> None:
    log = RawTable().log
    create(log, Definition(_schema(), ["a"]))
    with pytest.raises(TidegateError) as caught:
        cluster_by(log, columns)
    assert caught.value.errorClass == "DELTA_ALTER_TABLE_CLUSTER_BY_ON_PARTITIONED_TABLE_NOT_ALLOWED"
    assert load(log).version == 0


def test_a_table_that_is_there_is_entered_with_its_own_clustering_alone() -> None:
    clustered, plain = RawTable().log, RawTable().log
    create(clustered, Definition(_schema(), cluster_by=["`b-c`", "s.`x.y`"]))
    create(plain, Definition(_schema()))
    nothing = StructType(())
    for schema in (_schema(), nothing):
        check_same(load(clustered), Definition(schema, cluster_by=["`B-c`", "s.`x.y`"]))
    for log in (clustered, plain):
        check_same(load(log), Definition(nothing))
    for log, schema, columns in (
        (clustered, _schema(), []),
        (clustered, _schema(), ["s.`x.y`", "`b-c`"]),
        (clustered, nothing, ["a"]),
        (plain, _schema(), ["a"]),
        (plain, nothing, ["a"]),
    ):
        with pytest.raises(TidegateError, match="clustering columns differ") as caught:
            check_same(load(log), Definition(schema, cluster_by=columns))
        assert caught.value.errorClass == "DELTA_CREATE_TABLE_WITH_DIFFERENT_CLUSTERING"


def test_clustering_columns_follow_a_rename_and_are_not_dropped() -> None:
    log = RawTable().log
    mapped = {"delta.columnMapping.mode": "name"}
    create(log, Definition(_schema(), cluster_by=["`b-c`", "s.`x.y`"], properties=mapped))
    for names in (["`b-c`"], ["a", "s.`x.y`"], ["s"]):
        with pytest.raises(TidegateError) as caught:
            drop_columns(log, names)
        assert caught.value.errorClass == "DELTA_UNSUPPORTED_DROP_CLUSTERING_COLUMN"
    drop_columns(log, ["yes", "s.z"])
    rename_column(log, "`b-c`", "c,d")
    rename_column(log, "s.`x.y`", "q")
    snapshot = load(log)
    assert (snapshot.version, snapshot.schema.names) == (3, ("a", "c,d", "s"))
    assert detail(snapshot)["clusteringColumns"] == ["`c,d`", "s.q"]


def test_odd_names_are_quoted_as_delta_spark_quotes_them() -> None:
    log = RawTable().log
    create(log, Definition(_schema(), ["a"]))
    create(log, Definition(_schema(), cluster_by=["`b-c`", "s.`x.y`"]), "replace")
    snapshot = load(log)
    assert detail(snapshot)["clusteringColumns"] == ["`b-c`", "s.`x.y`"]
    assert own_columns(snapshot) == {'["`b-c`","s.`x.y`"]'}
    assert snapshot.partition_columns == ()


# ---------------------------------------------------------------------------- schemas that are overwritten


def _overwrite(
    transaction: Transaction, schema: StructType, partition_by: list[str] | None = None
) -> Snapshot:
    """What a write with overwriteSchema commits, but for its rows."""
    session: Any = None
    given = Options({"overwriteSchema": "true"}, WRITE)
    actions = _evolve(session, transaction, schema, given, partition_by, True)
    return transaction.commit(actions, removes=as_removes(transaction.files(), 0)).snapshot


def _clustered(**properties: str) -> TableLog:
    log = RawTable().log
    given = {k.replace("__", "."): v for k, v in properties.items()}
    create(log, Definition(_schema(), cluster_by=["`b-c`", "s.`x.y`"], properties=given))
    return log


def _without(*names: str) -> StructType:
    return StructType(tuple(f for f in _schema().fields if f.name not in names))


FLAT = StructType(tuple(f.with_name("B-C") if f.name == "b-c" else f for f in _schema().fields))
PLAIN = parse_schema(schema_string(column("a"), column("b-c", "boolean"), column("s", "string")))


@pytest.mark.parametrize(
    ("schema", "partition_by"),
    [
        (_schema(), ["a"]),
        (_schema(), ["b-c"]),
        (_without("b-c"), None),
        (_without("s"), None),
        # Columns by the same names that no table is clustered by.
        (PLAIN, None),
    ],
)
@pytest.mark.parametrize("mode", ["none", "name"])
def test_clustering_ends_where_the_schema_is_overwritten_by_one_that_cannot_have_it(
    schema: StructType, partition_by: list[str] | None, mode: str
) -> None:
    log = _clustered(delta__columnMapping__mode=mode)
    done = _overwrite(Transaction.begin(log), schema, partition_by)
    for snapshot in (done, load(log)):
        assert detail(snapshot)["clusteringColumns"] == []
        assert snapshot.partition_columns == tuple(partition_by or ())
        assert "delta.clustering" not in snapshot.domains
    if not partition_by:
        cluster_by(log, ["a"])
        assert detail(load(log))["clusteringColumns"] == ["a"]


@pytest.mark.parametrize("mode", ["none", "name"])
def test_clustering_lasts_where_the_schema_is_overwritten_by_one_with_all_its_columns(mode: str) -> None:
    log = _clustered(delta__columnMapping__mode=mode)
    before = own_columns(load(log))
    snapshot = _overwrite(Transaction.begin(log), _without("a", "yes"))
    assert snapshot.schema.names == ("b-c", "s")
    assert detail(snapshot)["clusteringColumns"] == ["`b-c`", "s.`x.y`"]
    # New columns have new names in files, which the table is to be clustered by from here on.
    assert (own_columns(snapshot) == before) == (mode == "none")
    assert detail(_overwrite(Transaction.begin(log), FLAT))["clusteringColumns"] == ["`B-C`", "s.`x.y`"]


def test_a_table_clustered_by_nothing_is_partitioned_by_an_overwrite_and_stays_as_it_is_otherwise() -> None:
    log = _clustered()
    cluster_by(log, [])
    domains = load(log).domains
    assert _overwrite(Transaction.begin(log), _without("a")).domains == domains
    assert _overwrite(Transaction.begin(log), _schema(), ["a"]).domains == {}


def test_columns_that_are_chosen_while_the_schema_is_overwritten_are_a_conflict() -> None:
    log = _clustered()
    late = Transaction.begin(log)
    cluster_by(log, ["a"])
    with pytest.raises(ConcurrentTransactionException):
        _overwrite(late, _without("a"))
    assert detail(load(log))["clusteringColumns"] == ["a"]
