"""The stores under test: every backend runs the same behaviour suite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from obstore.store import MemoryStore as ObstoreMemory

from support.s3 import S3Server, s3_server
from tidegate.storage import LocalStore, MemoryStore, ObjectStore, Store, open_store

BACKENDS = ["local", "local-named", "memory", "objects", pytest.param("s3", marks=pytest.mark.s3)]


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture(params=BACKENDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A new, empty store of each kind."""
    if request.param.startswith("local"):
        local = LocalStore(tmp_path / "a table")
        # As on a file system, or a Linux, where a file cannot be written before it has a name.
        local._nameless = local._nameless and request.param == "local"
        return local
    if request.param == "memory":
        return MemoryStore()
    if request.param == "objects":
        return ObjectStore(ObstoreMemory(), url="s3://bucket/table")
    server: S3Server = request.getfixturevalue("s3")
    return open_store(f"s3://{server.bucket()}/some where/a%20table", server.options)
