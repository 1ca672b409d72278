"""CHECK constraints: table properties ``delta.constraints.<name>`` that hold SQL.

Every row written must make every one of them true; NULL is not true. Names are compared without
regard to case. Answers the section "CHECK Constraints" of the protocol.
"""

from __future__ import annotations

from collections.abc import Mapping

PREFIX = "delta.constraints."


def check_constraints(configuration: Mapping[str, str]) -> dict[str, str]:
    """The table's CHECK constraints, by name."""
    return {key[len(PREFIX) :]: sql for key, sql in configuration.items() if key.lower().startswith(PREFIX)}


def constraint_key(name: str) -> str:
    """The property a constraint is kept under: names are stored in lower case."""
    return PREFIX + name.lower()
