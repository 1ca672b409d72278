"""The border where a failure in Spark becomes ours again.

What fails while Spark plans (our file index runs in Python, called from the JVM) or while it reads
data files comes back through Py4J as a Java exception, or from a Connect server as a status with details.
PySpark converts each of them in one place, for ``collect``, ``toArrow``, ``show``, ``write`` and streams
alike; this module stands in those places and answers first: a failure of ours is raised as it was, a data
file that is missing or corrupt gets its code. Everything else is PySpark's.
"""

from __future__ import annotations

import importlib
import itertools
import os
import re
import sys
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from tidegate.errors import DataFileCorruptError, DataFileMissingError, OutOfReachError, TidegateError

_TOKEN = re.compile(r"TIDEGATE-FAILURE-(\d+)\b")
_READ_FAILED = re.compile(
    r"\[FAILED_READ_FILE\.?(?P<kind>\w*)\] .*? reading file (?P<path>\S+?)\.(?:\s|$)", re.S
)
_NO_PATH = re.compile(r"\[PATH_NOT_FOUND\] Path does not exist: (?P<path>.+?)\.(?:\s+SQLSTATE|\s*$)", re.M)
_KEPT = 64
# Where PySpark turns a failure into an exception: on classic sessions, and on Connect.
_CLASSIC = "pyspark.errors.exceptions.captured"
_CONNECT = "pyspark.sql.connect.client.core"

_lock = threading.Lock()
_numbers = itertools.count()
_failures: dict[int, TidegateError] = {}
_roots: dict[str, str] = {}
_originals: dict[str, Callable[..., Any]] = {}
_translations: list[Callable[[str], TidegateError | None]] = []


class PassedThroughSpark(Exception):
    """Raised towards the JVM in place of one of our errors, which is kept here meanwhile."""


def through_spark(error: TidegateError) -> PassedThroughSpark:
    """A stand-in for ``error`` that survives the way through the JVM and back."""
    with _lock:
        number = next(_numbers)
        _failures[number] = error
        while len(_failures) > _KEPT:
            del _failures[min(_failures)]
    return PassedThroughSpark(f"TIDEGATE-FAILURE-{number}: {error}")


def translate_with(function: Callable[[str], TidegateError | None]) -> None:
    """Ask ``function`` for an error of ours in the text of a failure; once is enough."""
    if function not in _translations:
        _translations.append(function)


def watch(root: str, table: str) -> None:
    """From now on, failures to read files below ``root`` (as Hadoop writes it) are failures of ``table``."""
    with _lock:
        _roots[root] = table
        if "pyspark.java_gateway" in sys.modules:
            _stand_in(_CLASSIC, _converted)
        if _CONNECT in sys.modules:
            _stand_in(_CONNECT, _converted_details)


def _stand_in(name: str, answer: Callable[..., Any]) -> None:
    module: Any = importlib.import_module(name)
    if name not in _originals:
        _originals[name] = module.convert_exception
    module.convert_exception = answer


def step_back() -> None:
    """PySpark converts failures by itself again, until the next table is watched."""
    with _lock:
        for name, answer in ((_CLASSIC, _converted), (_CONNECT, _converted_details)):
            module: Any = sys.modules.get(name)
            if module is not None and getattr(module, "convert_exception", None) is answer:
                module.convert_exception = _originals.pop(name)


def _converted(exception: Any) -> Any:
    return translated(_text(exception)) or _originals[_CLASSIC](exception)


def _converted_details(info: Any, message: str, details: Any, *rest: Any) -> Any:
    """A Connect server's answer: its message, and the messages of all causes where it sends them."""
    causes = [str(e.message) for e in details.errors] if details is not None else []
    text = "\n".join([message, *(f"Caused by: {c}" for c in causes)])
    return translated(text) or _originals[_CONNECT](info, message, details, *rest)


def translated(text: str) -> TidegateError | None:
    """Our error for the text of a chain of Java exceptions, None if it is none of ours."""
    token = _TOKEN.search(text)
    if token is not None:
        return _failures.get(int(token[1]))
    for translate in _translations:
        error = translate(text)
        if error is not None:
            return error
    found = _READ_FAILED.search(text)
    place = found or _NO_PATH.search(text)
    if place is None:
        return None
    path = _plain(place["path"])
    table = next((t for root, t in _roots.items() if path.startswith(_plain(root))), None)
    if table is None:
        return None
    if found is None or found["kind"] == "FILE_NOT_EXIST" or "FileNotFoundException" in text:
        return missing(path, table)
    return DataFileCorruptError(
        f"A data file cannot be read: {_cause(text)}",
        table=table,
        file=path,
        hint="Restore the file from a backup, or delete the rows it held.",
    )


def _plain(path: str) -> str:
    """A path of Hadoop's in one form: as a folder on disks, percent escapes resolved."""
    if path.startswith("file:"):
        return "/" + unquote(path.removeprefix("file:").lstrip("/"))
    return unquote(path)


def missing(path: str, table: str | None) -> TidegateError:
    """A data file that a task did not find: it is gone, or the executors do not see what we see."""
    if path.startswith("/") and os.path.exists(path):
        return OutOfReachError(
            "This process sees a data file that Spark's executors do not.",
            table=table,
            file=path,
            hint="With Spark Connect or a cluster, the table must lie where both reach it under the same "
            "path: a shared file system or an object store.",
        )
    return DataFileMissingError(
        "A data file that the log names is not there.",
        table=table,
        file=path,
        hint="VACUUM may have removed it too early; `tidegate verify` lists all that are missing.",
    )


def lost_rows(error: BaseException) -> bool:
    """Whether rows that Spark kept for us are gone, as when the executor that held them is."""
    origin = getattr(error, "_origin", None)
    text = str(error) if origin is None else _text(origin)
    return "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND" in text


def _cause(text: str) -> str:
    causes = re.findall(r"Caused by: (.+)", text)
    return (causes[-1] if causes else text.splitlines()[0])[:300]


def _text(exception: Any) -> str:
    """The messages of an exception and of all its causes."""
    out = []
    seen = 0
    while exception is not None and seen < 20:
        out.append(("Caused by: " if seen else "") + str(exception.toString()))
        exception = exception.getCause()
        seen += 1
    return "\n".join(out)
