"""Scripts of SQL statements that two engines run, each in a database and a folder of its own.

``{t}``, ``{u}`` and ``{v}`` are free names of the catalog, ``{p}`` is a folder. A statement that begins with
``!`` must be refused. Queries say their order. Where we answer otherwise on purpose, ``different`` says why.
"""

from __future__ import annotations

from support.sql_scripts.altering import ALTER, SERVICES
from support.sql_scripts.asking import MISTAKES, QUERIES
from support.sql_scripts.creating import CREATE
from support.sql_scripts.different import DIFFERENT
from support.sql_scripts.rows import CHANGE, INSERT

SCRIPTS: dict[str, list[str]] = {**CREATE, **INSERT, **CHANGE, **SERVICES, **ALTER, **QUERIES, **MISTAKES}

__all__ = ["DIFFERENT", "SCRIPTS"]
