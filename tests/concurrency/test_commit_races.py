"""Many writers, one table: nothing is lost and nothing comes twice, by threads, by processes, by kill -9."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import tidegate
from support.racer import ROWS, live_files, own_file, race
from support.s3 import S3Server, s3_server
from support.tables import SCHEMA, seen
from tidegate.log.snapshot import load
from tidegate.log.table_log import TableLog
from tidegate.log.verify import verify
from tidegate.metadata import Metadata
from tidegate.storage import LocalStore, MemoryStore, Store
from tidegate.transaction.transaction import Transaction

WRITERS = [f"w{i}" for i in range(8)]
PATHS = os.pathsep.join(
    [str(Path(tidegate.__file__).resolve().parent.parent), str(Path(__file__).resolve().parent.parent)]
)
PATIENCE = 600


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


def create(log: TableLog, **configuration: str) -> None:
    """A table that gives out row ids and times, checkpoints and compacts: all that a race could spoil."""
    transaction = Transaction.begin(log)
    properties = {
        "delta.enableRowTracking": "true",
        "delta.enableInCommitTimestamps": "true",
        "tidegate.logCompactionInterval": "7",
        **configuration,
    }
    transaction.update_metadata(
        Metadata(id="5fba94ed-9794-4965-ba6e-6ee3c0d22af9", schema_string=SCHEMA, configuration=properties)
    )
    transaction.commit(operation="CREATE TABLE")


def check(log: TableLog, expected: list[str], versions: int) -> None:
    """The log is contiguous and proves itself; the files are those expected; ids and times are in order."""
    snapshot = load(log)
    assert snapshot.version == versions
    state = seen(snapshot, tombstones=False)
    assert state.paths == sorted(expected)
    report = verify(log, data=False)
    assert not report.findings, report.findings
    added: list[str] = []
    ids: list[int] = []
    times: list[int] = []
    transactions: list[str] = []
    for version in range(versions + 1):
        for line in log.store.get(log.commit_path(version)).splitlines():
            action = json.loads(line)
            if "commitInfo" in action:
                times.append(action["commitInfo"]["inCommitTimestamp"])
                transactions.append(action["commitInfo"]["txnId"])
            if "add" in action:
                added.append(action["add"]["path"])
                ids.append(action["add"]["baseRowId"])
                assert action["add"]["defaultRowCommitVersion"] == version
    assert len(set(added)) == len(added), "a file was added twice"
    assert len(set(transactions)) == versions + 1, "one transaction made two versions"
    assert ids == list(range(0, ROWS * len(added), ROWS)), "row ids are contiguous in the order of versions"
    assert times == sorted(set(times)), "times increase strictly"


def check_race(log: TableLog, commits: int, reported: Mapping[str, list[tuple[int, int]]]) -> None:
    """``reported``: number and version of every commit that a writer believes it has made."""
    versions = sorted(version for lines in reported.values() for _, version in lines)
    assert versions == list(range(1, len(WRITERS) * commits + 1)), "every version has one writer"
    for who, lines in reported.items():
        assert [number for number, _ in lines] == list(range(commits))
        assert [v for _, v in lines] == sorted(v for _, v in lines)
        for number, version in lines:
            text = log.store.get(log.commit_path(version))
            assert f'"{own_file(who, number)}"'.encode() in text
    check(log, [f for who in WRITERS for f in live_files(who, commits)], len(WRITERS) * commits)


# ---------------------------------------------------------------------------- processes


@contextmanager
def process(
    url: str, who: str, commits: int, mode: str, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[str]]:
    """A writer that is ready, and is ended when the block is left."""
    started = subprocess.Popen(
        [sys.executable, "-m", "support.racer", url, who, str(commits), mode],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": PATHS, **environment},
    )
    assert started.stdin is not None
    assert started.stdout is not None
    try:
        yield started
    finally:
        started.kill()
        started.wait()
        started.stdin.close()
        started.stdout.close()


def processes_race(
    url: str, commits: int, mode: str, environment: Mapping[str, str]
) -> dict[str, list[tuple[int, int]]]:
    """Eight processes commit at once; what each of them reports."""
    with ExitStack() as stack:
        racers = {who: stack.enter_context(process(url, who, commits, mode, environment)) for who in WRITERS}
        outputs: dict[str, list[list[str]]] = {who: [] for who in WRITERS}

        def listen(who: str) -> None:
            stdout = racers[who].stdout
            assert stdout is not None
            outputs[who] += [line.split() for line in stdout]

        for racer in racers.values():
            assert racer.stdout is not None
            assert racer.stdout.readline() == "ready\n"
        listeners = [threading.Thread(target=listen, args=(who,)) for who in WRITERS]
        for listener in listeners:
            listener.start()
        for racer in racers.values():
            assert racer.stdin is not None
            racer.stdin.close()
        assert [racer.wait(PATIENCE) for racer in racers.values()] == [0] * len(WRITERS)
        for listener in listeners:
            listener.join(PATIENCE)
    assert all(lines[-1] == ["end"] for lines in outputs.values())
    return {
        who: [(int(line[1]), int(line[2])) for line in lines if line[0] == "committed"]
        for who, lines in outputs.items()
    }


@pytest.mark.parametrize("mode", ["race", "lossy"])
def test_eight_processes_on_a_local_disk(tmp_path: Path, deep: bool, mode: str) -> None:
    commits = 200 if deep else 25 if mode == "race" else 5
    log = TableLog.at(tmp_path / "t")
    create(log)
    reported = processes_race(str(tmp_path / "t"), commits, mode, {})
    check_race(log, commits, reported)


@pytest.mark.s3
@pytest.mark.parametrize("mode", ["race", pytest.param("lossy", marks=pytest.mark.deep)])
def test_eight_processes_on_s3(s3: S3Server, deep: bool, mode: str) -> None:
    commits = (200 if mode == "race" else 40) if deep else 4
    url = f"s3://{s3.bucket()}/t"
    log = TableLog.at(url, s3.options)
    create(log)
    reported = processes_race(url, commits, mode, s3.environment)
    check_race(log, commits, reported)


# ---------------------------------------------------------------------------- threads


@pytest.mark.parametrize("kind", ["memory", "local", "local, one log for all"])
def test_eight_threads_in_one_process(tmp_path: Path, deep: bool, kind: str) -> None:
    commits = 200 if deep else 25 if kind == "memory" else 12
    shared: Store = MemoryStore() if kind == "memory" else LocalStore(tmp_path / "t")
    log = TableLog(shared)
    create(log)
    reported: dict[str, list[tuple[int, int]]] = {}
    errors: list[BaseException] = []
    barrier = threading.Barrier(len(WRITERS))

    def write(who: str) -> None:
        try:
            own = TableLog(LocalStore(tmp_path / "t")) if kind == "local" else log
            barrier.wait(10)
            reported[who] = [(number, version) for number, version, _ in race(own, who, commits)]
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(who,)) for who in WRITERS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert errors == []
    check_race(log, commits, reported)


# ---------------------------------------------------------------------------- killed


def live_and_die(url: str, who: str, commits: int, kills: int, environment: Mapping[str, str]) -> int:
    """Run a writer to its end, killing it ``kills`` times at a storage operation chosen by its seed."""
    dice = random.Random(f"{who}-{commits}-{kills}")
    killed = 0
    while True:
        with process(url, who, commits, "once", environment) as writer:
            assert writer.stdin is not None
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
            writer.stdin.close()
            left = dice.randrange(1, 60) if killed < kills else -1
            for line in writer.stdout:
                if line == "end\n":
                    assert writer.wait(PATIENCE) == 0
                    return killed
                left -= line.startswith("op ")
                if left == 0:
                    writer.kill()
                    killed += 1
                    break
            else:
                raise AssertionError(f"{who} ended by itself with {writer.wait()}")


def killed_and_restarted(url: str, commits: int, kills: int, environment: Mapping[str, str]) -> int:
    counts: list[int] = []
    errors: list[BaseException] = []

    def run(who: str) -> None:
        try:
            counts.append(live_and_die(url, who, commits, kills, environment))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(who,)) for who in WRITERS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert errors == []
    assert len(counts) == len(WRITERS)
    return sum(counts)


def check_once(log: TableLog, commits: int) -> None:
    expected = [own_file(who, n) for who in WRITERS for n in range(1, commits + 1)]
    check(log, expected, len(WRITERS) * commits)
    assert {who: txn.version for who, txn in load(log).transactions.items()} == dict.fromkeys(
        WRITERS, commits
    )


def test_processes_killed_and_restarted_commit_exactly_once_on_a_local_disk(
    tmp_path: Path, deep: bool
) -> None:
    commits, kills = (100, 12) if deep else (6, 1)
    log = TableLog.at(tmp_path / "t")
    create(log, **{"delta.checkpointInterval": "5"})
    assert killed_and_restarted(str(tmp_path / "t"), commits, kills, {}) >= len(WRITERS) // 2
    check_once(log, commits)


@pytest.mark.s3
@pytest.mark.deep
def test_processes_killed_and_restarted_commit_exactly_once_on_s3(s3: S3Server) -> None:
    commits, kills = 30, 8
    url = f"s3://{s3.bucket()}/t"
    log = TableLog.at(url, s3.options)
    create(log, **{"delta.checkpointInterval": "5"})
    assert killed_and_restarted(url, commits, kills, s3.environment) >= len(WRITERS) // 2
    check_once(log, commits)
