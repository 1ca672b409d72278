"""The border where a failure in Spark becomes ours again.

What fails while Spark plans (our file index runs in Python, called from the JVM) or while it reads
data files comes back through Py4J as a Java exception. PySpark converts those in one place, for
``collect``, ``toArrow``, ``show``, ``write`` and streams alike; this module stands in that place and
answers first: a failure of ours is raised as it was, a data file that is missing or corrupt gets its
code. Everything else is PySpark's.
"""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable
from typing import Any

from pyspark.errors.exceptions import captured

from tidegate.errors import DataFileCorruptError, DataFileMissingError, TidegateError

_TOKEN = re.compile(r"TIDEGATE-FAILURE-(\d+)\b")
_READ_FAILED = re.compile(
    r"\[FAILED_READ_FILE\.?(?P<kind>\w*)\] .*? reading file (?P<path>\S+?)\.(?:\s|$)", re.S
)
_KEPT = 64

_lock = threading.Lock()
_numbers = itertools.count()
_failures: dict[int, TidegateError] = {}
_roots: dict[str, str] = {}
_original = captured.convert_exception
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
    module: Any = captured
    module.convert_exception = _converted


def _converted(exception: Any) -> Any:
    return translated(_text(exception)) or _original(exception)


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
    if found is None:
        return None
    path = found["path"]
    table = next((t for root, t in _roots.items() if path.startswith(root)), None)
    if table is None:
        return None
    if found["kind"] == "FILE_NOT_EXIST" or "FileNotFoundException" in text:
        return DataFileMissingError(
            "A data file that the log names is not there.",
            table=table,
            file=path,
            hint="VACUUM may have removed it too early; `tidegate verify` lists all that are missing.",
        )
    return DataFileCorruptError(
        f"A data file cannot be read: {_cause(text)}",
        table=table,
        file=path,
        hint="Restore the file from a backup, or delete the rows it held.",
    )


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
