"""What ``verify`` says: findings, each with its place, and how much was looked at.

An error means that some reader would go wrong or be refused, now or in time travel; a warning means
that something optional is odd and readers get round it. Of one code only so many findings are kept:
a table without its data files is one fact, not a million.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from tidegate.errors import TidegateError

Severity = Literal["error", "warning"]
# Called with what is being done, how much of it is done, and how much there is (None: not known).
Progress = Callable[[str, int, int | None], None]

MAX_OF_A_CODE = 100


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, and where."""

    severity: Severity
    code: str
    message: str
    version: int | None = None
    file: str | None = None


@dataclass(slots=True)
class Checked:
    """How much was looked at. *Unproven* is what was read but had nothing to be compared with."""

    commits: int = 0
    file_actions: int = 0
    checkpoints: int = 0
    checkpoints_unproven: int = 0
    checksums: int = 0
    checksums_unproven: int = 0
    compactions: int = 0
    compactions_unproven: int = 0
    data_files: int = 0
    deletion_vectors: int = 0
    footers: int = 0
    # Versions whose protocol lost a feature: none of them leads anybody into what it left behind.
    drops: int = 0
    # Versions below the boundary of checkpoint protection that are still there.
    protected: int = 0


@dataclass(frozen=True)
class Report:
    """The outcome of one ``verify``."""

    table: str
    version: int
    findings: tuple[Finding, ...]
    checked: Checked

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.severity == "error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.severity == "warning")

    @property
    def ok(self) -> bool:
        """No errors. Warnings do not count."""
        return not self.errors


@dataclass
class Findings:
    """Findings as they come in: none twice, and not too many of one code."""

    log_dir: str
    kept: list[Finding] = field(default_factory=list)
    _seen: set[tuple[str, int | None, str | None, str]] = field(default_factory=set)
    _counts: Counter[tuple[Severity, str]] = field(default_factory=Counter)

    def error(self, code: str, message: str, version: int | None = None, file: str | None = None) -> None:
        self._add(Finding("error", code, message, version, self._bare(file)))

    def warning(self, code: str, message: str, version: int | None = None, file: str | None = None) -> None:
        self._add(Finding("warning", code, message, version, self._bare(file)))

    def raised(self, error: TidegateError, version: int | None = None, file: str | None = None) -> None:
        """An error that was raised, at the place it names or else the one given."""
        where = error.file if error.file is not None else file
        self.error(error.code, error.message, error.version if error.version is not None else version, where)

    def knows(self, error: TidegateError) -> bool:
        """Whether an error of this code is there, so that its consequences need not be told again."""
        return any(f.code == error.code and f.severity == "error" for f in self.kept)

    def _bare(self, file: str | None) -> str | None:
        return None if file is None else file.removeprefix(f"{self.log_dir}/")

    def _add(self, finding: Finding) -> None:
        key = (finding.code, finding.version, finding.file, finding.message)
        if key in self._seen:
            return
        self._counts[finding.severity, finding.code] += 1
        if self._counts[finding.severity, finding.code] <= MAX_OF_A_CODE:
            self._seen.add(key)
            self.kept.append(finding)

    def done(self) -> tuple[Finding, ...]:
        """Everything found, errors first, each kind by version; what was not kept is counted."""
        more = [
            Finding(severity, code, f"… and {count - MAX_OF_A_CODE} more of these.")
            for (severity, code), count in self._counts.items()
            if count > MAX_OF_A_CODE
        ]
        ordered = sorted(
            self.kept,
            key=lambda f: (f.severity, f.version if f.version is not None else 1 << 62, f.code, f.file or ""),
        )
        return (*ordered, *more)
