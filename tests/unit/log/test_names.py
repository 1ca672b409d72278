"""Names of log files: each kind is told from the others, and strays are nobody's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.log import names
from tidegate.log.names import Kind

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"
VERSIONS = st.integers(0, 2**63 - 1)


@pytest.mark.parametrize(
    ("text", "kind", "version"),
    [
        ("00000000000000000000.json", Kind.COMMIT, 0),
        ("00000000000000000012.crc", Kind.CHECKSUM, 12),
        ("00000000000000000010.checkpoint.parquet", Kind.CLASSIC, 10),
        ("00000000000000000010.checkpoint.0000000001.0000000002.parquet", Kind.PART, 10),
        (f"00000000000000000010.checkpoint.{UUID}.json", Kind.V2, 10),
        (f"00000000000000000010.checkpoint.{UUID}.parquet", Kind.V2, 10),
        (f"00000000000000000010.checkpoint.{UUID.upper()}.parquet", Kind.V2, 10),
        ("00000000000000000004.00000000000000000006.compacted.json", Kind.COMPACTION, 4),
    ],
)
def test_every_kind_of_file_is_known_by_its_name(text: str, kind: Kind, version: int) -> None:
    found = names.parse(text)
    assert found is not None
    assert (found.text, found.kind, found.version) == (text, kind, version)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "_last_checkpoint",
        "0.json",
        "0000000000000000000.json",
        "000000000000000000000.json",
        "00000000000000000000.json.tmp",
        ".00000000000000000000.json.crc",
        "00000000000000000000.JSON",
        "00000000000000000000.json\n",
        "00000000000000000010.checkpoint.json",
        "00000000000000000010.checkpoint.parquet.tmp",
        "00000000000000000010.checkpoint.0000000000.0000000002.parquet",
        "00000000000000000010.checkpoint.0000000003.0000000002.parquet",
        "00000000000000000010.checkpoint.1.2.parquet",
        "00000000000000000010.checkpoint.not-a-uuid.parquet",
        f"00000000000000000010.checkpoint.{UUID}.crc",
        "00000000000000000006.00000000000000000006.compacted.json",
        "00000000000000000006.00000000000000000004.compacted.json",
        f"00000000000000000010.{UUID}.json",
        # Digits, but not ours.
        "\N{ARABIC-INDIC DIGIT ZERO}" * 20 + ".json",
        # Twenty digits, but more than a version can be.
        "99999999999999999999.json",
        "00000000000000000006.99999999999999999999.compacted.json",
    ],
)
def test_a_stray_file_is_not_a_file_of_the_log(text: str) -> None:
    assert names.parse(text) is None


@given(VERSIONS)
def test_names_of_one_version_read_back(version: int) -> None:
    for made, kind in (
        (names.commit(version), Kind.COMMIT),
        (names.checksum(version), Kind.CHECKSUM),
        (names.classic(version), Kind.CLASSIC),
        (names.v2(version, UUID, "json"), Kind.V2),
        (names.v2(version, UUID, "parquet"), Kind.V2),
    ):
        found = names.parse(made)
        assert found is not None
        assert (found.kind, found.version, found.end) == (kind, version, version)
        assert made.startswith(names.prefix(version))


@given(VERSIONS, st.integers(1, 10**10 - 1), st.data())
def test_parts_of_a_checkpoint_read_back(version: int, parts: int, data: st.DataObject) -> None:
    number = data.draw(st.integers(1, parts))
    found = names.parse(names.part(version, number, parts))
    assert found is not None
    assert (found.kind, found.version, found.part, found.parts) == (Kind.PART, version, number, parts)


@given(VERSIONS, VERSIONS)
def test_a_compaction_reads_back_if_it_stands_for_two_versions_or_more(start: int, end: int) -> None:
    found = names.parse(names.compaction(start, end))
    if start < end:
        assert found is not None
        assert (found.kind, found.version, found.end) == (Kind.COMPACTION, start, end)
    else:
        assert found is None


@given(st.lists(VERSIONS, min_size=2, max_size=5))
def test_names_sort_as_versions_do(versions: list[int]) -> None:
    assert [names.commit(v) for v in sorted(versions)] == sorted(names.commit(v) for v in versions)


@given(st.text(max_size=60))
def test_any_text_is_a_name_of_the_log_or_it_is_not(text: str) -> None:
    found = names.parse(text)
    assert found is None or found.text == text
