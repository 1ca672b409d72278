"""The options of reading and writing: known by name, without regard to case, checked before any work."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from tidegate.errors import OptionError

READ = frozenset(
    {
        "path",
        "versionAsOf",
        "timestampAsOf",
        "readChangeFeed",
        "startingVersion",
        "endingVersion",
        "startingTimestamp",
        "endingTimestamp",
    }
)
WRITE = frozenset(
    {
        "path",
        "mergeSchema",
        "overwriteSchema",
        "userMetadata",
        "txnAppId",
        "txnVersion",
        "dataChange",
        "maxRecordsPerFile",
        "compression",
        "partitionOverwriteMode",
        "replaceWhere",
        "tidegate.write.portable",
    }
)


class Options:
    """The options of one call."""

    def __init__(self, given: Mapping[str, str], known: frozenset[str]) -> None:
        canonical = {k.lower(): k for k in known}
        self._values: dict[str, str] = {}
        for key, value in given.items():
            name = canonical.get(key.lower())
            if name is None:
                near = difflib.get_close_matches(key.lower(), canonical, n=1, cutoff=0.75)
                if near:
                    raise OptionError(
                        f"There is no option {key}.", hint=f"Did you mean {canonical[near[0]]}?"
                    )
                continue
            self._values[name] = str(value)

    def get(self, name: str) -> str | None:
        return self._values.get(name)

    def flag(self, name: str, default: bool = False) -> bool:
        """A switch that is true or false."""
        text = self._values.get(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise OptionError(f"The option {name} is {text!r}; it is true or false.")
        return text.lower() == "true"

    def as_mapping(self) -> dict[str, str]:
        return dict(self._values)
