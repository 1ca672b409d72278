"""Tables on S3 by Spark's own file system, hadoop-aws: native scans and writes, keys that nobody sees."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest

from support.peers import absent
from support.s3 import ACCESS_KEY, SECRET_KEY, s3_server
from tidegate.spark.hadoop import hadoop_root, settings
from tidegate.storage import open_store

pytestmark = [pytest.mark.spark, pytest.mark.s3]

_ROOT = Path(__file__).parents[2]
_VARIABLES = ("AWS_", "GOOGLE_", "AZURE_")


def _jars() -> Path:
    folder = Path(os.environ.get("TIDEGATE_PEERS", ".peers"))
    home = (folder if folder.is_absolute() else _ROOT / folder) / "hadoop-aws"
    carried = {p.name for p in (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*")}
    ready = {f"hadoop-client-api-{p.name.removeprefix('ready-')}.jar" for p in home.glob("ready-*")}
    if not ready & carried:
        absent(f"hadoop-aws for {carried}", "`make peers` fetches it where Maven is at hand")
    return home / "jars"


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    jars = _jars()
    events = tmp_path_factory.mktemp("events")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(_VARIABLES)}
    with s3_server() as server:
        done = subprocess.run(
            [sys.executable, "-m", "support.s3a_process", str(jars), server.bucket()],
            check=False,
            input=json.dumps(server.environment),
            capture_output=True,
            text=True,
            timeout=400,
            cwd=_ROOT / "tests",
            env={**clean, "TIDEGATE_EVENTS": str(events)},
        )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    found["java"] = done.stderr
    logs = [p for p in events.rglob("*") if p.is_file() and not p.name.endswith(".crc")]
    found["events"] = "".join(p.read_text() for p in logs)
    assert "SparkListenerSQLExecutionStart" in found["events"]
    return found


def test_spark_itself_reads_and_writes_the_files(seen: dict[str, Any]) -> None:
    assert "TableFileIndex" in seen["plan"]
    assert "ArrowEvalPython" not in seen["plan"] + seen["events"]
    assert "MapInArrow" not in seen["plan"] + seen["events"]
    assert seen["errors"] == []


def test_rows_come_back_and_files_are_pruned(seen: dict[str, Any]) -> None:
    considered, read, rows = seen["pruned"]
    assert (considered, rows) == (8, 8)
    assert read == 4
    kept = [[i, f"p {i % 2}"] for i in range(8) if i not in (0, 1)]
    assert seen["rows"] == sorted([*kept, *kept, [1, "moved"], [1, "moved"]])
    assert seen["optimized"]


def test_a_missing_object_has_its_name(seen: dict[str, Any]) -> None:
    code, said = seen["missing"]
    assert code == "DATA_FILE_MISSING"
    assert "some folder/table" in said


def test_keys_are_in_no_plan_no_conf_no_event_and_no_log(seen: dict[str, Any]) -> None:
    assert seen["same_confs"]
    for place in ("plan", "confs", "log", "java", "events", "missing"):
        for secret in (ACCESS_KEY, SECRET_KEY):
            assert secret not in str(seen[place]), place


# ---------------------------------------------------------------------------- settings alone


def test_schemes_are_spelled_as_hadoop_spells_them() -> None:
    assert hadoop_root("/data/t") == "file:/data/t"
    assert hadoop_root("s3://b/t") == hadoop_root("s3a://b/t") == "s3a://b/t"
    assert hadoop_root("gcs://b/t") == "gs://b/t"
    assert hadoop_root("abfss://c@a.dfs.core.windows.net/t") == "abfss://c@a.dfs.core.windows.net/t"


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in [n for n in os.environ if n.startswith(_VARIABLES)]:
        monkeypatch.delenv(name)
    return monkeypatch


def test_options_win_over_the_environment_and_keys_are_never_mixed(bare: pytest.MonkeyPatch) -> None:
    bare.setenv("AWS_ACCESS_KEY_ID", "other")
    bare.setenv("AWS_SECRET_ACCESS_KEY", "other")
    bare.setenv("AWS_SESSION_TOKEN", "of the other")
    bare.setenv("AWS_REGION", "eu-west-1")
    given = {"access_key_id": "mine", "secret_access_key": "mine too", "endpoint": "https://s3.example"}
    found = settings(open_store("s3://b/t", given))
    assert found == {
        "fs.s3a.bucket.b.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        "fs.s3a.bucket.b.access.key": "mine",
        "fs.s3a.bucket.b.secret.key": "mine too",
        "fs.s3a.bucket.b.endpoint": "https://s3.example",
        "fs.s3a.bucket.b.endpoint.region": "eu-west-1",
        "fs.s3a.bucket.b.path.style.access": "true",
        "fs.s3a.bucket.b.connection.ssl.enabled": "true",
    }


def test_the_environment_alone(bare: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        bare.setenv(name, name.lower())
    found = settings(open_store("s3://b/t"))
    assert found["fs.s3a.bucket.b.session.token"] == "aws_session_token"
    assert found["fs.s3a.bucket.b.aws.credentials.provider"].endswith("TemporaryAWSCredentialsProvider")
    assert settings(open_store("s3://open/t", {"skip_signature": "true"})) == {
        "fs.s3a.bucket.open.aws.credentials.provider": (
            "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
        )
    }


def test_without_anything_said_hadoop_finds_its_own_keys(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert settings(open_store("s3://b/t")) == {}
    assert settings(open_store(str(tmp_path))) == {}


def test_google_and_azure(bare: pytest.MonkeyPatch) -> None:
    assert settings(open_store("gs://b/t", {"skip_signature": "true"})) == {
        "fs.gs.auth.type": "UNAUTHENTICATED"
    }
    url, host = "abfss://c@acc.dfs.core.windows.net/t", "acc.dfs.core.windows.net"
    assert settings(open_store(url, {"account_key": "a2V5"})) == {
        f"fs.azure.account.key.{host}": "a2V5",
        f"fs.azure.account.auth.type.{host}": "SharedKey",
    }
    found = settings(open_store(url, {"client_id": "i", "client_secret": "s", "tenant_id": "t"}))
    assert found[f"fs.azure.account.oauth2.client.endpoint.{host}"] == (
        "https://login.microsoftonline.com/t/oauth2/token"
    )
    assert settings(open_store(url, {"sas_key": "?sv=1&sig=x"}))[f"fs.azure.sas.fixed.token.{host}"] == (
        "sv=1&sig=x"
    )
