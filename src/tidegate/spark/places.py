"""Where a table's files are, as an executor opens them: a folder on disk, or a prefix of an object store.

What is defined here travels to executors by value, inside the closures of tasks, so an executor needs
PySpark and pyarrow, and obstore for object stores, but not this package. Credentials travel in it too:
inside closures, never in options, plans or logs, and no repr shows them.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from tidegate.errors import OptionError
from tidegate.spark.carried import carried
from tidegate.storage.local import LocalStore
from tidegate.storage.objects import ObjectStore
from tidegate.storage.store import Store

_CARRIED = ("AWS_", "GOOGLE_", "AZURE_")
# What names a file or a service of the driver's own machine means nothing elsewhere.
_STAYS = ("AWS_CONTAINER_", "AWS_WEB_IDENTITY_", "AWS_CONFIG_", "AWS_SHARED_", "AWS_PROFILE", "AWS_EXECUTION")


class Disk:
    """A folder that every executor sees under the same path."""

    def __init__(self, root: str) -> None:
        self.root = root

    def __repr__(self) -> str:
        return f"Disk({self.root!r})"

    def address(self, name: str) -> str:
        """The whole path of a file."""
        return name if name.startswith("/") else os.path.join(self.root, name)

    def open_output(self, name: str) -> Any:
        """A new file; its folder is made, again if a VACUUM takes the empty folder away just now."""
        path = self.address(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            return pa.OSFile(path, "wb")
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            return pa.OSFile(path, "wb")

    def open_input(self, name: str) -> Any:
        return pa.memory_map(self.address(name))

    def delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.address(name))


class _Upload:
    """An upload as the file that pyarrow writes to; nothing is there before it is closed."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer
        self._at = 0
        self.closed = False

    def write(self, data: Any) -> int:
        size = len(memoryview(data).cast("B"))
        self._writer.write(bytes(data))
        self._at += size
        return size

    def tell(self) -> int:
        return self._at

    def flush(self) -> None:
        pass

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._writer.close()

    def abandon(self) -> None:
        """Never finish: what was sent so far stays invisible."""
        self.closed = True

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False


class _Ranges:
    """An object as the file that pyarrow reads from: a window ahead for steps that follow one another."""

    def __init__(self, client: Any, path: str, ahead: int = 1 << 20) -> None:
        self._client, self._path, self._ahead = client, path, ahead
        self._size = int(client.head(path)["size"])
        self._at = self._start = 0
        self._window = b""
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._size - self._at)
        wanted = left if size is None or size < 0 else min(size, left)
        if wanted == 0:
            return b""
        skip = self._at - self._start
        if not 0 <= skip <= skip + wanted <= len(self._window):
            length = min(left, max(wanted, self._ahead))
            self._window = bytes(self._client.get_range(self._path, start=self._at, length=length))
            self._start, skip = self._at, 0
        data = self._window[skip : skip + wanted]
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        self.closed = True

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return True


@contextlib.contextmanager
def surrounded(environment: Mapping[str, str]) -> Iterator[None]:
    """The driver's settings while clients are made: obstore reads them from the environment."""
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def surroundings() -> dict[str, str]:
    """What the environment of this process says of object stores, as far as it means anything elsewhere."""
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_CARRIED) and not name.startswith(_STAYS) and not name.endswith("_FILE")
    }


class Objects:
    """A prefix of a bucket or container, with what it takes to open it from another machine."""

    def __init__(self, url: str, kind: str, arguments: Mapping[str, Any], environment: Mapping[str, str]):
        self.url = url
        self._kind = kind
        self._arguments = dict(arguments)
        self._environment = dict(environment)
        self._client: Any = None

    def __repr__(self) -> str:
        return f"Objects({self.url!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None}

    def client(self) -> Any:
        """The client; opened once in each process that this value travels to."""
        if self._client is None:
            from obstore import store as stores

            given = dict(self._arguments)
            keys = given.pop("keys", None)
            if keys is not None:
                given["credential_provider"] = lambda: keys
            with surrounded(self._environment):
                self._client = getattr(stores, self._kind)(**given)
        return self._client

    def address(self, name: str) -> str:
        """The URL of a file."""
        return f"{self.url}/{name}"

    def open_output(self, name: str) -> Any:
        import obstore

        return _Upload(obstore.open_writer(self.client(), name))

    def open_input(self, name: str) -> Any:
        return pa.PythonFile(_Ranges(self.client(), name), mode="r")

    def delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.client().delete(name)


Place = Disk | Objects


def place_of(store: Store) -> Place:
    """The place behind a store of the driver, to be used in tasks."""
    if isinstance(store, LocalStore):
        return Disk(store.url)
    if isinstance(store, ObjectStore):
        return _objects(store)
    raise OptionError(
        f"Executors cannot reach {store.url}: it lives in this process alone.",
        hint="Spark reads and writes tables on disks and in object stores.",
    )


def _objects(store: ObjectStore) -> Objects:
    client: Any = store._client
    arguments: dict[str, Any] = {
        "config": dict(client.config),
        "prefix": client.prefix,
        "client_options": dict(client.client_options or {}),
        "retry_config": client.retry_config,
    }
    provider = getattr(client, "credential_provider", None)
    if provider is not None:
        arguments["keys"] = provider()
    environment = surroundings()
    if provider is not None:
        # Keys that were given come alone: a token of the environment belongs to other keys.
        environment = {n: v for n, v in environment.items() if "KEY" not in n and "TOKEN" not in n}
    return Objects(store.url, type(client).__name__, arguments, environment)


# Executors need not have this package: the module travels with the task.
carried(sys.modules[__name__])
