"""Tables on disk for the command line, and ways to call it: in this process, and in one of its own."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.tables import PARTITIONED, RawTable, add, commit_info, metadata, protocol, remove, stats, txn

typer_testing = pytest.importorskip("typer.testing")


@dataclass(frozen=True)
class Ran:
    """What a call of the command line left."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Stdout as the one JSON document it must be."""
        return json.loads(self.out)


Run = Callable[..., Ran]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Call the command line in this process."""
    from tidegate.cli.app import app

    # Wide enough that nothing is folded; no colours, whatever the terminal of whoever runs the tests.
    monkeypatch.setenv("COLUMNS", "240")
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def call(*arguments: str | Path) -> Ran:
        result = typer_testing.CliRunner().invoke(app, [str(a) for a in arguments], prog_name="tidegate")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ran(result.exit_code, result.stdout, result.stderr)

    return call


@pytest.fixture
def spawn(root: Path) -> Run:
    """Call the command line as people do, in a process of its own."""

    def call(*arguments: str | Path, **environ: str) -> Ran:
        found = subprocess.run(
            [sys.executable, "-m", "tidegate.cli", *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": str(root / "src"), "COLUMNS": "240", **environ},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        return Ran(found.returncode, found.stdout, found.stderr)

    return call


_MANY = """
import json, sys
from tidegate.cli import main
for command in json.loads(sys.argv[1]):
    sys.argv = ["tidegate", *command]
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code or 0
    for stream in (sys.stdout, sys.stderr):
        print(f"{chr(30)}{code}{chr(30)}", end="", file=stream, flush=True)
"""


@pytest.fixture
def spawn_many(root: Path) -> Callable[..., list[Ran]]:
    """Several commands in one process of their own, since starting one is what takes time."""

    def call(*commands: Sequence[str | Path], **environ: str) -> list[Ran]:
        found = subprocess.run(
            [sys.executable, "-c", _MANY, json.dumps([[str(a) for a in c] for c in commands])],
            env={**os.environ, "PYTHONPATH": str(root / "src"), "COLUMNS": "240", **environ},
            capture_output=True,
            text=True,
            check=True,
            timeout=240,
        )
        out, err = found.stdout.split(chr(30)), found.stderr.split(chr(30))
        return [Ran(int(c), o, e) for o, e, c in zip(out[::2], err[::2], out[1::2], strict=False)]

    return call


def parquet(rows: int) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array(range(rows), pa.int64())}), sink)
    return sink.getvalue()


@pytest.fixture
def table(tmp_path: Path) -> RawTable:
    """Six versions on disk, three live files in three days, real parquet; no checkpoint yet."""
    made = RawTable.on_disk(tmp_path / "events")
    made.commit(
        commit_info("CREATE TABLE"),
        protocol(1, 4),
        metadata(
            PARTITIONED,
            ["day"],
            {"delta.appendOnly": "false"},
            name="events",
            description="what happened",
        ),
    )
    data = parquet(10)
    for number in range(1, 5):
        day = f"2026-01-0{number}"
        path = f"day={day}/f{number}.parquet"
        (tmp_path / "events" / path).parent.mkdir()
        (tmp_path / "events" / path).write_bytes(data)
        info = commit_info(
            "WRITE",
            operationParameters={"mode": "Append"},
            operationMetrics={"numFiles": "1"},
            engineInfo="tests",
        )
        made.commit(
            info,
            add(path, len(data), values={"day": day}, stats=stats(10, 10 * number, 10 * number + 9)),
            txn("loader", number),
        )
    made.commit(
        commit_info("DELETE"), remove("day=2026-01-01/f1.parquet", len(data), values={"day": "2026-01-01"})
    )
    return made


@pytest.fixture
def path(table: RawTable) -> Path:
    """Where ``table`` is."""
    return Path(table.store.url)
