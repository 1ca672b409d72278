"""``tidegate checkpoint``: write a checkpoint, so that the next reader need not replay the commits."""

from __future__ import annotations

from typing import Any

from tidegate.cli import screen
from tidegate.cli.failure import verb
from tidegate.cli.options import Dialect, Json, StorageOptions, Table, Verbose, Version, table_log
from tidegate.cli.patience import Patience
from tidegate.log.checkpoint.write import Written, write_checkpoint, write_checksum
from tidegate.log.names import Kind
from tidegate.log.snapshot import load

_FORMS = {Kind.V2: "V2", Kind.JSON: "JSON"}


@verb
def command(
    table: Table,
    version: Version = None,
    json: Json = False,
    dialect: Dialect = None,
    storage_option: StorageOptions = None,
    verbose: Verbose = False,
) -> int:
    """Write a checkpoint of the latest version.

    Or of --version N; and the checksum of that version, if there is none. The form, classic or V2, is the
    one that the table's property delta.checkpointPolicy asks for.
    """
    log = table_log(table, storage_option, dialect)
    with Patience("writing the checkpoint"):
        found = load(log, version)
        before = found.segment.checkpoint
        written = write_checkpoint(found)
        if found.checksum is None:
            write_checksum(found, written.checksum)
    facts = _facts(written, found.url, replaced=before is not None and before.key == written.checkpoint.key)
    if json:
        screen.document(facts)
    else:
        _show(facts)
    return 0


def _facts(written: Written, url: str, *, replaced: bool) -> dict[str, Any]:
    hint, checkpoint = written.hint, written.checkpoint
    return {
        "table": url,
        "version": checkpoint.version,
        "kind": _FORMS.get(checkpoint.kind, "classic"),
        "files": [f.name.text for f in checkpoint.files],
        "actions": hint.size,
        "numOfAddFiles": hint.num_files if hint.num_of_add_files is None else hint.num_of_add_files,
        "sizeInBytes": hint.size_in_bytes,
        "replaced": replaced,
    }


def _show(facts: dict[str, Any]) -> None:
    verb = "rewritten" if facts["replaced"] else "written"
    screen.line(f"The checkpoint of version {facts['version']} of {facts['table']} is {verb}.")
    screen.fields(
        [
            ("file", facts["files"]),
            ("form", facts["kind"]),
            ("live files", screen.number(facts["numOfAddFiles"])),
            ("actions", screen.number(facts["actions"])),
            ("size", screen.size(facts["sizeInBytes"])),
        ]
    )
