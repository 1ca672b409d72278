"""The settings of one call on an index table: its options, then the session's confs, then the defaults.

Every key is written ``spark.indextables.X``; in a call's options the prefix may be left out. Keys are
taken in any case; the part of a key that names a column is resolved later, against the schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tidegate.errors import OptionError

PREFIX = "spark.indextables."
_SIZE = re.compile(r"(\d+)\s*([kmgt]?)i?b?", re.IGNORECASE)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


class Settings:
    """What a caller asked for, by the keys without their prefix."""

    def __init__(
        self, options: Mapping[str, str] | None = None, conf: Mapping[str, str] | None = None
    ) -> None:
        self._options = {_bare(k): str(v) for k, v in (options or {}).items()}
        inherited = {_bare(k): str(v) for k, v in (conf or {}).items() if k.lower().startswith(PREFIX)}
        self._values = {**inherited, **self._options}

    def as_options(self) -> dict[str, str]:
        """All of them under their full keys, as another part of the engine takes them."""
        return {PREFIX + k: v for k, v in self._values.items()}

    def get(self, key: str) -> str | None:
        return self._values.get(key.lower())

    def flag(self, key: str, default: bool) -> bool:
        text = self.get(key)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise OptionError(f"The option {PREFIX}{key} is {text!r}; it is true or false.")
        return text.lower() == "true"

    def number(self, key: str, default: int, *, least: int = 0) -> int:
        text = self.get(key)
        if text is None:
            return default
        if not text.strip().isdecimal() or int(text) < least:
            raise OptionError(f"The option {PREFIX}{key} is {text!r}; it is a whole number from {least} on.")
        return int(text)

    def size(self, key: str, default: int) -> int:
        """A number of bytes, such as 100M."""
        text = self.get(key)
        return default if text is None else parse_size(text, PREFIX + key)

    def names(self, key: str) -> list[str]:
        """A list of columns, with commas between them."""
        return split_names(self.get(key) or "")

    def below(self, prefix: str) -> Iterator[tuple[str, str]]:
        """The rest of every key that begins with ``prefix``, and its value."""
        prefix = prefix.lower() + "."
        for key, value in self._values.items():
            if key.startswith(prefix):
                yield key[len(prefix) :], value


def parse_size(text: str | int, what: str) -> int:
    """``512``, ``100M`` or ``1 GiB`` as a number of bytes."""
    found = _SIZE.fullmatch(str(text).strip())
    if found is None:
        raise OptionError(f"{what} is {text!r}; it is a size such as 100M or 1G.")
    return int(found[1]) * _UNITS[found[2].lower()]


def split_names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _bare(key: str) -> str:
    return key.lower().removeprefix(PREFIX)
