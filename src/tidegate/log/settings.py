"""What the session of a log says of its commits and checkpoints; without one, the defaults.

Asked when a transaction begins, so that an illegal value is refused before any work, and again
wherever a checkpoint is written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Each field is named in ``spark.confs`` beside the conf that sets it."""

    # How often a commit that lost its version tries again.
    retries: int = 10_000_000
    # Whether a command that has nothing to say leaves no version.
    skips_empty: bool = True
    # Whether commits and checkpoints write the checksum of their version.
    checksum_files: bool = True
    # Whether ``_last_checkpoint`` carries a checksum of its own text.
    hint_checksum: bool = True
    # The most file actions in one file of a checkpoint; None: one file, sidecars of the usual size.
    part_size: int | None = None
    # The format of the top level of V2 checkpoints.
    top_level: str = "json"
    # How many columns a table may be clustered by.
    clustering_columns: int = 4
    # Whether NOT NULL inside arrays and maps, where nobody checks it, is left out instead of refused.
    unenforced_not_null: bool = False
    # Whether ALTER takes a column by its name in the very case alone.
    case_sensitive: bool = False


Asked = Callable[[], Settings]
