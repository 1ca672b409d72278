"""The central promise of skipping, against brute force: never one file too few."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import PredicateError
from tidegate.files.predicate import parse
from tidegate.files.skipping import could_match, evaluate_partitions, keep_mask
from unit.files import brute_force as bf

SCHEMAS = {mapped: bf.schema(mapped) for mapped in (False, True)}


def check(found: list[bf.File], predicates: list[Any], mapped: bool, parsed: str) -> None:
    table = bf.to_table(found, mapped=mapped, parsed=parsed)
    mode = "name" if mapped else "none"
    for p in predicates:
        text = bf.sql(p)
        mask = keep_mask(table, parse(text), SCHEMAS[mapped], bf.PARTITIONS, mode)
        assert len(mask) == len(found)
        assert mask.null_count == 0
        for file, kept in zip(found, mask.to_pylist(), strict=True):
            assert kept or not file.matches(p), f"{text} drops {file}"
        assert could_match(table, parse(text), SCHEMAS[mapped], bf.PARTITIONS, mode) is any(mask.to_pylist())


@given(
    st.lists(bf.files(), min_size=1, max_size=5),
    st.lists(bf.predicates(bf.TYPES), min_size=1, max_size=4),
    st.booleans(),
    st.sampled_from(["no", "all", "some"]),
)
def test_no_file_with_a_matching_row_is_dropped(
    found: list[bf.File], predicates: list[Any], mapped: bool, parsed: str
) -> None:
    check(found, predicates, mapped, parsed)


@pytest.mark.parametrize("column", bf.TYPES)
@given(st.data())
def test_no_file_is_dropped_by_one_comparison(column: str, data: st.DataObject) -> None:
    found = data.draw(st.lists(bf.files(), min_size=1, max_size=4))
    predicates = data.draw(st.lists(bf.leaves({column: bf.TYPES[column]}), min_size=1, max_size=8))
    check(found, [*predicates, *((bf.NOT, p) for p in predicates)], False, "no")


@given(
    st.lists(bf.files(), min_size=1, max_size=5),
    st.lists(bf.predicates(bf.PARTITIONS), min_size=1, max_size=5),
)
def test_predicates_on_partitions_have_the_exact_answer(found: list[bf.File], predicates: list[Any]) -> None:
    table = bf.to_table(found)
    for p in predicates:
        predicate = parse(bf.sql(p))
        expected = [bf.evaluate(p, f.partition) for f in found]
        try:
            answers = evaluate_partitions(table, predicate, SCHEMAS[False], bf.PARTITIONS)
        except PredicateError:
            # Allowed only where the text holds something that is not looked into.
            assert bf.OPAQUE in repr(p) or "w" in repr(p)
            continue
        assert answers.to_pylist() == expected, bf.sql(p)
        mask = keep_mask(table, predicate, SCHEMAS[False], bf.PARTITIONS)
        assert mask.to_pylist() == [answer is True for answer in expected]


@given(st.lists(bf.files(), min_size=1, max_size=4), st.lists(bf.leaves(bf.COLUMNS), min_size=1, max_size=4))
def test_one_table_in_any_number_of_chunks_gives_one_mask(found: list[bf.File], predicates: list[Any]) -> None:
    table = bf.to_table(found)
    pieces = pa.concat_tables([table.slice(i, 1) for i in range(len(found))])
    for p in predicates:
        predicate = parse(bf.sql(p))
        whole = keep_mask(table, predicate, SCHEMAS[False], bf.PARTITIONS)
        assert keep_mask(pieces, predicate, SCHEMAS[False], bf.PARTITIONS).equals(whole)
        one_by_one = [keep_mask(b, predicate, SCHEMAS[False], bf.PARTITIONS) for b in pieces.to_batches()]
        assert pa.concat_arrays(one_by_one).equals(whole)
