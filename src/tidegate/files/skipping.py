"""Which files may hold a row for which a predicate is true: partition pruning and data skipping.

A file is left out only when its partition values and statistics prove that no row of it matches;
whatever is missing, malformed or in doubt keeps it. Every node of a predicate is asked two questions,
*may it be true* and *may it be false* for some row, so that negation swaps the questions and
null, which is neither, needs no care of its own. All work is on Arrow columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import PredicateError
from tidegate.files import answers, stats
from tidegate.files import comparisons as cmp
from tidegate.files.answers import Mask
from tidegate.files.bounds import FileColumns, Need
from tidegate.files.derived import Derivation, DerivedColumns
from tidegate.files.predicate import And, Constant, Not, Or, Predicate, conjunction
from tidegate.schema.mapping import Mode
from tidegate.schema.types import StructType

# Smaller chunks than these are put together: each costs its share of calls, however few its rows.
_SMALL_CHUNK = 8_192
_BATCH_ROWS = 131_072
_COLUMNS = ("partitionValues", "stats", "stats_parsed")

_NEGATED = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def keep_mask(
    files: pa.RecordBatch | pa.Table,
    predicate: Predicate,
    schema: StructType,
    partition_columns: Iterable[str] = (),
    mapping_mode: Mode = "none",
    derived: Sequence[Derivation] = (),
) -> pa.BooleanArray:
    """True where a file may hold a row for which ``predicate`` is true.

    ``files`` has the columns of ``add`` as they are called there: ``partitionValues``, and ``stats``
    (JSON), ``stats_parsed`` or both; where a row has both, ``stats_parsed`` counts. ``derived`` is what
    generated partition columns tell of others, where the table's protocol makes writers keep to it.
    """
    partitions = tuple(partition_columns)
    bound = cmp.bind(predicate, schema, partitions, mapping_mode)
    masks = [_keep_batch(batch, bound, derived) for batch in _batches(files)]
    if not masks:
        return pa.array([], pa.bool_())
    return masks[0] if len(masks) == 1 else pa.concat_arrays(masks)


def could_match(
    files: pa.RecordBatch | pa.Table,
    predicate: Predicate,
    schema: StructType,
    partition_columns: Iterable[str] = (),
    mapping_mode: Mode = "none",
) -> bool:
    """Whether any of the files may hold a matching row: what a conflict check asks of a winner's adds."""
    mask = keep_mask(files, predicate, schema, partition_columns, mapping_mode)
    return bool(mask.true_count)


def evaluate_partitions(
    files: pa.RecordBatch | pa.Table,
    predicate: Predicate,
    schema: StructType,
    partition_columns: Iterable[str],
    mapping_mode: Mode = "none",
) -> pa.BooleanArray:
    """The exact answer, true, false or null, of a predicate on partition columns alone.

    ``PredicateError`` where the predicate asks for more than that, or for something whose answer
    depends on the session; ``LogError`` where a partition value does not parse.
    """
    bound = cmp.bind(predicate, schema, tuple(partition_columns), mapping_mode)
    if not bound.is_known or not all(leaf.is_partition for leaf in _leaves(bound)):
        raise PredicateError(
            f"{predicate} is not decided by the partition columns alone.",
            hint="It must compare partition columns with plain values.",
        )
    parts = []
    for batch in _batches(files):
        columns = FileColumns(batch, strict=True)
        true, false = (_as_array(_may(bound, want, columns), len(batch)) for want in (True, False))
        none = pa.scalar(None, pa.bool_())
        parts.append(pc.if_else(true, True, pc.if_else(false, False, none)))
    return pa.concat_arrays(parts) if parts else pa.array([], pa.bool_())


def needed_columns(
    predicate: Predicate,
    schema: StructType,
    partition_columns: Iterable[str],
    mapping_mode: Mode = "none",
    derived: Sequence[Derivation] = (),
) -> frozenset[str]:
    """Which of ``partitionValues`` and ``stats`` the predicate looks at."""
    bound = cmp.bind(predicate, schema, tuple(partition_columns), mapping_mode)
    found = {"partitionValues" if leaf.is_partition else "stats" for leaf in _leaves(bound)}
    return frozenset(found | {"partitionValues"} if _is_told(bound, derived) else found)


# ---------------------------------------------------------------------------- batches


def _batches(files: pa.RecordBatch | pa.Table) -> Iterator[pa.RecordBatch]:
    present = [c for c in _COLUMNS if c in files.schema.names]
    if files.num_rows == 0:
        return
    if isinstance(files, pa.RecordBatch) or not present:
        yield _selected(files, present)
        return
    table = files.select(present)
    chunks = max(table.column(c).num_chunks for c in present)
    if chunks > 1 and table.num_rows / chunks < _SMALL_CHUNK:
        table = table.combine_chunks()
    yield from (b for b in table.to_batches(max_chunksize=_BATCH_ROWS) if b.num_rows)


def _selected(files: pa.RecordBatch | pa.Table, names: list[str]) -> pa.RecordBatch:
    # Without any column there would be no rows to count.
    return files.select(names) if names else pa.RecordBatch.from_arrays([pa.nulls(files.num_rows)], ["none"])


def _keep_batch(batch: pa.RecordBatch, bound: Predicate, derived: Sequence[Derivation]) -> pa.BooleanArray:
    """Partition values first: what they leave out needs no statistics, which are dear to decode."""
    cheap: list[Predicate] = []
    dear: list[Predicate] = []
    for part in bound.conjuncts():
        (cheap if all(leaf.is_partition for leaf in _leaves(part)) else dear).append(part)
    mask = _as_array(_may(conjunction(cheap), True, FileColumns(batch)), len(batch))
    told = [part for part in dear if _is_told(part, derived)]
    if told and mask.true_count:
        answer = _may(conjunction(told), True, DerivedColumns(batch, derived))
        mask = pc.and_(mask, _as_array(answer, len(batch)))
    kept = mask.true_count
    if not dear or kept == 0:
        return mask
    question = conjunction(dear)
    rest = batch
    if kept < len(batch):
        # Maps are slow to filter, and seldom asked for again.
        asked = any(leaf.is_partition for leaf in _leaves(question))
        names = [c for c in batch.schema.names if asked or c != "partitionValues"]
        rest = _selected(batch, names).filter(mask)
    found = _as_array(_may(question, True, FileColumns(rest, _needs(question, True))), kept)
    return found if rest is batch else pc.replace_with_mask(mask, mask, found)


def _is_told(node: Predicate, derived: Sequence[Derivation]) -> bool:
    """Whether generated partition columns tell of a column in ``node``."""
    bases = {d.base for d in derived}
    return bool(bases) and any(leaf.path in bases for leaf in _leaves(node))


def _leaves(node: Predicate) -> list[cmp.Leaf]:
    return [leaf for n in node.walk() if (leaf := getattr(n, "leaf", None)) is not None]


def _needs(node: Predicate, want: bool) -> Iterator[Need]:
    """The statistics that answer whether ``node`` may be ``want``."""
    if isinstance(node, Not):
        yield from _needs(node.operand, not want)
    elif isinstance(node, And | Or):
        for operand in node.operands:
            yield from _needs(operand, want)
    elif isinstance(node, cmp.NullTest):
        yield Need(stats.NULLS, node.leaf)
    elif isinstance(node, cmp.LeafTest | cmp.PrefixTest | cmp.OneOf):
        operator = node.operator if isinstance(node, cmp.LeafTest) else "="
        operator = operator if want else _NEGATED[operator]
        if operator in ("=", "!=", "<", "<="):
            yield Need(stats.MIN, node.leaf)
        if operator in ("=", "!=", ">", ">="):
            yield Need(stats.MAX, node.leaf)
        yield Need(stats.NULLS, node.leaf)


# ---------------------------------------------------------------------------- the two questions


def _may(node: Predicate, want: bool, files: FileColumns) -> Mask:
    """Whether some row of each file may make ``node`` true, or false as ``want`` says."""
    if isinstance(node, Not):
        return _may(node.operand, not want, files)
    if isinstance(node, And | Or):
        return _combine(node.operands, want, files, every=isinstance(node, And) == want)
    if isinstance(node, Constant):
        return node.value is want
    if isinstance(node, cmp.NullTest):
        return _may_null(files, node.leaf, want)
    if isinstance(node, cmp.LeafTest):
        operator = node.operator if want else _NEGATED[node.operator]
        if node.leaf.is_partition:
            return answers.value_compared(node, operator, files.values(node.leaf))
        return answers.bounds_compared(node, operator, files.bounds(node.leaf))
    if isinstance(node, cmp.PrefixTest):
        if node.leaf.is_partition:
            return answers.value_prefixed(node, want, files.values(node.leaf))
        return answers.bounds_prefixed(node, want, files.bounds(node.leaf))
    if isinstance(node, cmp.OneOf):
        if node.leaf.is_partition:
            return answers.value_listed(node, want, files.values(node.leaf))
        return answers.bounds_listed(node, want, files.bounds(node.leaf))
    return True


def _combine(operands: Sequence[Predicate], want: bool, files: FileColumns, every: bool) -> Mask:
    """All of the answers where ``every``, else any of them; stops as soon as one decides."""
    out: Mask = every
    for operand in operands:
        answer = _may(operand, want, files)
        if isinstance(answer, bool):
            if answer is not every:
                return answer
        elif isinstance(out, bool):
            out = answer
        else:
            out = pc.and_(out, answer) if every else pc.or_(out, answer)
    return out


def _as_array(mask: Mask, rows: int) -> pa.BooleanArray:
    return pa.repeat(pa.scalar(mask), rows) if isinstance(mask, bool) else mask


def _may_null(files: FileColumns, leaf: cmp.Leaf, want: bool) -> Mask:
    if leaf.is_partition:
        return answers.value_null(want, files.values(leaf))
    bounds = files.bounds(leaf)
    return bounds.may_be_null if want else bounds.may_have_value
