"""How often, and after which pause, an operation that failed in passing is tried again.

The pause doubles each time and is then drawn at random between nothing and that ("full jitter"), so
that writers who were turned away together do not come back together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """At most ``attempts`` tries; pauses grow from ``first`` to ``longest`` seconds."""

    attempts: int = 6
    first: float = 0.1
    longest: float = 10.0

    def pause(self, attempt: int, rng: Callable[[], float]) -> float:
        """Seconds to wait after the ``attempt``-th try (counted from 1) failed."""
        # The exponent is bounded because 2.0 ** 1024 overflows.
        return rng() * min(self.longest, self.first * 2.0 ** min(attempt - 1, 64))
