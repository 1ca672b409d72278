"""JSON checkpoints of index tables: whole or in parts, proven by checksums, with schemas stored once."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.index_tables import RawIndex, adds, created, handmade, metadata, paths, protocol, skip, split
from tidegate.errors import CheckpointCorruptError, CheckpointIncompleteError, LogError
from tidegate.index import doc_mappings
from tidegate.log.checkpoint.json_read import checksum
from tidegate.log.verify import verify
from tidegate.protocol.protocol import Protocol

NAME = "{:020d}.checkpoint.json"


def filled(files: int = 5, **options: Any) -> RawIndex:
    table = created()
    for n in range(files):
        table.log(checkpoint__enabled=False).append(adds(f"{n}.split"))
    return table


def forget_commits(table: RawIndex, below: int) -> None:
    table.store.delete([f"_transaction_log/{v:020d}.json" for v in range(below)])


# ---------------------------------------------------------------------------- one file


def test_a_checkpoint_comes_after_every_so_many_commits() -> None:
    table = created()
    log = table.log(checkpoint__interval=3)
    for n in range(10):
        log.append(adds(f"{n}.split"))
    assert [int(n[:20]) for n in table.names() if "checkpoint.json" in n] == [3, 6, 9]
    assert json.loads(table.bytes("_last_checkpoint"))["version"] == 9
    assert len(paths(table.log().snapshot())) == 10


def test_checkpoints_can_be_switched_off() -> None:
    table = created()
    log = table.log(checkpoint__interval=1, checkpoint__enabled=False)
    log.append(adds("a.split"))
    assert not any("checkpoint" in n for n in table.names())


def test_the_hint_says_all_that_others_look_for() -> None:
    table = filled(3)
    done = table.log().checkpoint()
    hint = json.loads(table.bytes("_last_checkpoint"))
    data = table.bytes(NAME.format(3))
    assert hint == {
        "version": 3,
        "size": 5,
        "sizeInBytes": len(data),
        "numFiles": 3,
        "createdTime": table.clock(),
        "format": "json",
        "checksum": checksum(data),
    }
    assert (done.version, done.num_actions, done.num_files) == (3, 5, 3)


def test_a_hint_never_goes_back() -> None:
    table = filled(3)
    table.log().checkpoint()
    hint = table.bytes("_last_checkpoint")
    from tidegate.log.checkpoint.write import write_checkpoint

    write_checkpoint(table.load(1))
    assert table.bytes("_last_checkpoint") == hint
    assert NAME.format(1) in table.names()


def test_a_hint_without_a_checksum_is_as_good(caplog: pytest.LogCaptureFixture) -> None:
    table = filled(3)
    table.log().checkpoint()
    hint = json.loads(table.bytes("_last_checkpoint"))
    del hint["checksum"]
    table.put("_last_checkpoint", json.dumps(hint).encode())
    forget_commits(table, 3)
    assert len(paths(table.log().snapshot())) == 3


def test_bytes_that_do_not_match_the_checksum_fall_back_to_replay(caplog: pytest.LogCaptureFixture) -> None:
    table = filled(3)
    table.log().checkpoint()
    lines = table.lines(NAME.format(3))
    table.put(NAME.format(3), b"\n".join(json.dumps(line).encode() for line in lines[:-1]))
    with caplog.at_level(logging.WARNING):
        assert len(paths(table.log().snapshot())) == 3
    assert "not those that _last_checkpoint speaks of" in caplog.text


def test_bytes_that_do_not_match_and_no_commits_to_replay_are_an_error() -> None:
    table = filled(3)
    table.log().checkpoint()
    lines = table.lines(NAME.format(3))
    table.put(NAME.format(3), b"\n".join(json.dumps(line).encode() for line in lines[:-1]))
    forget_commits(table, 3)
    with pytest.raises(CheckpointCorruptError):
        table.log().snapshot()


@pytest.mark.parametrize("data", [b"", b"{}", b'{"add":', b'{"checkpointId":"x","parts":7,"version":3}'])
def test_a_checkpoint_that_makes_no_sense_is_passed_by(data: bytes) -> None:
    table = filled(3)
    table.put(NAME.format(3), data)
    assert len(paths(table.log().snapshot())) == 3


def test_a_checkpoint_that_is_there_already_is_left_as_it_is() -> None:
    table = filled(3)
    table.log().checkpoint()
    before = table.bytes(NAME.format(3))
    table.clock.tick()
    table.log(transaction__compression__enabled=True).checkpoint()
    assert table.bytes(NAME.format(3)) == before
    assert json.loads(table.bytes("_last_checkpoint"))["checksum"] == checksum(before)


def test_a_checkpoint_that_is_damaged_is_written_anew() -> None:
    table = filled(3)
    table.put(NAME.format(3), b"{}")
    table.log().checkpoint()
    forget_commits(table, 3)
    assert len(paths(table.log().snapshot())) == 3


def test_a_checkpoint_of_another_writer_without_skips_and_with_inline_schemas_is_read() -> None:
    table = RawIndex()
    lines = [
        protocol(),
        metadata(),
        {"add": split("a.split")},
        {"add": split("b.split", docMappingJson="[]")},
    ]
    table.put(NAME.format(4), b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    table.put("_last_checkpoint", b'{"version":4,"size":4,"sizeInBytes":1,"numFiles":2,"createdTime":1}')
    table.put(f"{5:020d}.json", json.dumps({"add": split("c.split")}).encode())
    assert paths(table.log().snapshot()) == ["a.split", "b.split", "c.split"]


def test_removed_splits_are_left_out_and_skips_stay() -> None:
    table = filled(3)
    log = table.log()
    log.skip("2.split", "bad")
    log.remove(["0.split"])
    log.checkpoint()
    assert table.keys(NAME.format(5)) == ["protocol", "metaData", "skip", "add", "add"]
    forget_commits(table, 5)
    found = table.log().snapshot()
    assert (paths(found), list(found.skips)) == (["1.split", "2.split"], ["2.split"])


# ---------------------------------------------------------------------------- parts


def in_parts(files: int = 7, per_part: int = 3) -> RawIndex:
    table = filled(files)
    table.log(checkpoint__multiPart__enabled=True, checkpoint__actionsPerPart=per_part).checkpoint()
    return table


def test_parts_raise_the_table_to_version_3_first_and_list_the_feature() -> None:
    table = in_parts()
    assert table.keys(8) == ["protocol"]
    found = table.log().snapshot()
    assert found.protocol.min_reader_version == 3
    assert "multiPartCheckpoint" in (found.protocol.reader_features or ())
    assert "multiPartCheckpoint" in (found.protocol.writer_features or ())


def test_parts_hold_their_share_and_a_manifest_names_them() -> None:
    table = in_parts(7, 3)
    manifest = json.loads(table.bytes(NAME.format(8)))
    assert manifest["format"] == "json"
    assert manifest["version"] == 8
    assert [table.keys(p) for p in manifest["parts"]] == [
        ["protocol", "metaData", "add"],
        ["add", "add", "add"],
        ["add", "add", "add"],
    ]
    prefix = f"{8:020d}.checkpoint.{manifest['checkpointId']}"
    assert manifest["parts"] == [f"{prefix}.{n:05d}.json" for n in (1, 2, 3)]
    hint = json.loads(table.bytes("_last_checkpoint"))
    assert (hint["parts"], hint["checkpointId"], hint["format"], hint["size"]) == (
        3,
        manifest["checkpointId"],
        "json-multipart",
        9,
    )


def test_parts_are_read_back_without_the_commits() -> None:
    table = in_parts()
    forget_commits(table, 8)
    assert paths(table.log().snapshot()) == [f"{n}.split" for n in range(7)]


def test_a_small_table_stays_in_one_file_whatever_is_asked() -> None:
    table = filled(3)
    done = table.log(checkpoint__multiPart__enabled=True).checkpoint()
    assert not done.is_multi_part
    assert table.log().snapshot().protocol == Protocol(2, 2)


def test_parts_can_be_forbidden_on_a_table_that_has_them() -> None:
    table = in_parts()
    table.log(checkpoint__enabled=False).append(adds("more.split"))
    done = table.log(checkpoint__multiPart__enabled=False, checkpoint__actionsPerPart=3).checkpoint()
    assert not done.is_multi_part


def test_a_table_that_has_them_goes_on_with_them() -> None:
    table = in_parts()
    table.log(checkpoint__enabled=False).append(adds("more.split"))
    assert table.log(checkpoint__actionsPerPart=3).checkpoint().is_multi_part


def test_without_auto_upgrade_there_are_no_parts() -> None:
    table = filled(7)
    options = {"checkpoint__multiPart__enabled": True, "checkpoint__actionsPerPart": 3}
    done = table.log(protocol__autoUpgrade=False, **options).checkpoint()
    assert (done.is_multi_part, table.log().snapshot().protocol) == (False, Protocol(2, 2))


def test_a_missing_part_is_replayed_around_or_an_error_that_names_it() -> None:
    table = in_parts()
    part = json.loads(table.bytes(NAME.format(8)))["parts"][1]
    table.store.delete([f"_transaction_log/{part}"])
    assert len(paths(table.log().snapshot())) == 7
    forget_commits(table, 8)
    with pytest.raises(CheckpointIncompleteError, match=part):
        table.log().snapshot().files()


def test_a_part_whose_bytes_changed_is_not_believed() -> None:
    table = in_parts()
    part = json.loads(table.bytes(NAME.format(8)))["parts"][2]
    table.put(part, table.bytes(part).splitlines()[0])
    assert len(paths(table.log().snapshot())) == 7
    forget_commits(table, 8)
    with pytest.raises(CheckpointCorruptError):
        table.log().snapshot().files()


def test_a_manifest_of_another_writer_has_no_checksums_and_is_read() -> None:
    table = in_parts()
    manifest = json.loads(table.bytes(NAME.format(8)))
    del manifest["checksums"]
    table.put(NAME.format(8), json.dumps(manifest, indent=2).encode())
    table.put("_last_checkpoint", b'{"version":8,"size":9}')
    forget_commits(table, 8)
    assert len(paths(table.log().snapshot())) == 7


@pytest.mark.parametrize("part", ["../../etc/passwd", "00000000000000000001.json", "x"])
def test_a_manifest_that_names_something_else_is_corrupt(part: str) -> None:
    table = in_parts()
    manifest = {**json.loads(table.bytes(NAME.format(8))), "parts": [part], "checksums": None}
    table.put(NAME.format(8), json.dumps(manifest).encode())
    table.put("_last_checkpoint", b'{"version":8,"size":9}')
    forget_commits(table, 8)
    with pytest.raises(CheckpointCorruptError):
        table.log().snapshot().files()


def test_the_proof_of_a_log_covers_its_checkpoints() -> None:
    table = in_parts()
    for n in range(7):
        table.split_file(f"{n}.split")
    assert verify(table.table_log()).ok
    part = json.loads(table.bytes(NAME.format(8)))["parts"][2]
    table.put(part, table.bytes(part).splitlines()[0])
    assert {f.code for f in verify(table.table_log()).errors} == {"CHECKPOINT_CORRUPT"}


# ---------------------------------------------------------------------------- schemas stored once

DOC = '[{"name":"msg","type":"text"},{"name":"id","type":"i64"}]'
SAME = ' [ {"type":"i64", "name":"id"}, {"type":"text","name":"msg"} ] '


def deduplicated(*bodies: dict[str, Any]) -> RawIndex:
    table = created()
    table.log(schemaDeduplication__enabled=True).append(adds(*bodies))
    return table


def test_many_splits_refer_to_one_schema() -> None:
    table = deduplicated(*(split(f"{n}.split", docMappingJson=DOC if n % 2 else SAME) for n in range(200)))
    refs = {line["add"]["docMappingRef"] for line in table.lines(1) if "add" in line}
    assert refs == {doc_mappings.reference(DOC)}
    assert not any("docMappingJson" in line["add"] for line in table.lines(1) if "add" in line)
    found = table.log().snapshot()
    assert found.protocol.min_reader_version == 3
    assert "schemaDeduplication" in (found.protocol.reader_features or ())
    assert set(found.files().column("docMappingJson").to_pylist()) == {SAME}
    assert set(found.files(columns=["docMappingJson"]).column(0).to_pylist()) == {SAME}


def test_a_schema_that_is_known_changes_no_metadata() -> None:
    table = deduplicated(split("a.split", docMappingJson=DOC))
    table.log().append(adds(split("b.split", docMappingJson=SAME)))
    assert table.keys(1) == ["protocol", "metaData", "add"]
    assert table.keys(2) == ["add"]


def test_inline_schemas_and_references_stand_side_by_side() -> None:
    table = created()
    table.log().append(adds(split("inline.split", docMappingJson="[1]")))
    table.log(schemaDeduplication__enabled=True).append(adds(split("ref.split", docMappingJson=DOC)))
    table.log().checkpoint()
    forget_commits(table, 2)
    rows = {r["path"]: r["docMappingJson"] for r in table.log().snapshot().files().to_pylist()}
    assert rows == {"inline.split": "[1]", "ref.split": DOC}


def test_what_was_resolved_can_be_written_to_a_table_without_the_feature() -> None:
    source = deduplicated(split("a.split", docMappingJson=DOC)).log().snapshot().files()
    table = created()
    table.log().append(source)
    assert table.keys(1) == ["add"]
    assert "docMappingRef" not in table.lines(1)[0]["add"]
    assert table.log().snapshot().protocol == Protocol(2, 2)


def test_a_reference_that_leads_nowhere_is_a_corrupted_log() -> None:
    table = handmade(protocol(3, 3), metadata())
    table.commit({"add": split("a.split", docMappingRef="Ab3_x9-Qk2LmZ0aB")})
    with pytest.raises(LogError, match=r"corrupted.*Ab3_x9-Qk2LmZ0aB"):
        table.log().snapshot().files()
    assert paths(table.log().snapshot()) == ["a.split"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=4), v, max_size=3),
    max_leaves=8,
)
fields = st.lists(
    st.fixed_dictionaries({"name": st.text(max_size=5)}, optional={"type": json_values}),
    unique_by=lambda f: f["name"],
    max_size=5,
)


@given(fields, st.randoms())
def test_the_hash_sees_neither_order_nor_white_space(schema: list[dict[str, Any]], random: Any) -> None:
    shuffled = [dict(sorted(f.items(), key=lambda _: random.random())) for f in schema]
    random.shuffle(shuffled)
    a, b = json.dumps(schema), json.dumps(shuffled, indent=3, ensure_ascii=False)
    assert doc_mappings.reference(a) == doc_mappings.reference(b)
    assert len(doc_mappings.reference(a)) == 16


def test_different_schemas_have_different_hashes() -> None:
    assert doc_mappings.reference(DOC) != doc_mappings.reference(DOC.replace("msg", "message"))


def test_skips_of_others_in_a_checkpoint_are_read() -> None:
    table = RawIndex()
    lines = [protocol(), metadata(), {"add": split("a.split")}, skip("a.split", "mergeskip")]
    table.put(NAME.format(2), b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    table.put(f"{2:020d}.json", json.dumps({"add": split("a.split")}).encode())
    assert list(table.log().snapshot().skips) == ["a.split"]
