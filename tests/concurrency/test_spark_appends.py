"""Four Spark processes append to one table at once, on disk and on S3: every row exactly once."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import tidegate
from support.s3 import s3_server
from tidegate.log.table_log import TableLog
from tidegate.log.verify import verify
from tidegate.metadata import Metadata
from tidegate.schema.types import INTEGER, LONG, StructField, StructType

pytestmark = [pytest.mark.spark, pytest.mark.s3, pytest.mark.slow]

PROGRAM = Path(__file__).parent.parent / "support" / "appender.py"
WRITERS, TIMES, ROWS = 4, 3, 5


def test_four_spark_processes_append_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with s3_server() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        tables = [str(tmp_path / "table"), f"s3://{server.bucket()}/table"]
        for table in tables:
            _create(table)
        running = [_start(number, tables) for number in range(WRITERS)]
        try:
            for process in running:
                assert process.stdout is not None
                assert process.stdout.readline().strip() == "READY"
            for process in running:
                assert process.stdin is not None
                process.stdin.write("go\n")
                process.stdin.flush()
            for process in running:
                _, said = process.communicate(timeout=300)
                assert process.returncode == 0, said[-3000:]
        finally:
            for process in running:
                if process.poll() is None:
                    process.kill()
                process.communicate()
        for table in tables:
            _check(table)


def _create(table: str) -> None:
    fields = [StructField("writer", INTEGER), StructField("turn", INTEGER), StructField("id", LONG)]
    transaction = tidegate.Transaction.begin(table)
    schema = StructType(tuple(fields)).to_json()
    transaction.update_metadata(Metadata(id=str(uuid.uuid4()), schema_string=schema))
    transaction.commit(operation="CREATE TABLE")


def _start(number: int, tables: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), str(number), str(TIMES), *tables],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ},
        text=True,
    )


def _check(table: str) -> None:
    snapshot = tidegate.open(table)
    assert snapshot.version == WRITERS * TIMES
    found: Counter[tuple[int, int, int]] = Counter()
    for path in snapshot.files().column("path").to_pylist():
        rows = pq.read_table(snapshot.log.store.open_input(path)).to_pylist()
        found.update((r["writer"], r["turn"], r["id"]) for r in rows)
    expected = {(w, t, i): 1 for w in range(WRITERS) for t in range(TIMES) for i in range(ROWS)}
    assert found == expected
    assert [f for f in verify(TableLog.at(table), deep=True).findings if f.severity == "error"] == []
