"""Many writers, one name: threads and real processes race, and processes are killed while they write."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tidegate
from support.s3 import S3Server, s3_server
from tidegate.errors import NameTakenError
from tidegate.storage import LocalStore, MemoryStore, Store, open_store
from tidegate.storage.disk import TEMP_PREFIX

WRITERS = 8
ROUNDS = 12
SOURCE = str(Path(tidegate.__file__).resolve().parent.parent)

# Each process says that it is ready and waits for its input to close: all start at one moment.
RACER = """
import sys
from tidegate.errors import NameTakenError
from tidegate.storage import open_store

url, who, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
store = open_store(url)
print("ready", flush=True)
sys.stdin.read()
for number in range(rounds):
    try:
        store.put_if_absent(f"_delta_log/{number:020d}.json", who.encode() * 1000)
        print("won", number)
    except NameTakenError:
        print("lost", number)
"""

# Names end in a digest of what the file must hold; sizes differ so that a death hits every stage.
WRITER = """
import hashlib, itertools, sys
from tidegate.storage import LocalStore

store = LocalStore(sys.argv[1])
store._nameless = store._nameless and sys.argv[2] == "nameless"
for number in itertools.count():
    data = bytes([number % 251]) * (1 + 37 * number % 300_000)
    digest = hashlib.sha256(data).hexdigest()
    store.put_if_absent(f"_delta_log/{number:08d}-{digest}", data)
    store.put("_delta_log/_last_checkpoint", digest.encode() + data)
    print(number, flush=True)
"""


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture(
    params=["local", "local without hard links", "memory", pytest.param("s3", marks=pytest.mark.s3)]
)
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    if request.param == "s3":
        server: S3Server = request.getfixturevalue("s3")
        return open_store(f"s3://{server.bucket()}/t", server.options)
    if request.param == "memory":
        return MemoryStore()
    if request.param == "local without hard links":

        def no_links(*_: object, **__: object) -> None:
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr(os, "link", no_links)
    return LocalStore(tmp_path / "t")


def race(work: Callable[[int], None]) -> None:
    """Run ``work`` in all threads, started at one moment; their errors are ours."""
    barrier, errors = threading.Barrier(WRITERS), []

    def run(who: int) -> None:
        try:
            barrier.wait(10)
            work(who)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(who,)) for who in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_of_eight_threads_one_wins(store: Store) -> None:
    wins: list[tuple[int, int]] = []

    def work(who: int) -> None:
        for number in range(ROUNDS):
            try:
                store.put_if_absent(f"_delta_log/{number:020d}.json", f"{who}".encode() * 1000)
                wins.append((number, who))
            except NameTakenError:
                pass

    race(work)
    assert sorted(number for number, _ in wins) == list(range(ROUNDS))
    for number, who in wins:
        assert store.get(f"_delta_log/{number:020d}.json") == f"{who}".encode() * 1000


def test_readers_of_a_name_that_is_replaced_see_whole_contents(store: Store) -> None:
    contents = [bytes([who]) * (1000 * who + 1) for who in range(WRITERS)]
    store.put("hint", contents[0])

    def work(who: int) -> None:
        for _ in range(ROUNDS):
            if who % 2:
                store.put("hint", contents[who])
            else:
                assert store.get("hint") in contents
                with store.open_input("hint") as file:
                    assert file.read() in contents

    race(work)


def test_a_listing_during_writes_and_deletes_is_in_order_and_names_whole_files(store: Store) -> None:
    def work(who: int) -> None:
        for number in range(ROUNDS):
            name = f"log/{number:04d}-{who}"
            store.put_if_absent(name, b"0123456789")
            if who % 2:
                store.delete([name])
            found = list(store.list_from("log"))
            assert [info.name for info in found] == sorted(info.name for info in found)
            assert all(info.size == 10 for info in found)

    race(work)
    assert len(list(store.list_from("log"))) == ROUNDS * WRITERS // 2


def processes_race(url: str, environment: dict[str, str]) -> Counter[int]:
    """How often each version was won."""
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, url, str(who), str(ROUNDS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": SOURCE, **environment},
        )
        for who in range(WRITERS)
    ]
    try:
        for racer in racers:
            assert racer.stdout is not None
            assert racer.stdout.readline() == "ready\n"
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.close()
        outputs = [racer.stdout.read() for racer in racers if racer.stdout is not None]
        assert [racer.wait() for racer in racers] == [0] * WRITERS
    finally:
        for racer in racers:
            racer.kill()
            racer.wait()
            if racer.stdout is not None:
                racer.stdout.close()
    lines = [line.split() for output in outputs for line in output.splitlines()]
    assert len(lines) == WRITERS * ROUNDS
    return Counter(int(number) for word, number in lines if word == "won")


def test_of_eight_processes_one_wins_on_a_local_disk(tmp_path: Path) -> None:
    wins = processes_race(str(tmp_path / "t"), {})
    assert wins == dict.fromkeys(range(ROUNDS), 1)
    assert len(list((tmp_path / "t" / "_delta_log").iterdir())) == ROUNDS


@pytest.mark.s3
def test_of_eight_processes_one_wins_on_s3(s3: S3Server) -> None:
    url = f"s3://{s3.bucket()}/t"
    assert processes_race(url, s3.environment) == dict.fromkeys(range(ROUNDS), 1)
    assert len(list(open_store(url, s3.options).list_from("_delta_log"))) == ROUNDS


@pytest.mark.parametrize("how", ["nameless", "named"])
@pytest.mark.parametrize("written", [1, 7, 40])
def test_a_process_killed_while_it_writes_leaves_whole_files_only(
    tmp_path: Path, how: str, written: int
) -> None:
    root = tmp_path / "t"
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(root), how],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": SOURCE},
    )
    try:
        assert writer.stdout is not None
        for _ in range(written):
            assert writer.stdout.readline()
    finally:
        writer.kill()
        writer.wait()
        if writer.stdout is not None:
            writer.stdout.close()
    store = LocalStore(root)
    found = [info.name for info in store.list_from("_delta_log")]
    assert len(found) >= written + 1
    for name in found:
        if name.endswith("_last_checkpoint"):
            digest, data = store.get(name)[:64].decode(), store.get(name)[64:]
        else:
            digest, data = name.rpartition("-")[2], store.get(name)
        assert hashlib.sha256(data).hexdigest() == digest
    assert not any(name.startswith(f"_delta_log/{TEMP_PREFIX}") for name in found)
    # What is left can be written on.
    store.put_if_absent("_delta_log/next", b"x")
