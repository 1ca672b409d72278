"""The one put that makes a commit visible, and who won when the name was taken.

Put-if-absent decides. A put whose answer was lost may have succeeded: then the commit that is there is
our own, known by the transaction's id, and that is success, not a second commit.
"""

from __future__ import annotations

from tidegate.errors import NameTakenError, StorageError
from tidegate.log.reading import Commit, read_commits
from tidegate.log.table_log import TableLog
from tidegate.transaction.prepared import Prepared


def put(log: TableLog, prepared: Prepared, txn_id: str) -> list[Commit] | None:
    """Put the next version: None when it is ours, also if the answer was lost, else the winners."""
    dialect = log.dialect
    data = dialect.encode(prepared.encode(commit_info=dialect.commit_info))
    try:
        log.store.put_if_absent(log.commit_path(prepared.version), data)
        return None
    except NameTakenError:
        found = read_commits(log, prepared.version)
    except StorageError as e:
        # The bytes may have arrived although the answer did not: only the log can tell.
        if not _arrived(log, prepared.version, data, txn_id, e):
            raise
        return None
    return None if _is_ours(log, found, data, txn_id) else found


def _is_ours(log: TableLog, found: list[Commit], data: bytes, txn_id: str) -> bool:
    if not found or log.dialect.commit_info:
        return bool(found) and found[0][1].commit_info.get("txnId") == txn_id
    # Commits without an id are known by their bytes: the files they add have names that nobody repeats.
    return log.store.get(found[0][0].info.name) == data


def _arrived(log: TableLog, version: int, data: bytes, txn_id: str, error: StorageError) -> bool:
    """Whether the commit is there after all; where that cannot be known, ``error`` says so."""
    try:
        found = read_commits(log, version, limit=1)
    except StorageError:
        found = []
    if not found:
        # The store cannot be reached, or the put is still on its way.
        error.at(table=log.url, version=version)
        sign = f"its txnId is {txn_id}" if log.dialect.commit_info else "it holds your files"
        error.hint = (
            f"Whether version {version} is written is not known: look whether {sign} before you run the "
            "operation again."
        )
    return _is_ours(log, found, data, txn_id)
