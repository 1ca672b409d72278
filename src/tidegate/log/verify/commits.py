"""Commits on their own: are they all there, and is each of them legal?

A commit is legal if no reader has to guess: at most one word on each thing, paths that stay inside
the table, a protocol that does not contradict itself, metadata that can be served and that the
protocol's features cover. Specification: "Actions", "Action Reconciliation", "In-Commit Timestamps".
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate import properties
from tidegate.errors import FileMissingError, InvalidCommitError, TidegateError
from tidegate.files.paths import refuse_outside
from tidegate.log import names
from tidegate.log import segment as segments
from tidegate.log.commits import CommitActions
from tidegate.log.replay import SmallState, check_commit
from tidegate.log.segment import Listing
from tidegate.log.table_log import TableLog
from tidegate.log.verify.report import Findings
from tidegate.protocol.feature import Registry
from tidegate.protocol.negotiate import assert_features_match
from tidegate.storage.store import Store


def listed(log: TableLog) -> Listing:
    """The whole log. A gap is looked at twice: a directory that grows while it is read may hide a name."""
    listing = log.listing()
    return log.listing() if missing(listing) else listing


def missing(listing: Listing) -> list[int]:
    """The versions without a commit between the first commit and the last version there is."""
    if not listing.commits:
        return []
    first, last = min(listing.commits), segments.latest(listing)
    return [v for v in range(first, last + 1) if v not in listing.commits]


def check_contiguous(listing: Listing, store: Store, log_dir: str, target: int, found: Findings) -> None:
    """Every version from the first commit on is there, and no checksum speaks of one that is not."""
    gaps = [v for v in missing(listing) if v <= target]
    for _, run in groupby(enumerate(gaps), key=lambda pair: pair[1] - pair[0]):
        gap = [v for _, v in run]
        what = f"version {gap[0]} is" if len(gap) == 1 else f"versions {gap[0]} to {gap[-1]} are"
        found.error(
            "VERSIONS_NOT_CONTIGUOUS",
            f"The log has a gap: the commit of {what} missing, older and newer ones are there.",
            gap[0],
            names.commit(gap[0]),
        )
    last = segments.latest(listing)
    if target < last:
        return
    for version in sorted(v for v in listing.checksums if v > last):
        if not _exists(store, f"{log_dir}/{names.commit(version)}"):
            found.error(
                "COMMIT_MISSING",
                f"There is a checksum of version {version}, but no commit: the newest commits were lost.",
                version,
                names.commit(version),
            )


def _exists(store: Store, name: str) -> bool:
    try:
        store.head(name)
    except FileMissingError:
        return False
    return True


# ---------------------------------------------------------------------------- one commit


def own_problems(actions: CommitActions, name: str, registry: Registry) -> Iterator[TidegateError]:
    """What is wrong with a commit whatever came before it."""
    try:
        check_commit(actions, name)
    except TidegateError as e:
        yield e
    for kind, batches in (("add", actions.adds), ("remove", actions.removes)):
        if not batches:
            continue
        try:
            refuse_outside(pa.chunked_array([b.column("path") for b in batches]))
        except TidegateError as e:
            yield e
        sizes = pa.chunked_array([b.column("size") for b in batches])
        if (pc.min(sizes).as_py() or 0) < 0:
            yield InvalidCommitError(f"An {kind} action has a negative size.")
    for protocol in actions.protocols:
        try:
            protocol.validate(registry.rules)
        except TidegateError as e:
            yield e


def problems_in_place(actions: CommitActions, small: SmallState, log: TableLog) -> Iterator[TidegateError]:
    """What is wrong with a commit in its place; ``small`` is the state that it makes."""
    protocol, metadata, registry = small.protocol, small.metadata, log.registry
    if metadata is not None and actions.metadata is not None:
        try:
            log.dialect.check_metadata(metadata)
        except TidegateError as e:
            yield e
    if protocol is not None and metadata is not None and (actions.metadata or actions.protocol):
        try:
            assert_features_match(protocol, metadata, registry)
        except TidegateError as e:
            yield e
    has_vectors = "deletionVector" in log.dialect.form.key
    if has_vectors and protocol is not None and not protocol.supports("deletionVectors", registry.rules):
        vectors = sum(len(v) - v.null_count for v in (b.column("deletionVector") for b in actions.adds))
        if vectors:
            yield InvalidCommitError(
                "A file carries a deletion vector, but the table's protocol lacks deletionVectors: a reader "
                "that does not know them would bring the deleted rows back."
            )


def time_problem(info: dict[str, Any], small: SmallState, before: int | None) -> InvalidCommitError | None:
    """In-commit timestamps: where a table keeps them every commit has one, above the one before."""
    if not keeps_time(small):
        return None
    own = info.get("inCommitTimestamp")
    if not isinstance(own, int):
        return InvalidCommitError("The table keeps in-commit timestamps, but this commit carries none.")
    if before is not None and own <= before:
        return InvalidCommitError(
            f"The commit's timestamp {own} is not after {before}, that of the commit before it."
        )
    return None


def keeps_time(small: SmallState) -> bool:
    if small.metadata is None:
        return False
    try:
        return bool(small.metadata.property(properties.ENABLE_IN_COMMIT_TIMESTAMPS))
    except TidegateError:
        return False
