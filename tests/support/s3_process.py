"""The process behind ``s3_server``: moto's S3 over HTTP, one request at a time.

moto looks whether a name is taken and writes it in two steps, and its server answers on many threads:
two conditional puts at once may then both succeed, which no S3 does. Here the steps of one request
stay together. Run as ``python s3_process.py PORT``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple


class OneAtATime:
    """A WSGI application whose requests never overlap."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self._application = application
        self._lock = Lock()

    def __call__(self, environ: Any, start_response: Any) -> list[bytes]:
        with self._lock:
            return list(self._application(environ, start_response))


if __name__ == "__main__":
    run_simple(
        "127.0.0.1",
        int(sys.argv[1]),
        OneAtATime(DomainDispatcherApplication(create_backend_app)),
        threaded=True,
    )
