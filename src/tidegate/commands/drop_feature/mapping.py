"""Taking column mapping out of a table: files get the names that users see, the metadata forgets the rest.

One commit holds the new metadata and the rewritten files. Where the files have the right names already,
because mapping was switched on and nothing was ever renamed or dropped, no file is touched.
Specification: "Column Mapping".
"""

from __future__ import annotations

import pyarrow as pa

from tidegate import properties
from tidegate.commands import clustering
from tidegate.commands.drop_feature.removal import Estimate, Removal, Work
from tidegate.commands.removes import as_removes
from tidegate.errors import FeatureInUseError
from tidegate.log.actions import Action
from tidegate.log.snapshot import Snapshot
from tidegate.log.traces import MAPPING_METADATA, MAPPING_PROPERTIES
from tidegate.metadata import Metadata
from tidegate.schema.mapping import mapping_mode, physical_name
from tidegate.schema.names import names_to_map
from tidegate.transaction.pending import Operation

FEATURE = "columnMapping"


def plain(metadata: Metadata) -> Metadata:
    """The metadata of the same table without column mapping."""
    schema = metadata.schema.transform(lambda _, f: f.with_metadata(dict.fromkeys(MAPPING_METADATA)))
    kept = {k: v for k, v in metadata.configuration.items() if k not in MAPPING_PROPERTIES}
    return metadata.with_schema(schema).with_configuration(kept)


def _files_fit(metadata: Metadata) -> bool:
    """Whether every file can be read by the names that users see, and will be for ever.

    The ids say whether a column was dropped: its values are in the files still, and would come back
    with the next column of that name.
    """
    if mapping_mode(metadata) != "name":
        return False
    fields = [f for _, f in metadata.schema.walk()]
    if any(physical_name(f, "name") != f.name for f in fields):
        return False
    return metadata.property(properties.COLUMN_MAPPING_MAX_ID) <= len(fields)


def _to_rewrite(snapshot: Snapshot) -> pa.Table:
    metadata = snapshot.metadata
    if mapping_mode(metadata) == "none" or _files_fit(metadata):
        return snapshot.files(columns=["path", "size"]).slice(0, 0)
    return snapshot.files()


def check_names(snapshot: Snapshot) -> None:
    """Refuse names that only a table with column mapping can have."""
    bad = names_to_map(snapshot.schema)
    if bad:
        raise FeatureInUseError(
            f"Columns have names that need column mapping: {', '.join(bad)}.",
            table=snapshot.url,
            hint="Rename them first: without mapping a name has none of ' ,;{}()=', tabs and newlines.",
            errorClass="DELTA_INVALID_COLUMN_NAMES_WHEN_REMOVING_COLUMN_MAPPING",
        )


def in_use(snapshot: Snapshot) -> str | None:
    if mapping_mode(snapshot.metadata) != "none":
        return f"the mapping mode is {mapping_mode(snapshot.metadata)}"
    if plain(snapshot.metadata) != snapshot.metadata:
        return "columns have mapping metadata"
    return None


def prepare(work: Work) -> bool:
    transaction = work.begin()
    snapshot = transaction.snapshot
    assert snapshot is not None
    if in_use(snapshot) is None:
        return False
    check_names(snapshot)
    files = _to_rewrite(snapshot)
    rewrite = work.need_rewriter(files)
    new = plain(snapshot.metadata)
    transaction.update_metadata(new)
    actions: list[Action] = []
    if clustering.is_clustered(snapshot):
        actions.append(clustering.domain(new, clustering.clustering_columns(snapshot)))
    adds = removes = None
    if rewrite is not None:
        work.progress("rewriting files", 0, files.num_rows)
        transaction.read_table()
        adds = rewrite(transaction, files)
        removes = as_removes(files, work.log.clock(), data_change=False)
    work.committed(
        transaction.commit(actions, Operation("REMOVE COLUMN MAPPING"), adds=adds, removes=removes)
    )
    return True


def estimate(snapshot: Snapshot) -> Estimate:
    if in_use(snapshot) is None:
        return Estimate()
    check_names(snapshot)
    files = _to_rewrite(snapshot)
    first = "rewrite every file under the names that users see" if files.num_rows else "keep the files"
    return Estimate.rewriting(files, f"{first}, and take the mapping out of the metadata")


REMOVAL = Removal(FEATURE, prepare, estimate, in_use)
