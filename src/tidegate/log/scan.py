"""A plan to read live files: which columns, which predicate, and the work done on each batch.

The plan knows what must be read beside what was asked for (keys to reconcile by, partition values
and statistics to prune by) and takes statistics from ``stats_parsed`` where a checkpoint has them,
from their JSON text otherwise. It holds no state, so batches go through it on any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidegate.errors import PredicateError
from tidegate.files import predicate as predicates
from tidegate.files import stats as statistics
from tidegate.files.derived import Derivation
from tidegate.files.paths import refuse_outside
from tidegate.files.predicate import Predicate
from tidegate.files.skipping import keep_mask, needed_columns
from tidegate.log.checkpoint.read import conform
from tidegate.log.commits import DELTA_FORM, Form
from tidegate.log.dialect import Reader
from tidegate.log.index_stats import with_parsed_stats
from tidegate.log.replay import keep_rows
from tidegate.metadata import Metadata
from tidegate.schema.mapping import logical_to_physical, mapping_mode

# A column beside those of the files: whether the predicate keeps the row.
_KEPT = "_kept"


@dataclass(frozen=True)
class FileScan:
    """What to read of the live files of one snapshot."""

    metadata: Metadata
    columns: tuple[str, ...]
    predicate: Predicate | None
    form: Form = DELTA_FORM
    # What generated partition columns tell of other columns.
    derived: tuple[Derivation, ...] = ()

    @classmethod
    def plan(
        cls,
        metadata: Metadata,
        predicate: str | Predicate | None,
        columns: Sequence[str] | None,
        form: Form = DELTA_FORM,
        derived: tuple[Derivation, ...] = (),
    ) -> FileScan:
        """Check what was asked for before anything is read."""
        names = tuple(form.adds.names) if columns is None else _checked(columns, form)
        if isinstance(predicate, str):
            predicate = predicates.parse(predicate)
        elif predicate is not None and not isinstance(predicate, Predicate):
            raise PredicateError(f"A predicate is SQL text, such as id > 5, not {predicate!r}.")
        if predicate is not None:
            predicate = predicate.resolve(metadata.schema)
        return cls(metadata, names, predicate, form, derived)

    @property
    def output_schema(self) -> pa.Schema:
        return pa.schema([self.form.adds.field(c) for c in self.columns])

    def covered_by(self, names: Iterable[str]) -> bool:
        """Whether a table with the columns ``names`` answers this scan."""
        have = set(names)
        need = {*self.columns, *self.form.key}
        if self.predicate is not None:
            need |= {*self.form.prune}
        return need <= have

    def apply(self, table: pa.Table) -> pa.Table:
        """This scan over files that are in memory already."""
        out = [b for batch in table.to_batches() for b in self._pruned(batch)]
        return pa.Table.from_batches([b.select(list(self.columns)) for b in out], self.output_schema)

    def tail(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Live adds of the commits after the checkpoint."""
        refuse_outside(batch.column("path"))
        return [b.select(list(self.columns)) for b in self._pruned(batch)]

    def _pruned(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        return [batch] if self.predicate is None else keep_rows(batch, self._may_match(batch))

    def _may_match(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        assert self.predicate is not None
        return keep_mask(
            with_parsed_stats(batch, self.predicate, self.metadata)
            if "minValues" in self.form.prune
            else batch,
            self.predicate,
            self.metadata.schema,
            self.metadata.partition_columns,
            mapping_mode(self.metadata),
            self.derived,
        )

    # ------------------------------------------------------------------ checkpoints

    def checkpoint_columns(self, reader: Reader) -> list[str]:
        """The fields of ``add`` to read from a checkpoint, statistics in their cheapest form."""
        need = list(dict.fromkeys([*self.columns, *self.form.key]))
        if "stats" in need and self._renders_stats(reader):
            need += ["stats_parsed"]
        looked_at = self._looked_at()
        if "partitionValues" in looked_at and "partitionValues" not in need:
            need.append("partitionValues")
        if "stats" in looked_at:
            if reader.has_parsed_stats:
                need += self._parsed_columns() if "stats_parsed" not in need else []
            else:
                need += [c for c in self.form.prune if c not in need and c != "partitionValues"]
        return need

    def _looked_at(self) -> frozenset[str]:
        """Which of partition values and statistics the predicate needs at all."""
        if self.predicate is None:
            return frozenset()
        return needed_columns(
            self.predicate,
            self.metadata.schema,
            self.metadata.partition_columns,
            mapping_mode(self.metadata),
            self.derived,
        )

    def _renders_stats(self, reader: Reader) -> bool:
        """Whether the JSON text must be made from ``stats_parsed``, as the checkpoint has no other."""
        return not reader.has_field("add.stats") and reader.has_parsed_stats

    def _parsed_columns(self) -> list[str]:
        assert self.predicate is not None
        mode = mapping_mode(self.metadata)
        partitions = {c.lower() for c in self.metadata.partition_columns}
        out = ["stats_parsed.numRecords", "stats_parsed.tightBounds"]
        for column in self.predicate.columns:
            if len(column) == 1 and column[0].lower() in partitions:
                continue
            physical = ".".join(logical_to_physical(self.metadata.schema, column, mode) or column)
            out += [f"stats_parsed.{kind}.{physical}" for kind in ("minValues", "maxValues", "nullCount")]
        return out

    def before_replay(self) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
        """A batch of the checkpoint with the columns to reconcile by, and which rows the predicate keeps.

        The predicate is asked here, where the newer commits need not be known yet: they are decoded
        meanwhile.
        """
        wanted = dict.fromkeys([*self.columns, *self.form.key])
        schema = (
            self.form.adds
            if self.predicate is not None
            else pa.schema([self.form.adds.field(c) for c in wanted])
        )

        def conformed(batch: pa.RecordBatch) -> pa.RecordBatch:
            flat = conform(batch, schema)
            parsed_at = batch.schema.get_field_index("stats_parsed")
            if parsed_at >= 0:
                flat = flat.append_column("stats_parsed", batch.column(parsed_at))
            return flat if self.predicate is None else flat.append_column(_KEPT, self._may_match(flat))

        return conformed

    def after_replay(
        self, reader: Reader, *, keep_parsed: bool = False
    ) -> Callable[[pa.RecordBatch], list[pa.RecordBatch]]:
        """What to do with live files of the checkpoint: prune, render, project."""
        render = "stats" in self.columns and self._renders_stats(reader)

        def finished(live: pa.RecordBatch) -> list[pa.RecordBatch]:
            refuse_outside(live.column("path"))
            kept = [live] if self.predicate is None else keep_rows(live, live.column(_KEPT))
            return [self._project(rows, render, keep_parsed) for rows in kept]

        return finished

    def _project(self, batch: pa.RecordBatch, render: bool, keep_parsed: bool) -> pa.RecordBatch:
        has_parsed = "stats_parsed" in batch.schema.names
        if render and has_parsed:
            text = statistics.encode(batch.column("stats_parsed"))
            batch = batch.set_column(batch.schema.get_field_index("stats"), "stats", text)
        extra = ["stats_parsed"] if keep_parsed and has_parsed else []
        return batch.select([*self.columns, *extra])


def _checked(columns: Sequence[str], form: Form) -> tuple[str, ...]:
    """The columns that are asked for: some, each there is, each once."""
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    unknown = [str(c) for c in names if c not in form.adds.names]
    if isinstance(columns, str):
        problem = f"The columns are asked for as a list of names; {columns!r} is one text."
    elif unknown:
        problem = f"There is no column {', '.join(unknown)} in the file list."
    elif not names:
        problem = "No column is asked for."
    elif len(set(names)) < len(names):
        problem = f"The column {next(c for c in names if names.count(c) > 1)} is asked for twice."
    else:
        return names
    raise PredicateError(problem, hint=f"The columns are: {', '.join(form.adds.names)}.")
