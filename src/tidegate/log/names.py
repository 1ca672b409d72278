"""The names of the files in a log directory, and what each of them is.

A name is parsed once, here; everything else asks for its ``kind`` and ``version``. Names this
module does not know are not an error: logs carry stray files, and readers ignore them.
Specification: the file table of "Delta Table Specification", sections on checkpoints and compaction.
Index tables have names of their own (``parse_index``): commits and JSON checkpoints only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

LAST_CHECKPOINT = "_last_checkpoint"
SIDECAR_DIR = "_sidecars"
STAGED_DIR = "_staged_commits"


class Kind(Enum):
    """What a file of the log is."""

    COMMIT = "commit"
    CLASSIC = "classic checkpoint"
    PART = "part of a multipart checkpoint"
    V2 = "V2 checkpoint"
    COMPACTION = "log compaction"
    CHECKSUM = "version checksum"
    JSON = "JSON checkpoint"
    JSON_PART = "part of a JSON checkpoint"


CHECKPOINT_KINDS = frozenset({Kind.CLASSIC, Kind.PART, Kind.V2, Kind.JSON})


@dataclass(frozen=True, slots=True)
class LogName:
    """One parsed name. ``end`` is the last version a compaction covers, else ``version``."""

    text: str
    kind: Kind
    version: int
    end: int
    part: int = 0
    parts: int = 0
    extension: str = "json"


_NAME = re.compile(
    r"(?P<version>\d{20})\.(?:"
    r"(?P<commit>json)"
    r"|(?P<crc>crc)"
    r"|checkpoint\.(?P<part>\d{10})\.(?P<parts>\d{10})\.parquet"
    r"|checkpoint\.(?P<uuid>[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})\.(?P<v2>json|parquet)"
    r"|(?P<classic>checkpoint\.parquet)"
    r"|(?P<end>\d{20})\.compacted\.json"
    r")",
    re.ASCII,
)
# Versions are signed 64-bit numbers; twenty digits could say more.
MAX_VERSION = 2**63 - 1


def parse(text: str) -> LogName | None:
    """What the file ``text`` (a bare name) is, or None for a stray file."""
    found = _NAME.fullmatch(text)
    if found is None:
        return None
    version = int(found["version"])
    if version > MAX_VERSION:
        return None
    if found["commit"]:
        return LogName(text, Kind.COMMIT, version, version)
    if found["crc"]:
        return LogName(text, Kind.CHECKSUM, version, version)
    if found["classic"]:
        return LogName(text, Kind.CLASSIC, version, version, extension="parquet")
    if found["part"]:
        part, parts = int(found["part"]), int(found["parts"])
        if not 1 <= part <= parts:
            return None
        return LogName(text, Kind.PART, version, version, part, parts, "parquet")
    if found["uuid"]:
        return LogName(text, Kind.V2, version, version, extension=found["v2"])
    end = int(found["end"])
    return LogName(text, Kind.COMPACTION, version, end) if version < end <= MAX_VERSION else None


_INDEX_NAME = re.compile(
    r"(?P<version>\d{20})\.(?:(?P<commit>json)|(?P<whole>checkpoint\.json)"
    r"|checkpoint\.(?P<id>[0-9a-f]{12})\.(?P<part>\d{5,10})\.json)",
    re.ASCII,
)


def parse_index(text: str) -> LogName | None:
    """What the file ``text`` of an index table's log is, or None for a stray file."""
    found = _INDEX_NAME.fullmatch(text)
    if found is None or int(found["version"]) > MAX_VERSION:
        return None
    version = int(found["version"])
    if found["commit"]:
        return LogName(text, Kind.COMMIT, version, version)
    if found["whole"]:
        return LogName(text, Kind.JSON, version, version)
    return LogName(text, Kind.JSON_PART, version, version, int(found["part"]))


def prefix(version: int) -> str:
    """The digits every file of ``version`` starts with: where to list from."""
    return f"{version:020d}"


def commit(version: int) -> str:
    return f"{version:020d}.json"


def checksum(version: int) -> str:
    return f"{version:020d}.crc"


def classic(version: int) -> str:
    return f"{version:020d}.checkpoint.parquet"


def part(version: int, number: int, parts: int) -> str:
    return f"{version:020d}.checkpoint.{number:010d}.{parts:010d}.parquet"


def v2(version: int, unique: str, extension: str) -> str:
    return f"{version:020d}.checkpoint.{unique}.{extension}"


def compaction(start: int, end: int) -> str:
    return f"{start:020d}.{end:020d}.compacted.json"


def json_checkpoint(version: int) -> str:
    return f"{version:020d}.checkpoint.json"


def json_part(version: int, unique: str, number: int) -> str:
    return f"{version:020d}.checkpoint.{unique}.{number:05d}.json"
