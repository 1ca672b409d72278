"""The base of the tree: a message, where it happened, and what to do next."""

from __future__ import annotations

from typing import Any


class TidegateError(Exception):
    """The base of every error Tidegate raises on purpose."""

    code: str = "TIDEGATE"
    errorClass: str | None = None
    # Where in a statement it was found, both counted from one; set by what has read the statement.
    line: int | None = None
    column: int | None = None

    def __init__(
        self,
        message: str,
        *,
        table: str | None = None,
        version: int | None = None,
        file: str | None = None,
        hint: str | None = None,
        errorClass: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.table = table
        self.version = version
        self.file = file
        self.hint = hint
        if errorClass is not None:
            self.errorClass = errorClass

    def __str__(self) -> str:
        where = [
            f"{name} {value}"
            for name, value in (("table", self.table), ("version", self.version), ("file", self.file))
            if value is not None
        ]
        if self.line is not None:
            where.append(f"line {self.line}, column {self.column}")
        text = f"[{self.code}] {self.message}"
        if where:
            text += f" ({', '.join(where)})"
        if self.hint:
            text += f" {self.hint}"
        return text

    def at(
        self, *, table: str | None = None, version: int | None = None, file: str | None = None
    ) -> TidegateError:
        """This error with the places it does not name yet filled in."""
        self.table = self.table if self.table is not None else table
        self.version = self.version if self.version is not None else version
        self.file = self.file if self.file is not None else file
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.message, self.__dict__.copy()))


def _rebuild(cls: type[TidegateError], message: str, state: dict[str, Any]) -> TidegateError:
    error = cls.__new__(cls, message)
    Exception.__init__(error, message)
    error.__dict__.update(state)
    return error
