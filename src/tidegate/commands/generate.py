"""GENERATE: manifests for engines that read lists of files. No Spark is needed."""

from __future__ import annotations

from tidegate.errors import OptionError
from tidegate.log.snapshot import load
from tidegate.log.table_log import TableLog
from tidegate.transaction.manifests import write_manifests

MODE = "symlink_format_manifest"


def generate(log: TableLog, mode: str) -> int:
    """Write the manifests of the table as it is now; how many there are."""
    if mode.lower() != MODE:
        raise OptionError(
            f"There is no mode {mode!r} of GENERATE.",
            hint=f"The mode is {MODE}.",
            errorClass="DELTA_MODE_NOT_SUPPORTED",
        )
    return write_manifests(load(log))
