"""What speaks of a column: constraints and generated columns, which tie it to the name and type it has."""

from __future__ import annotations

from tidegate.metadata import Metadata
from tidegate.schema.columns import generated_columns
from tidegate.schema.constraints import check_constraints
from tidegate.schema.paths import Path
from tidegate.schema.references import speaks_of


def constraints_on(metadata: Metadata, path: Path) -> list[str]:
    """The names of the CHECK constraints that speak of the column."""
    return [n for n, sql in check_constraints(metadata.configuration).items() if speaks_of(sql, path)]


def generated_from(metadata: Metadata, path: Path) -> list[str]:
    """The names of the columns that are generated from the column."""
    return [g.name for g in generated_columns(metadata.schema) if speaks_of(g.expression, path)]
