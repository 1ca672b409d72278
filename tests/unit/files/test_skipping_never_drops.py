"""The central promise of skipping, against brute force: never one file too few."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import PredicateError
from tidegate.files.predicate import Not, parse
from tidegate.files.skipping import could_match, evaluate_partitions, keep_mask
from unit.files import brute_force as bf

SCHEMAS = {mapped: bf.schema(mapped) for mapped in (False, True)}
SEEDS = st.integers(0, 2**32)
FORMS = ("no", "all", "some")


@lru_cache(maxsize=16)
def table_of(seed: int, mapped: bool = False, parsed: str = "no") -> pa.Table:
    return bf.to_table(bf.files(seed), mapped=mapped, parsed=parsed)


parsed_text = lru_cache(maxsize=16)(parse)


def check(seed: int, p: Any, mapped: bool = False, parsed: str = "no") -> int:
    """No file with a matching row is dropped; how many files are."""
    # Parsing is the slow part, and the negation of a text is the negation of its tree.
    predicate = Not(parsed_text(bf.sql(p[1]))) if p[0] == bf.NOT else parsed_text(bf.sql(p))
    mode = "name" if mapped else "none"
    mask = keep_mask(table_of(seed, mapped, parsed), predicate, SCHEMAS[mapped], bf.PARTITIONS, mode)
    assert mask.null_count == 0
    for file, kept in zip(bf.files(seed), mask.to_pylist(), strict=True):
        assert kept or not file.matches(p), f"{bf.sql(p)} drops {file}"
    return mask.false_count


@given(
    SEEDS,
    st.lists(bf.predicates(bf.TYPES), min_size=1, max_size=6),
    st.booleans(),
    st.sampled_from(FORMS),
)
def test_no_file_with_a_matching_row_is_dropped(
    seed: int, predicates: list[Any], mapped: bool, parsed: str
) -> None:
    for p in predicates:
        check(seed, p, mapped, parsed)


@pytest.mark.parametrize("column", bf.TYPES)
def test_no_file_is_dropped_by_any_comparison_of_a_column(column: str, deep: bool) -> None:
    dropped = 0
    for seed in range(20 if deep else 1):
        for p in bf.every_leaf(column):
            dropped += check(seed, p, parsed=FORMS[seed % 3])
            dropped += check(seed, (bf.NOT, p), parsed=FORMS[(seed + 1) % 3])
    # And it does prune: a mask that keeps everything would keep every promise too.
    assert dropped > 0


@given(SEEDS, st.lists(bf.predicates(bf.PARTITIONS), min_size=1, max_size=6))
def test_predicates_on_partitions_have_the_exact_answer(seed: int, predicates: list[Any]) -> None:
    table = table_of(seed)
    for p in predicates:
        predicate = parse(bf.sql(p))
        expected = [bf.evaluate(p, f.partition) for f in bf.files(seed)]
        try:
            answers = evaluate_partitions(table, predicate, SCHEMAS[False], bf.PARTITIONS)
        except PredicateError:
            # Allowed only where the text holds something that is not looked into.
            assert any(not c.is_known for c in predicate.conjuncts()) or _in_doubt(p), bf.sql(p)
            continue
        assert answers.to_pylist() == expected, bf.sql(p)
        mask = keep_mask(table, predicate, SCHEMAS[False], bf.PARTITIONS)
        assert mask.to_pylist() == [answer is True for answer in expected]


def _in_doubt(p: Any) -> bool:
    """Whether a comparison in it is one of those that depend on the session."""
    if p[0] in (bf.AND, bf.OR):
        return any(_in_doubt(part) for part in p[1])
    if p[0] == bf.NOT:
        return _in_doubt(p[1])
    if p[0] == bf.IN:
        return len(p[2]) > 16 or bf.TYPES[p[1]].startswith("timestamp") or _in_doubt_literals(p)
    return p[0] == bf.COMPARE and _in_doubt_literals((bf.IN, p[1], [p[3]]))


def _in_doubt_literals(p: Any) -> bool:
    return any(v.value != v.value or (v.kind == "exact" and abs(v.value) > 10**20) for v in p[2])


@given(SEEDS, st.lists(bf.leaves(bf.COLUMNS), min_size=1, max_size=4))
def test_one_table_in_any_number_of_chunks_gives_one_mask(seed: int, predicates: list[Any]) -> None:
    table = table_of(seed)
    pieces = pa.concat_tables([table.slice(i, 10) for i in range(0, len(table), 10)])
    for p in predicates:
        predicate = parse(bf.sql(p))
        whole = keep_mask(table, predicate, SCHEMAS[False], bf.PARTITIONS)
        assert keep_mask(pieces, predicate, SCHEMAS[False], bf.PARTITIONS).equals(whole)
        one_by_one = [keep_mask(b, predicate, SCHEMAS[False], bf.PARTITIONS) for b in pieces.to_batches()]
        assert pa.concat_arrays(one_by_one).equals(whole)
        any_of_it = could_match(table, predicate, SCHEMAS[False], bf.PARTITIONS)
        assert any_of_it is bool(whole.true_count)
