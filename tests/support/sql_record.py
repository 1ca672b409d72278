"""Ask delta-spark for its answers to the scripts of SQL and keep them.

Run ``python -m support.sql_record [name ...]`` in ``tests`` after a script has changed; what it writes is
read by the test that compares.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from support.delta_spark import delta_spark
from support.sql_compare import by_peer
from support.sql_scripts import SCRIPTS

KEPT = Path(__file__).parents[1] / "interop" / "sql_delta_spark.json"


def kept() -> dict[str, Any]:
    """For each script its statements, each with what delta-spark answered."""
    found: dict[str, Any] = json.loads(KEPT.read_text(encoding="utf-8"))
    return found


def record(names: list[str]) -> None:
    """Ask for the scripts of these names; what is kept of scripts that are no more is let go."""
    held = kept()
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            answers = by_peer(delta_spark(), SCRIPTS[name], folder)
        pairs = zip(SCRIPTS[name], answers, strict=True)
        held[name] = [{"statement": s, "answer": a} for s, a in pairs]
    write({name: held[name] for name in SCRIPTS if name in held})


def write(answers: dict[str, Any]) -> None:
    """One statement a line, so that a change is read as one."""
    scripts = []
    for name, entries in answers.items():
        lines = ",\n".join("  " + json.dumps(e, ensure_ascii=False) for e in entries)
        scripts.append(f" {json.dumps(name)}: [\n{lines}\n ]")
    KEPT.write_text("{\n" + ",\n".join(scripts) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    record(sys.argv[1:] or list(SCRIPTS))
