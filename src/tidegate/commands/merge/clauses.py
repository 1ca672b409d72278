"""The clauses of a MERGE as a user gives them, and the rules of their order.

Clauses of one kind are tried in order, and the first whose condition is true acts; so only the last of
a kind may go without one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from pyspark.sql import Column

from tidegate.commands.assignments import Value
from tidegate.errors import MergeInvalidError

When = Literal["matched", "not matched", "not matched by source"]
Action = Literal["update", "delete", "insert"]

_OMITS = {
    "matched": "DELTA_NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION",
    "not matched": "DELTA_NON_LAST_NOT_MATCHED_CLAUSE_OMIT_CONDITION",
    "not matched by source": "DELTA_NON_LAST_NOT_MATCHED_BY_SOURCE_CLAUSE_OMIT_CONDITION",
}


@dataclass(frozen=True)
class Clause:
    """When it acts, what it does, under which condition; ``values`` None sets every column."""

    when: When
    action: Action
    condition: str | Column | None = None
    values: Mapping[str, Value] | None = None

    @property
    def is_star(self) -> bool:
        return self.values is None and self.action != "delete"

    def mapped(self, change: Callable[[Any], Any]) -> Clause:
        """The clause with ``change`` applied to its condition and its values."""
        values = None if self.values is None else {k: change(v) for k, v in self.values.items()}
        return replace(self, condition=change(self.condition), values=values)

    def __str__(self) -> str:
        return f"WHEN {self.when.upper()} THEN {self.action.upper()}"


def check_order(clauses: Sequence[Clause]) -> None:
    """Refuse a MERGE without clauses, and a clause after one of its kind that takes everything."""
    if not clauses:
        raise MergeInvalidError(
            "MERGE has no clause.",
            hint="Say what to do with rows that match or do not.",
            errorClass="DELTA_MERGE_MISSING_WHEN",
        )
    for when, error_class in _OMITS.items():
        mine = [c for c in clauses if c.when == when]
        if any(c.condition is None for c in mine[:-1]):
            raise MergeInvalidError(
                f"Of the WHEN {when.upper()} clauses only the last may go without a condition.",
                errorClass=error_class,
            )


def takes_any_number(clauses: Sequence[Clause]) -> bool:
    """Whether it does not matter how many source rows match one: they all delete it."""
    matched = [c for c in clauses if c.when == "matched"]
    return len(matched) == 1 and matched[0].action == "delete" and matched[0].condition is None
