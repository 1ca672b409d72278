"""What a benchmark found: one row for each claim, shown as one table and kept as JSON.

A row sets our figure beside another one and says which ratio was asked for. Ratios count: absolute times
belong to the machine. ``tidegate`` is always the first of the two, so for times a ratio below one is good.
"""

from __future__ import annotations

import json
import operator
import os
import platform
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

# A quick try keeps its figures elsewhere, so that they never pass for real ones.
RESULTS = Path(os.environ.get("TIDEGATE_BENCH_RESULTS") or Path(__file__).resolve().parent / "results")
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    "==": operator.eq,
}


@dataclass(frozen=True)
class Limit:
    """What is asked of the ratio of our figure to the other: ``Limit("<=", 1.1)``."""

    sign: str
    ratio: float

    def holds(self, ours: float, other: float) -> bool:
        return _COMPARE[self.sign](ours, self.ratio * other)

    def __str__(self) -> str:
        return f"{self.sign} {self.ratio:g}"


@dataclass(frozen=True)
class Row:
    """One figure of ours beside another."""

    what: str
    tidegate: float
    against: float
    beside: str
    unit: str = "s"
    limit: Limit | None = None
    spread: str = ""

    @property
    def ratio(self) -> float | None:
        return self.tidegate / self.against if self.against else None

    @property
    def holds(self) -> bool | None:
        """Whether the limit is kept; None where nothing was asked for."""
        return self.limit.holds(self.tidegate, self.against) if self.limit else None

    def document(self) -> dict[str, Any]:
        """The row as it is kept."""
        limit = str(self.limit) if self.limit else None
        return {**asdict(self), "limit": limit, "ratio": self.ratio, "holds": self.holds}


def spread(values: Iterable[float]) -> str:
    """The smallest and the largest, in words."""
    found = sorted(values)
    return f"{found[0]:.3f}-{found[-1]:.3f}"


def save(part: str, rows: list[Row], *, packages: tuple[str, ...] = (), **more: Any) -> Path:
    """Keep what one part found as ``results/<part>.json``."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    out = RESULTS / f"{part}.json"
    document = {
        "part": part,
        "machine": {"system": platform.system(), "python": platform.python_version()},
        "versions": _versions(packages),
        "rows": [row.document() for row in rows],
        **more,
    }
    out.write_text(json.dumps(document, indent=1) + "\n")
    return out


def show(documents: Iterable[dict[str, Any]]) -> str:
    """One table of everything that was found."""
    lines = [f"{'what':58} {'tidegate':>14} {'against':>14}  {'beside':18} {'ratio':>9}  {'asked':8} holds"]
    for document in documents:
        lines.append(f"-- {document['part']}")
        lines.extend(_line(row) for row in document["rows"])
    return "\n".join(lines)


def _line(row: dict[str, Any]) -> str:
    ours, other = (_figure(row[key], row["unit"]) for key in ("tidegate", "against"))
    ratio = "" if row["ratio"] is None else f"{row['ratio']:.4g}"
    verdict = {True: "yes", False: "NO", None: ""}[row["holds"]]
    return (
        f"{row['what']:58} {ours:>14} {other:>14}  {row['beside']:18} {ratio:>9}  {row['limit'] or '':8} "
        f"{verdict:5} {row['spread']}".rstrip()
    )


def _figure(value: float, unit: str) -> str:
    return f"{value:,.4f} s" if unit == "s" else f"{value:,.0f} {unit}".rstrip()


def _versions(packages: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "absent"
    return found
