"""Actions: their bytes and their columns say the same, and a damaged line is named."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.tables import RawTable, add, commit_info, lines, remove, rows, seen, txn, vector
from tidegate.errors import CommitCorruptError, PathOutsideTableError, TidegateError
from tidegate.files.deletion_vectors import DeletionVector
from tidegate.files.paths import refuse_outside, resolve_path
from tidegate.log import commits
from tidegate.log.actions import Add, Cdc, CheckpointMetadata, DomainMetadata, Remove, Sidecar, Txn, to_wire
from tidegate.log.columns import ADD_SCHEMA, CDC_SCHEMA, REMOVE_SCHEMA, batch_to_wire, from_batch, to_batch
from tidegate.log.commits import decode_commit, encode_lines
from tidegate.metadata import Format, Metadata
from tidegate.protocol.protocol import Protocol

LONG = st.integers(-(2**63), 2**63 - 1)
INT = st.integers(-(2**31), 2**31 - 1)
TEXT = st.text(max_size=8)
MAPS = st.dictionaries(TEXT, st.one_of(st.none(), TEXT), max_size=3)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), strategy)


VECTORS = st.builds(
    DeletionVector,
    storage_type=st.sampled_from("uip"),
    path_or_inline_dv=TEXT,
    offset=maybe(INT),
    size_in_bytes=INT,
    cardinality=LONG,
)
ADDS = st.builds(
    Add,
    path=TEXT,
    partition_values=MAPS,
    size=LONG,
    modification_time=LONG,
    data_change=st.booleans(),
    stats=maybe(TEXT),
    tags=maybe(MAPS),
    deletion_vector=maybe(VECTORS),
    base_row_id=maybe(LONG),
    default_row_commit_version=maybe(LONG),
    clustering_provider=maybe(TEXT),
)
REMOVES = st.builds(
    Remove,
    path=TEXT,
    deletion_timestamp=maybe(LONG),
    data_change=st.booleans(),
    extended_file_metadata=maybe(st.booleans()),
    partition_values=maybe(MAPS),
    size=maybe(LONG),
    stats=maybe(TEXT),
    tags=maybe(MAPS),
    deletion_vector=maybe(VECTORS),
    base_row_id=maybe(LONG),
    default_row_commit_version=maybe(LONG),
)
CDCS = st.builds(
    Cdc, path=TEXT, partition_values=MAPS, size=LONG, data_change=st.booleans(), tags=maybe(MAPS)
)
TXNS = st.builds(Txn, app_id=TEXT, version=LONG, last_updated=maybe(LONG))
DOMAINS = st.builds(DomainMetadata, domain=TEXT, configuration=TEXT, removed=st.booleans())
NAMES = st.frozensets(TEXT, max_size=3)
PROTOCOLS = st.one_of(
    st.builds(Protocol, st.integers(1, 2), st.integers(1, 6)),
    st.builds(Protocol, st.just(3), st.just(7), NAMES, NAMES),
)
METADATAS = st.builds(
    Metadata,
    id=TEXT,
    name=maybe(TEXT),
    description=maybe(TEXT),
    format=st.builds(Format, provider=TEXT, options=st.dictionaries(TEXT, TEXT, max_size=2)),
    schema_string=st.text(min_size=1, max_size=8),
    partition_columns=st.lists(TEXT, max_size=2).map(tuple),
    configuration=st.dictionaries(TEXT, TEXT, max_size=2),
    created_time=maybe(LONG),
)
SIDECARS = st.builds(Sidecar, path=TEXT, size_in_bytes=LONG, modification_time=LONG, tags=maybe(MAPS))

# ---------------------------------------------------------------------------- there and back


@given(st.lists(st.one_of(ADDS, REMOVES, CDCS), max_size=6))
def test_file_actions_come_back_from_their_lines(made: list[Any]) -> None:
    found = decode_commit(encode_lines([commit_info(), *(to_wire(a) for a in made)]), "x")
    for kind, batches in ((Add, found.adds), (Remove, found.removes), (Cdc, found.cdcs)):
        assert [a for b in batches for a in from_batch(b, kind)] == [a for a in made if type(a) is kind]


@given(st.lists(st.one_of(TXNS, DOMAINS, PROTOCOLS, METADATAS, SIDECARS), max_size=6))
def test_small_actions_come_back_from_their_lines(made: list[Any]) -> None:
    found = decode_commit(encode_lines([commit_info(), *(to_wire(a) for a in made)]), "x")
    for kind, values in (
        (Txn, found.txns),
        (DomainMetadata, found.domains),
        (Protocol, found.protocols),
        (Metadata, found.metadatas),
        (Sidecar, found.sidecars),
    ):
        assert values == [a for a in made if type(a) is kind]


@given(st.lists(ADDS, max_size=4), st.lists(REMOVES, max_size=4), st.lists(CDCS, max_size=4))
def test_columns_and_structs_make_the_same_lines(
    adds: list[Add], removes: list[Remove], cdcs: list[Cdc]
) -> None:
    for name, made, schema in (
        ("add", adds, ADD_SCHEMA),
        ("remove", removes, REMOVE_SCHEMA),
        ("cdc", cdcs, CDC_SCHEMA),
    ):
        batch = to_batch(made, schema)
        batch.validate(full=True)
        by_column = list(batch_to_wire(name, batch))
        assert by_column == [to_wire(a) for a in made]


def test_a_checkpoints_first_line_comes_back() -> None:
    first = CheckpointMetadata(version=7, tags={"numOfAddFiles": "3"})
    found = decode_commit(encode_lines([to_wire(first)]), "x")
    assert found.checkpoint_metadata == first


def test_absent_fields_are_left_out_of_the_line_and_required_maps_are_not() -> None:
    line = to_wire(Add(path="a", size=1, modification_time=2, data_change=True))
    assert line == {
        "add": {"path": "a", "partitionValues": {}, "size": 1, "modificationTime": 2, "dataChange": True}
    }
    assert to_wire(Remove(path="a")) == {"remove": {"path": "a", "dataChange": True}}


def test_metadata_always_states_its_required_fields() -> None:
    body = to_wire(Metadata(id="x"))["metaData"]
    assert {"id", "format", "schemaString", "partitionColumns", "configuration"} <= body.keys()
    assert body["format"] == {"provider": "parquet", "options": {}}


def test_large_commits_leave_in_more_than_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "BATCH_ROWS", 3)
    data = lines([commit_info(), *(add(f"{i}") for i in range(7)), *(remove(f"r{i}") for i in range(4))])
    found = decode_commit(data, "x")
    assert [b.num_rows for b in found.adds] == [3, 3, 1]
    assert sum(b.num_rows for b in found.removes) == 4
    assert [n for a in found.add_lines for n in a.to_pylist()] == list(range(2, 9))
    assert [n for a in found.remove_lines for n in a.to_pylist()] == list(range(9, 13))


# ---------------------------------------------------------------------------- what is not known


def test_unknown_fields_and_actions_are_ignored() -> None:
    data = lines(
        [
            {"commitInfo": {"timestamp": 1, "whatever": [1]}, "newThing": {"x": 1}},
            {"futureAction": {"path": "?"}},
            {"add": {**add("a")["add"], "backReference": {"x": 1}, "amtPassthrough": None}},
            {"txn": {"appId": "a", "version": 1, "since": "ever"}},
            {},
        ]
    )
    found = decode_commit(data, "x")
    assert [r["path"] for b in found.adds for r in b.to_pylist()] == ["a"]
    assert found.txns == [Txn(app_id="a", version=1)]
    assert found.commit_info["whatever"] == [1]


def test_null_actions_as_old_writers_leave_them_are_none() -> None:
    data = b'{"add":null,"remove":null,"txn":null,"commitInfo":null}\n{"txn":{"appId":"a","version":1}}\n'
    found = decode_commit(data, "x")
    assert (found.adds, found.removes, found.commit_info) == ([], [], {})
    assert len(found.txns) == 1


def test_a_commit_info_that_is_no_object_says_nothing() -> None:
    assert decode_commit(b'{"commitInfo":"text"}\n', "x").commit_info == {}


def test_old_actions_without_what_came_later_are_read() -> None:
    """delta 0.1: no stats, no tags, a remove with neither size nor timestamp."""
    found = decode_commit(
        b'{"add":{"path":"a","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}\n'
        b'{"remove":{"path":"b","dataChange":true}}\n',
        "x",
    )
    assert found.removes[0].column("deletionTimestamp").to_pylist() == [None]
    assert found.adds[0].column("stats").to_pylist() == [None]


@pytest.mark.parametrize("end", [b"", b"\n", b"\n\n", b"\r\n", b"  \n"])
def test_line_ends_do_not_matter(end: bytes) -> None:
    data = lines([commit_info(), add("a")]).rstrip(b"\n")
    table = RawTable().create()
    table.commit(add("a"))
    table.edit(f"{1:020d}.json", lambda _: data.replace(b"\n", b"\r\n") + end)
    assert seen(table.load()).paths == ["a"]


# ---------------------------------------------------------------------------- damage

DAMAGED = {
    "cut in the middle": b'{"add":{"path":"a","size":1,"modi',
    "not JSON": b"hello",
    "an array": b"[1,2]",
    "a number": b"5",
    "text": b'"add"',
    "two objects on a line": b'{"add":null}{"add":null}',
    "not UTF-8": b'{"txn":{"appId":"\xff\xfe","version":1}}',
    "zero bytes": b"\x00" * 64,
    "half a surrogate": b'{"txn":{"appId":"\\ud800","version":1}}',
    "deep nesting": b'{"x":' + b"[" * 50_000,
    "deep nesting that ends": b'{"x":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "add is a list": b'{"add":[]}',
    "add without a path": b'{"add":{"size":1,"modificationTime":1,"dataChange":true}}',
    "add without a size": b'{"add":{"path":"a","modificationTime":1,"dataChange":true}}',
    "a size that is text": b'{"add":{"path":"a","size":"1","modificationTime":1,"dataChange":true}}',
    "a size that is a fraction": b'{"add":{"path":"a","size":1.5,"modificationTime":1,"dataChange":true}}',
    "a size beyond 64 bits": (
        b'{"add":{"path":"a","size":99999999999999999999,"modificationTime":1,"dataChange":true}}'
    ),
    "a time beyond 64 bits": (
        b'{"remove":{"path":"a","deletionTimestamp":9223372036854775808,"dataChange":true}}'
    ),
    "a vector size beyond 32 bits": (
        b'{"add":{"path":"a","size":1,"modificationTime":1,"dataChange":true,"deletionVector":'
        b'{"storageType":"u","pathOrInlineDv":"x","offset":1,"sizeInBytes":2147483648,"cardinality":1}}}'
    ),
    "a vector offset beyond 32 bits": (
        b'{"remove":{"path":"a","dataChange":true,"deletionVector":{"storageType":"u","pathOrInlineDv":"x",'
        b'"offset":-2147483649,"sizeInBytes":1,"cardinality":1}}}'
    ),
    "a txn version beyond 64 bits": b'{"txn":{"appId":"a","version":9223372036854775808}}',
    "a cdc size beyond 64 bits": b'{"cdc":{"path":"a","size":9223372036854775808}}',
    "a partition value that is a number": (
        b'{"add":{"path":"a","partitionValues":{"p":1},"size":1,"modificationTime":1,"dataChange":true}}'
    ),
    "txn without an id": b'{"txn":{"version":1}}',
    "protocol without a version": b'{"protocol":{"minReaderVersion":1}}',
    "protocol with a fraction": b'{"protocol":{"minReaderVersion":1.5,"minWriterVersion":2}}',
    "metaData without an id": b'{"metaData":{"schemaString":"{}"}}',
    "a domain without a name": b'{"domainMetadata":{"configuration":""}}',
}


@pytest.mark.parametrize("line", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_line_is_named_with_its_file_and_number(line: bytes) -> None:
    table = RawTable().create()
    table.commit(add("a"))
    name = f"{2:020d}.json"
    table.put(name, lines([commit_info(), add("b")]) + line + b"\n" + lines([txn("x", 1)]))
    with pytest.raises(CommitCorruptError, match=r"Line 3\b") as caught:
        table.load().files()
    error = caught.value
    assert (error.file, error.version, error.table) == (name, 2, table.store.url)
    assert len(error.message) < 600
    assert seen(table.load(1)) == table.state(1)


@pytest.mark.parametrize("data", [b"", b"\n", b" \n\r\n"])
def test_an_empty_commit_is_corrupt(data: bytes) -> None:
    table = RawTable().create()
    table.put(f"{1:020d}.json", data)
    with pytest.raises(CommitCorruptError, match="empty") as caught:
        table.load()
    assert caught.value.file == f"{1:020d}.json"


def test_a_commit_of_commit_info_alone_is_a_version() -> None:
    table = RawTable().create()
    table.commit()
    assert table.load().version == 1


@given(st.binary(max_size=200))
def test_any_bytes_are_a_commit_or_a_corrupt_one(data: bytes) -> None:
    try:
        found = decode_commit(data, "x")
    except CommitCorruptError:
        return
    assert isinstance(found.commit_info, dict)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False), TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=6,
)


def fields(kind: type[msgspec.Struct]) -> list[str]:
    return [f.encode_name for f in msgspec.structs.fields(kind)]


@given(
    st.sampled_from(
        [
            ("add", Add),
            ("remove", Remove),
            ("cdc", Cdc),
            ("txn", Txn),
            ("protocol", Protocol),
            ("metaData", Metadata),
            ("domainMetadata", DomainMetadata),
            ("sidecar", Sidecar),
        ]
    ),
    st.data(),
)
def test_any_value_in_any_field_is_taken_or_named(
    action: tuple[str, type[msgspec.Struct]], data: st.DataObject
) -> None:
    name, kind = action
    whole = {
        "add": add("a", dv=vector())["add"],
        "remove": remove("a", dv=vector())["remove"],
        "cdc": {"path": "a", "size": 1, "dataChange": False},
        "txn": {"appId": "a", "version": 1},
        "protocol": {"minReaderVersion": 1, "minWriterVersion": 2},
        "metaData": {"id": "a"},
        "domainMetadata": {"domain": "d", "configuration": ""},
        "sidecar": {"path": "a", "sizeInBytes": 1, "modificationTime": 1},
    }[name]
    body = {**whole, data.draw(st.sampled_from(fields(kind))): data.draw(JSON)}
    try:
        found = decode_commit(json.dumps({name: body}).encode() + b"\n", "x")
    except CommitCorruptError:
        return
    for batch in (*found.adds, *found.removes, *found.cdcs):
        batch.validate(full=True)
        assert pa.Table.from_batches([batch]).to_pylist()


# ---------------------------------------------------------------------------- paths

OUTSIDE = ["../a", "a/../../b", "%2e%2e/a", "%2E./a", "a/%2e%2e/..%2fb", "..", "", ".", "./", "a/.."]
INSIDE = ["a..b", "..a/b", "a/..b", "...", "a/b../c", "a/../b", "%2e%2ea", "a%2e%2e/b"]
ABSOLUTE = ["/data/a", "file:///data/a", "s3://bucket/a", "/../a", "s3://bucket/../a"]


@pytest.mark.parametrize("form", [None, "classic", "v2-json"])
@pytest.mark.parametrize("path", OUTSIDE)
def test_a_relative_path_that_climbs_out_of_the_table_is_refused(path: str, form: str | None) -> None:
    table = RawTable().create(add("good"))
    before = table.load()
    before.files()
    table.commit(add(path))
    if form is not None:
        table.checkpoint(1, form)
    for snapshot in (table.load(), before.update()):
        with pytest.raises(PathOutsideTableError) as caught:
            snapshot.files(columns=["size"])
        assert (caught.value.table, caught.value.version) == (table.store.url, 1)
    assert before.files().num_rows == 1


@pytest.mark.parametrize("path", [*INSIDE, *ABSOLUTE])
def test_a_path_inside_the_table_or_an_absolute_one_is_read(path: str) -> None:
    table = RawTable().create(add("good"), add(path))
    assert path in [r["path"] for r in rows(table.load().files())]


ODD_PATHS = st.one_of(
    st.sampled_from([*OUTSIDE, *INSIDE, *ABSOLUTE, "ab"]),
    st.text(alphabet="./%2eEfFa", max_size=8),
)


def refused(path: str) -> bool:
    try:
        resolve_path(path)
    except PathOutsideTableError:
        return True
    return False


@given(st.lists(st.one_of(st.none(), ODD_PATHS), max_size=8), st.integers(0, 8), st.integers(0, 8))
def test_a_column_is_refused_exactly_if_one_of_its_paths_is(
    paths: list[str | None], offset: int, length: int
) -> None:
    column = pa.array(paths, pa.string()).slice(offset, length)
    expected = any(refused(p) for p in paths[offset : offset + length] if p is not None)
    for form in (column, pa.chunked_array([column, column], pa.string()), column.cast(pa.large_string())):
        if expected:
            with pytest.raises(PathOutsideTableError):
                refuse_outside(form)
        else:
            refuse_outside(form)


def test_a_removed_file_outside_the_table_does_not_stop_the_readers_of_live_ones() -> None:
    table = RawTable().create(add("good"), add("../bad"))
    table.commit(remove("../bad"))
    assert seen(table.load(), tombstones=False).paths == ["good"]


def test_tombstones_outside_the_table_are_refused_where_they_are_asked_for() -> None:
    """Whoever deletes files by this list must never leave the table."""
    table = RawTable().create(add("good"))
    table.commit(remove("../bad", time=None))
    with pytest.raises(PathOutsideTableError):
        table.load().tombstones(expired=True)


def test_errors_are_typed_so_that_callers_can_tell() -> None:
    assert issubclass(CommitCorruptError, TidegateError)
    assert CommitCorruptError.code == "COMMIT_CORRUPT"
